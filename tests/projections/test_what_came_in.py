"""What came in goes out: a provider's own messages, written again in its shape, are what was read.

The strategies make what providers and their clients really send, with fields that nobody here knows. What has two
spellings is compared in one: a field that is null or empty says nothing, arguments are JSON, and what Anthropic calls a
shorthand (a string for one block of text, two turns of one role for one) is written out.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import Event
from chatfold.projections import (
    from_anthropic,
    from_openai,
    from_openai_responses,
    to_anthropic,
    to_openai,
    to_openai_responses,
)
from tests.golden.test_requests import KNOWN
from tests.projections.test_validity import prompted
from tests.support.histories import entries

Object = dict[str, Any]

PNG, PDF = (base64.b64encode(data).decode() for data in (b"\x89PNG", b"%PDF-1.4"))
texts = st.sampled_from(("hi", "Error: no", "two\nlines", "日本 🎈", "x" * 600))
names = st.sampled_from(("alice", "bob_2", "c-d"))
tools = st.sampled_from(("read", "web_search", "get-weather"))
plain = st.dictionaries(texts, st.integers() | texts | st.lists(st.booleans(), max_size=2), max_size=2)
unknown = st.dictionaries(
    st.sampled_from(("later", "x_more")),
    texts | st.just({"deep": {"er": [1]}}),
    max_size=2,
)


def shape(type: str | None = None, /, **fields: Any) -> st.SearchStrategy[Object]:
    """An object with these fields, and maybe some that nobody here knows."""
    named = {} if type is None else {"type": type}
    known = st.fixed_dictionaries(
        {k: f if isinstance(f, st.SearchStrategy) else st.just(f) for k, f in {**named, **fields}.items()}
    )
    return st.builds(lambda more, ours: {**more, **ours}, unknown, known)


def maybe(field: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    return values.map(lambda value: {field: value}) | st.just({})


def joined(*some: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    return st.tuples(*some).map(lambda found: {key: value for one in found for key, value in one.items()})


def stored(events: list[Event]) -> list[Event]:
    """As a log gives them back."""
    return [msgspec.json.decode(msgspec.json.encode(event), type=KNOWN) for event in events]


def without_nothing(value: Any) -> Any:
    """Without the fields that are null or empty."""
    match value:
        case dict():
            shown = {key: without_nothing(inner) for key, inner in value.items()}
            return {key: inner for key, inner in shown.items() if inner not in (None, [], {})}
        case list():
            return [without_nothing(inner) for inner in value]
    return value


# --- Chat Completions ------------------------------------------------------------------------------------

_text_part = shape("text", text=texts)
_image = shape(
    "image_url",
    image_url=joined(
        st.sampled_from((f"data:image/png;base64,{PNG}", "https://a.b/c.png")).map(lambda url: {"url": url}),
        maybe("detail", st.just("low")),
    ),
)
_sound = shape("input_audio", input_audio=st.just({"data": PNG, "format": "wav"}))
_pdf = shape("file", file=st.just({"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"}))
_file_id = shape("file", file=st.just({"file_id": "file-1"}))
_user_parts = st.lists(st.one_of(_text_part, _image, _sound, _pdf, _file_id), min_size=1, max_size=3)
_content = texts | st.lists(_text_part, min_size=1, max_size=2)
_function = st.builds(
    lambda name, args: {"name": name, "arguments": json.dumps(args)},
    tools,
    st.dictionaries(texts, texts, max_size=2),
)


@st.composite
def chats(draw: Callable[[Any], Any]) -> list[Object]:
    """A history as a client sends it."""
    messages: list[Object] = []
    if draw(st.booleans()):
        messages.append(draw(joined(shape(role="system", content=_content), maybe("name", names))))
    ids = (f"call_{number}" for number in count(1))
    for _ in range(draw(st.integers(0, 3))):
        messages.append(draw(joined(shape(role="user", content=texts | _user_parts), maybe("name", names))))
        for _ in range(draw(st.integers(0, 2))):
            messages += draw(_calling(ids))
        messages.append(draw(_said))
    return messages


_extras = joined(
    maybe("reasoning_content", texts),
    maybe("annotations", st.just([]) | st.just([{"type": "url_citation"}])),
    maybe("audio", st.none()),
    maybe("name", names),
)
_said = joined(shape(role="assistant", content=_content, refusal=None), _extras) | shape(
    role="assistant", content=None, refusal=texts
)


def _calling(ids: Iterator[str]) -> st.SearchStrategy[list[Object]]:
    """An assistant's calls, and their results in any order."""

    @st.composite
    def some(draw: Callable[[Any], Any]) -> list[Object]:
        signed = maybe("extra_content", st.just({"google": {"thought_signature": "c2ln"}}))
        called = [next(ids) for _ in range(draw(st.integers(1, 3)))]
        calls = [
            draw(joined(shape("function", id=call, function=_function), signed))
            if draw(st.integers(0, 3))
            else {"id": call, "type": "custom", "custom": {"name": draw(tools), "input": draw(texts)}}
            for call in called
        ]
        says = draw(
            joined(shape(role="assistant", content=st.none() | _content, tool_calls=st.just(calls)), _extras)
        )
        answers = [
            draw(joined(shape(role="tool", tool_call_id=call, content=_content), maybe("name", tools)))
            for call in draw(st.permutations(called))
        ]
        return [says, *answers]

    return some()


