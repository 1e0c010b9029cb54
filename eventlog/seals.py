"""The seal of a full segment: its entries, its bytes, their sums.

``sha256`` is for whoever keeps or compares files. ``xxh3`` is for readers, who verify a full segment with it at once
instead of line by line. So it stands only where every line was verified, in the very bytes that were summed: a seal
that vouched for what somebody else's memory or disk had changed before would hide the damage.
"""

from collections.abc import Iterator
from hashlib import sha256

import msgspec
from xxhash import xxh3_128

from eventlog.disk import Disk, read_at
from eventlog.line import (
    MAX_LINE,
    SEAL,
    accepted,
    decode_loosely,
    link_of,
    prev_of,
    seal_up,
    seq_of,
    verifies,
)
from eventlog.segment import SEGMENT_BYTES, Page, Position, Stop, line_before

_MOST = 8 * SEGMENT_BYTES  # bytes of a segment that is read at once


class Seal(msgspec.Struct, frozen=True):
    count: int
    bytes: int
    sha256: str
    xxh3: str | None = None


def seal(count: int, size: int, digest: str, prev: bytes, xxh3: str | None = None) -> bytes:
    """The last line of a full segment: its entries, its bytes before this line, and their sums."""
    fast = b',"xxh3":"%b"' % xxh3.encode() if xxh3 else b""
    return seal_up(
        b'{"seal":{"count":%d,"bytes":%d,"sha256":"%b"%b},"prev":"%b"'
        % (count, size, digest.encode(), fast, prev)
    )


def read_seal(line: bytes) -> Seal:
    return msgspec.convert(decode_loosely(line)["seal"], Seal)


class Tally:
    """Of the bytes of a segment, from the first on, as they come."""

    def __init__(self) -> None:
        self.bytes = 0
        self._sha256 = sha256()
        self._xxh3 = xxh3_128()
        self._link: bytes | None = None  # None before the header
        self._rest = b""  # of a line that goes on
        self._verified = True

    def add(self, data: bytes) -> None:
        self.bytes += len(data)
        self._sha256.update(data)
        self._xxh3.update(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines and self._verified:
            self._verify(lines)

    def _verify(self, lines: list[bytes]) -> None:
        if self._link is None:
            self._link = prev_of(lines[0])
            self._verified = verifies(lines.pop(0))
        self._verified = self._verified and accepted(lines, self._link) == len(lines)
        if lines and self._verified:
            self._link = link_of(lines[-1])

    def seal(self, count: int, prev: bytes) -> bytes:
        vouched = self._verified and not self._rest and self._link == prev
        xxh3 = self._xxh3.hexdigest() if vouched else None
        return seal(count, self.bytes, self._sha256.hexdigest(), prev, xxh3)


def sealed(lines: list[bytes]) -> bytes:
    """The bytes of a full segment: its header and its entries, then their seal."""
    data = b"\n".join([*lines, b""])
    tally = Tally()
    tally.add(data)
    return data + tally.seal(len(lines) - 1, link_of(lines[-1])) + b"\n"


# --- reading ---------------------------------------------------------------------------------------------


def read_sealed(disk: Disk, fd: int, start: Position, size: int, last: int) -> dict[int, Page] | None:
    """The pages of the segment whose header ends at ``start``, by the byte at which they begin.

    None if an entry comes after ``last``, if nobody vouches for the segment, or if its bytes are not those that were
    sealed: reading it line by line then tells where the damage is.
    """
    end = disk.fstat(fd).st_size
    line = line_before(disk, fd, end) if end <= _MOST else b""
    found = _vouching(line)
    if found is None or found.bytes != end - len(line) - 1 or start.seq + found.count > last:
        return None
    total = xxh3_128(read_at(disk, fd, 0, start.offset))
    pieces: list[bytes] = []
    for data in _pieces(disk, fd, start.offset, found.bytes, size):
        total.update(data)
        pieces.append(data)
    if total.hexdigest() != found.xxh3:
        return None
    pages: dict[int, Page] = {}
    at, stop = Position(start.seq + found.count, prev_of(line), found.bytes), Stop.SEALED
    for data in reversed(pieces):
        begin = at.offset - len(data)
        pages[begin] = Page([], at, stop, data)
        at, stop = Position(seq_of(data) - 1, None, begin), Stop.MORE
    return pages or None


def _vouching(line: bytes) -> Seal | None:
    if not line.startswith(SEAL) or not verifies(line):
        return None
    try:
        found = read_seal(line)
    except msgspec.DecodeError:
        return None
    return found if found.xxh3 else None


def _pieces(disk: Disk, fd: int, start: int, end: int, size: int) -> Iterator[bytes]:
    """The bytes from ``start`` to ``end`` in pieces of whole lines, as far as they are lines."""
    while start < end:
        data = read_at(disk, fd, start, min(size, end - start))
        cut = data.rfind(b"\n") + 1
        if cut:
            yield data[:cut]
            start += cut
        elif size <= MAX_LINE:
            size *= 4
        else:
            return
