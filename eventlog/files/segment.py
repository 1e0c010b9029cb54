"""One file of lines: its name, and how it is read. Verifying is reading: no line leaves here unchecked.

A segment is read in pages of verified lines. Reading stops, and says why, at the end, at the seal, or at the
first byte that cannot be accepted; what that means is for ``recovery`` to judge.
"""

import re
from collections.abc import Iterator
from enum import Enum

import msgspec

from chatfold.eventlog.codec import Page
from chatfold.eventlog.errors import CorruptLog
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.disk import Disk, read_at
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    HEADER_PREFIX,
    MAX_LINE,
    SEAL_PREFIX,
    count_valid_chain,
    has_valid_sum,
    link_after,
    link_before,
    parse_fields,
)

SEGMENT_BYTES = 8 << 20
PAGE = 1 << 16
BIG_PAGE = 1 << 18
_SUM = 19  # bytes of a line from its sum on, the newline included
END = _SUM + 45  # bytes around the end of a log: no line begins with so many newlines
_BLANK = b"\n" * BIG_PAGE
_USUAL = 2560  # bytes of a line, if one has to guess
_PROBE, _OVERLAP = 1 << 11, 32
_STARTS = re.compile(rb'\n\{"seq":(\d{1,18}),')


def segment_name(first: int) -> str:
    return f"{first:016d}.jsonl"


def parse_segment_name(name: str) -> int | None:
    """The first seq of a segment of this name; None for any other file."""
    number = name[:16]
    if len(name) != 22 or name[16:] != ".jsonl" or not (number.isascii() and number.isdigit()):
        return None
    return int(number) or None


class Position(msgspec.Struct, frozen=True, gc=False):
    """A place between two lines. ``link`` is what the next line's prev must say; None: take its word."""

    seq: int  # of the line before
    link: bytes | None
    offset: int


class Tail(msgspec.Struct, frozen=True, gc=False):
    """A place in a segment; as the log's tail: in the last one, after the last whole batch."""

    first: int
    position: Position
    inode: int
    sealed: bool = False

    @property
    def head(self) -> Head:
        assert self.position.link is not None
        return Head(self.position.seq, self.position.link.decode())


class PageEnd(Enum):
    MORE = "there may be more"
    END = "the file ends here, or in the middle of a line"
    SEALED = "a seal"
    BAD = "a line that cannot be accepted"


class SegmentPage(msgspec.Struct, frozen=True, gc=False):
    """What was read at a place. ``page`` holds the same lines as ``lines``, which are empty if nobody has cut them up."""

    lines: list[bytes]
    at: Position  # after the last of the lines
    stop: PageEnd
    page: Page
    reaches_end: bool = False  # of the file: nothing followed the bytes that were read

    def part(self, start: Position, first: int, last: int) -> Page | None:
        """The lines ``first`` … ``last`` of those read at ``start``; None if none of them is here."""
        skipped, end = max(0, first - start.seq - 1), min(self.at.seq, last) - start.seq
        if skipped >= end:
            return None
        if not self.lines or (skipped == 0 and end == len(self.lines)):
            return self.page
        begin = self.page.start + skipped + sum(map(len, self.lines[:skipped]))
        size = end - skipped + sum(map(len, self.lines[skipped:end]))
        return Page(self.page.data, begin, begin + size)


def is_blank(data: bytes, start: int = 0) -> bool:
    """Are there only newlines from byte ``start`` on? That is padding, if it goes on to the end of the last segment."""
    rest = data[start:] if start else data
    return _BLANK.startswith(rest) or not rest.strip(b"\n")


def _lines_end(data: bytes) -> int:
    """Where the padding begins that data ends with."""
    if not data.endswith(b"\n\n"):
        return 0 if data == b"\n" else len(data)
    end = 0 if data.startswith(b"\n") else data.find(b"\n\n") + 1
    return end if is_blank(data, end) else len(data)


def read_page(disk: Disk, fd: int, at: Position, size: int = PAGE) -> SegmentPage:
    """The verified lines after ``at``, about ``size`` bytes of them."""
    while True:
        data = read_at(disk, fd, at.offset, size)
        at_end, end = len(data) < size, _lines_end(data)
        is_padded = end < len(data)
        lines = (data[:end] if is_padded else data).split(b"\n")
        lines.pop()  # what follows the last newline: nothing, or a line not yet whole
        if lines or at_end or is_padded or size > MAX_LINE:
            break
        size *= 4
    good = lines[: count_valid_chain(lines, at.link)]
    # No line is longer than that; and behind padding that a page ends in, there may be something else.
    bad = len(good) < len(lines) or not (at_end or (lines and not is_padded))
    sealed = bool(good) and good[-1].startswith(SEAL_PREFIX)
    if good and not good[-1].startswith(ENTRY_PREFIX):
        good.pop()
        bad = bad or not sealed  # a second header
    stop = PageEnd.BAD if bad else PageEnd.SEALED if sealed else PageEnd.END if at_end else PageEnd.MORE
    after = advance(at, good)
    return SegmentPage(good, after, stop, Page(data, 0, after.offset - at.offset), at_end)


def advance(at: Position, lines: list[bytes]) -> Position:
    """The place after these lines, which start at ``at``."""
    if not lines:
        return at
    return Position(at.seq + len(lines), link_after(lines[-1]), at.offset + len(lines) + sum(map(len, lines)))


