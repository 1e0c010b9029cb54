"""What can go wrong in a run: the model, limits, cancellation. It is told as it is, and nothing done is done again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chatfold.agent import Agent, ModelFailed, Policy, PromptTooLarge, Store, tool, world
from chatfold.agent.limits import Limits
from chatfold.agent.models import Line, ModelReply, Piece, ScriptedModel
from chatfold.eventlog import (
    Compacted,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    RunFinished,
    Text,
    ToolReturned,
)
from chatfold.projections.labels import INTERRUPTED
from tests.support.acting import Paused, are_proved, counted, is_whole, outcomes, said, users
from tests.support.agent_runs import agent, events, step
from tests.support.chats import a_store  # noqa: F401

TOO_LONG = "context_length_exceeded: the prompt is too long"


# --- limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_a_run_that_never_answers_ends_at_its_limit_with_every_call_answered(
    store: Store, limit: int
) -> None:
    act, done = counted()
    endless: list[Line] = [step(("act", {"what": str(number)}), ids=[f"c{number}"]) for number in range(9)]
    made, model = agent(store, endless, [act], limits=Limits(steps=limit))
    result = await made.run("now this", chat="chat")
    assert (result.outcome, result.error) == ("limit", f"no answer within {limit} steps")
    assert (len(model.payloads), len(done)) == (limit, limit)
    chat = await store.chat("chat")
    assert await chat.open_calls() == []
    assert await outcomes(chat) == ["limit"]


async def test_an_answer_in_the_last_step_is_no_limit(store: Store) -> None:
    act, _ = counted()
    made, _ = agent(store, [step(("act", {})), "done"], [act], limits=Limits(steps=2))
    assert (await made.run("now this", chat="chat")).outcome == "done"


# --- the model -------------------------------------------------------------------------------------------


async def test_a_model_that_fails_for_good_ends_the_run_and_the_next_message_gets_another(
    store: Store,
) -> None:
    act, done = counted()
    made, model = agent(store, [step(("act", {})), ModelFailed("no credit"), "fine"], [act])
    result = await made.run("one", chat="chat")
    assert (result.outcome, "no credit" in result.error, result.text) == ("failed", True, "")
    chat = await store.chat("chat")
    assert [event.error for event in await events(chat, ModelReturned)][-1] == result.error
    assert await made.resume_all() == []  # it would only fail again
    assert (await made.run("two", chat="chat")).text == "fine"
    assert (users(model.payloads[-1]), len(done)) == (["one", "two"], 1)


async def test_a_bug_in_a_model_is_raised_and_the_log_says_that_the_run_failed(store: Store) -> None:
    act, _ = counted()
    made, _ = agent(store, [step(("act", {})), ZeroDivisionError("oops"), "fine"], [act])
    with pytest.raises(ZeroDivisionError, match="oops"):
        await made.run("one", chat="chat")
    chat = await store.chat("chat")
    [finished] = await events(chat, RunFinished)
    assert (finished.outcome, finished.error) == ("failed", "ZeroDivisionError: oops")
    assert (await made.run("two", chat="chat")).text == "fine"


async def test_a_model_that_ends_without_an_answer_is_asked_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(ScriptedModel):
        async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
            self.payloads.append(payload)
            yield Piece("half an ans")
            if len(self.payloads) > 1:
                yield ModelReply((Text("half an answer, and the other half"),))

    model = Silent([])
    made = Agent(model=model, store=store)
    running_instantly(monkeypatch)
    result = await made.run("one", chat="chat")
    assert (result.text, len(model.payloads)) == ("half an answer, and the other half", 2)
    assert await said(await store.chat("chat"), "assistant") == ["half an answer, and the other half"]


def running_instantly(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No wait takes any time; how long they would have been."""
    waits: list[float] = []

    class Instantly:
        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        async def sleep(self, seconds: float) -> None:
            waits.append(seconds)

    monkeypatch.setattr(world, "asyncio", Instantly())
    return waits


async def test_an_answer_of_nothing_is_an_answer(store: Store) -> None:
    made, model = agent(store, [ModelReply(), "fine"], [])
    result = await made.run("one", chat="chat")
    assert (result.outcome, result.text) == ("done", "")
    assert (await made.run("two", chat="chat")).text == "fine"
    assert is_whole(model.payloads[1])


