"""Whose turn it is: one run at a time in a chat, chats side by side, and a message is answered whenever it arrives."""

import asyncio
from itertools import repeat
from typing import Any

import pytest

from chatfold.agent import Agent, Chat, Result, Store
from chatfold.agent.limits import Limits
from chatfold.agent.models import Line, ModelReply
from chatfold.agent.tools import tool
from chatfold.eventlog import ModelCalled, ToolReturned
from chatfold.projections import turn
from tests.support.acting import (
    Meddled,
    Paused,
    are_proved,
    is_empty,
    is_whole,
    key_of,
    outcomes,
    said,
    until_said,
    users,
    words,
)
from tests.support.agent_runs import agent, events, step
from tests.support.chats import a_store  # noqa: F401


@tool
async def look() -> str:
    """Looks."""
    return "seen"


def looked_then_answered(payload: dict[str, Any]) -> ModelReply | str:
    """Looks once, then says to what it answers."""
    has_looked = any(message["results"] for message in payload["messages"])
    return f"answer to {', '.join(users(payload))}" if has_looked else step(("look", {}))


# --- one at a time, side by side -------------------------------------------------------------------------


async def test_a_chat_never_has_two_questions_with_the_model_however_many_messages_come(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store, tools=[look])
    running = asyncio.gather(*(made.run(f"{n}", chat=key) for n in range(8) for key in ("a", "b")))
    while not running.done():
        waiting = asyncio.create_task(model.asked())
        await asyncio.wait((waiting, running), return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            answer = looked_then_answered(waiting.result().payload)
            waiting.result().answer(answer)
        waiting.cancel()
    assert model.most_in_one == 1
    for key in ("a", "b"):
        assert sorted(await said(await store.chat(key))) == [f"{n}" for n in range(8)]
        assert not (await store.chat(key))[turn].is_waiting


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_as_many_chats_as_allowed_are_answered_at_once_and_no_more(store: Store, limit: int) -> None:
    model = Paused()
    made = Agent(model=model, store=store, limits=Limits(chats=limit))
    keys = [f"chat {number}" for number in range(12)]
    for key in keys:
        await made.submit("hello", chat=key)
    open_questions = [await model.asked() for _ in range(limit)]
    answered = []
    while open_questions:
        question = open_questions.pop(0)
        answered.append(key_of(question.payload))
        question.answer("hello")
        if len(answered) + len(open_questions) < len(keys):
            open_questions.append(await model.asked())
    await made.wait_idle()
    assert model.most == limit
    assert sorted(answered) == sorted(keys)
    assert all(
        abs(answered.index(key) - at) < limit for at, key in enumerate(keys)
    )  # first come, first served
    assert is_empty(made)


async def test_a_chat_that_never_stops_talking_does_not_keep_others_waiting(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store, limits=Limits(chats=1))
    await made.submit("0", chat="busy")
    question = await model.asked()
    await made.submit("when is it my turn?", chat="quiet")
    for turns in range(1, 10):
        await made.submit(f"{turns}", chat="busy")
        question.answer("yes, yes")
        question = await model.asked()
        if key_of(question.payload) == "quiet":
            break
    assert (key_of(question.payload), turns) == ("quiet", 1)
    question.answer("now")
    (await model.asked()).answer("the rest")
    await made.wait_idle()


async def test_messages_that_wait_for_their_own_chat_take_no_place_from_others(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store, limits=Limits(chats=2))
    await made.submit("0", chat="busy")
    first = await model.asked()
    for number in range(1, 5):
        await made.submit(f"{number}", chat="busy")
    await made.submit("hello", chat="quiet")
    second = await model.asked()
    assert key_of(second.payload) == "quiet"
    for question in (second, first):
        question.answer("ok")
    (await model.asked()).answer("the rest")
    await made.wait_idle()


async def test_many_waiting_messages_of_one_chat_take_one_turn_not_many(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store, limits=Limits(chats=1))
    await made.submit("hold the place", chat="first")
    question = await model.asked()
    for number in range(20):
        await made.submit(f"{number}", chat="busy")
    await made.submit("hello", chat="quiet")
    asked: list[str] = []
    while True:
        question.answer("ok")
        if len(asked) == 2:
            break
        question = await model.asked()
        asked.append(key_of(question.payload))
    await made.wait_idle()
    assert asked == ["busy", "quiet"]
    assert len(users(model.payloads[1])) == 20


# --- a message arrives -----------------------------------------------------------------------------------


async def meddled(at: int, *, steps: int = 30) -> tuple[int, Chat, list[Result], Any]:
    """A run during which another message arrives right before its append number ``at``; how many there were."""
    storage = Meddled()
    store = Store(storage)
    made, model = agent(store, repeat(looked_then_answered), [look], limits=Limits(steps=steps))
    later: list[asyncio.Task[Result]] = []

    async def arrive() -> None:
        later.append(asyncio.create_task(made.run("and this?", chat="chat", id="tg-2")))
        await until_said(store, "chat", "and this?")

    storage.before(at, arrive)
    results = [await made.run("this?", chat="chat")]
    count = storage.appended
    results += await asyncio.gather(*later)
    if later:  # delivered once more, it is what it was
        results.append(await made.run("and this?", chat="chat", id="tg-2"))
    assert is_empty(made)
    return count, await store.chat("chat"), results, model


async def test_a_message_is_seen_from_the_next_step_on_and_answered_wherever_in_a_run_it_arrives() -> None:
    count, chat, _, _ = await meddled(0)
    assert await outcomes(chat) == ["done"]
    assert count > 6
    for at in range(2, count + 1):
        _, chat, _, model = await meddled(at)
        assert await said(chat) == ["this?", "and this?"], at
        entries = [entry async for entry in chat.entries()]
        arrived = (await until_said(Store(chat.log.storage), "chat", "and this?")).seq
        asked = [entry.seq for entry in entries if isinstance(entry.event, ModelCalled)]
        for seq, payload in zip(asked, model.payloads, strict=True):
            assert ("and this?" in users(payload)) == (arrived < seq), at
            assert is_whole(payload), at
        assert "answer to this?, and this?" in await said(chat, "assistant"), at
        assert not chat[turn].is_waiting, at
        assert set(await outcomes(chat)) == {"done"}, at
        assert await are_proved(chat, model), at


async def test_the_result_is_that_of_the_run_that_answered_the_message_wherever_it_arrives() -> None:
    count, _, _, _ = await meddled(0)
    for at in range(2, count + 1):
        _, _, [_, result, again], _ = await meddled(at)
        assert (at, result.text, result.outcome) == (at, "answer to this?, and this?", "done")
        assert (at, again) == (at, result)


async def test_a_message_that_finds_the_run_at_its_limit_is_answered_by_the_next_one() -> None:
    count, _, _, _ = await meddled(0, steps=2)
    for at in range(2, count + 1):
        _, chat, [_, result, again], _ = await meddled(at, steps=2)
        assert (at, result.text) == (at, "answer to this?, and this?")
        assert (at, again) == (at, result)
        assert not chat[turn].is_waiting


async def test_a_message_that_arrives_while_a_tool_runs_is_an_event_at_once_and_comes_after_the_tool_block(
    store: Store,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        await go_on.wait()
        return "waited"

    script: list[Line] = [
        step(("wait", {})),
        step(("look", {}), ids=["x"]),
        step(("look", {}), ids=["y"]),
        "both",
    ]
    made, model = agent(store, script, [wait, look])
    await made.submit("this?", chat="chat")
    await begun.wait()
    entry = await made.submit("and this?", chat="chat")
    chat = await store.chat("chat")
    assert chat.seq == entry.seq
    assert await events(chat, ToolReturned) == []
    go_on.set()
    await made.wait_idle()
    for payload in model.payloads[1:]:
        assert users(payload) == ["this?", "and this?"]
        roles = [m["role"] for m in payload["messages"] if m["kind"] == "said"]
        assert roles[:4] == ["user", "assistant", "tool", "user"]
    assert await outcomes(chat) == ["done"]
    assert len(model.payloads) == 4


async def test_a_message_that_arrives_while_the_model_answers_comes_after_its_answer_and_is_answered(
    store: Store,
) -> None:
    model = Paused()
    made = Agent(model=model, store=store)
    await made.submit("this?", chat="chat")
    first = await model.asked()
    await made.submit("and this?", chat="chat")
    first.answer("This.")
    second = await model.asked()
    assert words(second.payload) == [("user", "this?"), ("assistant", "This."), ("user", "and this?")]
    second.answer("And this.")
    await made.wait_idle()
    assert len(model.payloads) == 2


async def test_a_message_that_somebody_else_recorded_meanwhile_is_answered_too(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store)
    await made.submit("this?", chat="chat")
    question = await model.asked()
    await (await store.chat("chat")).user("said elsewhere")
    question.answer("This.")
    question = await model.asked()
    assert users(question.payload) == ["this?", "said elsewhere"]
    question.answer("Elsewhere.")
    await made.wait_idle()
    assert not (await store.chat("chat"))[turn].is_waiting


@pytest.mark.parametrize("crowded", [False, True])
async def test_it_is_answered_also_if_only_somebody_who_is_answered_already_waits_for_a_turn(
    store: Store, crowded: bool
) -> None:
    model = Paused()
    made = Agent(model=model, store=store, tools=[look], limits=Limits(chats=1))
    await made.submit("this?", chat="chat")
    question = await model.asked()
    await made.submit("and this?", chat="chat")
    if crowded:
        await made.submit("hello", chat="other")
    question.answer(step(("look", {})))
    question = await model.asked()
    assert users(question.payload) == ["this?", "and this?"]
    await (await store.chat("chat")).user("said elsewhere")
    question.answer("Both.")
    for key in ("other", "chat") if crowded else ("chat",):
        idle, asked = asyncio.create_task(made.wait_idle()), asyncio.create_task(model.asked())
        await asyncio.wait((idle, asked), return_when=asyncio.FIRST_COMPLETED)
        assert asked.done(), key
        assert key_of(asked.result().payload) == key
        asked.result().answer("Yes.")
    await made.wait_idle()
    assert not (await store.chat("chat"))[turn].is_waiting


async def test_who_is_cancelled_takes_nobody_elses_answer_along(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store, tools=[look])
    first = asyncio.create_task(made.run("this?", chat="chat"))
    question = await model.asked()
    second = asyncio.create_task(made.run("and this?", chat="chat"))
    await until_said(store, "chat", "and this?")
    question.answer(step(("look", {})))
    question = await model.asked()
    assert users(question.payload) == ["this?", "and this?"]
    first.cancel()
    await asyncio.wait((first,))
    waiting = asyncio.create_task(model.asked())
    await asyncio.wait((waiting, second), return_when=asyncio.FIRST_COMPLETED)
    assert waiting.done(), second.result()
    waiting.result().answer("Both.")
    assert (await second).text == "Both."
