"""What a list of chats shows: outline, where a chat comes from, what its models cost."""

from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    Data,
    Entry,
    Event,
    Forked,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Redacted,
    Text,
    Unknown,
)
from chatfold.eventlog.erasure import PLACEHOLDER
from chatfold.projections import Projection, fold, lineage, outline, start, usage
from chatfold.projections.history import CALLED, of_entries
from chatfold.projections.listing import Fork, Lineage, Outline
from chatfold.projections.usage import TokenCounts
from chatfold.testing.strategies import events
from tests.support.histories import assistant, entries, erased, talks, user

S = TypeVar("S")
ALL: tuple[Projection[Any], ...] = (outline, lineage, usage)


def folded(projection: Projection[S], history: list[Entry]) -> S:
    return fold(start((projection,)), history)[projection]


# --- outline ---------------------------------------------------------------------------------------------

_texts = st.sampled_from(("", " ", "why?", "  two \n words ", "a" * 121, "日本 " * 50, "x" * 80 + " y"))
_parts = st.lists(st.one_of(_texts.map(Text), st.just(Data("chart"))), max_size=2).map(tuple)
_names = st.sampled_from((*"abcdefghijklmnopqrst", "user", "x" * 150))
_words = st.sampled_from(("u7", "", 7, None, ["u7"], "y" * 50, "y" * 51, "\ud800"))
_listed: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        MessageAdded,
        st.sampled_from(("user", "assistant", "system", "developer")),
        _parts,
        st.sampled_from(("exec", "exec", "internal", "audit")),
    ),
    st.builds(ChatStarted, title=_texts, meta=st.dictionaries(_names, _words, max_size=3)),
    st.builds(Redacted, st.lists(st.integers(-1, 20), max_size=3).map(tuple)),
    st.just(Unknown("chat_pinned", b'{"type":"chat_pinned"}')),
)
_chats = st.lists(_listed, max_size=20)


def line(text: str, most: int) -> str:
    words = " ".join(text[: 4 * most].split())
    return words if len(words) <= most else words[: most - 1] + "…"


def said(event: MessageAdded) -> str:
    return "\n".join(part.text for part in event.parts if isinstance(part, Text))


def recounted(history: list[Entry]) -> Outline:
    """Each field by a look of its own at the whole."""
    some = [entry.event for entry in history]
    spoken = [event for event in some if isinstance(event, MessageAdded) and event.origin == "exec"]
    messages = [event for event in spoken if event.role in ("user", "assistant")]
    questions = [event for event in messages if event.role == "user"]
    given_titles = [line(event.title, 80) for event in some if isinstance(event, ChatStarted)]
    titles = [*given_titles, *(line(line(said(event), 120), 80) for event in questions)]
    return Outline(
        next((title for title in titles if title), ""),
        len(messages),
        len(questions),
        history[0].ts if history else 0,
        history[-1].ts if history else 0,
        messages[-1].role if messages else "",
        line(said(messages[-1]), 120) if messages else "",
        any(given_titles),
        words_of([event.meta for event in some if isinstance(event, ChatStarted)]),
    )


def words_of(metas: list[dict[str, Any]]) -> dict[str, str]:
    """The newest short string of each of the first 16 names."""
    found: dict[str, str] = {}
    for meta in metas:
        for name, word in meta.items():
            if isinstance(word, str) and len(name + word) <= 200 and (name in found or len(found) < 16):
                found[name] = word
    return found


def test_a_chat_has_few_words() -> None:
    many = [
        ChatStarted(meta={f"name {number}": "word" for number in range(first, first + 9)})
        for first in (0, 5, 20)
    ]
    state = folded(outline, entries(many))
    assert state.words == words_of([event.meta for event in many])
    assert len(state.words) == 16


@given(_chats)
def test_an_outline_is_a_recount_of_the_log(some: list[Event]) -> None:
    history = entries(some)
    assert folded(outline, history) == recounted(history)


@given(talks())
def test_an_outline_of_what_is_left_holds_nothing_that_was_erased(some: list[Event]) -> None:
    left = erased(entries(some))
    assert folded(outline, left) == recounted(left)


@given(_chats, st.lists(st.integers(-1, 25), max_size=4))
def test_erasing_changes_nothing_but_words(some: list[Event], seqs: list[int]) -> None:
    history = entries([*some, Redacted(tuple(seqs))])
    for projection in ALL[1:]:
        assert folded(projection, erased(history)) == folded(projection, history)
    counts = [astuple(folded(outline, chat))[1:6] for chat in (history, erased(history))]
    assert counts[0] == counts[1]


@given(_chats)
def test_when_everything_is_erased_no_word_is_left(some: list[Event]) -> None:
    history = entries([*some, Redacted(tuple(range(1, len(some) + 1)))])
    state = folded(outline, erased(history))
    assert {state.title, state.preview} <= {"", PLACEHOLDER}


