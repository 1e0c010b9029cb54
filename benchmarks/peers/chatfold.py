"""chatfold, as an embedder uses it: ``Store``, ``Chat``, and one ``record`` a turn.

A summary is a compaction, so the prompt of the next call needs no counting: ``messages`` knows where it begins.
Relaxed is ``durability="normal"``: synced in the background within 250 ms. ``log``: the event log alone, without the views that a
``Chat`` keeps up with every append; the difference is what these cost.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from benchmarks.conversation import SUMMARY, Message, is_summary
from benchmarks.workload import event_of, message_of
from chatfold.agent import Chat, Policy
from chatfold.agent import Store as Chats
from chatfold.eventlog import Compacted, Entry, Event, scan
from chatfold.eventlog.files.chat_dir import chat_path

RELAXED = ("", "log")
_GROUP = 128  # turns that are on their way to the disk at the same time, when a long chat is built


def native(message: Message) -> Event:
    """Which entries a summary hides is told when it is appended."""
    return (
        Compacted(1, 0, 0, message["content"][len(SUMMARY) :]) if is_summary(message) else event_of(message)
    )


def plain(item: Entry | Message) -> Message:
    match item:
        case Entry(event=Compacted(summary=summary)):
            return {"role": "assistant", "content": SUMMARY + summary}
        case Entry():
            return message_of(item.event)
    return item


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        assert setting in STORES
        self.place = place
        self.store = Chats(place, durability="full" if durable else "normal")
        self.chats: dict[str, Chat] = {}

    async def chat(self, key: str) -> Chat:
        if key not in self.chats:
            self.chats[key] = await self.store.chat(key)
        return self.chats[key]

    async def ready(self, chat: str) -> None:
        await self.chat(chat)

    async def append(self, chat: str, items: list[Event]) -> None:
        here = await self.chat(chat)
        if type(items[0]) is Compacted:  # a turn by itself
            items = [_hiding(items[0], here.seq)]
        await here.record(*items)

    async def build(self, chat: str, turns: Iterable[list[Event]]) -> None:
        """And opened once, so that its caches are what a user's are."""
        stream, seq = iter(turns), 0
        while group := list(islice(stream, _GROUP)):
            events = []
            for turn in group:
                events.append([_hiding(event, seq + at) for at, event in enumerate(turn)])
                seq += len(turn)
            await asyncio.gather(*(self.store.log.append(chat, *turn, durability="off") for turn in events))
        self.chats[chat] = await self.store.chat(chat)
        await self.chats[chat].messages()
        assert self.chats[chat].seq == seq

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Message]:
        """What the model is sent, from the last summary on; ``count`` is what others need to be told."""
        here = await self.chat(chat)
        moment = here if upto is None else await here.at(upto)
        messages: list[Message] = await moment.messages("openai")
        assert len(messages) == count
        return messages

    async def replay(self, chat: str) -> Iterator[Entry]:
        return scan(chat_path(self.place, chat))

    async def fork(self, chat: str, new: str, at: int) -> None:
        self.chats[new] = await (await self.chat(chat)).fork(new, at)

    async def forget(self, new: str) -> None:
        del self.chats[new]
        await self.store.delete(new)

    async def compact(self, chat: str, summary: Message, keep: int) -> list[Message]:
        here = await self.chat(chat)
        text = summary["content"][len(SUMMARY) :]
        await here.compact(Policy(keep=keep, budget=None, summary=10_000), summarise=lambda _: text)
        return await here.messages("openai")

    async def search(self, chat: str, text: str) -> int:
        return len(await (await self.chat(chat)).search(text, limit=20, everything=True))

    async def switch(self, chat: str) -> list[Message]:
        here = await self.chat(chat)
        await here.new_context("something else")
        await here.load_context(context_id="main")
        return await here.messages("openai")

    async def close(self) -> None:
        await self.store.close()


class LogAlone(Store):
    async def ready(self, chat: str) -> None:
        pass

    async def append(self, chat: str, items: list[Event]) -> None:
        await self.store.log.append(chat, *items)


STORES = {"": Store, "log": LogAlone}


def _hiding(event: Event, upto: int) -> Event:
    if not isinstance(event, Compacted):
        return event
    return Compacted(1, upto, upto, event.summary, "count")
