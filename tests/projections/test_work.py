"""What the agent is at: calls not answered yet, skills in use, runs and what each of them did."""

from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chatfold.eventlog import (
    ContextRecalled,
    Entry,
    Event,
    MessageAdded,
    ModelCalled,
    Noted,
    Redacted,
    Rewound,
    RunFinished,
    RunStarted,
    SendConfirmed,
    SendFailed,
    SendRequested,
    SkillActivated,
    SkillDeactivated,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.projections import Projection, Window, calls, executions, fold, skills, start
from chatfold.projections.activity import Executions, OpenCall, Skill
from chatfold.projections.history import RUN, of_entries
from chatfold.projections.prompt import build
from chatfold.projections.runs import WINDOW, RunDigest, ToolUse, run_digests
from chatfold.testing.strategies import events
from tests.support.histories import assistant, entries, erased, user

S = TypeVar("S")
RUNS = (None, "r1", "r2")
ALL: tuple[Projection[Any], ...] = (calls, skills, executions)


def folded(projection: Projection[S], history: list[Entry]) -> S:
    return fold(start((projection,)), history)[projection]


def in_run(run: str | None, *some: Event) -> list[Entry]:
    return told(*((run, event) for event in some))


def told(*pairs: tuple[str | None, Event]) -> list[Entry]:
    """Entries of the events, each in its run."""
    made = entries(event for _, event in pairs)
    return [replace(entry, run=run) for entry, (run, _) in zip(made, pairs, strict=True)]


def told_in_runs(some: st.SearchStrategy[Event]) -> st.SearchStrategy[list[Entry]]:
    pairs = st.tuples(st.sampled_from(RUNS), some)
    return st.one_of(st.lists(pairs, max_size=6), st.lists(pairs, min_size=25, max_size=40)).map(
        lambda chosen: told(*chosen)
    )


_rewinds = st.builds(Rewound, st.one_of(st.integers(0, 30), st.sampled_from((-1, 10**30))))
_elsewhere: st.SearchStrategy[Event] = st.sampled_from(
    (
        user(),
        MessageAdded("system", (Text("be brief"),)),
        ContextRecalled("c", text="long ago"),
        Noted("n"),
        Unknown("step_paused", b'{"type":"step_paused"}'),
    )
)


# --- calls -----------------------------------------------------------------------------------------------

_ids = st.sampled_from("abc")
_called = st.builds(ToolCalled, _ids, st.sampled_from(("read", "write")))
_returned = st.builds(ToolReturned, _ids)
_closing: st.SearchStrategy[Event] = st.one_of(
    st.just(ModelCalled("m", "f")),
    st.builds(
        MessageAdded,
        st.sampled_from(("assistant", "user")),
        st.just((Text("so"),)),
        st.sampled_from(("exec", "internal", "audit")),
    ),
)
_steps = st.one_of(_called, _called, _returned, _returned, _closing, _elsewhere)


def closes(entry: Entry) -> bool:
    match entry.event:
        case ModelCalled():
            return True
        case MessageAdded(role="assistant", origin=origin):
            return origin != "audit"
    return False


def open_calls(history: list[Entry]) -> list[int]:
    """Step by step, each with a pencil: asked is written down, answered or over is crossed out.

    The list after every entry is kept; a rewind takes an earlier one.
    """
    lists: list[list[tuple[int, str]]] = [[]]
    for entry in history:
        asked = lists[-1]
        match entry.event:
            case ToolCalled(call=call):
                asked = [*asked, (entry.seq, call)]
            case ToolReturned(call=call):
                answered = [one for one in asked if one[1] == call][:1]
                asked = [one for one in asked if one not in answered]
            case Rewound(to=to) if 0 <= to < entry.seq:
                asked = lists[to]
        lists.append([] if closes(entry) else asked)
    return [seq for seq, _ in lists[-1]]


@given(told_in_runs(st.one_of(_steps, _rewinds)))
def test_a_call_is_open_until_it_is_answered_or_its_step_is_over(history: list[Entry]) -> None:
    open_now = folded(calls, history).open
    assert [call.seq for call in open_now] == open_calls(history)
    for call in open_now:
        entry = history[call.seq - 1]
        assert isinstance(entry.event, ToolCalled)
        assert call == OpenCall(entry.seq, entry.event.call, entry.event.name, entry.run)


@given(told_in_runs(_steps))
def test_the_result_of_an_open_call_is_shown_with_it_and_any_other_is_not(history: list[Entry]) -> None:
    waiting: dict[str, int] = {}
    for call in folded(calls, history).open:
        waiting.setdefault(call.call, call.seq)
    for name in "abc":
        head = len(history) + 1
        longer = entries([*(entry.event for entry in history), ToolReturned(name)])
        shown = [result for m in build(Window(((1, head),), ()), longer).messages for result in m.results]
        assert [result.call for result in shown if result.seq == head] == [
            seq for call, seq in waiting.items() if call == name
        ]


def test_a_result_answers_the_first_of_two_calls_with_one_id() -> None:
    history = entries([ToolCalled("a", "read"), ToolCalled("a", "write"), ToolReturned("a")])
    assert [call.name for call in folded(calls, history).open] == ["write"]


def test_going_back_to_before_a_call_closes_it() -> None:
    history = entries([ToolCalled("a", "read"), ToolCalled("b", "read"), Rewound(1)])
    assert [call.call for call in folded(calls, history).open] == ["a"]


def test_going_back_to_an_open_call_leaves_it_open() -> None:
    history = entries([user(), ToolCalled("a", "read"), ToolReturned("a"), assistant(), Rewound(2)])
    assert [call.call for call in folded(calls, history).open] == ["a"]


@pytest.mark.parametrize(
    ("event", "closes_it"),
    [
        (ModelCalled("m", "f"), True),
        (assistant(), True),
        (MessageAdded("assistant", (Text("a reminder"),), "internal"), True),
        (MessageAdded("assistant", (Text("for the record"),), "audit"), False),
        (user("wait"), False),
        (RunFinished("failed"), False),
    ],
)
def test_what_the_model_says_or_is_asked_ends_a_step(event: Event, closes_it: bool) -> None:
    history = entries([ToolCalled("a", "read"), event])
    assert bool(folded(calls, history).open) is not closes_it


# --- skills ----------------------------------------------------------------------------------------------

_names = st.sampled_from(("pdf", "pptx", "", "\ud800"))
_skill_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(SkillActivated, _names, st.sampled_from(("", "f1", "f2"))),
    st.builds(SkillActivated, _names),
    st.builds(SkillDeactivated, _names),
    _rewinds,
    _elsewhere,
)


