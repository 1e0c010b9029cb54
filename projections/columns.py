"""Two growing sequences that are values: appending gives a new one and leaves the old one as it was.

Both share everything but their short last piece with the one they were made from, so an append costs the same at
any length, and both go into a snapshot as they are. Equal contents are equal values.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

import msgspec

from chatfold.projections.packing import Unpack, pack

_PIECE = 256
_BLOCK = 1024
_SMALL = [bytes((number,)) for number in range(128)]
_piece = Unpack(tuple[bytes, ...])


class Rows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A sequence of packed values. Full pieces are packed once more: a snapshot with thousands of rows is read as a few."""

    full: tuple[bytes, ...] = ()
    tail: tuple[bytes, ...] = ()

    def append(self, row: bytes) -> "Rows":
        tail = (*self.tail, row)
        return Rows(self.full, tail) if len(tail) < _PIECE else Rows((*self.full, pack(tail)), ())

    def __len__(self) -> int:
        return len(self.full) * _PIECE + len(self.tail)

    @property
    def last(self) -> bytes:
        return self.tail[-1] if self.tail else _piece(self.full[-1])[-1]

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.full:
            yield from _piece(piece)
        yield from self.tail


class Seqs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Seqs in increasing order, about a byte each: the distances between them, in blocks.

    A distance is a varint: seven bits a byte, least first, the eighth bit says that more follow.
    """

    firsts: tuple[int, ...] = ()  # of each block, the last one included
    full: tuple[bytes, ...] = ()
    tail: bytes = b""
    count: int = 0
    last: int = 0

    def append(self, seq: int) -> "Seqs":
        assert seq > self.last
        if self.count % _BLOCK:
            gap = seq - self.last
            tail = self.tail + (_SMALL[gap] if gap < 128 else _varint(gap))
            return Seqs(self.firsts, self.full, tail, self.count + 1, seq)
        full = (*self.full, self.tail) if self.count else ()
        return Seqs((*self.firsts, seq), full, b"", self.count + 1, seq)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self._block(index // _BLOCK)[index % _BLOCK]

    def _block(self, index: int) -> tuple[int, ...]:
        return _unpacked(self.firsts[index], self.full[index] if index < len(self.full) else self.tail)

    def upto(self, seq: int) -> int:
        """How many of them are at most ``seq``."""
        if seq >= self.last:
            return self.count
        block = bisect_right(self.firsts, seq) - 1
        return 0 if block < 0 else block * _BLOCK + bisect_right(self._block(block), seq)

    def within(self, first: int, last: int) -> int:
        """How many of them are from ``first`` to ``last``."""
        return max(0, self.upto(last) - self.upto(first - 1))


def _varint(number: int) -> bytes:
    if number < 128:
        return bytes((number,))
    return bytes((number & 127 | 128,)) + _varint(number >> 7)


@lru_cache(maxsize=64)
def _unpacked(first: int, block: bytes) -> tuple[int, ...]:
    if block.isascii():  # every distance is one byte
        return tuple(accumulate(block, initial=first))
    seqs = [first]
    number = shift = 0
    for byte in block:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            seqs.append(seqs[-1] + number)
            number = shift = 0
    return tuple(seqs)
