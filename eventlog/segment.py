"""One file of lines: its name, and how it is read. Verifying is reading: no line leaves here unchecked.

A segment is read in pages: whole batches of verified lines. Reading stops, and says why, at the end, at the
seal, or at the first byte that cannot be accepted; what that means is for ``recovery`` to judge.
"""

import re
from collections.abc import Iterator
from enum import Enum

import msgspec

from eventlog.disk import Disk, read_at
from eventlog.line import MAX_LINE, SEAL, follows, link_of, marks, prev_of, verifies

SEGMENT_BYTES = 8 << 20
PAGE = 1 << 16
_NAME = re.compile(r"(\d{16})\.jsonl")


def segment_name(first: int) -> str:
    return f"{first:016d}.jsonl"


def first_of(name: str) -> int | None:
    """The first seq of a segment of this name; None for any other file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match and int(match[1]) > 0 else None


class Position(msgspec.Struct, frozen=True):
    """A place between two lines. ``link`` is what the next line's prev must say; None: take its word."""

    seq: int  # of the line before
    link: bytes | None
    offset: int


class Stop(Enum):
    MORE = "there may be more"
    END = "the file ends here, or in the middle of a line or batch"
    SEALED = "a seal"
    BAD = "a line that cannot be accepted"


class Page(msgspec.Struct, frozen=True):
    lines: list[bytes]
    at: Position  # after the last of the lines
    stop: Stop


def read_page(disk: Disk, fd: int, at: Position, size: int = PAGE) -> Page:
    """The lines after ``at``, about ``size`` bytes of them: always whole batches, or none."""
    while True:
        data = read_at(disk, fd, at.offset, size)
        at_end = len(data) < size
        lines = data.split(b"\n")
        lines.pop()  # what follows the last newline: nothing, or a line not yet whole
        good, sealed = _accept(lines, at.link)
        bad = good < len(lines) and not sealed
        if not at_end and not bad and not lines and size > MAX_LINE:
            bad = True  # no line is that long
        accepted = lines[:good]
        if accepted:
            accepted = accepted[: good - _unfinished(accepted)]
        if accepted or at_end or bad or sealed:
            break
        size *= 4  # a line or a batch larger than the page
    stop = Stop.SEALED if sealed else Stop.BAD if bad else Stop.END if at_end else Stop.MORE
    if not accepted:
        return Page([], at, stop)
    offset = at.offset + len(accepted) + sum(map(len, accepted))
    return Page(accepted, Position(at.seq + len(accepted), link_of(accepted[-1]), offset), stop)


def _accept(lines: list[bytes], link: bytes | None) -> tuple[int, bool]:
    """(how many of the lines verify and follow each other, is the next one the seal?)"""
    before: bytes | None = None
    for index, line in enumerate(lines):
        if not verifies(line):
            return index, False
        # Comparing first and asking about tombstones only on a mismatch keeps this loop short.
        if prev_of(line) != link and link is not None and not follows(line, link, before):
            return index, False
        if line.startswith(SEAL):
            return index, index == len(lines) - 1  # nothing may follow a seal
        link = line[-18:-2]
        before = line
    return len(lines), False


def _unfinished(lines: list[bytes]) -> int:
    """How many lines at the end belong to a batch that is not whole yet."""
    last = marks(lines[-1])
    return last.index if last.index < last.size else 0


def lines_back(disk: Disk, fd: int, start: int, end: int) -> Iterator[list[bytes]]:
    """The verified lines of the bytes from ``start`` to ``end``, last page first, each page in order.

    Stops with a line that does not verify as the first of a page, for the caller to see and to judge.
    """
    rest = b""
    newer: bytes | None = None
    size = PAGE
    while end > start:
        step = min(size, end - start)
        data = read_at(disk, fd, end - step, step) + rest
        end -= step
        cut = 0 if end == start else data.find(b"\n") + 1
        rest = data[:cut] if cut else b""
        if not cut and end > start:
            rest, size = data, min(size * 4, 1 << 22)
            continue
        lines = data[cut:].split(b"\n")
        lines.pop()
        for index in range(len(lines) - 1, -1, -1):
            line = lines[index]
            if not verifies(line) or (newer is not None and not follows(newer, line[-18:-2], line)):
                yield lines[index:]
                return
            newer = line
        yield lines
