"""Conversations: an agent's chats by a key or by a path, one of which is the current one."""

from pathlib import Path

from chatfold.agent.chat import Chat, Point
from chatfold.agent.store import Store
from chatfold.eventlog import ChatExists, NoSuchChat


class Conversations:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.conversation: Chat | None = None  # the one that was made, loaded or forked last
        self._stores: dict[Path, Store] = {}  # of conversations that were given as paths

    async def new_conversation(self, where: Path | str) -> Chat:
        """``where``: a key in the agent's store, or a path, ``chats/task-001``, in a store of its own in ``chats``."""
        store, key = self._place(where)
        chat = await store.chat(key)
        if chat.seq:
            raise ChatExists("there is a conversation of this key already", chat=key)
        self.conversation = chat
        return chat

    async def load_conversation(self, where: Path | str) -> Chat:
        store, key = self._place(where)
        chat = await store.chat(key)
        if not chat.seq:
            raise NoSuchChat("there is no such conversation", chat=key)
        self.conversation = chat
        return chat

    async def fork_conversation(self, where: Path | str, *, at: Point | None = None) -> Chat:
        """The current conversation, gone on with elsewhere; the original stays as it is."""
        current = self.conversation
        if current is None:
            raise NoSuchChat("there is no conversation to fork: make or load one first")
        store, key = self._place(where)
        if store.log is current.log:
            self.conversation = await current.fork(key, at)
        else:  # a fork shares its parent's files; between two stores there are none to share
            if at is not None:
                raise ValueError("a conversation is forked at an earlier point within its own store")
            self.conversation = await store.import_chat(current, key)
        return self.conversation

    def _place(self, where: Path | str) -> tuple[Store, str]:
        if isinstance(where, str):
            return self.store, where
        folder = where.parent.absolute()
        return self._stores.setdefault(folder, Store(folder)), where.name.removesuffix(".jsonl")
