"""A chat on disk, searched by its bytes: the newest hits first, without an index and without decoding the rest.

Pages come verified from the reader, so damage is told wherever it is. ``Needle`` proposes lines by what they say
themselves. Proposed are also those that refer to a line, or to a file of its own, in which it may stand. A line that is
proposed is made whole, decoded and asked; the answers are those of ``Storage.search``, which asks every entry.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from xxhash import xxh3_128_digest

from chatfold.eventlog.codec import DEL_BYTE, Page, decode
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.blobs import BLOBS
from chatfold.eventlog.files.disk import read_file
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.line import parse_seq
from chatfold.eventlog.needle import Needle, find_oddities
from chatfold.eventlog.search import Query, Spans, is_within

LineOf: TypeAlias = Callable[[int], bytes]

_MOST_KNOWN = 4096  # pages
_FEW = 32  # entries that are given at once
_FIRST_PAGE = 1 << 17  # bytes: often enough
_ELSEWHERE = re.compile(rb'"\x7f(?:ref:(\d{1,18}):|text:([0-9a-f]{64})")')


class Oddities:
    """What ``find_oddities`` found in pages that were searched, by the sum of their bytes. To find it takes half of a search.

    It is the same for every query. In memory only.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Collection[str]] = {}

    def find(self, data: bytes) -> Collection[str]:
        key = xxh3_128_digest(data)
        odd = self._known.get(key)
        if odd is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            odd = self._known[key] = find_oddities(data)
        return odd


def search_back(folder: LogReader, query: Query, without: Spans, oddities: Oddities) -> Iterator[list[Entry]]:
    """The entries that match, newest first, some at a time; none at all now and then, so that it can be given up.

    A chat that is not there has none, and one that is deleted meanwhile no more.
    """
    search = _Search(folder, query, without)
    with folder.ignoring_deletion():
        for page in folder.pages_back(size=_FIRST_PAGE):
            with folder.reading_lines() as line_of:
                yield from search.find_in(page, oddities.find(page.data), line_of)


class _Search:
    def __init__(self, folder: LogReader, query: Query, without: Spans) -> None:
        self._folder = folder
        self._query = query
        self._without = without
        self._needle = Needle(query)
        self._lines: dict[int, bool] = {}  # that are referred to: may it stand there?
        self._blobs: dict[bytes, bool] = {}

    def find_in(self, page: Page, odd: Collection[str], line_of: LineOf) -> Iterator[list[Entry]]:
        found: list[Entry] = []
        for start in sorted(self._propose_lines(page.data, odd, line_of), reverse=True):
            if not page.start <= start < page.end:
                continue
            line = page.data[start : page.data.index(b"\n", start)]
            if is_within(parse_seq(line), self._without):
                continue
            entry = decode(self._folder.resolve_line(line))
            if self._query.matches(entry):
                found.append(entry)
            if len(found) == _FEW:
                yield found
                found = []
        yield found

    def _propose_lines(self, data: bytes, odd: Collection[str], line_of: LineOf) -> set[int]:
        """Where these lines start."""
        starts = self._needle.starts(data, odd)
        at = data.find(DEL_BYTE)  # one byte is found many times as fast as a pattern
        while at >= 0:
            match = _ELSEWHERE.match(data, at - 1)
            if match and (
                self._is_in_line(int(match[1]), line_of) if match[1] else self._is_in_blob(match[2])
            ):
                starts.add(data.rfind(b"\n", 0, at) + 1)
            at = data.find(DEL_BYTE, at + 1)
        return starts

    def _is_in_line(self, seq: int, line_of: LineOf) -> bool:
        if seq not in self._lines:
            self._lines[seq] = self._needle.may_stand_in(line_of(seq))
        return self._lines[seq]

    def _is_in_blob(self, digest: bytes) -> bool:
        if digest not in self._blobs:
            path = self._folder.path / BLOBS / digest.decode()
            try:
                self._blobs[digest] = self._needle.may_stand_in_text(read_file(self._folder.disk, path))
            except FileNotFoundError:
                self._blobs[digest] = True  # whoever makes the line whole says what is missing
        return self._blobs[digest]
