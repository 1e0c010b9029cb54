"""A segment of another chat verifies by itself: what tells that it is not one of ours is what stands next to it.

Where two segments meet, the last line of the one says what the header of the other must follow. Compared when a segment
is first entered, at whatever line, so that somebody who reads a few lines of it is told as well as who reads them all.
"""

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from chatfold.eventlog.errors import ChatfoldError, CorruptLog
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.disk import Disk, opened, read_at
from chatfold.eventlog.files.segment import read_line_before
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


def check_continuity(disk: Disk, path_of: Callable[[int], Path], firsts: list[int], first: int) -> None:
    """Raises if the segment ``first`` cannot stand between those before and after it in ``firsts``.

    A neighbour that is missing, damaged or cut short says nothing here: whoever reads it is told.
    """
    index = bisect_left(firsts, first)
    for one, other in pairwise(firsts[max(0, index - 1) : index + 2]):
        end, start = _end(disk, path_of(one), one), _start(disk, path_of(other))
        if end and start and end.seq == start.seq and end != start:
            raise CorruptLog(f"{path_of(other).name} does not follow {path_of(one).name}", seq=other)


def _end(disk: Disk, path: Path, first: int) -> Head | None:
    """Where a segment ends, as its last line says."""
    try:
        with opened(disk, path) as fd:
            line = read_line_before(disk, fd, disk.fstat(fd).st_size)
        if not has_valid_sum(line):
            return None
        if line.startswith(SEAL_PREFIX):
            return Head(first + parse_seal(line).count - 1, parse_prev(line).decode())
        return Head(parse_seq(line), link_after(line).decode()) if line.startswith(ENTRY_PREFIX) else None
    except (OSError, ChatfoldError):
        return None


def _start(disk: Disk, path: Path) -> Head | None:
    try:
        with opened(disk, path) as fd:
            return parse_header(read_at(disk, fd, 0, 512).partition(b"\n")[0])
    except (OSError, ChatfoldError):
        return None
