"""The older part of ``seen``: files of sorted rows, each the upper half of a fingerprint and a seq, in 64 bits.

    cache/<first>-<last>.seen = title LF index blocks

Rows stand in blocks, and each block is verified whole before a row of it counts. A question reads one block of each file. Files of
about one size are merged: there are a few of them at any length of the history, and each row is written a few times. A bounded
number of blocks stays in memory.

A file counts up to the last of the links in its index that the log has, too: so it serves a fork, and a log of which a crash took
the end. No file is changed once it is there.
"""

import re
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from pathlib import Path

import msgspec
from xxhash import xxh3_64_intdigest

from chatfold.eventlog.events import Head
from chatfold.eventlog.files.cache import Cache, Span
from chatfold.eventlog.files.disk import Disk, read_at
from chatfold.eventlog.line import DECODE_ERRORS, Count

CUT = 4096
"""Rows that are enough for a file."""

_KIND = f"seen 1 {sys.byteorder}"
_NAME = re.compile(r"(\d{16})-(\d{16})\.seen")
_SEQ = (1 << 32) - 1
_ROWS = 512  # of a block
_BYTES = 8 * _ROWS
_HELD = 256  # blocks of a file in memory: up to a megabyte
_FAN = 4  # a file has so many times the rows of the next one, or they are merged
_LARGEST = 1 << 20  # rows of a file that is not merged any more
_APART = 4096  # entries between two links of an index
_PIECE = 1 << 13  # rows that are merged at once: other threads get their turn


class _Index(msgspec.Struct, array_like=True):
    """``links``: of some entries before the last one. ``firsts``: the first row of each block; ``sums``: its xxh3."""

    links: list[tuple[Count, str]]
    rows: Count
    firsts: bytes
    sums: bytes


_encode_index = msgspec.msgpack.Encoder().encode
_decode_index = msgspec.msgpack.Decoder(_Index).decode


class _File(msgspec.Struct):
    """``end``: the last entry that it counts for. ``blocks``: those in memory; all, if it could not be stored."""

    name: str
    span: Span
    links: list[tuple[int, str]]
    size: int
    firsts: "array[int]"
    sums: "array[int]"
    start: int  # of the blocks, in the file; 0 if it could not be stored
    end: Head
    blocks: "dict[int, array[int]]" = {}

    @property
    def is_partial(self) -> bool:
        return self.end != self.span.head


