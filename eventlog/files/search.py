"""A chat on disk, searched by its bytes: the newest hits first, without an index and without decoding the rest.

``Needle`` proposes lines by what they say themselves. Proposed are also those that refer to a line, or to a file of
its own, in which it may stand. A line that is proposed is verified, made whole, decoded and asked; the answers are
those of ``Storage.search``, which asks every entry. Lines that are not proposed are neither verified nor decoded.
"""

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from chatfold.eventlog.codec import DEL_BYTE, decode
from chatfold.eventlog.errors import CorruptLog
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.blobs import BLOBS
from chatfold.eventlog.files.disk import Disk, is_settled, read_at, read_file, stat_key
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.line import ENTRY_PREFIX, has_valid_sum, parse_seq
from chatfold.eventlog.needle import Needle, find_oddities
from chatfold.eventlog.search import Query, Spans, is_within

_FIRST = 1 << 16  # bytes: the newest hits are wanted soon
_PIECE = 1 << 18  # as many as a processor's cache holds: twice as fast as the segment at once
_MOST_KNOWN = 4096  # segments
_FEW = 32  # entries that are given at once
_ELSEWHERE = re.compile(rb'"\x7f(?:ref:(\d{1,18}):|text:([0-9a-f]{64})")')


class Oddities:
    """What ``find_oddities`` found in segments that were read whole. Finding it takes half of a search.

    It is the same for every query, and counts as long as the file looks as it did, see ``stat_key``. In memory only.
    """

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], Collection[str]]] = {}

    def of_file(self, path: Path, status: os.stat_result) -> Collection[str] | None:
        key, odd = self._known.get(path, ((), None))
        return odd if key == stat_key(status) else None

    def note(self, path: Path, status: os.stat_result, odd: Collection[str]) -> None:
        """``status``: from before the file was read."""
        if is_settled(status):
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[path] = stat_key(status), odd


def search_back(folder: LogReader, query: Query, without: Spans, oddities: Oddities) -> Iterator[list[Entry]]:
    """The entries that match, newest first, some at a time; none at all now and then, so that it can be given up.

    A chat that is not there has none, and one that is deleted meanwhile no more.
    """
    with folder.ignoring_deletion():
        yield from _Search(folder, query, without, oddities).run()


class _Search:
    def __init__(self, folder: LogReader, query: Query, without: Spans, oddities: Oddities) -> None:
        self._folder = folder
        self._query = query
        self._without = without
        self._oddities = oddities
        self._needle = Needle(query)
        self._lines: dict[int, bool] = {}  # that are referred to: may it stand there?
        self._blobs: dict[bytes, bool] = {}

    def run(self) -> Iterator[list[Entry]]:
        tail = self._folder.tail()
        firsts = [first for first in self._folder.segments() if first <= tail.position.seq]
        for first in reversed(firsts):
            with self._folder.open_segment(first) as fd:
                status = self._folder.disk.fstat(fd)
                if first == tail.first and status.st_ino != tail.inode:
                    break  # swapped under us: lines stand elsewhere now
                self._folder.check_belongs(first, fd)
                end = tail.position.offset if first == tail.first else status.st_size
                yield from self._found_in_file(fd, self._folder.segment_path(first), status, end)
            if first > firsts[0]:
                yield []
        else:
            return
        yield from self.run()

    def _found_in_file(self, fd: int, path: Path, status: os.stat_result, end: int) -> Iterator[list[Entry]]:
        known = self._oddities.of_file(path, status)
        odd: set[str] = set()
        for offset, skip, data in _pieces_back(self._folder.disk, fd, end):
            here = find_oddities(data) if known is None else known
            odd.update(here)
            starts = [start for start in self._proposed(data, here) if start >= skip]
            yield from self._found_at(starts, data, offset)
        if known is None and end == status.st_size:
            self._oddities.note(path, status, odd)

    def _found_at(self, starts: list[int], data: bytes, offset: int) -> Iterator[list[Entry]]:
        found: list[Entry] = []
        for start in sorted(starts, reverse=True):
            entry = self._decode(data, start, offset)
            if entry is not None and self._query.matches(entry):
                found.append(entry)
                if len(found) == _FEW:
                    yield found
                    found = []
        if found:
            yield found

    def _proposed(self, data: bytes, odd: Collection[str]) -> set[int]:
        """Where these lines start. ``data``: whole lines."""
        starts = self._needle.starts(data, odd)
        at = data.find(DEL_BYTE)  # one byte is found many times as fast as a pattern
        while at >= 0:
            match = _ELSEWHERE.match(data, at - 1)
            if match and (self._is_in_line(int(match[1])) if match[1] else self._is_in_blob(match[2])):
                starts.add(data.rfind(b"\n", 0, at) + 1)
            at = data.find(DEL_BYTE, at + 1)
        return starts

    def _is_in_line(self, seq: int) -> bool:
        if seq not in self._lines:
            self._lines[seq] = self._needle.may_stand_in(self._folder.line(seq))
        return self._lines[seq]

    def _is_in_blob(self, digest: bytes) -> bool:
        if digest not in self._blobs:
            path = self._folder.path / BLOBS / digest.decode()
            try:
                self._blobs[digest] = self._needle.may_stand_in_text(read_file(self._folder.disk, path))
            except FileNotFoundError:
                self._blobs[digest] = True  # whoever makes the line whole says what is missing
        return self._blobs[digest]

    def _decode(self, data: bytes, start: int, offset: int) -> Entry | None:
        """The entry of the line that starts here; None for one that is no entry, or is not asked for.

        ``offset``: where the data stands in its file.
        """
        line = data[start : data.find(b"\n", start)]
        if not line:
            return None
        if not has_valid_sum(line):
            raise CorruptLog("a line does not verify", offset=offset + start)
        if not line.startswith(ENTRY_PREFIX) or is_within(parse_seq(line), self._without):
            return None
        return decode(self._folder.resolve_line(line))


def _pieces_back(disk: Disk, fd: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """(where it stands, bytes before its first whole line, some lines) of a file's first ``end`` bytes, the last ones first.

    A part of a line is left where it is, for to cut it off would take as long as to read all.
    """
    size = _FIRST
    while end > 0:
        start = max(0, end - size)
        data = read_at(disk, fd, start, end - start)
        skip = data.find(b"\n") + 1 if start else 0
        if start and not 0 < skip < len(data):
            size *= 4  # not one whole line
            continue
        if not data.endswith(b"\n"):
            data = data[: data.rfind(b"\n") + 1]  # what follows a seal is no line
        yield start, skip, data
        end, size = start + skip, _PIECE
