"""A sorted map that is a value: setting gives a new map and leaves the old one as it was.

Both share everything but one leaf and the list of leaves, so a change costs nearly the same at any size, and keeping old
versions costs little. It goes into a snapshot as it is. Maps that were made by the same steps are equal values.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Generic, TypeVar, overload

import msgspec

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_FULL = 128  # items of a leaf
_key: Any = itemgetter(0)


def _first(leaf: Any) -> Any:
    return leaf[0][0]


class SortedMap(msgspec.Struct, Generic[K, V], frozen=True, array_like=True):
    """``leaves``: never empty ones; a map that grows at its end has full ones."""

    leaves: tuple[tuple[tuple[K, V], ...], ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.leaves))

    def __bool__(self) -> bool:
        return bool(self.leaves)

    def __iter__(self) -> Iterator[K]:
        return (key for leaf in self.leaves for key, _ in leaf)

    def __reversed__(self) -> Iterator[K]:
        return (key for leaf in reversed(self.leaves) for key, _ in reversed(leaf))

    def __contains__(self, key: object) -> bool:
        item = self.floor(key)
        return item is not None and item[0] == key

    def __getitem__(self, key: K) -> V:
        item = self.floor(key)
        if item is None or item[0] != key:
            raise KeyError(key)
        return item[1]

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        item = self.floor(key)
        return item[1] if item is not None and item[0] == key else default

    def floor(self, key: Any) -> tuple[K, V] | None:
        """The last item whose key is at most this one."""
        at = bisect_right(self.leaves, key, key=_first) - 1
        if at < 0:
            return None
        leaf = self.leaves[at]
        return leaf[bisect_right(leaf, key, key=_key) - 1]

    def items(self, first: Any = None) -> Iterator[tuple[K, V]]:
        """In order; from this key on."""
        if first is None:
            for leaf in self.leaves:
                yield from leaf
            return
        at = max(0, bisect_right(self.leaves, first, key=_first) - 1)
        for index in range(at, len(self.leaves)):
            leaf = self.leaves[index]
            yield from leaf[bisect_left(leaf, first, key=_key) :] if index == at else leaf

    def keys(self, first: Any) -> Iterator[K]:
        """In order, from this key on."""
        return (key for key, _ in self.items(first))

    def set(self, key: Any, value: V) -> "SortedMap[K, V]":
        leaves = self.leaves
        if not leaves:
            return SortedMap((((key, value),),))
        at = max(0, bisect_right(leaves, key, key=_first) - 1)
        leaf = leaves[at]
        place = bisect_left(leaf, key, key=_key)
        if place < len(leaf) and leaf[place][0] == key:
            return self._with(at, (*leaf[:place], (key, value), *leaf[place + 1 :]))
        if len(leaf) < _FULL:
            return self._with(at, (*leaf[:place], (key, value), *leaf[place:]))
        if place == _FULL:
            return self._with(at, leaf, ((key, value),))
        leaf = (*leaf[:place], (key, value), *leaf[place:])
        return self._with(at, leaf[: _FULL // 2], leaf[_FULL // 2 :])

    def without(self, key: Any) -> "SortedMap[K, V]":
        """The same if it is not there."""
        at = bisect_right(self.leaves, key, key=_first) - 1
        leaf = self.leaves[at] if at >= 0 else ()
        place = bisect_left(leaf, key, key=_key)
        if place == len(leaf) or leaf[place][0] != key:
            return self
        left = (*leaf[:place], *leaf[place + 1 :])
        after = self.leaves[at + 1] if at + 1 < len(self.leaves) else ()
        if after and len(left) + len(after) <= _FULL // 2:  # or a map that shrinks would keep all its leaves
            return SortedMap((*self.leaves[:at], left + after, *self.leaves[at + 2 :]))
        return self._with(at, left) if left else self._with(at)

    def differences(self, other: "SortedMap[K, V]") -> list[tuple[K, V]]:
        """The items that only one of the two has, in order. Leaves that they share are not looked at."""
        mine, theirs = self.leaves, other.leaves
        if mine is theirs:
            return []
        short = min(len(mine), len(theirs))
        first = next(
            (at for at, (one, two) in enumerate(zip(mine, theirs, strict=False)) if one is not two), short
        )
        backwards = enumerate(zip(reversed(mine), reversed(theirs), strict=False))
        last = min(short - first, next((at for at, (one, two) in backwards if one is not two), short))
        some, others = (
            {item for leaf in leaves[first : len(leaves) - last] for item in leaf}
            for leaves in (mine, theirs)
        )
        return sorted(some ^ others)

    def _with(self, at: int, *leaves: tuple[tuple[K, V], ...]) -> "SortedMap[K, V]":
        return SortedMap((*self.leaves[:at], *leaves, *self.leaves[at + 1 :]))
