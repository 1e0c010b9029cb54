"""Which entries hold a text, letter by letter: found in the raw bytes, without an index and without decoding the rest.

A text is escaped character by character, so what a longer text holds, its escaped bytes hold. The reverse is not so:
the bytes may stand in an envelope, in the name of a field, or begin inside an escape. So the bytes only propose a line,
which is then verified, made whole and decoded. Proposed are also lines that refer to a line with these bytes, and those
that keep a text elsewhere which has them. Lines without a hit are neither verified nor decoded.

What counts are the strings of an event that somebody chose: texts, names, ids, titles, arguments and the keys in them. Not
its type, its role and the like, not bytes, and not events of a type that this version does not know.
"""

import re
from collections.abc import Iterator

import msgspec

from chatfold.eventlog.codec import DEL_BYTE, decode
from chatfold.eventlog.errors import CorruptLog
from chatfold.eventlog.files.blobs import BLOBS
from chatfold.eventlog.files.disk import read_at, read_file
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.line import ENTRY_PREFIX, has_valid_sum, parse_seq
from chatfold.eventlog.search_text import holds, require_text
from chatfold.eventlog.values import escape_text

_PIECE = 1 << 18  # bytes
_ELSEWHERE = re.compile(rb'"\x7f(?:ref:(\d{1,18}):|text:([0-9a-f]{64})")')


def grep(folder: LogReader, text: str) -> list[int]:
    """The seqs, in order, of the entries of a chat on disk that hold the text. A chat that is not there has none."""
    with folder.ignoring_deletion():
        return _Search(folder, text).run()
    return []


class _Search:
    def __init__(self, folder: LogReader, text: str) -> None:
        self._folder = folder
        self._text = require_text(text)
        escaped = escape_text(text)
        self._needle = msgspec.json.encode(escaped)[1:-1]  # as it stands in a line
        self._kept = escaped.encode()  # as it stands in a blob
        self._seen: set[int] = set()  # lines with these bytes: others may refer to them
        self._blobs: dict[bytes, bool] = {}

    def run(self) -> list[int]:
        tail = self._folder.tail()
        found: list[int] = []
        for first in self._folder.segments():
            if first > tail.position.seq:
                break
            with self._folder.open_segment(first) as fd:
                status = self._folder.disk.fstat(fd)
                if first == tail.first and status.st_ino != tail.inode:
                    return self.run()  # swapped under us: lines stand elsewhere now
                self._folder.check_belongs(first, fd)
                end = tail.position.offset if first == tail.first else status.st_size
                for offset, data in self._pieces(fd, end):
                    lines = self._proposed(data, offset)
                    found += [seq for seq, line in sorted(lines.items()) if self._confirmed(line)]
        return found

    def _pieces(self, fd: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Whole lines, as many as a processor's cache holds: twice as fast as the segment at once."""
        offset, size = 0, _PIECE
        while offset < end:
            data = read_at(self._folder.disk, fd, offset, min(size, end - offset))
            whole = data.rfind(b"\n") + 1
            if whole:
                yield offset, data[:whole]
                offset, size = offset + whole, _PIECE
            elif len(data) < size:
                return  # the file is shorter than it was
            else:
                size *= 4

    def _proposed(self, data: bytes, offset: int) -> dict[int, bytes]:
        lines: dict[int, bytes] = {}
        at = data.find(self._needle)
        while at >= 0:
            seq, line, end = _around(data, at, offset)
            if seq:
                lines[seq] = line
            at = data.find(self._needle, end)
        self._seen.update(lines)
        at = data.find(DEL_BYTE)  # one byte is found many times as fast as a pattern
        while at >= 0:
            match = _ELSEWHERE.match(data, at - 1)
            if match and (int(match[1]) in self._seen if match[1] else self._is_in_blob(match[2])):
                seq, line, _ = _around(data, at, offset)
                lines[seq] = line
            at = data.find(DEL_BYTE, at + 1)
        return lines

    def _is_in_blob(self, digest: bytes) -> bool:
        if digest not in self._blobs:
            path = self._folder.path / BLOBS / digest.decode()
            try:
                self._blobs[digest] = self._kept in read_file(self._folder.disk, path)
            except FileNotFoundError:
                self._blobs[digest] = True  # whoever makes the line whole says what is missing
        return self._blobs[digest]

    def _confirmed(self, line: bytes) -> bool:
        return holds(decode(self._folder.resolve_line(line)).event, self._text)


def _around(data: bytes, at: int, offset: int) -> tuple[int, bytes, int]:
    """(seq, line, the byte after it) of the line that byte ``at`` is in; seq 0 for one that is no entry.

    ``offset``: where the data stands in its file.
    """
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    line = data[start:] if end < 0 else data[start:end]
    if not has_valid_sum(line):
        raise CorruptLog("a line does not verify", offset=offset + start)
    return parse_seq(line) if line.startswith(ENTRY_PREFIX) else 0, line, start + len(line)
