"""The seal of a full segment: its entries, its bytes, their sums.

``sha256`` is for whoever keeps or compares files. ``xxh3`` is for readers, who verify a full segment with it at once
instead of line by line. So it stands only where every line was verified, in the very bytes that were summed: a seal
that vouched for what somebody else's memory or disk had changed before would hide the damage.

Summing and syncing 8 MiB would make one append in thousands a slow one. So both are done in steps, on another
thread, while the segment fills; what is left to do when it is full is less than a step. Not by a process that writes a
turn and ends, as many do: of a segment that others began, the sums are begun by whoever has written a step of it.
"""

import errno
import threading
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from xxhash import xxh3_128, xxh3_128_hexdigest

from chatfold.eventlog.codec import Page
from chatfold.eventlog.errors import CorruptLog
from chatfold.eventlog.files.disk import Disk, read_at, reading_file
from chatfold.eventlog.files.segment import (
    SEGMENT_BYTES,
    PageEnd,
    Position,
    SegmentPage,
    Tail,
    read_line_before,
)
from chatfold.eventlog.line import (
    SEAL_PREFIX,
    Seal,
    count_valid_chain,
    has_valid_sum,
    link_after,
    parse_prev,
    parse_seal,
    parse_seq,
    seal_line,
)

STEP = 1 << 20
_MOST = 8 * SEGMENT_BYTES  # bytes of a segment that is read at once


class SegmentDigest:
    """Of the bytes of a segment, from the first on, as they come. Not ``verifying``: whoever made them knows their sum."""

    def __init__(self, *, verifying: bool = True) -> None:
        self.bytes = 0
        self.verifying = verifying
        self._sha256 = sha256()
        self._xxh3 = xxh3_128()
        self._link: bytes | None = None  # None before the header
        self._rest = b""  # of a line that goes on
        self._verified = True

    def add(self, data: bytes) -> None:
        self.bytes += len(data)
        self._sha256.update(data)
        self._xxh3.update(data)
        if self.verifying:
            *lines, self._rest = (self._rest + data).split(b"\n")
            if lines and self._verified:
                self._verify(lines)

    def _verify(self, lines: list[bytes]) -> None:
        if self._link is None:
            self._link = parse_prev(lines[0])
            self._verified = has_valid_sum(lines.pop(0))
        self._verified = self._verified and count_valid_chain(lines, self._link) == len(lines)
        if lines and self._verified:
            self._link = link_after(lines[-1])

    def seal(self, count: int, prev: bytes, made: str | None = None) -> bytes:
        """``made``: the sum of what was meant to be written."""
        xxh3: str | None = self._xxh3.hexdigest()
        verified = self.verifying and self._verified and not self._rest and self._link == prev
        if not verified and xxh3 != made:
            xxh3 = None
        return seal_line(count, self.bytes, self._sha256.hexdigest(), prev, xxh3)


def build_sealed_segment(lines: list[bytes]) -> bytes:
    """The bytes of a full segment: its header and its entries, then their seal."""
    data = b"\n".join([*lines, b""])
    tally = SegmentDigest()
    tally.add(data)
    return data + tally.seal(len(lines) - 1, link_after(lines[-1])) + b"\n"


# --- making it in steps ----------------------------------------------------------------------------------


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


# --- reading ---------------------------------------------------------------------------------------------


class SealedSegment(msgspec.Struct, frozen=True, gc=False):
    """A full segment, without its seal, as it was when it was sealed."""

    data: bytes
    at: Position  # after its last entry

    def has(self, place: Tail) -> bool:
        """Is this place in it? Its header was compared with the segment before."""
        at = place.position
        if at.seq < place.first or at.link is None:
            return at.seq < place.first
        begin = self.data.rfind(b"\n", 0, max(0, at.offset - 1)) + 1
        line = self.data[begin : at.offset - 1]
        return line.startswith(b'{"seq":%d,' % at.seq) and link_after(line) == at.link

    def page(self, at: Position, size: int) -> SegmentPage:
        """What ``read_page`` reads there, but not cut into lines."""
        end = self.data.rfind(b"\n", at.offset, at.offset + size) + 1 or self.data.index(b"\n", at.offset) + 1
        page = Page(self.data, at.offset, end)
        if end == len(self.data):
            return SegmentPage([], self.at, PageEnd.SEALED, page)
        following = self.data[end : self.data.index(b",", end) + 1]
        return SegmentPage([], Position(parse_seq(following) - 1, None, end), PageEnd.MORE, page)


def read_if_sealed(disk: Disk, fd: int, before: int, last: int) -> SealedSegment | None:
    """The segment that goes on after seq ``before``.

    None if an entry comes after ``last``, if nobody vouches for the segment, or if its bytes are not those that were
    sealed: reading it line by line then tells where the damage is.
    """
    end = disk.fstat(fd).st_size
    line = read_line_before(disk, fd, end) if end <= _MOST else b""
    found = _parse_trusted_seal(line)
    if found is None or found.bytes != end - len(line) - 1 or before + found.count > last:
        return None
    data = read_at(disk, fd, 0, found.bytes)
    if xxh3_128_hexdigest(data) != found.xxh3:
        return None
    return SealedSegment(data, Position(before + found.count, parse_prev(line), found.bytes))


def _parse_trusted_seal(line: bytes) -> Seal | None:
    if not line.startswith(SEAL_PREFIX) or not has_valid_sum(line):
        return None
    try:
        found = parse_seal(line)
    except CorruptLog:
        return None
    return found if found.xxh3 else None
