"""Without room, a fork is not there and an erasure not begun; both say so in our words."""

import errno
import os
from pathlib import Path

import pytest

from chatfold.eventlog import DiskFull, FileStorage, Log, Noted
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
