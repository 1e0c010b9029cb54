"""What follows the valid prefix of a log: the one rule by which it is told to be padding, torn or damaged.

Let v be the last seq of the valid prefix and W the highest seq that any witness calls durable: the ``head``
file, ``synced`` in any valid line anywhere, a seal, the header of a later segment. A witness that is damaged or
missing is ignored. W <= v: everything that was ever promised is in the prefix, the rest is what a crash left of
unsynced writes: torn. Otherwise something durable is gone: damaged.

Valid lines may follow the bad ones in a torn tail: after a power cut the pages of one unsynced write are on
disk in any order. They were never promised, and the next writer sets them aside with the rest.
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from chatfold.eventlog.files.chat_dir import set_aside
from chatfold.eventlog.files.disk import Disk, read_at
from chatfold.eventlog.files.segment import BIG_PAGE, Position, Tail, is_blank, segment_name
from chatfold.eventlog.line import ENTRY_PREFIX, MAX_LINE, SEAL_PREFIX, has_valid_sum, parse_fields
from chatfold.eventlog.logger import logger

if TYPE_CHECKING:
    from chatfold.eventlog.files.reader import LogReader

_WINDOW = 8 * MAX_LINE
_AFTER_ALL = 1 << 62  # a seq later than any: a seal vouches for all before it

_MARKS = re.compile(rb'(?P<start>\{"(?:seq|chatfold|seal)":)|,"sum":"[0-9a-f]{16}"\}')


class Ending(IntEnum):
    """The worse one is the greater one."""

    CLEAN = 0
    """Nothing follows the last complete batch."""
    PADDED = 1
    """Only newlines follow, to the end of the file."""
    TORN = 2
    """An append follows that was never acknowledged."""
    DAMAGED = 3
    """Something acknowledged is missing."""


def classify_ending(prefix_seq: int, rest: bytes, durable_seq: int) -> Ending:
    """Classify what follows the valid prefix of the last segment. Pure.

    prefix_seq   last seq that verifies, batches complete: v
    rest         all bytes after it
    durable_seq  highest seq that a witness outside ``rest`` calls durable: watermark, later segment

    A witness that is missing or does not verify counts as 0. The caller reads the witnesses first, then the bytes, once:
    a witness newer than ``rest`` calls durable what ``rest`` does not show yet, and a reader without the lock would
    report damage where a writer is at work.
    """
    if max(durable_seq, highest_durable_seq(rest, _AFTER_ALL)) > prefix_seq:
        return Ending.DAMAGED  # also if the rest is empty: a file cut at a line's end verifies
    if not rest:
        return Ending.CLEAN
    # Newlines before other bytes are no padding: the pages of an unsynced write reach the medium in any order, so an old
    # page of newlines may stand in front of a new page of lines.
    return Ending.PADDED if is_blank(rest) else Ending.TORN


def classify_file_ending(disk: Disk, fd: int, prefix: Position, durable_seq: int) -> Ending:
    """Classify what follows ``prefix`` in a file, a window at a time: it may be larger than memory."""
    start, end = prefix.offset, disk.fstat(fd).st_size
    ending = classify_ending(prefix.seq, b"", durable_seq)
    while start < end and ending is not Ending.DAMAGED:
        data = read_at(disk, fd, start, _WINDOW + MAX_LINE)  # a line that begins in one window ends in it
        ending = max(ending, classify_ending(prefix.seq, data, durable_seq))
        start += _WINDOW
    return ending


def classify_change(known: Position, now: Position, durable_seq: int) -> Ending:
    """Classify what became of the end of a log that a writer knew, now that others have been at it. Pure.

    Nothing takes back what was appended; where somebody wrote more, the chain tells. TORN: what is gone was never durable.
    """
    if now.seq > known.seq or (now.seq, now.link) == (known.seq, known.link):
        return Ending.CLEAN
    return Ending.TORN if durable_seq <= now.seq and durable_seq < known.seq else Ending.DAMAGED


def highest_durable_seq(data: bytes, last_of_sealed: int) -> int:
    """The highest seq that valid lines call durable. ``last_of_sealed``: what a seal vouches for."""
    highest = 0
    for line in find_valid_lines(data) if b',"sum":"' in data else ():
        if line.startswith(SEAL_PREFIX):
            highest = max(highest, last_of_sealed)
        elif line.startswith(ENTRY_PREFIX):
            highest = max(highest, parse_fields(line).synced or 0)
    return highest


def find_valid_lines(data: bytes) -> Iterator[bytes]:
    """Every line that verifies, wherever it stands: after NULs, spliced onto a torn one, two on one line.

    A copy of a line inside a text has its quotes escaped, so that it cannot be taken for a line.
    """
    starts: list[int] = []
    for mark in _MARKS.finditer(data):
        if mark["start"]:
            starts.append(mark.start())
            del starts[:-8]  # an end belongs to one of the last starts; this bounds the work on hostile bytes
            continue
        for start in reversed(starts):
            if has_valid_sum(data[start : mark.end()]):
                yield data[start : mark.end()]
                starts.clear()
                break


def cut_torn_tail(folder: "LogReader", fd: int, tail: Tail) -> Tail:
    """Cut off what follows the last whole batch, after a copy of it was set aside. Padding stays, unless it is more than writers make.

    Returns where the log ends then. The caller holds the lock, so that what is torn here stays torn, and syncs afterwards.
    """
    disk, start = folder.disk, tail.position.offset
    size = disk.fstat(fd).st_size - start
    if not size:
        return tail
    if classify_file_ending(disk, fd, tail.position, 0) is Ending.PADDED:
        if size > BIG_PAGE:
            disk.truncate(fd, start)
        return tail
    rest = read_at(disk, fd, start, size) if size <= MAX_LINE else b""
    if b"\n" not in rest and has_valid_sum(rest):  # a whole line, and only its newline is missing
        disk.pwrite(fd, b"\n", start + size)
        after = folder.tail()
        if after.position.offset > start:
            return after
    torn = (read_at(disk, fd, at, MAX_LINE) for at in range(start, start + size, MAX_LINE))
    aside = set_aside(disk, folder.path, f"torn-{segment_name(tail.first)}-{start}", torn)
    disk.truncate(fd, start)
    logger.warning("torn tail of %d bytes cut off at byte %d, kept in %s", size, start, aside)
    return tail
