"""A storage outlives the loops that use it."""

import asyncio
import threading
from pathlib import Path

from chatfold.eventlog import FileStorage, Log, Noted
from chatfold.eventlog.files.disk import Disk


class HeldDisk(Disk):
    """Syncs when it is let."""

    def __init__(self) -> None:
        self.begun, self.let = threading.Event(), threading.Event()
        self.let.set()

    def sync(self, fd: int) -> None:
        self.begun.set()
        self.let.wait(10)
        super().sync(fd)


def test_an_append_whose_loop_is_gone_does_not_hold_the_chat(root: Path) -> None:
    disk = HeldDisk()
    log = Log(FileStorage(root, disk=disk))

    async def begin() -> None:
        await log.append("chat", Noted("makes the chat"))
        await log.append("chat", Noted("opens its files"))
        disk.begun.clear()
        disk.let.clear()
        appending = asyncio.create_task(log.append("chat", Noted("on its way")))
        await asyncio.to_thread(disk.begun.wait, 10)
        appending.cancel()

    loop = asyncio.new_event_loop()  # it is left as it is, and hears no more answers
    loop.run_until_complete(begin())
    disk.let.set()

    async def go_on() -> list[int]:
        async with asyncio.timeout(10), log:
            await log.append("chat", Noted("next"))
            return [entry.seq async for entry in log.read("chat")]

    assert asyncio.run(go_on()) == [1, 2, 3, 4]
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
