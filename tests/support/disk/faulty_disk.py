"""Disks that break: a real disk underneath, and one thing that goes wrong at a chosen call; and one that only counts."""

import errno
import os
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from chatfold.eventlog.files.disk import Disk

OPENING = ("open_append", "open_update", "create")
WRITING = ("write", "pwrite", "truncate")
SYNCING = ("sync", "sync_folder")
NAMING = ("rename", "link", "unlink", "make_folder", "remove_folder")
CHANGING = (*OPENING, *WRITING, *SYNCING, *NAMING)
READING = ("open_read", "pread", "stat", "fstat", "names", "lock")
KINDS = (*CHANGING, *READING)


class ReadDisk(Disk):
    """How many bytes were read."""

    read = 0

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        self.read += len(data)
        return data


class WatchedDisk(Disk):
    """Tells ``before`` of every call."""

    def before(self, kind: str) -> None:
        """A call of this kind is about to happen."""


def _watched(kind: str) -> Callable[..., Any]:
    real = getattr(Disk, kind)

    def call(self: WatchedDisk, *args: Any) -> Any:
        self.before(kind)
        return real(self, *args)

    return call


for _kind in KINDS:
    setattr(WatchedDisk, _kind, _watched(_kind))


class FailingDisk(WatchedDisk):
    """The ``nth`` call of these kinds fails; with ``forever``, every later one of them too."""

    def __init__(
        self, nth: int, code: int = errno.EIO, *, kinds: Collection[str] = KINDS, forever: bool = False
    ) -> None:
        self.failed: list[str] = []
        self.healed = False
        self._nth = nth
        self._code = code
        self._kinds = kinds
        self._forever = forever
        self._seen = 0

    def before(self, kind: str) -> None:
        if kind not in self._kinds or self.healed:
            return
        self._seen += 1
        if self._seen == self._nth or (self._forever and self._seen > self._nth):
            self.failed.append(kind)
            raise OSError(self._code, os.strerror(self._code))


class DyingDisk(WatchedDisk):
    """The process is killed right before the ``nth`` change; with ``torn``, halfway through the ``nth`` write.

    Dying before a call that only reads leaves what dying before the next change leaves.
    """

    def __init__(self, nth: int, *, torn: bool = False) -> None:
        self._nth = nth
        self._torn = torn
        self._changes = 0
        self._writes = 0

    def before(self, kind: str) -> None:
        self._changes += kind in CHANGING
        if self._changes == self._nth and not self._torn:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self.before("write")
        self._writes += 1
        if self._torn and self._writes == self._nth:
            Disk.write(self, fd, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return Disk.write(self, fd, data)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        """What is overwritten in place is torn, too: the witness, and padding."""
        self.before("pwrite")
        self._writes += 1
        if self._torn and self._writes == self._nth:
            Disk.pwrite(self, fd, data[: len(data) // 2], offset)
            os.kill(os.getpid(), signal.SIGKILL)
        return Disk.pwrite(self, fd, data, offset)


class ShortDisk(Disk):
    """Writes at most ``most`` bytes a call, as the system may."""

    def __init__(self, most: int) -> None:
        self._most = most

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return super().write(fd, data[: self._most])

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return super().pwrite(fd, data[: self._most], offset)


class SmallDisk(Disk):
    """Has room for ``room`` more bytes: writes what fits, then says ENOSPC."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = super().write(fd, data[: self.room])
        self.room -= done
        return done

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        """What is there already takes no room."""
        size = self.fstat(fd).st_size
        data = data[: max(0, size - offset) + self.room]
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = super().pwrite(fd, data, offset)
        self.room -= max(0, offset + done - size)
        return done

    def truncate(self, fd: int, size: int) -> None:
        self.room += max(0, self.fstat(fd).st_size - size)
        super().truncate(fd, size)


class UnreadableDisk(Disk):
    """One file cannot be read: EIO from byte ``start`` on."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self._inode = path.stat().st_ino
        self._start = start

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        if offset + size > self._start and self.fstat(fd).st_ino == self._inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pread(fd, size, offset)
