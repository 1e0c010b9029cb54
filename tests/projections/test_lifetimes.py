"""When each item came into the model's sight and when and why it left, against a look at every entry in turn."""

from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextSwitched,
    Entry,
    Event,
    MessageAdded,
    Rewound,
    Text,
)
from chatfold.projections import Contexts, Lifetime, contexts, lifetimes, start
from chatfold.projections.contexts import window
from chatfold.projections.history import of_entries
from chatfold.projections.lifetimes import Stay, stays
from chatfold.projections.spans import spans
from chatfold.projections.tokens import of_event
from chatfold.testing.strategies import events
from tests.support.histories import assistant, compacted, entries, talks, user

KINDS = {
    "context_opened": "opened",
    "context_switched": "switched",
    "context_cleared": "cleared",
    "compacted": "compacted",
    "compaction_reverted": "reverted",
    "rewound": "rewound",
}


def seen(state: Contexts, head: int) -> tuple[set[int], set[int]]:
    """The entries, and the summaries, that the model sees after entry ``head``."""
    now = window(state, head)
    shown = {seq for first, last in now.spans for seq in range(first, last + 1)}
    return shown, {summary.seq for summary in now.summaries}


def in_sight(history: list[Entry]) -> list[set[int]]:
    """The items in sight after each entry: a compaction is there as its summary, or not at all."""
    marks = {entry.seq for entry in history if isinstance(entry.event, Compacted)}
    view, after = start((contexts,)), [set[int]()]
    for entry in history:
        view = view.then(entry)
        shown, summaries = seen(view[contexts], entry.seq)
        after.append(shown - marks | summaries)
    return after


def watched(history: list[Entry]) -> list[Lifetime]:
    """For each item the longest stretches in which it was in sight, and the entry after each."""
    sight = in_sight(history)
    found = []
    for item in history:
        tokens = of_event(item.event)
        entered = 0
        for at in range(1, len(history) + 1):
            if item.seq in sight[at] and not entered:
                entered = at
            elif item.seq not in sight[at] and entered:
                found.append(Lifetime(item.seq, entered, at, kind(history[at - 1].event), tokens))
                entered = 0
        if entered:
            found.append(Lifetime(item.seq, entered, 0, "", tokens))
    return [one for one in found if one.tokens]


def kind(event: Event) -> str:
    return KINDS[str(event.__struct_config__.tag)]


@given(talks())
def test_lifetimes_are_the_stretches_in_which_an_item_was_in_sight(some: list[Event]) -> None:
    history = entries(some)
    assert list(lifetimes(of_entries(history), history)) == watched(history)


@given(talks(), st.data())
def test_the_lifetimes_of_some_entries_are_told_without_the_others(
    some: list[Event], data: st.DataObject
) -> None:
    history = entries(some)
    chosen = [entry for entry in history if data.draw(st.booleans())]
    known = of_entries(history)
    whole = list(lifetimes(known, history))
    seqs = {entry.seq for entry in chosen}
    assert list(lifetimes(known, chosen)) == [one for one in whole if one.item in seqs]


@given(talks())
def test_no_entry_is_in_sight_twice_at_once(some: list[Event]) -> None:
    history = entries(some)
    by_item: dict[int, int] = {}
    for one in lifetimes(of_entries(history), history):
        assert one.entered > by_item.get(one.item, 0)
        assert one.left > one.entered or not one.left
        by_item[one.item] = one.left or len(history) + 1


@given(st.lists(events(), max_size=15))
def test_any_events_have_lifetimes(some: list[Event]) -> None:
    history = entries(some)
    assert list(lifetimes(of_entries(history), history)) == watched(history)


@given(talks(), st.lists(st.integers(1, 40), max_size=3))
def test_the_stays_of_some_entries_are_found_without_the_others(some: list[Event], asked: list[int]) -> None:
    known, head = of_entries(entries(some)), len(some)
    seqs = sorted({seq for seq in asked if seq <= head})
    whole = stays(known)
    chosen = stays(known, spans((seq, seq) for seq in seqs))

    def visits(found: list[Stay], seq: int) -> list[tuple[int, int, str]]:
        return [(one.entered, one.left, one.cause) for one in found if one.first <= seq <= one.last]

    assert [visits(chosen, seq) for seq in seqs] == [visits(whole, seq) for seq in seqs]
    assert all(one.first in seqs for one in chosen)


def told(*some: Event) -> list[tuple[int, int, int, str]]:
    history = entries(some)
    found = lifetimes(of_entries(history), history)
    return [(one.item, one.entered, one.left, one.cause) for one in found]


def test_a_summary_takes_the_place_of_what_it_hides_until_it_is_reverted() -> None:
    assert told(user(), assistant(), compacted(1, 2), CompactionReverted(3)) == [
        (1, 1, 3, "compacted"),
        (1, 4, 0, ""),
        (2, 2, 3, "compacted"),
        (2, 4, 0, ""),
        (3, 3, 4, "reverted"),
    ]


def test_a_summary_that_is_swallowed_is_left_for_the_larger_one() -> None:
    assert told(user(), assistant(), compacted(1, 1), compacted(1, 2)) == [
        (1, 1, 3, "compacted"),
        (2, 2, 4, "compacted"),
        (3, 3, 4, "compacted"),
        (4, 4, 0, ""),
    ]


def test_what_is_carried_along_never_left() -> None:
    assert told(user("a"), assistant(), user("b"), ContextOpened("new", carry=(3,)), assistant()) == [
        (1, 1, 4, "opened"),
        (2, 2, 4, "opened"),
        (3, 3, 0, ""),
        (5, 5, 0, ""),
    ]


def test_what_is_on_the_shelf_comes_back_with_its_context() -> None:
    assert told(user("a"), ContextCleared(), user("b"), ContextSwitched("main")) == [
        (1, 1, 2, "cleared"),
        (1, 4, 0, ""),
        (3, 3, 4, "switched"),
    ]


def test_going_back_hides_what_came_after_and_going_back_again_shows_it() -> None:
    assert told(user("a"), user("b"), Rewound(1), user("c"), Rewound(2)) == [
        (1, 1, 0, ""),
        (2, 2, 3, "rewound"),
        (2, 5, 0, ""),
        (4, 4, 5, "rewound"),
    ]


def test_what_no_model_is_shown_has_no_lifetime() -> None:
    assert told(MessageAdded("user", (Text("for the record"),), "audit"), ContextOpened("a")) == []


def test_the_tokens_are_those_of_the_counter_that_is_given() -> None:
    history = entries([user("four words are here")])
    [one] = lifetimes(of_entries(history), history, count=lambda text: len(text.split()))
    assert one == Lifetime(1, 1, 0, "", 4 + 4)


def test_a_long_quiet_chat_is_one_stay() -> None:
    history = entries([user(), assistant()] * 500)
    assert len(stays(of_entries(history))) == 1
