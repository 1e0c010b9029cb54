"""chatfold on PostgreSQL, used as its peers are: a store, an open chat for each key, a recorded message."""

from chatfold.agent import Chat, user
from chatfold.agent import Store as Chats
from chatfold.eventlog import MessageAdded, Text


class Store:
    def __init__(self, dsn: str) -> None:
        self.store = Chats(f"{dsn}?schema=peer")
        self.chats: dict[str, Chat] = {}

    @classmethod
    async def open(cls, dsn: str) -> "Store":
        return cls(dsn)

    async def append(self, chat: str, texts: list[str]) -> None:
        if chat not in self.chats:
            self.chats[chat] = await self.store.chat(chat)
        await self.chats[chat].record(*map(user, texts))

    async def last(self, chat: str, count: int) -> list[str]:
        events = [entry.event for entry in await self.store.log.last(chat, count)]
        parts = [event.parts[0] for event in events if isinstance(event, MessageAdded)]
        return [part.text for part in parts if isinstance(part, Text)]

    async def close(self) -> None:
        await self.store.close()
