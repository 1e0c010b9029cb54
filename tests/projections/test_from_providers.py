"""What clients send as their history, in the shapes of OpenAI and Anthropic, as events: the way back from ``to_*``."""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from histories import entries
from hypothesis import example, given
from hypothesis import strategies as st
from rules import (
    anthropic_types_accept,
    check_anthropic,
    check_openai_chat,
    openai_types_accept,
)
from test_validity import MODELS, histories, prompted

from eventlog import (
    Compacted,
    Data,
    Entry,
    Event,
    File,
    Injected,
    MessageAdded,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from eventlog.values import check
from projections import anthropic, openai_chat
from projections.from_anthropic import from_anthropic
from projections.from_openai import from_openai

Object = dict[str, Any]

PNG = base64.b64encode(b"\x89PNG").decode()
PDF = base64.b64encode(b"%PDF-1.4").decode()


def chat_of(events: Sequence[Event]) -> list[Object]:
    return openai_chat(prompted(entries(events)))


def turns_of(events: Sequence[Event], **whose: str) -> Object:
    return anthropic(prompted(entries(events)), **whose)


def called(*ids: str) -> list[Event]:
    return [ToolCalled(id, "read", {"id": id}) for id in ids]


# --- the way back and forth ------------------------------------------------------------------------------

SUMMED_UP = entries([MessageAdded("user", (Text("a"),)), Compacted(1, 1, 1, "in short"), *called("c1")])
INJECTED = entries([Injected("assistant", "p", (Text("a"),)), *called("c1")])
THOUGHT = entries(
    [
        MessageAdded("assistant", (Text("a"),)),
        MessageAdded("assistant", (Reasoning("hm", "other"),)),
        *called("c1"),
    ]
)
MANY = entries([MessageAdded("assistant", (Text("a"),)), *called(*(f"c{number}" for number in range(130)))])


@example(SUMMED_UP)
@example(INJECTED)
@example(THOUGHT)
@example(MANY)
@given(histories)
def test_a_chat_that_was_sent_to_openai_comes_back_and_is_sent_the_same(history: list[Entry]) -> None:
    sent = openai_chat(prompted(history))
    events = from_openai(sent)
    for event in events:
        check(event, [])  # a log takes it
    assert chat_of(events) == sent


@example(SUMMED_UP)
@example(INJECTED)
@example(THOUGHT)
@example(MANY)
@given(histories)
def test_a_chat_that_was_sent_to_anthropic_comes_back_and_is_sent_the_same(history: list[Entry]) -> None:
    for provider, model in MODELS:
        sent = anthropic(prompted(history), provider=provider, model=model)
        events = from_anthropic(**sent, provider=provider, model=model)
        for event in events:
            check(event, [])
        assert turns_of(events, provider=provider, model=model) == sent


@given(histories)
def test_what_came_from_one_provider_can_be_sent_to_the_other(history: list[Entry]) -> None:
    prompt = prompted(history)
    if sent := chat_of(from_anthropic(**anthropic(prompt))):
        check_openai_chat(sent)
    request = turns_of(from_openai(openai_chat(prompt)))
    if request["messages"]:
        check_anthropic(request)


# --- what comes in is kept -------------------------------------------------------------------------------


def strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from strings(inner)
        case list():
            for inner in value:
                yield from strings(inner)


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
        {key: f if isinstance(f, st.SearchStrategy) else st.just(f) for key, f in {**named, **fields}.items()},
        optional={"later": texts},
    )


def content_of(*parts: st.SearchStrategy[Object]) -> st.SearchStrategy[Any]:
    return texts | st.lists(st.one_of(parts), max_size=3)


chat_parts = (
    shape("text", text=texts),
    shape("refusal", refusal=texts),
    shape("image_url", image_url=shape(url=urls, detail="low")),
    shape("input_audio", input_audio=shape(data=st.sampled_from((PNG, "?")), format=texts)),
    shape("file", file=shape(file_id=texts)),
    shape("file", file=shape(file_data=urls, filename=texts)),
    shape("not_yet_invented", more=values),
)
function = shape(name=texts, arguments=st.sampled_from(("{}", '{"a":1}', "", "{oops")) | texts)
chat_calls = st.lists(
    shape("function", id=ids, function=function) | shape("custom", id=ids, custom=shape(name=texts, input=texts)),
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
    shape("image", source=base64s | shape("url", url=urls) | shape("file", file_id=texts)),
    shape("document", source=base64s | shape("text", media_type="text/plain", data=texts), title=texts),
    shape("server_tool_use", id=ids, name=texts, input=values),
    shape("thinking", thinking=texts, signature=texts),
    shape("redacted_thinking", data=texts),
    shape("tool_use", id=ids, name=texts, input=values),
    shape("tool_result", tool_use_id=ids, content=texts, is_error=st.booleans()),
    shape("tool_result", tool_use_id=ids, content=content_of(shape("text", text=texts), shape("x", y=values))),
)
turns = st.lists(
    shape(role=st.sampled_from(("user", "assistant", "system")), content=content_of(*blocks)), max_size=6
)


def keeps(events: list[Event], sent: Any) -> None:
    """A log takes the events, and they hold every string: as it is, decoded from base64, or within another."""
    for event in events:
        check(event, [])
    held = repr(events)
    for one in strings(sent):
        encoded = one.rpartition(",")[2]
        inside = repr(one)[1:-1] in held or repr(json.loads(one) if one == '{"a":1}' else one)[1:-1] in held
        assert inside or one == "{}" or repr(base64.b64decode(encoded)) in held, one


def without_words_of_the_shape(value: Any) -> Any:
    """The same without what is told by the type of an event or of a part."""
    match value:
        case dict():
            return {
                key: without_words_of_the_shape(inner)
                for key, inner in value.items()
                if key not in ("role", "type", "format", "media_type")
            }
        case list():
            return [without_words_of_the_shape(inner) for inner in value]
    return value


@given(chat)
def test_nothing_of_a_chat_is_lost_and_any_can_be_sent_on(messages: list[Object]) -> None:
    events = from_openai(messages)
    assert len(events) >= len(messages)
    keeps(events, without_words_of_the_shape(messages))
    if sent := chat_of(events):
        check_openai_chat(sent)
    assert chat_of(from_openai(sent)) == sent


@given(turns)
def test_nothing_of_turns_is_lost_and_any_can_be_sent_on(messages: list[Object]) -> None:
    events = from_anthropic(messages)
    assert len(events) >= len(messages)
    keeps(events, without_words_of_the_shape(messages))
    request = turns_of(events)
    if request["messages"]:
        check_anthropic(request)
    assert turns_of(from_anthropic(**request)) == request
