"""Contexts against the naive model, after every entry of any talk; and their rules, one sentence a test."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    ChatStarted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Entry,
    Event,
    Forked,
    MessageAdded,
    Noted,
    Redacted,
    Rewound,
    Text,
    ToolCalled,
    Unknown,
)
from chatfold.projections import Contexts, contexts, fold, start
from chatfold.projections.archive import archive_rows, preview_seqs, shelved_contexts
from chatfold.projections.context import Context
from chatfold.projections.contexts import MAIN, window
from chatfold.projections.history import changes, of_entries
from chatfold.projections.spans import Spans
from chatfold.testing.strategies import same
from tests.support.histories import NOON, assistant, compacted, entries, erased, talks, user
from tests.support.oracles.naive_contexts import Model, Thought

# --- what is shown of a state, and of the model, in the same words -------------------------------------------


def seqs(some: Spans) -> list[int]:
    return [seq for first, last in some for seq in range(first, last + 1)]


def shown(state: Contexts, history: list[Entry]) -> dict[str, Any]:
    everything = {**state.shelf, state.active.id: state.active}
    return {
        "active": state.active.id,
        "shelf": list(state.shelf),
        "contexts": {name: shown_one(state, one, history) for name, one in everything.items()},
        "index": shown_index(state, history),
    }


def shown_one(state: Contexts, context: Context, history: list[Entry]) -> dict[str, Any]:
    head, known = len(history), of_entries(history)
    spans = state.spans(context.id, head)
    seen = window(state, head, context.id)
    return {
        "facts": (context.opened, context.created, context.title, context.archived, context.reason),
        "entries": seqs(spans),
        "visible": seqs(seen.spans),
        "summaries": [(one.seq, one.first, one.last) for one in seen.summaries],
        "to read": seqs(seen.entries),
        "messages": known.messages(spans),
        "checkpoint": known.last_answer(spans),
    }


def shown_index(state: Contexts, history: list[Entry]) -> list[dict[str, Any]]:
    known = of_entries(history)
    rows = shelved_contexts(state, known)
    needed = [history[seq - 1] for seq in preview_seqs(known, rows)]
    return [msgspec.to_builtins(row) for row in archive_rows(known, rows, needed)]


def shown_by(model: Model) -> dict[str, Any]:
    return {
        "active": model.now.active.id,
        "shelf": [thought.id for thought in model.now.shelf],
        "contexts": {thought.id: shown_of(model, thought) for thought in model.now.all},
        "index": model.index(),
    }


def shown_of(model: Model, thought: Thought) -> dict[str, Any]:
    marks = [(mark.seq, mark.first, mark.last) for mark in thought.summaries]
    return {
        "facts": (thought.opened, thought.created, thought.title, thought.archived, thought.reason),
        "entries": sorted(thought.items),
        "visible": thought.visible,
        "summaries": marks,
        "to read": sorted({*thought.visible, *(seq for seq, _, _ in marks)}),
        "messages": model.count(thought),
        "checkpoint": model.checkpoint(thought),
    }


def agree(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Not a plain assert: making its long message takes longer than all the rest of a search for a small example."""
    if found != expected:
        wrong = [key for key in expected if found.get(key) != expected[key]]
        raise AssertionError({key: (found.get(key), "instead of", expected[key]) for key in wrong})


def steps(history: Iterable[Entry]) -> Iterator[tuple[Contexts, Model, list[Entry]]]:
    """After every entry: the state, the model, and the entries as they are read then."""
    view, model = start((contexts,)), Model()
    for entry in history:
        view = view.then(entry)
        model.add(entry)
        yield view[contexts], model, model.entries


# --- any talk ----------------------------------------------------------------------------------------------

ticks = st.sampled_from((1, 0))  # 0: everything in the same millisecond


@given(talks(), ticks)
def test_after_every_entry_of_any_talk_the_state_is_what_the_model_says(talk: list[Event], tick: int) -> None:
    for state, model, history in steps(entries(talk, tick=tick)):
        agree(shown(state, history), shown_by(model))


@given(talks())
def test_a_state_from_a_snapshot_shows_the_same_after_every_entry(talk: list[Event]) -> None:
    for state, model, history in steps(entries(talk)):
        loaded = contexts.load(contexts.dump(state))
        agree(shown(loaded, history), shown_by(model))


