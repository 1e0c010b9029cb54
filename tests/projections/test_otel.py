"""Chats as OpenTelemetry spans: of any log, spans are whole, in their turns, and say what the log says."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store, assistant, events, user
from chatfold.importers import import_paths
from tests.importers.fixtures import OWN
from tests.support.debugger.commanded import run


async def spans_of(store: Store, key: str) -> list[dict[str, Any]]:
    written = b"".join([piece async for piece in (await store.chat(key)).export_bytes("otel")])
    [resource] = json.loads(written)["resourceSpans"]
    [scope] = resource["scopeSpans"]
    found: list[dict[str, Any]] = scope["spans"]
    return found


def about(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


async def test_a_turn_holds_the_calls_of_models_and_tools() -> None:
    async with Store.memory() as store:
        chat = await store.chat("lexer")
        await chat.record(user("Why? 改行"), events.ModelCalled("gpt-5", "", provider="openai"))
        call = await chat.tool_call("read_file", {"path": "lexer.py"})
        await chat.record(events.ModelReturned({"input_tokens": 10, "output_tokens": 3}, "tool_calls"))
        await chat.record(
            call.result("no such file", failed=True), events.ModelCalled("gpt-5", "", provider="openai")
        )
        await chat.record(
            assistant("Because."), events.ModelReturned({"input_tokens": 20}, "", "Overloaded: 503")
        )
        await chat.user("Thanks.")
        turn, first, tool, second, last = await spans_of(store, "lexer")
    assert [turn["name"], first["name"], tool["name"]] == [
        "invoke_agent",
        "chat gpt-5",
        "execute_tool read_file",
    ]
    assert {one.get("parentSpanId") for one in (first, tool, second)} == {turn["spanId"]}
    assert "parentSpanId" not in last
    asked = about(first)
    assert asked["gen_ai.provider.name"] == "openai"
    assert asked["gen_ai.usage.input_tokens"] == "10"
    assert json.loads(asked["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Why? 改行"}]}
    ]
    [answer] = json.loads(asked["gen_ai.output.messages"])
    assert answer["finish_reason"] == "tool_calls"
    assert answer["parts"][0]["arguments"] == {"path": "lexer.py"}
    assert (tool["status"]["code"], about(tool)["error.type"]) == (2, "tool_error")
    assert about(tool)["gen_ai.tool.call.result"] == "no such file"
    assert (second["status"]["message"], about(second)["error.type"]) == ("Overloaded: 503", "Overloaded")
    [given] = json.loads(about(second)["gen_ai.input.messages"])
    assert given["parts"][0]["type"] == "tool_call_response"
    assert "status" not in turn


@pytest.mark.parametrize("folder", ["codex", "claude-code", "pi", "opencode", "langgraph"])
async def test_spans_of_every_fixture_are_whole(folder: str, tmp_path: Path) -> None:
    async with Store.memory() as store:
        async for report in import_paths(store, [OWN / folder]):
            spans = await spans_of(store, report.key)
            ids = Counter(span["spanId"] for span in spans)
            assert set(ids.values()) == {1}
            assert len({span["traceId"] for span in spans}) == 1
            assert all(len(span["traceId"]) == 32 and len(span["spanId"]) == 16 for span in spans)
            assert all(span["parentSpanId"] in ids for span in spans if "parentSpanId" in span)
            assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in spans)
            recorded: Any = [entry.event async for entry in store.log.read(report.key)]
            kinds = Counter(about(span)["gen_ai.operation.name"] for span in spans)
            assert kinds["execute_tool"] == sum(isinstance(event, events.ToolCalled) for event in recorded)
            assert kinds["chat"] == sum(isinstance(event, events.ModelCalled) for event in recorded)
            assert spans == await spans_of(store, report.key)


async def test_what_is_redacted_is_in_no_span(tmp_path: Path) -> None:
    async with Store(tmp_path / "chats") as store:
        chat = await store.chat("lexer")
        await chat.record(user("The password is hunter2."), events.ModelCalled("gpt-5", ""))
        call = await chat.tool_call("login", {"password": "hunter2"})
        await chat.record(call.result("hunter2 is wrong"), assistant("hunter2 was refused."))
    asked = ("export", "lexer", "--as", "otel", "--redact", "text:hunter2")
    done = await asyncio.to_thread(run, *asked, store=tmp_path / "chats")
    assert done.exit_code == 0, done.output
    assert "execute_tool login" in done.stdout
    assert "hunter2" not in done.stdout
