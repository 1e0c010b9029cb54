"""What looks like something else than it is: a segment of another chat, a file with the number of one that is gone, a chat
that was deleted while it was read, a fork made while its parent was being erased.
"""

import os
import shutil
from pathlib import Path

import pytest

from chatfold.eventlog import CorruptLog, FileStorage, Log, Noted, check, scan
from chatfold.eventlog.files.chat_dir import sweep
from chatfold.eventlog.files.disk import Disk
from tests.support.damage.broken import ENTRIES, make_healthy, rewrite, segments
from tests.support.judges.talk import entries_of, is_clean, short

SEGMENT_BYTES = 1_500


@pytest.fixture
def healthy(fast_folder: Path) -> Path:
    return make_healthy(fast_folder / "store")


@pytest.fixture
def foreign(fast_folder: Path) -> Path:
    """A chat of the same shape: other words, in lines as long."""
    return make_healthy(fast_folder / "elsewhere", "twin")


# --- of another chat ----------------------------------------------------------------------------------------


async def _read(folder: Path, first: int, last: int) -> list[int]:
    async with Log(FileStorage(folder.parents[1], read_only=True)) as log:
        return [entry.seq async for entry in log.read(folder.name, first, last)]


@pytest.mark.parametrize("index", range(4))
async def test_a_segment_of_another_chat_is_told_to_whoever_reads_only_a_part_of_it(
    healthy: Path, foreign: Path, index: int
) -> None:
    ours = [int(path.stem) for path in segments(healthy)]
    shutil.copy(segments(foreign)[index], segments(healthy)[index])
    starts = [*ours, ENTRIES + 1]
    assert [int(path.stem) for path in segments(foreign)] == ours
    for seq in range(starts[index], starts[index + 1]):
        with pytest.raises(CorruptLog):
            await _read(healthy, seq, seq)


async def test_a_line_of_another_chat_is_told_to_whoever_reads_only_that_line(
    healthy: Path, foreign: Path
) -> None:
    """One at which reading may start: every eighth is in the index."""
    seq = 9
    line = segments(foreign)[0].read_bytes().splitlines(keepends=True)[seq]
    rewrite(segments(healthy)[0], lambda ls: [*ls[:seq], line, *ls[seq + 1 :]])
    with pytest.raises(CorruptLog):
        await _read(healthy, seq, seq)
    assert await _read(healthy, seq - 1, seq - 1) == [seq - 1]


async def test_a_segment_next_to_a_damaged_one_is_read(healthy: Path) -> None:
    """Only what says something else is a sign of another chat; what says nothing is damage of its own."""
    first = int(segments(healthy)[2].stem)
    cut = segments(healthy)[1].read_bytes()
    for damaged in (b"", cut[:-5], cut[: len(cut) // 2], cut[:-1] + b"\0"):
        segments(healthy)[1].write_bytes(damaged)
        assert await _read(healthy, first, first + 2) == [first, first + 1, first + 2]


# --- what is no entry ---------------------------------------------------------------------------------------


async def test_a_seal_that_is_there_twice_is_not_taken_for_an_entry(healthy: Path) -> None:
    rewrite(segments(healthy)[1], lambda ls: [*ls, ls[-1]])
    everything = list(range(1, ENTRIES + 1))
    assert await _read(healthy, 1, ENTRIES) == everything
    assert [entry.seq for entry in scan(healthy)] == everything
    assert not check(healthy).ok


async def test_a_second_header_is_not_taken_for_the_only_entry(fast_folder: Path) -> None:
    """It would have been the end of the log, and the entry torn."""
    async with Log(FileStorage(fast_folder)) as log:
        await log.append("chat", Noted("only"))
    folder = fast_folder / "chats" / "chat"
    rewrite(segments(folder)[0], lambda ls: [ls[0], *ls])
    before = segments(folder)[0].read_bytes()
    async with Log(FileStorage(fast_folder)) as log:
        with pytest.raises(CorruptLog):
            await log.head("chat")
        with pytest.raises(CorruptLog):
            await log.append("chat", Noted("after"))
    assert segments(folder)[0].read_bytes() == before


# --- numbers of files ---------------------------------------------------------------------------------------


class RenumberingDisk(Disk):
    """Tells another inode for some: a file system gives the number of a file that is gone to the next one."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def _told(self, status: os.stat_result) -> os.stat_result:
        fields = list(status[:10])
        fields[1] = self.numbers.get(status.st_ino, status.st_ino)
        return os.stat_result(fields)

    def stat(self, path: Path | str) -> os.stat_result:
        return self._told(super().stat(path))

    def fstat(self, fd: int) -> os.stat_result:
        return self._told(super().fstat(fd))


async def test_a_seal_is_right_though_the_segment_has_the_number_of_one_that_is_gone(
    fast_folder: Path,
) -> None:
    disk = RenumberingDisk()
    folder = fast_folder / "chats" / "chat"
    async with (
        Log(FileStorage(fast_folder, segment_bytes=SEGMENT_BYTES, disk=disk)) as one,
        Log(FileStorage(fast_folder, segment_bytes=SEGMENT_BYTES)) as other,
    ):

        async def write_until(count: int) -> None:
            while len(segments(folder)) < count:
                await one.append("chat", *short("said"))

        await one.append("chat", *short("first"))
        await write_until(2)
        old = segments(folder)[0].stat().st_ino
        await other.redact("chat", 1)
        await other.redact("chat", int(segments(folder)[1].stem))
        disk.numbers[segments(folder)[1].stat().st_ino] = old
        await write_until(3)
    assert is_clean(folder)


# --- swept meanwhile --------------------------------------------------------------------------------------


class SweepingDisk(Disk):
    """Another process sweeps what was deleted, at the moment at which its lock is gone."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.sweeps = 0

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if path.parent.parent == self._root / "trash" and path.name == "lock":
            self.sweeps += 1
            sweep(Disk(), self._root)


async def test_deleting_goes_well_though_somebody_else_sweeps_at_the_same_time(healthy: Path) -> None:
    root = healthy.parents[1]
    disk = SweepingDisk(root)
    async with Log(FileStorage(root, disk=disk)) as log:
        await log.delete("chat")
        assert [key async for key in log.chats()] == []
    assert disk.sweeps == 1
    assert not os.listdir(root / "trash")  # noqa: PTH208 (no generator that waits)


# --- forked meanwhile ---------------------------------------------------------------------------------------


class ForkingDisk(Disk):
    """Copies what a fork would, at the moment at which the note of an erasure is made."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.forks = 0

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        if new.parent == self._root and new.name.startswith("redacting-"):
            self.forks += 1
            shutil.copytree(self._root / "chats" / "chat", self._root / "chats" / f"fork{self.forks}")


async def test_a_fork_made_while_its_parent_is_being_erased_is_erased_too(fast_folder: Path) -> None:
    disk = ForkingDisk(fast_folder)
    async with Log(FileStorage(fast_folder, disk=disk)) as log:
        await log.append("chat", *short("a"))
        await log.append("chat", Noted("secret", "swordfish"))
        await log.append("chat", *short("b"))
        await log.append("unrelated", Noted("secret", "something else"))
        assert await log.redact("chat", 2) == {"chat": [2], "fork1": [2]}
    assert disk.forks == 1
    for name in ("chat", "fork1"):
        entries = entries_of(fast_folder / "chats" / name)
        assert entries[1].was
        assert check(fast_folder / "chats" / name).ok
        assert not any(b"swordfish" in path.read_bytes() for path in segments(fast_folder / "chats" / name))
