"""A tool that asks the agent itself: in another chat it is answered, in a circle it is refused."""

import asyncio
from typing import Any

import pytest

from chatfold.agent import Agent, Limits, ModelReply, Store, ToolCall, tool
from chatfold.agent.models import Model, ScriptedModel
from tests.support.agent_runs import returned
from tests.support.chats import a_store  # noqa: F401

ONE = Limits(chats=1, tool_seconds=5)


def model_that_calls(*chats: str) -> Model:
    """In these chats it calls the tool ``ask`` once; in others it just answers."""

    def answer(payload: dict[str, Any]) -> ModelReply | str:
        key = payload["system"].partition("chatKey: ")[2].partition("\n")[0]
        is_done = any(message["results"] for message in payload["messages"])
        return f"from {key}" if key not in chats or is_done else ModelReply(calls=(ToolCall("c", "ask"),))

    return ScriptedModel([answer] * 20)


@pytest.mark.parametrize("side_by_side", [False, True])
async def test_a_tool_is_answered_in_another_chat_although_there_is_one_place(side_by_side: bool) -> None:
    async def ask() -> str:
        asked = [made.run("what is it?", chat=key) for key in ("inner", "other")]
        if not side_by_side:
            return ", ".join([(await one).text for one in asked])
        return ", ".join(one.text for one in await asyncio.gather(*asked))

    made = Agent(model_that_calls("outer"), tools=[ask], limits=ONE)
    async with made:
        assert (await made.run("go", chat="outer")).text == "from outer"
        assert await returned(await made.store.chat("outer")) == ["from inner, from other"]


async def test_a_tool_cannot_wait_for_its_own_chat() -> None:
    async def ask() -> str:
        return (await made.run("again", chat="outer")).text

    async with Agent(model_that_calls("outer"), tools=[ask], limits=ONE) as made:
        result = await made.run("go", chat="outer")
        assert "WaitsForItself: a tool cannot wait" in result.tool_calls[0].output
        assert result.outcome == "done"


async def test_a_circle_of_chats_is_refused_where_it_closes() -> None:
    async def ask() -> str:
        here = {"a": "b", "b": "c", "c": "a"}
        from chatfold.agent import current_run

        return (await made.run("and you?", chat=here[current_run().chat.key])).text

    async with Agent(model_that_calls("a", "b", "c"), tools=[ask], limits=ONE) as made:
        result = await made.run("go", chat="a")
        assert (result.outcome, result.text) == ("done", "from a")
        assert "WaitsForItself" in str(await returned(await made.store.chat("c")))


async def test_a_tool_that_submits_does_not_wait(store: Store) -> None:
    @tool
    async def ask() -> str:
        await made.submit("later", chat="outer")
        return "sent"

    async with Agent(model_that_calls("outer"), store=store, tools=[ask], limits=ONE) as made:
        assert (await made.run("go", chat="outer")).outcome == "done"
