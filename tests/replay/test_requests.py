"""Any past request is made again from the log alone, and proved."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from chatfold.agent import Agent, AnthropicModel, OpenAIModel, ScriptedModel, Store, tool
from chatfold.agent.models import ModelReply
from chatfold.eventlog import ModelCalled, NoSuchPoint, Text, ToolReturned
from chatfold.replay.verify.requests import rebuild_request
from tests.support.debugger.recorded_bot import OwnCode, edited, first, step, talked


@tool
def look(where: str) -> str:
    """Looks."""
    return f"nothing in {where}"


def speaking(model: Any) -> Any:
    """The same model with its answers from a script, and what it was asked."""
    script = ScriptedModel([step(("look", {"where": "here"})), "done", "bye"])
    model.ask = script.ask
    return model, script.payloads


MODELS: dict[str, Callable[[], Any]] = {
    "scripted": lambda: ScriptedModel([]),
    "openai": lambda: OpenAIModel("gpt-5", api_key="none", temperature=0.2),
    "anthropic": lambda: AnthropicModel("claude-x", api_key="none", max_tokens=77, cache=False),
}


@pytest.mark.parametrize("provider", MODELS)
async def test_every_request_is_exactly_what_was_sent(provider: str) -> None:
    store = Store.memory()
    model, payloads = speaking(MODELS[provider]())
    agent = Agent(model=model, tools=[look], store=store, instructions="Look.")
    await agent.run("where is it?", chat="chat")
    await agent.run("and now?", chat="chat")
    chat = await store.chat("chat")
    made = [await rebuild_request(chat, number) for number in (1, 2, 3)]
    assert [one.payload for one in made] == payloads
    assert [(one.proved, one.rebuilt) for one in made] == [(True, one.recorded) for one in made]
    assert [one.number for one in made] == [1, 2, 3]
    assert await rebuild_request(chat, seq=made[1].seq) == made[1]
    assert msgspec.json.decode(msgspec.json.encode(made[0]))["provider"] == provider


async def test_what_may_be_secret_is_not_kept_so_only_the_model_can_make_the_request_again() -> None:
    store = Store.memory()
    model, payloads = speaking(OpenAIModel("gpt-5", api_key="none", extra_headers={"X-Key": "s3cret"}))
    await Agent(model=model, tools=[look], store=store).run("hi", chat="chat")
    chat = await store.chat("chat")
    lines = b"".join([data async for data in chat.export_bytes()])
    assert b"s3cret" not in lines
    alone = await rebuild_request(chat, 1)
    assert (alone.proved, alone.payload) == (None, None)
    assert "give the agent" in alone.why
    with_it = await rebuild_request(chat, 1, payload=model.payload)
    assert (with_it.proved, with_it.payload) == (True, payloads[0])


async def test_a_model_with_code_of_its_own_is_not_taken_for_another_of_its_provider() -> None:
    store = Store.memory()
    model = OwnCode(["done"])
    await Agent(model=model, store=store).run("hi", chat="chat")
    chat = await store.chat("chat")
    assert (await rebuild_request(chat, 1)).proved is None
    assert (await rebuild_request(chat, 1, payload=model.payload)).payload == model.payloads[0]


async def test_a_request_of_a_log_that_was_changed_is_not_proved() -> None:
    chat = await talked(Store.memory(), "Where is order 7?")
    result = await first(chat, ToolReturned)
    other = await edited(chat, result.seq, parts=(Text("lost"),))
    assert [(await rebuild_request(other, number)).proved for number in (1, 2)] == [True, False]


async def test_what_was_erased_cannot_be_proved_and_is_no_failure() -> None:
    store = Store.memory()
    chat = await talked(store, "Where is order 7?")
    await chat.redact((await first(chat, ToolReturned)).seq)
    found = await rebuild_request(chat, 2)
    assert (found.proved, found.why) == (None, "some of what the model saw was erased since")


async def test_a_call_that_an_embedder_wrote_by_hand_is_not_provable() -> None:
    chat = await Store.memory().chat("chat")
    await chat.record(ModelCalled("m", "0" * 32))
    assert (await rebuild_request(chat, 1)).proved is None
    with pytest.raises(NoSuchPoint, match="no model call 2; there are 1"):
        await rebuild_request(chat, 2)
    await chat.user("hi")
    with pytest.raises(NoSuchPoint, match="no model call"):
        await rebuild_request(chat, seq=2)


async def test_an_answer_without_words_is_a_request_like_any_other() -> None:
    store = Store.memory()
    await Agent(model=ScriptedModel([ModelReply()]), store=store).run("hi", chat="chat")
    assert (await rebuild_request(await store.chat("chat"), 1)).proved is True
