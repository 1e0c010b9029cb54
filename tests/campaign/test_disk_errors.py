"""The disk is full, or fails: at every call, once or for ever. Nothing half is left, and nothing is glossed over."""

import asyncio
import errno
import gc
import os
import resource
import subprocess
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chatfold.eventlog import (
    ChatfoldError,
    DiskFull,
    DurabilityUnknown,
    FileStorage,
    Log,
    Noted,
    scan,
)
from tests.campaign.failing import everywhere
from tests.support.disk.faulty_disk import (
    CHANGING,
    READING,
    FailingDisk,
    ShortDisk,
    SmallDisk,
    UnreadableDisk,
)
from tests.support.judges.talk import ids_of, is_clean, said, short
from tests.support.processes.children import go, started, told
from tests.support.processes.operations import OPERATIONS, opened

LONG = bool(os.environ.get("CHATFOLD_LONG"))
BIG = Noted("big", {"text": "x" * 100_000})


# --- no room ------------------------------------------------------------------------------------------------


@pytest.fixture
def small_folder(tmp_path: Path) -> Iterator[tuple[Path, SmallDisk]]:
    """A place for about 600 kB: a file system of that size or, where none can be mounted, a disk that counts."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)], check=False, capture_output=True
    ).returncode
    try:
        yield folder, SmallDisk(1 << 40 if mounted else 600_000)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


async def _fill(log: Log, names: list[str]) -> DiskFull:
    """Appends until there is no room."""
    for number in range(1_000):
        try:
            await log.append("chat", BIG, *short(f"f{number}", 2), id=f"f{number}")
        except DiskFull as error:
            return error
        names.append(f"f{number}")
    raise AssertionError("the disk never got full")


def _ids(folder: Path) -> list[str | None]:
    return [entry.id for entry in scan(folder) if entry.id is not None]


@pytest.mark.smoke
async def test_a_full_disk_is_said_and_leaves_nothing_half(small_folder: tuple[Path, SmallDisk]) -> None:
    root, disk = small_folder
    names: list[str] = []
    log = opened(root, disk)
    error = await _fill(log, names)
    assert error.chat == "chat"
    assert names
    assert _ids(root / "chats" / "chat") == names
    assert is_clean(root / "chats" / "chat")
    with suppress(ChatfoldError, OSError):  # what was acknowledged was synced before
        await log.storage.close()


@pytest.mark.smoke
async def test_with_room_again_the_same_storage_goes_on(small_folder: tuple[Path, SmallDisk]) -> None:
    root, disk = small_folder
    ballast = root / "ballast"
    ballast.write_bytes(bytes(300_000))
    disk.room -= 300_000
    names: list[str] = []
    async with Log(FileStorage(root, disk=disk)) as log:
        await _fill(log, names)
        ballast.unlink()
        disk.room += 300_000
        failed = f"f{len(names)}"
        entries = await log.append("chat", BIG, *short(failed, 2), id=failed)
        assert entries[0].seq == 3 * len(names) + 1
    assert _ids(root / "chats" / "chat") == [*names, failed]
    assert is_clean(root / "chats" / "chat")


@pytest.mark.smoke
async def test_of_a_group_that_does_not_fit_whole_appends_are_kept(fast_folder: Path) -> None:
    disk = SmallDisk(1 << 40)
    async with Log(FileStorage(fast_folder, disk=disk)) as log:
        await log.append("chat", *short("first"), id="first")
        disk.room = 4_000
        answers = await asyncio.gather(
            *(log.append("chat", *short(f"g{n}", 2), id=f"g{n}") for n in range(40)), return_exceptions=True
        )
        kept = [f"g{n}" for n, answer in enumerate(answers) if isinstance(answer, list)]
        assert all(isinstance(answer, list | DiskFull) for answer in answers)
        assert 0 < len(kept) < 40
        assert ids_of(fast_folder / "chats" / "chat") == ["first", *kept]
        disk.room = 1 << 40
        await log.append("chat", *short("last"), id="last")
    assert ids_of(fast_folder / "chats" / "chat") == ["first", *kept, "last"]


@pytest.mark.smoke
async def test_of_two_appends_with_one_id_neither_is_kept_if_there_is_no_room(fast_folder: Path) -> None:
    """In one group: the second is told what became of the first."""
    disk = SmallDisk(1 << 40)
    async with Log(FileStorage(fast_folder, disk=disk)) as log:
        await log.append("chat", *short("first"), id="first")
        disk.room = 50
        answers = await asyncio.gather(
            *(log.append("chat", *short("twice", 2), id="twice") for _ in range(2)), return_exceptions=True
        )
        assert all(isinstance(answer, DiskFull) for answer in answers)
    assert ids_of(fast_folder / "chats" / "chat") == ["first"]


@pytest.mark.smoke
async def test_an_append_that_found_no_room_can_be_retried_by_its_id(fast_folder: Path) -> None:
    disk = SmallDisk(1 << 40)
    async with Log(FileStorage(fast_folder, disk=disk)) as log:
        await log.append("chat", *said("w.1"), id="w.1")
        disk.room = 100
        with pytest.raises(DiskFull):
            await log.append("chat", *said("w.2"), id="w.2")
        disk.room = 1 << 40
        first = await log.append("chat", *said("w.2"), id="w.2")
        assert await log.append("chat", *said("w.2"), id="w.2") == first
    assert ids_of(fast_folder / "chats" / "chat") == ["w.1", "w.2"]


@pytest.mark.smoke
async def test_an_append_that_found_no_room_leaves_nothing_in_memory(fast_folder: Path) -> None:
    """Or whoever tries again until there is room would fill it, with what did not fit."""
    disk = SmallDisk(1 << 40)
    async with Log(FileStorage(fast_folder, disk=disk)) as log:
        await log.append("chat", *short("first"), id="first")
        disk.room = 100
        errors = [await _refused(log, number) for number in range(4)]
        disk.room = 1 << 40
        await log.append("chat", *short("last"), id="last")
        gc.collect()
        assert [error() for error in errors] == [None] * 4


async def _refused(log: Log, number: int) -> "weakref.ref[DiskFull]":
    try:
        await log.append("chat", *short(f"n{number}", 2), durability="full" if number else "off")
    except DiskFull as error:
        return weakref.ref(error)
    raise AssertionError("there was room")


@pytest.mark.smoke
def test_a_file_size_limit_is_no_room_too(tmp_path: Path) -> None:
    """EFBIG, from the kernel, in a process of its own."""
    with started("appending", tmp_path, "chat", "w", "full", 8 << 20, 500) as child:
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (150_000, 150_000))
        go(child)
        acknowledged = [name for _, _, name in told(child)]
        assert child.wait(30) != 0
    assert acknowledged
    assert ids_of(tmp_path / "chats" / "chat") == acknowledged
    assert is_clean(tmp_path / "chats" / "chat")


# --- a sync that fails --------------------------------------------------------------------------------------


async def _one_failed_sync(root: Path) -> tuple[Log, list[object]]:
    """A storage whose second sync failed, and what the eight appends that shared it were told."""
    disk = FailingDisk(1, kinds=["sync"])
    disk.healed = True
    log = Log(FileStorage(root, disk=disk))
    await log.append("chat", *short("before"), id="before")
    await log.append("chat", *short("too"), id="too")
    disk.healed = False
    answers = await asyncio.gather(
        *(log.append("chat", *short(f"s{n}"), id=f"s{n}") for n in range(8)), return_exceptions=True
    )
    return log, list(answers)


@pytest.mark.smoke
async def test_everybody_who_shares_a_failed_sync_is_told(fast_folder: Path) -> None:
    log, answers = await _one_failed_sync(fast_folder)
    assert all(isinstance(answer, DurabilityUnknown) for answer in answers)
    with suppress(DurabilityUnknown):
        await log.storage.close()


@pytest.mark.smoke
async def test_after_a_failed_sync_nothing_is_acknowledged_until_the_storage_is_reopened(
    fast_folder: Path,
) -> None:
    log, _ = await _one_failed_sync(fast_folder)
    for _ in range(3):
        with pytest.raises(DurabilityUnknown):
            await log.append("chat", *short("later"), id="later")
    with pytest.raises(DurabilityUnknown):
        await log.flush()
    await log.append("another", *short("fine"), id="fine")  # other chats are not concerned
    with suppress(DurabilityUnknown):
        await log.storage.close()
    async with Log(FileStorage(fast_folder)) as again:
        await again.append("chat", *short("later"), id="later")
    assert ids_of(fast_folder / "chats" / "chat").count("later") == 1


@pytest.mark.smoke
async def test_after_a_failed_sync_the_log_goes_on_in_a_new_segment(fast_folder: Path) -> None:
    log, _ = await _one_failed_sync(fast_folder)
    with suppress(DurabilityUnknown):
        await log.storage.close()
    folder = fast_folder / "chats" / "chat"
    before = {path: path.read_bytes() for path in folder.glob("*.jsonl")}
    async with Log(FileStorage(fast_folder)) as again:
        for number in range(8):
            await again.append("chat", *short(f"s{number}"), id=f"s{number}")
    assert len(list(folder.glob("*.jsonl"))) == len(before) + 1
    for path, content in before.items():
        assert path.read_bytes().startswith(content)
    assert ids_of(folder) == ["before", "too", *(f"s{n}" for n in range(8))]
    assert is_clean(folder)


@pytest.mark.smoke
async def test_a_write_that_fails_for_another_reason_than_room_poisons_too(fast_folder: Path) -> None:
    disk = FailingDisk(1, kinds=["write"])
    disk.healed = True
    log = Log(FileStorage(fast_folder, disk=disk))
    await log.append("chat", *short("a"), id="a")
    disk.healed = False
    with pytest.raises(DurabilityUnknown):
        await log.append("chat", *short("b"), id="b")
    with pytest.raises(DurabilityUnknown):
        await log.append("chat", *short("c"), id="c")
    with suppress(DurabilityUnknown):
        await log.storage.close()


# --- every call fails, one after the other ------------------------------------------------------------------


def _fails_everywhere(folder: Path, operation: str, **how: Any) -> int:
    """How many calls failed."""
    failures = list(everywhere(folder, operation, **how))
    for where, error in failures:
        if error is not None:
            raise AssertionError(where) from error
    return len(failures)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_change_that_fails_once_leaves_a_whole_store(fast_folder: Path, operation: str, code: int) -> None:
    assert _fails_everywhere(fast_folder, operation, code=code, kinds=CHANGING) > 5


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_look_that_fails_once_leaves_a_whole_store(fast_folder: Path, operation: str) -> None:
    assert _fails_everywhere(fast_folder, operation, kinds=READING, step=1 if LONG else 7)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_disk_that_fails_from_some_call_on_leaves_a_whole_store(fast_folder: Path, operation: str) -> None:
    assert _fails_everywhere(fast_folder, operation, forever=True, step=1 if LONG else 7)


@pytest.mark.smoke
@pytest.mark.parametrize("kind", CHANGING)
def test_a_kind_of_change_that_fails_from_some_call_on_leaves_a_whole_store(
    fast_folder: Path, kind: str
) -> None:
    calls = 0
    for number, operation in enumerate(OPERATIONS if LONG else ("append to a torn log", "roll", "fork")):
        folder = fast_folder / str(number)
        folder.mkdir()
        calls += _fails_everywhere(folder, operation, forever=True, kinds=[kind])
    assert calls or kind in {"unlink", "remove_folder"}


# --- the rest -----------------------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_short_writes_are_completed(fast_folder: Path) -> None:
    async with Log(FileStorage(fast_folder, disk=ShortDisk(100), segment_bytes=5_000)) as log:
        for number in range(20):
            await log.append("chat", *short(f"w{number}", 4), id=f"w{number}")
    assert ids_of(fast_folder / "chats" / "chat") == [f"w{number}" for number in range(20)]
    assert is_clean(fast_folder / "chats" / "chat")


@pytest.mark.smoke
async def test_a_segment_that_cannot_be_read_is_said_and_other_chats_are_not_concerned(
    fast_folder: Path,
) -> None:
    async with opened(fast_folder) as log:
        for chat in ("sick", "well"):
            for number in range(20):
                await log.append(chat, *short(f"w{number}"), id=f"w{number}")
    disk = UnreadableDisk(sorted((fast_folder / "chats" / "sick").glob("*.jsonl"))[1], 300)
    async with Log(FileStorage(fast_folder, disk=disk)) as log:
        with pytest.raises((OSError, ChatfoldError)):
            [entry async for entry in log.read("sick")]
        assert len([entry async for entry in log.read("well")]) == 20
        await log.append("well", *short("more"), id="more")
        assert [entry.seq for entry in await log.last("sick", 2)] == [19, 20]
