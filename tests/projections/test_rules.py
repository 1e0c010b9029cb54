"""The checkers themselves: each takes what providers take, and for each rule there is something that it refuses."""

import ast
import json
import math
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.support import oracles
from tests.support.oracles.rules import (
    anthropic_types_accept,
    check_anthropic,
    check_openai_chat,
    check_openai_responses,
    check_ui_messages,
    openai_types_accept,
    responses_types_accept,
)

Bad = tuple[str, int, Any]
"""The rule that is broken, the index of the message that breaks it, and what is checked."""

PNG, PDF = "data:image/png;base64,aGk=", "data:application/pdf;base64,aGk="

# Chat Completions

HI = {"role": "user", "content": "hi"}


def asks(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": list(parts)}]


def calls(*ids: Any, name: Any = "f", arguments: Any = "{}", **more: Any) -> Any:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "tool_calls": [{"id": id_, "type": "function", "function": function} for id_ in ids],
        **more,
    }


def answer(id_: Any, content: Any = "done") -> Any:
    return {"role": "tool", "tool_call_id": id_, "content": content}


GOOD_CHAT = [
    {"role": "system", "content": "be kind"},
    {"role": "developer", "content": [{"type": "text", "text": "be short"}], "name": "me"},
    *asks(
        {"type": "text", "text": "é 🎈"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ),
    calls("1", "2", content=None, arguments='{"a": [1, "é"]}'),
    answer("2", ""),
    answer("1", [{"type": "text", "text": "it is"}]),
    {"role": "system", "content": "one more thing"},
    calls("3", content="wait", refusal=None),
    answer("3"),
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    HI,
    {"role": "assistant", "content": [{"type": "text", "text": "bye"}]},
]

BAD_CHAT: list[Bad] = [
    ("there is a message", 0, []),
    ("a message is an object", 1, [HI, "hi"]),
    ("the role is known", 0, [{"role": "function", "name": "f", "content": "a"}]),
    ("the name of a participant", 0, [{**HI, "name": "a b"}]),
    ("a required key is there", 0, [{"role": "user"}]),
    ("no key is there that the provider does not know", 1, [HI, {**answer("1"), "name": "f"}]),
    ("an assistant that calls no tool says something", 1, [HI, {"role": "assistant", "content": ""}]),
    ("a refusal is a text", 0, [{"role": "assistant", "content": "a", "refusal": 1}]),
    (
        "a refusal stands alone",
        0,
        [
            {
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "a"}, {"type": "text", "text": "b"}],
            }
        ],
    ),
    ("content is a text, or parts", 0, asks()),
    ("content is a text, or parts", 0, [{"role": "user", "content": None}]),
    ("a part is of a type that this role may have", 0, asks({"type": "video"})),
    (
        "a part is of a type that this role may have",
        1,
        [calls("1"), answer("1", [{"type": "image_url", "image_url": {"url": PNG}}])],
    ),
    ("the text of a part is a text", 0, asks({"type": "text", "text": None})),
    (
        "the refusal of a part is a text",
        0,
        [{"role": "assistant", "content": [{"type": "refusal", "refusal": 1}]}],
    ),
    ("there are 1 to 128 tool calls", 0, [calls(content="a")]),
    ("there are 1 to 128 tool calls", 0, [calls(*map(str, range(129)))]),
    (
        "a tool call is of type function",
        0,
        [{**HI, "role": "assistant", "tool_calls": [{**calls("1")["tool_calls"][0], "type": "custom"}]}],
    ),
    ("the id of a tool call has 1 to 40", 0, [calls("i" * 41), answer("i" * 41)]),
    ("the id of a tool call has 1 to 40", 0, [calls(""), answer("")]),
    ("no two tool calls share an id", 0, [calls("1", "1"), answer("1")]),
    ("no two tool calls share an id", 2, [calls("1"), answer("1"), calls("1"), answer("1")]),
    ("the name of a function", 0, [calls("1", name="a.b"), answer("1")]),
    ("the name of a function", 0, [calls("1", name="n" * 65), answer("1")]),
    ("arguments are the JSON of an object", 0, [calls("1", arguments=""), answer("1")]),
    ("arguments are the JSON of an object", 0, [calls("1", arguments={}), answer("1")]),
    ("arguments are the JSON of an object", 0, [calls("1", arguments="[]"), answer("1")]),
    ("numbers are finite", 0, [calls("1", arguments='{"a": NaN}'), answer("1")]),
    ("texts have no half of a surrogate pair", 0, [calls("1", arguments='{"a": "\\ud800"}'), answer("1")]),
    ("a tool message answers a call before it", 1, [HI, answer("1")]),
    ("a tool message answers a call before it", 0, [answer("1"), calls("1"), answer("1")]),
    ("a tool call is answered once", 2, [calls("1"), answer("1"), answer("1")]),
    ("tool calls are answered before anything else", 2, [calls("1", "2"), answer("1"), HI, answer("2")]),
    ("tool calls at the end are answered", 1, [HI, calls("1")]),
    (
        "an image is an http or a data URL",
        0,
        asks({"type": "image_url", "image_url": {"url": "file:///a.png"}}),
    ),
    ("an image is an http or a data URL", 0, asks({"type": "image_url", "image_url": {"url": PDF}})),
    (
        "an image is an http or a data URL",
        0,
        asks({"type": "image_url", "image_url": {"url": "data:image/png;base64,!"}}),
    ),
    (
        "the detail of an image is known",
        0,
        asks({"type": "image_url", "image_url": {"url": PNG, "detail": "full"}}),
    ),
    (
        "audio is wav or mp3",
        0,
        asks({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "ogg"}}),
    ),
    (
        "audio is base64",
        0,
        asks({"type": "input_audio", "input_audio": {"data": "data:audio/wav;base64,aGk=", "format": "wav"}}),
    ),
    ("a file is its data or an id", 0, asks({"type": "file", "file": {"filename": "a.pdf"}})),
    ("the id of a file is not empty", 0, asks({"type": "file", "file": {"file_id": ""}})),
    (
        "a file is a data URL of a PDF",
        0,
        asks({"type": "file", "file": {"file_data": "aGk=", "filename": "a"}}),
    ),
    (
        "a file is a data URL of a PDF",
        0,
        asks({"type": "file", "file": {"file_data": "data:text/plain;base64,aGk=", "filename": "a"}}),
    ),
    ("a file has a name", 0, asks({"type": "file", "file": {"file_data": PDF}})),
]

