"""Spans of a log: (first, last) pairs of seqs, both included. A tuple of them is sorted, disjoint and not adjacent."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
Spans: TypeAlias = tuple[Span, ...]


def spans(pairs: Iterable[Span]) -> Spans:
    """All seqs of the pairs, in order and once. Pairs that end before they begin are empty."""
    joined: list[Span] = []
    for first, last in sorted(pair for pair in pairs if pair[0] <= pair[1]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def extended(some: Spans, first: int, last: int) -> Spans:
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
