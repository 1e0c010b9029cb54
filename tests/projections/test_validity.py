"""Whatever was recorded, in whatever order and up to whatever point, providers take what is made of it.

The histories are dense in what goes wrong. What nobody but the embedder's own system messages may put into a system
role carries the mark ``SAID``, what is recorded for the audit alone carries ``AUDIT``, and a thought says whose it is.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise, product
from typing import Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chatfold.eventlog import (
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Data,
    Entry,
    Event,
    File,
    Injected,
    Json,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Part,
    Reasoning,
    Rewound,
    RunFinished,
    RunStarted,
    SendRequested,
    SkillActivated,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.projections import (
    STANDARD,
    Message,
    View,
    contexts,
    estimate,
    fold,
    messages,
    start,
    to_anthropic,
    to_openai,
    to_openai_responses,
)
from chatfold.projections.contexts import window
from chatfold.projections.cutting import cut, tokens_of
from chatfold.projections.prompt import Prompt, build, first_difference
from chatfold.projections.spans import includes
from chatfold.testing.strategies import events, values
from tests.support.histories import entries
from tests.support.oracles.rules import (
    anthropic_types_accept,
    check_anthropic,
    check_openai_chat,
    check_openai_responses,
    openai_types_accept,
    responses_types_accept,
)
from tests.support.profile import searched

SAID, AUDIT = "<said>", "<audit>"
MODELS = (("openai", "gpt"), ("anthropic", "claude"), ("openai", "claude"), ("", ""))
CONTROLS = (
    Compacted,
    CompactionReverted,
    ContextOpened,
    ContextSwitched,
    ContextCleared,
    Rewound,
    Injected,  # it stands before the question that is being answered, which was sent before
)

T = TypeVar("T")


# --- histories -------------------------------------------------------------------------------------------

_WORDS = (
    *("", " ", "\n\t", "Why?", "Because. \n", "日本語、🎈", "half \ud83d", "\udc00\ud800", "\0"),
    "long " * 300,
)
_MEDIA = (
    *("image/png", "image/webp", "audio/wav", "audio/mpeg", "application/pdf") * 2,
    *("image/tiff", "image/PNG", "text/plain", "application/pdf;v=1", "", "\ud800/é", "a;base64,b"),
)
_NAMES = ("", "a.png", "report", ".pdf", "\ud800.pdf", " \n")
_URLS = (
    *("", "https://example.org/a?b#c", "http://example.org") * 3,
    *("http://", "https:///etc", "https://?", "file:///etc/passwd", "javascript:alert(1)", "//example.org"),
    *("https://exa mple.org", "https://exämple.org", "https://e\n", "HTTPS://E", "data:image/png,AA=="),
)
_ARGS: tuple[Json, ...] = (
    *(None, {}, {"path": SAID}, [1], "half \ud800", '{"broken": ', 3, True, 10**400, -(2**64)),
    *(math.nan, b"\xff", {"nan": [math.nan, -math.inf], "bytes": {"": b"\0"}, "\udfff": "\ud800"}),
)
_IDS = (*("c1",) * 5, *("c2",) * 3, "", "call_3", "no id!", "\ud800", "é", "x" * 200, "y" * 50)
_TOOLS = ("read", "read", "server:tool", "", "検索", "n" * 300, "a b", "\ud800", f"{SAID}:tool", "read\n")


def _any(kind: Callable[..., T], *fields: Iterable[Any]) -> st.SearchStrategy[T]:
    """One with any of these fields: listed beforehand, since a single choice is quick and shrinks well."""
    return st.sampled_from([kind(*some) for some in product(*fields)])


def _mix(*kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One of them; what is named twice comes twice as often, which ``one_of`` does not promise."""
    return st.sampled_from(range(len(kinds))).flatmap(kinds.__getitem__)


def _thought(text: str, whose: tuple[str, str], *fields: Any) -> Reasoning:
    return Reasoning(text and f"<thought of {'/'.join(whose)}>{text}", *whose, *fields)


_thoughts = _any(
    _thought,
    ("hm", "", " ", "\ud800"),
    MODELS,
    (*("signed",) * 4, "", "\ud800"),
    (*("rs_1", "rs_2", "rs_3") * 3, "", "rs_é", "msg_1", "rs_" * 30),
    (False, False, True),
)
_args = st.sampled_from(_ARGS) | values
_data = st.builds(Data, st.just("chart"), _args)


