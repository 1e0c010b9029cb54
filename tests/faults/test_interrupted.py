"""Ended, interrupted, out of memory or slow: what was acknowledged is there, and the same storage or the next one goes on."""

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from chatfold.eventlog import DurabilityUnknown, FileStorage, Log, Noted
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.open_chat import OPEN_CHATS
from tests.support.disk.faulty_disk import FailingDisk
from tests.support.judges.talk import entries_of, ids_of, is_clean, short
from tests.support.processes.children import next_told, started, told
from tests.support.processes.leaving import WAYS

# --- a process that ends ------------------------------------------------------------------------------------


def _holds(root: Path, acknowledged: Sequence[list[str]]) -> None:
    """Everything that was told is there, where it was told to be; the next writer waits for nobody and goes on."""
    folder = root / "chats" / "chat"
    entries = entries_of(folder)
    assert all(entries[int(seq) - 1].id == name for seq, name in acknowledged)

    async def go_on() -> None:
        async with asyncio.timeout(60), Log(FileStorage(root)) as log:
            await log.append("chat", *short("after"), id="after")

    asyncio.run(go_on())
    assert ids_of(folder)[-1] == "after"
    assert is_clean(folder)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "a signal"])
def test_a_process_that_ends_in_the_middle_of_appends(
    fast_folder: Path, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with started("leaving", fast_folder, way) as child:
        acknowledged = told(child)
        assert child.wait(10) != 0
    assert len(acknowledged) > 40
    _holds(fast_folder, acknowledged)
    assert "chatfold" not in capfd.readouterr().err.replace(str(fast_folder), "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_is_asked_to_end(
    fast_folder: Path, number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    for count in (8, 31):
        root = fast_folder / str(count)
        with started("leaving", root, "a signal") as child:
            names = next_told(child, count)
            child.send_signal(number)
            acknowledged = told(child)
            assert child.wait(10) != 0
        assert names
        _holds(root, acknowledged)
    capfd.readouterr()


# --- an exception out of nowhere ----------------------------------------------------------------------------


class Surprising(Disk):
    """Raises what no disk raises, before or after it has written: memory that is not there, Ctrl-C."""

    def __init__(self, surprise: BaseException, *, after: bool) -> None:
        self.is_due = False
        self._surprise = surprise
        self._after = after

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if not self.is_due:
            return super().write(fd, data)
        self.is_due = False
        if self._after:
            super().write(fd, data)
        raise self._surprise


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("segment_bytes", [8 << 20, 400], ids=["write", "roll"])
@pytest.mark.parametrize("surprise", [MemoryError, KeyboardInterrupt])
def test_an_append_that_was_interrupted_is_exact_when_it_is_tried_again(
    fast_folder: Path, surprise: type[BaseException], segment_bytes: int, *, after: bool
) -> None:
    """It was numbered already: nobody may be told that it is there, if it is not."""
    disk = Surprising(surprise(), after=after)
    log = Log(FileStorage(fast_folder, disk=disk, segment_bytes=segment_bytes))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_append(log, "a", "b"))
    disk.is_due = True
    with pytest.raises((surprise, RuntimeError)):
        loop.run_until_complete(_append(log, "c"))
    loop.run_until_complete(asyncio.wait_for(_append(log, "c", "d", "c", "e"), 60))
    loop.run_until_complete(log.storage.close())
    loop.close()
    assert ids_of(fast_folder / "chats" / "chat") == ["a", "b", "c", "d", "e"]
    assert is_clean(fast_folder / "chats" / "chat")


async def test_a_group_that_finds_no_memory_is_told_and_can_be_tried_again(fast_folder: Path) -> None:
    disk = Surprising(MemoryError(), after=False)
    async with Log(FileStorage(fast_folder, disk=disk)) as log:
        await _append(log, "a")
        disk.is_due = True
        names = [f"g{number}" for number in range(5)]
        answers = await asyncio.gather(*(_append(log, name) for name in names), return_exceptions=True)
        assert MemoryError in {type(answer) for answer in answers} <= {MemoryError, type(None)}
        await _append(log, *names)
    assert sorted(ids_of(fast_folder / "chats" / "chat")) == ["a", *names]


async def _append(log: Log, *names: str) -> None:
    for name in names:
        await log.append("chat", *short(name, 2), id=name)


# --- an error in between, and what was appended before it ---------------------------------------------------


class Counting(FailingDisk):
    """Says how many syncs there were."""

    syncs = 0

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.syncs += 1


async def test_a_barrier_holds_for_what_was_appended_before_an_error(fast_folder: Path) -> None:
    """The writer starts over after an error: it still owes a sync to those it answered before."""
    disk = Counting(1, kinds=["stat"], forever=True)
    disk.healed = True
    log = Log(FileStorage(fast_folder, disk=disk, durability="off"))
    await _append(log, "a", "b")
    disk.syncs, disk.healed = 0, False
    with pytest.raises(OSError, match="Input/output error"):
        await _append(log, "c")
    await log.flush()
    assert disk.syncs == 1
    disk.healed = True
    await log.storage.close()


class OneFails(Disk):
    """Takes a while to sync one file, and then cannot."""

    inode = -1

    def sync(self, fd: int) -> None:
        if self.fstat(fd).st_ino == self.inode:
            time.sleep(0.2)
            raise OSError("this one cannot be synced")
        super().sync(fd)


async def test_a_barrier_knows_of_chats_whose_files_are_being_closed(fast_folder: Path) -> None:
    """Of more chats than are held open, the first is synced when its files are closed: if that fails, nobody waits for it."""
    disk = OneFails()
    log = Log(FileStorage(fast_folder, disk=disk, durability="off"))
    for _ in range(2):
        await log.append("first", Noted("n"))
    for number in range(OPEN_CHATS - 1):
        await log.append(str(number), Noted("n"))
    disk.inode = min((fast_folder / "chats" / "first").glob("*.jsonl")).stat().st_ino
    await log.append("one too many", Noted("n"))
    for _ in range(2):  # while they are, and afterwards
        with pytest.raises(DurabilityUnknown):
            await log.flush()
    with suppress(DurabilityUnknown):
        await log.storage.close()


# --- a slow disk --------------------------------------------------------------------------------------------


class Slow(Disk):
    """A sync takes as long as it takes."""

    seconds = 0.0

    def sync(self, fd: int) -> None:
        time.sleep(self.seconds)
        super().sync(fd)


async def test_a_slow_disk_holds_up_only_those_who_wait_for_it(fast_folder: Path) -> None:
    disk = Slow()
    async with Log(FileStorage(fast_folder, disk=disk)) as log:
        await _append(log, "a", "b")
        disk.seconds = 1
        began = time.monotonic()
        appends = [asyncio.create_task(_append(log, f"s{number}")) for number in range(5)]
        longest, before = 0.0, time.monotonic()
        while not all(append.done() for append in appends):
            await asyncio.sleep(0.005)
            longest, before = max(longest, time.monotonic() - before), time.monotonic()
            if before - began < 1:
                assert not any(append.done() for append in appends), "acknowledged before it was durable"
        assert longest < 0.9
        assert time.monotonic() - began < 4  # in groups, not one after the other
        assert len([entry async for entry in log.read("chat")]) == 14
        disk.seconds = 0
    assert is_clean(fast_folder / "chats" / "chat")


async def test_who_gives_up_on_a_slow_disk_leaves_a_whole_log(fast_folder: Path) -> None:
    disk = Slow()
    async with Log(FileStorage(fast_folder, disk=disk)) as log:
        await _append(log, "a", "b")
        disk.seconds = 0.2
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_append(log, "c"), 0.05)
        await _append(log, "c")
        await log.append("chat", Noted("d"))
    assert ids_of(fast_folder / "chats" / "chat") == ["a", "b", "c"]
