"""What the adapters send: JSON, the same for the same request, within the providers' rules, whatever was recorded."""

import json
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent.models import Request, ToolSpec, fingerprint
from chatfold.agent.models.anthropic import AnthropicModel
from chatfold.agent.models.common import GO_ON, real_names
from chatfold.agent.models.openai import OpenAIModel
from chatfold.eventlog import Text
from chatfold.projections import Message
from chatfold.projections.prompt import Call, Result
from chatfold.projections.shapes.values import tool_name
from chatfold.testing.strategies import mappings, short_texts
from tests.support.wire_server import (
    anthropic_types_accept,
    asking,
    check_anthropic,
    check_openai_chat,
    histories,
    offered,
    openai_types_accept,
    prompted,
)

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
COLLIDING = (tool_name("a:b"), "a:b", "a:b")

names = st.sampled_from(("read", "server:tool", "", *COLLIDING)) | short_texts
schemas = mappings | st.just({"type": "object", "title": "Read", "properties": {"a": {"type": "string"}}})
tools = st.lists(st.builds(ToolSpec, names, short_texts, schemas), max_size=4).map(tuple)
requests = st.builds(Request, short_texts, histories.map(prompted), tools)


@cache
def gpt() -> OpenAIModel:
    return OpenAIModel("gpt", api_key="k", temperature=1, tool_choice="auto", stream_options=None)


@cache
def claude(*, cache: bool = True) -> AnthropicModel:
    return AnthropicModel("claude", api_key="k", temperature=1, cache=cache, tool_choice={"type": "auto"})


def is_strict(payload: dict[str, Any]) -> bool:
    written = json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
    return bool(json.loads(written) == payload)


def are_offered(shown: list[dict[str, Any]], schema: str, tools: tuple[ToolSpec, ...]) -> bool:
    """Each by a name of its own, from which the real one can be told."""
    accepted = [tool["name"] for tool in shown]
    assert all(NAME.fullmatch(name) for name in accepted)
    assert all(tool[schema]["type"] == "object" for tool in shown)
    real = real_names(json.loads(json.dumps(shown)), schema)
    halves = re.compile("[\ud800-\udfff]")  # which no JSON can hold
    pairs = [(real[name], tool.name) for name, tool in zip(accepted, tools, strict=True)]
    return len({*accepted}) == len(accepted) and all(a == b for a, b in pairs if not halves.search(b))


@given(request=requests)
def test_what_openai_is_sent(request: Request) -> None:
    payload = gpt().payload(request)
    assert is_strict(payload)
    assert fingerprint(payload) == fingerprint(gpt().payload(request))
    check_openai_chat(payload["messages"])
    openai_types_accept(payload["messages"])
    assert are_offered([tool["function"] for tool in payload.get("tools", [])], "parameters", request.tools)
    assert ("tools" in payload) == ("tool_choice" in payload) == bool(request.tools)
    assert "stream_options" not in payload


@given(request=requests, cache=st.booleans())
def test_what_anthropic_is_sent(request: Request, cache: bool) -> None:
    payload = claude(cache=cache).payload(request)
    assert is_strict(payload)
    assert fingerprint(payload) == fingerprint(claude(cache=cache).payload(request))
    shape: dict[str, Any] = {name: payload[name] for name in ("system", "messages") if name in payload}
    check_anthropic(shape, prefill=False)
    anthropic_types_accept(shape)
    assert cache == ("cache_control" in json.dumps(shape["messages"][-1]["content"][-1]))
    if request.tools:
        assert are_offered(payload["tools"], "input_schema", request.tools)
        assert payload["tool_choice"] == {"type": "auto"}
    else:
        used = {b["name"] for m in shape["messages"] for b in m["content"] if b["type"] == "tool_use"}
        assert {tool["name"] for tool in payload.get("tools", ())} == used
        assert payload.get("tool_choice") == ({"type": "none"} if used else None)


def test_a_payload_is_nobody_elses() -> None:
    options = {"include_usage": False}
    model = OpenAIModel("m", api_key="k", stream_options=options)
    request = asking("?", *offered("a:b"))
    payload = model.payload(request)
    payload["stream_options"]["include_usage"] = True
    payload["tools"][0]["function"]["parameters"]["properties"]["x"] = {}
    assert model.payload(request) != payload
    assert model.payload(request)["stream_options"] == options == {"include_usage": False}


@pytest.mark.parametrize("said", [(), (Message("assistant", (1,), (Text("as I said"),)),)])
def test_the_user_speaks_last(said: tuple[Message, ...]) -> None:
    request = Request("Be brief.", said)
    assert gpt().payload(request)["messages"][-1] == {"role": "user", "content": GO_ON}
    [word] = claude(cache=False).payload(request)["messages"][-1]["content"]
    assert word == {"type": "text", "text": GO_ON}


def test_the_cache_is_told_of_the_system_text_and_of_the_last_block() -> None:
    called = Message("assistant", (2,), calls=(Call(2, "c1", "read"),))
    returned = Message("tool", (3,), results=(Result(2, "read", 3, (Text("text"),), failed=False),))
    payload = claude().payload(Request("Be brief.", (*asking().messages, called, returned), offered("read")))
    assert payload["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    ]
    [result] = payload["messages"][-1]["content"]
    assert (result["type"], result["cache_control"]) == ("tool_result", {"type": "ephemeral"})
    assert json.dumps(payload).count("cache_control") == 2
    assert "cache_control" not in json.dumps(claude(cache=False).payload(asking()))
