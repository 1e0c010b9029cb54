"""What was accepted is answered: in the background, after a restart, once for each id, and in two hundred chats at once."""

import asyncio
import gc
from itertools import repeat
from typing import Any

import pytest

from chatfold.agent import Agent, Chat, ModelFailed, Store, current_run, user
from chatfold.agent.limits import Limits
from chatfold.agent.models import ModelReply, ScriptedModel
from chatfold.agent.run import Run
from chatfold.agent.run_context import RunContext
from chatfold.agent.tools import tool
from chatfold.eventlog import (
    IdConflict,
    MemoryStorage,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
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
    until,
    users,
)
from tests.support.agent_runs import agent, events, step
from tests.support.chats import a_store  # noqa: F401
from tests.support.storages import Opener, lasting


@tool
async def look() -> str:
    """Looks."""
    return "seen"


def echo(payload: dict[str, Any]) -> str:
    return f"answer to {', '.join(users(payload))}"


async def killed(made: Agent, store: Store) -> None:
    """The process is gone: nothing more is written, whatever it was about to write."""
    await store.log.storage.close()
    for task in made._later:
        task.cancel()
    await asyncio.gather(*made._later, return_exceptions=True)


# --- in the background -----------------------------------------------------------------------------------


async def test_accepting_returns_when_the_message_is_recorded_and_idle_when_it_is_answered(
    store: Store,
) -> None:
    model = Paused()
    made = Agent(model=model, store=store)
    entry = await made.submit("hello", chat="chat", id="tg-1", meta={"userId": 7})
    assert (entry.seq, entry.id, model.payloads) == (1, "tg-1", [])
    assert entry.event == MessageAdded("user", (Text("hello"),), meta={"userId": 7})
    idle = asyncio.create_task(made.wait_idle())
    question = await model.asked()
    assert not idle.done()
    question.answer("hello")
    await idle
    assert await outcomes(await store.chat("chat")) == ["done"]
    assert is_empty(made)


async def test_what_fails_in_the_background_is_in_the_log_and_stops_nobody_else(store: Store) -> None:
    def one_fails(payload: dict[str, Any]) -> Exception | str:
        return ModelFailed("no credit") if key_of(payload) == "a" else "fine"

    made, _ = agent(store, repeat(one_fails), [])
    for key in ("a", "b", "c"):
        await made.submit("hello", chat=key)
    await made.wait_idle()
    assert [await outcomes(await store.chat(key)) for key in ("a", "b", "c")] == [
        ["failed"],
        ["done"],
        ["done"],
    ]
    assert is_empty(made)


@lasting
async def test_leaving_the_agent_waits_for_what_was_accepted(storages: Opener) -> None:
    async with Store(storages()) as store:
        made, _ = agent(store, repeat(echo), [])
        async with made:
            await made.submit("hello", chat="chat")
    async with Store(storages()) as again:
        assert await said(await again.chat("chat"), "assistant") == ["answer to hello"]


# --- after a restart -------------------------------------------------------------------------------------