@given(talks())
def test_a_history_with_erased_entries_is_what_the_model_says_of_what_is_left(talk: list[Event]) -> None:
    for state, model, history in steps(erased(entries(talk))):
        agree(shown(state, history), shown_by(model))


@given(talks())
def test_erasing_takes_words_away_and_nothing_else(talk: list[Event]) -> None:
    history = entries(talk)
    live, read = (fold(start((contexts,)), some)[contexts] for some in (history, erased(history)))
    assert [mute(one) for one in (live.active, *live.shelf.values())] == [
        mute(one) for one in (read.active, *read.shelf.values())
    ]
    assert (live.since, live.changed) == (read.since, read.changed)
    told, left = of_entries(history), of_entries(erased(history))
    assert [chapter.kinds for chapter in told.chapters] == [chapter.kinds for chapter in left.chapters]


@given(talks())
def test_turns_are_counted_by_what_users_have_said(talk: list[Event]) -> None:
    known = of_entries(entries(talk))
    asked = [
        seq
        for seq, event in enumerate(talk, 1)
        if isinstance(event, MessageAdded) and (event.role, event.origin) == ("user", "exec")
    ]
    for seq in range(len(talk) + 2):
        assert known.turn_at(seq) == sum(one <= seq for one in asked)
    assert [known.asked_at(turn) for turn in range(len(asked) + 2)] == [0, *asked, 0]


def mute(context: Context) -> Context:
    return msgspec.structs.replace(context, title="", reason="")


@given(talks(), st.data())
def test_a_fork_changes_nothing_and_belongs_to_the_active_context(
    talk: list[Event], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(talk)), label="at")
    forked, noted = ([*talk[:at], event, *talk[at:]] for event in (Forked("parent", at), Noted("nothing")))
    assert same(after(*forked), after(*noted))


@given(talks())
def test_every_entry_that_was_not_rewound_is_held_by_a_context_for_ever(talk: list[Event]) -> None:
    ways: list[set[int]] = [set()]
    for state, _, history in steps(entries(talk)):
        seq, event = len(history), history[-1].event
        back = event.to if isinstance(event, Rewound) and 0 <= event.to < seq else seq - 1
        ways.append({*ways[back], seq})
        held = [seqs(state.spans(name, seq)) for name in (*state.shelf, state.active.id)]
        assert set().union(*held) >= ways[-1]


@given(talks())
def test_changes_tell_the_state_before_and_after_every_context_event(talk: list[Event]) -> None:
    history = entries(event for event in talk if not isinstance(event, Redacted))
    states = [contexts.start(), *(state for state, _, _ in steps(history))]
    for control, before, now in changes(of_entries(history)):
        assert place(now) == place(states[control.seq])
        assert control.seq == 1 or place(before) == place(states[control.seq - 1])


def place(state: Contexts) -> Any:
    return state.active, state.since, list(state.shelf.items())


# --- the rules, one sentence each --------------------------------------------------------------------------


def after(*events: Event, tick: int = 1) -> Contexts:
    return fold(start((contexts,)), entries(events, tick=tick))[contexts]


def inside(state: Contexts, id: str, head: int) -> list[int]:
    return seqs(state.spans(id, head))


def rows(*events: Event, tick: int = 1) -> list[dict[str, Any]]:
    return shown_index(after(*events, tick=tick), entries(events, tick=tick))


def summaries(*events: Event) -> list[int]:
    """The entries whose summaries the model sees at the end."""
    return [one.seq for one in window(after(*events), len(events)).summaries]


def visible(*events: Event) -> list[int]:
    return seqs(window(after(*events), len(events)).spans)


ASK, ANSWER = user(), assistant()
TURNS = (ASK, ANSWER, ASK, ANSWER)
A, B = ContextOpened("a"), ContextOpened("b")
TO_A, TO_B, TO_MAIN = ContextSwitched("a"), ContextSwitched("b"), ContextSwitched(MAIN)


def test_a_chat_begins_in_the_main_context_and_what_is_appended_belongs_to_it() -> None:
    state = after(*TURNS)
    assert (state.active.id, dict(state.shelf)) == (MAIN, {})
    assert inside(state, MAIN, 4) == [1, 2, 3, 4]
    assert state.active.created == NOON + 1


def test_nothing_belongs_to_any_context_before_the_first_entry() -> None:
    state = after()
    assert inside(state, MAIN, 0) == []
    assert window(state, 0).entries == ()