# Responses


def made(call_id: Any, name: Any = "f", arguments: Any = "{}", **more: Any) -> Any:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def output(call_id: Any, content: Any = "done", **more: Any) -> Any:
    return {"type": "function_call_output", "call_id": call_id, "output": content, **more}


def thought(id_: Any = "rs_1", **more: Any) -> Any:
    return {"type": "reasoning", "id": id_, "summary": [], "encrypted_content": "gAAA", **more}


def said(*parts: Any, **more: Any) -> Any:
    message = {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "content": list(parts),
    }
    return {**message, **more}


FINE = {"role": "assistant", "content": "fine"}
WORDS = {"type": "output_text", "text": "a", "annotations": []}
SEEN = {"type": "input_image", "detail": "auto"}

GOOD_RESPONSES = [
    {"role": "developer", "content": "be kind"},
    {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "be short"}]},
    *asks(
        {"type": "input_text", "text": ""},
        {"type": "input_image", "image_url": PNG, "detail": "auto"},
        {"type": "input_image", "file_id": "file-1", "detail": "high"},
        {"type": "input_file", "file_data": "data:text/plain;base64,aGk=", "filename": "a.txt"},
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
        {"type": "input_file", "file_id": "file-2"},
    ),
    thought("rs_1", summary=[{"type": "summary_text", "text": "hm"}], content=[]),
    thought("rs_2"),
    made("call_1", id="fc_1", status="completed"),
    made("call_2"),
    said(WORDS, phase="commentary"),
    output("call_2", "", id="fc_2"),
    output("call_1", [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": PNG}]),
    thought("rs_3"),
    said({"type": "refusal", "refusal": "no"}, id="msg_2"),
    FINE,
]

BAD_RESPONSES: list[Bad] = [
    ("there is an item", 0, []),
    ("an item is an object", 0, ["hi"]),
    ("the type of an item is known", 0, [{"type": "item_reference", "id": "msg_1"}]),
    ("a required key is there", 0, [{"role": "user"}]),
    ("no key is there that the provider does not know", 0, [thought(status="completed"), FINE]),
    ("an id is 1 to 64", 0, [said(id="msg_" + "1" * 61)]),
    ("an id is 1 to 64", 0, [said(id="msg 1")]),
    ("an id begins as the ids of its type do", 0, [made("call_1", id="call_1"), output("call_1")]),
    ("no two items share an id", 1, [said(WORDS), said(WORDS)]),
    ("the role is known", 0, [{"role": "tool", "content": "a"}]),
    ("the phase of an answer is known", 0, [{**FINE, "phase": "thinking"}]),
    ("the status of an item is known", 0, [made("call_1", status="done"), output("call_1")]),
    ("the status of an item is known", 1, [made("1"), output("1", status="done")]),
    ("the status of an item is known", 0, [said(WORDS, status="done")]),
    ("a part is of a type that may stand here", 1, [made("1"), output("1", [WORDS])]),
    ("an answer is not empty", 0, [{"role": "assistant", "content": ""}]),
    ("content is a text, or parts", 0, asks()),
    (
        "a part is of a type that may stand here",
        0,
        [said({"type": "input_text", "text": "a"})],
    ),
    ("a part is of a type that may stand here", 0, asks({"type": "output_text", "text": "a"})),
    ("a text is not longer than the API reads", 0, [{"role": "user", "content": "a" * 10_485_761}]),
    ("the text of a part is a text", 0, asks({"type": "input_text", "text": 1})),
    ("the text of an answer is a text", 0, [said({**WORDS, "text": 1})]),
    ("annotations are an array", 0, [said({**WORDS, "annotations": [1]})]),
    ("the refusal of a part is a text", 0, [said({"type": "refusal", "refusal": 1})]),
    ("the id of a call has 1 to 64", 0, [made("c" * 65), output("c" * 65)]),
    ("the id of a call has 1 to 64", 0, [made(""), output("")]),
    ("no two calls share an id", 2, [made("1"), output("1"), made("1"), output("1")]),
    ("the name of a function", 0, [made("1", name="n" * 129), output("1")]),
    ("arguments are the JSON of an object", 0, [made("1", arguments="null"), output("1")]),
    ("an output is that of a call before it", 0, [output("1"), made("1")]),
    ("a call has one output", 2, [made("1"), output("1"), output("1")]),
    ("function calls have an output", 1, [HI, made("1")]),
    ("a required key is there", 0, [{"type": "reasoning", "id": "rs_1", "encrypted_content": "a"}, FINE]),
    ("a summary is an array", 0, [thought(summary=None), FINE]),
    ("a summary is made of summary_text", 0, [thought(summary=[{"type": "text", "text": "a"}]), FINE]),
    (
        "the content of reasoning stays empty",
        0,
        [thought(content=[{"type": "reasoning_text", "text": "a"}]), FINE],
    ),
    ("reasoning that the API did not store is encrypted", 0, [thought(encrypted_content=None), FINE]),
    ("reasoning is followed by what it led to", 0, [thought()]),
    ("reasoning is followed by what it led to", 0, [thought(), HI, FINE]),
    ("reasoning is followed by what it led to", 1, [made("1"), thought(), output("1")]),
    ("an image is a URL or an id", 0, asks(SEEN)),
    ("a required key is there", 0, asks({"type": "input_image", "image_url": PNG})),
    ("the id of an image is not empty", 0, asks({**SEEN, "file_id": ""})),
    ("the id of a file is not empty", 0, asks({"type": "input_file", "file_id": None})),
    ("the detail of an image is known", 0, asks({**SEEN, "image_url": PNG, "detail": None})),
    ("an image is an http or a data URL", 0, asks({**SEEN, "image_url": "a.png"})),
    (
        "a file is its data, a URL or an id",
        0,
        asks({"type": "input_file", "file_id": "a", "file_url": "https://a.b"}),
    ),
    (
        "a file is a data URL of a document",
        0,
        asks({"type": "input_file", "file_data": PNG, "filename": "a.png"}),
    ),
    (
        "a file has a name with an extension",
        0,
        asks({"type": "input_file", "file_data": PDF, "filename": "a"}),
    ),
    ("the URL of a file is http", 0, asks({"type": "input_file", "file_url": "ftp://a.b"})),
]

# Anthropic


def request(*messages: Any, **more: Any) -> Any:
    return {"messages": list(messages), **more}


def user(*blocks: Any) -> Any:
    return {"role": "user", "content": list(blocks)}


def claude(*blocks: Any) -> Any:
    return {"role": "assistant", "content": list(blocks)}


def text(words: Any = "a") -> Any:
    return {"type": "text", "text": words}


def use(id_: Any = "toolu_1", name: Any = "f", given: Any = None) -> Any:
    return {"type": "tool_use", "id": id_, "name": name, "input": {} if given is None else given}


def result(id_: Any = "toolu_1", **more: Any) -> Any:
    return {"type": "tool_result", "tool_use_id": id_, **more}


def image(**source: Any) -> Any:
    return {"type": "image", "source": source}


def document(
    media_type: Any = "application/pdf", data: Any = "aGk=", kind: Any = "base64", **more: Any
) -> Any:
    return {"type": "document", "source": {"type": kind, "media_type": media_type, "data": data}, **more}


def used(**more: Any) -> Any:
    return request(HI, claude(use()), user(result(**more)))


SCAN = image(type="base64", media_type="image/png", data="aGk=")
THOUGHT = {"type": "thinking", "thinking": "", "signature": "c2ln"}
CACHED = {**text(), "cache_control": {"type": "ephemeral", "ttl": "1h"}}

GOOD_ANTHROPIC = request(
    HI,
    user(
        SCAN, image(type="url", url="https://example.org/a.png"), image(type="file", file_id="file_1"), CACHED
    ),
    user(document(title="a"), document("text/plain", "words", "text"), text(" a ")),
    claude(
        THOUGHT,
        {"type": "redacted_thinking", "data": "ZGF0YQ"},
        text(" a "),
        use(),
        use("toolu_2", given={"a": 1}),
    ),
    user(result("toolu_2", content="no", is_error=True), result(content=[text(), SCAN, document()])),
    user(text()),
    claude(text()),
    claude(use("toolu_3")),
    user(result("toolu_3"), text("more")),
    {"role": "assistant", "content": "bye"},
    system=[text("be kind"), CACHED],
)

BAD_ANTHROPIC: list[Bad] = [
    ("no key is there that the provider does not know", 0, request(HI, tools=[])),
    ("there is a message", 0, request()),
    ("system is an array with a block", 0, request(HI, system=[])),
    ("system is made of texts", 0, request(HI, system=[SCAN])),
    ("a text is more than white space", 0, request(HI, system=[text("\n")])),
    ("no key is there that the provider does not know", 1, request(HI, {**HI, "name": "me"})),
    ("an object stands here", 1, request(HI, "hi")),
    ("texts have no half of a surrogate pair", 0, request(HI, system=[text("\ud800")])),
    ("the role is user or assistant", 1, request(HI, {"role": "system", "content": "a"})),
    ("content is a text, or blocks", 0, request(user())),
    ("a text is more than white space", 0, request({"role": "user", "content": ""})),
    ("a text is more than white space", 0, request(user(text(" \n")))),
    ("a block is of a type that this role may have", 1, request(HI, claude(SCAN))),
    ("a block is of a type that this role may have", 0, request(user(THOUGHT, text()))),
    ("a block is of a type that this role may have", 0, request(user(use()))),
    ("there are 4 breakpoints of the cache at most", 0, request(user(*[CACHED] * 5))),
    (
        "a breakpoint of the cache is ephemeral",
        0,
        request(user({**text(), "cache_control": {"type": "long"}})),
    ),
    ("the user speaks first", 0, request(claude(text()), HI)),
    ("no two uses of a tool share an id", 1, request(HI, claude(use(), use()), user(result()))),
    (
        "no two uses of a tool share an id",
        3,
        request(HI, claude(use()), user(result()), claude(use()), user(result())),
    ),
    ("results come before all else in their turn", 2, request(HI, claude(use()), user(text(), result()))),
    ("results come before all else in their turn", 3, request(HI, claude(use()), HI, user(result()))),
    ("a result is that of a use in the turn before", 0, request(user(result()))),
    (
        "a result is that of a use in the turn before",
        4,
        request(HI, claude(use()), user(result()), claude(text()), user(result())),
    ),
    ("a use has one result", 2, request(HI, claude(use()), user(result(), result()))),
    ("every use has its result in the next turn", 1, request(HI, claude(use()))),
    ("every use has its result in the next turn", 1, request(HI, claude(use()), HI)),
    ("every use has its result in the next turn", 1, request(HI, claude(use()), HI, claude(text()))),
    ("every use has its result in the next turn", 1, request(HI, claude(use(), use("b")), user(result()))),
    ("a turn that has thoughts begins with one", 1, request(HI, claude(text(), THOUGHT, text()))),
    ("a turn does not end with a thought", 1, request(HI, claude(THOUGHT))),
    ("nothing but uses follows a use of a tool", 1, request(HI, claude(use(), text()), user(result()))),
    ("an answer at the end does not end in white space", 1, request(HI, claude(text("a ")))),
    (
        "an answer at the end does not end in white space",
        1,
        request(HI, {"role": "assistant", "content": "a\n"}),
    ),
    ("a thought is a text", 1, request(HI, claude({**THOUGHT, "thinking": None}, text()))),
    ("a thought is signed", 1, request(HI, claude({**THOUGHT, "signature": ""}, text()))),
    ("a required key is there", 1, request(HI, claude({"type": "thinking", "thinking": "a"}, text()))),
    (
        "a redacted thought has its data",
        1,
        request(HI, claude({"type": "redacted_thinking", "data": ""}, text())),
    ),
    ("the id of a use is letters", 1, request(HI, claude(use("a:1")), user(result("a:1")))),
    ("the id of a use is letters", 0, request(user(result("a:1")))),
    ("the name of a tool is 1 to 64", 1, request(HI, claude(use(name="a.b")), user(result()))),
    ("the name of a tool is 1 to 64", 1, request(HI, claude(use(name="n" * 65)), user(result()))),
    ("the input of a tool is an object", 1, request(HI, claude(use(given=[1])), user(result()))),
    ("is_error is true or false", 2, used(is_error=None)),
    ("the content of a result is not blank", 2, used(content="")),
    ("the content of a result is a text or blocks", 2, used(content=[])),
    ("a result is made of texts, images and documents", 2, used(content=[use()])),
    ("a text is more than white space", 2, used(content=[text("")])),
    ("the result of a failure is made of texts", 2, used(content=[SCAN], is_error=True)),
    (
        "an image is base64 of a known type",
        0,
        request(user(image(type="base64", media_type="image/bmp", data="aGk="))),
    ),
    (
        "the data of an image is base64",
        0,
        request(user(image(type="base64", media_type="image/png", data=PNG))),
    ),
    ("a document is base64 of a PDF or a plain text", 0, request(user(document("text/csv", "a,b", "text")))),
    ("the data of a PDF is base64", 0, request(user(document(data="")))),
    ("a text is more than white space", 0, request(user(document("text/plain", "", "text")))),
    ("a title has 1 to 500", 0, request(user(document(title="t" * 501)))),
    ("a URL is http or https", 0, request(user(image(type="url", url="data:a")))),
    ("the id of a file is not empty", 0, request(user(image(type="file", file_id="")))),
]

# The AI SDK


def ui(*parts: Any, role: str = "assistant", **more: Any) -> Any:
    return {"id": "1", "role": role, "parts": list(parts), **more}


def tool(state: Any, id_: Any = "call_1", kind: str = "tool-f", **more: Any) -> Any:
    return {"type": kind, "toolCallId": id_, "state": state, **more}


def approval(approved: Any = None, **more: Any) -> Any:
    return {"id": "a", **({} if approved is None else {"approved": approved}), **more}


FILE = {"type": "file", "mediaType": "image/png", "url": PNG}

GOOD_UI = [
    ui(text(), role="system", id="0"),
    ui(text(), FILE, {"type": "data-a", "data": None, "id": "d"}, role="user", metadata={"a": [1]}),
    ui(
        {"type": "step-start"},
        {
            "type": "reasoning",
            "text": "",
            "state": "done",
            "providerMetadata": {"anthropic": {"signature": "s"}},
        },
        {"type": "source-url", "sourceId": "s", "url": "https://example.org"},
        {
            "type": "source-document",
            "sourceId": "s",
            "mediaType": "text/plain",
            "title": "a",
            "filename": "b",
        },
        {**text("a"), "state": "streaming"},
        tool("input-streaming", "1"),
        tool("input-available", "2", input={}),
        tool("output-available", "3", input={}, output=None, providerExecuted=True, preliminary=False),
        tool("output-error", "4", errorText="no", rawInput="{", callProviderMetadata={}),
        tool("output-available", "5", "dynamic-tool", toolName="f", input=1, output=[1]),
        id="2",
    ),
]

GOOD_UI_OF_6 = [
    ui(
        tool("approval-requested", "1", input={}, approval=approval()),
        tool(
            "approval-responded",
            "2",
            "dynamic-tool",
            toolName="f",
            input={},
            approval=approval(False, reason="no"),
        ),
        tool("output-denied", "3", input={}, approval=approval(approved=False)),
        tool("output-available", "4", input={}, output=1, approval=approval(True), resultProviderMetadata={}),
        tool("output-error", "5", errorText="no", approval=approval(approved=True)),
    )
]

BAD_UI: list[Bad] = [
    ("there is a message", 0, []),
    ("no key is there that the provider does not know", 0, [ui(text(), content="a")]),
    ("the id of a message is not empty", 0, [ui(text(), id="")]),
    ("no two messages share an id", 1, [ui(text()), ui(text())]),
    ("the role is known", 0, [ui(text(), role="tool")]),
    ("there is a part", 0, [ui()]),
    ("the type of a part is known", 0, [ui({"type": "image"})]),
    ("the type of a part is known", 0, [ui(tool("input-streaming", kind="tool-"))]),
    ("a part is of a type that its role may have", 0, [ui(FILE, role="system")]),
    ("a part is of a type that its role may have", 0, [ui(tool("input-streaming"), role="user")]),
    ("a required key is there", 0, [ui({"type": "text"})]),
    ("no key is there that the provider does not know", 0, [ui({**text(), "id": "a"})]),
    ("the value of a key is of its type", 0, [ui({**text(), "state": None})]),
    ("the value of a key is of its type", 0, [ui({**text(), "providerMetadata": {"a": 1}})]),
    ("the value of a key is of its type", 0, [ui({**FILE, "url": "aGk="})]),
    ("the value of a key is of its type", 0, [ui({**FILE, "mediaType": "png"})]),
    ("the value of a key is of its type", 0, [ui(tool("input-streaming", ""))]),
    ("the value of a key is of its type", 0, [ui(tool("input-available", input=1, providerExecuted=None))]),
    ("the state of a tool is known", 0, [ui(tool("result", input={}, output=1))]),
    ("a required key is there", 0, [ui(tool("input-available"))]),
    ("a required key is there", 0, [ui(tool("output-available", input={}))]),
    ("a required key is there", 0, [ui(tool("output-error", input={}))]),
    ("a required key is there", 0, [ui(tool("input-streaming", kind="dynamic-tool"))]),
    ("no key is there that the provider does not know", 0, [ui(tool("input-available", input={}, output=1))]),
    ("no two parts are of one call", 1, [ui(tool("input-streaming")), ui(tool("input-streaming"), id="2")]),
]

BAD_UI_OF_6: list[Bad] = [
    ("a required key is there", 0, [ui(tool("output-denied", input={}))]),
    (
        "the id of an approval is not empty",
        0,
        [ui(tool("approval-requested", input={}, approval={"id": ""}))],
    ),
    (
        "a tool was approved as its state says",
        0,
        [ui(tool("approval-requested", input={}, approval=approval(True)))],
    ),
    (
        "a tool was approved as its state says",
        0,
        [ui(tool("output-denied", input={}, approval=approval(True)))],
    ),
    (
        "a tool was approved as its state says",
        0,
        [ui(tool("approval-responded", input={}, approval=approval()))],
    ),
    ("a reason is a text", 0, [ui(tool("approval-requested", input={}, approval=approval(reason="no")))]),
]

CHECKS: dict[str, tuple[Callable[..., None], Any, list[Bad]]] = {
    "chat": (check_openai_chat, GOOD_CHAT, BAD_CHAT),
    "responses": (check_openai_responses, GOOD_RESPONSES, BAD_RESPONSES),
    "anthropic": (check_anthropic, GOOD_ANTHROPIC, BAD_ANTHROPIC),
    "ui": (check_ui_messages, GOOD_UI, BAD_UI),
    "ui of 6": (check_ui_messages, GOOD_UI_OF_6, BAD_UI_OF_6),
}
ALL_BAD = [(name, *bad) for name, (_, _, bads) in CHECKS.items() for bad in bads]


@pytest.mark.parametrize("name", CHECKS)
def test_what_providers_take_is_taken(name: str) -> None:
    check, good, _ = CHECKS[name]
    before = deepcopy(good)
    check(good)
    assert good == before


@pytest.mark.parametrize(
    ("name", "rule", "index", "bad"), ALL_BAD, ids=lambda value: value if type(value) is str else ""
)
def test_a_broken_rule_is_named_with_its_message(name: str, rule: str, index: int, bad: Any) -> None:
    with pytest.raises(AssertionError, match=f"^message {index}: {re.escape(rule)}"):
        CHECKS[name][0](bad)


FREE = {  # where the objects are not the provider's
    "anthropic": {"input"},
    "ui": {"metadata", "providerMetadata", "callProviderMetadata", "data", "input", "output"},
    "ui of 6": {"resultProviderMetadata", "input"},
}


def objects_in(value: Any, free: set[str]) -> Iterator[dict[str, Any]]:
    if type(value) is dict:
        yield value
        for key, inner in value.items():
            yield from objects_in(inner, free) if key not in free else ()
    elif type(value) is list:
        for inner in value:
            yield from objects_in(inner, free)


@pytest.mark.parametrize("name", CHECKS)
def test_a_key_that_the_provider_does_not_know_is_refused_everywhere(name: str) -> None:
    check, good, _ = CHECKS[name]
    free = FREE.get(name, set())
    for place in range(sum(1 for _ in objects_in(good, free))):
        bad = deepcopy(good)
        next(islice(objects_in(bad, free), place, None))["unheard-of"] = "a"
        with pytest.raises(
            AssertionError, match=r"no key is there that the provider does not know: .*unheard-of"
        ):
            check(bad)


def rules_in(path: Path) -> set[str]:
    """The third argument of every ``need``."""
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    needs = [node for node in found if isinstance(node.func, ast.Name) and node.func.id == "need"]
    rules = [node.args[2] if len(node.args) > 2 else node.keywords[2].value for node in needs]
    assert all(isinstance(rule, ast.Constant) for rule in rules)
    return {str(rule.value) for rule in rules if isinstance(rule, ast.Constant)}


ORACLES = Path(oracles.__path__[0])


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("rules_openai", ("chat",)),
        ("rules_responses", ("responses",)),
        ("rules_anthropic", ("anthropic",)),
        ("rules_anthropic_blocks", ("anthropic",)),
        ("rules_ui", ("ui", "ui of 6")),
    ],
)
def test_there_is_no_rule_that_nothing_breaks(module: str, names: tuple[str, ...]) -> None:
    broken = {rule for name, rule, _, _ in ALL_BAD if name in names}
    broken |= {"the user speaks last"}  # by the test of prefill
    rules = rules_in(ORACLES / f"{module}.py")
    assert rules
    assert {rule for rule in rules if not any(rule.startswith(start) for start in broken)} == set()