@lasting
async def test_a_new_agent_answers_everything_that_the_killed_one_had_accepted(storages: Opener) -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Never returns."""
        begun.set()
        return str(await asyncio.Event().wait())

    store, model = Store(storages()), Paused()
    made = Agent(model=model, store=store, tools=[wait], limits=Limits(chats=3))
    for key in ("answered", "in a tool", "asked", "not begun", "not begun either"):
        await made.submit(f"hello from {key}", chat=key)
        if key in ("answered", "in a tool"):
            answer = "hello" if key == "answered" else step(("wait", {}))
            (await model.asked()).answer(answer)
    await until(store, "answered", RunFinished)
    await begun.wait()
    asked = {key_of((await model.asked()).payload) for _ in range(2)}
    await made.submit("and more", chat="asked")
    await killed(made, store)
    async with Store(storages()) as store:
        made, again = agent(store, repeat(echo), [wait])
        pending = await made.resume_all()
        assert asked | {"in a tool"} <= set(pending)
        assert sorted(pending) == ["asked", "in a tool", "not begun", "not begun either"]
        await made.wait_idle()
        for key in pending:
            chat = await store.chat(key)
            sent = ["hello from asked", "and more"] if key == "asked" else [f"hello from {key}"]
            assert (await said(chat))[-len(sent) :] == sent
            assert (await said(chat, "assistant"))[-1] == f"answer to {', '.join(sent)}"
            assert await outcomes(chat) == ["done"]
            assert len(await events(chat, RunStarted)) == 1
        assert all(is_whole(payload) for payload in again.payloads)
        assert await made.resume_all() == []
        assert await made.resume("asked") is None


def history(*, upto: int) -> list[Any]:
    """What a run records, one after the other, as far as it came."""
    return [
        (RunStarted(),),
        (ModelCalled("m", "x"),),
        (ModelReturned(), ToolCalled("c1", "look", {})),
        (ToolReturned("c1", (Text("seen"),)),),
        (ModelCalled("m", "y"),),
        (ModelReturned(), MessageAdded("assistant", (Text("the answer"),))),
    ][:upto]


@pytest.mark.parametrize("upto", range(7))
async def test_wherever_a_run_was_killed_it_is_answered_once(store: Store, upto: int) -> None:
    chat = await store.chat("chat")
    await chat.record(user("hello"))
    for batch in history(upto=upto):
        await chat.record(*batch, run="r1")
    made, model = agent(store, repeat("the answer"), [look])
    result = await made.resume("chat")
    assert result is not None
    assert (result.text, result.outcome) == ("the answer", "done")
    chat = await store.chat("chat")
    assert await said(chat, "assistant") == ["the answer"]
    assert len(model.payloads) == (0 if upto == 6 else 1)  # what was answered is not asked again
    assert len(await events(chat, ToolReturned)) == (1 if upto > 2 else 0)
    assert await made.resume("chat") is None


@pytest.mark.parametrize("upto", range(7))
async def test_what_was_said_before_and_after_the_crash_is_answered_too(store: Store, upto: int) -> None:
    chat = await store.chat("chat")
    await chat.record(user("hello"))
    for batch in history(upto=upto):
        await chat.record(*batch, run="r1")
    await chat.record(user("are you there?"))
    made, model = agent(store, repeat("yes"), [look])
    result = await made.run("hello?", chat="chat")
    assert (result.text, result.outcome) == ("yes", "done")
    assert users(model.payloads[-1]) == ["hello", "are you there?", "hello?"]
    assert is_whole(model.payloads[-1])
    assert await made.resume("chat") is None


async def test_what_failed_and_was_tried_again_before_a_crash_is_no_step_of_the_run(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.record(user("hello"))
    await chat.record(RunStarted(), run="r1")
    for number in range(3):
        await chat.record(ModelCalled("m", "x"), run="r1")
        await chat.record(ModelReturned(error="busy", meta={"retry": number}), run="r1")
    made, _ = agent(store, ["the answer"], [], limits=Limits(steps=3))
    result = await made.resume("chat")
    assert result is not None
    assert (result.outcome, result.text) == ("done", "the answer")


async def test_a_message_that_meets_a_dead_run_at_its_limit_is_answered_by_another(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.record(user("hello"))
    for batch in history(upto=4):
        await chat.record(*batch, run="r1")
    made, model = agent(store, ["yes"], [look], limits=Limits(steps=1))
    result = await made.run("are you there?", chat="chat")
    assert (result.outcome, result.text) == ("done", "yes")
    assert users(model.payloads[-1]) == ["hello", "are you there?"]
    assert await outcomes(await store.chat("chat")) == ["limit", "done"]


async def test_a_message_that_was_recorded_only_is_nothing_to_resume(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.record(user("overheard", origin="audit"), user("nudge", origin="internal"))
    made, model = agent(store, [], [])
    assert await made.resume_all() == []
    assert await made.resume("chat") is None
    assert await made.resume("nowhere") is None
    assert model.payloads == []


# --- the same id -----------------------------------------------------------------------------------------


async def test_the_same_message_twice_is_one_event_one_run_and_one_result(store: Store) -> None:
    made, model = agent(store, repeat(echo), [])
    once, twice = await asyncio.gather(*(made.run("hello", chat="chat", id="tg-1") for _ in range(2)))
    await made.run("something else", chat="chat", id="tg-2")
    later = await made.run("hello", chat="chat", id="tg-1")
    assert once == twice == later
    assert (once.text, len(model.payloads)) == ("answer to hello", 2)
    assert await said(await store.chat("chat")) == ["hello", "something else"]


@lasting
async def test_a_message_delivered_again_after_a_restart_is_the_one_that_was_answered(
    storages: Opener,
) -> None:
    async with Store(storages()) as store:
        made, _ = agent(store, ["first"], [])
        before = await made.run("hello", chat="chat", id="tg-1")
    async with Store(storages()) as store:
        made, model = agent(store, ["second"], [])
        assert await made.run("hello", chat="chat", id="tg-1") == before
        with pytest.raises(IdConflict):
            await made.run("another text", chat="chat", id="tg-1")
        assert model.payloads == []


async def test_a_message_delivered_again_before_it_was_answered_is_answered_once(store: Store) -> None:
    await (await store.chat("chat")).user("hello", id="tg-1")
    made, model = agent(store, ["hi"], [])
    assert (await made.run("hello", chat="chat", id="tg-1")).text == "hi"
    assert len(model.payloads) == 1


async def test_a_message_whose_run_was_cancelled_is_answered_once_when_it_is_delivered_again(
    store: Store,
) -> None:
    model = Paused()
    made = Agent(model=model, store=store)
    cancelled = asyncio.create_task(made.run("hello", chat="chat", id="tg-1"))
    await model.asked()
    cancelled.cancel()
    await asyncio.wait((cancelled,))
    again = asyncio.create_task(made.run("hello", chat="chat", id="tg-1"))
    (await model.asked()).answer("hi")
    assert (await again).text == "hi"
    later = asyncio.create_task(made.run("hello", chat="chat", id="tg-1"))
    asked = asyncio.create_task(model.asked())
    await asyncio.wait((later, asked), return_when=asyncio.FIRST_COMPLETED)
    assert later.done()
    assert await later == await again
    asked.cancel()


async def test_a_message_that_was_answered_by_hand_is_not_answered_again_when_it_is_delivered_again(
    store: Store,
) -> None:
    chat = await store.chat("chat")
    await chat.user("hello", id="tg-1")
    await chat.assistant("hello from a person")
    made, model = agent(store, ["hi"], [])
    await made.run("hello", chat="chat", id="tg-1")
    assert model.payloads == []


async def test_without_an_id_the_same_words_are_another_message(store: Store) -> None:
    made, model = agent(store, repeat(echo), [])
    for _ in range(2):
        await made.run("hello", chat="chat")
    assert len(model.payloads) == 2


# --- many ------------------------------------------------------------------------------------------------


async def alive(*kinds: type) -> int:
    for _ in range(10):  # generators that nobody went on with are closed by the loop
        gc.collect()
        await asyncio.sleep(0)
    return sum(isinstance(one, kinds) for one in gc.get_objects())


@pytest.mark.campaign
async def test_two_hundred_chats_at_once_keep_their_order_lose_nothing_and_leave_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Until a chat is idle its timer stands before the cancelled ones of its tools, and asyncio keeps those.
    monkeypatch.setattr("chatfold.agent.kept_prompt.IDLE_S", 0.01)
    store = Store(MemoryStorage())
    made: Agent

    @tool
    async def more() -> str:
        """Another message arrives, in the middle of the run."""
        chat = current_run().chat
        await made.submit(f"{len(await said(chat))}", chat=chat.key)
        return "said"

    def five_times(payload: dict[str, Any]) -> ModelReply | str:
        count = len(users(payload))
        return step(("more", {}), ids=[f"c{count}"]) if count < 5 else echo(payload)

    before = await alive(Run, RunContext, Chat)
    model = ScriptedModel(repeat(five_times))
    made = Agent(model=model, store=store, tools=[more], limits=Limits(chats=16))
    keys = [f"chat {number}" for number in range(200)]
    await asyncio.gather(*(made.submit("0", chat=key) for key in keys))
    await made.wait_idle()
    for key in keys:
        chat = await store.chat(key)
        assert await said(chat) == ["0", "1", "2", "3", "4"]
        assert (await said(chat, "assistant"))[-1] == "answer to 0, 1, 2, 3, 4"
        assert set(await outcomes(chat)) == {"done"}
        assert not chat[turn].is_waiting
    assert all(is_whole(payload) for payload in model.payloads)
    assert len(model.payloads) == 200 * 5
    assert is_empty(made)
    del chat
    await asyncio.sleep(0.05)
    assert await alive(Run, RunContext, Chat) == before


async def test_a_run_that_is_cancelled_while_it_waits_its_turn_leaves_no_lane_behind(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store, limits=Limits(chats=1))
    await made.submit("hello", chat="first")
    question = await model.asked()
    waiting = [asyncio.create_task(made.run("hello", chat=key)) for key in ("a", "a", "b")]
    for key in ("a", "b"):
        await until(store, key, MessageAdded)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    question.answer("hi")
    await made.wait_idle()
    assert is_empty(made)
    assert set(await made.resume_all()) == {"a", "b"}  # they are recorded, and not answered yet
    for _ in range(2):
        (await model.asked()).answer("hi")
    await made.wait_idle()


async def test_a_run_that_ends_with_a_bug_leaves_no_lane_behind(store: Store) -> None:
    made, _ = agent(store, [RuntimeError("a bug"), "fine"], [])
    with pytest.raises(RuntimeError, match="a bug"):
        await made.run("hello", chat="chat")
    assert is_empty(made)
    assert (await made.run("again", chat="chat")).text == "fine"


async def test_the_requests_of_chats_side_by_side_can_all_be_proved() -> None:
    store = Store(Meddled())
    models: dict[str, ScriptedModel] = {}
    for key in ("a", "b", "c"):
        made, models[key] = agent(store, [step(("look", {})), "one", "two"], [look])
        await asyncio.gather(made.run("1", chat=key), made.run("2", chat=key))
    assert all([await are_proved(await store.chat(key), model) for key, model in models.items()])