def test_a_context_that_does_not_exist_holds_nothing() -> None:
    assert after(*TURNS).spans("nowhere", 4) == ()


# opening


def test_a_new_context_begins_with_the_entry_that_opens_it_and_the_old_one_ends_before() -> None:
    state = after(*TURNS, ContextOpened("a", "a plan", "enough"), ASK)
    assert inside(state, MAIN, 6) == [1, 2, 3, 4]
    assert inside(state, "a", 6) == [5, 6]
    assert (state.active.title, state.active.opened, state.active.created) == ("a plan", 5, NOON + 5)
    assert (state.shelf[MAIN].archived, state.shelf[MAIN].reason) == (NOON + 5, "enough")


def test_a_new_context_on_an_empty_one_leaves_nothing_for_the_archive_to_show() -> None:
    state = after(A)
    assert state.active.id == "a"
    assert list(state.shelf) == [MAIN]
    assert shelved_contexts(state, of_entries(entries([A]))) == []


def test_two_new_contexts_in_a_row_leave_the_first_one_empty_and_unlisted() -> None:
    state = after(*TURNS, A, B, ASK)
    assert list(state.shelf) == [MAIN, "a"]
    assert inside(state, "a", 7) == [5]
    assert [row["contextId"] for row in rows(*TURNS, A, B, ASK)] == [MAIN]


def test_the_current_question_goes_along_and_is_not_in_the_archived_context() -> None:
    state = after(*TURNS, ASK, ContextOpened("a", carry=(5,)))
    assert inside(state, "a", 6) == [5, 6]
    assert inside(state, MAIN, 6) == [1, 2, 3, 4]
    known = of_entries(entries([*TURNS, ASK, ContextOpened("a", carry=(5,)), ANSWER]))
    assert (known.messages(state.shelf[MAIN].spans), known.messages(state.spans("a", 6))) == (4, 1)


def test_a_question_carried_twice_is_where_it_was_carried_last() -> None:
    state = after(ASK, ContextOpened("a", carry=(1,)), ContextOpened("b", carry=(1,)))
    assert [inside(state, name, 3) for name in (MAIN, "a", "b")] == [[], [2], [1, 3]]


def test_a_question_that_was_compacted_is_visible_where_it_is_carried_to() -> None:
    state = after(*TURNS, compacted(1, 4), ContextOpened("a", carry=(3,)))
    assert seqs(window(state, 6).spans) == [3, 6]
    assert window(state, 6).summaries == ()
    assert [one.seq for one in window(state, 6, MAIN).summaries] == [5]


@pytest.mark.parametrize("carry", [(0,), (-1,), (6,), (7,), (10**30,), (), (0, 6, -(10**30))])
def test_a_carried_seq_that_does_not_lie_before_is_nobodys(carry: tuple[int, ...]) -> None:
    state = after(*TURNS, ASK, ContextOpened("a", carry=carry))
    assert inside(state, "a", 6) == [6]
    assert inside(state, MAIN, 6) == [1, 2, 3, 4, 5]


def test_the_order_and_the_repetition_of_carried_seqs_say_nothing() -> None:
    assert same(
        shown(after(*TURNS, ContextOpened("a", carry=(3, 1, 3))), entries([*TURNS, A])),
        shown(after(*TURNS, ContextOpened("a", carry=(1, 3))), entries([*TURNS, A])),
    )


def test_opening_with_an_id_that_exists_is_a_switch() -> None:
    opened = after(*TURNS, ContextOpened("a", "a plan"), ASK, TO_MAIN, ContextOpened("a", "another", "back"))
    assert inside(opened, "a", 8) == [5, 6, 8]
    assert (opened.active.title, opened.active.opened) == ("a plan", 5)
    assert opened.shelf[MAIN].reason == "back"


def test_opening_the_active_context_changes_nothing() -> None:
    state = after(*TURNS, ContextOpened(MAIN, "a title", "a reason", carry=(1,)))
    assert (state.active.id, state.active.title, dict(state.shelf)) == (MAIN, "", {})
    assert inside(state, MAIN, 5) == [1, 2, 3, 4, 5]


def test_an_empty_id_is_an_id() -> None:
    state = after(ASK, ContextOpened(""), ASK, TO_MAIN, ContextSwitched(""))
    assert (state.active.id, inside(state, "", 5)) == ("", [2, 3, 5])


# switching


