"""Summaries by the agent's own model."""

from typing import Any

import pytest

from chatfold.agent import Agent, ModelFailed, ModelReply, Policy, Store, model_from
from chatfold.agent.model_summary import PROMPT, summarise_with
from chatfold.agent.models import ScriptedModel
from chatfold.agent.summary import Material, summarise_by_rules
from chatfold.eventlog import Compacted, Text
from chatfold.projections import Message
from tests.support.agent_runs import events

SMALL = Policy(keep=2, budget=None, above=6)
BEGINNING = PROMPT.partition("\n")[0]


async def answer(messages: list[dict[str, Any]]) -> str:
    if messages[0]["content"].startswith(BEGINNING):
        return "They talked about lexers."
    return "I see."


async def test_an_agent_summarises_with_its_model_by_default() -> None:
    async with Agent(model_from(answer), policy=SMALL) as agent:
        for number in range(6):
            await agent.run(f"lexer {number}", chat="a")
        chat = await agent.store.chat("a")
        found = await events(chat, Compacted)
        assert {event.summary for event in found} == {"They talked about lexers."}
        assert "They talked about lexers." in str((await chat.messages("openai"))[0])


async def test_a_summariser_that_is_given_is_used_instead() -> None:
    async with Agent(model_from(answer), policy=SMALL, summarise=lambda _: "mine") as agent:
        for number in range(6):
            await agent.run(f"lexer {number}", chat="a")
        found = await events(await agent.store.chat("a"), Compacted)
        assert {event.summary for event in found} == {"mine"}


@pytest.mark.parametrize("line", [ModelFailed("no"), "", "far too long " * 200, ModelReply()])
async def test_where_the_model_gives_no_summary_it_is_made_by_looking(line: Any) -> None:
    material = Material((Message("user", (1,), (Text("Decided: we use tabs."),)),), limit=100)
    assert await summarise_with(ScriptedModel([line]), material) == summarise_by_rules(material)


async def test_a_model_that_follows_a_script_is_not_asked() -> None:
    model = ScriptedModel(["one"] * 6)
    agent = Agent(model, store=Store.memory(), policy=SMALL)
    for number in range(6):
        assert (await agent.run(f"{number}", chat="a")).text == "one"
    assert len(model.payloads) == 6
