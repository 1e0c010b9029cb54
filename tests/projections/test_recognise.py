"""Messages in whatever shape they come."""

from typing import Any

import pytest
from hypothesis import assume, given

from chatfold.projections import from_anthropic, from_messages, from_openai, from_openai_responses, from_ui
from chatfold.projections.shapes.recognise import shape_name
from tests.projections.test_what_came_in import Object, chats, inputs, turns

USED: Object = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
UI: Object = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
HI: Object = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("messages", "shape"),
    [
        ([], "openai"),
        ([HI], "openai"),
        ([HI, {"role": "assistant", "content": None, "tool_calls": []}], "openai"),
        ([UI], "ui"),
        ([HI, USED], "anthropic"),
        ([{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}]}], "anthropic"),
        ([HI, {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}], "openai-responses"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}], "openai-responses"),
    ],
)
def test_a_shape_is_recognised_by_what_only_it_has(messages: list[Object], shape: str) -> None:
    assert shape_name(messages) == shape


def test_the_reader_of_the_shape_reads_them() -> None:
    assert from_messages([UI]) == from_ui([UI])
    assert from_messages(iter([HI, USED])) == from_anthropic([HI, USED])


@given(chats())
def test_a_chat_of_openai_is_taken_for_one(messages: list[Object]) -> None:
    assert from_messages(messages) == from_openai(messages)


@given(turns())
def test_turns_of_anthropic_are_taken_for_such_if_they_show_it(request: Object) -> None:
    assume(shape_name(request["messages"]) != "openai")
    assert from_messages(request["messages"], model="m") == from_anthropic(request["messages"], model="m")


@given(inputs())
def test_items_of_responses_are_taken_for_such_if_they_show_it(items: list[Object]) -> None:
    assume(shape_name(items) != "openai")
    assert from_messages(items, model="m") == from_openai_responses(items, model="m")


@pytest.mark.parametrize("given_instead", ["hi", {"role": "user"}, [3]])
def test_what_is_no_list_of_messages_is_refused(given_instead: Any) -> None:
    with pytest.raises(ValueError, match="messages"):
        from_messages(given_instead)