PLACES: dict[str, Callable[[Any, Any], Any]] = {  # where any value of JSON may stand
    "chat": lambda good, value: [*good, {"role": "user", "content": value}],
    "responses": lambda good, value: [*good, {"role": "user", "content": value}],
    "anthropic": lambda good, value: request(HI, claude(use(given={"a": value})), user(result())),
    "ui": lambda good, value: [*good, ui(text(), id="3", metadata=value)],
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (math.nan, "numbers are finite"),
        (-math.inf, "numbers are finite"),
        ("\ud800", "texts have no half of a surrogate pair"),
        ({"\udfff": 1}, "texts have no half of a surrogate pair"),
        ([{1: 2}], "the keys of objects are strings"),
        (b"a", "values are those of JSON"),
        (("a",), "values are those of JSON"),
    ],
)
def test_only_json_is_taken(name: str, value: Any, rule: str) -> None:
    check, good, _ = CHECKS[name]
    with pytest.raises(AssertionError, match=rule):
        check(PLACES[name](good, value))


def test_what_is_taken_can_be_written_as_json() -> None:
    for _, good, _ in CHECKS.values():
        assert json.loads(json.dumps(good, allow_nan=False, ensure_ascii=False).encode()) == good


def test_a_long_value_is_not_shown_whole() -> None:
    with pytest.raises(AssertionError) as caught:
        check_openai_chat([{"role": "x" * 10_000}])
    assert len(str(caught.value)) < 400