def skills_in_use(history: list[Entry]) -> list[tuple[str, Skill]]:
    """The list after every entry is kept; a rewind takes an earlier one."""
    states: list[list[tuple[str, Skill]]] = [[]]
    for entry in history:
        now = states[-1]
        match entry.event:
            case SkillActivated(name=name, fingerprint=fingerprint):
                now = [one for one in now if one[0] != name] + [(name, Skill(entry.seq, fingerprint))]
            case SkillDeactivated(name=name):
                now = [one for one in now if one[0] != name]
            case Rewound(to=to) if 0 <= to < entry.seq:
                now = states[to]
        states.append(now)
    return states[-1]


@given(told_in_runs(_skill_events))
def test_skills_in_use_are_those_on_the_way_that_was_not_rewound(history: list[Entry]) -> None:
    assert list(folded(skills, history).active.items()) == skills_in_use(history)


def test_a_rewind_can_itself_be_rewound() -> None:
    history = entries([SkillActivated("pdf"), SkillActivated("pptx"), Rewound(1), Rewound(2)])
    assert [list(folded(skills, history[:n]).active) for n in (2, 3, 4)] == [
        ["pdf", "pptx"],
        ["pdf"],
        ["pdf", "pptx"],
    ]


# --- runs ------------------------------------------------------------------------------------------------

_texts = st.sampled_from(("", "yes", "no", " ", "日本語", "🎈" * 2001, "x" * 201))
_parts = st.one_of(st.just(()), _texts.map(lambda text: (Text(text),)))
_runs_begin: st.SearchStrategy[Event] = st.just(RunStarted("agent"))
_run_events: st.SearchStrategy[Event] = st.one_of(
    *[_runs_begin] * 3,
    st.builds(RunFinished, st.sampled_from(("done", "failed", "cancelled", "limit")), _texts),
    st.builds(MessageAdded, st.just("user"), _parts, st.sampled_from(("exec", "internal", "audit"))),
    st.builds(MessageAdded, st.just("assistant"), _parts, st.sampled_from(("exec", "internal", "audit"))),
    st.builds(ToolCalled, _ids, st.just("read")),
    st.builds(ToolReturned, _ids, _parts, st.booleans()),
    st.builds(SendRequested, _ids, _parts),
    st.builds(SendConfirmed, _ids),
    st.builds(SendFailed, _ids),
    st.builds(Redacted, st.tuples(st.integers(0, 30))),
    _elsewhere,
)


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def words(entry: Entry, role: str) -> str | None:
    """What was said in words by that role; None if it was not that role that spoke."""
    match entry.event:
        case MessageAdded(role=who, origin="exec", parts=parts) if who == role:
            return short("\n".join(part.text for part in parts if isinstance(part, Text)), 2000)
    return None


