"""The open segment's descriptor: bytes are appended, cut back, synced and sealed through it.

The caller holds the chat's lock, except for ``sync``. Between two calls the segment holds complete batches of lines that
verify, then perhaps the beginning of one more. That is what a crash leaves and what ``recovery`` expects.

No room raises the OSError, and the caller cuts the file back. Any other failed write and every failed sync is
``WriteFailed``: the kernel may have dropped the pages, and it reports that once.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from chatfold.eventlog.errors import NO_ROOM
from chatfold.eventlog.files.disk import Disk, write_all
from chatfold.eventlog.files.sealing import STEP, SealBuilder
from chatfold.eventlog.files.segment import Tail, ends_with_link

_SUM = 19  # bytes of a line from its sum on, the newline included


class WriteFailed(Exception):
    """Nothing is known about what is durable. The cause says why."""


class SegmentWriter:
    """``fd`` is the segment's, open for appending; ``close`` closes it. ``written``: all that is in it, if this process wrote that."""

    def __init__(self, disk: Disk, path: Path, fd: int, tail: Tail, written: bytes = b"") -> None:
        self.inode = tail.inode
        self._disk = disk
        self.path = path
        self.fd = fd
        self._seal = SealBuilder(disk, tail.position.offset, tail.inode, written)
        self.is_seal_due = False  # is it time for ``advance_seal``?

    @property
    def size(self) -> int:
        return self._disk.fstat(self.fd).st_size

    def close(self) -> None:
        """Let go of the file. Syncs nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with suppress(OSError):  # what mattered was synced
                self._disk.close(fd)

    def append(self, tail: Tail, data: bytes) -> None:
        """Write ``data`` after ``tail``. If this raises, any part of it may be in the file."""
        seal, start = self._seal, tail.position.offset
        try:
            count = self._disk.write(self.fd, data)
            if count < len(data):
                write_all(self._disk, self.fd, data[count:])
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            raise WriteFailed from error
        if seal.written_to == start:
            seal.written.update(data)
            seal.written_to = start + len(data)
        self.is_seal_due = start + len(data) >= seal.due_at

    def cut_to_last_complete(self, tail: Tail, sizes: list[int]) -> int:
        """Cut the file after the last batch that is complete; return how many are. ``sizes``: the bytes of each."""
        status = self._disk.fstat(self.fd)
        if status.st_ino != tail.inode:  # the descriptor became another file's, which is not ours to cut
            raise WriteFailed from OSError(errno.EBADF, "another part of this process closed our file")
        end, count = tail.position.offset, 0
        for size in sizes:
            if end + size > status.st_size:
                break
            end += size
            count += 1
        self.cut(end)
        return count

    def cut(self, end: int) -> None:
        try:
            self._disk.truncate(self.fd, end)
        except OSError as error:
            raise WriteFailed from error

    def is_at(self, tail: Tail) -> bool:
        """Is the line before ``tail`` the one it names? The sum is compared first: only a tombstone has another one.

        WriteFailed if the descriptor is not our file's any more.
        """
        position = tail.position
        try:
            found = self._disk.pread(self.fd, _SUM, position.offset - _SUM)
            if found == b'%b"}\n' % (position.link or b"") or position.seq < tail.first:
                return True
            if self._disk.fstat(self.fd).st_ino == self.inode:
                return ends_with_link(self._disk, self.fd, position)
        except OSError as error:
            raise WriteFailed from error
        raise WriteFailed from OSError(errno.EBADF, "another part of this process closed our file")

    def sync(self) -> None:
        """Make all that is in the file durable. Needs no lock.

        What others do to the file meanwhile (roll, redact, delete), they sync themselves.
        """
        try:
            self._disk.sync(self.fd)
        except OSError as error:
            raise WriteFailed from error

    # --- sealing -----------------------------------------------------------------------------------------

    def seal_work(self, tail: Tail) -> Callable[[], None]:
        """What to do on another thread, so that the seal is nearly ready when the segment is filled."""
        self._seal.due_at, self.is_seal_due = tail.position.offset + STEP, False
        return partial(self._seal.advance_in_background, self.path, tail)

    def is_nearly_sealed(self, tail: Tail) -> bool:
        """Is most of the segment summed up already?"""
        return not self._seal.is_behind(tail)

    def write_seal(self, tail: Tail) -> None:
        """Write the seal; durable on return. OSError if there is no room: the file is as it was."""
        self.sync()  # on the descriptor that wrote, which is told of any earlier failure
        line = self._seal.build_seal(self.path, tail)  # reads: if it fails, no write has failed
        try:
            write_all(self._disk, self.fd, line + b"\n")
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise WriteFailed from error
            self.cut(tail.position.offset)
            raise
        self.sync()