@cache
def _parts(mark: str) -> st.SearchStrategy[tuple[Part, ...]]:
    texts = _any(Text, [mark + text if text.strip() else text for text in _WORDS])
    files = _any(File, _MEDIA, (b"%PDF-1.4", b"\0\xff" * 50, b""), (*_NAMES, f"{mark}.pdf"), _URLS)
    return st.lists(_mix(texts, texts, texts, _thoughts, files, _data), max_size=4).map(tuple)


def _said(*roles: str, mark: str = SAID, origin: str = "exec") -> st.SearchStrategy[Event]:
    return st.builds(MessageAdded, st.sampled_from(roles), _parts(mark), st.just(origin))


_answers = st.builds(
    lambda thoughts, said: MessageAdded("assistant", (*thoughts, *said)),
    st.lists(_thoughts, max_size=2),
    _parts(SAID),
)
_calls = st.builds(ToolCalled, st.sampled_from(_IDS), st.sampled_from(_TOOLS), _args)
_results = st.builds(ToolReturned, st.sampled_from(_IDS), _parts(SAID), st.booleans())
_requests = st.just(ModelCalled("gpt", ""))
_injected = st.builds(
    lambda role, mark, parts: Injected(role, mark, (Text(SAID), *parts)),
    *map(st.sampled_from, (("system", "developer", "user", "assistant"), "pq")),
    _parts(SAID),
)
_shown = _mix(
    _said("system", "developer", mark=""),
    _said("user", "assistant", origin="internal"),
    _any(ContextRecalled, ("a", "main"), ("full", "recent"), (SAID,)),
)
_hidden = _mix(
    _said("user", "assistant", "system", "developer", mark=AUDIT, origin="audit"),
    st.sampled_from((RunStarted("a"), RunFinished("cancelled", AUDIT), ModelReturned(error=AUDIT))),
    st.sampled_from((Noted("n", AUDIT), SkillActivated("s", text=AUDIT), Unknown("x", b'{"type":"x"}'))),
    st.just(SendRequested("s", (Text(AUDIT),))),
)


def _steps(pattern: str, answer: Event, user: Event, call: ToolCalled, result: ToolReturned) -> list[Event]:
    """Some steps of a run: an answer, a user's word, two calls and their results, requests to the model."""
    result = replace(result, call=call.call)
    steps: dict[str, Event] = {"a": answer, "u": user, "c": call, "r": result, "m": ModelCalled("gpt", "")}
    steps |= {"C": replace(call, call="other"), "R": replace(result, call="other")}
    return [steps[letter] for letter in pattern]


_PATTERNS = (
    *(
        "u",
        "a",
        "ua",
        "uma",
        "umacr",
        "acrm",
        "acrma",
        "acCRrm",
        "acCrRma",
        "uacCRmr",
        "acmr",
        "acmar",
        "acurm",
    ),
    *("c", "rc", "crr", "cCr", "acrR", "acCurR", "acCruR", "acarC", "accrr", "acrcr", "acrmcrm", "aam", "mm"),
)
_runs = st.builds(_steps, st.sampled_from(_PATTERNS), _answers, _said("user"), _calls, _results)
_events = _mix(
    _calls, _results, _said("user"), _answers, _requests, _injected, _shown, _hidden, events()
).map(lambda event: [event])

_back = st.sampled_from((*range(1, 7), *range(1, 7), 0, -1, 9, 15, 30, 10**30))
_carry = st.lists(_back, max_size=4).map(tuple)
_contexts = st.sampled_from(("a", "b", "main", "main-7", ""))
_compactions = st.builds(Compacted, _back, _back, st.just(0), st.just(SAID))
_controls = _mix(
    *(_compactions,) * 4,
    st.builds(CompactionReverted, _back),
    st.builds(ContextOpened, _contexts, st.just(SAID), st.just(SAID), _carry),
    st.builds(ContextSwitched, _contexts, _carry),
    st.builds(ContextSwitched, _contexts, _carry),
    st.builds(ContextCleared, st.just(SAID), _carry),
    st.builds(Rewound, _back),
).map(lambda event: [event])


def _placed(so_far: Sequence[Event]) -> list[Entry]:
    """The entries of a history in which seqs are told as distances back, so that it can shrink."""

    def at(seq: int, event: Event) -> Event:
        match event:
            case Compacted(first=first, last=last):
                first, last = sorted((seq - first, seq - last))
                return replace(event, first=first, last=last)
            case ContextOpened(carry=carry) | ContextSwitched(carry=carry) | ContextCleared(carry=carry):
                return replace(event, carry=tuple(seq - back for back in carry))
            case CompactionReverted(seq=back):
                return CompactionReverted(seq - back)
            case Rewound(to=back):
                return Rewound(seq - back)
        return event

    return entries(at(seq, event) for seq, event in enumerate(so_far, 1))


