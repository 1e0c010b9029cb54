"""Bursts and interruptions: what comes at once is answered as one, and what comes in between is not answered too late."""

import asyncio
from typing import Any

import pytest

from chatfold.agent import Agent, Store
from chatfold.agent import agent as agent_module
from chatfold.agent.limits import Limits
from chatfold.agent.tools import tool
from chatfold.eventlog import MessageAdded, ModelReturned, ToolReturned
from tests.support.acting import Paused, Question, are_proved, is_empty, outcomes, said, users
from tests.support.agent_runs import events, step
from tests.support.chats import a_store  # noqa: F401


class Time:
    """Stands for ``asyncio`` in the runtime: it is later when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.sleeping: asyncio.Queue[asyncio.Event] = asyncio.Queue()
        monkeypatch.setattr(agent_module, "asyncio", self)

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def get_running_loop(self) -> "Time":
        return self

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        end, wake = self.now + seconds, asyncio.Event()
        self.sleeping.put_nowait(wake)
        await wake.wait()
        self.now = max(self.now, end)


async def next_question(model: Paused, time: Time) -> tuple[Question, int]:
    """The next question, and after how many naps."""
    naps = 0
    asked = asyncio.create_task(model.asked())
    while not asked.done():
        nap = asyncio.create_task(time.sleeping.get())
        await asyncio.wait((asked, nap), return_when=asyncio.FIRST_COMPLETED)
        if nap.done():
            nap.result().set()
            naps += 1
        nap.cancel()
    return asked.result(), naps


async def until_quiet(made: Agent, time: Time) -> None:
    idle = asyncio.create_task(made.wait_idle())
    while not idle.done():
        nap = asyncio.create_task(time.sleeping.get())
        await asyncio.wait((idle, nap), return_when=asyncio.FIRST_COMPLETED)
        if nap.done():
            nap.result().set()
        nap.cancel()


async def test_a_burst_is_answered_as_one_when_nothing_more_comes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, model = Time(monkeypatch), Paused()
    made = Agent(model=model, store=store, limits=Limits(debounce=0.6, debounce_most=100))
    await made.submit("0", chat="chat")
    for number in range(1, 4):
        nap = await time.sleeping.get()
        await made.submit(f"{number}", chat="chat")
        nap.set()
    question, naps = await next_question(model, time)
    assert (users(question.payload), naps) == (["0", "1", "2", "3"], 1)
    chat = await store.chat("chat")
    assert [event.parts[0].text for event in await events(chat, MessageAdded)] == ["0", "1", "2", "3"]
    question.answer("all of it")
    idle = asyncio.create_task(made.wait_idle())
    nap_or_not = asyncio.create_task(time.sleeping.get())
    await asyncio.wait((idle, nap_or_not), return_when=asyncio.FIRST_COMPLETED)
    assert idle.done()  # what is answered already does not wait for more
    nap_or_not.cancel()
    assert len(model.payloads) == 1
    assert is_empty(made)


async def test_a_burst_that_does_not_end_is_answered_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, model = Time(monkeypatch), Paused()
    made = Agent(model=model, store=store, limits=Limits(debounce=0.6, debounce_most=2.0))
    await made.submit("0", chat="chat")
    for number in range(1, 4):  # until 1.8
        nap = await time.sleeping.get()
        await made.submit(f"{number}", chat="chat")
        nap.set()
    nap = await time.sleeping.get()
    await made.submit("4", chat="chat")
    nap.set()  # it is 2.4 now
    question, naps = await next_question(model, time)
    assert (len(users(question.payload)), naps) == (5, 0)
    question.answer("enough")
    await until_quiet(made, time)


async def test_without_a_pause_to_wait_for_a_message_is_answered_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, model = Time(monkeypatch), Paused()
    made = Agent(model=model, store=store)
    await made.submit("0", chat="chat")
    _, naps = await next_question(model, time)
    assert naps == 0
    for task in made._later:
        task.cancel()
    await made.wait_idle()


@pytest.mark.parametrize("cancel", [True, False])
async def test_new_input_makes_the_model_start_anew_if_that_is_wanted(store: Store, cancel: bool) -> None:
    model = Paused()
    made = Agent(model=model, store=store)
    await made.submit("this?", chat="chat")
    first = await model.asked()
    await made.submit("no, that!", chat="chat", interrupt=cancel)
    if not cancel:
        first.answer("This.")
    second = await model.asked()
    assert first.was_given_up == cancel
    assert users(second.payload) == ["this?", "no, that!"]
    second.answer("That.")
    await made.wait_idle()
    chat = await store.chat("chat")
    assert await said(chat, "assistant") == (["That."] if cancel else ["This.", "That."])
    assert [event.error for event in await events(chat, ModelReturned)] == (
        ["cancelled", ""] if cancel else ["", ""]
    )
    assert set(await outcomes(chat)) == {"done"}
    assert await are_proved(chat, model)


async def test_a_tool_that_runs_is_not_given_up_for_new_input(store: Store) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        await go_on.wait()
        return "waited"

    model = Paused()
    made = Agent(model=model, store=store, tools=[wait])
    await made.submit("this?", chat="chat")
    (await model.asked()).answer(step(("wait", {})))
    await begun.wait()
    await made.submit("and this?", chat="chat", interrupt=True)
    go_on.set()
    question = await model.asked()
    assert users(question.payload) == ["this?", "and this?"]
    assert not any(run.interrupted.is_set() for run in made._runs.values())  # it is in this question already
    question.answer("Both.")
    await made.wait_idle()
    chat = await store.chat("chat")
    assert [event.failed for event in await events(chat, ToolReturned)] == [False]
    assert [event.error for event in await events(chat, ModelReturned)] == ["", ""]
    assert not question.was_given_up


async def test_a_message_that_is_delivered_again_is_no_new_input(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store)
    await made.submit("this?", chat="chat", id="tg-1")
    question = await model.asked()
    await made.submit("this?", chat="chat", id="tg-1", interrupt=True)
    assert not any(run.interrupted.is_set() for run in made._runs.values())
    question.answer("This.")
    await made.wait_idle()
    chat = await store.chat("chat")
    assert (await said(chat), await said(chat, "assistant")) == (["this?"], ["This."])