def part_of_run(history: list[Entry], start: int) -> list[Entry]:
    """From where it starts to where it ends, or is started again."""
    own = [entry for entry in history[start:] if entry.run == history[start].run]
    for index, entry in enumerate(own):
        if isinstance(entry.event, RunFinished):
            return own[: index + 1]
        if index and isinstance(entry.event, RunStarted):
            return own[:index]
    return own


def sent(own: list[Entry]) -> list[str]:
    """The texts that were confirmed, in the order of the confirmations."""
    found = []
    for index, entry in enumerate(own):
        if isinstance(entry.event, SendConfirmed):
            asked = [one.event for one in own[:index] if isinstance(one.event, SendRequested)]
            found += [one.parts for one in asked if one.send == entry.event.send][-1:]
    return [short("\n".join(part.text for part in parts if isinstance(part, Text)), 2000) for parts in found]


def uses(own: list[Entry]) -> list[ToolUse]:
    found = []
    results = [entry for entry in own if isinstance(entry.event, ToolReturned)]
    for entry in own:
        if isinstance(entry.event, ToolCalled):
            use = ToolUse(entry.event.name)
            for result in results:
                assert isinstance(result.event, ToolReturned)
                if result.seq > entry.seq and result.event.call == entry.event.call:
                    text = "\n".join(part.text for part in result.event.parts if isinstance(part, Text))
                    use.success = not result.event.failed
                    use.error = short(text, 200) if result.event.failed else ""
                    results.remove(result)
                    break
            found.append(use)
    return found


def digest(history: list[Entry], start: int) -> RunDigest:
    own = part_of_run(history, start)
    asked = [text for entry in history[:start] if (text := words(entry, "user")) is not None][-1:]
    asked += [text for entry in own if (text := words(entry, "user"))]
    said = [text for entry in own if (text := words(entry, "assistant"))]
    made = RunDigest(
        own[0].run or "",
        own[0].seq,
        next((text for text in asked if text), ""),
        (sent(own) or said or [""])[-1],
        uses(own),
    )
    if isinstance(own[-1].event, RunFinished):
        end = own[-1].event
        made.finished, made.outcome, made.error = own[-1].seq, end.outcome, short(end.error, 200)
    return made


@given(told_in_runs(_run_events), st.integers(1, 4))
def test_a_digest_tells_what_its_run_did_however_runs_are_interleaved(
    history: list[Entry], window: int
) -> None:
    starts = [index for index, entry in enumerate(history) if isinstance(entry.event, RunStarted)]
    assert run_digests(history, window) == [digest(history, start) for start in starts[-window:]]


@given(told_in_runs(_run_events), st.integers(0, 4))
def test_the_last_digests_are_the_same_when_only_their_part_of_the_log_is_read(
    history: list[Entry], window: int
) -> None:
    since = of_entries(history).since_run(window)
    assert run_digests(history[since - 1 :], window) == run_digests(history, window)


@given(told_in_runs(_run_events))
def test_executions_count_starts_and_outcomes(history: list[Entry]) -> None:
    state = folded(executions, history)
    ends = [entry.event.outcome for entry in history if isinstance(entry.event, RunFinished)]
    starts = [entry.seq for entry in history if isinstance(entry.event, RunStarted)]
    known = of_entries(history)
    assert [known.find(RUN, number) for number in range(len(starts) + 2)] == [0, *starts, 0]
    begun = [max((seq for seq in starts if seq <= at), default=0) for at in range(len(history) + 1)]
    assert [known.run_at(at) for at in range(len(history) + 1)] == begun
    assert state.outcomes == {outcome: ends.count(outcome) for outcome in ends}
    for run in {entry.run or "" for entry in history}:
        own = [e for e in history if (e.run or "") == run and isinstance(e.event, RunStarted | RunFinished)]
        still = bool(own) and isinstance(own[-1].event, RunStarted)
        assert state.running.get(run) == (own[-1].seq if still else None)


def turns(count: int) -> list[Entry]:
    pairs: list[tuple[str | None, Event]] = []
    for number in range(1, count + 1):
        run = f"run-{number}"
        pairs += [(None, user(f"question {number}")), (run, RunStarted())]
        pairs += [(run, assistant(f"answer {number}")), (run, RunFinished("done"))]
    return told(*pairs)


@pytest.mark.parametrize("count", [199, 200, 201])
def test_the_window_is_a_view_and_older_runs_can_still_be_read(count: int) -> None:
    history = turns(count)
    last = run_digests(history[of_entries(history).since_run(WINDOW) - 1 :])
    everything = run_digests(history, window=count)
    assert len(last) == min(count, 200)
    assert last == everything[-200:]
    assert [one.user_preview for one in everything] == [f"question {n}" for n in range(1, count + 1)]