def with_arguments(messages: list[Object]) -> list[Object]:
    """The messages with the arguments of their calls decoded: how they are spaced is nobody's."""
    shown: list[Object] = json.loads(json.dumps(messages))
    for message in shown:
        for call in message.get("tool_calls", ()):
            if "function" in call:
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return shown


@given(chats())
def test_what_a_client_of_openai_sends_is_sent_to_openai(messages: list[Object]) -> None:
    events = stored(from_openai(messages))
    sent = to_openai(prompted(entries(events)))
    assert with_arguments(sent) == with_arguments(without_nothing(messages))


@given(chats())
def test_what_only_openai_understands_is_not_sent_to_anthropic(messages: list[Object]) -> None:
    events = from_openai(messages)
    bare = from_openai(only_known(messages))
    assert to_anthropic(prompted(entries(events))) == to_anthropic(prompted(entries(bare)))


def only_known(value: Any) -> Any:
    more = ("later", "x_more", "extra_content", "reasoning_content", "annotations", "name", "detail")
    match value:
        case {"name": name, "arguments": _} | {"name": name, "input": _}:
            return {**value, "name": name}
        case dict():
            return {key: only_known(inner) for key, inner in value.items() if key not in more}
        case list():
            return [only_known(inner) for inner in value]
    return value


# --- Anthropic -------------------------------------------------------------------------------------------

_mark = maybe("cache_control", st.just({"type": "ephemeral"}))
_block_text = shape("text", text=texts)
_source = st.sampled_from(
    (
        {"type": "base64", "media_type": "image/png", "data": PNG},
        {"type": "url", "url": "https://a.b/c.png"},
        {"type": "file", "file_id": "f"},
    )
)
_image_block = shape("image", source=_source)
_document = joined(
    shape(
        "document",
        source=st.sampled_from(
            (
                {"type": "base64", "media_type": "application/pdf", "data": PDF},
                {"type": "url", "url": "https://a.b/c"},
                {"type": "text", "media_type": "text/plain", "data": "日本"},
                {"type": "file", "file_id": "f"},
                {"type": "content", "content": "hi"},
            )
        ),
    ),
    maybe("title", texts.filter(lambda text: len(text) < 500)),
    maybe("citations", st.just({"enabled": True})),
)
_user_blocks = st.lists(st.one_of(_block_text, _image_block, _document), min_size=1, max_size=3)
_thoughts = st.lists(
    shape("thinking", thinking=texts, signature=texts) | shape("redacted_thinking", data=texts), max_size=2
)
_cited = joined(_block_text, maybe("citations", st.just([{"type": "char_location", "cited_text": "a"}])))


