"""Dicts in, dicts out: what providers and their SDKs write is taken wherever a message is, and anything else is refused in words."""

from datetime import UTC, datetime
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.responses import Response

from chatfold import Chat, Data, File, InvalidEvent, Store, Text, ToolCall, assistant, user
from chatfold.agent.messages import events_of
from chatfold.eventlog import MessageAdded, ToolCalled, ToolReturned
from chatfold.projections import from_openai

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
SPOKEN: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "refusal": None,
    "annotations": [],
    "tool_calls": [CALL],
}
COMPLETION: dict[str, Any] = {
    "id": "x", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": SPOKEN}],
}  # fmt: skip
ANTHROPIC = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "tool_use", "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 4},
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s1"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.py"}},
    ],
}  # fmt: skip
RESPONSE = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "gpt", "parallel_tool_calls": True, "tool_choice": "auto",
    "tools": [], "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
        {"type": "message", "id": "m1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "Seven.", "annotations": []}]},
        {"type": "function_call", "id": "f1", "call_id": "c1", "name": "read", "arguments": "{}"},
    ],
}  # fmt: skip


@pytest.fixture
async def chat() -> Chat:
    return await Store.memory().chat("chat")


@pytest.mark.parametrize(
    "given",
    [
        SPOKEN,
        ChatCompletionMessage.model_validate(SPOKEN),
        COMPLETION,
        ChatCompletion.model_validate(COMPLETION),
    ],
    ids=["dict", "object", "whole dict", "whole object"],
)
async def test_an_answer_of_openai_is_recorded_as_it_came(chat: Chat, given: Any) -> None:
    await chat.user("Read it.")
    [entry] = await chat.record(given)
    assert entry.event == ToolCalled("c1", "read", {"path": "a.py"}) == from_openai([SPOKEN])[0]
    sent = (await chat.messages("openai"))[1]["tool_calls"]
    assert [(call["id"], call["function"]["name"]) for call in sent] == [("c1", "read")]


@pytest.mark.parametrize(
    "given", [ANTHROPIC, AnthropicMessage.model_validate(ANTHROPIC)], ids=["dict", "object"]
)
async def test_an_answer_of_anthropic_goes_back_with_its_thoughts_and_without_its_usage(
    chat: Chat, given: Any
) -> None:
    await chat.user("Read it.")
    await chat.record(given)
    await chat.record(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "text"}]}
    )
    _, answer, result = (await chat.messages("anthropic", model="claude"))["messages"]
    assert answer == {"role": "assistant", "content": ANTHROPIC["content"]}
    assert result["content"][0]["tool_use_id"] == "t1"


@pytest.mark.parametrize("given", [RESPONSE, Response.model_validate(RESPONSE)], ids=["dict", "object"])
async def test_a_response_is_recorded_item_by_item(chat: Chat, given: Any) -> None:
    await chat.user("How many?")
    entries = await chat.record(given)
    assert [type(entry.event) for entry in entries] == [MessageAdded, ToolCalled]
    types = [item.get("type", "message") for item in await chat.messages("openai-responses", model="gpt")]
    assert types[:4] == ["message", "reasoning", "message", "function_call"]


async def test_events_and_dicts_are_recorded_as_one(chat: Chat) -> None:
    one, two, three = await chat.record(
        user("Hi"), {"role": "assistant", "content": "Hello"}, assistant("Well?")
    )
    assert [one.batch, two.batch, three.batch] == ["1/3", "2/3", "3/3"]
    assert two.event == assistant("Hello")


async def test_a_history_of_dicts_is_merged(chat: Chat) -> None:
    history: list[Any] = [
        {"role": "user", "content": "Hi"},
        ChatCompletionMessage(role="assistant", content="Hello"),
    ]
    assert len(await chat.merge(history)) == 2
    assert await chat.merge(history) == []
    assert len(await chat.merge([*history, {"role": "user", "content": "And?"}])) == 1