def test_reading_for_the_last_runs_does_not_begin_with_the_first() -> None:
    history = turns(300)
    since = of_entries(history).since_run(WINDOW)
    assert history[since - 1].event == user("question 101")


@pytest.mark.parametrize("outcome", ["done", "failed", "cancelled", "limit"])
def test_every_way_a_run_can_end_is_in_its_digest(outcome: Any) -> None:
    [told_of] = run_digests(in_run("r", RunStarted(), RunFinished(outcome, "the disk is full")))
    assert (told_of.outcome, told_of.error, told_of.finished) == (outcome, "the disk is full", 2)


def test_a_run_that_never_finished_has_a_digest_without_an_outcome() -> None:
    begun = ("r1", RunStarted()), ("r1", ToolCalled("c", "read"))
    [crashed, resumed] = run_digests(told((None, user("why?")), *begun, ("r2", RunStarted())))
    assert (crashed.outcome, crashed.finished) == ("", 0)
    assert crashed.tool_calls == [ToolUse("read", None)]
    assert resumed.user_preview == "why?"


@pytest.mark.parametrize("length", [1999, 2000, 2001])
def test_previews_are_cut_between_characters_and_say_so(length: int) -> None:
    text = "🎈" * length
    [told_of] = run_digests(
        in_run("r", user(text), RunStarted(), assistant(text), RunFinished("failed", text))
    )
    assert told_of.user_preview == (text if length <= 2000 else "🎈" * 1999 + "…")
    assert told_of.output_preview == told_of.user_preview
    assert told_of.error == "🎈" * 199 + "…"


def test_what_reached_the_user_is_the_output_and_a_failed_send_changes_nothing() -> None:
    history = in_run(
        "r",
        RunStarted(),
        SendRequested("s1", (Text("sent"),)),
        SendConfirmed("s1"),
        SendRequested("s2", (Text("not sent"),)),
        SendFailed("s2", "blocked"),
        assistant("the model's own words"),
        RunFinished("done"),
    )
    assert run_digests(history)[0].output_preview == "sent"


def test_what_was_recorded_for_the_audit_alone_is_not_what_a_run_said() -> None:
    copy = MessageAdded("assistant", (Text("copied from elsewhere"),), origin="audit")
    [told_of] = run_digests(in_run("r", RunStarted(), assistant("its answer"), copy))
    assert told_of.output_preview == "its answer"


def test_a_message_in_the_middle_of_a_run_is_not_what_it_was_asked() -> None:
    [told_of] = run_digests(in_run("r", user("why?"), RunStarted(), user("and why not?")))
    assert told_of.user_preview == "why?"


def test_a_run_that_was_asked_nothing_before_is_told_by_what_it_was_asked_first() -> None:
    [told_of] = run_digests(in_run("r", RunStarted(), user(""), user("why?"), user("and why not?")))
    assert told_of.user_preview == "why?"


def test_a_result_in_a_digest_belongs_to_the_first_of_two_calls_with_one_id() -> None:
    asked = ToolCalled("a", "read"), ToolCalled("a", "write")
    [told_of] = run_digests(in_run("r", RunStarted(), *asked, ToolReturned("a")))
    assert told_of.tool_calls == [ToolUse("read", success=True), ToolUse("write")]


def test_a_second_try_at_a_question_is_read_with_the_question() -> None:
    history = told((None, user("why?")), ("r1", RunStarted()), ("r2", RunStarted()))
    since = of_entries(history).since_run(1)
    assert run_digests(history[since - 1 :], 1)[0].user_preview == "why?"


# --- all of them -----------------------------------------------------------------------------------------


@given(st.lists(events(), max_size=12))
def test_any_event_passes_through_all_of_them(some: list[Event]) -> None:
    history = entries(some)
    for projection in ALL:
        state = folded(projection, history)
        assert projection.load(projection.dump(state)) == state
    assert len(run_digests(history)) == of_entries(history).count(RUN, len(history))


@given(told_in_runs(st.one_of(_steps, _skill_events, _run_events)))
def test_erasing_an_entry_changes_none_of_them(history: list[Entry]) -> None:
    for projection in ALL:
        assert folded(projection, erased(history)) == folded(projection, history)


def test_runs_that_never_end_are_forgotten_oldest_first() -> None:
    history = told(*((f"run-{number}", RunStarted()) for number in range(1, 101)))
    state: Executions = folded(executions, history)
    assert list(state.running.items()) == [(f"run-{number}", number) for number in range(37, 101)]


def test_a_run_that_was_started_again_is_not_the_oldest() -> None:
    runs = ["again", *(f"run-{number}" for number in range(63)), "again", "one more"]
    state = folded(executions, told(*((run, RunStarted()) for run in runs)))
    assert state.running["again"] == 65
    assert "run-0" not in state.running
