"""Runs: sorted arrays of 64-bit rows, the upper half of a row a fingerprint's upper half, the lower half its seq.

A run is a file in ``cache/lookups/<first>-<last>``, for the seqs it covers: a title, then the rows. It is never changed
once written, so that a fork shares it by hard link. Rows are read whole and verified; if they are many and the questions
few, the file is bisected where it is, which verifies nothing.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from xxhash import xxh3_64_hexdigest

from chatfold.eventlog.files.cache import CACHE, ORIGIN
from chatfold.eventlog.files.disk import Disk, ensure_folder, opened, read_at, read_file, replace_file
from chatfold.eventlog.files.offsets import ensure_cache
from chatfold.eventlog.line import add_checksum, decode_verified

LOOKUPS = f"{CACHE}/lookups"
_SEQ = (1 << 32) - 1
_ROW = 8  # bytes
_BLOCK = 512  # rows, read at once where a bisection has come near
_FEW = 1 << 14  # rows: to read and verify all of them takes as long as some bisections
_NAME = re.compile(r"(\d{16})-(\d{16})")


class Run(msgspec.Struct, frozen=True):
    first: int
    last: int
    before: str  # the link of the entry before the first
    link: str  # of the last entry: a run of a history that a crash took away names another one
    size: int  # rows
    rows: array | None = None  # type: ignore[type-arg]  # array has no runtime parameter in 3.11. None: in the file
    kept: bool = True  # is it in a file?

    @property
    def name(self) -> str:
        return f"{self.first:016d}-{self.last:016d}"


def new_run(first: int, last: int, before: str, link: str, rows: list[int]) -> Run:
    return Run(first, last, before, link, len(rows), array("Q", sorted(rows)), kept=False)


def row_of(fingerprint: int, seq: int) -> int:
    return (fingerprint >> 32 << 32) | seq


def seq_in(row: int) -> int:
    return row & _SEQ


def seqs_in(rows: Sequence[int], fingerprint: int) -> list[int]:
    """Of the rows that have its upper half."""
    upper = fingerprint >> 32
    found: list[int] = []
    index = bisect_left(rows, upper << 32)
    while index < len(rows) and rows[index] >> 32 == upper:
        found.append(rows[index] & _SEQ)
        index += 1
    return found


class _Title(msgspec.Struct):
    """The first line of the file. Its strings have 16 characters each, so that rows start at the same byte in all of them."""

    before: str
    link: str
    xxh3: str


_decode_title = msgspec.json.Decoder(_Title).decode


def _title(before: str, link: str, rows: bytes) -> bytes:
    return add_checksum(msgspec.json.encode(_Title(before, link, xxh3_64_hexdigest(rows)))[:-1]) + b"\n"


_START = len(_title(ORIGIN, ORIGIN, b""))


class Shelf:
    """The runs' files of one chat. What cannot be read is not there, what cannot be written is not needed."""

    def __init__(self, chat: Path, disk: Disk) -> None:
        self._chat = chat
        self._folder = chat / LOOKUPS
        self._disk = disk

    def bounds(self) -> list[tuple[int, int]]:
        """First and last seq of each. Of two that start together the longer comes first: it is the merged one."""
        found: list[tuple[int, int]] = []
        with suppress(OSError):
            for name in self._disk.names(self._folder):
                match = _NAME.fullmatch(name)
                if match:
                    found.append((int(match[1]), int(match[2])))
        return sorted(found, key=lambda seqs: (seqs[0], -seqs[1]))

    def run(self, first: int, last: int) -> Run | None:
        """Without its rows, if they are many."""
        run = Run(first, last, "", "", 0)
        with suppress(OSError), opened(self._disk, self._folder / run.name) as fd:
            size = self._disk.fstat(fd).st_size - _START
            title = decode_verified(read_at(self._disk, fd, 0, _START)[:-1], _decode_title)
            if title is not None and size % _ROW == 0:
                run = Run(first, last, title.before, title.link, size // _ROW)
                if run.size > _FEW:
                    return run
                rows = self.rows(run)
                return None if rows is None else msgspec.structs.replace(run, rows=rows)
        return None

    def rows(self, run: Run) -> array | None:  # type: ignore[type-arg]
        """Verified. A file that is damaged is removed."""
        with suppress(OSError):
            data = read_file(self._disk, self._folder / run.name)
            body = memoryview(data)[_START:]
            title = decode_verified(data[: _START - 1], _decode_title)
            if title is not None and (title.link, title.xxh3) == (run.link, xxh3_64_hexdigest(body)):
                rows = array("Q")
                rows.frombytes(body)
                return rows
            self.remove(run)
        return None

    def seqs(self, run: Run, fingerprint: int) -> list[int]:
        """What the file proposes. Not verified."""
        found: list[int] = []
        with suppress(OSError), opened(self._disk, self._folder / run.name) as fd:
            size = (self._disk.fstat(fd).st_size - _START) // _ROW

            def rows(first: int, count: int) -> memoryview:
                data = read_at(self._disk, fd, _START + first * _ROW, min(count, size - first) * _ROW)
                return memoryview(data).cast("Q")

            blocks = range(0, size, _BLOCK)
            block = bisect_left(blocks, row_of(fingerprint, 0), key=lambda first: rows(first, 1)[0])
            for first in blocks[max(0, block - 1) :]:
                some = rows(first, _BLOCK)
                found += seqs_in(some, fingerprint)
                if some[-1] > row_of(fingerprint, _SEQ):
                    break
        return [seq for seq in found if run.first <= seq <= run.last]

    def keep(self, run: Run) -> Run:
        """The same, in a file."""
        if run.rows is None or run.kept:
            return run
        try:
            ensure_cache(self._disk, self._chat)
            ensure_folder(self._disk, self._folder)
            body = run.rows.tobytes()
            content = (_title(run.before, run.link, body), body)
            replace_file(self._disk, self._folder / run.name, content, durable=False)
        except OSError:
            return run
        return msgspec.structs.replace(run, kept=True)

    def remove(self, run: Run) -> None:
        with suppress(OSError):
            self._disk.unlink(self._folder / run.name)
