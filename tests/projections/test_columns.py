"""Rows and Seqs against plain lists, across the borders of their pieces and blocks."""

from itertools import accumulate, cycle, islice

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.projections.columns import Rows, Seqs

PIECES = (255, 256, 257, 511, 512, 513)
BLOCKS = (1023, 1024, 1025, 2047, 2048, 2049)
GAPS = st.integers(1, 5) | st.sampled_from((127, 128, 129, 16383, 16384, 2**31, 2**40))


def rows_of(contents: list[bytes]) -> Rows:
    rows = Rows()
    for row in contents:
        rows = rows.append(row)
    return rows


def seqs_of(contents: list[int]) -> Seqs:
    seqs = Seqs()
    for seq in contents:
        seqs = seqs.append(seq)
    return seqs


@st.composite
def row_lists(draw: st.DrawFn) -> list[bytes]:
    size = draw(st.integers(0, 12) | st.sampled_from(PIECES))
    words = draw(st.lists(st.binary(max_size=3), min_size=1, max_size=4))
    return [b"%d%b" % row for row in islice(enumerate(cycle(words)), size)]


@st.composite
def seq_lists(draw: st.DrawFn) -> list[int]:
    size = draw(st.integers(0, 12) | st.sampled_from(BLOCKS))
    gaps = draw(st.lists(GAPS, min_size=1, max_size=6))
    return list(accumulate(islice(cycle(gaps), size)))


# --- rows ------------------------------------------------------------------------------------------------


@given(row_lists())
def test_rows_are_what_was_appended_in_that_order(contents: list[bytes]) -> None:
    rows = rows_of(contents)
    assert list(rows) == contents
    assert len(rows) == len(contents)
    assert bool(rows) == bool(contents)


@given(row_lists())
def test_appending_a_row_leaves_the_old_rows_as_they_were(contents: list[bytes]) -> None:
    old = rows_of(contents)
    one, other = old.append(b"one"), old.append(b"other")
    assert list(old) == contents
    assert list(one) == [*contents, b"one"]
    assert list(other) == [*contents, b"other"]


@given(row_lists())
def test_rows_come_back_from_a_snapshot_as_they_were_and_go_on(contents: list[bytes]) -> None:
    rows = rows_of(contents)
    back = msgspec.msgpack.decode(msgspec.msgpack.encode(rows), type=Rows)
    assert back == rows
    assert back.append(b"next") == rows.append(b"next")
    assert list(back) == contents


@given(row_lists(), st.data())
def test_rows_are_equal_if_and_only_if_their_contents_are(contents: list[bytes], data: st.DataObject) -> None:
    other = list(contents)
    differs: bool = data.draw(st.booleans(), label="differs")
    if other and differs:
        other[data.draw(st.integers(0, len(other) - 1), label="where")] = b"else"
    assert (rows_of(contents) == rows_of(other)) == (contents == other)
    assert rows_of(contents) != rows_of([*contents, b"0"])


@pytest.mark.parametrize("size", PIECES)
def test_an_appended_row_costs_a_piece_and_never_the_whole(size: int) -> None:
    old = rows_of([b"row"] * size)
    new = old.append(b"row")
    assert len(new.tail) < 256
    assert all(mine is theirs for mine, theirs in zip(new.full, old.full, strict=False))
    assert new.full is old.full or len(new.full) == len(old.full) + 1


# --- seqs ------------------------------------------------------------------------------------------------


@given(seq_lists())
def test_seqs_are_what_was_appended_in_that_order(contents: list[int]) -> None:
    seqs = seqs_of(contents)
    assert [seqs[index] for index in range(len(seqs))] == contents
    assert len(seqs) == len(contents)
    assert seqs.last == (contents[-1] if contents else 0)


@given(seq_lists())
def test_an_index_outside_is_an_error_on_either_side(contents: list[int]) -> None:
    seqs = seqs_of(contents)
    for index in (-1, len(contents), len(contents) + 1024):
        with pytest.raises(IndexError):
            seqs[index]


@given(seq_lists(), st.data())
def test_seqs_count_what_lies_in_a_range_as_a_list_would(contents: list[int], data: st.DataObject) -> None:
    seqs = seqs_of(contents)
    near = st.sampled_from([0, *contents]).flatmap(lambda seq: st.integers(seq - 1, seq + 1))
    for _ in range(10):
        first, last = data.draw(near), data.draw(near | st.integers(-3, seqs.last + 3))
        assert seqs.upto(first) == sum(seq <= first for seq in contents)
        assert seqs.within(first, last) == sum(first <= seq <= last for seq in contents)


@given(seq_lists(), GAPS, GAPS)
def test_appending_a_seq_leaves_the_old_seqs_as_they_were(contents: list[int], gap: int, more: int) -> None:
    old = seqs_of(contents)
    one, other = old.append(old.last + gap), old.append(old.last + gap + more)
    assert old == seqs_of(contents)
    assert one == seqs_of([*contents, old.last + gap])
    assert other == seqs_of([*contents, old.last + gap + more])
    assert [old[index] for index in range(len(old))] == contents


@given(seq_lists(), GAPS)
def test_seqs_come_back_from_a_snapshot_as_they_were_and_go_on(contents: list[int], gap: int) -> None:
    seqs = seqs_of(contents)
    back = msgspec.msgpack.decode(msgspec.msgpack.encode(seqs), type=Seqs)
    assert back == seqs
    assert back.append(seqs.last + gap) == seqs.append(seqs.last + gap)


@given(seq_lists(), st.data())
def test_seqs_are_equal_if_and_only_if_their_contents_are(contents: list[int], data: st.DataObject) -> None:
    without = set(contents)
    differs: bool = data.draw(st.booleans(), label="differs")
    if contents and differs:
        without.remove(data.draw(st.sampled_from(contents), label="left out"))
    assert (seqs_of(contents) == seqs_of(sorted(without))) == (set(contents) == without)


@pytest.mark.parametrize("seqs", [[5, 5], [5, 4], [0], [-1]])
def test_a_seq_that_is_not_greater_than_the_last_is_refused(seqs: list[int]) -> None:
    with pytest.raises(AssertionError):
        seqs_of(seqs)


@pytest.mark.parametrize("size", BLOCKS)
def test_an_appended_seq_costs_a_block_and_never_the_whole(size: int) -> None:
    old = seqs_of(list(range(1, size + 1)))
    new = old.append(size + 1)
    assert len(new.tail) < 1024
    assert all(mine is theirs for mine, theirs in zip(new.full, old.full, strict=False))
    assert new.full is old.full or len(new.full) == len(old.full) + 1


def test_neighbouring_seqs_take_a_byte_each() -> None:
    assert len(msgspec.msgpack.encode(seqs_of(list(range(1, 100_001, 2))))) < 50_000 * 1.01
