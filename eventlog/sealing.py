"""Sealing a full segment, over bytes that are durable.

Summing and syncing 8 MiB would make one append in thousands a slow one. So both are done in steps, on another
thread, while the segment fills; what is left to do when it is full is less than a step.
"""

import threading
from contextlib import suppress
from pathlib import Path

from eventlog.disk import Disk, read_at
from eventlog.seals import Tally
from eventlog.segment import Place

STEP = 1 << 20


class Sealer:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._one_at_a_time = threading.Lock()
        self._inode = -1
        self._tally = Tally()

    def is_behind(self, tail: Place) -> bool:
        return tail.at.offset - (self._tally.bytes if self._inode == tail.inode else 0) >= STEP

    def advance(self, path: Path, tail: Place) -> None:
        """Sums up the segment to ``tail`` and asks for it to be written out."""
        with self._one_at_a_time:
            fd = self._disk.open_read(path)
            try:
                if self._disk.fstat(fd).st_ino != tail.inode:
                    return  # swapped meanwhile, by a redaction
                if self._inode != tail.inode:
                    self._inode, self._tally = tail.inode, Tally()
                while self._tally.bytes < tail.at.offset:
                    done = self._tally.bytes
                    self._tally.add(read_at(self._disk, fd, done, min(STEP, tail.at.offset - done)))
                self._disk.sync(fd)
            finally:
                self._disk.close(fd)

    def try_to_advance(self, path: Path, tail: Place) -> None:
        """The same ahead of time: whoever seals is told what went wrong."""
        with suppress(OSError):
            self.advance(path, tail)

    def line(self, path: Path, tail: Place) -> bytes:
        """The seal. Raises OSError if what it vouches for could not be made durable."""
        self.advance(path, tail)
        return self._tally.seal(tail.at.seq - tail.first + 1, tail.at.link or b"")
