"""Whose turn it is, and what was not sent yet: against a look back through the whole history."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chatfold.eventlog import (
    Entry,
    Event,
    Forked,
    MessageAdded,
    ModelCalled,
    Rewound,
    RunFinished,
    RunStarted,
    SendConfirmed,
    SendFailed,
    SendRequested,
    Text,
)
from chatfold.projections import fold, sends, start, turn
from chatfold.projections.activity import Turn
from tests.support.histories import assistant, entries, user

# --- turn --------------------------------------------------------------------------------------------------

_spoken = st.builds(
    MessageAdded,
    st.sampled_from(("user", "assistant", "system")),
    st.just((Text("so"),)),
    st.sampled_from(("exec", "exec", "internal", "audit")),
)
_events: st.SearchStrategy[Event] = st.one_of(
    _spoken,
    _spoken,
    st.just(ModelCalled("m", "f")),
    st.just(RunStarted()),
    st.just(RunFinished("done")),
    st.just(Forked("parent", 0)),
)
_histories = st.lists(st.tuples(st.sampled_from((None, "r1", "r2")), _events), max_size=20)


def in_runs(pairs: list[tuple[str | None, Event]]) -> list[Entry]:
    made = entries(event for _, event in pairs)
    return [replace(entry, run=run) for entry, (run, _) in zip(made, pairs, strict=True)]


def newest(history: list[Entry], *found: bool) -> int:
    return max((entry.seq for entry, is_it in zip(history, found, strict=True) if is_it), default=0)


def asked_by(history: list[Entry], seq: int) -> str | None:
    """The run of the last request before ``seq``."""
    runs = [one.run for one in history[: seq - 1] if isinstance(one.event, ModelCalled)]
    return runs[-1] if runs else None


def answers(history: list[Entry], entry: Entry) -> bool:
    """Has a model, or somebody without one, seen all that was said before?"""
    match entry.event:
        case ModelCalled() | Forked():
            return True
        case MessageAdded(role="assistant", origin="exec"):
            return entry.run is None or entry.run != asked_by(history, entry.seq)
    return False


def run_of(history: list[Entry]) -> str:
    """The run that was started last, unless it ended, or the chat became another."""
    began = newest(history, *(isinstance(one.event, RunStarted) for one in history))
    if not began:
        return ""
    run = history[began - 1].run or ""
    for entry in history[began:]:
        if isinstance(entry.event, Forked) or (isinstance(entry.event, RunFinished) and entry.run == run):
            return ""
    return run


@given(_histories)
def test_the_turn_is_whose_the_history_says(pairs: list[tuple[str | None, Event]]) -> None:
    history = in_runs(pairs)
    state = fold(start((turn,)), history)[turn]
    says = [
        isinstance(one.event, MessageAdded) and (one.event.role, one.event.origin) == ("user", "exec")
        for one in history
    ]
    assert state.said == newest(history, *says)
    assert state.called == newest(history, *(answers(history, one) for one in history))
    assert state.run == run_of(history)


def after(*pairs: tuple[str | None, Event]) -> Turn:
    return fold(start((turn,)), in_runs(list(pairs)))[turn]


def test_a_question_waits_until_a_model_is_asked() -> None:
    assert after((None, user())).is_waiting
    assert not after((None, user()), ("r", ModelCalled("m", "f"))).is_waiting


def test_an_answer_that_was_recorded_by_hand_answers_the_question() -> None:
    assert not after((None, user()), (None, assistant())).is_waiting


def test_an_answer_to_an_earlier_request_leaves_what_was_said_since_waiting() -> None:
    asked = (None, user()), ("r", ModelCalled("m", "f")), (None, user("and this?")), ("r", assistant())
    assert after(*asked).is_waiting


def test_what_was_under_way_is_the_parents_to_go_on_with() -> None:
    state = after((None, user()), ("r", RunStarted()), (None, Forked("parent", 2)))
    assert not state.is_open


def test_going_back_to_a_question_makes_it_wait_again() -> None:
    done = (None, user()), ("r", RunStarted()), ("r", ModelCalled("m", "f")), ("r", assistant())
    assert not after(*done, ("r", RunFinished("done"))).is_open
    state = after(*done, ("r", RunFinished("done")), (None, Rewound(1)))
    assert (state.is_waiting, state.said, state.called) == (True, 1, 0)


def test_going_back_ends_no_run_and_begins_none_again() -> None:
    begun = (None, user()), ("r", RunStarted()), ("r", ModelCalled("m", "f"))
    assert after(*begun, (None, Rewound(1))).run == "r"
    assert after(*begun, ("r", RunFinished("done")), (None, Rewound(3))).run == ""


# --- sends -------------------------------------------------------------------------------------------------

_ids = st.sampled_from("abc")
_sends: st.SearchStrategy[Event] = st.one_of(
    st.builds(SendRequested, _ids, st.just((Text("so"),))),
    st.builds(SendConfirmed, _ids),
    st.builds(SendFailed, _ids, st.just("blocked")),
    st.just(user()),
)


@given(st.lists(_sends, max_size=20))
def test_a_send_is_open_until_it_is_confirmed_or_failed(some: list[Event]) -> None:
    history = entries(some)
    own = {
        send: [one for one in history if getattr(one.event, "send", None) == send] for send in "abc"
    }  # what was said of each
    wanted = {
        send: told[-1].seq for send, told in own.items() if told and isinstance(told[-1].event, SendRequested)
    }
    assert fold(start((sends,)), history)[sends].open == wanted
