"""The line that tells a model the time and the run: once a run, labelled, and never among what people are quoted to have said."""

from typing import Any

from chatfold.agent import CHAT_TOOLS, Agent, Policy, Store
from chatfold.agent.limits import Limits
from chatfold.agent.models import ScriptedModel
from chatfold.agent.summary import Material
from chatfold.projections.shapes.ui import to_ui
from tests.support.agent_runs import agent, ran, step
from tests.support.chats import a_store, turns  # noqa: F401

LABEL = "[Added by runtime, not the user's words]\nNow: "


def lines(payload: dict[str, Any]) -> list[str]:
    return [m["parts"][0]["text"] for m in payload["messages"] if "Now: " in str(m["parts"])]


async def talked(store: Store, count: int, **more: Any) -> tuple[Agent, ScriptedModel]:
    made, model = agent(store, [f"answer {number}" for number in range(count)], [], **more)
    for number in range(count):
        await made.run(f"question {number}", chat="chat")
    return made, model


async def test_each_run_is_told_once_and_what_was_sent_stays(store: Store) -> None:
    _, model = await talked(store, 3)
    assert [len(lines(payload)) for payload in model.payloads] == [1, 2, 3]
    assert all(line.startswith(LABEL) for payload in model.payloads for line in lines(payload))
    assert lines(model.payloads[2])[:2] == lines(model.payloads[1])


async def test_it_can_be_turned_off(store: Store) -> None:
    _, model = await talked(store, 2, limits=Limits(tell_time=False))
    assert [lines(payload) for payload in model.payloads] == [[], []]


async def test_it_is_labelled_in_every_shape(store: Store) -> None:
    await talked(store, 1)
    chat = await store.chat("chat")
    for shape in ("openai", "openai-responses", "anthropic"):
        assert "[Added by runtime, not the user's words]" in str(await chat.messages(shape))
    assert "Now: " not in str(to_ui(await chat.context_entries(), chat_key="chat"))


async def test_no_summary_is_made_of_it(store: Store) -> None:
    seen: list[Material] = []

    def summarise(material: Material) -> str:
        seen.append(material)
        return "a summary"

    await talked(store, 6, summarise=summarise, policy=Policy(keep=2, budget=None, above=6))
    assert seen
    for material in seen:
        assert "question 0" in material.text or material.previous
        assert "Now: " not in material.text
        assert not [message for message in material.messages if message.kind == "runtime"]


async def test_no_recall_and_no_preview_quotes_it(store: Store) -> None:
    await talked(store, 2)
    chat = await store.chat("chat")
    await chat.inject("Metres are meant.", source="units")
    await chat.new_context("another")
    for mode in ("summary", "recent", "full"):
        entry = await chat.recall("main", mode)
        told = str(entry.event)
        assert "user: question 1" in told
        assert "Now: " not in told
        assert "user: [Added" not in told
        assert "injected: [Added by units, not the user's words] Metres are meant." in told
    assert "Now: " not in str(await chat.contexts())
    assert "Now: " not in str([row async for row in store.chats()])


async def test_it_goes_where_its_question_goes(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 1)
    there_and_back = step(("chat_context_new", {})), step(("chat_context_load", {"contextId": "main"}))
    _, model = await ran(store, CHAT_TOOLS, *there_and_back)
    assert [len(lines(payload)) for payload in model.payloads] == [1, 1, 1]
    await chat.new_context()
    back = await chat.load_context(context_id="main")
    assert str(await chat.messages(context=back)).count("Now: ") == 1
