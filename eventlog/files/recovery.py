"""Torn or damaged? The rule by which a log that does not verify to its end is told to be one or the other.

Let v be the last seq of the valid prefix and W the highest seq that any witness calls durable: the ``head``
file, ``synced`` in any valid line anywhere, a seal, the header of a later segment. A witness that is damaged or
missing is ignored. W <= v: everything that was ever promised is in the prefix, the rest is what a crash left of
unsynced writes: torn. Otherwise something durable is gone: damaged.

Valid lines may follow the bad ones in a torn tail: after a power cut the pages of one unsynced write are on
disk in any order. They were never promised, and the next writer sets them aside with the rest.
"""

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chatfold.eventlog.files.chat_dir import set_aside
from chatfold.eventlog.files.disk import Disk, read_at, write_all
from chatfold.eventlog.files.segment import Tail, segment_name
from chatfold.eventlog.line import ENTRY_PREFIX, MAX_LINE, SEAL_PREFIX, has_valid_sum, parse_fields

if TYPE_CHECKING:
    from chatfold.eventlog.files.reader import LogReader

_log = logging.getLogger("chatfold")
_WINDOW = 8 * MAX_LINE

_MARKS = re.compile(rb'(?P<start>\{"(?:seq|chatfold|seal)":)|,"sum":"[0-9a-f]{16}"\}')


def highest_durable_seq_after(disk: Disk, fd: int, start: int, last_of_sealed: int) -> int:
    """The highest seq that valid lines after byte ``start`` call durable. ``last_of_sealed``: what a seal vouches for.

    A window at a time: what follows the log may be larger than memory.
    """
    highest, end = 0, disk.fstat(fd).st_size
    while start < end:
        data = read_at(disk, fd, start, _WINDOW + MAX_LINE)  # a line that begins in one window ends in it
        highest = max(highest, highest_durable_seq(data, last_of_sealed))
        start += _WINDOW
    return highest


def highest_durable_seq(data: bytes, last_of_sealed: int) -> int:
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
    """Whatever follows the last whole batch was never acknowledged: sets it aside and cuts it off.

    Where the log ends then. The caller holds the lock, so that what is torn here stays torn, and syncs what was cut.
    """
    disk, start = folder.disk, tail.position.offset
    size = disk.fstat(fd).st_size - start
    if not size:
        return tail
    rest = read_at(disk, fd, start, size) if size <= MAX_LINE else b""
    if b"\n" not in rest and has_valid_sum(rest):  # a whole line, and only its newline is missing
        write_all(disk, fd, b"\n")
        after = folder.tail()
        if after.position.offset > start:
            return after
    torn = (read_at(disk, fd, at, MAX_LINE) for at in range(start, start + size, MAX_LINE))
    aside = set_aside(disk, folder.path, f"torn-{segment_name(tail.first)}-{start}", torn)
    disk.truncate(fd, start)
    _log.warning("torn tail of %d bytes cut off at byte %d, kept in %s", size, start, aside)
    return tail
