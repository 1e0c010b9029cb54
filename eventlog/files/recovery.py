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
from chatfold.eventlog.files.segment import Place, segment_name
from chatfold.eventlog.line import ENTRY, MAX_LINE, SEAL, marks, verifies

if TYPE_CHECKING:
    from chatfold.eventlog.files.reader import Folder

_log = logging.getLogger("chatfold")
_WINDOW = 8 * MAX_LINE

_MARKS = re.compile(rb'(?P<start>\{"(?:seq|chatfold|seal)":)|,"sum":"[0-9a-f]{16}"\}')


def durable_after(disk: Disk, fd: int, start: int, last_of_sealed: int) -> int:
    """The highest seq that valid lines after byte ``start`` call durable. ``last_of_sealed``: what a seal vouches for.

    A window at a time: what follows the log may be larger than memory.
    """
    highest, end = 0, disk.fstat(fd).st_size
    while start < end:
        data = read_at(disk, fd, start, _WINDOW + MAX_LINE)  # a line that begins in one window ends in it
        highest = max(highest, durable_in(data, last_of_sealed))
        start += _WINDOW
    return highest


def durable_in(data: bytes, last_of_sealed: int) -> int:
    highest = 0
    for line in valid_lines(data) if b',"sum":"' in data else ():
        if line.startswith(SEAL):
            highest = max(highest, last_of_sealed)
        elif line.startswith(ENTRY):
            highest = max(highest, marks(line).synced or 0)
    return highest


def valid_lines(data: bytes) -> Iterator[bytes]:
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
            if verifies(data[start : mark.end()]):
                yield data[start : mark.end()]
                starts.clear()
                break


def cut_torn(folder: "Folder", fd: int, tail: Place) -> Place:
    """Whatever follows the last whole batch was never acknowledged: sets it aside and cuts it off.

    Where the log ends then. The caller holds the lock, so that what is torn here stays torn, and syncs what was cut.
    """
    disk, start = folder.disk, tail.at.offset
    size = disk.fstat(fd).st_size - start
    if not size:
        return tail
    rest = read_at(disk, fd, start, size) if size <= MAX_LINE else b""
    if b"\n" not in rest and verifies(rest):  # a whole line, and only its newline is missing
        write_all(disk, fd, b"\n")
        after = folder.tail()
        if after.at.offset > start:
            return after
    torn = (read_at(disk, fd, at, MAX_LINE) for at in range(start, start + size, MAX_LINE))
    aside = set_aside(disk, folder.path, f"torn-{segment_name(tail.first)}-{start}", torn)
    disk.truncate(fd, start)
    _log.warning("torn tail of %d bytes cut off at byte %d, kept in %s", size, start, aside)
    return tail
