"""What clients send as their history, in the shapes of OpenAI and Anthropic, as events: the way back from ``to_*``."""

import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from chatfold.eventlog import (
    Compacted,
    Entry,
    Event,
    Injected,
    MessageAdded,
    Part,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.values import validate_event
from chatfold.projections import to_anthropic, to_openai
from chatfold.projections.shapes.anthropic import from_anthropic
from chatfold.projections.shapes.openai import from_openai
from tests.projections.test_validity import MODELS, histories, prompted
from tests.support.histories import entries
from tests.support.oracles.rules import check_anthropic, check_openai_chat

Object = dict[str, Any]

PNG = base64.b64encode(b"\x89PNG").decode()
PDF = base64.b64encode(b"%PDF-1.4").decode()


def chat_of(events: Sequence[Event]) -> list[Object]:
    return to_openai(prompted(entries(events)))


def turns_of(events: Sequence[Event], **whose: str) -> Object:
    return to_anthropic(prompted(entries(events)), **whose)


def user(content: Any = "hi") -> Object:
    return {"role": "user", "content": content}


def said(role: Any, *parts: Part | str, **meta: Any) -> MessageAdded:
    return MessageAdded(role, tuple(Text(p) if isinstance(p, str) else p for p in parts), meta=meta)


def returned(call: str, *texts: str, **meta: Any) -> ToolReturned:
    return ToolReturned(call, tuple(map(Text, texts)), meta=meta)


def called(*ids: str) -> list[Event]:
    return [ToolCalled(call, "read", {"call": call}) for call in ids]


# --- the way back and forth ------------------------------------------------------------------------------

SUMMED_UP = entries([said("user", "a"), Compacted(1, 1, 1, "in short"), *called("c1")])
INJECTED = entries([Injected("assistant", "p", (Text("a"),)), *called("c1")])
THOUGHT = entries([said("assistant", "a"), said("assistant", Reasoning("hm", "other")), *called("c1")])
MANY = entries([said("assistant", "a"), *called(*(f"c{number}" for number in range(130)))])


@example(SUMMED_UP)
@example(INJECTED)
@example(THOUGHT)
@example(MANY)
@given(histories)
def test_a_chat_that_was_sent_to_openai_comes_back_and_is_sent_the_same(history: list[Entry]) -> None:
    sent = to_openai(prompted(history))
    events = from_openai(sent)
    for event in events:
        validate_event(event, [])  # a log takes it
    assert chat_of(events) == sent


@example(SUMMED_UP)
@example(INJECTED)
@example(THOUGHT)
@example(MANY)
@given(histories)
def test_a_chat_that_was_sent_to_anthropic_comes_back_and_is_sent_the_same(history: list[Entry]) -> None:
    for provider, model in MODELS:
        sent = to_anthropic(prompted(history), provider=provider, model=model)
        events = from_anthropic(**sent, provider=provider, model=model)
        for event in events:
            validate_event(event, [])
        assert turns_of(events, provider=provider, model=model) == sent


@given(histories)
def test_what_came_from_one_provider_can_be_sent_to_the_other(history: list[Entry]) -> None:
    prompt = prompted(history)
    if sent := chat_of(from_anthropic(**to_anthropic(prompt))):
        check_openai_chat(sent)
    request = turns_of(from_openai(to_openai(prompt)))
    if request["messages"]:
        check_anthropic(request)


# --- what comes in is kept -------------------------------------------------------------------------------


texts = st.sampled_from(("", " ", "hi", "Error: no", "日本 🎈", "\0\u2028", "\ud800")) | st.text(max_size=6)
ids = st.sampled_from(("c1", "c2", "", "no id!"))
urls = st.sampled_from(
    (
        "https://example.org/a.gif?b#c",
        f"data:image/png;base64,{PNG}",
        f"data:image/png;base64,{PNG}=",
        "data:image/png;base64,",
        "data:,hi",
        "blob:1",
        "",
    )
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda inner: st.dictionaries(texts, inner, max_size=2)
)


def shape(type: str | None = None, /, **fields: Any) -> st.SearchStrategy[Object]:
    """An object with these fields, and maybe one that nobody knows."""
    named = {} if type is None else {"type": type}
    return st.fixed_dictionaries(
        {
            key: f if isinstance(f, st.SearchStrategy) else st.just(f)
            for key, f in {**named, **fields}.items()
        },
        optional={"later": texts},
    )


def content_of(*parts: st.SearchStrategy[Object]) -> st.SearchStrategy[Any]:
    return texts | st.lists(st.one_of(parts), max_size=3)


chat_parts = (
    shape("text", text=texts),
    shape("refusal", refusal=texts),
    shape("image_url", image_url=shape(url=urls, detail="low")),
    shape("input_audio", input_audio=shape(data=st.sampled_from((PNG, "?")), format=texts)),
    shape("file", file=shape(file_id="file-1")),
    shape("file", file=shape(file_data=urls, filename=texts)),
    shape("not_yet_invented", more=values),
)
function = shape(name=texts, arguments=st.sampled_from(('{"a":"b"}', "{oops", "")))
chat_calls = st.lists(
    shape("function", id=ids, function=function)
    | shape("custom", id=ids, custom=shape(name=texts, input=texts)),
    max_size=3,
)
chat = st.lists(
    st.one_of(
        shape(role=st.sampled_from(("user", "system", "developer")), content=content_of(*chat_parts)),
        shape(role="assistant", content=st.none() | content_of(*chat_parts), tool_calls=chat_calls),
        shape(role="assistant", content=None, refusal=texts, function_call=function),
        shape(role="tool", tool_call_id=ids, content=content_of(*chat_parts)),
        shape(role="function", name=texts, content=st.none() | texts),
    ),
    max_size=6,
)
base64s = shape("base64", data=st.sampled_from((PNG, "?")), media_type=st.sampled_from(("image/png", "a/b")))
blocks = (
    shape("text", text=texts, cache_control=shape("ephemeral")),
    shape("image", source=base64s | shape("url", url=urls) | shape("file", file_id="file-1")),
    shape("document", source=base64s | shape("text", media_type="text/plain", data=texts), title=texts),
    shape("server_tool_use", id=ids, name=texts, input=values),
    shape("thinking", thinking=texts, signature=texts),
    shape("redacted_thinking", data=texts),
    shape("tool_use", id=ids, name=texts, input=values),
    shape("tool_result", tool_use_id=ids, content=texts, is_error=st.booleans()),
    shape(
        "tool_result", tool_use_id=ids, content=content_of(shape("text", text=texts), shape("x", y=values))
    ),
)
turns = st.lists(
    shape(role=st.sampled_from(("user", "assistant", "system")), content=content_of(*blocks)), max_size=6
)


def leaves(value: Any) -> Iterator[str | bytes]:
    """The strings and bytes, but for those that say nothing."""
    match value:
        case str() | bytes() if value.strip():
            yield value
        case dict():
            for inner in value.values():
                yield from leaves(inner)
        case list() | tuple():
            for inner in value:
                yield from leaves(inner)


def meant(value: Any) -> Any:
    """What is sent without what an event says in another way: base64, JSON, and of what kind a thing is."""
    match value:
        case {"type": "text", "data": data}:
            return {**value, "type": "", "data": data.encode("utf-8", "surrogatepass")}
        case {"role": "function", "name": _, **others}:
            return meant(others)  # it is told by the id of the call
        case dict():
            shown = {key: meant(inner) for key, inner in value.items()}
            return {key: inner for key, inner in shown.items() if key not in ("role", "type", "format")}
        case list():
            return [meant(inner) for inner in value]
        case str() if value in (PNG, f"data:image/png;base64,{PNG}"):
            return base64.b64decode(PNG)
        case '{"a":"b"}':
            return {"a": "b"}
    return value


def missing(events: list[Event], sent: list[Object]) -> Counter[str | bytes]:
    """What was sent and is not in the events, or not as often."""
    for event in events:
        validate_event(event, [])  # a log takes it
    held = [msgspec.to_builtins(event, builtin_types=(bytes,)) for event in events]
    return Counter(leaves(meant(sent))) - Counter(leaves(held))


def known(value: Any) -> Any:
    """Without what only a provider can know: a later field, and parts of a type that nobody has invented yet."""
    match value:
        case dict():
            return {key: known(inner) for key, inner in value.items() if key != "later"}
        case list():
            return [
                known(inner)
                for inner in value
                if not (
                    isinstance(inner, dict)
                    and inner.get("type") in ("not_yet_invented", "server_tool_use", "x", "custom")
                )
            ]
    return value


@given(chat)
def test_nothing_of_a_chat_is_lost_and_any_can_be_sent_on(messages: list[Object]) -> None:
    events = from_openai(messages)
    assert len(events) >= len(messages)
    assert not missing(events, messages)
    sent = chat_of(events)
    assert chat_of(from_openai(sent)) == sent
    if ours := chat_of(from_openai(known(messages))):
        check_openai_chat(ours)
    if (request := turns_of(events))["messages"]:
        check_anthropic(request)


@given(turns)
def test_nothing_of_turns_is_lost_and_any_can_be_sent_on(messages: list[Object]) -> None:
    events = from_anthropic(messages)
    assert len(events) >= len(messages)
    assert not missing(events, messages)
    request = turns_of(events)
    assert turns_of(from_anthropic(**request)) == request
    if (ours := turns_of(from_anthropic(known(messages))))["messages"]:
        check_anthropic(ours)
    if sent := chat_of(events):
        check_openai_chat(sent)
