"""What ``from_anthropic`` makes of the requests that clients send, by example."""

import pytest

from chatfold.eventlog import Data, File, MessageAdded, Reasoning, Text, ToolCalled, ToolReturned
from chatfold.projections.shapes.anthropic import from_anthropic
from tests.projections.test_from_providers import PDF, PNG, Object, returned, said, turns_of, user
from tests.support.oracles.rules import anthropic_types_accept

CACHED = {"cache_control": {"type": "ephemeral"}}


def using(*ids: str) -> Object:
    blocks = [{"type": "tool_use", "id": c, "name": "read", "input": {}} for c in ids]
    return {"role": "assistant", "content": blocks}


def test_turns_of_anthropic_become_events_that_say_what_they_say() -> None:
    result = [
        {"type": "text", "text": "sunny"},
        {"type": "image", "source": {"type": "url", "url": "https://a/b"}},
    ]
    request: Object = {
        "system": [{"type": "text", "text": "be brief"}, {"type": "text", "text": "be kind", **CACHED}],
        "messages": [
            user("Rain?"),
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "sealed"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Bern"}},
                    {"type": "tool_use", "id": "t2", "name": "sql", "input": {}, **CACHED},
                ],
            },
            user(
                [
                    {"type": "tool_result", "tool_use_id": "t1", "content": result},
                    {"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": True, **CACHED},
                    {"type": "text", "text": "and?", **CACHED},
                ]
            ),
            {"role": "system", "content": "hurry"},
        ],
    }
    anthropic_types_accept(request)
    assert from_anthropic(**request, model="claude") == [
        said("system", "be brief"),
        said("system", "be kind", anthropic={"parts": {"0": CACHED}}),
        said("user", "Rain?"),
        said(
            "assistant",
            Reasoning("hm", "anthropic", "claude", "sig"),
            Reasoning("", "anthropic", "claude", "sealed", redacted=True),
            "I look.",
        ),
        ToolCalled("t1", "weather", {"city": "Bern"}),
        ToolCalled("t2", "sql", {}, {"anthropic": {"call": CACHED}}),
        ToolReturned("t1", (Text("sunny"), File("image/png", url="https://a/b"))),
        ToolReturned("t2", (Text("no"),), failed=True, meta={"anthropic": {"result": CACHED}}),
        said("user", "and?", anthropic={"parts": {"0": CACHED}}),
        said("system", "hurry"),
    ]


def test_a_message_is_taken_as_anthropics_package_dumps_it() -> None:
    from anthropic.types import Message

    usage = {"input_tokens": 1, "output_tokens": 2}
    content = [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}]
    answer = {"id": "m", "type": "message", "model": "claude", "usage": usage, "stop_sequence": None}
    dumped = Message.model_validate(
        {**answer, "role": "assistant", "content": content, "stop_reason": "tool_use"}
    ).model_dump()
    first, call = from_anthropic([dumped])
    assert isinstance(first, MessageAdded)
    assert (first.parts, call) == ((Text("hi"),), ToolCalled("t", "f", {}))
    kept = first.meta["anthropic"]["message"]
    assert (kept["id"], kept["model"], kept["stop_reason"]) == ("m", "claude", "tool_use")


def source(kind: str, **fields: str) -> Object:
    return {"source": {"type": kind, **fields}}


@pytest.mark.parametrize(
    ("block", "file"),
    [
        (
            {"type": "image", **source("base64", media_type="image/png", data=PNG)},
            File("image/png", b"\x89PNG"),
        ),
        (
            {"type": "image", **source("url", url="https://a.b/c.webp")},
            File("image/webp", url="https://a.b/c.webp"),
        ),
        (
            {"type": "document", "title": "t", **source("base64", media_type="application/pdf", data=PDF)},
            File("application/pdf", b"%PDF-1.4", "t"),
        ),
        (
            {"type": "document", **source("url", url="https://a.b/c")},
            File("application/pdf", url="https://a.b/c"),
        ),
        (
            {"type": "document", **source("text", media_type="text/plain", data="日本")},
            File("text/plain", "日本".encode()),
        ),
        ({"type": "document", **source("content", content="hi")}, None),
        ({"type": "image", **source("file", file_id="f")}, None),
        ({"type": "image", **source("base64", media_type="image/png", data="?")}, None),
        ({"type": "search_result", "title": "t", "content": [], "source": "s"}, None),
        ({"type": "tool_use", "id": "t", "name": "f", "input": {}}, None),  # not the user's to say
    ],
)
def test_files_of_anthropic(block: Object, file: File | None) -> None:
    [event] = from_anthropic([user([block])])
    assert isinstance(event, MessageAdded)
    assert event.parts == (file or Data("anthropic", block),)


def test_what_the_assistant_says_after_its_calls_is_said_before_them() -> None:
    turn = using("t")
    turn["content"].append({"type": "text", "text": "so"})
    server = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    turn["content"].append(server)
    events = from_anthropic([user(), turn])
    assert events[1:] == [
        said("assistant", "so", Data("anthropic", server)),
        ToolCalled("t", "read", {}, {"anthropic": {"at": 0}}),
    ]


def test_words_before_a_result_wait_for_it() -> None:
    words, result = {"type": "text", "text": "hm"}, {"type": "tool_result", "tool_use_id": "t"}
    events = from_anthropic([user(), using("t"), user([words, result])])
    assert events[2:] == [said("user", "hm"), returned("t")]
    assert [turn["content"][0]["type"] for turn in turns_of(events)["messages"]] == [
        *("text", "tool_use", "tool_result", "text")
    ]


def test_the_same_model_is_sent_its_thoughts_and_no_other() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    turn = {"role": "assistant", "content": [thought, {"type": "text", "text": "so"}]}
    events = from_anthropic([user(), turn], "be brief", model="claude")
    assert turns_of(events, model="claude")["messages"][1] == turn
    assert turns_of(events, model="other")["messages"][1]["content"] == turn["content"][1:]


def test_a_step_keeps_its_place_with_anthropic_too() -> None:
    wait = {"role": "assistant", "content": [{"type": "text", "text": "wait"}]}
    result = {"type": "tool_result", "tool_use_id": "a"}
    messages = [user([{"type": "text", "text": "hi"}]), wait, using("a"), user([result])]
    events = from_anthropic(messages)
    assert events[2:] == [said("assistant"), ToolCalled("a", "read", {}), returned("a")]
    assert turns_of(events) == {"messages": messages}


def test_nothing_said_is_nothing_sent() -> None:
    assert from_anthropic([]) == from_anthropic([], "") == from_anthropic([], []) == []
    assert from_anthropic([user("")]) == from_anthropic([user([])]) == [said("user")]
    assert turns_of([said("user")]) == {"messages": []}
