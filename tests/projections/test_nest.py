"""Compactions that others have swallowed, against a dict; from a snapshot they are unpacked when somebody looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.projections import contexts
from chatfold.projections.contexts import Contexts, window
from chatfold.projections.nest import Nest
from chatfold.projections.packing import pack
from tests.support.histories import assistant, compacted, entries, user

ROWS = st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(5, 9), st.integers(10, 12))


@given(st.lists(st.one_of(ROWS, st.integers(1, 9)), max_size=20), st.data())
def test_a_nest_is_what_a_dict_of_its_rows_says(
    steps: list[tuple[int, int, int, int] | int], data: st.DataObject
) -> None:
    nest, rows = Nest(), dict[int, tuple[int, int, int]]()
    for step in steps:
        if data.draw(st.booleans()):
            nest = Nest(nest.dump())
        before = nest.dump()
        if isinstance(step, tuple):
            seq, first, last, by = step
            changed = (nest.without(seq) if seq in rows else nest).add(seq, first, last, by)
            rows[seq] = (first, last, by)
        elif step in rows:
            changed = nest.without(step)
            del rows[step]
        else:
            continue
        assert nest.dump() == before
        nest = changed
        assert list(nest.items()) == sorted(rows.items())
        assert list(nest.items(5)) == [row for row in sorted(rows.items()) if row[0] >= 5]
        assert all((seq in nest) == (seq in rows) for seq in range(11))
        for by in (10, 11, 12):
            assert nest.swallowed_by(by) == sorted(
                (f, seq, e) for seq, (f, e, one) in rows.items() if one == by
            )
        assert nest == Nest(nest.dump())
    assert nest == grown([(seq, *row) for seq, row in sorted(rows.items())])


def grown(rows: list[tuple[int, int, int, int]]) -> Nest:
    nest = Nest()
    for row in rows:
        nest = nest.add(*row)
    return nest


def nested() -> Contexts:
    state = contexts.start()
    talk = (user(), assistant(), compacted(1, 2), user(), compacted(1, 4), user(), compacted(1, 6), user())
    for entry in entries(talk):
        state = contexts(state, entry)
    return state


def test_who_only_looks_at_the_window_unpacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    state = contexts.load(contexts.dump(nested()))
    monkeypatch.setattr("chatfold.projections.nest._numbers_of", None)
    assert window(state, 8) == window(nested(), 8)
    assert state == nested()
    assert contexts.dump(state) == contexts.dump(nested())
    with pytest.raises(TypeError):
        assert 5 in state.active.nest


def test_what_is_no_bytes_is_no_nest() -> None:
    state = nested()
    data = contexts.dump(state)
    with pytest.raises(ValueError, match="Nest"):
        contexts.load(data.replace(pack(state.active.nest.dump()), pack(7)))