@pytest.mark.parametrize("to", ["nowhere", "", MAIN])
def test_switching_to_an_unknown_context_or_the_active_one_changes_nothing(to: str) -> None:
    state = after(*TURNS, ContextSwitched(to, (1, 2), "why"))
    assert shown(state, entries([*TURNS, ASK]))["contexts"] == {
        MAIN: shown_one(after(*TURNS, Noted("")), state.active, entries([*TURNS, ASK]))
    }
    assert dict(state.shelf) == {}


def test_there_and_back_again_keeps_both_without_duplicates() -> None:
    state = after(ASK, ANSWER, A, ASK, ANSWER, TO_MAIN, ASK)
    assert inside(state, MAIN, 7) == [1, 2, 6, 7]
    assert inside(state, "a", 7) == [3, 4, 5]
    assert list(state.shelf) == ["a"]
    assert (state.active.archived, state.active.reason) == (0, "")


def test_a_context_taken_up_and_left_again_has_what_was_said_meanwhile() -> None:
    state = after(ASK, A, ASK, TO_MAIN, ASK, ANSWER, TO_A, ASK, TO_MAIN)
    assert inside(state, MAIN, 9) == [1, 4, 5, 6, 9]
    assert inside(state, "a", 9) == [2, 3, 7, 8]


def test_the_shelf_is_in_the_order_in_which_contexts_were_left_also_after_a_snapshot() -> None:
    state = after(ContextOpened("z"), B, TO_MAIN, TO_B, A)
    assert list(state.shelf) == ["z", MAIN, "b"]
    assert list(contexts.load(contexts.dump(state)).shelf) == ["z", MAIN, "b"]


def test_a_recalled_context_stays_on_the_shelf() -> None:
    assert place(after(ASK, A, ASK, ContextRecalled(MAIN))) == place(after(ASK, A, ASK, Noted("")))


# clearing


def test_what_was_cleared_can_be_taken_up_again() -> None:
    cleared = (*TURNS, ContextCleared("too long"), ASK)
    state = after(*cleared)
    assert inside(state, state.active.id, 6) == [5, 6]
    assert (state.shelf[MAIN].reason, inside(state, MAIN, 6)) == ("too long", [1, 2, 3, 4])
    back = after(*cleared, TO_MAIN)
    assert inside(back, MAIN, 7) == [1, 2, 3, 4, 7]
    assert inside(back, state.active.id, 7) == [5, 6]


def test_the_current_question_survives_a_clearing() -> None:
    state = after(*TURNS, ASK, ContextCleared(carry=(5,)))
    assert inside(state, state.active.id, 6) == [5, 6]
    assert inside(state, MAIN, 6) == [1, 2, 3, 4]


def test_clearing_never_takes_an_id_that_a_context_has() -> None:
    taken = (ContextOpened("main-4"), ContextOpened("main-4-"), ASK)
    state = after(*taken, ContextCleared(), ASK)
    assert list(state.shelf) == [MAIN, "main-4", "main-4-"]
    assert inside(state, state.active.id, 5) == [4, 5]
    assert state.active.id not in state.shelf


# compaction


def test_a_compacted_range_is_hidden_and_its_summary_seen() -> None:
    seen = window(after(*TURNS, compacted(1, 3), ASK), 6)
    assert seqs(seen.spans) == [4, 5, 6]
    assert [(one.seq, one.first, one.last) for one in seen.summaries] == [(5, 1, 3)]
    assert seqs(seen.entries) == [4, 5, 6]


def test_what_must_be_read_includes_summaries_that_are_hidden_themselves() -> None:
    seen = window(after(*TURNS, compacted(1, 2), ASK, compacted(5, 6)), 7)
    assert seqs(seen.spans) == [3, 4, 7]
    assert seqs(seen.entries) == [3, 4, 5, 7]


def test_the_same_range_compacted_twice_shows_one_summary() -> None:
    assert summaries(*TURNS, compacted(1, 3), compacted(1, 3)) == [6]
    assert visible(*TURNS, compacted(1, 3), compacted(1, 3)) == [4, 5, 6]


