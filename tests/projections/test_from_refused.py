"""What is no list of messages is refused, and it is said where and why."""

from typing import Any

import pytest

from chatfold.projections.shapes.anthropic import from_anthropic
from chatfold.projections.shapes.openai import from_openai
from tests.projections.test_from_openai import answering
from tests.projections.test_from_providers import Object, user

ROLES = "'system', 'developer', 'user', 'assistant', 'tool' or 'function'"


def calling(**call: Any) -> list[Object]:
    whole = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}} | call
    return [user(), {"role": "assistant", "tool_calls": [whole]}]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        (None, "messages: expected a list of messages, got None"),
        ("[]", "messages: expected a list of messages, got '[]'"),
        ({"role": "user"}, "messages: expected a list of messages, got dict"),
        (7, "messages: expected a list of messages, got int"),
        ([user(), "b"], "messages[1]: expected an object, got 'b'"),
        ([{}], f"messages[0].role: expected {ROLES}, got None"),
        ([{"role": ["user"]}], f"messages[0].role: expected {ROLES}, got list"),
        ([{"role": "user"}], "messages[0].content: expected a string or a list of parts, got None"),
        ([user(None)], "messages[0].content: expected a string or a list of parts, got None"),
        ([user({"type": "text"})], "messages[0].content: expected a string or a list of parts, got dict"),
        ([user(["hi"])], "messages[0].content[0]: expected an object, got 'hi'"),
        ([user([{}])], "messages[0].content[0].type: expected a string, got None"),
        ([user([{"type": "text"}])], "messages[0].content[0].text: expected a string, got None"),
        (
            [user([{"type": "image_url", "image_url": "x"}])],
            "messages[0].content[0].image_url: expected an object, got 'x'",
        ),
        (
            [user([{"type": "file", "file": {}}])],
            "messages[0].content[0].file.file_data: expected a string, got None",
        ),
        (
            [user([{"type": "input_audio", "input_audio": {"data": b""}}])],
            "messages[0].content[0].input_audio.data: expected a string, got bytes",
        ),
        ([answering("c", None)], "messages[0].content: expected a string or a list of parts, got None"),
        ([{"role": "tool", "content": ""}], "messages[0].tool_call_id: expected a string, got None"),
        ([{"role": "function", "content": ""}], "messages[0].name: expected a string, got None"),
        (
            [{"role": "assistant", "content": None, "refusal": 1}],
            "messages[0].refusal: expected a string, got int",
        ),
        ([{"role": "assistant", "tool_calls": {}}], "messages[0].tool_calls: expected a list, got dict"),
        (calling(id=None), "messages[1].tool_calls[0].id: expected a string, got None"),
        (calling(type="x"), "messages[1].tool_calls[0].type: expected 'function' or 'custom', got 'x'"),
        (calling(function=None), "messages[1].tool_calls[0].function: expected an object, got None"),
        (
            calling(function={"name": None}),
            "messages[1].tool_calls[0].function.name: expected a string, got None",
        ),
        (
            calling(function={"name": "f", "arguments": {}}),
            "messages[1].tool_calls[0].function.arguments: expected a string, got dict",
        ),
        (calling(type="custom"), "messages[1].tool_calls[0].custom: expected an object, got None"),
        (
            [{"role": "assistant", "function_call": "f"}],
            "messages[0].function_call: expected an object, got 'f'",
        ),
        (
            [user(5 * [{"type": "text", "text": 1}])],
            "messages[0].content[0].text: expected a string, got int",
        ),
        ([{"role": "x" * 99}], f"messages[0].role: expected {ROLES}, got a long text"),
    ],
)
def test_what_is_not_a_chat_of_openai_is_refused(messages: Any, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        from_openai(messages)
    assert str(caught.value) == complaint


def result_of(**fields: Any) -> list[Object]:
    return [user([{"type": "tool_result", "tool_use_id": "t"} | fields])]


def spoken(**block: Any) -> list[Object]:
    return [user(), {"role": "assistant", "content": [{"type": "text", "text": "a"}, block]}]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        (None, "messages: expected a list of messages, got None"),
        ([user(), 1], "messages[1]: expected an object, got int"),
        ([{"role": "tool"}], "messages[0].role: expected 'user', 'assistant' or 'system', got 'tool'"),
        ([user(None)], "messages[0].content: expected a string or a list of parts, got None"),
        ([user([None])], "messages[0].content[0]: expected an object, got None"),
        ([user([{"type": 1}])], "messages[0].content[0].type: expected a string, got int"),
        (
            [{"role": "system", "content": 1}],
            "messages[0].content: expected a string or a list of parts, got int",
        ),
        (spoken(type="text"), "messages[1].content[1].text: expected a string, got None"),
        (spoken(type="thinking"), "messages[1].content[1].thinking: expected a string, got None"),
        (
            spoken(type="thinking", thinking="", signature=1),
            "messages[1].content[1].signature: expected a string, got int",
        ),
        (spoken(type="redacted_thinking"), "messages[1].content[1].data: expected a string, got None"),
        (spoken(type="tool_use", id="t"), "messages[1].content[1].name: expected a string, got None"),
        (spoken(type="tool_use", name="f"), "messages[1].content[1].id: expected a string, got None"),
        (spoken(type="image"), "messages[1].content[1].source: expected an object, got None"),
        (
            spoken(type="image", source={"type": "base64", "media_type": "image/png"}),
            "messages[1].content[1].source.data: expected a string, got None",
        ),
        (
            spoken(type="document", title=1, source={}),
            "messages[1].content[1].title: expected a string, got int",
        ),
        (result_of(tool_use_id=None), "messages[0].content[0].tool_use_id: expected a string, got None"),
        (result_of(is_error="no"), "messages[0].content[0].is_error: expected true or false, got 'no'"),
        (
            result_of(content=1),
            "messages[0].content[0].content: expected a string or a list of parts, got int",
        ),
        (
            result_of(content=[{"type": "text"}]),
            "messages[0].content[0].content[0].text: expected a string, got None",
        ),
    ],
)
def test_what_is_not_a_request_to_anthropic_is_refused(messages: Any, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        from_anthropic(messages)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("system", "complaint"),
    [
        (1, "system: expected a string or a list of parts, got int"),
        ([{"type": "text"}], "system[0].text: expected a string, got None"),
    ],
)
def test_what_is_no_system_prompt_is_refused(system: Any, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        from_anthropic([], system)
    assert str(caught.value) == complaint
