"""A run that is gone on with: which calls are made again, what it sees, and that it began once."""

import asyncio
from typing import Any

from chatfold import Agent, Chat, ScriptedModel, Store, events, model_from, tool, user
from chatfold.eventlog import Head, MemoryStorage


class Waiting(MemoryStorage):
    """Each look at the log takes a turn of the event loop, as on a disk: a cancellation can come there."""

    async def head(self, chat: str) -> Head:
        await asyncio.sleep(0)
        return await super().head(chat)


async def killed_run(store: Store, *calls: str) -> Chat:
    """A chat whose run ``r`` was killed when these tools had been called."""
    chat = await store.chat("a")
    await chat.record(user("Please."))
    await chat.record(events.RunStarted(), events.ModelCalled("scripted", "f"), run="r")
    called = [events.ToolCalled(f"call of {name}", name) for name in calls]
    await chat.record(events.ModelReturned(), *called, run="r")
    return chat


async def test_a_call_without_a_result_is_made_again_only_if_its_tool_says_so() -> None:
    made: list[str] = []

    @tool
    def pay() -> str:
        """Pays."""
        made.append("pay")
        return "paid"

    @tool(after_crash="again")
    def look() -> str:
        """Looks."""
        made.append("look")
        return "seen"

    store = Store.memory()
    await killed_run(store, "pay", "look")
    result = await Agent(ScriptedModel(["done"]), store=store, tools=[pay, look]).resume("a")
    assert made == ["look"]
    assert result is not None
    assert [(use.tool, use.failed) for use in result.tool_calls] == [("pay", True), ("look", False)]


async def test_a_message_that_comes_while_the_model_answers_is_answered_by_the_same_run() -> None:
    store = Store.memory()
    chat = await store.chat("a")
    asked: list[str] = []

    async def answer(messages: list[dict[str, Any]]) -> str:
        asked.append(messages[-1]["content"])
        if len(asked) == 1:
            await chat.user("and two?")
        return f"answer {len(asked)}"

    result = await Agent(model_from(answer), store=store).run("one?", chat=chat)
    assert (asked, result.text) == (["one?", "and two?"], "answer 2")
    begun = [entry async for entry in chat.entries() if isinstance(entry.event, events.RunStarted)]
    assert len(begun) == 1


async def test_wherever_the_resuming_is_cancelled_the_run_began_once_and_ends_once() -> None:
    for steps in range(60):
        store = Store(Waiting())
        chat = await killed_run(store)
        resuming = asyncio.ensure_future(Agent(ScriptedModel(["done"]), store=store).resume("a"))
        for _ in range(steps):
            await asyncio.sleep(0)
        resuming.cancel()
        await asyncio.wait((resuming,))
        own = [type(entry.event) async for entry in chat.entries() if entry.run == "r"]
        assert own.count(events.RunStarted) == 1, steps
        assert own.count(events.RunFinished) <= 1, steps