@st.composite
def turns(draw: Callable[[Any], Any]) -> Object:
    """The system text and the turns of a request."""
    request: Object = {}
    if draw(st.booleans()):
        request["system"] = draw(st.lists(_block_text, min_size=1, max_size=2))
    messages: list[Object] = []
    ids = count(1)
    for _ in range(draw(st.integers(0, 3))):
        messages.append({"role": "user", "content": draw(texts | _user_blocks)})
        for _ in range(draw(st.integers(0, 2))):
            used = [f"toolu_{next(ids)}" for _ in range(draw(st.integers(1, 3)))]
            messages.append({"role": "assistant", "content": draw(_thoughts) + draw(_calls(used))})
            answers = [draw(_answer(call)) for call in draw(st.permutations(used))]
            messages.append(
                {"role": "user", "content": answers + (draw(_user_blocks) if draw(st.booleans()) else [])}
            )
        messages.append({"role": "assistant", "content": draw(_thoughts) + draw(_searching(next(ids)))})
    request["messages"] = messages
    if blocks := [
        block for turn in messages if isinstance(turn["content"], list) for block in turn["content"]
    ]:
        for block in draw(st.lists(st.sampled_from(blocks), max_size=4)):
            if block["type"] not in ("thinking", "redacted_thinking"):
                block["cache_control"] = {"type": "ephemeral"}
    return request


@st.composite
def _calls(draw: Callable[[Any], Any], used: list[str]) -> list[Object]:
    """Calls, with words before, between and after them."""
    blocks = []
    for call in used:
        blocks += draw(st.lists(_cited, max_size=1))
        blocks.append(draw(shape("tool_use", id=call, name=tools, input=plain)))
    return [*blocks, *draw(st.lists(_cited, max_size=1))]


@st.composite
def _searching(draw: Callable[[Any], Any], number: int) -> list[Object]:
    """An answer for which the provider itself may have searched."""
    if draw(st.booleans()):
        return [draw(_cited)]
    call = f"srvtoolu_{number}"
    found = [{"type": "web_search_result", "url": "https://a.b", "encrypted_content": "x"}]
    return [
        draw(shape("server_tool_use", id=call, name="web_search", input={"query": "a"})),
        draw(shape("web_search_tool_result", tool_use_id=call, content=st.just(found))),
        draw(_cited),
    ]


def _answer(call: str) -> st.SearchStrategy[Object]:
    texts_only = shape("tool_result", tool_use_id=call, content=texts, is_error=st.just(True))
    blocks = st.lists(st.one_of(_block_text, _image_block, _document), max_size=2)
    return texts_only | shape("tool_result", tool_use_id=call, content=texts | blocks)


def written_out(request: Object) -> Object:
    """Strings as the blocks that they are short for, and turns of one role as the one that they are."""
    request = json.loads(json.dumps(request))
    merged: list[Object] = []
    for turn in request["messages"]:
        content = blocks_of(turn["content"])
        for block in content:
            if block["type"] == "tool_result" and "content" in block:
                block["content"] = blocks_of(block["content"])
        if merged and merged[-1]["role"] == turn["role"]:
            merged[-1]["content"] += content
        else:
            merged.append({"role": turn["role"], "content": content})
    return {**request, "messages": merged}


