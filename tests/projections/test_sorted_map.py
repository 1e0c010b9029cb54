"""The sorted map against a dict, step by step; every version that was ever made stays what it was."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.projections import sorted_map
from chatfold.projections.packing import Unpack, pack
from chatfold.projections.sorted_map import SortedMap

_keys = st.one_of(st.integers(0, 30), st.integers(0, 400))
_steps = st.lists(st.tuples(st.sampled_from(("set", "set", "without")), _keys, st.integers()), max_size=80)
_load = Unpack(SortedMap[int, int])


@pytest.fixture(autouse=True, params=[2, 3, 8, 64])
def small_leaves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few items make many leaves."""
    monkeypatch.setattr(sorted_map, "_FULL", request.param)


def leaves(some: SortedMap[int, int]) -> list[tuple[int, ...]]:
    return [keys for _, leaves in some.branches for keys, _ in leaves]


def changed(some: Any, step: str, key: int, value: int) -> Any:
    return some.set(key, value) if step == "set" else some.without(key)


@given(_steps, _keys)
def test_it_is_a_dict_that_is_sorted(steps: list[tuple[str, int, int]], asked: int) -> None:
    some: SortedMap[int, int] = SortedMap()
    plain: dict[int, int] = {}
    versions = [(some, dict(plain))]
    for step, key, value in steps:
        some = changed(some, step, key, value)
        plain.pop(key, None)
        if step == "set":
            plain[key] = value
        versions.append((some, dict(plain)))
    for version, model in versions:
        items = sorted(model.items())
        assert list(version.items()) == items
        assert (list(version), list(reversed(version))) == ([*sorted(model)], [*sorted(model)][::-1])
        assert (len(version), bool(version)) == (len(model), bool(model))
        assert (asked in version, version.get(asked), version.get(asked, -1)) == (
            asked in model,
            model.get(asked),
            model.get(asked, -1),
        )
        assert version.floor(asked) == max((item for item in items if item[0] <= asked), default=None)
        assert list(version.items(asked)) == [item for item in items if item[0] >= asked]


@given(st.sets(_keys))
def test_one_of_items_in_order_is_equal_to_one_that_grew(keys: set[int]) -> None:
    grown: SortedMap[int, int] = SortedMap()
    for key in sorted(keys):
        grown = grown.set(key, -key)
    assert SortedMap.of(sorted(keys), [-key for key in sorted(keys)]) == grown


@given(_steps)
def test_no_node_is_empty_or_too_large_or_under_a_wrong_key_and_the_same_steps_make_equal_maps(
    steps: list[tuple[str, int, int]],
) -> None:
    one: SortedMap[int, int] = SortedMap()
    other: SortedMap[int, int] = SortedMap()
    for step in steps:
        one = changed(one, *step)
        other = _load(pack(changed(other, *step)))
        assert all(0 < len(leaf) <= sorted_map._FULL for leaf in leaves(one))
        assert all(0 < len(firsts) <= sorted_map._FULL for firsts, _ in one.branches)
        assert one.firsts == tuple(firsts[0] for firsts, _ in one.branches)
        for firsts, under in one.branches:
            assert firsts == tuple(keys[0] for keys, _ in under)
    assert one == other


@given(_steps, _steps, _steps)
def test_differences_are_what_only_one_of_two_has(
    common: list[tuple[str, int, int]], mine: list[tuple[str, int, int]], theirs: list[tuple[str, int, int]]
) -> None:
    base: SortedMap[int, int] = SortedMap()
    for step in common:
        base = changed(base, *step)
    one = other = base
    for step in mine:
        one = changed(one, *step)
    for step in theirs:
        other = changed(other, *step)
    wanted = sorted({*one.items()} ^ {*other.items()})
    assert one.differences(other) == other.differences(one) == wanted
    assert one.differences(one) == []


def test_a_key_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        SortedMap[int, int]()[1]
    with pytest.raises(KeyError):
        SortedMap[int, int]().set(1, 2)[3]


def test_what_grows_at_its_end_has_full_leaves_and_shares_them() -> None:
    old: SortedMap[int, int] = SortedMap()
    for key in range(1000):
        old = old.set(key, key)
    new = old.set(1000, 0)
    assert all(len(leaf) == sorted_map._FULL for leaf in leaves(new)[:-1])
    assert all(len(firsts) == sorted_map._FULL for firsts, _ in new.branches[:-1])
    assert all(mine is theirs for mine, theirs in zip(leaves(new)[:-2], leaves(old), strict=False))


def test_what_shrinks_does_not_keep_its_leaves() -> None:
    some: SortedMap[int, int] = SortedMap()
    for key in range(1000):
        some = some.set(key, key)
    for key in range(1000):
        some = some.without(key) if key % 100 else some
    assert len(some) == 10
    assert len(leaves(some)) <= 10
