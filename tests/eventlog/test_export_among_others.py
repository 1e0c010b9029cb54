"""Exporting and adopting among others who write, and on a disk that fails: all of it, or nothing."""

import asyncio
import errno
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from chatfold.eventlog import (
    ChatDeleted,
    ChatExists,
    ChatfoldError,
    Entry,
    InvalidKey,
    NoSuchChat,
    Noted,
    ReadOnly,
    check,
    scan,
)
from chatfold.eventlog.files.disk import Disk
from chatfold.testing.strategies import same_entries
from tests.support.disk.faulty_disk import CHANGING, FailingDisk, SmallDisk
from tests.support.exporting import (
    LARGE,
    TINY,
    adopt,
    blob_line,
    exported,
    forged,
    leftovers,
    noted,
    opened,
    read,
    scratch,
    traces,
)
from tests.support.judges.talk import digest_of, ids_in
from tests.support.processes.children import go, started


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch() as path:
        yield path


# --- while others write ---------------------------------------------------------------------------------------


def test_an_export_made_while_a_process_appends_is_a_whole_prefix(root: Path) -> None:
    async def copies() -> list[list[Entry]]:
        found: list[list[Entry]] = []
        async with opened("files", root, read_only=True) as log, opened("memory", root) as copy:
            while len(found) < 40 and (len(found) < 3 or not _is_complete(found[-1])):
                with suppress(NoSuchChat):
                    await adopt(copy.storage, str(len(found)), await exported(log.storage, "chat"))
                    found.append(await read(copy, str(len(found))))
        return found

    with started("appending", root, "chat", "w", "off", 100_000, APPENDS) as child:
        go(child)
        found = asyncio.run(copies())
        assert child.wait(30) == 0
    last = list(scan(root / "chats" / "chat"))
    for entries in found:
        ids_in(entries)  # whole batches
        assert same_entries(entries, last[: len(entries)], sums=True)


APPENDS = 40


def _is_complete(entries: list[Entry]) -> bool:
    return len([entry for entry in entries if entry.id]) == APPENDS


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_what_is_appended_after_an_export_began_is_not_in_it(root: Path, kind: str) -> None:
    async with opened(kind, root) as log:
        for number in range(200):
            await log.append("chat", Noted("n", number), durability="off")
        before = await exported(log.storage, "chat")
        export = log.storage.export("chat")
        begun = [await anext(export), await anext(export)]
        await log.append("chat", Noted("later"), LARGE)
        assert b"".join(begun + [piece async for piece in export]) == before


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_a_key_that_is_taken_is_refused_and_its_chat_is_left_alone(root: Path, kind: str) -> None:
    async with opened(kind, root) as log:
        await log.append("chat", Noted("mine"))
        before = await exported(log.storage, "chat")
        with pytest.raises(ChatExists):
            await adopt(log.storage, "chat", TINY)
        assert await exported(log.storage, "chat") == before
        assert [chat async for chat in log.chats()] == ["chat"]
        assert not leftovers(root)


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_of_many_adopts_of_one_key_at_once_exactly_one_wins(root: Path, kind: str) -> None:
    exports = [forged(*[noted(b'"data":%d' % number)] * 30) for number in range(5)]
    async with opened(kind, root) as one, opened(kind, root) as two:
        logs = [one, two if kind == "files" else one]
        outcomes = await asyncio.gather(
            *(
                adopt(logs[number % 2].storage, "chat", data, range(0, len(data), 99))
                for number, data in enumerate(exports)
            ),
            return_exceptions=True,
        )
        won = [data for data, outcome in zip(exports, outcomes, strict=True) if outcome is None]
        assert sorted(map(type, outcomes), key=str) == [type(None), *[ChatExists] * 4]
        assert [await exported(one.storage, "chat")] == won
        assert not leftovers(root)


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_what_is_erased_while_an_export_is_made_does_not_break_it(root: Path, kind: str) -> None:
    async with opened(kind, root) as log, opened("memory", root) as copy:
        for number in range(2_000):
            await log.append("chat", Noted("n", [number, "x" * 200]), durability="off")
        await log.append("chat", LARGE)
        export = log.storage.export("chat")
        begun = [await anext(export), await anext(export)]
        await log.redact("chat", 2_001)
        data = b"".join(begun + [piece async for piece in export])
        await adopt(copy.storage, "chat", data)
        assert len(await read(copy, "chat")) == 2_001