def blocks_of(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@given(turns())
def test_what_a_client_of_anthropic_sends_is_sent_to_anthropic(request: Object) -> None:
    events = stored(from_anthropic(**request, model="claude"))
    sent = to_anthropic(prompted(entries(events)), model="claude")
    assert written_out(sent) == without_nothing_but_inputs(written_out(request))


def without_nothing_but_inputs(value: Any) -> Any:
    """An empty input, or no messages, say something."""
    match value:
        case dict():
            shown = {
                key: inner if key == "input" else without_nothing_but_inputs(inner)
                for key, inner in value.items()
            }
            return {k: v for k, v in shown.items() if v not in (None, [], {}) or k in ("input", "messages")}
        case list():
            return [without_nothing_but_inputs(inner) for inner in value]
    return value


# --- Responses -------------------------------------------------------------------------------------------

_input_text = shape("input_text", text=texts)
_input_image = shape(
    "input_image", image_url=f"data:image/png;base64,{PNG}", detail=st.sampled_from(("auto", "low"))
) | shape("input_image", file_id="file-1", detail="auto")
_input_file = shape("input_file", file_data=f"data:application/pdf;base64,{PDF}", filename="a.pdf")
_inputs = st.lists(st.one_of(_input_text, _input_image, _input_file), min_size=1, max_size=3)
_stored = joined(maybe("id", st.just("x_1")), maybe("status", st.just("completed")))
_written = shape("output_text", text=texts, annotations=st.just([]))


@st.composite
def inputs(draw: Callable[[Any], Any]) -> list[Object]:
    """The items that a client keeps: what it said, and what the model gave it."""
    items: list[Object] = []
    numbers = count(1)
    if draw(st.booleans()):
        items.append(
            draw(shape("message", role="developer", content=st.lists(_input_text, min_size=1, max_size=1)))
        )
    for _ in range(draw(st.integers(0, 3))):
        items.append(draw(shape("message", role="user", content=texts | _inputs)))
        for _ in range(draw(st.integers(0, 2))):
            items += draw(_responding(numbers))
        items += [draw(_said_item), *draw(st.lists(_said_item, max_size=1))]
    return items


_said_item = joined(
    shape("message", role="assistant", content=texts | st.lists(_written, min_size=1, max_size=1)),
    maybe("phase", st.just("commentary")),
    _stored,
)
_searched = joined(shape("web_search_call", action=st.just({"type": "search", "query": "a"})), _stored)


@st.composite
def _responding(draw: Callable[[Any], Any], numbers: Iterator[int]) -> list[Object]:
    """Reasoning, what the provider's own tools did, and calls with their outputs in any order."""
    calls = [f"call_{next(numbers)}" for _ in range(draw(st.integers(1, 2)))]
    summary = draw(st.lists(texts.map(lambda text: {"type": "summary_text", "text": text}), max_size=2))
    thought = {"type": "reasoning", "id": f"rs_{next(numbers)}", "summary": summary, "encrypted_content": "x"}
    items = [thought] if draw(st.booleans()) else []
    items += draw(st.lists(_searched, max_size=1)) + draw(st.lists(_said_item, max_size=1))
    custom = draw(st.booleans())
    for call in calls:
        items.append(draw(joined(_custom(call) if custom else _calls_function(call), _stored)))
    items += draw(st.lists(_said_item, max_size=1))
    kind = "custom_tool_call_output" if custom else "function_call_output"
    for call in draw(st.permutations(calls)):
        items.append(draw(joined(shape(kind, call_id=call, output=texts | _inputs), _stored)))
    return items


def _custom(call: str) -> st.SearchStrategy[Object]:
    return shape("custom_tool_call", call_id=call, name=tools, input=texts)


def _calls_function(call: str) -> st.SearchStrategy[Object]:
    arguments = st.dictionaries(texts, texts, max_size=2).map(json.dumps)
    return shape("function_call", call_id=call, name=tools, arguments=arguments)


def as_sent(items: list[Object]) -> list[Object]:
    """Without what is not sent, and with strings written out; what an assistant said is its text."""
    shown = []
    for given_item in items:
        unsaid = () if given_item["type"] in ("reasoning", "web_search_call") else ("id", "status")
        item = {key: value for key, value in given_item.items() if key not in unsaid}
        if item["type"] == "message" and item["role"] != "assistant":
            item["content"] = text_of_input(item["content"])
        elif item["type"] == "message" and isinstance(item["content"], list):
            item["content"] = item["content"][0]["text"]
        if "arguments" in item:
            item["arguments"] = json.loads(item["arguments"])
        shown.append(item)
    return shown


def text_of_input(content: Any) -> Any:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


@given(inputs())
def test_what_a_client_of_responses_sends_is_sent_to_responses(items: list[Object]) -> None:
    events = stored(from_openai_responses(items, model="gpt"))
    sent = to_openai_responses(prompted(entries(events)), model="gpt")
    assert without_nothing(as_sent(sent)) == without_nothing(as_sent(items))


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ("hi", "input: expected a list of items, got 'hi'"),
        ([{"type": "message", "role": "tool", "content": "a"}], "input[0].role: expected"),
        ([{"type": "function_call", "call_id": "c"}], "input[0].arguments: expected a string, got None"),
        ([{"type": 3}], "input[0].type: expected a string"),
    ],
)
def test_what_is_no_list_of_items_is_refused_with_its_place(items: Any, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        from_openai_responses(items)