class SeenFiles:
    """Those of one chat. ``link``: of an entry of its log; None if there is none."""

    def __init__(self, cache: Cache, disk: Disk, link: Callable[[int], str | None]) -> None:
        self._cache = cache
        self._disk = disk
        self._link = link
        self._epoch = ""
        self._files: list[_File] = []
        self._damaged: set[str] = set()

    @property
    def end(self) -> Head:
        """All entries up to there count."""
        return self._files[-1].end if self._files else Head()

    def find(self, upper: int) -> list[int] | None:
        """The seqs of this upper half of a fingerprint, in order. None: a file is damaged or gone, and nothing counts until ``load``."""
        found: list[int] = []
        for file in self._files:
            try:
                found += self._find_in(file, upper)
            except (OSError, ValueError):
                self._drop(file)
                return None
        return found

    def load(self) -> bool:
        """Take the files that cover the history from its start without a gap. False: what could not be stored stays in memory."""
        epoch = self._cache.epoch()
        if epoch == self._epoch and any(not file.start for file in self._files):
            return False
        self._files, self._epoch, end = [], epoch, Head()
        for first, _, name in sorted(_names(self._cache)):
            file = self._open(name) if first == end.seq + 1 and name not in self._damaged else None
            if file is not None and (file.span.first, file.span.prev) == (end.seq + 1, end.link):
                self._files.append(file)
                end = file.end
            else:
                self._cache.remove(name)
        while self._files and not self._is_of_log(self._files[-1]):
            self._cache.remove(self._files.pop().name)
        return True

    def forget(self) -> None:
        self._files.clear()

    def add(self, end: Head, rows: list[int]) -> bool:
        """Keep the rows of the entries after the files, merged with files that are not much larger. False: ``load`` again."""
        count, size = len(self._files), len(rows)
        while count and _is_merged(self._files[count - 1], size):
            count -= 1
            size += self._files[count].size
        merged, parts = self._files[count:], [array("Q", sorted(rows))]
        for file in merged:
            try:
                parts.append(self._all_rows(file))
            except (OSError, ValueError):
                self._drop(file)
                return False
        del self._files[count:]
        span = Span(self.end.seq + 1, self.end.link, end.seq, end.link)
        made = self._store(span, _links_of(merged), _merge(parts))
        if made is None:
            self.forget()
            return False
        self._files.append(made)
        for file in merged:
            if file.name != made.name:
                self._cache.remove(file.name)
        return True

    # --- reading --------------------------------------------------------------------------------------------

    def _open(self, name: str) -> _File | None:
        found = self._cache.load(name, _KIND, self._epoch)
        if found is None:
            return None
        firsts, sums = array("Q"), array("Q")
        try:
            index = _decode_index(found.payload)
            firsts.frombytes(index.firsts)
            sums.frombytes(index.sums)
        except DECODE_ERRORS:
            return None
        if not len(firsts) == len(sums) == -(-index.rows // _ROWS):
            return None
        span = found.span
        return _File(name, span, index.links, index.rows, firsts, sums, found.blocks, span.head)

    def _is_of_log(self, file: _File) -> bool:
        """Finds the last of its links that the log has. A link names all entries up to its own."""

        def is_other(place: tuple[int, str]) -> bool:
            return self._link(place[0]) != place[1]

        places = [*file.links, (file.span.seq, file.span.link)]
        count = bisect_left(places, True, key=is_other) if is_other(places[-1]) else len(places)
        if count:
            file.end = Head(*places[count - 1])
        return count > 0

    def _find_in(self, file: _File, upper: int) -> list[int]:
        low = upper << 32
        index = bisect_right(file.firsts, low | _SEQ) - 1  # the last block that may have some
        if index < 0:
            return []
        rows = self._block(file, index)
        at = bisect_left(rows, low)
        if at and (at == len(rows) or rows[at] >> 32 != upper):
            return []  # the usual case
        found: list[int] = []
        for block in range(max(0, bisect_left(file.firsts, low) - 1), index + 1):
            rows = self._block(file, block)
            same = rows[bisect_left(rows, low) : bisect_right(rows, low | _SEQ)]
            found += [row & _SEQ for row in same if row & _SEQ <= file.end.seq]
        return found

    def _block(self, file: _File, index: int) -> "array[int]":
        rows = file.blocks.get(index)
        if rows is None:
            rows = self._read_blocks(file, index, 1)
            if len(file.blocks) >= _HELD:
                del file.blocks[next(iter(file.blocks))]
            file.blocks[index] = rows
        return rows

    def _read_blocks(self, file: _File, first: int, count: int) -> "array[int]":
        """Raises OSError or ValueError unless each of them verifies."""
        size = min(count * _ROWS, file.size - first * _ROWS) * 8
        with self._cache.reading(file.name) as fd:
            data = memoryview(read_at(self._disk, fd, file.start + first * _BYTES, size))
        for index in range(count):
            if xxh3_64_intdigest(data[index * _BYTES : (index + 1) * _BYTES]) != file.sums[first + index]:
                raise ValueError("a block does not verify")
        rows = array("Q")
        rows.frombytes(data)
        return rows

    def _all_rows(self, file: _File) -> "array[int]":
        if file.start:
            rows = self._read_blocks(file, 0, len(file.sums))
        else:
            rows = array("Q", [row for block in file.blocks.values() for row in block])
        return array("Q", [row for row in rows if row & _SEQ <= file.end.seq]) if file.is_partial else rows

    def _drop(self, file: _File) -> None:
        """It is damaged, or others have merged it meanwhile."""
        self._damaged.add(file.name)  # also if it cannot be removed
        self._cache.remove(file.name)
        self.forget()

    # --- writing --------------------------------------------------------------------------------------------

    def _store(self, span: Span, links: list[tuple[int, str]], rows: "array[int]") -> _File | None:
        """None: an erasure came since the epoch was read."""
        data = rows.tobytes()
        firsts = rows[::_ROWS]
        sums = array("Q", [xxh3_64_intdigest(data[i : i + _BYTES]) for i in range(0, len(data), _BYTES)])
        index = _encode_index(_Index(links, len(rows), firsts.tobytes(), sums.tobytes()))
        name = f"{span.first:016d}-{span.seq:016d}.seen"
        stored = None
        if self._cache.store(name, _KIND, span, index, self._epoch, data):
            self._damaged.discard(name)
            stored = self._open(name)
        if self._cache.epoch() != self._epoch:
            return None
        if stored is not None and len(sums) > _HELD:
            return stored
        made = stored or _File(name, span, links, len(rows), firsts, sums, 0, span.head)
        made.blocks = {i: rows[i * _ROWS : (i + 1) * _ROWS] for i in range(len(sums))}
        return made


def share_seen(cache: Cache, fork: Path, last: int) -> None:
    """Those that have something up to seq ``last`` go along with a fork."""
    for first, _, name in _names(cache):
        if first <= last:
            cache.share(name, fork)


def _names(cache: Cache) -> list[tuple[int, int, str]]:
    """Of two that begin together the longer one sorts first: it is the merged one."""
    found = [match for name in cache.names() if (match := _NAME.fullmatch(name))]
    return [(int(match[1]), -int(match[2]), match[0]) for match in found]


def _is_merged(file: _File, size: int) -> bool:
    """With rows of this number after it. One that counts only in part is written anew."""
    is_near = file.size < _FAN * max(size, CUT) and file.size + size <= _LARGEST
    return is_near or file.is_partial


def _links_of(files: list[_File]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for file in files:
        for seq, link in (*file.links, (file.end.seq, file.end.link)):
            if seq <= file.end.seq and seq - (found[-1][0] if found else 0) >= _APART:
                found.append((seq, link))
    return found


def _merge(parts: "list[array[int]]") -> "array[int]":
    pieces = sum(map(len, parts)) // _PIECE + 1
    merged, starts = array("Q"), [0] * len(parts)
    for piece in range(1, pieces + 1):
        ends = [bisect_left(part, (piece << 64) // pieces) for part in parts]
        rows = [part[start:end] for part, start, end in zip(parts, starts, ends, strict=True)]
        merged.extend(sorted(row for some in rows for row in some))
        starts = ends
    return merged
