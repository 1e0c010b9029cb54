"""What ``from_openai`` makes of the chats that clients send, by example."""

from typing import Any

import pytest

from chatfold.eventlog import Data, Event, File, Text, ToolCalled, ToolReturned
from chatfold.projections.shapes.openai import from_openai
from tests.projections.test_from_providers import PDF, PNG, Object, chat_of, returned, said, user
from tests.support.oracles.rules import check_openai_chat, openai_types_accept


def asking(*ids: str, content: Any = None) -> Object:
    calls = [{"id": c, "type": "function", "function": {"name": "read", "arguments": "{}"}} for c in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def answering(call: str, content: Any = "ok") -> Object:
    return {"role": "tool", "tool_call_id": call, "content": content}


def test_a_chat_of_openai_becomes_events_that_say_what_it_says() -> None:
    weather = {"name": "weather", "arguments": '{"city":"Bern"}'}
    messages: list[Object] = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "Rain?"}]},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": weather},
                {"id": "call_2", "type": "custom", "custom": {"name": "sql", "input": "select 1"}},
            ],
        },
        answering("call_1", "sunny"),
        answering("call_2", [{"type": "text", "text": "1"}, {"type": "text", "text": "row"}]),
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not say."}]},
    ]
    openai_types_accept(messages)
    events = from_openai(messages)
    assert events == [
        said("developer", "be brief"),
        said("user", "Rain?", openai={"form": "list", "message": {"name": "ann"}}),
        said("assistant", "I look."),
        ToolCalled("call_1", "weather", {"city": "Bern"}),
        ToolCalled("call_2", "sql", "select 1", {"openai": {"call": {"type": "custom"}}}),
        returned("call_1", "sunny"),
        returned("call_2", "1", "row", openai={"form": "list"}),
        said("assistant", "I will not say.", openai={"parts": {"0": {"type": "refusal"}}, "form": "list"}),
    ]
    check_openai_chat(chat_of(events))


def test_an_answer_is_taken_as_the_package_dumps_it() -> None:
    from openai.types.chat import ChatCompletionMessage

    answer = {**asking("c1"), "annotations": [], "audio": None}
    dumped = ChatCompletionMessage.model_validate(answer).model_dump()
    assert dumped["refusal"] is dumped["function_call"] is None
    assert from_openai([dumped]) == [ToolCalled("c1", "read", {})]
    refused = ChatCompletionMessage(role="assistant", refusal="No.").model_dump()
    assert from_openai([refused]) == [said("assistant", "No.", openai={"parts": {"0": {"type": "refusal"}}})]


def test_functions_that_were_called_without_ids_are_answered_by_name() -> None:
    messages: list[Object] = []
    for name, result in (("f", "1"), ("g", None), ("f", "2")):
        call = {"name": name, "arguments": "{}"}
        messages.append({"role": "assistant", "content": None, "function_call": call})
        messages.append({"role": "function", "name": name, "content": result})
    openai_types_accept(messages)
    events = from_openai([*messages, {"role": "function", "name": "h", "content": "3"}])
    assert events == [
        ToolCalled("function_1", "f", {}),
        returned("function_1", "1"),
        ToolCalled("function_2", "g", {}),
        returned("function_2"),
        ToolCalled("function_3", "f", {}),
        returned("function_3", "2"),
        returned("h", "3"),
    ]
    assert [message.get("content") for message in chat_of(events)] == [
        None,
        "1",
        None,
        "(no output)",
        None,
        "2",
    ]