async def test_content_is_what_providers_write(chat: Chat) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    await chat.user("What is", {"type": "text", "text": "this?"}, File("image/png", b"x"), image)
    [message] = await chat.messages("openai")
    assert [part["type"] for part in message["content"]] == ["text", "text", "image_url", "image_url"]
    assert message["content"][3] == image  # with what our parts have no place for


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("hi", "a value of type str is no message"),
        (None, "a value of type NoneType is no message"),
        ([{"role": "user", "content": "x"}], "a list is no message: record(*messages), or merge(messages)"),
        ({"content": "hi"}, "a message without a role"),
        ({"type": "human", "content": "hi"}, "a message without a role: a dict with 'content', 'type'"),
        ({"role": "bogus", "content": "hi"}, "messages[0].role: expected 'system'"),
        ({**COMPLETION, "choices": COMPLETION["choices"] * 2}, "a reply with no message, or with several"),
    ],
    ids=repr,
)
async def test_what_is_no_message_is_refused_and_nothing_is_written(
    chat: Chat, given: Any, words: str
) -> None:
    with pytest.raises(InvalidEvent) as refused:
        await chat.record(user("one"), given)
    assert words in str(refused.value)
    assert chat.seq == 0


@pytest.mark.parametrize("given", ["a text", b"bytes", {"role": "user", "content": "one message"}], ids=repr)
async def test_what_is_no_list_of_messages_is_not_merged(chat: Chat, given: Any) -> None:
    with pytest.raises(InvalidEvent, match="expected a list of messages"):
        await chat.merge(given)


@pytest.mark.parametrize("content", [(), ("",), ("", "")], ids=repr)
async def test_a_message_of_the_user_without_content_is_refused(chat: Chat, content: tuple[str, ...]) -> None:
    with pytest.raises(InvalidEvent, match="without content"):
        await chat.user(*content)
    assert chat.seq == 0


@pytest.mark.parametrize("content", [7, b"bytes", {"role": "assistant", "content": "x"}], ids=repr)
async def test_what_is_no_content_is_refused_where_it_is_given(content: Any) -> None:
    with pytest.raises(InvalidEvent):
        user(content)


# --- tools ---------------------------------------------------------------------------------------------------


async def test_arguments_may_be_the_text_that_openai_writes(chat: Chat) -> None:
    assert (await chat.tool_call("read", '{"path": "a.py"}')).args == {"path": "a.py"}
    assert (await chat.tool_call("read", {"path": "a.py"})).args == {"path": "a.py"}
    assert [(await chat.tool_call("say", text)).args for text in ("hello", "5", "")] == ["hello", "5", ""]


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("text", (Text("text"),)),
        ({"a": [1, None]}, (Data("json", {"a": [1, None]}),)),
        ([1, 2], (Data("json", [1, 2]),)),
        (0, (Data("json", 0),)),
        (None, ()),
        (File("image/png", b"x"), (File("image/png", b"x"),)),
        ([Text("a"), Text("b")], (Text("a"), Text("b"))),
        (
            ChatCompletionMessage(role="assistant", content="x"),
            (Data("json", {"role": "assistant", "content": "x"}),),
        ),
    ],
    ids=repr,
)
def test_a_result_is_any_json(value: Any, parts: tuple[Any, ...]) -> None:
    assert ToolCall("c1", "read").result(value) == ToolReturned("c1", parts)


def test_a_result_that_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="a value of type object is no result"):
        ToolCall("c1", "read").result(object())


# --- when it was said ----------------------------------------------------------------------------------------


async def test_an_entry_says_when_it_was_said(chat: Chat) -> None:
    spoken = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    entries = [
        await chat.user("Hi", said_at=spoken),
        *await chat.record({"role": "assistant", "content": "Hello"}, user("So?"), said_at=spoken),
        await chat.assistant("Well."),
    ]
    assert [entry.said_at for entry in entries] == [1767323045000] * 3 + [None]


def test_nothing_is_lost_of_a_dict_that_events_have_no_word_for() -> None:
    [event] = events_of([{"type": "web_search_call", "id": "ws_1", "status": "completed"}])
    assert isinstance(event, MessageAdded)
    assert isinstance(event.parts[0], Data)