def test_models_without_prefill_want_the_user_to_speak_last() -> None:
    check_anthropic(request(HI), prefill=False)
    check_anthropic(request(HI, claude(use()), user(result())), prefill=False)
    with pytest.raises(AssertionError, match="message 1: the user speaks last"):
        check_anthropic(request(HI, claude(text())), prefill=False)


def test_version_5_of_the_ai_sdk_knows_no_approvals() -> None:
    check_ui_messages(GOOD_UI, version=5)
    with pytest.raises(AssertionError, match="the state of a tool is known"):
        check_ui_messages([ui(tool("output-denied", input={}, approval=approval(approved=False)))], version=5)
    with pytest.raises(AssertionError, match="no key is there"):
        check_ui_messages(
            [ui(tool("output-available", input={}, output=1, approval=approval(True)))], version=5
        )


# The types of the packages


def test_the_types_take_what_is_good() -> None:
    openai_types_accept(GOOD_CHAT)
    responses_types_accept(GOOD_RESPONSES)
    anthropic_types_accept(GOOD_ANTHROPIC)


@pytest.mark.parametrize(
    ("accept", "bad"),
    [
        (openai_types_accept, [HI, {"role": "user"}]),
        (openai_types_accept, [HI, {**HI, "id": "1"}]),
        (openai_types_accept, [HI, *asks({"type": "text", "text": "a", "id": "1"})]),
        (openai_types_accept, [HI, *asks({"type": "text"})]),
        (openai_types_accept, [HI, calls("1", arguments={})]),
        (openai_types_accept, [HI, answer("1", [{"type": "image_url", "image_url": {"url": PNG}}])]),
        (responses_types_accept, [HI, {**HI, "id": "msg_1"}]),
        (responses_types_accept, [HI, said({"type": "output_text", "text": "a"})]),
        (responses_types_accept, [HI, {"type": "reasoning", "id": "rs_1"}]),
        (responses_types_accept, [HI, thought(summary=[{"text": "a"}])]),
        (responses_types_accept, [HI, {"type": "function_call_output", "call_id": "1"}]),
        (anthropic_types_accept, request(HI, user({**text(), "id": "1"}))),
        (anthropic_types_accept, request(HI, user({"type": "text"}))),
        (anthropic_types_accept, request(HI, claude({"type": "thinking", "thinking": "a"}))),
        (anthropic_types_accept, request(HI, claude({**use(), "index": 1}))),
        (anthropic_types_accept, request(HI, user(result(content=[THOUGHT])))),
        (anthropic_types_accept, request(HI, user(document("text/csv", "a,b", "text")))),
        (anthropic_types_accept, request(HI, system=[text(), {"type": "text"}])),
    ],
)
def test_the_types_refuse_what_is_not_of_them(accept: Callable[[Any], None], bad: Any) -> None:
    with pytest.raises(AssertionError, match=r"^message 1: it is of its type"):
        accept(bad)


def test_the_types_want_arrays() -> None:
    with pytest.raises(AssertionError, match="they are an array"):
        anthropic_types_accept({"system": None, "messages": []})
