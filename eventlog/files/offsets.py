"""Where lines start, every eighth of them: reading by seq costs a seek, not a scan.

Noted while a segment is read or written; for a full segment kept in ``cache/<first>.offsets``. An index that leads to another line
than it says is dropped and made again.
"""

import os
from bisect import bisect_right

import msgspec

from chatfold.eventlog.events import Head
from chatfold.eventlog.files.cache import Cache, Span
from chatfold.eventlog.line import DECODE_ERRORS, Count, parse_prev

STRIDE = 8
_KIND = "offsets 1"


class SegmentOffsets(msgspec.Struct):
    """Line ``seqs[i]`` starts at byte ``starts[i]``, in the file with this inode. ``prev``: before the first of them."""

    inode: int
    prev: bytes
    seqs: list[int]
    starts: list[int]
    end: int = 0  # everything before this byte is noted
    gap: bool = False  # something in between was not


class _Index(msgspec.Struct, array_like=True):
    """What is kept of a segment of so many bytes: where its first line starts, and every eighth after it.

    Nothing that a copy of the file changes: whoever restores a chat has its indexes, too.
    """

    bytes: Count
    starts: list[Count]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Index).decode


class Offsets:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._anchors: dict[int, SegmentOffsets] = {}

    def forget(self) -> None:
        self._anchors.clear()

    def drop(self, first: int) -> None:
        """What is known of this segment turned out wrong."""
        self._anchors.pop(first, None)
        self._cache.remove(offsets_name(first))

    def record(self, first: int, inode: int, seq: int, start: int, lines: list[bytes]) -> None:
        """``lines``, the first of them ``seq``, stand at byte ``start``."""
        if not lines:
            return
        anchors = self._anchors.get(first)
        if anchors is None or anchors.inode != inode or (anchors.gap and seq == first):
            prev = parse_prev(lines[0])
            anchors = self._anchors[first] = SegmentOffsets(inode, prev, [], [], start, gap=seq != first)
        if start < anchors.end:
            return
        anchors.gap |= start > anchors.end
        begin, end = 0, (first - seq) % STRIDE  # the next line with an anchor
        while end < len(lines):
            start += end - begin + sum(map(len, lines[begin:end]))
            anchors.seqs.append(seq + end)
            anchors.starts.append(start)
            begin, end = end, end + STRIDE
        anchors.end = start + len(lines) - begin + sum(map(len, lines[begin:]))

    def lookup(
        self, first: int, status: os.stat_result, seq: int, *, full: bool
    ) -> tuple[int, int, int] | None:
        """(seq, start) of the last line known at or before ``seq``, and the start of the next one; 0 if it has none.

        ``status``: of the segment. ``full``: there may be an index on disk.
        """
        anchors = self._anchors.get(first) or (self._load(first, status) if full else None)
        if anchors is None or anchors.inode != status.st_ino:
            return None
        seqs, index = anchors.seqs, (seq - first) // STRIDE
        if not (
            index < len(seqs) and seqs[index] == first + index * STRIDE
        ):  # not noted from the start, or wrong
            index = bisect_right(seqs, seq) - 1
        if index < 0 or seqs[index] > seq:
            return None
        following = anchors.starts[index + 1] if index + 1 < len(anchors.starts) else 0
        return seqs[index], anchors.starts[index], following

    def store(self, first: int, size: int, end: Head) -> None:
        """The segment is full, with ``size`` bytes: keeps its index. One of which a part was never seen is made when it is read."""
        anchors = self._anchors.get(first)
        if anchors is not None and not anchors.gap:
            span = Span(first, anchors.prev.decode(), end.seq, end.link)
            index = _encode(_Index(size, anchors.starts))
            self._cache.store(offsets_name(first), _KIND, span, index, self._cache.epoch())

    def _load(self, first: int, status: os.stat_result) -> SegmentOffsets | None:
        found = self._cache.load(offsets_name(first), _KIND)
        try:
            index = _decode(found.payload) if found else None
        except DECODE_ERRORS:
            return None
        if found is None or index is None or (found.span.first, index.bytes) != (first, status.st_size):
            return None
        seqs = list(range(first, first + STRIDE * len(index.starts), STRIDE))
        anchors = SegmentOffsets(status.st_ino, found.span.prev.encode(), seqs, index.starts, end=index.bytes)
        self._anchors[first] = anchors
        return anchors


def offsets_name(first: int) -> str:
    return f"{first:016d}.offsets"
