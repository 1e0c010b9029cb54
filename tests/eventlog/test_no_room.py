"""Without room, a fork is not there and an erasure not begun; both say so in our words."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from chatfold.eventlog import DiskFull, FileStorage, Log, NoSuchChat, Noted
from tests.support.disk.faulty_disk import FailingDisk


def _names(root: Path) -> set[str]:
    return {os.path.relpath(path, root) for path in root.rglob("*")}


@pytest.mark.parametrize("verb", ["fork", "redact"])
async def test_without_room_it_is_as_before(root: Path, verb: str) -> None:
    async with Log(FileStorage(root)) as log:
        await log.append("chat", *(Noted(f"{number}") for number in range(5)))
    before = _names(root)
    disk = FailingDisk(1, errno.ENOSPC, kinds=("create", "write"), forever=True)
    async with Log(FileStorage(root, disk=disk)) as log:
        with pytest.raises(DiskFull, match="free some space"):
            await (log.fork("chat", "new", 3) if verb == "fork" else log.redact("chat", 3))
        assert disk.failed
        disk.healed = True
        assert _names(root) == before | {"chats/chat/lock"}
        assert await log.fork("chat", "new", 3)
        assert 3 in (await log.redact("chat", 3))["chat"]


@pytest.mark.parametrize("nth", range(1, 12))
async def test_after_an_erasure_without_room_an_append_works_or_says_so(root: Path, nth: int) -> None:
    """Wherever the room ended: the erasure has not begun, or it is finished when there is room."""
    async with Log(FileStorage(root)) as log:
        await log.append("chat", *(Noted(f"{number}") for number in range(5)))
    disk = FailingDisk(nth, errno.ENOSPC, kinds=("create", "write"), forever=True)
    async with Log(FileStorage(root, disk=disk)) as log:
        with suppress(DiskFull):
            await log.storage.redact("chat", [3])
        for chat in ("chat", "new") if disk.failed else ():
            with pytest.raises(DiskFull, match="free some space") as refused:
                await log.append(chat, Noted("more"))
            assert refused.value.chat == chat
            for work in (log.fork(chat, "fork", 1), log.delete(chat), log.storage.redact(chat, [1])):
                with suppress(DiskFull, NoSuchChat):
                    await work
        disk.healed = True
        await log.append("chat", Noted("more"))
        await log.append("new", Noted("more"))
