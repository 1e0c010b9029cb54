"""Files of JSON lines, as other programs write them: torn, long, with holes, in any encoding.

A line counts when its newline is there. What follows the last newline is being written, or was torn: it is left for
the next reading, unless it is a whole object already. Anything that is no JSON object is a ``Problem``.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from xxhash import xxh3_64_intdigest

from chatfold.importers.head import LONGEST, Object, decode_object
from chatfold.importers.items import Problem, Rewritten

_CHUNK = 1 << 20


class Line(NamedTuple):
    number: int
    offset: int
    record: Object


class LineReader:
    """The records of a file, from where the last reading ended. ``limit``: only the bytes before that offset."""

    def __init__(self, path: Path, problems: list[Problem], limit: int | None = None) -> None:
        self.path = path
        self._problems = problems
        self._limit = limit
        self._offset = self._number = 0
        self._file_id: tuple[int, int] | None = None
        self._torn = -1
        self._last = (0, 0, 0)  # the line that was read last: offset, size, fingerprint

    def read(self) -> Iterator[Line]:
        with self.path.open("rb") as file:
            stat = os.fstat(file.fileno())
            if self._file_id not in (None, (stat.st_dev, stat.st_ino)) or stat.st_size < self._offset:
                raise Rewritten(str(self.path))
            self._file_id = stat.st_dev, stat.st_ino
            start, length, fingerprint = self._last
            file.seek(start)
            if length and xxh3_64_intdigest(file.read(length)) != fingerprint:
                raise Rewritten(str(self.path))
            file.seek(self._offset)
            size = stat.st_size if self._limit is None else min(self._limit, stat.st_size)
            while self._offset < size:
                data = file.readline(min(LONGEST, size - self._offset))
                if not data:
                    return
                if not data.endswith(b"\n"):
                    if len(data) == LONGEST:
                        yield from self._pass_over(file, data)
                        continue
                    record = decode_object(data)
                    if record is None:
                        self._note_torn()
                        return
                    yield self._take(data, record)
                    return
                record = decode_object(data)
                if record is not None:
                    yield self._take(data, record)
                else:
                    self._refuse(data)

    def _take(self, data: bytes, record: Object) -> Line:
        self._number += 1
        line = Line(self._number, self._offset, record)
        self._last = self._offset, len(data), xxh3_64_intdigest(data)
        self._offset += len(data)
        return line

    def _refuse(self, data: bytes, what: str = "") -> None:
        self._number += 1
        if data.strip(b" \t\r\n\0"):
            self._problem(what or "no JSON object")
        self._offset += len(data)

    def _note_torn(self) -> None:
        """Once for each place: a file that is being written is looked at often."""
        if self._torn != self._offset:
            self._torn = self._offset
            self._problems.append(
                Problem(str(self.path), self._number + 1, self._offset, "the last line is not whole")
            )

    def _pass_over(self, file: Any, data: bytes) -> Iterator[Line]:
        """A line that is longer than any line may be."""
        start, self._number = self._offset, self._number + 1
        self._problem(f"a line of more than {LONGEST >> 20} MiB")
        while data and not data.endswith(b"\n"):
            start += len(data)
            data = file.readline(_CHUNK)
        self._offset = start + len(data)
        yield from ()

    def _problem(self, what: str) -> None:
        self._problems.append(Problem(str(self.path), self._number, self._offset, what))
