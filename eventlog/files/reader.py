"""A chat's folder, read: segments in order, verified across their borders, without a lock.

Nothing here writes, except the offset index in ``cache/``. A reader may run while any number of processes
append, roll, redact or delete: files are opened anew for each page, so that a swapped segment is noticed, and
nothing beyond ``tail()``, the end of the last whole batch, is ever shown.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from chatfold.eventlog.codec import Page, decode_page, resolve_line
from chatfold.eventlog.errors import ChatfoldError, CorruptLog
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.disk import Disk, read_at
from chatfold.eventlog.files.log_end import LogEnd, TailCell
from chatfold.eventlog.files.offsets import STRIDE
from chatfold.eventlog.files.seal import SealedSegment, read_if_sealed
from chatfold.eventlog.files.segment import (
    BIG_PAGE,
    PAGE,
    PageEnd,
    Position,
    SegmentPage,
    Tail,
    bisect_line,
    ends_with_link,
    read_line_after,
    read_line_before,
    read_page,
    read_pages_back,
)
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    has_valid_sum,
    link_after,
    parse_prev,
    parse_seq,
)

_FINAL = 1 << 62  # later than any seq


class LogReader(LogEnd):
    def __init__(
        self,
        path: Path,
        chat: str,
        disk: Disk,
        end: TailCell | None = None,
        *,
        may_write: bool = False,
        indexing: bool = False,
    ) -> None:
        super().__init__(path, chat, disk, end, may_write=may_write, indexing=indexing)
        self.lock = threading.Lock()  # for those who use one reader on several threads
        self.snapshots: list[int] | None = None  # those that stay, once they were looked for

    # --- reading ---------------------------------------------------------------------------------------

    def line_pages(self, first: int = 1, last: int | None = None, size: int = PAGE) -> Iterator[list[bytes]]:
        """The lines ``first`` … ``last`` as they were written, in order. The first page is small."""
        return (page.lines() for page in self.pages(first, last, size))

    def pages(self, first: int = 1, last: int | None = None, size: int = PAGE) -> Iterator[Page]:
        """Yield entries ``first`` … ``last`` (default: the tail), in order. The first page has about ``size`` bytes.

        Every line has a valid sum and follows the one before it.
        """
        end = self.tail().position.seq
        last = end if last is None else min(last, end)
        while first <= last:
            place = self._seek(first)
            sealed: SealedSegment | None = None
            while place.position.seq < last:
                if place.position.seq < place.first:  # a segment starts
                    sealed = self._sealed(place, last) if (first, size) == (place.first, BIG_PAGE) else None
                found = self._page(place, size, sealed)
                if found is None:  # the segment was swapped under us: look for the place again
                    self._verify_prefix(place.position)
                    break
                size = BIG_PAGE
                page = found.part(place.position, first, last)
                first = max(first, found.at.seq + 1)
                if page is not None:
                    yield page
                place = Tail(place.first, found.at, place.inode)
                if found.stop is not PageEnd.MORE and found.at.seq < last:
                    place = self._next_segment(place, found.stop)

    def _verify_prefix(self, at: Position) -> None:
        """Erasing keeps the links: what was shown so far is still the past of what is there now, or that is another chat."""
        if at.seq and at.link and self.link(at.seq) != at.link.decode():
            raise self._corrupt(self.segment_of(at.seq), at, "another chat was put in this one's place")

    def _sealed(self, place: Tail, last: int) -> SealedSegment | None:
        """The segment that starts here, if it is verified at once."""
        with self.open_segment(place.first) as fd:
            is_it = self.disk.fstat(fd).st_ino == place.inode
            return read_if_sealed(self.disk, fd, place.position, last) if is_it else None

    def _page(self, place: Tail, size: int, sealed: SealedSegment | None = None) -> SegmentPage | None:
        with self.open_segment(place.first) as fd:
            inode = self.disk.fstat(fd).st_ino
            if inode != place.inode:
                return None
            at = place.position
            if sealed is not None:
                return sealed.page(at, 4 * BIG_PAGE)  # it is in memory: what costs is each page
            page = read_page(self.disk, fd, at, size)
            self.offsets.record(place.first, inode, at.seq + 1, at.offset, page.lines)
            if page.stop is PageEnd.BAD and not page.lines:
                raise CorruptLog("a line does not verify", offset=at.offset, seq=at.seq + 1)
            if page.lines and at.link is None and not self._follows(fd, at, parse_prev(page.lines[0])):
                raise CorruptLog(
                    "the line does not follow the one before it", offset=at.offset, seq=at.seq + 1
                )
            return page

    def _follows(self, fd: int, at: Position, prev: bytes) -> bool:
        """Is the line after ``at`` the next one? A damaged line before it does not say; whoever reads that is told."""
        if ends_with_link(self.disk, fd, Position(at.seq, prev, at.offset)):
            return True
        before = read_line_before(self.disk, fd, at.offset)
        return not (before.startswith(ENTRY_PREFIX) and has_valid_sum(before))

    def _next_segment(self, place: Tail, stop: PageEnd) -> Tail:
        first = place.position.seq + 1
        if first == place.first or not self.has_segment(first):
            early = "the segment ends too early, or the next one is missing"
            bad = "bytes that were durable do not verify"
            raise self._corrupt(place.first, place.position, bad if stop is PageEnd.BAD else early)
        return self._open_at_start(first, place.position.link)

    def pages_back(self, last: int | None = None, most: int = _FINAL) -> Iterator[Page]:
        """Yield entries ``last`` (default: the tail) and before, at most ``most``: newest page first, lines in order.

        Every line has a valid sum and is the one its successor names.
        """
        end = self.tail().position.seq
        last = end if last is None else min(last, end)
        least = max(0, last - most)
        # Of entry ``last``, as the line after it says: by itself, a line of another chat verifies, too.
        link = parse_prev(self.line(last + 1)) if least < last < end else None
        while last > least:
            first = self.segment_of(last)
            with self.open_segment(first) as fd:
                try:
                    for page in self._segment_back(first, fd, last, least, link):
                        yield page
                        begin = page.first_line()
                        last, link = parse_seq(begin) - 1, parse_prev(begin)
                except CorruptLog:
                    if self.disk.stat(self.segment_path(first)).st_ino == self.disk.fstat(fd).st_ino:
                        raise
                    self.tail()  # the segment was swapped under us: look for the place again

    def _segment_back(self, first: int, fd: int, last: int, least: int, link: bytes | None) -> Iterator[Page]:
        """Those of one segment, but none up to seq ``least``."""
        start, end = self.read_header_at(first, fd).offset, self._end_of(last, fd)
        if link is None:
            self._continuity.check_reaches_end(first)
        for page, count in read_pages_back(self.disk, fd, start, end, last - least):
            if not self._is_last(page, last, link):
                raise CorruptLog("a line does not verify, or is not where it should be", seq=last)
            yield page
            last, link = last - count, None
        if last >= max(first, least + 1):
            raise CorruptLog("the segment ends too early", seq=last)

    def _end_of(self, last: int, fd: int) -> int:
        """The byte after line ``last``, or after the seal that follows it, of the segment it is in."""
        tail = self._tail or self.tail()
        status = self.disk.fstat(fd)
        if last == tail.position.seq >= tail.first and tail.inode == status.st_ino:
            return tail.position.offset
        return status.st_size if self.has_segment(last + 1) else self.offset_of(last + 1)[1]

    def _is_last(self, lines: Page, last: int, link: bytes | None) -> bool:
        """Do these verified lines end with seq ``last``?"""
        end = lines.last_line()
        return parse_seq(end) == last and (link is None or link_after(end) == link)

    def line(self, seq: int) -> bytes:
        """One line as it was written. Only this one is verified, not those it is found by."""
        first = self.segment_of(seq)
        with self.open_segment(first) as fd:
            line = self.line_in(first, fd, seq)
        if line:
            return line
        # No index, a wrong one, or damage somewhere: find it by verifying every line on the way.
        self.offsets.drop(first)
        for page in self.line_pages(seq, seq):
            return page[0]
        raise CorruptLog("there is no such line", chat=self.chat, path=self.path, seq=seq)

    def line_in(self, first: int, fd: int, seq: int) -> bytes:
        """One line of the segment that is open here; nothing if it is not found, or does not verify.

        Offsets only propose the place. The line is believed if the file is one of this chat's segments, and the line
        follows the one before it.
        """
        self.check_belongs(first, fd)
        near = self._nearest_offset(first, fd, seq)
        start, line = read_line_after(self.disk, fd, near[1], seq - near[0], near[2] - near[1])
        if not (has_valid_sum(line) and line.startswith(b'{"seq":%d,' % seq)):
            return b""
        is_ours = seq == first or self._follows(fd, Position(seq - 1, None, start), parse_prev(line))
        return line if is_ours else b""

    def link(self, seq: int) -> str | None:
        """Of the line; None if there is no such line."""
        at = self.tail().position
        if seq == at.seq and at.link is not None:
            return at.link.decode()
        return link_after(self.line(seq)).decode() if 0 < seq <= at.seq else None

    def resolve_line(self, line: bytes, line_of: Callable[[int], bytes] | None = None) -> bytes:
        """The line with everything it keeps elsewhere put back. ``line_of``: if not ``line``."""
        try:
            return resolve_line(line, line_of or self.line, self.blob)
        except ChatfoldError as error:
            now = self.line(parse_seq(line))
            if now != line:
                return self.resolve_line(now)  # erased since it was read, together with what it refers to
            error.chat, error.seq = self.chat, parse_seq(line)
            raise

    def entries(self, page: Page) -> list[Entry]:
        """What verified lines say, whole."""
        try:
            return list(chain.from_iterable(decode_page(page, self.resolve_line)))
        except CorruptLog as error:
            error.chat = self.chat
            raise

    # --- finding a line ----------------------------------------------------------------------------------

    def offset_of(self, seq: int) -> tuple[int, int]:
        """(segment, byte) at which the line starts."""
        while True:
            place = self._seek(seq)
            at = place.position
            while at.seq + 1 < seq:
                page = self._page(Tail(place.first, at, place.inode), PAGE)
                if page is None:
                    break
                if not page.lines:
                    raise self._corrupt(place.first, at, "the segment ends too early")
                skip = page.lines[: seq - at.seq - 1]
                at = Position(at.seq + len(skip), None, at.offset + len(skip) + sum(map(len, skip)))
            else:
                return place.first, at.offset

    def segment_of(self, seq: int) -> int:
        """The first seq of the segment that line is in."""
        first = (self._tail or self.tail()).first
        if seq >= first:
            return first  # the usual case, without looking at the others
        if not self._firsts or self._firsts[-1] != first:  # they only ever become more
            self._firsts = self.segments()
        index = bisect_right(self._firsts, seq) - 1
        if index < 0:
            raise CorruptLog("the first segment is missing", chat=self.chat, path=self.path, seq=seq)
        return self._firsts[index]

    def _seek(self, seq: int) -> Tail:
        """A place at or before the line; near it, if the segment's index is known."""
        first = self.segment_of(seq)
        with self.open_segment(first) as fd:
            start, inode = self.read_header_at(first, fd), self.disk.fstat(fd).st_ino
            self._continuity.check_reaches_end(first)
            near = self._nearest_offset(first, fd, seq)
            if near[0] == first:
                return Tail(first, start, inode)
            if not read_at(self.disk, fd, near[1], 64).startswith(b'{"seq":%d,' % near[0]):
                self.offsets.drop(first)  # it led to another line than it says
                near = *bisect_line(self.disk, fd, start.offset, first, seq), 0
            return Tail(first, Position(near[0] - 1, None, near[1]), inode)

    def _nearest_offset(self, first: int, fd: int, seq: int) -> tuple[int, int, int]:
        """What ``offsets.lookup`` says of a line a little before ``seq``, also of the open segment, which has no index."""
        status = self.disk.fstat(fd)
        full = self._tail is not None and first != self._tail.first
        near = self.offsets.lookup(first, status, seq, full=full)
        if near is None and full:
            self.index(first)
            near = self.offsets.lookup(first, status, seq, full=full)
        if near is None or seq - near[0] >= STRIDE:
            near = *bisect_line(self.disk, fd, self.read_header_at(first, fd).offset, first, seq), 0
        return near

    def index(self, first: int) -> None:
        """Makes the index of a full segment that has none."""
        stop = PageEnd.MORE
        self.offsets.drop(first)
        with self.open_segment(first) as fd:
            at, status = self.read_header_at(first, fd), self.disk.fstat(fd)
            sealed = read_if_sealed(self.disk, fd, at, _FINAL)
            while stop is PageEnd.MORE:
                page = sealed.page(at, BIG_PAGE) if sealed else read_page(self.disk, fd, at, BIG_PAGE)
                lines = page.page.lines() if sealed else page.lines
                self.offsets.record(first, status.st_ino, at.seq + 1, at.offset, lines)
                at, stop = page.at, page.stop
        if stop is not PageEnd.BAD:
            self.offsets.store(first, status.st_size)
