"""Damage is told as damage although somebody changes the modes of a store while it is read."""

from pathlib import Path

import pytest

from chatfold.eventlog import CorruptLog, FileStorage, Log, Noted
from chatfold.eventlog.files.disk import Disk


class Chmod(Disk):
    """``chmod -R`` goes by at the first read of a segment."""

    def open_read(self, path: Path) -> int:
        if path.suffix == ".jsonl":
            for file in path.parent.iterdir():
                file.chmod(0o700)
        return super().open_read(path)


async def test_a_flipped_byte_is_no_deleted_chat(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        await log.append("chat", Noted("one"), Noted("two"))
        await log.append("chat", Noted("three"))
    [segment] = (root / "chats" / "chat").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b"one", b"0ne"))
    log = Log(FileStorage(root, read_only=True, disk=Chmod()))
    with pytest.raises(CorruptLog):
        assert [entry async for entry in log.read("chat")]
