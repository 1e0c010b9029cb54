"""Spans against plain sets of ints."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from chatfold.projections.spans import (
    Span,
    SpanMap,
    Spans,
    add,
    common,
    extend,
    has,
    includes,
    minus,
    remove,
    spans,
    within,
)

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
    longer = extend(some, first, first + length)
    assert members(longer) == members(some) | set(range(first, first + length + 1))
    assert in_order(longer)


@given(some_spans)
def test_spans_extended_by_nothing_are_the_same_ones(some: Spans) -> None:
    assert extend(some, 9, 8) is some


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


# --- as a map ----------------------------------------------------------------------------------------------

_changes = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(-1, 9)), max_size=12)


@given(_changes, st.integers(0, 45), st.integers(0, 45))
@example([(True, 0, 1), (False, 1, -1)], 0, 0)
def test_a_map_of_spans_is_the_spans_of_its_seqs(
    changes: list[tuple[bool, int, int]], low: int, high: int
) -> None:
    some, plain = SpanMap(), set[int]()
    for adds, first, length in changes:
        last = first + length
        some = (add if adds else remove)(some, first, last)
        plain = plain | {*range(first, last + 1)} if adds else plain - {*range(first, last + 1)}
    assert tuple(some.items()) == spans((seq, seq) for seq in plain)
    assert members(tuple(within(some, low, high))) == {seq for seq in plain if low <= seq <= high}
    assert {seq for seq in range(60) if has(some, seq)} == plain


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=12))
def test_spans_that_only_touch_can_be_kept_apart(pairs: list[tuple[int, int]]) -> None:
    some = SpanMap()
    for first, length in pairs:
        some = add(some, first, first + length, touching=False)
    found = list(some.items())
    assert members(tuple(found)) == {
        seq for first, length in pairs for seq in range(first, first + length + 1)
    }
    assert all(one[1] < other[0] for one, other in pairwise(found))
    for first, last in found:  # every span is held together by ranges that overlap
        borders = range(first + 1, last + 1)
        assert all(any(one < at <= one + length for one, length in pairs) for at in borders)
