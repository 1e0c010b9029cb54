"""Spans: what an observer is told of runs, model calls and tool calls; the log knows nothing of it."""

import pytest

from chatfold import Agent, ModelFailed, ModelReply, ScriptedModel, Store, Text, ToolCall
from chatfold.agent.models import Line
from chatfold.agent.telemetry import Span
from chatfold.projections import usage


async def test_each_run_model_call_and_tool_call_is_a_span_with_ids_usage_and_duration() -> None:
    def look() -> str:
        """Looks."""
        return "seen"

    def stumble() -> str:
        """Falls."""
        raise ValueError

    script: list[Line] = [
        ModelFailed("busy", again=True, after=0.0),
        ModelReply(
            calls=(ToolCall("c1", "look"), ToolCall("c2", "stumble")), usage={"input": 7, "output": 2}
        ),
        ModelReply((Text("done"),), usage={"input": 9, "output": 1}),
    ]
    spans: list[Span] = []
    agent = Agent(ScriptedModel(script, name="gpt"), tools=[look, stumble], name="desk")
    agent.observe(spans.append)
    result = await agent.run("hi", chat="a")
    assert [(one.kind, one.name) for one in spans if one.kind != "tool_call"] == [
        ("model_call", "gpt"),
        ("model_call", "gpt"),
        ("model_call", "gpt"),
        ("run", "desk"),
    ]
    assert {(one.call, one.name, one.error) for one in spans if one.kind == "tool_call"} == {
        ("c1", "look", ""),
        ("c2", "stumble", "failed"),
    }
    assert {(one.chat, one.run) for one in spans} == {("a", result.run)}
    calls = [one for one in spans if one.kind == "model_call"]
    assert [one.usage.tokens for one in calls] == [0, 9, 10]
    assert calls[0].error == "ModelFailed: busy"
    assert spans[-1].usage.tokens == (await agent.store.chat("a"))[usage].tokens == 19
    assert spans[-1].seconds >= sum(one.seconds for one in calls)
    assert all(one.began > 1.7e9 for one in spans)


async def test_an_observer_that_fails_is_named_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_span: Span) -> None:
        raise ZeroDivisionError("in the observer")

    store = Store.memory()
    agent = Agent(ScriptedModel(["hello"]), store=store)
    agent.observe(fail)
    assert (await agent.run("hi", chat="a")).text == "hello"
    assert "in the observer" in caplog.text
    plain = Store.memory()
    await Agent(ScriptedModel(["hello"]), store=plain).run("hi", chat="a")
    kinds = [[type(one.event) async for one in (await at.chat("a")).entries()] for at in (store, plain)]
    assert kinds[0] == kinds[1]
