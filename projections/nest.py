"""The compactions of a context that later ones have swallowed. They matter when one is taken back, which is rare.

So from a snapshot they come as bytes, and these are unpacked when somebody looks.
"""

from collections.abc import Iterator

import msgspec

from chatfold.projections.packing import Packed, Unpack, pack
from chatfold.projections.sorted_map import SortedMap

Row = tuple[int, int, int]


class _Maps(msgspec.Struct, frozen=True):
    rows: SortedMap[int, Row] = SortedMap()  # seq -> first, last, swallowed by
    ranges: SortedMap[Row, int] = SortedMap()  # the same: swallowed by, first, seq -> last


class Nest(Packed):
    """A value: what changes it gives another one."""

    __slots__ = ("_data", "_known")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: bytes = b"", known: _Maps | None = None) -> None:
        self._data = data
        self._known = _Maps() if known is None and not data else known

    @property
    def _maps(self) -> _Maps:
        if self._known is None:
            rows = _unpack(self._data)
            ranges: SortedMap[Row, int] = SortedMap()
            for (by, first, seq), last in sorted(
                ((by, first, seq), last) for seq, (first, last, by) in rows.items()
            ):
                ranges = ranges.set((by, first, seq), last)
            self._known = _Maps(rows, ranges)
        return self._known

    def dump(self) -> bytes:
        if not self._data and self:
            self._data = pack(self._maps.rows)
        return self._data

    def __bool__(self) -> bool:
        return bool(self._data) or bool(self._maps.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nest) and self.dump() == other.dump()

    def __repr__(self) -> str:
        return f"Nest({dict(self._maps.rows.items())})"

    def __contains__(self, seq: int) -> bool:
        return seq in self._maps.rows

    def items(self, first: int = 0) -> Iterator[tuple[int, Row]]:
        """Seq -> first, last, swallowed by; in order, from a seq on."""
        return self._maps.rows.items(first)

    def swallowed_by(self, seq: int) -> list[Row]:
        """First, seq and last of each."""
        found: list[Row] = []
        for (by, first, one), last in self._maps.ranges.items((seq, 0, 0)):
            if by != seq:
                break
            found.append((first, one, last))
        return found

    def put(self, seq: int, first: int, last: int, by: int) -> "Nest":
        """With this compaction, which ``by`` has swallowed."""
        if seq in self:
            return self.without(seq).put(seq, first, last, by)
        maps = self._maps
        return Nest(
            known=_Maps(maps.rows.set(seq, (first, last, by)), maps.ranges.set((by, first, seq), last))
        )

    def without(self, seq: int) -> "Nest":
        maps = self._maps
        first, _, by = maps.rows[seq]
        return Nest(known=_Maps(maps.rows.without(seq), maps.ranges.without((by, first, seq))))


_unpack = Unpack(SortedMap[int, Row])
