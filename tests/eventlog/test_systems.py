"""What a system lacks: the log is as durable without fdatasync and posix_fadvise, as on macOS; Windows is refused in words."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Log, Noted

FULL_SYNC = 51  # as macOS names it


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Linux with the calls that macOS has; how often each descriptor was synced to the medium."""
    synced: list[int] = []
    real = fcntl.fcntl

    def call(fd: int, command: int, argument: int = 0) -> int:
        if command != FULL_SYNC:
            return real(fd, command, argument)
        os.fsync(fd)
        synced.append(fd)
        return 0

    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.delattr(os, "posix_fadvise")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL_SYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", call)
    return synced


async def test_every_durable_append_reaches_the_medium_where_fsync_does_not(
    root: Path, macos: list[int]
) -> None:
    async with Log(FileStorage(root, segment_bytes=500)) as log:
        for number in range(5):
            before = len(macos)
            await log.append("chat", Noted(f"{number}"))
            assert len(macos) > before
    (root / "chats" / "chat" / "failed-sync").touch()  # the next writer reads what the medium has
    async with Log(FileStorage(root)) as log:
        await log.append("chat", Noted("after it"))
        assert (await log.head("chat")).seq == 6


async def test_a_system_with_nothing_but_fsync_is_enough(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.delattr(os, "posix_fadvise")
    async with Log(FileStorage(root)) as log:
        await log.append("chat", Noted("one"))
        assert (await log.head("chat")).seq == 1


def test_windows_is_refused_in_a_sentence() -> None:
    code = (
        "import asyncio, pathlib, subprocess, msgspec, xxhash, sys\n"
        "sys.platform = 'win32'\n"
        "sys.modules['fcntl'] = None\n"
        "import chatfold.eventlog.files.disk"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: chatfold keeps chats in files on Linux and macOS; on Windows, run it in WSL"
    )