def test_overlapping_ranges_show_both_summaries_and_forget_nothing() -> None:
    overlapping = (*TURNS, compacted(2, 4), compacted(1, 3), ASK)
    assert summaries(*overlapping) == [6, 5]
    assert visible(*overlapping) == [5, 6, 7]
    assert visible(*overlapping, CompactionReverted(5)) == [4, 5, 6, 7, 8]
    assert visible(*overlapping, CompactionReverted(5), CompactionReverted(6)) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_wider_compaction_swallows_the_summary_within_and_reverting_it_brings_that_back() -> None:
    wider = (*TURNS, compacted(1, 2), compacted(1, 4))
    assert summaries(*wider) == [6]
    assert summaries(*wider, CompactionReverted(6)) == [5]
    assert visible(*wider, CompactionReverted(6)) == [3, 4, 5, 6, 7]


def test_reverting_a_swallowed_compaction_leaves_the_one_that_swallowed_it() -> None:
    wider = (*TURNS, compacted(1, 2), compacted(1, 4), CompactionReverted(5))
    assert summaries(*wider) == [6]
    assert summaries(*wider, CompactionReverted(6)) == []
    assert visible(*wider, CompactionReverted(6)) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_reverting_one_compaction_leaves_the_others_as_they_were_swallowed_or_not() -> None:
    three = (*TURNS, ASK, compacted(1, 2), compacted(1, 4), compacted(5, 5))
    assert summaries(*three) == [7, 8]
    assert summaries(*three, CompactionReverted(8)) == [7]
    assert summaries(*three, CompactionReverted(8), CompactionReverted(7)) == [6]


def test_reverting_twice_is_reverting_once() -> None:
    once = (*TURNS, compacted(1, 2), CompactionReverted(5))
    assert place(after(*once, CompactionReverted(5))) == place(after(*once, Noted("")))


@pytest.mark.parametrize("seq", [0, -1, 1, 6, 7, 10**30])
def test_reverting_what_is_no_compaction_changes_nothing(seq: int) -> None:
    before = (*TURNS, compacted(1, 2))
    assert place(after(*before, CompactionReverted(seq))) == place(after(*before, Noted("")))


@pytest.mark.parametrize(
    ("first", "last"), [(3, 2), (0, 0), (-5, -1), (5, 5), (6, 9), (10**30, 10**31), (0, -1), (10**30, 1)]
)
def test_a_range_that_holds_no_earlier_entry_compacts_nothing(first: int, last: int) -> None:
    assert place(after(*TURNS, compacted(first, last))) == place(after(*TURNS, Noted("")))


@pytest.mark.parametrize(("first", "last"), [(-(10**30), 10**30), (0, 5), (1, 4), (-1, 4)])
def test_a_range_that_reaches_beyond_the_log_ends_where_the_log_does(first: int, last: int) -> None:
    [summary] = window(after(*TURNS, compacted(first, last)), 5).summaries
    assert (summary.first, summary.last) == (1, 4)
    assert visible(*TURNS, compacted(first, last), ASK) == [5, 6]


def test_a_compaction_that_would_hide_nothing_more_is_ignored() -> None:
    assert summaries(*TURNS, compacted(1, 4), compacted(2, 3)) == [5]
    assert summaries(*TURNS, A, compacted(1, 4)) == []
    assert summaries(*TURNS, compacted(1, 4), compacted(2, 3), CompactionReverted(5)) == []


def test_a_compaction_stays_with_its_context() -> None:
    state = after(*TURNS, compacted(1, 4), A, ASK)
    assert window(state, 7).summaries == ()
    assert [one.seq for one in window(state, 7, MAIN).summaries] == [5]
    assert summaries(*TURNS, compacted(1, 4), A, ASK, TO_MAIN) == [5]


def test_a_compaction_on_the_shelf_can_be_reverted_and_the_shelf_keeps_its_order() -> None:
    state = after(*TURNS, compacted(1, 4), A, ASK, B, CompactionReverted(5))
    assert list(state.shelf) == [MAIN, "a"]
    assert window(state, 9, MAIN).summaries == ()
    assert seqs(window(state, 9, MAIN).spans) == [1, 2, 3, 4, 5]


def test_compacting_loses_no_entry() -> None:
    assert inside(after(*TURNS, compacted(1, 4), compacted(1, 5)), MAIN, 6) == [1, 2, 3, 4, 5, 6]


# rewinding


def test_going_back_forgets_what_came_after_and_going_forward_again_brings_it_back() -> None:
    went = (ASK, ANSWER, ASK, ANSWER, Rewound(2), ASK)
    assert inside(after(*went), MAIN, 6) == [1, 2, 5, 6]
    assert inside(after(*went, Rewound(4)), MAIN, 7) == [1, 2, 3, 4, 7]
    assert inside(after(*went, Rewound(4), Rewound(6)), MAIN, 8) == [1, 2, 5, 6, 8]


