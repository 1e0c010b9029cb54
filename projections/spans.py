"""Spans of a log: (first, last) pairs of seqs, both included. A tuple of them is sorted, disjoint and not adjacent.

A map of them, first -> last, is what a state keeps: a change costs the same at any length.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from chatfold.projections.sorted_map import SortedMap

Span: TypeAlias = tuple[int, int]
Spans: TypeAlias = tuple[Span, ...]
SpanMap: TypeAlias = SortedMap[int, int]


def spans(pairs: Iterable[Span]) -> Spans:
    """All seqs of the pairs, in order and once. Pairs that end before they begin are empty."""
    joined: list[Span] = []
    for first, last in sorted(pair for pair in pairs if pair[0] <= pair[1]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def extend(some: Spans, first: int, last: int) -> Spans:
    """The same and one more that comes after all of them: the usual case, at the cost of a copy."""
    if first > last:
        return some
    if some and some[-1][1] + 1 >= first:
        return (
            (*some[:-1], (some[-1][0], max(last, some[-1][1])))
            if some[-1][0] <= first
            else spans((*some, (first, last)))
        )
    return (*some, (first, last))


def minus(some: Spans, others: Spans) -> Spans:
    """The seqs of ``some`` that are in none of ``others``: one walk along both."""
    kept: list[Span] = []
    at = 0
    for first, last in some:
        while at < len(others) and others[at][1] < first:
            at += 1
        while at < len(others) and others[at][0] <= last:
            low, high = others[at]
            if first < low:
                kept.append((first, low - 1))
            first = high + 1  # noqa: PLW2901 (what is left of the span)
            if high > last:  # it may reach into the next span, too
                break
            at += 1
        if first <= last:
            kept.append((first, last))
    return tuple(kept)


def common(some: Spans, others: Spans) -> Spans:
    """The seqs that are in both."""
    return minus(some, minus(some, others))


def includes(some: Spans, seq: int) -> bool:
    index = bisect_right(some, (seq, 1 << 62)) - 1
    return index >= 0 and seq <= some[index][1]


# --- as a map --------------------------------------------------------------------------------------------


def add(some: SpanMap, first: int, last: int, *, touching: bool = True) -> SpanMap:
    """With these seqs, if there are any. ``touching``: a span is joined to one that it only touches, too."""
    if first > last:
        return some
    begin, end, gap = first, last, int(touching)
    before = some.floor(first)
    if before is not None and before[1] + gap >= first:
        begin, end = before[0], max(last, before[1])
    for one, other in some.items(first):
        if one > end + gap:
            break
        end = max(end, other)
        if one != begin:
            some = some.without(one)
    return some.set(begin, end)


def remove(some: SpanMap, first: int, last: int) -> SpanMap:
    """Without these seqs, if there are any."""
    if first > last:
        return some
    for begin, end in list(within(some, first, last)):
        low, high = some.floor(begin) or (begin, end)
        some = some.set(low, begin - 1) if low < begin else some.without(low)
        some = some.set(end + 1, high) if end < high else some
    return some


def within(some: SpanMap, first: int, last: int) -> Iterator[Span]:
    """Its seqs from ``first`` to ``last``, as spans."""
    before = some.floor(first)
    for begin, end in some.items(before[0] if before else first):
        if begin > last:
            return
        if end >= first:
            yield max(begin, first), min(end, last)


def has(some: SpanMap, seq: int) -> bool:
    before = some.floor(seq)
    return before is not None and seq <= before[1]
