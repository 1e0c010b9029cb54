"""Items of the OpenAI Agents SDK come back as they were, whatever they are, and the log says them in its own words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold import events
from chatfold.adapters.openai_agents_items import events_of, is_item, item_of, plain
from chatfold.eventlog.codec import encode_event
from chatfold.eventlog.erasure import scrub
from chatfold.eventlog.events import (
    File,
    MessageAdded,
    Noted,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from tests.support.profile import searched

PIXEL = "data:image/png;base64,iVBORw0KGgo="
ITEMS: list[Any] = [
    {"role": "user", "content": "hello"},
    {"role": "user", "content": ""},
    {"role": "developer", "content": "be brief", "type": "message"},
    {"role": "assistant", "content": "yes", "phase": "final"},
    {"role": "user", "content": [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": PIXEL, "detail": "low"}]},
    {"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}, {"type": "input_image", "image_url": "data:image/png;base64,iV"}]},
    {"role": "user", "content": [{"type": "input_file", "file_data": "data:application/pdf;base64,JVBERg=="}, {"type": "new", "x": 1}]},
    {"role": "user", "content": []},
    {"role": "user", "content": [["odd"], "odd"]},
    {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": "so it is", "annotations": [], "logprobs": []}, {"type": "refusal", "refusal": "no"}]},
    {"id": "rs_1", "type": "reasoning", "summary": []},
    {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
     "encrypted_content": "gAAA", "content": [{"type": "reasoning_text", "text": "long"}], "status": None},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "a", "path": 1}', "id": "fc_1", "status": "completed"},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '"x"'},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "not json"},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "[" * 200 + "]" * 200},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '"\\ud800"'},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "1" * 4200},
    {"type": "function_call_output", "call_id": "c1", "output": "text"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "text"}], "status": "completed"},
    {"type": "function_call_output", "call_id": "c1", "output": []},
    {"type": "function_call_output", "call_id": "c1"},
    {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"},
    {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"},
    {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed", "id": "sh_1"},
    {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a", "outcome": {"type": "exit", "exit_code": 0}}]},
    {"type": "local_shell_call_output", "id": "c1", "output": "a"},
    {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot", "image_url": PIXEL}},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "mcp_call", "id": "m1", "name": "t", "arguments": "{}", "server_label": "s", "error": "no", "output": None},
    {"type": "compaction", "id": "cmp", "encrypted_content": "x"},
    {"type": "item_reference", "id": "msg_1"},
    {"__enc__": 1, "payload": "x"},
    {},
    {"role": "tool", "content": "x"},
    {"role": "user", "content": 5},
    {"type": 5},
]  # fmt: skip


def given_back(item: Any) -> list[Any]:
    some = [event for event in events_of(plain(item)) if encode_event(event)]
    return [item_of(event) for event in some if is_item(event)]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: json.dumps(item)[:60])
def test_an_item_comes_back_as_it_was(item: Any) -> None:
    assert json.dumps(given_back(item)[0], sort_keys=True) == json.dumps(item, sort_keys=True)
    assert len(given_back(item)) == 1


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
known = [{name: st.just(value) | values for name, value in item.items()} for item in ITEMS if item]
mutated = st.sampled_from(known).flatmap(
    lambda fields: st.tuples(
        st.fixed_dictionaries({}, optional=fields), st.dictionaries(st.text(max_size=8), values, max_size=2)
    ).map(lambda two: {**two[1], **two[0]})
)


@searched(1)
@given(mutated)
def test_so_does_one_that_is_nearly_an_item(item: Any) -> None:
    [back] = given_back(item)
    assert json.dumps(back, sort_keys=True) == json.dumps(item, sort_keys=True)


@searched(1)
@given(mutated)
def test_nothing_of_an_item_is_left_when_its_event_is_erased(item: Any) -> None:
    for event in events_of(plain({**item, "secret": "hunter2", "content": "hunter2"})):
        assert b"hunter2" not in encode_event(scrub(event)).raw


def test_what_is_given_may_be_changed() -> None:
    for item in ITEMS:
        [event, *_] = events_of(plain(item))
        first = item_of(event)
        before = json.dumps(first)
        for value in [*first.values()]:
            if isinstance(value, list):
                value.append("more")
                for part in value:
                    if isinstance(part, dict):
                        part["more"] = 1
        assert json.dumps(item_of(event)) == before


def test_the_log_says_items_in_its_own_words() -> None:
    said = {
        "user": MessageAdded("user", (Text("hello"),)),
        "call": ToolCalled("c1", "read", {"path": "a"}),
        "output": ToolReturned("c1", (Text("text"),)),
    }
    assert [events_of(ITEMS[at])[0] for at in (0, 12, 19)] == [*said.values()]
    [image] = events_of(ITEMS[4])
    assert isinstance(image, MessageAdded)
    assert image.parts == (Text("look"), File("image/png", b"\x89PNG\r\n\x1a\n"))
    [thought] = events_of(ITEMS[11])
    assert isinstance(thought, MessageAdded)
    assert thought.parts == (Reasoning("one\n\ntwo", "openai", signature="gAAA", id="rs_1"),)
    search, done = events_of(ITEMS[29])
    assert isinstance(search, ToolCalled)
    assert (search.name, search.args["action"]["query"]) == ("web_search", "x")
    assert isinstance(done, ToolReturned)
    assert (done.call, done.failed) == ("ws_1", False)
    assert events_of(ITEMS[30])[1].failed  # type: ignore[union-attr]
    assert events_of(ITEMS[31]) == (Noted("openai_agents", ITEMS[31]),)


def test_a_long_text_is_in_its_event_once() -> None:
    for item in (
        {"id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "x" * 400}]},
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": json.dumps({"a": "x" * 400}, separators=(",", ":")), "id": "i"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x" * 400}]},
    ):  # fmt: skip
        assert len(encode_event(events_of(item)[0]).raw) < 700


def test_what_others_recorded_is_given_as_the_item_that_says_it() -> None:
    assert item_of(MessageAdded("user", (Text("a"), File("image/png", url="https://x/y.png")))) == {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "a"},
            {"type": "input_image", "detail": "auto", "image_url": "https://x/y.png"},
        ],
    }
    assert item_of(ToolCalled("c", "n", {"a": "é"}))["arguments"] == '{"a":"é"}'
    assert item_of(ToolReturned("c", (Text("a"), Text("b"))))["output"] == "a\nb"
    assert not is_item(MessageAdded("user", (Text("a"),), origin="audit"))
    assert not is_item(Noted("mine", {"a": 1}))
    assert not is_item(events.RunStarted())