async def test_a_chat_that_is_deleted_while_it_is_exported_is_told_as_such(root: Path) -> None:
    async with opened("files", root) as log:
        for number in range(2_000):
            await log.append("chat", Noted("n", [number, "x" * 200]), durability="off")
        export = log.storage.export("chat")
        await anext(export)
        await log.delete("chat")
        with pytest.raises(ChatDeleted):
            [piece async for piece in export]


class Racing(Disk):
    """A thread is about to give the folder its name when the adopt is cancelled."""

    def __init__(self) -> None:
        self.naming, self.removing = threading.Event(), threading.Event()

    def rename(self, old: Path, new: Path) -> None:
        if old.name.startswith(".new-"):
            self.naming.set()
            self.removing.wait(0.3)
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if path.suffix == ".jsonl":
            self.removing.set()
            time.sleep(0.05)


async def test_a_cancelled_adopt_leaves_nothing_or_all_of_it(root: Path) -> None:
    disk = Racing()
    async with opened("files", root, disk=disk) as log:
        adopting = asyncio.create_task(adopt(log.storage, "chat", EXPORT))
        assert await asyncio.to_thread(disk.naming.wait, 10)
        adopting.cancel()
        with suppress(asyncio.CancelledError):
            await adopting
        await asyncio.sleep(0.2)
        assert not leftovers(root)
        if [chat async for chat in log.chats()]:
            assert await exported(log.storage, "chat") == EXPORT


@pytest.mark.parametrize("key", ["", 7])
@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_a_key_that_names_no_chat_is_refused(root: Path, kind: str, key: Any) -> None:
    async with opened(kind, root) as log:
        with pytest.raises(InvalidKey):
            await adopt(log.storage, key, TINY)
        with pytest.raises(NoSuchChat):
            await exported(log.storage, "nobody")


async def test_a_read_only_storage_exports_and_adopts_nothing(root: Path) -> None:
    async with opened("files", root) as log:
        await adopt(log.storage, "chat", TINY)
    before = digest_of(root)
    async with opened("files", root, read_only=True) as log:
        assert await exported(log.storage, "chat") == TINY
        with pytest.raises(ReadOnly):
            await adopt(log.storage, "copy", TINY)
    assert digest_of(root) == before


# --- the disk is full, or fails -------------------------------------------------------------------------------


CONTENT = b"too large for a line, says its writer " * 100
EXPORT = forged(
    *[noted(b'"data":"%b"' % (b"x" * 400))] * 12,
    blob_line(CONTENT),
    noted(b'"data":"\x7ftext:%b"' % sha256(CONTENT).hexdigest().encode()),
)
"""Of several small segments, and a blob."""


async def attempt(root: Path, disk: Disk) -> bool:
    """Did it return?"""
    async with opened("files", root, disk=disk) as log:
        try:
            await adopt(log.storage, "chat", EXPORT, [len(EXPORT) // 3])
        except (OSError, ChatfoldError):
            return False
        return True


async def is_there(root: Path) -> bool:
    """All of it; or nothing, and then the chat can be adopted."""
    async with opened("files", root) as log:
        await log.append("other", Noted("a writer that tidies up"))
        found = [chat async for chat in log.chats()]
        whole = "chat" in found
        if not whole:
            await adopt(log.storage, "chat", EXPORT)
        assert await exported(log.storage, "chat") == EXPORT
    assert check(root / "chats" / "chat").problems == []
    assert not leftovers(root)
    return whole


async def test_a_disk_that_is_full_halfway_leaves_nothing(root: Path) -> None:
    outcomes = []
    for number, room in enumerate((*range(0, 12_000, 500), 1 << 20)):
        store = root / str(number)
        outcomes.append(await attempt(store, SmallDisk(room)))
        assert outcomes[-1] or not traces(store)
    assert outcomes.count(False) > 15
    assert outcomes[-1]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("forever", [False, True])
async def test_a_change_that_fails_leaves_nothing_or_all_of_it(root: Path, code: int, forever: bool) -> None:
    for nth in range(1, 1_000, 5 if forever else 1):
        store = root / str(nth)
        disk = FailingDisk(nth, code, kinds=CHANGING, forever=forever)
        returned = await attempt(store, disk)
        assert not returned or not disk.failed or await is_there(store)
        if not disk.failed:
            assert nth > 30
            return
        if not forever and not (store / "chats" / "chat").exists():
            # A folder that could not even be locked is swept by the next writer.
            assert not traces(store) or disk.failed == ["open_update"]
        await is_there(store)
    raise AssertionError("it never gets through")