def end_of_last_batch(known: Position, at: Position, page: SegmentPage) -> Position:
    """The place after the last whole batch, given the page read at ``at`` and the place ``known`` before it.

    Only the end of a log is asked: a batch that is followed by another one was cut there by a fork.
    """
    if not page.lines:
        return known
    last = parse_fields(page.lines[-1])
    if last.index == last.size:
        return page.at
    kept = page.lines[: max(0, len(page.lines) - last.index)]
    return advance(at, kept) if kept else known


def read_line_before(disk: Disk, fd: int, end: int) -> bytes:
    """What stands between the newline that ends at byte ``end`` and the one before; nothing if there are no such two."""
    size = PAGE // 8
    while True:
        size = min(size, end)
        data = read_at(disk, fd, end - size, size)
        if len(data) < size:
            return b""  # the file ends before that
        start = data.rfind(b"\n", 0, -1)
        if start >= 0 and data.endswith(b"\n"):
            return data[start + 1 : -1]
        if size == end or size > MAX_LINE:
            return b""
        size *= 8


def read_line_after(disk: Disk, fd: int, offset: int, count: int, size: int) -> tuple[int, bytes, bytes]:
    """(its byte, the end of the one before from its sum on, the line) ``count`` lines after the one at ``offset``, as far as newlines tell.

    No line if there is none. ``size``: the bytes that are read at first, if that makes sense.
    """
    begin = max(0, offset - _SUM)
    size = (min(size, PAGE) if size > 0 else PAGE // 8) + offset - begin
    while True:
        data = read_at(disk, fd, begin, size)
        start = offset - begin
        for _ in range(count):
            start = data.find(b"\n", start) + 1 or len(data)
        end = data.find(b"\n", start)
        if end >= 0:
            return begin + start, data[max(0, start - _SUM) : start], data[start:end]
        if len(data) < size or size > MAX_LINE * (count + 1):
            return offset, b"", b""
        size *= 4


def ends_with_link(disk: Disk, fd: int, at: Position) -> bool:
    """Does the line before this place say so? The inode of a file that was deleted is soon another file's."""
    end = read_at(disk, fd, at.offset - _SUM, _SUM)
    if end == b'%b"}\n' % (at.link or b""):
        return True
    line = read_line_before(disk, fd, at.offset)  # of a tombstone the sum is another
    return line.startswith(ENTRY_PREFIX) and has_valid_sum(line) and link_after(line) == at.link


def bisect_line(disk: Disk, fd: int, start: int, end: int, first: int, seq: int) -> tuple[int, int]:
    """(seq, byte) of a line at or a little before ``seq``, found by halving the lines from byte ``start``, the first, to ``end``.

    A newline stands between lines and nowhere else, so what follows one is a line and says its seq. Nothing is
    verified here: whoever reads on from there does.
    """
    low, high = start, end
    while high - low > PAGE // 4:
        middle = (low + high) // 2
        found = None
        at, size = middle, _PROBE
        while found is None and at < high:
            found = _STARTS.search(read_at(disk, fd, at, size + _OVERLAP))
            at, size = (at, size) if found else (at + size, min(size * 4, PAGE))
        if found is None or int(found[1]) > seq:
            high = middle
        else:
            first, low = int(found[1]), at + found.start() + 1
    return first, low


def read_pages_back(
    disk: Disk, fd: int, end: int, last: Head, count: int, most: int = PAGE * 8
) -> Iterator[tuple[Page, Head]]:
    """The last ``count`` entries before byte ``end``, verified, the last page first, each with the head that it goes on after.

    The last entry must be the one that ``last`` names. A seal may follow it. ``most``: bytes of the first page, about.
    """
    first_end, size = end, min(max(count * _USUAL, PAGE // 8), most)
    while count > 0:
        size = min(size, end)
        data = read_at(disk, fd, end - size, size)
        starts, stop, after = _find_lines(data, count, whole=size == end)
        if not starts:
            if size == end:
                raise CorruptLog("the segment ends too early", seq=last.seq)
            size = min(size * 4, 1 << 22)
            continue
        prev = link_before(data, starts, after)
        found = len(starts) - (stop < after)
        if prev is None or (found and not _is_last(data, starts[found - 1], stop, last)):
            message = "a line does not verify, or is not where it should be"
            raise CorruptLog(message, offset=end - size + starts[0], seq=last.seq)
        end += starts[0] - size
        if first_end - end >= 4 * PAGE:  # more than the window of most: there is much to be read
            size = min(size * 2, 1 << 20)
        count -= found
        if found:
            last = Head(last.seq - found, prev.decode())
            yield Page(data, starts[0], stop), last


def _find_lines(data: bytes, most: int, *, whole: bool) -> tuple[list[int], int, int]:
    """(where the last ``most`` entries start, and a seal after them; the byte after the entries; the byte after it all)

    ``whole``: the first line starts with the data, and is the header.
    """
    after = data.rfind(b"\n") + 1
    seal = data.rfind(b"\n", 0, max(0, after - 1)) + 1
    stop = seal if data.startswith(SEAL_PREFIX, seal, after) else after
    starts, at = ([seal] if stop < after else []), stop - 1
    for _ in range(most):
        at = data.rfind(b"\n", 0, max(0, at))
        if at < 0:
            break
        starts.append(at + 1)
    else:
        whole = False
    if whole and stop and not data.startswith(HEADER_PREFIX):
        starts.append(0)
    starts.reverse()
    return starts, stop, after


def _is_last(data: bytes, start: int, stop: int, last: Head) -> bool:
    """Is the verified line between these bytes the one that ``last`` names?"""
    link = last.link.encode()
    is_linked = data[stop - _SUM : stop - 3] == link or link_after(data[start : stop - 1]) == link
    return data.startswith(b'{"seq":%d,' % last.seq, start) and is_linked
