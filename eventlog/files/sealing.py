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
from chatfold.eventlog.files.seal import SegmentDigest
from chatfold.eventlog.files.segment import Tail

STEP = 1 << 20


class SealBuilder:
    """``found``: where the segment ended when its writer came to it."""

    def __init__(self, disk: Disk, found: int = 0) -> None:
        self._disk = disk
        self._found = found
        self._one_at_a_time = threading.Lock()
        self._inode = -1
        self._tally = SegmentDigest()
        self._written_digest, self._written_to = xxh3_128(), (-1, 0)

    def start(self, tail: Tail, header: bytes) -> None:
        """A segment, by its writer: what it says from here on is told by ``update``, and need not be verified."""
        self._written_digest, self._written_to = xxh3_128(header), (tail.inode, len(header))

    def update(self, tail: Tail, data: bytes) -> None:
        if self._written_to == (tail.inode, tail.position.offset):  # else somebody else wrote, too
            self._written_digest.update(data)
            self._written_to = (tail.inode, tail.position.offset + len(data))

    def is_behind(self, tail: Tail) -> bool:
        return tail.position.offset - (self._tally.bytes if self._inode == tail.inode else 0) >= STEP

    def is_due(self, tail: Tail) -> bool:
        """Is it time to ``advance_in_background``?"""
        return self.is_behind(tail) and tail.position.offset - self._found >= STEP

    def advance(self, path: Path, tail: Tail, *, sync: bool = True) -> None:
        """Sums up the segment to ``tail`` and asks for it to be written out."""
        with self._one_at_a_time, opened(self._disk, path) as fd:
            if self._disk.fstat(fd).st_ino != tail.inode:
                return  # swapped meanwhile, by a redaction
            if self._inode != tail.inode:
                self._inode, self._tally = (
                    tail.inode,
                    SegmentDigest(verifying=self._written_to[0] != tail.inode),
                )
            while self._tally.bytes < tail.position.offset:
                done = self._tally.bytes
                data = read_at(self._disk, fd, done, min(STEP, tail.position.offset - done))
                if not data:
                    raise OSError(errno.EIO, "the segment is shorter than it was", str(path))
                self._tally.add(data)
            if sync:
                self._disk.sync(fd)

    def advance_in_background(self, path: Path, tail: Tail) -> None:
        """The same ahead of time: whoever seals is told what went wrong."""
        with suppress(OSError):
            self.advance(path, tail)

    def build_seal(self, path: Path, tail: Tail) -> bytes:
        """The seal, of bytes that the caller has made durable."""
        self.advance(path, tail, sync=False)
        is_ours = self._written_to == (tail.inode, tail.position.offset)
        if not (is_ours or self._tally.verifying):
            self._inode, self._written_to = -1, (-1, 0)
            self.advance(path, tail, sync=False)
        made = self._written_digest.hexdigest() if is_ours else None
        return self._tally.seal(tail.position.seq - tail.first + 1, tail.position.link or b"", made)