async def test_what_may_pass_is_tried_again_after_ever_longer_waits_that_are_in_the_log(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = running_instantly(monkeypatch)
    act, done = counted()
    busy = ModelFailed("busy", again=True)
    slow = ModelFailed("rate limit", again=True, after=7.5)
    made, model = agent(store, [step(("act", {})), busy, busy, slow, "done"], [act])
    result = await made.run("one", chat="chat")
    assert (result.outcome, len(done), waits) == ("done", 1, [0.5, 1.0, 7.5])
    failed = [event for event in await events(await store.chat("chat"), ModelReturned) if event.error]
    assert [(event.meta["retry"], event.meta["wait"]) for event in failed] == [(1, 0.5), (2, 1.0), (3, 7.5)]
    assert model.payloads[1] == model.payloads[2] == model.payloads[3] == model.payloads[4]
    assert await are_proved(await store.chat("chat"), model)


@pytest.mark.parametrize("retries", [0, 2])
async def test_it_is_not_tried_more_often_than_allowed(store: Store, retries: int) -> None:
    busy = ModelFailed("busy", again=True, after=0)
    made, model = agent(store, [busy] * 9, [], limits=Limits(retries=retries))
    result = await made.run("one", chat="chat")
    assert (result.outcome, len(model.payloads)) == ("failed", retries + 1)
    assert len(await events(await store.chat("chat"), ModelCalled)) == retries + 1


# --- too long --------------------------------------------------------------------------------------------


async def test_a_prompt_that_is_too_long_is_compacted_and_tried_again_and_no_tool_is_used_again(
    store: Store,
) -> None:
    act, done = counted()
    chat = await store.chat("chat")
    for number in range(20):
        await chat.user(f"question {number} " + "and so on " * 40)
        await chat.assistant(f"answer {number}")
    made, model = agent(store, [step(("act", {"what": "a"})), ModelFailed(TOO_LONG), "done"], [act])
    result = await made.run("the last one", chat="chat")
    assert (result.outcome, result.text, done) == ("done", "done", ["a"])
    [compacted] = await events(await store.chat("chat"), Compacted)
    assert compacted.trigger == "provider_error"
    _, too_long, after = model.payloads
    assert len(str(after["messages"])) < len(str(too_long["messages"])) / 2
    assert users(after)[-1] == "the last one"
    assert "did a" in str(after["messages"])
    assert is_whole(after)
    assert await are_proved(await store.chat("chat"), model)


async def test_a_prompt_that_cannot_be_made_shorter_is_not_sent_again(store: Store) -> None:
    made, model = agent(store, [ModelFailed(TOO_LONG)] * 9, [])
    result = await made.run("the only one " * 50, chat="chat")
    assert (result.outcome, len(model.payloads)) == ("failed", 1)
    assert str(PromptTooLarge(1, 2, chat="chat")).partition("1")[0] in result.error


async def test_a_provider_that_never_has_enough_is_not_asked_for_ever(store: Store) -> None:
    chat = await store.chat("chat")
    for number in range(60):
        await chat.user(f"question {number} " + "and so on " * 40)
        await chat.assistant(f"answer {number}")
    made, model = agent(store, [ModelFailed(TOO_LONG)] * 20, [], limits=Limits(retries=2))
    result = await made.run("the last one", chat="chat")
    assert result.outcome == "failed"
    sizes = [len(str(payload["messages"])) for payload in model.payloads]
    assert len(sizes) <= 3
    assert sizes == sorted(set(sizes), reverse=True)  # each is shorter than the one before


async def test_a_summary_that_fails_hides_nothing_and_the_model_is_asked_with_everything(
    store: Store,
) -> None:
    def fails(_: object) -> str:
        raise RuntimeError("no summary today")

    policy = Policy(keep=2, budget=None, above=6)
    made, model = agent(store, ["answer"] * 4, [], policy=policy, summarise=fails)
    for number in range(4):
        assert (await made.run(f"{number}", chat="chat")).outcome == "done"
    assert users(model.payloads[-1]) == ["0", "1", "2", "3"]
    assert await events(await store.chat("chat"), Compacted) == []


# --- cancelled -------------------------------------------------------------------------------------------


async def test_a_run_that_is_cancelled_while_the_model_answers_leaves_a_log_that_goes_on(
    store: Store,
) -> None:
    model = Paused()
    made = Agent(model=model, store=store)
    task = asyncio.create_task(made.run("one", chat="chat"))
    question = await model.asked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert question.was_given_up
    chat = await store.chat("chat")
    assert [event.error for event in await events(chat, ModelReturned)] == ["cancelled"]
    assert await outcomes(chat) == ["cancelled"]
    again = asyncio.create_task(made.run("two", chat="chat"))
    question = await model.asked()
    assert users(question.payload) == ["one", "two"]
    question.answer("both")
    assert (await again).text == "both"


async def test_of_calls_side_by_side_those_that_came_back_before_the_cancellation_keep_their_result(
    store: Store,
) -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        return str(await asyncio.Event().wait())

    act, done = counted()
    made, model = agent(store, [step(("act", {"what": "a"}), ("wait", {})), "fine"], [act, wait])
    task = asyncio.create_task(made.run("one", chat="chat"))
    await begun.wait()
    while not await events(await store.chat("chat"), ToolReturned):  # noqa: ASYNC110 (the store tells nobody)
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    await made.run("two", chat="chat")
    [results] = [m["results"] for m in model.payloads[-1]["messages"] if m["results"]]
    assert [result["failed"] for result in results] == [False, True]
    assert INTERRUPTED in str(results[1])
    assert (done, is_whole(model.payloads[-1])) == (["a"], True)
    assert len(await events(await store.chat("chat"), MessageAdded)) == 3
