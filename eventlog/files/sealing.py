"""Sealing a full segment, over bytes that are durable.

Summing and syncing 8 MiB would make one append in thousands a slow one. So both are done in steps, on another
thread, while the segment fills; what is left to do when it is full is less than a step.

Not by a process that writes a turn and ends, as many do: of a segment that others began, the sums are begun by whoever has
written a step of it.
"""

import errno
import threading
from contextlib import suppress
from pathlib import Path

from xxhash import xxh3_128

from chatfold.eventlog.files.disk import Disk, opened, read_at
from chatfold.eventlog.files.seal import Tally
from chatfold.eventlog.files.segment import Place

STEP = 1 << 20


class Sealer:
    """``found``: where the segment ended when its writer came to it."""

    def __init__(self, disk: Disk, found: int = 0) -> None:
        self._disk = disk
        self._found = found
        self._one_at_a_time = threading.Lock()
        self._inode = -1
        self._tally = Tally()
        self._made, self._end = xxh3_128(), (-1, 0)

    def began(self, tail: Place, header: bytes) -> None:
        """A segment, by its writer: what it says from here on is told by ``wrote``, and need not be verified."""
        self._made, self._end = xxh3_128(header), (tail.inode, len(header))

    def wrote(self, tail: Place, data: bytes) -> None:
        if self._end == (tail.inode, tail.at.offset):  # else somebody else wrote, too
            self._made.update(data)
            self._end = (tail.inode, tail.at.offset + len(data))

    def is_behind(self, tail: Place) -> bool:
        return tail.at.offset - (self._tally.bytes if self._inode == tail.inode else 0) >= STEP

    def is_due(self, tail: Place) -> bool:
        """Is it time to ``try_to_advance``?"""
        return self.is_behind(tail) and tail.at.offset - self._found >= STEP

    def advance(self, path: Path, tail: Place, *, sync: bool = True) -> None:
        """Sums up the segment to ``tail`` and asks for it to be written out."""
        with self._one_at_a_time, opened(self._disk, path) as fd:
            if self._disk.fstat(fd).st_ino != tail.inode:
                return  # swapped meanwhile, by a redaction
            if self._inode != tail.inode:
                self._inode, self._tally = tail.inode, Tally(verifying=self._end[0] != tail.inode)
            while self._tally.bytes < tail.at.offset:
                done = self._tally.bytes
                data = read_at(self._disk, fd, done, min(STEP, tail.at.offset - done))
                if not data:
                    raise OSError(errno.EIO, "the segment is shorter than it was", str(path))
                self._tally.add(data)
            if sync:
                self._disk.sync(fd)

    def try_to_advance(self, path: Path, tail: Place) -> None:
        """The same ahead of time: whoever seals is told what went wrong."""
        with suppress(OSError):
            self.advance(path, tail)

    def line(self, path: Path, tail: Place) -> bytes:
        """The seal, of bytes that the caller has made durable."""
        self.advance(path, tail, sync=False)
        is_ours = self._end == (tail.inode, tail.at.offset)
        if not (is_ours or self._tally.verifying):
            self._inode, self._end = -1, (-1, 0)
            self.advance(path, tail, sync=False)
        made = self._made.hexdigest() if is_ours else None
        return self._tally.seal(tail.at.seq - tail.first + 1, tail.at.link or b"", made)
