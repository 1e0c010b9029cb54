"""Which segment files belong to this chat, and how each of them looked when that was proven.

A segment of another chat verifies by itself. What tells it apart is where it meets its neighbours: the last line of one
segment names what the header of the next must follow. All these borders are compared when a chat is first read. A pair of
segments that was exchanged agrees with itself, so no single border is proof enough.

Afterwards a file that looks as it did then (inode, size, times) is believed. One that looks different has to show the same
two ends, as after an erasure; if it does not, everything is compared again.
"""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

from chatfold.eventlog.errors import ChatfoldError, CorruptLog
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.disk import Disk, is_settled, read_at, reading_file, stat_key
from chatfold.eventlog.files.segment import Position, read_line_before
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    SEAL_PREFIX,
    has_valid_sum,
    link_after,
    parse_header,
    parse_prev,
    parse_seal,
    parse_seq,
)

MAX_HEADER = 512


class _Ends(msgspec.Struct, frozen=True, gc=False):
    """How a segment's file looked, and what its first and last line say. None: they do not verify."""

    key: tuple[int, ...]
    is_settled: bool
    start: Head | None
    end: Position | None  # None for the last segment, too: it grows

    def fits(self, other: "_Ends") -> bool:
        """Is it the same piece of the same log? An erasure moves its bytes, and keeps its seqs and links."""
        return (self.start, self.last) == (other.start, other.last)

    @property
    def last(self) -> tuple[int, bytes | None] | None:
        return None if self.end is None else (self.end.seq, self.end.link)


class Continuity:
    """``segments()`` lists the first seqs; ``path_of(first)`` is the segment's file."""

    def __init__(self, disk: Disk, segments: Callable[[], list[int]], path_of: Callable[[int], Path]) -> None:
        self._disk = disk
        self._segments = segments
        self._path_of = path_of
        self._proven: dict[int, _Ends] = {}
        self._last = 0  # the last segment when they were compared
        self._hole = 0  # entries are missing after this segment; 0: nowhere

    @property
    def is_compared(self) -> bool:
        """Were the borders compared? It takes two small reads a segment."""
        return bool(self._proven)

    def check(self, first: int, fd: int, *, has_next: bool) -> os.stat_result:
        """Raise CorruptLog unless the file that is open belongs to this chat. How it looks.

        A neighbour that is missing, damaged or cut short proves nothing against it. ``has_next``: more segments are known
        to follow.
        """
        status, proven = self._disk.fstat(fd), self._proven.get(first)
        is_stale = proven is None or (has_next and first == self._last)
        if not is_stale and self._is_as_proven(first, fd, status):
            return status
        self._compare_all()
        if not self._is_as_proven(first, fd, status):
            raise CorruptLog("another file was put in the segment's place", seq=first)
        return status

    def _is_as_proven(self, first: int, fd: int, status: os.stat_result) -> bool:
        proven = self._proven.get(first)
        if proven is None or (proven.is_settled and stat_key(status) == proven.key):
            return True  # None: the file cannot be opened by its name any more; who reads on is told
        now = self._read_ends(first, fd, is_last=first == self._last)
        if not now.fits(proven):
            return False
        self._proven[first] = now
        return True

    def check_reaches_end(self, first: int) -> None:
        """Raise CorruptLog if entries between this segment and the end of the log are missing.

        Then nothing links the segment to the rest, and it may be one of another chat that is shorter than ours.
        """
        if first > self._hole:
            return
        self._compare_all()
        if first <= self._hole:
            end = self._proven[self._hole].end
            assert end is not None
            raise CorruptLog(
                "the segment ends too early, or the next one is missing",
                path=self._path_of(self._hole),
                offset=end.offset,
                seq=end.seq + 1,
            )

    def _compare_all(self) -> None:
        firsts = self._segments()
        self._last, self._hole = firsts[-1], 0
        proven: dict[int, _Ends] = {}
        for first in firsts:
            ends = self._find_ends(first)
            if ends is not None:
                proven[first] = ends
        self._proven = {}  # until all borders hold
        for one, other in pairwise(firsts):
            if one in proven and other in proven and self._is_hole(one, other, proven):
                self._hole = one
        self._proven = proven

    def _is_hole(self, one: int, other: int, ends: dict[int, _Ends]) -> bool:
        """Are entries missing between two segments? Raise CorruptLog if the second contradicts the first."""
        end, start = ends[one].end, ends[other].start
        if end is None or start is None:
            return False  # a damaged end says nothing; who reads it is told
        if end.seq > start.seq or (end.seq == start.seq and (end.link or b"").decode() != start.link):
            path = self._path_of(other)
            raise CorruptLog(f"{path.name} does not follow {self._path_of(one).name}", path=path, seq=other)
        return end.seq < start.seq

    def _find_ends(self, first: int) -> _Ends | None:
        """The ends of a segment, read again unless its file looks as it did. None if it cannot be read."""
        known = self._proven.get(first)
        is_last = first == self._last
        try:
            is_known = known is not None and known.is_settled and (known.end is not None or is_last)
            if known and is_known and stat_key(self._disk.stat(self._path_of(first))) == known.key:
                return known
            with reading_file(self._disk, self._path_of(first)) as fd:
                return self._read_ends(first, fd, is_last=is_last)
        except OSError:
            return None

    def _read_ends(self, first: int, fd: int, *, is_last: bool) -> _Ends:
        status, start = self._disk.fstat(fd), _read_start(self._disk, fd)
        is_misnamed = (
            start is not None and start.seq + 1 != first
        )  # a copy under another name: no part of the log
        end = None if is_last or is_misnamed else _read_end(self._disk, fd, first, status.st_size)
        return _Ends(stat_key(status), is_settled(status), None if is_misnamed else start, end)


def _read_start(disk: Disk, fd: int) -> Head | None:
    try:
        return parse_header(read_at(disk, fd, 0, MAX_HEADER).partition(b"\n")[0])
    except ChatfoldError:
        return None


def _read_end(disk: Disk, fd: int, first: int, size: int) -> Position | None:
    """The place after the last entry of a full segment, as its last line says."""
    line = read_line_before(disk, fd, size)
    try:
        if not has_valid_sum(line):
            return None
        if line.startswith(SEAL_PREFIX):
            return Position(first + parse_seal(line).count - 1, parse_prev(line), size - len(line) - 1)
        return Position(parse_seq(line), link_after(line), size) if line.startswith(ENTRY_PREFIX) else None
    except CorruptLog:
        return None
