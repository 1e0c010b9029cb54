"""Conversations: an agent's chats by a key or by a path, one of which is the current one.

    chat = await agent.new_conversation("./chats/task-001.jsonl")     # or a Path
    chat = await agent.load_conversation("./chats/task-001.jsonl")    # in another process
    fork = await agent.fork_conversation("./elsewhere/retry.jsonl", at="before-tools")

A path is a store of one chat: the folder of that name is its root, and nothing stands beside it.
"""

from pathlib import Path
from types import NoneType

from chatfold.agent.chat import Chat, Point
from chatfold.agent.checks import check
from chatfold.agent.messages import new_id
from chatfold.agent.store import Store
from chatfold.eventlog import ChatExists, NoSuchChat


class Conversations:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.conversation: Chat | None = None  # the one that was made, loaded or forked last
        self._stores: dict[Path, Store] = {}  # of conversations that were given as paths

    async def new_conversation(self, where: Path | str) -> Chat:
        """Begins a conversation: it is the current one now. Raises ``ChatExists`` if there is one.

        ``where``: a path, ``./chats/task-001.jsonl``, which becomes a store of this one chat, or a key in the agent's store. A string
        is a path if it has a separator or ends in ``.jsonl``.
        """
        store, key = self._place(where)
        chat = await store.chat(key)
        if chat.seq:
            raise ChatExists("there is a conversation of this key already", chat=key)
        self.conversation = chat
        return chat

    async def load_conversation(self, where: Path | str) -> Chat:
        """Takes up a conversation again: it is the current one now. Raises ``NoSuchChat`` if there is none."""
        store, key = self._place(where)
        chat = await store.chat(key)
        if not chat.seq:
            raise NoSuchChat("there is no such conversation", chat=key)
        self.conversation = chat
        return chat

    async def fork_conversation(self, where: Path | str, *, at: Point | None = None) -> Chat:
        """Goes on with the current conversation elsewhere, from ``at`` or from its end; the original stays as it is."""
        current = self.conversation
        if current is None:
            raise NoSuchChat("there is no conversation to fork: make or load one first")
        store, key = self._place(where)
        if store.log is current.log:
            self.conversation = await current.fork(key, at)
        else:
            self.conversation = await _fork_into(current, store, key, at)
        return self.conversation

    async def _chat(self, chat: str | Chat | None) -> Chat:
        """None: the current conversation, a new one if there is none."""
        check("chat", chat, str, Chat, NoneType, expected="the key of a chat, or a Chat")
        if chat is None:
            return self.conversation or await self.new_conversation(new_id("chat"))
        return await self.store.chat(chat) if isinstance(chat, str) else chat

    def _place(self, where: Path | str) -> tuple[Store, str]:
        """The store, and the key in it."""
        if isinstance(where, str) and "/" not in where and not where.endswith(".jsonl"):
            return self.store, where
        path = Path(where).absolute()
        if path not in self._stores:
            if path.is_file():
                raise ChatExists(
                    "this is a file, and a conversation is a folder of that name: import it with store.import_chat(path, key)",
                    path=path,
                )
            self._stores[path] = Store(path)
        return self._stores[path], path.name.removesuffix(".jsonl")


async def _fork_into(chat: Chat, store: Store, key: str, at: Point | None) -> Chat:
    """A fork in another store, with its lineage. There are no files to share; the chat's own store is not written."""
    seq = chat.seq if at is None else await chat.seq_of(at)
    async with Store.memory() as scratch:
        copy = await scratch.import_chat(chat, chat.key)
        fork = await copy.fork(key if key != chat.key else f"{key} fork", seq)
        return await store.import_chat(fork, key)
