"""A sorted map that is a value: setting gives a new map and leaves the old one as it was.

It is a tree of three levels. Both maps share everything but one leaf, the branch it is on and the list of branches, so a change
costs nearly the same at any size, and keeping old versions costs little. It goes into a snapshot as it is. Maps that were
made by the same steps are equal values.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, overload

import msgspec

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_FULL = 64  # items of a leaf, and leaves of a branch
_Leaf: TypeAlias = tuple[tuple[K, ...], tuple[V, ...]]
_Branch: TypeAlias = tuple[tuple[K, ...], tuple[_Leaf[K, V], ...]]
_Node: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...]]
"""A leaf, a branch or the root: its keys, and what stands under them: a value, or the node that begins with that key."""


class SortedMap(msgspec.Struct, Generic[K, V], frozen=True, array_like=True, gc=False):
    """No node is empty but the root; in a map that grows at its end all but the last are full."""

    firsts: tuple[K, ...] = ()
    branches: tuple[_Branch[K, V], ...] = ()

    @classmethod
    def of(cls, keys: Sequence[K], values: Sequence[V]) -> "SortedMap[K, V]":
        """Of keys in order. It is equal to one of the same items that grew at its end."""
        leaves = [
            (tuple(keys[at : at + _FULL]), tuple(values[at : at + _FULL]))
            for at in range(0, len(keys), _FULL)
        ]
        branches = [
            (tuple([leaf[0][0] for leaf in some]), tuple(some))
            for some in (leaves[at : at + _FULL] for at in range(0, len(leaves), _FULL))
        ]
        return cls(tuple([branch[0][0] for branch in branches]), tuple(branches))

    def __len__(self) -> int:
        return sum([len(keys) for _, leaves in self.branches for keys, _ in leaves])

    def __bool__(self) -> bool:
        return bool(self.firsts)

    def __iter__(self) -> Iterator[K]:
        return (key for _, leaves in self.branches for keys, _ in leaves for key in keys)

    def __reversed__(self) -> Iterator[K]:
        backwards = (keys for _, leaves in reversed(self.branches) for keys, _ in reversed(leaves))
        return (key for keys in backwards for key in reversed(keys))

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
        at = bisect_right(self.firsts, key) - 1
        if at < 0:
            return None
        firsts, leaves = self.branches[at]
        keys, values = leaves[bisect_right(firsts, key) - 1]
        index = bisect_right(keys, key) - 1
        return keys[index], values[index]

    def items(self, first: Any = None) -> Iterator[tuple[K, V]]:
        """In order; from this key on."""
        if first is None:
            for _, leaves in self.branches:
                for keys, values in leaves:
                    yield from zip(keys, values, strict=True)
            return
        at = _child(self.firsts, first)
        for firsts, leaves in self.branches[at : at + 1]:
            place = _child(firsts, first)
            for keys, values in leaves[place : place + 1]:
                index = bisect_left(keys, first)
                yield from zip(keys[index:], values[index:], strict=True)
            for keys, values in leaves[place + 1 :]:
                yield from zip(keys, values, strict=True)
        yield from SortedMap(self.firsts[at + 1 :], self.branches[at + 1 :]).items()

    def set(self, key: Any, value: V) -> "SortedMap[K, V]":
        if not self.firsts:
            return SortedMap((key,), (((key,), (((key,), (value,)),)),))
        at = _child(self.firsts, key)
        branch = self.branches[at]
        place = _child(branch[0], key)
        keys, values = branch[1][place]
        index = bisect_left(keys, key)
        if index < len(keys) and keys[index] == key:
            new: list[_Node] = [(keys, (*values[:index], value, *values[index + 1 :]))]
        else:
            leaf = (*keys[:index], key, *keys[index:]), (*values[:index], value, *values[index:])
            new = _split(leaf, index)
        branches = _split(_replace(branch, place, new), place + len(new) - 1)
        return SortedMap(*_replace((self.firsts, self.branches), at, branches))

    def without(self, key: Any) -> "SortedMap[K, V]":
        """The same if it is not there."""
        if not self.firsts:
            return self
        at = _child(self.firsts, key)
        branch = self.branches[at]
        place = _child(branch[0], key)
        keys, values = branch[1][place]
        index = bisect_left(keys, key)
        if index == len(keys) or keys[index] != key:
            return self
        leaf = (*keys[:index], *keys[index + 1 :]), (*values[:index], *values[index + 1 :])
        smaller = _replace_smaller(branch, place, leaf)
        return SortedMap(*_replace_smaller((self.firsts, self.branches), at, smaller))

    def differences(self, other: "SortedMap[K, V]") -> list[tuple[K, V]]:
        """The items that only one of the two has, in order. Nodes that they share are not looked at."""
        mine, theirs = _unshared(self.branches, other.branches)
        mine, theirs = _unshared(
            *([leaf for _, leaves in some for leaf in leaves] for some in (mine, theirs))
        )
        some, others = (
            {item for leaf in leaves for item in zip(*leaf, strict=True)} for leaves in (mine, theirs)
        )
        return sorted(some ^ others)


def _child(firsts: Sequence[Any], key: Any) -> int:
    """The index of the node that the key belongs to."""
    return max(0, bisect_right(firsts, key) - 1)


def _replace(node: _Node, at: int, new: Sequence[_Node], count: int = 1) -> _Node:
    """With these in the place of so many children."""
    firsts, children = node
    after = at + count
    if count == len(new) == 1 and new[0][0][0] is firsts[at]:
        return firsts, (*children[:at], new[0], *children[after:])
    keys = [child[0][0] for child in new]
    return (*firsts[:at], *keys, *firsts[after:]), (*children[:at], *new, *children[after:])


def _replace_smaller(node: _Node, at: int, child: _Node) -> _Node:
    """With this in the place of a larger child; joined to the next, or a map that shrinks would keep all its nodes."""
    children = node[1]
    if at + 1 < len(children):
        keys, under = children[at + 1]
        if len(child[0]) + len(keys) <= _FULL // 2:
            return _replace(node, at, [((*child[0], *keys), (*child[1], *under))], 2)
    return _replace(node, at, [child] if child[0] else [])


def _split(node: _Node, last: int) -> list[_Node]:
    """In two if it is too large. ``last``: the index of what came last; what grows at its end stays full."""
    keys, under = node
    if len(keys) <= _FULL:
        return [node]
    at = len(keys) - 1 if last == len(keys) - 1 else len(keys) // 2
    return [(keys[:at], under[:at]), (keys[at:], under[at:])]


def _unshared(some: Sequence[Any], others: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Both without the same nodes at their beginnings and at their ends."""
    first, last, short = 0, 0, min(len(some), len(others))
    while first < short and some[first] is others[first]:
        first += 1
    while last < short - first and some[-1 - last] is others[-1 - last]:
        last += 1
    return some[first : len(some) - last], others[first : len(others) - last]