def test_the_title_is_the_given_one_else_the_first_question() -> None:
    asked = [user("Why does\nthe lexer drop newlines?"), assistant(), user("And tabs?")]
    assert folded(outline, entries(asked)).title == "Why does the lexer drop newlines?"
    assert folded(outline, entries([*asked, ChatStarted(title="Lexer")])).title == "Lexer"
    assert folded(outline, entries([ChatStarted(title="Lexer"), *asked])).title == "Lexer"


def test_nothing_but_what_user_and_assistant_said_to_each_other_counts() -> None:
    others = [MessageAdded("system", (Text("be brief"),)), MessageAdded("user", (Text("skill"),), "internal")]
    copied = MessageAdded("assistant", (Text("copied"),), "audit")
    state = folded(outline, entries([user("hello"), *others, assistant("hi"), copied]))
    assert (state.messages, state.turns, state.role, state.preview) == (2, 1, "assistant", "hi")


def test_a_long_text_costs_an_outline_only_its_beginning() -> None:
    state = folded(outline, entries([user("word " * 100_000)]))
    assert len(state.title) == 80
    assert len(state.preview) == 120


# --- lineage ---------------------------------------------------------------------------------------------

_relations: st.SearchStrategy[Event] = st.one_of(
    st.builds(ChatStarted, st.sampled_from(("", "k1", "k2"))),
    st.builds(Forked, st.sampled_from(("parent", "grandparent")), st.integers(-1, 20)),
    st.builds(CheckpointSet, st.sampled_from(("", "before", "after"))),
    st.just(user()),
)


@given(st.lists(_relations, max_size=20))
def test_lineage_is_the_first_key_all_forks_and_the_last_place_of_each_name(some: list[Event]) -> None:
    history = entries(some)
    state = folded(lineage, history)
    pairs = [(entry.seq, entry.event) for entry in history]
    keys = [event.key for _, event in pairs if isinstance(event, ChatStarted) if event.key]
    forks = [Fork(seq, event.parent, event.at) for seq, event in pairs if isinstance(event, Forked)]
    assert state.key == (keys or [""])[0]
    assert state.forks == tuple(fork for fork in forks if 0 <= fork.at < fork.seq)
    assert state.checkpoints == {e.name: seq for seq, e in pairs if isinstance(e, CheckpointSet)}


def test_a_fork_of_a_fork_knows_both_and_the_nearer_one_is_its_parent() -> None:
    history = entries(
        [ChatStarted("k"), user(), Forked("first", 2), CheckpointSet("here"), Forked("second", 3)]
    )
    state = folded(lineage, history)
    assert state.forks == (Fork(3, "first", 2), Fork(5, "second", 3))
    assert state.parent == Fork(5, "second", 3)
    assert Lineage().parent is None


def test_a_checkpoint_that_is_set_again_moves() -> None:
    history = entries([CheckpointSet("a"), CheckpointSet("b"), user(), CheckpointSet("a")])
    assert folded(lineage, history).checkpoints == {"a": 4, "b": 2}


# --- usage -----------------------------------------------------------------------------------------------

_INPUT = ("input_tokens", "prompt_tokens", "input")
_OUTPUT = ("output_tokens", "completion_tokens", "output")
_CACHED = ("cached_tokens", "cached_input_tokens", "cached")
_REASONING = ("reasoning_tokens", "reasoning")
_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
_counts = st.one_of(st.integers(0, 9999), st.sampled_from((-1, 2**53 - 1, 2**53, 10**30)))
_reports = st.dictionaries(
    st.sampled_from((*_INPUT, *_OUTPUT, *_CACHED, *_REASONING, _READ, _WRITTEN, "total_tokens")), _counts
)
_runs = st.sampled_from((None, "r1", "r2"))
_models = st.sampled_from(("gpt", "claude", ""))
_paid: st.SearchStrategy[tuple[str | None, Event]] = st.one_of(
    st.tuples(_runs, st.builds(ModelCalled, _models, st.just("f"))),
    st.tuples(_runs, st.builds(ModelReturned, _reports, error=st.sampled_from(("", "timeout")))),
)


def paid(pairs: list[tuple[str | None, Event]]) -> list[Entry]:
    made = entries(event for _, event in pairs)
    return [replace(entry, run=run) for entry, (run, _) in zip(made, pairs, strict=True)]


def spent(event: ModelReturned) -> TokenCounts:
    """What can be a number of tokens, under the first of its names."""
    good = {name: count for name, count in event.usage.items() if 0 < count < 2**53}

    def first(names: tuple[str, ...]) -> int:
        return [*(good[name] for name in names if name in good), 0][0]

    cache = good.get(_READ, 0) + good.get(_WRITTEN, 0)
    cached = first((_READ, *_CACHED))
    failed = int(event.error != "")
    return TokenCounts(1, failed, first(_INPUT) + cache, first(_OUTPUT), cached, first(_REASONING))


