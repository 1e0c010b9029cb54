"""When an append is durable, and what it costs: syncs are counted on a real disk."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Log, Noted
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.watermark import read_watermark


class CountingDisk(Disk):
    """Counts syncs of files, and how many were under way at once; each takes a little longer than it should."""

    def __init__(self) -> None:
        self.syncs = self.under_way = self.most = 0
        self._lock = threading.Lock()

    def sync(self, fd: int) -> None:
        with self._lock:
            self.syncs += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        time.sleep(0.01)
        super().sync(fd)
        with self._lock:
            self.under_way -= 1


async def test_full_is_synced_when_the_append_returns(root: Path) -> None:
    disk = CountingDisk()
    async with Log(FileStorage(root, disk=disk)) as log:
        await log.append("chat", Noted("makes the chat"))
        for expected in (1, 2, 3):
            before = disk.syncs
            await log.append("chat", Noted("n", expected))
            assert disk.syncs == before + 1


async def test_appenders_that_wait_together_share_a_sync(root: Path) -> None:
    disk = CountingDisk()
    async with Log(FileStorage(root, disk=disk)) as log:
        await log.append("chat", Noted("makes the chat"))
        before = disk.syncs
        entries = await asyncio.gather(*(log.append("chat", Noted("n", number)) for number in range(64)))
        assert sorted(entry.seq for [entry] in entries) == list(range(2, 66))
        assert disk.syncs - before <= 3


async def test_different_chats_sync_side_by_side(root: Path) -> None:
    disk = CountingDisk()
    async with Log(FileStorage(root, disk=disk)) as log:
        chats = [f"chat {number}" for number in range(8)]
        await asyncio.gather(*(log.append(chat, Noted("makes the chat")) for chat in chats))
        disk.most = 0
        await asyncio.gather(*(log.append(chat, Noted("n")) for chat in chats))
        assert disk.most >= 4


async def test_normal_is_synced_soon_and_off_is_not(root: Path) -> None:
    disk = CountingDisk()
    async with Log(FileStorage(root, disk=disk)) as log:
        await log.append("chat", Noted("makes the chat"))
        before = disk.syncs
        await log.append("chat", Noted("n"), durability="off")
        await asyncio.sleep(0.4)
        assert disk.syncs == before
        await log.append("chat", Noted("n"), durability="normal")
        assert disk.syncs == before
        for _ in range(500):  # 250 ms on a machine that has time for us
            await asyncio.sleep(0.01)
            witness = read_watermark(disk, root / "chats" / "chat")
            if witness is not None and witness.seq == 3:
                break
        else:
            pytest.fail("what was synced is not witnessed")
        assert disk.syncs == before + 1


async def test_flush_is_a_barrier(root: Path) -> None:
    disk = CountingDisk()
    async with Log(FileStorage(root, disk=disk, durability="off")) as log:
        for chat in ("a", "b"):
            await log.append(chat, Noted("makes the chat"))
            await log.append(chat, Noted("n"))
        before = disk.syncs
        await log.flush()
        assert disk.syncs == before + 2
        await log.flush()
        assert disk.syncs == before + 2


async def test_closing_makes_everything_durable(root: Path) -> None:
    async with Log(FileStorage(root, durability="off")) as log:
        for number in range(5):
            await log.append("chat", Noted("n", number))
    witness = read_watermark(Disk(), root / "chats" / "chat")
    assert witness is not None
    assert witness.seq == 5


async def test_more_chats_than_open_files_are_written_all_the_same(root: Path) -> None:
    chats = [f"chat {number}" for number in range(300)]
    async with Log(FileStorage(root, durability="off")) as log:
        for _ in range(2):
            await asyncio.gather(*(log.append(chat, Noted("n")) for chat in chats))
        assert {(await log.head(chat)).seq for chat in chats} == {2}
        for _ in range(200):  # those of chats not in use are closed after the answers
            if _open_files() < 600:
                break
            await asyncio.sleep(0.05)
        assert _open_files() < 600


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
