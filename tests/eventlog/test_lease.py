"""A lease: one at a time, in all processes, for as long as the chat is the same."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Log, NoSuchChat, Noted
from chatfold.eventlog.files.disk import Disk


class ToolCall(Disk):
    tries = 0

    def try_lock(self, fd: int) -> bool:
        self.tries += 1
        return super().try_lock(fd)

    async def is_asked(self, times: int) -> None:
        before = self.tries
        while self.tries < before + times:  # noqa: ASYNC110 (a disk sets no event)
            await asyncio.sleep(0.01)


async def _waits(log: Log, inside: list[str], leave: asyncio.Event) -> None:
    async with log.storage.lease("chat"):
        inside.append("in")
        await leave.wait()
        inside.pop()


async def test_who_waited_for_a_deleted_chat_is_not_inside_beside_one_of_the_new_chat(root: Path) -> None:
    """Its file is another one, although of the same name."""
    disk = ToolCall()
    async with Log(FileStorage(root, disk=disk)) as log:
        inside: list[str] = []
        leave = asyncio.Event()
        await log.append("chat", Noted("old"))
        async with log.storage.lease("chat"):
            waiting = asyncio.create_task(_waits(log, inside, leave))
            await disk.is_asked(2)
            await log.delete("chat")
            await log.append("chat", Noted("new"))
            async with asyncio.timeout(10):
                new = log.storage.lease("chat")
                await new.__aenter__()
        with suppress(TimeoutError):  # it asks no more when it is inside
            await asyncio.wait_for(disk.is_asked(3), 3)
        beside = list(inside)
        await new.__aexit__(None, None, None)
        leave.set()
        await asyncio.wait_for(waiting, 10)
        assert beside == []


async def test_who_waited_for_a_chat_that_is_deleted_for_good_is_told(root: Path) -> None:
    disk = ToolCall()
    async with Log(FileStorage(root, disk=disk)) as log:
        await log.append("chat", Noted("old"))
        async with log.storage.lease("chat"):
            waiting = asyncio.create_task(_waits(log, [], asyncio.Event()))
            await disk.is_asked(2)
            await log.delete("chat")
        with pytest.raises(NoSuchChat):
            await asyncio.wait_for(waiting, 10)
