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


class Lock:
    """Kept open between uses: taking it is then two system calls."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._path = folder / LOCK_FILE
        self._disk = disk
        self._fd = -1

    def acquire(self, *, wait: bool = True) -> None:
        if self._fd < 0:
            self._fd = self._open()
        if wait:
            self._disk.lock(self._fd)
        elif not self._disk.try_lock(self._fd):
            raise WouldBlock
        if self._disk.fstat(self._fd).st_nlink == 0:
            self.release()
            raise ChatReplaced

    def release(self) -> None:
        self._disk.unlock(self._fd)

    def check(self) -> None:
        """Whoever removed the lock file, or the whole folder, may hold another lock of the same name: Gone."""
        try:
            if self._disk.stat(self._path).st_ino == self._disk.fstat(self._fd).st_ino:
                return
        except FileNotFoundError:
            pass
        raise ChatReplaced

    def _open(self) -> int:
        try:
            if not stat.S_ISDIR(self._disk.stat(self._folder).st_mode):
                raise NotADirectoryError(
                    errno.ENOTDIR, "a chat's folder is something else", str(self._folder)
                )
            return self._disk.open_update(self._path)
        except FileNotFoundError:
            raise ChatMissing from None

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):  # it was closed by somebody else
                self._disk.close(fd)


@contextmanager
def holding_lock(folder: LogReader) -> Iterator[None]:
    """No process appends to the chat meanwhile. NoSuchChat if there is none."""
    lock = Lock(folder.path, folder.disk)
    try:
        lock.acquire()
        lock.check()
        yield
    except (ChatReplaced, ChatMissing):
        raise NoSuchChat("no such chat", chat=folder.chat, path=folder.path) from None
    finally:
        lock.close()


@asynccontextmanager
async def alone(folder: LogReader) -> AsyncIterator[None]:
    """Nobody else is in here, of those who asked for this. Another lock: appends do not wait for it."""
    try:
        fd = folder.disk.open_update(folder.path / ALONE_FILE)
    except FileNotFoundError:
        raise NoSuchChat("no such chat", chat=folder.chat, path=folder.path) from None
    try:
        pause = 0.02
        while not folder.disk.try_lock(fd):  # asked again and again: waiting would take a thread for each
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.25)
        yield
    finally:
        folder.disk.close(fd)