def test_going_back_before_a_context_was_opened_makes_it_unknown() -> None:
    went = (ASK, A, ASK, Rewound(1), TO_A, ASK)
    assert dict(after(*went).shelf) == {}
    assert inside(after(*went), MAIN, 6) == [1, 4, 5, 6]
    again = after(*went, Rewound(3))
    assert (again.active.id, inside(again, "a", 7), inside(again, MAIN, 7)) == ("a", [2, 3, 7], [1])


def test_going_back_undoes_and_redoes_compactions_titles_and_reasons() -> None:
    went = (ASK, ANSWER, compacted(1, 2), ContextOpened("a", "a plan", "enough"), Rewound(2))
    assert place(after(*went))[2] == []
    assert summaries(*went) == []
    again = after(*went, Rewound(4))
    assert (again.active.title, again.shelf[MAIN].reason, again.shelf[MAIN].archived) == (
        "a plan",
        "enough",
        NOON + 4,
    )


def test_going_back_to_the_beginning_leaves_an_empty_main_context() -> None:
    state = after(ChatStarted(title="a chat"), ASK, A, ASK, Rewound(0))
    assert (state.active.id, state.active.title, dict(state.shelf)) == (MAIN, "", {})
    assert inside(state, MAIN, 5) == [5]


@pytest.mark.parametrize("to", [-1, 5, 6, 10**30])
def test_going_back_to_an_entry_that_does_not_lie_before_changes_nothing(to: int) -> None:
    assert place(after(*TURNS, Rewound(to))) == place(after(*TURNS, Noted("")))


def test_going_back_to_the_entry_before_changes_nothing_but_its_own_place() -> None:
    assert inside(after(*TURNS, Rewound(4)), MAIN, 5) == [1, 2, 3, 4, 5]


# what else is in a log


def test_the_first_title_of_the_chat_is_that_of_the_main_context() -> None:
    state = after(ChatStarted("k"), ChatStarted("k", "the first"), ChatStarted("k", "the second"))
    assert state.active.title == "the first"


def test_titles_and_reasons_are_kept_short() -> None:
    state = after(ASK, ContextOpened("a", "t" * 201, "r" * 5000))
    assert state.active.title == "t" * 199 + "…"
    assert state.shelf[MAIN].reason == "r" * 199 + "…"


