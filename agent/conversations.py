"""Conversations by a path: ``./chats/task-001.jsonl`` is a store of one chat. The folder of that name is its root; nothing stands beside it.

chat = await agent.new_conversation("./chats/task-001.jsonl")     # or a Path
chat = await agent.load_conversation("./chats/task-001.jsonl")    # in another process
fork = await agent.fork_conversation("./elsewhere/retry.jsonl", at="before-tools")
"""

from pathlib import Path

from chatfold.agent.chat import Chat, Point
from chatfold.agent.store import Store
from chatfold.eventlog import ChatExists


def path_of(where: Path | str) -> Path | None:
    """The path that is meant; None for the key of a chat in the agent's own store.

    A string is a path if it has a separator or ends in ``.jsonl``.
    """
    if isinstance(where, Path):
        return where.absolute()
    return Path(where).absolute() if "/" in where or where.endswith(".jsonl") else None


def key_of(path: Path) -> str:
    """The key of the one chat in the store at this path."""
    return path.name.removesuffix(".jsonl")


def refuse_file(path: Path) -> None:
    """Raises ``ChatExists`` if a file of this name is in the way of the store's folder."""
    if path.is_file():
        raise ChatExists(
            "this is a file, and a conversation is a folder of that name: import it with store.import_chat(path, key)",
            path=path,
        )


async def fork_into(chat: Chat, store: Store, key: str, at: Point | None) -> Chat:
    """A fork in another store, with its lineage. The chat's own store is not written."""
    seq = chat.seq if at is None else await chat.seq_of(at)
    async with Store.memory() as scratch:
        copy = await scratch.import_chat(chat, chat.key)
        fork = await copy.fork(key if key != chat.key else f"{key} fork", seq)
        return await store.import_chat(fork, key)
