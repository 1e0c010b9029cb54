"""Folding: one way to a state, whatever the steps; and a state that was dumped goes on as if it had not been."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    Entry,
    Event,
    Head,
    MessageAdded,
    ModelCalled,
    Noted,
    Rewound,
    RunStarted,
    SkillActivated,
    Text,
    Unknown,
)
from chatfold.projections import (
    STANDARD,
    NeedsEarlier,
    OutOfOrder,
    Projection,
    View,
    contexts,
    executions,
    fold,
    projection,
    skills,
    start,
    usage,
)
from chatfold.projections.text import text_of
from chatfold.testing.strategies import VOCABULARY, events, events_of, same
from tests.support.histories import entries, talks, user

# --- projections as an embedder writes them -----------------------------------------------------------------


class Tally(msgspec.Struct, frozen=True):
    messages: int = 0
    kinds: tuple[str, ...] = ()
    latest: str | None = None


@projection(Tally, version=3)
def tally(state: Tally, entry: Entry) -> Tally:
    kind = type(entry.event).__name__
    if not isinstance(entry.event, MessageAdded):
        return msgspec.structs.replace(state, kinds=(*state.kinds, kind))
    return Tally(state.messages + 1, state.kinds, text_of(entry.event.parts))


@projection(dict[str, int])
def plain(state: dict[str, int], entry: Entry) -> dict[str, int]:
    kind = type(entry.event).__name__
    return {**state, kind: state.get(kind, 0) + entry.seq}


@projection(set[str])
def words(state: set[str], entry: Entry) -> set[str]:
    return state | set(text_of(entry.event.parts).split()) if isinstance(entry.event, MessageAdded) else state


class Kept(msgspec.Struct, frozen=True):
    data: tuple[Any, ...] = ()
    by_name: dict[str, Any] = {}
    product: int = 1
    ratio: float = math.nan


@projection(Kept)
def kept(state: Kept, entry: Entry) -> Kept:
    """Holds whatever a note may hold, and a number that soon has more than 64 bits."""
    match entry.event:
        case Noted(name=name, data=data):
            by_name = {**state.by_name, name: data}
            return Kept((*state.data, data), by_name, state.product * (entry.seq + 2**20), state.product / 3)
    return state


OURS: tuple[Projection[Any], ...] = (tally, plain, words, kept)
ALL = (*STANDARD, *OURS)
each = pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)

_notes: st.SearchStrategy[Event] = events_of(Noted)
histories = st.one_of(talks(), st.lists(events() | _notes, max_size=12)).map(entries)


def folded(history: Iterable[Entry], *chosen: Projection[Any]) -> View:
    return fold(start(chosen or ALL), history)


def folded_on(view: View, entries: Sequence[Entry], history: Sequence[Entry]) -> View:
    """The same from a view that need not remember: what it lacks is folded from the whole history."""
    while True:
        try:
            return fold(view, entries)
        except NeedsEarlier as needed:
            earlier = folded_on(start(view.projections), history[: needed.to], history)
            view = needed.view.with_point(earlier)
            entries = history[view.seq : entries[-1].seq]


def alike(one: View, other: View) -> bool:
    """The same seq and link, and states of the same types and values all the way down."""
    return one.head == other.head and all(map(alike_states, one.states, other.states))


def alike_states(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(
        other, dict
    ):  # in any order: what the order says is tested where it does
        return set(one) == set(other) and all(alike_states(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike_states, one, other))
    if isinstance(one, msgspec.Struct):
        fields = one.__struct_fields__
        return type(one) is type(other) and all(
            alike_states(getattr(one, n), getattr(other, n)) for n in fields
        )
    return same(one, other)


# --- the snapshot law --------------------------------------------------------------------------------------


@each
@given(history=histories, data=st.data())
def test_a_state_dumped_anywhere_loaded_and_folded_on_is_the_whole_fold(
    one: Projection[Any], history: list[Entry], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)), label="cut")
    before = folded(history[:cut], one)
    loaded = View((one,), (one.load(one.dump(before[one])),), before.head)
    assert alike(loaded, before)
    on = folded_on(loaded, history[cut:], history)
    assert alike(on, folded(history, one))
    assert on.fingerprint == folded(history, one).fingerprint


@given(st.lists(events() | _notes, max_size=10).map(entries))
def test_a_state_dumped_after_every_entry_is_the_whole_fold(history: list[Entry]) -> None:
    view = start(ALL)
    for entry in history:
        view = view.then(entry)
        states = tuple(p.load(p.dump(state)) for p, state in zip(ALL, view.states, strict=True))
        view = View(ALL, states, view.head, past=view.past)
    assert alike(view, folded(history))


@pytest.mark.parametrize(
    ("one", "event"),
    [(usage, ModelCalled("m", "0")), (executions, RunStarted())],
    ids=("usage", "executions"),
)
def test_the_run_that_is_forgotten_first_is_the_same_after_a_snapshot(
    one: Projection[Any], event: Event
) -> None:
    runs = [f"run-{number:03}" for number in range(99, 0, -1)]
    history = entries([event] * len(runs), runs=runs)
    whole = folded(history, one)
    for cut in range(0, len(runs), 7):
        before = folded(history[:cut], one)
        loaded = View((one,), (one.load(one.dump(before[one])),), before.head)
        assert alike(fold(loaded, history[cut:]), whole)


def test_skills_are_in_the_order_they_came_into_use_also_after_a_snapshot() -> None:
    state = folded(entries([SkillActivated("z"), SkillActivated("b"), SkillActivated("m")]), skills)[skills]
    assert list(state.active) == ["z", "b", "m"]
    assert list(skills.load(skills.dump(state)).active) == ["z", "b", "m"]


@projection(dict[int, str])
def by_seq(state: dict[int, str], entry: Entry) -> dict[int, str]:
    return {**state, entry.seq: text_of(entry.event.parts) if isinstance(entry.event, MessageAdded) else ""}


@pytest.mark.parametrize("text", ["plain", "half a pair \ud800"])
def test_a_state_may_be_a_dict_with_keys_of_any_kind_that_msgspec_takes(text: str) -> None:
    view = folded(entries([user(text), user()]), by_seq)
    assert by_seq.load(by_seq.dump(view[by_seq])) == view[by_seq] == {1: text, 2: "and now?"}
    assert view.fingerprint == folded(entries([user(text), user()], store="elsewhere"), by_seq).fingerprint


@pytest.mark.parametrize(
    "value",
    ["\ud800", "\x7fnan", math.nan, -math.inf, -0.0, 2**64, -(2**63) - 1, b"\xff", {"\udfff": [None]}],
)
def test_a_state_holds_what_json_and_msgpack_do_not(value: Any) -> None:
    state = folded(entries([Noted("odd", value), Noted("odder", [value, 2**65, "\ud800", 1.0])]), kept)[kept]
    assert alike_states(kept.load(kept.dump(state)), state)


@each
@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\xc1{", b"\xff", b"\xc1[1,2]", b"\x93\x01\x02\x03", b"\xc1\xff"]
)
def test_loading_what_is_no_state_is_a_value_error(one: Projection[Any], data: bytes) -> None:
    with pytest.raises(ValueError):
        one.load(data)


def test_loading_what_is_nested_without_end_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        contexts.load(b"\xc1" + b"[" * 100_000)


@given(histories, st.integers(0), st.binary(max_size=3), st.integers(0, 5))
def test_loading_a_damaged_state_is_a_value_error_or_a_state(
    history: list[Entry], at: int, junk: bytes, size: int
) -> None:
    view = folded(history)
    for one, state in zip(ALL, view.states, strict=True):
        data = one.dump(state)
        where = at % len(data)
        with suppress(ValueError):
            one.load(data[:where] + junk + data[where + size :])


# --- one way to a state ------------------------------------------------------------------------------------


@given(histories, st.data())
def test_folding_one_by_one_or_in_any_pieces_is_folding_at_once(
    history: list[Entry], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(history)), max_size=4), label="cuts")
    one_by_one = pieces = start(ALL)
    for entry in history:
        one_by_one = one_by_one.then(entry)
    for first, last in pairwise([0, *sorted(cuts), len(history)]):
        pieces = fold(pieces, history[first:last])
    at_once = folded(iter(history))
    assert alike(one_by_one, at_once)
    assert alike(pieces, at_once)


@given(histories, st.data())
def test_a_view_that_was_folded_on_is_what_it_was(history: list[Entry], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(history)), label="cut")
    view = folded(history[:cut])
    before, states = view.fingerprint, list(view.states)
    fold(view, history[cut:])
    assert view.fingerprint == before
    assert all(now is then for now, then in zip(view.states, states, strict=True))
    assert view.seq == cut


def test_folding_nothing_is_the_view_itself_in_value() -> None:
    view = folded(entries([user()]))
    assert fold(view, ()) == view


def test_a_view_says_where_it_is() -> None:
    history = entries([user(), user("again")])
    view = folded(history)
    assert (view.seq, view.head) == (2, Head(2, history[1].sum))
    assert (start(ALL).seq, start(ALL).head) == (0, Head())


def test_after_an_erased_entry_the_chain_goes_on_with_what_stood_there() -> None:
    history = entries([user("a secret"), user()])
    erased = msgspec.structs.replace(history[0], event=user("[redacted]"), was=history[0].sum, sum="f" * 16)
    assert folded([erased, history[1]]).head == folded(history).head


def test_projections_see_every_entry_once_and_in_order() -> None:
    seen: list[int] = []

    @projection(Tally)
    def watching(state: Tally, entry: Entry) -> Tally:
        seen.append(entry.seq)
        return state

    folded(entries([user()] * 5), watching)
    assert seen == [1, 2, 3, 4, 5]


# --- going back --------------------------------------------------------------------------------------------


@projection(Tally, rewinds=True)
def way(state: Tally, entry: Entry) -> Tally:
    """The entries that led here: those that were rewound are not among them."""
    return Tally(state.messages + 1, (*state.kinds, str(entry.seq)))


class Both(msgspec.Struct, frozen=True):
    way: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()


def whole_stays(then: Both, now: Both) -> Both:
    return Both(then.way, now.whole)


@projection(Both, rewinds=whole_stays)
def both(state: Both, entry: Entry) -> Both:
    return Both((*state.way, entry.seq), (*state.whole, entry.seq))


def remembered(history: list[Entry], *chosen: Projection[Any]) -> list[tuple[Any, ...]]:
    """The states after each entry, from those after each entry before it."""
    versions = [tuple(one.start() for one in chosen)]
    for entry in history:
        states, event = versions[-1], entry.event
        if isinstance(event, Rewound) and 0 <= event.to < entry.seq:
            states = tuple(
                one.resume(then, now) if one.rewinds else now
                for one, then, now in zip(chosen, versions[event.to], states, strict=True)
            )
        sees = (not one.on or type(event) in one.on for one in chosen)
        versions.append(
            tuple(one(s, entry) if looks else s for one, s, looks in zip(chosen, states, sees, strict=True))
        )
    return versions


_backs = st.one_of(st.just(user()), st.builds(Rewound, st.integers(-1, 20)))
_rewound = st.one_of(talks(), st.lists(_backs, max_size=20), st.lists(events(), max_size=12)).map(entries)


@given(_rewound, st.sampled_from((0, 1, 2, 5, 10, 256)))
def test_going_back_takes_the_states_of_then_however_little_a_view_remembers(
    history: list[Entry], memory: int
) -> None:
    chosen = (*STANDARD, way, both, tally)
    view = start(chosen, memory=memory)
    for entry, states in zip(history, remembered(history, *chosen)[1:], strict=True):
        view = folded_on(view, [entry], history)
        assert len(view.past) <= max(memory, 1)
        assert all(map(alike_states, view.states, states))


def test_what_rewinds_is_again_what_it_was_and_what_does_not_goes_on() -> None:
    view = folded(entries([user(), user(), Rewound(1), user()]), way, both, tally)
    assert view[way].kinds == ("1", "3", "4")
    assert view[both] == Both((1, 3, 4), (1, 2, 3, 4))
    assert view[tally].messages == 3


@pytest.mark.parametrize("to", [-1, 3, 4, 10**30])
def test_a_rewind_to_an_entry_that_does_not_lie_before_goes_nowhere(to: int) -> None:
    assert folded(entries([user(), user(), Rewound(to)]), way)[way].kinds == ("1", "2", "3")


def test_what_a_view_does_not_remember_it_asks_for_and_nothing_is_lost() -> None:
    history = entries([user(), user(), user(), Rewound(1), user()])
    view = fold(start((way,), memory=1), history[:3])
    with pytest.raises(NeedsEarlier) as needed:
        fold(view, history[3:])
    assert (needed.value.to, needed.value.view.seq) == (1, 3)
    again = needed.value.view.with_point(folded(history[:1], way))
    assert fold(again, history[3:])[way].kinds == ("1", "4", "5")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 256])
def test_a_view_remembers_nearly_as_many_versions_as_it_may(size: int) -> None:
    view = start((way,), memory=size)
    history = entries([user()] * 600)
    for entry in history:
        view = view.then(entry)
        assert min(entry.seq, size - math.isqrt(size)) <= len(view.past) <= max(size, 1)
    at_once = fold(start((way,), memory=size), history)
    assert size - math.isqrt(size) <= len(at_once.past) <= max(size, 1)


def test_what_a_view_was_given_it_can_go_back_to_again() -> None:
    history = entries([user(), user(), user(), Rewound(1), user(), Rewound(1)])
    view = fold(start((way,), memory=1), history[:3]).with_point(folded(history[:1], way))
    assert fold(view, history[3:])[way].kinds == ("1", "6")
    assert fold(fold(view, history[3:5]), history[5:])[way].kinds == ("1", "6")


def test_what_a_view_remembers_is_no_part_of_its_value() -> None:
    history = entries([user()] * 5)
    assert fold(start((way,), memory=1), history) == fold(start((way,)), history)


# --- looking at some types of events only ------------------------------------------------------------------


@given(histories)
def test_the_types_a_projection_says_it_looks_at_are_all_that_change_its_state(history: list[Entry]) -> None:
    chosen = folded(history, *STANDARD)
    curious = folded(
        history, *(projection(one.start, rewinds=one.rewinds and one.resume)(one.step) for one in STANDARD)
    )
    assert all(map(same, chosen.states, curious.states))


def test_a_projection_is_shown_what_it_looks_at_and_nothing_else() -> None:
    @projection(dict[str, int], on=(Noted, RunStarted))
    def some(state: dict[str, int], entry: Entry) -> dict[str, int]:
        return {**state, type(entry.event).__name__: entry.seq}

    talk = (user(), Noted("n"), RunStarted(), Unknown("noted", b"{}"), user())
    view = folded(entries(talk), some, tally)
    assert view[some] == {"Noted": 2, "RunStarted": 3}
    assert (view[tally].messages, view.seq) == (2, 5)


# --- what does not follow ----------------------------------------------------------------------------------


@given(st.lists(st.just(user()), min_size=1, max_size=6), st.data())
def test_an_entry_that_is_not_the_next_one_is_refused(talk: list[Event], data: st.DataObject) -> None:
    history = entries([*talk, user("next"), user("next but one")])
    at = data.draw(st.integers(0, len(talk)), label="at")
    view, before = folded(history[:at]), folded(history[:at])
    for wrong in (*history[:at], *history[at + 1 :]):
        with pytest.raises(OutOfOrder, match=f"entry {wrong.seq} .* entry {at} "):
            view.then(wrong)
    assert alike(view, before)
    assert view.then(history[at]).seq == at + 1


@pytest.mark.parametrize("seq", [-1, 0, 1, 3, 10**30])
def test_a_wrong_seq_is_refused_whatever_it_says_of_its_predecessor(seq: int) -> None:
    history = entries([user(), user("next")])
    view = folded(history[:1])
    with pytest.raises(OutOfOrder):
        view.then(msgspec.structs.replace(history[1], seq=seq))
    assert alike(view, folded(history[:1]))


def test_the_next_entry_of_another_history_is_refused() -> None:
    here, there = entries([user(), user("here")]), entries([user("elsewhere"), user("here")])
    view = folded(here[:1])
    with pytest.raises(OutOfOrder):
        view.then(there[1])
    assert alike(view, folded(here[:1]))
    assert view.then(here[1]).seq == 2


def test_a_history_that_goes_wrong_in_the_middle_is_refused_as_a_whole() -> None:
    history = entries([user()] * 5)
    view = folded(history[:1])
    with pytest.raises(OutOfOrder):
        fold(view, (*history[1:3], history[4]))
    assert alike(view, folded(history[:1]))


def test_out_of_order_is_a_value_error() -> None:
    assert issubclass(OutOfOrder, ValueError)


# --- fingerprints ------------------------------------------------------------------------------------------


@given(st.one_of(talks(), st.lists(events(), max_size=8)))
def test_equal_histories_have_equal_fingerprints_wherever_they_are_stored(talk: Sequence[Event]) -> None:
    here, there = entries(talk, store="here"), entries(talk, store="there")
    assert folded(here).fingerprint == folded(there).fingerprint
    assert fold(start(reversed(ALL)), here).fingerprint == folded(here).fingerprint


@given(talks(), talks())
def test_histories_that_a_projection_tells_apart_have_different_fingerprints(
    one: list[Event], other: list[Event]
) -> None:
    a, b = folded(entries(one)), folded(entries(other))
    apart = a.seq != b.seq or not all(map(alike_states, a.states, b.states))
    assert (a.fingerprint != b.fingerprint) == apart


def test_a_set_has_the_same_fingerprint_in_whatever_order_it_was_filled() -> None:
    some = [f"word-{number}" for number in range(300)]
    one, other = (folded(entries([user(" ".join(said))]), words) for said in (some, some[::-1]))
    first, second = one[words], other[words]
    assert list(first) != list(second)
    assert one.fingerprint == other.fingerprint


def test_a_fingerprint_names_the_seq_the_projections_and_their_versions() -> None:
    @projection(Tally)
    def one(state: Tally, entry: Entry) -> Tally:
        return state

    @projection(Tally)
    def other(state: Tally, entry: Entry) -> Tally:
        return state

    changed = projection(Tally, version=2)(one.step)
    history = entries([user(), user()])
    views = [folded(history[:1], one), folded(history, one), folded(history, changed), folded(history, other)]
    assert len({view.fingerprint for view in views}) == 4


# --- asking a view -----------------------------------------------------------------------------------------


def test_a_projection_that_was_not_folded_is_a_key_error_that_says_so() -> None:
    with pytest.raises(KeyError, match=r"test_fold\.tally version 3.* not folded here"):
        start((contexts,))[tally]


def test_a_view_without_its_states_is_refused() -> None:
    with pytest.raises(ValueError, match="one state for each projection"):
        View((contexts,))


def test_a_view_of_nothing_still_follows_the_log() -> None:
    assert fold(start(()), entries([user(), user()])).seq == 2


# --- any event ---------------------------------------------------------------------------------------------


@given(st.lists(events(), max_size=15))
def test_no_event_whatever_it_holds_stops_a_standard_projection(talk: list[Event]) -> None:
    view = folded(entries(talk), *STANDARD)
    assert view.seq == len(talk)
    assert view.fingerprint


_LEAST: dict[Any, Any] = {str: "", int: 0, bytes: b"", "user": "user"}


def least(kind: type[Event]) -> Event:
    """As the first version wrote it: nothing but what must be there."""
    given_ = {
        field.name: _LEAST[field.type] if field.type in (str, int, bytes) else _first(field.type)
        for field in msgspec.structs.fields(kind)
        if field.required
    }
    return kind(**given_)


def _first(hint: Any) -> Any:
    choices = getattr(hint, "__args__", ())
    return choices[0] if choices and isinstance(choices[0], str) else ()


def test_events_with_nothing_but_what_must_be_there_stop_no_standard_projection() -> None:
    oldest = [least(kind) for kind in VOCABULARY]
    view = folded(entries([*oldest, *reversed(oldest), MessageAdded("user", (Text(""),))]), *STANDARD)
    assert view.seq == 2 * len(VOCABULARY) + 1