def asked_of(history: list[Entry], seq: int) -> str:
    """The model whose call the entry answers: the last one of its run, if that has not been answered."""
    run = [
        entry.event
        for entry in history[: seq - 1]
        if entry.run == history[seq - 1].run and isinstance(entry.event, ModelCalled | ModelReturned)
    ]
    return run[-1].model if run and isinstance(run[-1], ModelCalled) else ""


@given(st.lists(_paid, max_size=20).map(paid))
def test_usage_is_the_sum_of_what_models_reported(history: list[Entry]) -> None:
    state = folded(usage, history)
    bills = [(e.seq, spent(e.event)) for e in history if isinstance(e.event, ModelReturned)]
    by_model: dict[str, list[TokenCounts]] = {}
    for seq, bill in bills:
        by_model.setdefault(asked_of(history, seq), []).append(bill)
    assert state.total == sum((bill for _, bill in bills), TokenCounts())
    assert state.models == {model: sum(some, TokenCounts()) for model, some in by_model.items()}
    assert (state.at, state.last) == [(0, TokenCounts()), *(bill for bill in bills if bill[1].tokens)][-1]
    assert state.tokens == state.total.input + state.total.output


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (
            {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 60, "reasoning_tokens": 5},
            TokenCounts(1, 0, 100, 20, 60, 5),
        ),
        (
            {"input_tokens": 40, "cache_read_input_tokens": 60, "output_tokens": 20},
            TokenCounts(1, 0, 100, 20, 60),
        ),
        (
            {"input_tokens": 40, "cache_creation_input_tokens": 60, "output_tokens": 20},
            TokenCounts(1, 0, 100, 20),
        ),
        ({}, TokenCounts(1)),
    ],
    ids=["OpenAI", "Anthropic, from the cache", "Anthropic, into the cache", "nothing"],
)
def test_the_names_of_providers_are_understood(report: dict[str, int], expected: TokenCounts) -> None:
    assert folded(usage, entries([ModelReturned(report)])).total == expected


@pytest.mark.parametrize("count", [-1, 0, 2**53, 10**4000 - 1])
def test_a_count_that_cannot_be_one_is_ignored(count: int) -> None:
    state = folded(usage, entries([ModelReturned({"input_tokens": count, "output_tokens": 7})]))
    assert (state.total.input, state.total.output) == (0, 7)


def test_a_call_that_failed_is_counted_as_an_error() -> None:
    state = folded(usage, entries([ModelCalled("gpt", "f"), ModelReturned(error="rate limited")]))
    assert state.models == {"gpt": TokenCounts(calls=1, errors=1)}
    assert state.at == 0


def test_more_models_than_can_be_listed_are_added_up_together() -> None:
    some: list[Event] = []
    for number in range(100):
        some += [ModelCalled(f"model-{number}", "f"), ModelReturned({"input_tokens": 1})]
    state = folded(usage, entries(some))
    assert len(state.models) == 65
    assert state.models["(other models)"] == TokenCounts(calls=36, input=36)
    assert state.total == TokenCounts(calls=100, input=100)


def test_calls_of_runs_that_died_waiting_are_forgotten() -> None:
    history = paid([(f"run-{number}", ModelCalled("gpt", "f")) for number in range(100)])
    assert list(folded(usage, history).asked) == [f"run-{number}" for number in range(84, 100)]


def test_a_run_that_asked_again_is_not_the_first_to_be_forgotten() -> None:
    runs = ["again", *(f"run-{number}" for number in range(15)), "again", "one more"]
    asked = folded(usage, paid([(run, ModelCalled("gpt", "f")) for run in runs])).asked
    assert "again" in asked
    assert "run-0" not in asked


# --- all of them -----------------------------------------------------------------------------------------


@given(st.lists(events(), max_size=12))
def test_any_event_passes_through_all_of_them(some: list[Event]) -> None:
    history = entries(some)
    for projection in ALL:
        state = folded(projection, history)
        assert projection.load(projection.dump(state)) == state
    assert all(number >= 0 for number in astuple(folded(usage, history).total))


@given(st.lists(st.booleans(), max_size=300))
def test_calls_are_counted_and_found_by_their_number(calls: list[bool]) -> None:
    history = entries([ModelCalled("m", "f") if call else user() for call in calls])
    asked = [entry.seq for entry in history if isinstance(entry.event, ModelCalled)]
    state = folded(usage, history)
    assert state.called == len(asked)
    known = of_entries(history)
    assert [known.find(CALLED, number) for number in range(len(asked) + 2)] == [0, *asked, 0]