@pytest.mark.parametrize(
    "event",
    [
        Unknown("context_opened_2", b'{"type":"context_opened_2","id":"a"}'),
        Noted("context_opened", {"id": "a"}),
        Forked("parent", 4),
        Redacted((1, 2, 99)),
        MessageAdded("system", (Text("be brief"),)),
        MessageAdded("user", (Text("not sent"),), origin="audit"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_is_no_context_event_belongs_to_the_active_context_and_is_no_message(event: Event) -> None:
    before, state = after(*TURNS), after(*TURNS, event)
    assert state == before
    assert inside(state, MAIN, 5) == [1, 2, 3, 4, 5]
    assert of_entries(entries([*TURNS, event])).messages(state.spans(MAIN, 5)) == 4


def test_an_open_view_does_not_mind_an_erasure() -> None:
    titled = (ChatStarted("k", "a secret"), ContextOpened("a", "another", "and more"))
    assert place(after(*titled, Redacted((1, 2)))) == place(after(*titled, Noted("")))


def test_an_erased_title_is_nowhere_in_what_is_folded_again() -> None:
    titled = (
        ChatStarted("k", "a secret"),
        ContextOpened("a", "secret", "secret"),
        Redacted((1, 2)),
        Rewound(2),
    )
    state = fold(start((contexts,)), erased(entries(titled)))[contexts]
    assert (state.active.title, state.shelf[MAIN].title, state.shelf[MAIN].reason) == ("[redacted]",) * 3
    assert b"secret" not in contexts.dump(state)


def test_an_erased_context_that_had_no_title_has_none() -> None:
    assert place(fold(start((contexts,)), erased(entries([ASK, A, Redacted((1, 2))])))[contexts]) == place(
        after(ASK, A, Noted(""))
    )


def test_an_erased_summary_has_an_erased_preview() -> None:
    history = erased(entries([*TURNS, compacted(1, 4, "a secret"), A, Redacted((5,))]))
    [row] = shown_index(fold(start((contexts,)), history)[contexts], history)
    assert row["summaryPreview"] == "[redacted]"


# the archive


def test_the_checkpoint_of_an_archived_context_is_its_last_answer_not_the_question_after_it() -> None:
    [row] = rows(*TURNS, ASK, A)
    assert (row["checkpoint"], row["messageCount"]) == (4, 5)


def test_a_context_without_an_answer_has_no_checkpoint_and_no_preview() -> None:
    [row] = rows(ASK, A)
    assert (row["checkpoint"], row["summaryPreview"], row["messageCount"]) == (0, "", 1)


def test_a_row_of_the_index_says_everything_about_its_context_in_camel_case() -> None:
    chat = (
        ChatStarted("k", "the chat"),
        ASK,
        assistant("as  I\nsaid"),
        ASK,
        ContextOpened("a", reason="enough"),
    )
    assert rows(*chat) == [
        {
            "contextId": MAIN,
            "title": "the chat",
            "createdAt": NOON + 1,
            "archivedAt": NOON + 5,
            "messageCount": 3,
            "reason": "enough",
            "checkpoint": 3,
            "summaryPreview": "as I said",
        }
    ]


def test_the_preview_is_the_newest_summary_if_there_is_one() -> None:
    chat = (*TURNS, compacted(3, 4, "the end"), compacted(1, 2, "the  beginning"))
    assert [row["summaryPreview"] for row in rows(*chat, A)] == ["the beginning"]
    assert [row["summaryPreview"] for row in rows(*chat, CompactionReverted(6), A)] == ["the end"]


def test_a_long_preview_is_clipped() -> None:
    [row] = rows(ASK, assistant("word " * 100), A)
    assert row["summaryPreview"] == ("word " * 100)[:119] + "…"


def test_the_index_is_last_left_first_and_can_be_limited() -> None:
    chat = (ASK, A, ASK, B, ASK, TO_A, ContextOpened("c"))
    assert [row["contextId"] for row in rows(*chat)] == ["a", "b", MAIN]
    state, known = after(*chat), of_entries(entries(chat))
    assert [context.id for context in shelved_contexts(state, known, 2)] == ["a", "b"]
    assert shelved_contexts(state, known, 0) == []


def test_contexts_left_in_the_same_millisecond_are_listed_in_the_order_they_were_left() -> None:
    chat = (ASK, ContextOpened("z"), ASK, A, ASK, ContextOpened("m"), ASK, ContextOpened("last"))
    assert [row["contextId"] for row in rows(*chat, tick=0)] == ["m", "a", "z", MAIN]
    assert same(after(*chat, tick=0), after(*chat, tick=0))


def test_previews_name_what_must_be_read_and_nothing_else() -> None:
    chat = (ASK, ANSWER, A, ASK, ANSWER, compacted(4, 5), B, ASK, ContextOpened("c"))
    known = of_entries(entries(chat))
    assert preview_seqs(known, shelved_contexts(after(*chat), known)) == (1, 2, 4, 6, 8)


# --- the work of an event ------------------------------------------------------------------------------------


def long_chat() -> Contexts:
    """A thousand contexts on the shelf, a thousand messages in each."""
    state = contexts.start()
    seq = 0
    for number in range(1000):
        seq += 1
        state = contexts(state, Entry(seq, NOON, ContextOpened(f"c{number}")))
        for turn in range(1000):
            seq += 1
            state = contexts(state, Entry(seq, NOON, ANSWER if turn % 2 else ASK))
    return state


@pytest.mark.campaign
def test_only_events_about_contexts_change_the_state_however_long_the_chat() -> None:
    old = long_chat()
    assert len(old.shelf) == 1000
    others = (
        ASK,
        ANSWER,
        ToolCalled("c", "read"),
        Noted("n"),
        MessageAdded("system", ()),
        Unknown("x", b"{}"),
        Forked("p", 1),
    )
    assert all(contexts(old, Entry(1_001_001, NOON, event)) is old for event in others)
    assert len(contexts.dump(old)) < 150_000


@given(st.integers(1, 200))
def test_messages_and_runs_leave_a_snapshot_as_large_as_it_is(turns: int) -> None:
    small, large = (contexts.dump(after(*(ASK, ANSWER) * count)) for count in (1, turns))
    assert len(large) == len(small)
