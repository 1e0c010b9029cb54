"""A stamp is another one whenever the log is, and the same while it is only looked at."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chatfold.eventlog import (
    FileStorage,
    Log,
    MemoryStorage,
    MessageAdded,
    Noted,
    Storage,
    Text,
    check,
    repair,
)
from chatfold.eventlog.events import Head
from chatfold.testing.strategies import LARGE_TEXT, LONG_TEXTS
from tests.support.clock import TickingClock
from tests.support.exporting import TINY, adopt
from tests.support.listing import settle, tokens

KEYS = ("a", "A/\ud800", "too long for a folder " * 10)


def files(root: Path) -> Log:
    return Log(FileStorage(root, clock=TickingClock(), segment_bytes=2000))


async def stamp(storage: Storage, chat: str = "chat") -> str | None:
    await settle()
    return (await tokens(storage)).get(chat)


async def talk(log: Log, count: int = 30) -> None:
    for number in range(count):
        await log.append(
            "chat", MessageAdded("user", (Text(f"the {number}. question {LONG_TEXTS[0][:300]}"),))
        )


# --- another one -----------------------------------------------------------------------------------------


async def append(log: Log, root: Path) -> None:
    await log.append("chat", Noted("n"))


async def append_lazily(log: Log, root: Path) -> None:
    await log.append("chat", Noted("n"), durability="off")


async def append_what_is_a_blob(log: Log, root: Path) -> None:
    await log.append("chat", Noted("n", LARGE_TEXT))


async def roll(log: Log, root: Path) -> None:
    await talk(log, 10)


async def erase_in_a_full_segment(log: Log, root: Path) -> None:
    await log.storage.redact("chat", [2])  # and no event says so


async def erase_in_the_last_segment(log: Log, root: Path) -> None:
    await log.storage.redact("chat", [(await log.head("chat")).seq])


async def delete_and_say_the_same(log: Log, root: Path) -> None:
    await log.delete("chat")
    log.storage._clock = TickingClock()  # type: ignore[attr-defined]
    await talk(log)


async def delete_and_adopt(log: Log, root: Path) -> None:
    await log.delete("chat")
    await adopt(log.storage, "chat", TINY)


async def write_from_another_storage(log: Log, root: Path) -> None:
    async with files(root) as other:
        await other.append("chat", Noted("n"))


async def erase_from_another_storage(log: Log, root: Path) -> None:
    async with files(root) as other:
        await other.storage.redact("chat", [2])


async def mend(log: Log, root: Path) -> None:
    await asyncio.to_thread(_break_and_mend, root / "chats" / "chat")


def _break_and_mend(folder: Path) -> None:
    """In the same bytes, so that breaking alone changes no size."""
    segment = min(folder.glob("*.jsonl"))
    content = segment.read_bytes()
    when = segment.stat()
    segment.write_bytes(content.replace(b"question", b"Question", 1))
    os.utime(segment, ns=(when.st_atime_ns, when.st_mtime_ns))
    assert not check(folder).ok
    assert repair(folder).lost == [1]


Change = Callable[[Log, Path], Awaitable[None]]
CHANGES: list[Change] = [
    append,
    append_lazily,
    append_what_is_a_blob,
    roll,
    erase_in_a_full_segment,
    erase_in_the_last_segment,
    delete_and_say_the_same,
    delete_and_adopt,
    write_from_another_storage,
    erase_from_another_storage,
    mend,
]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_stamp_changes_with_the_log(root: Path, change: Change) -> None:
    async with files(root) as log:
        await talk(log)
        await log.append("other", Noted("n"))
        others = await stamp(log.storage, "other")
        seen = [await stamp(log.storage)]
        for _ in range(1 if change is mend else 3):
            await change(log, root)
            seen.append(await stamp(log.storage))
            assert await stamp(log.storage) == seen[-1]
        assert len(set(seen)) == len(seen)
        assert None not in seen
        assert await stamp(log.storage, "other") == others


MEMORY = [
    append,
    append_lazily,
    roll,
    delete_and_adopt,
    erase_in_the_last_segment,
]


@pytest.mark.parametrize("change", MEMORY)
async def test_a_stamp_changes_with_the_log_in_memory_too(root: Path, change: Change) -> None:
    log = Log(MemoryStorage(clock=TickingClock()))
    await talk(log)
    seen = await stamp(log.storage)
    await change(log, root)
    assert await stamp(log.storage) not in (seen, None)


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_every_chat_has_a_stamp_and_a_fork_its_own(root: Path, kind: str) -> None:
    # Of short chats. At the end of a long one a fork ends the parent's segment, which gives the same log another stamp.
    log = Log(FileStorage(root)) if kind == "files" else Log(MemoryStorage())
    async with log:
        assert await tokens(log.storage) == {}
        for key in KEYS:
            await log.append(key, Noted("n"))
        assert sorted(await tokens(log.storage)) == sorted(KEYS)
        await settle()
        before = await tokens(log.storage)
        await log.fork("a", "fork")
        after = await tokens(log.storage)
        assert {key: value for key, value in after.items() if key != "fork"} == before
        await log.append("fork", Noted("own"))
        assert await stamp(log.storage, "fork") != after["fork"]
        assert await stamp(log.storage, "a") == before["a"]
        await log.delete("a")
        assert await stamp(log.storage, "a") is None


# --- the same --------------------------------------------------------------------------------------------


async def read(log: Log) -> None:
    [entry async for entry in log.read("chat")]
    [entry async for entry in log.read_back("chat")]
    await log.last("chat", 3)


async def read_in_the_middle(log: Log) -> None:
    [entry async for entry in log.spans("chat", [(7, 9), (2, 3)])]


async def search(log: Log) -> None:
    assert await log.search("chat", "question")


async def keep(log: Log) -> None:
    await log.storage.store_snapshot("chat", await log.head("chat"), b"a snapshot")


async def keep_at_a_border(log: Log) -> None:
    border = (await log.storage.segment_boundaries("chat"))[0]
    await log.storage.store_snapshot("chat", Head(border, "0" * 16), b"a snapshot")


async def export(log: Log) -> None:
    [piece async for piece in log.storage.export("chat")]


Look = Callable[[Log], Awaitable[None]]
LOOKS: list[Look] = [read, read_in_the_middle, search, keep, keep_at_a_border, export]


@pytest.mark.parametrize("caches", [True, False])
@pytest.mark.parametrize("look", LOOKS)
async def test_a_stamp_stays_while_the_chat_is_only_looked_at(root: Path, look: Look, caches: bool) -> None:
    async with files(root) as log:
        await talk(log)
    if not caches:
        shutil.rmtree(root / "chats" / "chat" / "cache")
    async with files(root) as log:
        before = await stamp(log.storage)
        await look(log)
        assert await stamp(log.storage) == before


@pytest.mark.parametrize("look", LOOKS)
async def test_a_stamp_stays_in_memory_too(look: Look) -> None:
    log = Log(MemoryStorage())
    for _ in range(5_000 if look is keep_at_a_border else 30):
        await log.append("chat", MessageAdded("user", (Text("a question"),)))
    before = await stamp(log.storage)
    await look(log)
    assert await stamp(log.storage) == before
