"""The seal of a full segment: its entries, its bytes, their sums.

``sha256`` is for whoever keeps or compares files. ``xxh3`` is for readers, who verify a full segment with it at once
instead of line by line. So it stands only where every line was verified, in the very bytes that were summed: a seal
that vouched for what somebody else's memory or disk had changed before would hide the damage.
"""

from hashlib import sha256

import msgspec
from xxhash import xxh3_128, xxh3_128_hexdigest

from chatfold.eventlog.codec import Page
from chatfold.eventlog.errors import CorruptLog
from chatfold.eventlog.files.disk import Disk, read_at
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
