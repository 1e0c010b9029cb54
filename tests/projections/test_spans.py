"""Spans against plain sets of ints."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chatfold.projections.spans import Span, Spans, common, extended, includes, minus, spans

pairs = st.lists(st.tuples(st.integers(-5, 40), st.integers(-5, 40)), max_size=8)
some_spans = pairs.map(spans)


def members(some: Spans | list[Span]) -> set[int]:
    return {seq for first, last in some for seq in range(first, last + 1)}


def in_order(some: Spans) -> bool:
    """Sorted, disjoint, not adjacent, none of them empty: so that equal sets are equal spans."""
    return all(first <= last for first, last in some) and all(
        one[1] + 1 < next_[0] for one, next_ in pairwise(some)
    )


@given(pairs)
def test_spans_hold_the_seqs_of_the_pairs_in_order_and_once(some: list[Span]) -> None:
    assert members(spans(some)) == members(some)
    assert in_order(spans(some))


@given(pairs)
def test_spans_of_the_same_seqs_are_equal_however_they_were_given(some: list[Span]) -> None:
    one_by_one = [(seq, seq) for seq in sorted(members(some), reverse=True)]
    assert spans(some) == spans(reversed(some)) == spans(one_by_one) == spans(spans(some))


@given(some_spans, st.integers(1, 4), st.integers(-3, 10))
def test_spans_extended_by_one_after_them_hold_both(some: Spans, gap: int, length: int) -> None:
    first = (some[-1][1] if some else 0) + gap
    longer = extended(some, first, first + length)
    assert members(longer) == members(some) | set(range(first, first + length + 1))
    assert in_order(longer)


@given(some_spans)
def test_spans_extended_by_nothing_are_the_same_ones(some: Spans) -> None:
    assert extended(some, 9, 8) is some


@given(some_spans, some_spans)
def test_minus_is_the_difference_of_the_sets(some: Spans, others: Spans) -> None:
    assert members(minus(some, others)) == members(some) - members(others)
    assert in_order(minus(some, others))


@given(some_spans, some_spans)
def test_common_is_the_intersection_of_the_sets(some: Spans, others: Spans) -> None:
    assert members(common(some, others)) == members(some) & members(others)
    assert in_order(common(some, others))
    assert common(some, others) == common(others, some)


@given(some_spans)
def test_includes_says_what_the_set_says(some: Spans) -> None:
    assert {seq for seq in range(-9, 45) if includes(some, seq)} == members(some)
