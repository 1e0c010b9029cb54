"""Others have their hands in the store: they write without the lock, close our files, cut or restore what we write."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from chatfold.eventlog import CorruptLog, DurabilityUnknown, FileStorage, Log, check, repair
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.segment import Position, Tail
from chatfold.eventlog.files.segment_writer import SegmentWriter, WriteFailed
from chatfold.eventlog.line import header_line
from tests.support.damage.broken import segments
from tests.support.judges.talk import ids_of, is_clean, short
from tests.support.processes.children import ENVIRONMENT


async def _append(log: Log, *names: str) -> None:
    for name in names:
        await log.append("chat", *short(name), id=name)


# --- the lock does not hold ---------------------------------------------------------------------------------


class LostLock(Disk):
    """Nobody is kept out, as after a network file system lost its locks; ``other`` comes right before a write."""

    def __init__(self) -> None:
        self.other: Callable[[], None] | None = None

    def lock(self, fd: int) -> None:
        pass

    def try_lock(self, fd: int) -> bool:
        return True

    def write(self, fd: int, data: bytes | memoryview) -> int:
        other, self.other = self.other, None
        if other is not None:
            other()
        return super().write(fd, data)


def _elsewhere(log: Log, name: str) -> Callable[[], None]:
    """An append on another thread, as by another process."""

    def append() -> None:
        thread = threading.Thread(target=lambda: asyncio.run(_append(log, name)))
        thread.start()
        thread.join()

    return append


async def test_a_lock_that_is_lost_while_it_is_held(fast_folder: Path) -> None:
    """Of two that write at once only the one whose bytes are in the right place is told that they are."""
    disk = LostLock()
    log, rival = Log(FileStorage(fast_folder, disk=disk)), Log(FileStorage(fast_folder, disk=LostLock()))
    await _append(log, "a", "b")
    await _append(rival, "c")

    disk.other = _elsewhere(rival, "d")
    with pytest.raises(DurabilityUnknown):
        await _append(log, "e")
    with pytest.raises(DurabilityUnknown):  # and writes no more
        await _append(log, "f")
    with suppress(DurabilityUnknown):
        await log.storage.close()
    await _append(rival, "g")
    await rival.storage.close()
    assert ids_of(fast_folder / "chats" / "chat") == ["a", "b", "c", "d", "g"]


async def test_a_lock_that_is_lost_is_told_also_to_whoever_does_not_wait_for_the_disk(
    fast_folder: Path,
) -> None:
    """Without a sync the next append tells, or the barrier: what it was told is there is not."""
    disk = LostLock()
    log = Log(FileStorage(fast_folder, disk=disk, durability="off"))
    rival = Log(FileStorage(fast_folder, disk=LostLock()))
    await _append(log, "a", "b")
    await _append(rival, "c")
    await _append(log, "d")
    disk.other = _elsewhere(rival, "e")
    await _append(log, "f")
    with pytest.raises((CorruptLog, DurabilityUnknown)):
        await _append(log, "g")
    with pytest.raises(DurabilityUnknown):
        await log.flush()
    with suppress(DurabilityUnknown):
        await log.storage.close()
    await rival.storage.close()
    assert ids_of(fast_folder / "chats" / "chat") == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("text", [b"", b"1\n", b'{"pid":1,"host":"other","since":9e99}', bytes(5000)])
async def test_what_the_lock_file_says_decides_nothing(fast_folder: Path, text: bytes) -> None:
    """A process of that number is always there."""
    async with Log(FileStorage(fast_folder)) as log:
        await _append(log, "a")
    (fast_folder / "chats" / "chat" / "lock").write_bytes(text)
    async with asyncio.timeout(60), Log(FileStorage(fast_folder)) as log:
        await _append(log, "b")
    assert ids_of(fast_folder / "chats" / "chat") == ["a", "b"]
    assert (fast_folder / "chats" / "chat" / "lock").read_bytes() == text


# --- the file is changed under the writer -------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"a note of mine\n", b"\n \n", b'{"seq":4,"ts":1,"event":{}}\n', b"no end"])
async def test_a_line_that_an_editor_added_is_set_aside(fast_folder: Path, line: bytes) -> None:
    folder = fast_folder / "chats" / "chat"
    async with Log(FileStorage(fast_folder)) as log:
        await _append(log, "a", "b", "c")
        with segments(folder)[-1].open("ab") as segment:
            segment.write(line)
        await _append(log, "d")
    assert ids_of(folder) == ["a", "b", "c", "d"]
    assert [path.read_bytes() for path in (folder / "aside").iterdir()] == [line]
    assert is_clean(folder)


def _cut_in_place(path: Path, old: bytes) -> None:
    os.truncate(path, len(old))


def _replaced(path: Path, old: bytes) -> None:
    other = path.with_name("restored")
    other.write_bytes(old)
    other.rename(path)


@pytest.mark.parametrize("restore", [_cut_in_place, _replaced])
async def test_an_older_copy_restored_under_a_writer_is_told(
    fast_folder: Path, restore: Callable[[Path, bytes], None]
) -> None:
    """What it acknowledged is gone: another entry must not take its place."""
    folder = fast_folder / "chats" / "chat"
    async with Log(FileStorage(fast_folder)) as log:
        await _append(log, "a", "b")
        path = segments(folder)[-1]
        old = path.read_bytes()
        await _append(log, "c", "d")
        restore(path, old)
        for name in ("d", "e"):
            with pytest.raises(CorruptLog) as error:
                await _append(log, name)
            assert (error.value.path, error.value.offset, error.value.seq) == (path, len(old), 3)
        assert path.read_bytes() == old
    assert not check(folder).ok  # also to whoever comes later: the witness knows
    assert repair(folder).lost == [3, 4]


# --- our descriptors ----------------------------------------------------------------------------------------


async def _with_a_lost_descriptor(root: Path, lose: Callable[[int], object]) -> Path:
    folder = root / "chats" / "chat"
    log = Log(FileStorage(root))
    await _append(log, "a", "b")
    lose(_descriptor_of(segments(folder)[-1]))
    for name in ("c", "d"):
        with pytest.raises(DurabilityUnknown):
            await _append(log, name)
    with suppress(DurabilityUnknown):
        await log.storage.close()
    async with Log(FileStorage(root)) as log:
        await _append(log, "c", "d")
    assert ids_of(folder) == ["a", "b", "c", "d"]
    return folder


def _descriptor_of(path: Path) -> int:
    [fd] = [fd for fd in Path("/proc/self/fd").iterdir() if _leads_to(fd) == path]
    return int(fd.name)


def _leads_to(fd: Path) -> Path | None:
    try:
        return fd.readlink()
    except FileNotFoundError:  # that of the listing itself
        return None


async def test_a_descriptor_that_somebody_closed_is_told(fast_folder: Path) -> None:
    await _with_a_lost_descriptor(fast_folder, os.close)


async def test_a_descriptor_that_became_another_file_is_told(fast_folder: Path) -> None:
    """A program that closes one too many, and opens a file of its own: nothing in there counts as appended."""
    other = os.open(fast_folder / "other", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        await _with_a_lost_descriptor(fast_folder, lambda fd: os.dup2(other, fd))
    finally:
        os.close(other)


def test_a_segment_without_entries_knows_its_descriptor(tmp_path: Path) -> None:
    """It has no last line by which it could be told from another file."""
    disk, path, other = Disk(), tmp_path / "0000000000000001.jsonl", tmp_path / "other"
    path.write_bytes(header_line(Head()) + b"\n")
    other.touch()
    status = path.stat()
    tail = Tail(1, Position(0, Head().link.encode(), status.st_size), status.st_ino)
    segment = SegmentWriter(disk, path, disk.open_append(path), tail)
    assert segment.ends_at(tail)
    fd = disk.open_append(other)
    os.dup2(fd, segment.fd)
    disk.close(fd)
    with pytest.raises(WriteFailed):
        segment.ends_at(tail)
    segment.close()


def test_standard_streams_are_never_a_file_of_ours(fast_folder: Path) -> None:
    """In a daemon that closed them, what a library prints must not go into the log."""
    program = f"""
import asyncio, os
from chatfold.eventlog import FileStorage, Log
from tests.support.judges.talk import short
async def main():
    for fd in (0, 1, 2):  # here, or the loop itself would take their places
        os.close(fd)
    async with Log(FileStorage({str(fast_folder)!r}, segment_bytes=500)) as log:
        for number in range(20):
            await log.append("chat", *short(f"a{{number}}"), id=f"a{{number}}")
            for fd in (0, 1, 2):
                try:
                    os.write(fd, b"a complaint of some library\\n")
                except OSError:
                    pass
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=ENVIRONMENT, timeout=30)
    folder = fast_folder / "chats" / "chat"
    assert ids_of(folder) == [f"a{number}" for number in range(20)]
    assert is_clean(folder)
    assert not (folder / "aside").exists()