def _histories(*kinds: st.SearchStrategy[list[Event]]) -> st.SearchStrategy[list[Entry]]:
    some = st.lists(_mix(*kinds), max_size=4) | st.lists(_mix(*kinds), min_size=5, max_size=14)
    return some.map(lambda pieces: _placed([event for piece in pieces for event in piece]))


histories = _histories(_runs, _runs, _runs, _events, _events, _controls)
within_a_context = _histories(_runs, _runs, _runs, _events).map(
    lambda history: entries(entry.event for entry in history if not isinstance(entry.event, CONTROLS))
)


# --- what is made of them --------------------------------------------------------------------------------


def viewed(history: Sequence[Entry]) -> View:
    return fold(start(STANDARD), history)


def prompted(history: Sequence[Entry]) -> tuple[Message, ...]:
    return messages(viewed(history), history)


def shapes(prompt: Sequence[Message]) -> Iterator[tuple[str, tuple[str, str], Any]]:
    """What every provider would be sent: the shape, for which provider and model, and the request."""
    yield "chat", ("", "nobody"), to_openai(prompt)
    for provider, model in MODELS:
        yield "responses", (provider, model), to_openai_responses(prompt, provider=provider, model=model)
        yield "anthropic", (provider, model), to_anthropic(prompt, provider=provider, model=model)


def check(prompt: Sequence[Message]) -> None:
    """Providers take it, unless there is nothing to send."""
    for kind, _, request in shapes(prompt):
        if kind == "anthropic":
            word = [{"role": "user", "content": "so that there is a message"}]
            check_anthropic({**request, "messages": request["messages"] or word})
        elif request and kind == "chat":
            check_openai_chat(request)
        elif request:
            check_openai_responses(request)


def all_texts(kind: str, request: Any, *roles: str) -> list[str]:
    """The texts of these roles, as they are sent; ``system`` is Anthropic's own, too."""
    if kind == "anthropic":
        system = [block["text"] for block in request.get("system", ())] if "system" in roles else []
        return system + all_texts("turns", request["messages"], *roles)
    found = []
    for message in request:
        if message.get("role") in roles:
            content = message["content"]
            parts = [{"text": content}] if isinstance(content, str) else content
            found += [part["text"] for part in parts if "text" in part]
    return found


# --- the properties --------------------------------------------------------------------------------------


@searched(7)
@given(history=histories, crash=st.integers(0, 45), most=st.integers(0, 6), tokens=st.integers(0, 900))
def test_every_shape_obeys_its_providers_rules(
    history: list[Entry], crash: int, most: int, tokens: int
) -> None:
    for some in (history, history[:crash]):
        prompt = prompted(some)
        check(prompt)
        check(cut(prompt, most=most).messages)
        check(cut(prompt, tokens=tokens).messages)


@given(history=histories)
def test_the_official_types_accept_every_shape(history: list[Entry]) -> None:
    prompt = prompted(history)
    openai_types_accept(to_openai(prompt))
    for provider, model in MODELS:
        responses_types_accept(to_openai_responses(prompt, provider=provider, model=model))
        anthropic_types_accept(to_anthropic(prompt, provider=provider, model=model))


@given(history=histories)
def test_every_call_is_answered_once_and_right_after_it(history: list[Entry]) -> None:
    prompt = prompted(history)
    for one, other in pairwise((*prompt, Message("user", ()))):
        assert bool(one.calls) == (other.role == "tool")
        assert [call.seq for call in one.calls] == [result.call for result in other.results]
    calls = [call.seq for message in prompt for call in message.calls]
    results = [result.seq for message in prompt for result in message.results if result.seq]
    assert len(calls) == len(set(calls))
    assert len(results) == len(set(results))
    assert not prompt or prompt[0].role != "tool"


@given(history=histories)
def test_only_the_entries_of_the_window_are_read(history: list[Entry]) -> None:
    view = viewed(history)
    needed = window(view[contexts], view.seq).entries
    read = [entry for entry in history if includes(needed, entry.seq)]
    prompt = messages(view, read)
    assert prompt == messages(view, history)
    seqs = [seq for message in prompt for seq in message.seqs]
    assert len(seqs) == len(set(seqs))
    assert set(seqs) <= {entry.seq for entry in read}


