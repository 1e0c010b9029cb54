"""A list of all chats of a store that was listed before, next to the looks at the same files, done bare."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, sleep

from benchmarks.eventlog_store import remove
from benchmarks.measure import Row, at_most, compared, interleave, progress
from chatfold.agent import Store
from chatfold.eventlog import ChatStarted, FileStorage, Log, MessageAdded, Text
from chatfold.eventlog.files.segment import segment_name

_LIST = "list"
_LOOK = "scandir and two stats a chat"
_GROUP = 100
_TICK_S = 0.1  # what changed just now is not believed


def rows(folder: Path, rounds: int, chats: int) -> Iterator[Row]:
    progress(f"list {chats:,} chats")
    root = folder / "listing"
    asyncio.run(_build(root, chats))
    sleep(_TICK_S)
    asyncio.run(_list(root, chats))
    samples = interleave(
        rounds, {_LIST: lambda: asyncio.run(_list(root, chats)), _LOOK: lambda: _look(root, chats)}
    )
    yield compared(f"list of {chats:,} chats, none changed", "s", samples, _LIST, _LOOK, at_most(4))
    remove(root)


async def _build(root: Path, chats: int) -> None:
    async with Log(FileStorage(root, durability="off")) as log:
        for first in range(0, chats, _GROUP):
            keys = [
                f"user-{number % 50}/chat-{number}" for number in range(first, min(first + _GROUP, chats))
            ]
            await asyncio.gather(*(log.append(key, *_talk(key)) for key in keys))


def _talk(key: str) -> tuple[ChatStarted, MessageAdded, MessageAdded]:
    question = MessageAdded("user", (Text("Why does the lexer drop newlines? " * 4),))
    answer = MessageAdded("assistant", (Text("Because of split(). " * 8),))
    return ChatStarted(key, "The lexer", {"user": key.partition("/")[0]}), question, answer


async def _list(root: Path, chats: int) -> float:
    """As a process does that has just begun: what was kept is read from its file."""
    start = perf_counter()
    async with Store(root) as store:
        found = [one async for one in store.chats()]
        elapsed = perf_counter() - start
    assert len(found) == chats
    return elapsed


def _look(root: Path, chats: int) -> float:
    start = perf_counter()
    sizes = [
        os.stat(f"{entry.path}/{segment_name(1)}").st_size + entry.stat().st_size  # noqa: PTH116 (bare)
        for entry in os.scandir(root / "chats")
    ]
    elapsed = perf_counter() - start
    assert len(sizes) == chats
    return elapsed
