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

from chatfold.eventlog.files.disk import Disk, read_at, reading_file
from chatfold.eventlog.files.seal import SegmentDigest
from chatfold.eventlog.files.segment import Tail

STEP = 1 << 20


class SealBuilder:
    """``found``: where the segment ended when its writer came to it. ``written``: all that is in it, if this process wrote that.

    What the writer wrote need not be verified. So it sums up the bytes that it meant to write, in ``written``, as long as
    ``written_to`` is the end of the segment; after that somebody else wrote, too. ``due_at``: where the next step is worth it.
    """

    def __init__(self, disk: Disk, found: int, inode: int, written: bytes = b"") -> None:
        self.written = xxh3_128(written)
        self.written_to = len(written) if written else -1
        self.due_at = STEP if written else found + STEP
        self._disk = disk
        self._inode = inode
        self._one_at_a_time = threading.Lock()
        self._tally = SegmentDigest(verifying=not written)

    def is_behind(self, tail: Tail) -> bool:
        return tail.position.offset - self._tally.bytes >= STEP

    def advance(self, path: Path, tail: Tail, *, sync: bool = True) -> None:
        """Sums up the segment to ``tail`` and asks for it to be written out."""
        with self._one_at_a_time, reading_file(self._disk, path) as fd:
            if self._disk.fstat(fd).st_ino != self._inode:
                return  # swapped meanwhile, by a redaction
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
        is_ours = self.written_to == tail.position.offset
        if not (is_ours or self._tally.verifying):
            self._tally, self.written_to = SegmentDigest(), -1
            self.advance(path, tail, sync=False)
        made = self.written.hexdigest() if is_ours else None
        return self._tally.seal(tail.position.seq - tail.first + 1, tail.position.link or b"", made)
