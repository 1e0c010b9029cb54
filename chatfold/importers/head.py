"""The beginning of a file, by which its format is recognised. Never more is read than that takes."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from chatfold.importers.database import MAGIC, tables_of

LONGEST = 128 << 20
"""Bytes of a line. A longer one is passed over, so that no file can take all memory."""
_SIZE = 1 << 16
_RECORDS = 16
_LARGEST = 512 << 20  # bytes of a file that is one JSON value
_BLANK = b"\xef\xbb\xbf \t\r\n\0"

Object = dict[str, Any]
_decode = msgspec.json.Decoder().decode


class Head:
    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self.start = file.read(_SIZE).lstrip(_BLANK)

    @cached_property
    def records(self) -> list[Object]:
        """The first objects of a file of JSON lines."""
        return list(self._records()) if self.start.startswith(b"{") else []

    def _records(self) -> Iterator[Object]:
        with self.path.open("rb") as file:
            good = 0
            for _ in range(4 * _RECORDS):
                line = file.readline(LONGEST)
                record = decode_object(line) if line.strip(_BLANK) else None
                if record is not None:
                    good += 1
                    yield record
                if not line or good >= _RECORDS:
                    return

    @cached_property
    def tables(self) -> dict[str, frozenset[str]]:
        """Of a SQLite database: the columns of each table."""
        return tables_of(self.path) if self.start.startswith(MAGIC) else {}

    @cached_property
    def value(self) -> Any:
        """What a file says that is one JSON value; None if it is none, or too large."""
        if self.start[:1] not in (b"[", b"{") or self.path.stat().st_size > _LARGEST:
            return None
        return decode_value(self.path.read_bytes())


def decode_object(data: bytes) -> Object | None:
    """The object that the bytes say, if they say one."""
    record = decode_value(data)
    return record if isinstance(record, dict) else None


def decode_value(data: bytes) -> Any:
    """Halves of characters are replaced, holes of NUL left out; None if it is no JSON."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _decode(data.strip(_BLANK).decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError):
        return None