@given(history=histories)
def test_a_prompt_that_goes_on_is_the_one_that_is_built_from_nothing(history: list[Entry]) -> None:
    view = start(STANDARD)
    prompt = build(window(view[contexts], 0), ())
    for entry in history:
        before, view = view[contexts], view.then(entry)
        anew = build(window(view[contexts], view.seq), history[: view.seq])
        leaves = before.active is view[contexts].active and before.since == view[contexts].since
        earlier, sent = prompt, prompt.messages
        prompt = prompt.then([entry]) if leaves else anew
        assert prompt.messages == anew.messages
        assert Prompt(earlier._block).messages == sent


@given(history=histories)
def test_an_estimate_that_is_kept_with_a_message_is_its_estimate(history: list[Entry]) -> None:
    for message in prompted(history):
        anew = tokens_of(message, lambda text: 0 + estimate(text))  # a count that is not kept
        assert tokens_of(message) == tokens_of(message) == anew


@given(history=histories)
def test_nothing_but_an_embedders_own_messages_is_in_a_system_role(history: list[Entry]) -> None:
    for kind, _, request in shapes(prompted(history)):
        assert not [text for text in all_texts(kind, request, "system", "developer") if SAID in text]


@given(history=histories)
def test_what_is_recorded_for_the_audit_is_never_sent(history: list[Entry]) -> None:
    for _, _, request in shapes(prompted(history)):
        assert AUDIT not in json.dumps(request, ensure_ascii=False)


@given(history=histories)
def test_a_thought_is_sent_to_the_model_that_had_it_and_to_no_other(history: list[Entry]) -> None:
    for _, whose, request in shapes(prompted(history)):
        thoughts = re.findall("<thought of ([^>]*)>", json.dumps(request, ensure_ascii=False))
        assert set(thoughts) <= {"/".join(whose)}


@given(history=histories)
def test_requests_are_strict_json_in_utf_8(history: list[Entry]) -> None:
    for _, _, request in shapes(prompted(history)):
        written = json.dumps(request, ensure_ascii=False, allow_nan=False).encode()
        assert json.loads(written) == request


@given(history=histories)
def test_what_the_user_wrote_is_sent_as_it_was_written(history: list[Entry]) -> None:
    view = viewed(history)
    seen = window(view[contexts], view.seq).spans
    wrote = [
        part.text
        for entry in history
        if includes(seen, entry.seq) and isinstance(entry.event, MessageAdded)
        if entry.event.role == "user" and entry.event.origin != "audit"
        for part in entry.event.parts
        if isinstance(part, Text) and part.text.strip() and not re.search("[\ud800-\udfff]", part.text)
    ]
    for kind, _, request in shapes(messages(view, history)):
        sent = iter(all_texts(kind, request, "user"))
        assert all(text in sent for text in wrote)  # in this order


# --- what has been sent stays as it was ------------------------------------------------------------------


def requests(history: Sequence[Entry]) -> list[tuple[int, tuple[Message, ...]]]:
    """What was sent right before every ``model_called``, with its seq, and what would be sent now."""
    called = [entry.seq for entry in history if isinstance(entry.event, ModelCalled)]
    return [(seq, prompted(history[: seq - 1])) for seq in (*called, len(history) + 1)]


@searched(2)
@given(history=within_a_context)
def test_a_later_request_begins_with_the_earlier_one(history: list[Entry]) -> None:
    for (_, sent), (_, then) in pairwise(requests(history)):
        assert then[: len(sent)] == sent
        for (kind, _, one), (_, _, other) in zip(shapes(sent), shapes(then), strict=True):
            if kind == "anthropic":
                assert one.get("system") == other.get("system") or not one["messages"]
                assert other["messages"][: len(one["messages"])] == one["messages"]
            else:
                assert other[: len(one)] == one


@given(history=histories)
def test_only_context_events_change_what_was_sent_and_the_first_change_is_named(history: list[Entry]) -> None:
    for (seq, sent), (next_seq, then) in pairwise(requests(history)):
        changed = any(isinstance(entry.event, CONTROLS) for entry in history[seq - 1 : next_seq - 1])
        assert changed or then[: len(sent)] == sent
        for one, other in ((sent, then), (to_openai(sent), to_openai(then))):
            place = first_difference(one, other)
            same = len(one) if place is None else place
            assert one[:same] == other[:same]
            if place is None:
                assert len(one) == len(other)
            else:
                assert one[place : place + 1] != other[place : place + 1]
