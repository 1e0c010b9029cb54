"""One turn is run for real, in a fork; the original stays, and no tool runs that was not named."""

from typing import Any

import pytest

from chatfold.agent import Agent, Chat, ModelFailed, ScriptedModel, Store, tool
from chatfold.eventlog import Forked, MessageAdded, NoSuchPoint, SendRequested, ToolReturned
from chatfold.projections import contexts
from chatfold.projections.text import text_of
from chatfold.replay.verify.rehearsal import Factory
from chatfold.replay.verify.rerun_turn import rerun
from tests.support.debugger.recorded_bot import build, step, talked

used: list[int] = []


@tool
def look(where: int) -> str:
    """Looks."""
    used.append(where)
    return f"{len(used)} looks"


@pytest.fixture(autouse=True)
def _unused() -> None:
    used.clear()


def looking(*script: Any) -> Factory:
    return lambda store: Agent(model=ScriptedModel(script), tools=[look], store=store)


async def recorded(store: Store) -> Chat:
    agent = Agent(
        model=ScriptedModel([step(("look", {"where": 1})), "there", "bye"]), tools=[look], store=store
    )
    await agent.run("where is it?", chat="chat")
    await agent.run("thanks", chat="chat")
    return await store.chat("chat")


async def returned(chat: Chat) -> list[str]:
    return [text_of(e.event.parts) async for e in chat.entries() if isinstance(e.event, ToolReturned)]


async def test_a_turn_is_answered_anew_in_a_fork_with_the_results_of_then() -> None:
    store = Store.memory()
    chat = await recorded(store)
    before = chat.view.head
    fork, result = await rerun(chat, 4, looking(step(("look", {"where": 1})), "here"))
    assert (result.outcome, result.text) == ("done", "here")
    assert used == [1]
    assert await returned(fork) == ["1 looks"]
    assert (await chat.now()).view.head == before
    [forked] = [e.event async for e in fork.entries() if isinstance(e.event, Forked)]
    assert (forked.parent, forked.at) == ("chat", 1)
    said = [text_of(e.event.parts) async for e in fork.entries() if isinstance(e.event, MessageAdded)]
    assert said[0] == "where is it?"
    assert said.count("where is it?") == 1


@pytest.mark.parametrize("tools", ["live", ["look"]])
async def test_a_tool_that_is_named_runs(tools: Any) -> None:
    chat = await recorded(Store.memory())
    fork, result = await rerun(
        chat, 1, looking(step(("look", {"where": 5})), "here"), tools=tools, key="mine"
    )
    assert (fork.key, result.outcome, used) == ("mine", "done", [1, 5])
    assert await returned(fork) == ["2 looks"]


async def test_a_call_that_was_not_made_then_fails_the_run_and_does_not_run() -> None:
    chat = await recorded(Store.memory())
    fork, result = await rerun(chat, 1, looking(step(("look", {"where": 5})), "here"))
    assert result.outcome == "failed"
    assert 'look was not called with these arguments in the original turn: {"where":5}' in result.error
    assert used == [1]
    assert (await returned(fork))[0].startswith("NotRecorded")


async def test_the_turn_is_that_of_the_entry_and_keys_are_found() -> None:
    chat = await recorded(Store.memory())
    first, _ = await rerun(chat, chat.seq, looking("you are welcome"))
    second, result = await rerun(chat, chat.seq, looking("not at all"))
    assert (first.key, second.key) == ("chat-rerun-1", "chat-rerun-2")
    assert result.text == "not at all"
    assert used == [1]
    with pytest.raises(NoSuchPoint, match="no question"):
        await rerun(chat, 0, looking())
    with pytest.raises(ValueError, match="no tool touch; there are: look"):
        await rerun(chat, 1, looking(), tools=["touch"])


async def test_a_question_that_nobody_answered_is_answered() -> None:
    store = Store.memory()
    chat = await store.chat("chat")
    await chat.user("anybody?")
    fork, result = await rerun(chat, 1, looking("me"))
    assert (result.text, fork.seq > chat.seq) == ("me", True)


async def test_tools_of_the_chat_itself_run_in_the_fork_and_nothing_is_sent() -> None:
    chat = await talked(Store.memory(), "Where is order 7?", "new topic")
    fork, result = await rerun(chat, chat.seq, build)
    assert result.outcome == "done"
    assert (await fork.now())[contexts].active.id != (await chat.now())[contexts].active.id
    own = [e.event async for e in fork.entries() if isinstance(e.event, SendRequested)]
    assert len(own) == 1  # the one before the fork


async def test_a_model_that_fails_fails_in_the_fork() -> None:
    chat = await recorded(Store.memory())
    fork, result = await rerun(chat, 1, looking(ModelFailed("no")))
    assert (result.outcome, fork.key) == ("failed", "chat-rerun-1")


async def test_another_model_of_the_same_provider_may_answer() -> None:
    chat = await talked(Store.memory(), "hello")
    asked: list[str] = []

    class Named(ScriptedModel):
        async def ask(self, payload: dict[str, Any]) -> Any:
            asked.append(self.name)
            async for piece in super().ask(payload):
                yield piece

    def build_named(store: Store) -> Agent:
        return build(store, model=Named(["fine"], name="rules"))

    _, result = await rerun(chat, chat.seq, build_named, model="other")
    assert (result.text, asked) == ("fine", ["other"])