@pytest.mark.parametrize(
    ("written", "args"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("[1]", [1]),
        ("null", None),
        ("", None),
        (" \n", None),
        ("{oops", "{oops"),
        ('{"a": NaN}', '{"a": NaN}'),
        ("1e999", "1e999"),
        ("\ud800", "\ud800"),
        (f"{10**30}", 10**30),
        ("9" * 5000, "9" * 5000),
        ("[" * 200 + "]" * 200, "[" * 200 + "]" * 200),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_arguments_are_decoded_if_a_log_can_hold_them(written: str, args: Any) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": written}}
    events = from_openai([{"role": "assistant", "tool_calls": [call]}, answering("c")])
    assert events[0] == ToolCalled("c", "f", args)
    check_openai_chat(chat_of(events))


def test_what_else_a_call_says_is_kept() -> None:
    signed = {"google": {"thought_signature": "s"}}
    message = asking("c1")
    message["tool_calls"][0]["extra_content"] = signed
    message["reasoning_content"] = "hm"
    meta = {"openai": {"call": {"extra_content": signed}, "message": {"reasoning_content": "hm"}}}
    assert from_openai([message]) == [ToolCalled("c1", "read", {}, meta)]


@pytest.mark.parametrize(
    ("part", "file"),
    [
        ({"image_url": {"url": f"data:image/png;base64,{PNG}"}}, File("image/png", b"\x89PNG")),
        ({"image_url": {"url": f"data:image/jpg;base64,{PNG}"}}, File("image/jpeg", b"\x89PNG")),
        ({"image_url": {"url": "data:image/png;base64,?"}}, File("image/png", url="data:image/png;base64,?")),
        (  # base64 of the same bytes, but not as it is written
            {"image_url": {"url": "data:image/png;base64,iVBORx=="}},
            File("image/png", url="data:image/png;base64,iVBORx=="),
        ),
        ({"image_url": {"url": "data:image/gif,x"}}, File("image/gif", url="data:image/gif,x")),
        (
            {"image_url": {"url": "https://a.b/c.JPG?d.e#f"}},
            File("image/jpeg", url="https://a.b/c.JPG?d.e#f"),
        ),
        ({"image_url": {"url": "https://a.b/c"}}, File("image/png", url="https://a.b/c")),
        ({"input_audio": {"data": PNG, "format": "mp3"}}, File("audio/mpeg", b"\x89PNG")),
        ({"input_audio": {"data": PNG, "format": "wav"}}, File("audio/wav", b"\x89PNG")),
        (
            {"file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"}},
            File("application/pdf", b"%PDF-1.4", "a.pdf"),
        ),
        ({"file": {"file_data": PDF, "filename": "A.PDF"}}, File("application/pdf", b"%PDF-1.4", "A.PDF")),
        ({"file": {"file_data": PDF}}, File("application/octet-stream", b"%PDF-1.4")),
        ({"file": {"file_id": "file-1"}}, None),
        ({"file": {"file_data": "?"}}, None),
        ({"input_audio": {"data": "?", "format": "wav"}}, None),
        ({"video_url": {"url": "https://a.b/c"}}, None),
    ],
)
def test_files_of_openai(part: Object, file: File | None) -> None:
    whole = {"type": next(iter(part)), **part}
    assert from_openai([user([whole])]) == [said("user", file or Data("openai", whole))]


def test_how_an_image_is_to_be_looked_at_is_kept() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://a.b/c.png", "detail": "low"}}
    kept = {"parts": {"1": {"image_url": {"detail": "low"}}}}
    image = File("image/png", url="https://a.b/c.png")
    text = {"type": "text", "text": "look"}
    assert from_openai([user([text, part])]) == [said("user", "look", image, openai=kept)]


def test_that_a_result_failed_is_not_told_by_openai() -> None:
    events: list[Event] = [ToolCalled("c", "read"), ToolReturned("c", (Text("no"),), failed=True)]
    assert from_openai(chat_of(events)) == [ToolCalled("c", "read", {}), returned("c", "Error: no")]


# --- who answers what ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        # an id that comes again is paired in order, and gets another name
        (
            [asking("c"), answering("c", "1"), asking("c"), answering("c", "2")],
            [("c", None), ("c", "1"), ("call_3_2", None), ("call_3_2", "2")],
        ),
        (
            [asking("c", "c"), answering("c", "1"), answering("c", "2"), answering("c", "3")],
            [("c call_2_2", None), ("c", "1"), ("call_2_2", "2")],
        ),
        ([answering("lost"), user(), answering("lost")], [("", "hi")]),
        # a step that was split
        (
            [asking("a"), asking("b"), answering("b", "1"), answering("a", "2")],
            [("a b", None), ("b", "1"), ("a", "2")],
        ),
        # calls that were given up
        (
            [asking("a"), user("never mind"), asking("b"), answering("b")],
            [("a", None), ("a", "Error: Interrupted"), ("", "never mind"), ("b", None), ("b", "ok")],
        ),
        (
            [asking(content="wait"), asking("a"), answering("a")],
            [("", "wait"), ("a", None), ("a", "ok")],
        ),
        ([asking(), user(""), asking(content=""), user([])], []),
    ],
)
def test_calls_and_results_find_each_other(
    messages: list[Object], sent: list[tuple[str, str | None]]
) -> None:
    shown = [
        (
            " ".join(call["id"] for call in message.get("tool_calls", ())) or message.get("tool_call_id", ""),
            message["content"].partition(": no result")[0] if "content" in message else None,
        )
        for message in chat_of(from_openai(messages))
    ]
    assert shown == sent


def test_nothing_said_is_nothing_sent() -> None:
    assert from_openai([]) == []
    assert from_openai([user("")]) == from_openai([user([])]) == [said("user")]
    assert chat_of([said("user")]) == []
