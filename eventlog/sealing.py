"""The seal of a full segment: its entries, its bytes, their sha256; written only over bytes that are durable.

Hashing and syncing 8 MiB would make one append in thousands a slow one. So both are done in steps, on another
thread, while the segment fills; what is left to do when it is full is less than a step.
"""

import threading
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from eventlog.disk import Disk, read_at
from eventlog.folder import Place
from eventlog.line import seal

STEP = 1 << 20


class Sealer:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._one_at_a_time = threading.Lock()
        self._inode = -1
        self._hashed = 0
        self._hash = sha256()

    def is_behind(self, tail: Place) -> bool:
        return tail.at.offset - (self._hashed if self._inode == tail.inode else 0) >= STEP

    def advance(self, path: Path, tail: Place) -> None:
        """Hashes the segment up to ``tail`` and asks for it to be written out."""
        with self._one_at_a_time:
            fd = self._disk.open_read(path)
            try:
                if self._disk.fstat(fd).st_ino != tail.inode:
                    return  # swapped meanwhile, by a redaction
                if self._inode != tail.inode:
                    self._inode, self._hashed, self._hash = tail.inode, 0, sha256()
                while self._hashed < tail.at.offset:
                    data = read_at(self._disk, fd, self._hashed, min(STEP, tail.at.offset - self._hashed))
                    self._hash.update(data)
                    self._hashed += len(data)
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
        count = tail.at.seq - tail.first + 1
        return seal(count, tail.at.offset, self._hash.hexdigest(), tail.at.link or b"")
