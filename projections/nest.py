"""The compactions of a context that later ones have swallowed. They matter when one is taken back, which is rare.

So from a snapshot they come as bytes, and these are unpacked when somebody looks.
"""

from collections.abc import Iterator
from itertools import accumulate
from operator import add, sub
from typing import TypeAlias

from chatfold.projections.packing import Packed, Unpack, pack
from chatfold.projections.sorted_map import SortedMap

Row: TypeAlias = tuple[int, int, int]
Rows: TypeAlias = SortedMap[int, Row]  # seq -> first, last, swallowed by
Ranges: TypeAlias = SortedMap[Row, int]  # the same: swallowed by, first, seq -> last


class Nest(Packed):
    """A value: what changes it gives another one. Equal rows are equal values, however they came about."""

    __slots__ = ("_data", "_known", "_new", "_ranges")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        data: bytes = b"",
        new: tuple[tuple[int, Row], ...] = (),
        known: Rows | None = None,
        ranges: Ranges | None = None,
    ) -> None:
        self._data = data
        self._new = new  # since those bytes
        self._known = SortedMap() if known is None and not data and not new else known
        self._ranges = ranges

    @property
    def _rows(self) -> Rows:
        if self._known is None:
            rows = _unpack(self._data)
            for seq, row in self._new:
                rows = rows.set(seq, row)
            self._known = rows
        return self._known

    def dump(self) -> bytes:
        if self._new or (not self._data and self._rows):
            self._data, self._new = _pack(self._rows), ()
        return self._data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nest) and self.dump() == other.dump()

    def __repr__(self) -> str:
        return f"Nest({dict(self._rows.items())})"

    def __contains__(self, seq: int) -> bool:
        return seq in self._rows

    def items(self, first: int = 0) -> Iterator[tuple[int, Row]]:
        """Seq -> first, last, swallowed by; in order, from a seq on."""
        return self._rows.items(first)

    def swallowed_by(self, seq: int) -> list[Row]:
        """First, seq and last of each."""
        if self._ranges is None:
            self._ranges = SortedMap()
            for one, (first, last, by) in self._rows.items():
                self._ranges = self._ranges.set((by, first, one), last)
        found: list[Row] = []
        for (by, first, one), last in self._ranges.items((seq, 0, 0)):
            if by != seq:
                break
            found.append((first, one, last))
        return found

    def add(self, seq: int, first: int, last: int, by: int) -> "Nest":
        """With this compaction, which was not there, and which ``by`` has swallowed. Nothing is unpacked for it."""
        if self._known is None:
            return Nest(self._data, (*self._new, (seq, (first, last, by))))
        ranges = None if self._ranges is None else self._ranges.set((by, first, seq), last)
        return Nest(known=self._known.set(seq, (first, last, by)), ranges=ranges)

    def without(self, seq: int) -> "Nest":
        first, _, by = self._rows[seq]
        ranges = None if self._ranges is None else self._ranges.without((by, first, seq))
        return Nest(known=self._rows.without(seq), ranges=ranges)


def _pack(rows: Rows) -> bytes:
    """Of each row four distances, which are small."""
    numbers: list[int] = []
    one, begin = 0, 0
    for seq, (first, last, by) in rows.items():
        numbers += (seq - one, first - begin, seq - last, by - seq)
        one, begin = seq, first
    return pack(numbers)


def _unpack(data: bytes) -> Rows:
    numbers = _numbers_of(data) if data else []
    seqs, firsts = list(accumulate(numbers[::4])), accumulate(numbers[1::4])
    lasts, bys = map(sub, seqs, numbers[2::4]), map(add, seqs, numbers[3::4])
    return SortedMap.of(seqs, list(zip(firsts, lasts, bys, strict=True)))


_numbers_of = Unpack(list[int])
