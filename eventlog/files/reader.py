"""A chat's folder, read: segments in order, verified across their borders, without a lock.

Nothing here writes, except the offset index in ``cache/``. A reader may run while any number of processes
append, roll, redact or delete: for each page, the file is proved to be the one of its name (``OpenFiles``), and
nothing beyond ``tail()``, the end of the last whole batch, is ever shown.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from chatfold.eventlog.codec import Page, decode_page, resolve_line
from chatfold.eventlog.errors import ChatfoldError, CorruptLog
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.disk import Disk, OpenFiles, read_at
from chatfold.eventlog.files.log_end import LogEnd, TailCell
from chatfold.eventlog.files.offsets import STRIDE
from chatfold.eventlog.files.seal import SealedSegment, read_if_sealed
from chatfold.eventlog.files.segment import (
    BIG_PAGE,
    END,
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
from chatfold.eventlog.files.watermark import read_watermark
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    has_valid_sum,
    link_after,
    parse_prev,
    parse_seq,
)

FINAL = 1 << 62  # later than any seq
_FEW = 4  # segments: at first, the ends of all are compared


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
        files: OpenFiles | None = None,
    ) -> None:
        super().__init__(path, chat, disk, end, may_write=may_write, indexing=indexing, files=files)
        self.lock = threading.Lock()  # for those who use one reader on several threads
        self.snapshots: list[int] | None = None  # those that stay, once they were looked for

    def is_near_tail(self, first: int = FINAL) -> bool:
        """Does it take a few small reads, at most, to find where the log ends? If it cannot be told, then to find that out.

        And to read the entries from ``first`` on: for those in older segments the borders of all of them are compared.
        """
        known = self._tail
        try:
            if known is None:
                known = self._tail = self._tail_at_watermark(read_watermark(self.disk, self.path))
            if known is None:
                firsts = self.segments()
                size = self.disk.stat(self.segment_path(firsts[-1])).st_size
                return len(firsts) <= _FEW and size <= BIG_PAGE
            if first < known.first > 1 and not self._continuity.is_compared:
                return False
            more = self.disk.stat(self.segment_path(known.first)).st_size - known.position.offset
            return more == 0 or (more <= BIG_PAGE and self.segments()[-1] == known.first)
        except (OSError, ChatfoldError):
            return True

    def look(self) -> Tail:
        """``tail``, on a thread of its caller's."""
        with self.lock:
            return self.tail()

    def tail(self) -> Tail:
        """Where the log ends now: where we know, as long as the file ends there with the line that was the last one."""
        written = self.end.tail
        if written is not None and written is not self._started_from:
            self._tail, self._started_from, self._seen = written, written, None
        known = self._tail
        with suppress(FileNotFoundError):
            if known is not None and known.position.seq >= known.first:
                with self.open_segment(known.first) as fd:
                    end = b'%b"}\n' % (known.position.link or b"")
                    found = read_at(self.disk, fd, known.position.offset - len(end), END)
                    is_same = self.disk.fstat(fd).st_ino == known.inode and found.startswith(end)
                    if is_same and not found[len(end) :].strip(b"\n"):
                        return known
        return self.find_tail()

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
            place, sealed, judged = self._seek(first), None, 0
            while place.position.seq < last:
                if size > BIG_PAGE and judged != place.first:  # many pages are read: there will be more
                    judged, sealed, found, page = (
                        place.first,
                        None,
                        None,
                        None,
                    )  # the next one gets the same memory
                    sealed = self._read_if_sealed(place, last)
                found = self._page(place, size, sealed)
                if found is None:  # the segment was swapped under us: look for the place again
                    self._verify_prefix(place.position)
                    break
                size = min(4 * size, 8 * BIG_PAGE)
                page = found.part(place.position, first, last)
                first = max(first, found.at.seq + 1)
                if page is not None:
                    yield page
                place = Tail(place.first, found.at, place.inode)
                if found.stop is not PageEnd.MORE and found.at.seq < last:
                    place, sealed = self._next_segment(place, found.stop), None

    def _verify_prefix(self, at: Position) -> None:
        """Erasing keeps the links: what was shown so far is still the past of what is there now, or that is another chat."""
        if at.seq and at.link and self.link(at.seq) != at.link.decode():
            raise self._corrupt(self.segment_of(at.seq), at, "another chat was put in this one's place")

    def _read_if_sealed(self, place: Tail, last: int) -> SealedSegment | None:
        """The segment of this place, if it is verified at once and goes on from the place."""
        with self.open_segment(place.first) as fd:
            if self.disk.fstat(fd).st_ino != place.inode:
                return None
            sealed = read_if_sealed(self.disk, fd, place.first - 1, last)
            return sealed if sealed is not None and sealed.has(place) else None

    def _page(self, place: Tail, size: int, sealed: SealedSegment | None = None) -> SegmentPage | None:
        with self.open_segment(place.first) as fd:
            inode = self.disk.fstat(fd).st_ino
            if inode != place.inode:
                return None
            at = place.position
            if sealed is not None:
                return sealed.page(at, size)
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

    def pages_back(
        self, last: int | None = None, most: int = FINAL, size: int = 2 * BIG_PAGE
    ) -> Iterator[Page]:
        """Yield entries ``last`` (default: the tail) and before, at most ``most``: newest page first, lines in order.

        Every line has a valid sum and is the one its successor names. ``size``: bytes of the first page, about, at most.
        """
        tail = self.tail()
        last = tail.position.seq if last is None else min(last, tail.position.seq)
        least = max(0, last - most)
        if last <= least:
            return
        # By itself, a line of another chat verifies, too.
        if last == tail.position.seq and tail.position.link:
            head = Head(last, tail.position.link.decode())
        else:
            head = self._head_before(last + 1)
        while head.seq > least:
            first = tail.first if head.seq >= tail.first else self.segment_of(head.seq)
            with self.open_segment(first) as fd:
                try:
                    is_tail = head.seq == tail.position.seq and first == tail.first
                    end = tail.position.offset if is_tail else self._end_of(first, fd, head.seq)
                    count = head.seq - max(least, first - 1)
                    for page, before in read_pages_back(self.disk, fd, end, head, count, size):
                        yield page
                        head = before
                except CorruptLog:
                    if not self._was_replaced(first, fd, tail):
                        raise
                    tail = self.tail()  # the segment was swapped under us: look for the place again

    def _head_before(self, seq: int) -> Head:
        return Head(seq - 1, parse_prev(self.line(seq)).decode())

    def _end_of(self, first: int, fd: int, last: int) -> int:
        """The byte after line ``last``, or after the seal that follows it, of the segment it is in."""
        self.read_header_at(first, fd)
        return self.disk.fstat(fd).st_size if self.has_segment(last + 1) else self.offset_of(last + 1)[1]

    def _was_replaced(self, first: int, fd: int, tail: Tail) -> bool:
        """Is the open file another one than when the tail was found, or not the one of its name any more?"""
        inode = self.disk.fstat(fd).st_ino
        return (first == tail.first and inode != tail.inode) or (
            self.disk.stat(self.segment_path(first)).st_ino != inode
        )

    def line(self, seq: int) -> bytes:
        """One line as it was written. Only this one is verified, not those it is found by."""
        first = self.segment_of(seq)
        with self.open_segment(first) as fd:
            line = self._line_in(first, fd, seq, self.check_belongs(first, fd))
        if line:
            return line
        # No index, a wrong one, or damage somewhere: find it by verifying every line on the way.
        self.offsets.drop(first)
        for page in self.line_pages(seq, seq):
            return page[0]
        raise CorruptLog("there is no such line", chat=self.chat, path=self.path, seq=seq)

    def line_in_last(self, fd: int, first: int, seq: int) -> bytes:
        """The same, by the descriptor of the one who writes the last segment. Nothing if it is not found at once."""
        return self._line_in(first, fd, seq, self.disk.fstat(fd))

    def _line_in(self, first: int, fd: int, seq: int, status: os.stat_result) -> bytes:
        """One line of the segment that is open here; nothing if it is not found, or does not verify.

        Offsets only propose the place. The line is believed if it follows the one before it. The caller has checked that the
        file is one of this chat's segments, and looks like ``status``.
        """
        near = self._nearest_offset(first, fd, seq, status)
        start, before, line = read_line_after(self.disk, fd, near[1], seq - near[0], near[2] - near[1])
        if not (has_valid_sum(line) and line.startswith(b'{"seq":%d,' % seq)):
            return b""
        prev = parse_prev(line)
        is_ours = (
            before == b'%b"}\n' % prev
            or seq == first
            or self._follows(fd, Position(seq - 1, None, start), prev)
        )
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
        with self.reading_lines() as line_of:
            try:
                return decode_page(page, partial(self.resolve_line, line_of=line_of))
            except CorruptLog as error:
                error.chat = self.chat
                raise

    @contextmanager
    def reading_lines(self) -> Iterator[Callable[[int], bytes]]:
        """``line``, for many lines: a segment is opened, and proved to be the chat's, once."""
        with ExitStack() as stack:
            segments: dict[int, tuple[int, os.stat_result]] = {}

            def line_of(seq: int) -> bytes:
                first = self.segment_of(seq)
                if first not in segments:
                    fd = stack.enter_context(self._files.open(self.segment_path(first)))
                    segments[first] = fd, self.check_belongs(first, fd)
                fd, status = segments[first]
                return self._line_in(first, fd, seq, status) or self.line(seq)

            yield line_of

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
            near = self._nearest_offset(first, fd, seq, self.disk.fstat(fd))
            if near[0] == first:
                return Tail(first, start, inode)
            if not read_at(self.disk, fd, near[1], 64).startswith(b'{"seq":%d,' % near[0]):
                self.offsets.drop(first)  # it led to another line than it says
                near = *self._bisect(first, fd, start.offset, seq), 0
            return Tail(first, Position(near[0] - 1, None, near[1]), inode)

    def _nearest_offset(self, first: int, fd: int, seq: int, status: os.stat_result) -> tuple[int, int, int]:
        """What ``offsets.lookup`` says of a line a little before ``seq``, also of the open segment, which has no index."""
        full = self._tail is not None and first != self._tail.first
        near = self.offsets.lookup(first, status, seq, full=full)
        if near is None and full:
            self.index(first)
            near = self.offsets.lookup(first, status, seq, full=full)
        if near is None or seq - near[0] >= STRIDE:
            near = *self._bisect(first, fd, self.read_header_at(first, fd).offset, seq), 0
        return near

    def _bisect(self, first: int, fd: int, start: int, seq: int) -> tuple[int, int]:
        status, tail = self.disk.fstat(fd), self._tail
        is_open = tail is not None and (tail.first, tail.inode) == (first, status.st_ino)
        end = tail.position.offset if tail is not None and is_open else status.st_size
        return bisect_line(self.disk, fd, start, end, first, seq)

    def index(self, first: int) -> None:
        """Makes the index of a full segment that has none."""
        stop = PageEnd.MORE
        self.offsets.drop(first)
        with self.open_segment(first) as fd:
            at, status = self.read_header_at(first, fd), self.disk.fstat(fd)
            sealed = read_if_sealed(self.disk, fd, first - 1, FINAL)
            while stop is PageEnd.MORE:
                page = sealed.page(at, BIG_PAGE) if sealed else read_page(self.disk, fd, at, BIG_PAGE)
                lines = page.page.lines() if sealed else page.lines
                self.offsets.record(first, status.st_ino, at.seq + 1, at.offset, lines)
                at, stop = page.at, page.stop
        if stop is not PageEnd.BAD:
            self.offsets.store(first, status.st_size, Head(at.seq, (at.link or b"").decode()))
