"""Deleting a chat lets go of its files, also while somebody is busy with it: the system keeps what is open, space and words."""

import asyncio
import threading
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Head, Log, Noted
from chatfold.eventlog.files.disk import Disk


class SlowDisk(Disk):
    """Waits in each sync until it may go on."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.may.set()
        self.waits = threading.Event()

    def sync(self, fd: int) -> None:
        self.waits.set()
        assert self.may.wait(10)
        super().sync(fd)


def open_and_deleted(root: Path) -> list[str]:
    links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [
        str(link) for link in links if str(link).startswith(str(root)) and str(link).endswith("(deleted)")
    ]


async def test_the_files_of_a_deleted_chat_are_closed_although_an_append_was_under_way(root: Path) -> None:
    disk = SlowDisk()
    async with Log(FileStorage(root, disk=disk)) as log:
        for number in range(2):
            await log.append("chat", Noted(f"{number}"))
        disk.may.clear()
        disk.waits.clear()
        append = asyncio.create_task(log.append("chat", Noted("under way")))
        assert await asyncio.to_thread(disk.waits.wait, 10)
        delete = asyncio.create_task(log.delete("chat"))
        await asyncio.wait(
            [delete], timeout=1
        )  # or it waits for the append, which has the lock if a thread did all of it
        disk.may.set()
        await asyncio.gather(append, delete)
        for _ in range(100):
            if not open_and_deleted(root):
                break
            await asyncio.sleep(0.02)
        assert not open_and_deleted(root)
        await log.append("chat", Noted("another chat"), after=0)


@pytest.mark.parametrize("old", [1, 14, 60])
@pytest.mark.parametrize("new", [1, 14, 300])
async def test_who_has_read_a_chat_sees_the_one_that_took_its_place(root: Path, old: int, new: int) -> None:
    """Also if it is shorter, and has no segment of the name at which the old one ended."""
    storages = [FileStorage(root, segment_bytes=2000, durability="off") for _ in range(2)]
    async with Log(storages[0]) as writer, Log(storages[1]) as reader:
        for key, count in (("long", new), ("chat", old)):
            for number in range(count):
                await writer.append(key, Noted(key, number))
        assert (await reader.head("chat")).seq == old
        await writer.delete("chat")
        await reader.fork("long", "chat")
        assert len([entry async for entry in reader.read("chat")]) == new + 1
        await writer.delete("chat")
        assert await reader.head("chat") == Head()
        await writer.append("chat", Noted("again"))
        assert (await reader.head("chat")).seq == 1


async def test_who_reads_chats_that_others_delete_remembers_none_of_them(root: Path) -> None:
    async with FileStorage(root) as reader, Log(FileStorage(root)) as log:
        for number in range(3):
            await log.append(f"chat-{number}", Noted("here"))
            assert (await reader.head(f"chat-{number}")).seq == 1
            await log.delete(f"chat-{number}")
            assert await reader.head(f"chat-{number}") == Head()
        assert not reader._readers
