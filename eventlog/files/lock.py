"""A chat's lock: who holds it may change the folder; nobody else does meanwhile.

``flock`` on the file ``lock``, which is never removed while the chat exists. The kernel frees the lock of a process
that died: there are no leases, times or pids to be wrong.
"""

import asyncio
import errno
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from chatfold.eventlog.errors import NoSuchChat
from chatfold.eventlog.files.chat_dir import ALONE_FILE, LOCK_FILE
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader


class ChatMissing(Exception):
    """There is no such chat yet."""


class ChatReplaced(Exception):
    """The folder is not the one we had open."""


class WouldBlock(Exception):
    """It would take waiting, and we were asked not to."""


def open_lock(disk: Disk, folder: Path) -> int:
    """A descriptor to lock. ChatMissing if there is no chat."""
    try:
        return _open_in_chat(disk, folder, LOCK_FILE)
    except FileNotFoundError:
        raise ChatMissing from None


def verify_lock(disk: Disk, folder: Path, fd: int) -> None:
    """ChatReplaced if the lock file, or the whole folder, was removed: then another process may hold another lock of this name."""
    if not _is_named(disk, folder / LOCK_FILE, fd):
        raise ChatReplaced


@contextmanager
def holding_lock(reader: LogReader) -> Iterator[None]:
    """No process appends to the chat meanwhile. NoSuchChat if there is none."""
    try:
        fd = open_lock(reader.disk, reader.path)
    except ChatMissing:
        raise NoSuchChat("no such chat", chat=reader.chat, path=reader.path) from None
    try:
        reader.disk.lock(fd)
        verify_lock(reader.disk, reader.path, fd)
        yield
    except ChatReplaced:
        raise NoSuchChat("no such chat", chat=reader.chat, path=reader.path) from None
    finally:
        with suppress(OSError):  # another part of this process closed it
            reader.disk.close(fd)


@asynccontextmanager
async def alone(folder: LogReader) -> AsyncIterator[None]:
    """Nobody else is in here, of those who asked for this. Another lock: appends do not wait for it."""
    while True:
        fd = _open_alone(folder)
        try:
            pause = 0.02
            while not folder.disk.try_lock(fd):  # asked again and again: waiting would take a thread for each
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.25)
            if _is_named(folder.disk, folder.path / ALONE_FILE, fd):
                yield
                return
        finally:
            folder.disk.close(fd)
        # The chat was deleted while we waited, and is perhaps there again: with another file, which others may hold.


def _open_alone(folder: LogReader) -> int:
    try:
        return _open_in_chat(folder.disk, folder.path, ALONE_FILE)
    except FileNotFoundError:
        raise NoSuchChat("no such chat", chat=folder.chat, path=folder.path) from None


def _open_in_chat(disk: Disk, folder: Path, name: str) -> int:
    if not stat.S_ISDIR(disk.stat(folder).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "a chat's folder is something else", str(folder))
    return disk.open_update(folder / name)


def _is_named(disk: Disk, path: Path, fd: int) -> bool:
    """Is the open file still the one of this name?"""
    try:
        return disk.stat(path).st_ino == disk.fstat(fd).st_ino
    except FileNotFoundError:
        return False
