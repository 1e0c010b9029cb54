"""Leaving an agent's block: within the grace period, with nothing forgotten and nobody's exception or store touched."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from chatfold.agent import Agent, ScriptedModel, Store, ToolCall
from chatfold.agent.limits import Limits
from chatfold.agent.models import ModelReply, Piece
from chatfold.agent.tools import tool
from chatfold.eventlog import MessageAdded, RunFinished, RunStarted
from chatfold.projections import turn

QUICK = Limits(grace=0.2)


class Silent(ScriptedModel):
    """Says nothing for ten minutes."""

    async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        self.payloads.append(payload)
        await asyncio.sleep(600)
        yield ModelReply()


async def kinds(store: Store, key: str = "chat") -> list[type]:
    return [type(entry.event) async for entry in (await store.chat(key)).entries()]


async def until_asked(model: ScriptedModel) -> None:
    while not model.payloads:  # noqa: ASYNC110 (nobody tells us)
        await asyncio.sleep(0)


async def test_an_exception_leaves_the_block_at_once_and_is_the_callers() -> None:
    store, model = Store.memory(), Silent([])
    began = time.monotonic()
    with pytest.raises(KeyError, match="mine"):  # noqa: PT012 (what is left is a block)
        async with Agent(model, store=store, limits=QUICK) as agent:
            await agent.submit("hi", chat="chat")
            await until_asked(model)
            raise KeyError("mine")
    assert time.monotonic() - began < 5
    assert RunFinished not in await kinds(store)
    assert (await store.chat("chat"))[turn].is_open


async def test_what_shutdown_stopped_is_answered_after_a_restart() -> None:
    store, model = Store.memory(), Silent([])
    with pytest.raises(KeyError):  # noqa: PT012 (what is left is a block)
        async with Agent(model, store=store, limits=QUICK) as agent:
            await agent.submit("hi", chat="chat")
            await until_asked(model)
            raise KeyError
    async with Agent(ScriptedModel(["hello"]), store=store) as agent:
        assert await agent.resume_all() == ["chat"]
    found = await kinds(store)
    assert found.count(RunStarted) == found.count(RunFinished) == 1
    assert found.count(MessageAdded) == 2


async def test_a_block_whose_task_is_cancelled_leaves_its_run_open() -> None:
    store, model = Store.memory(), Silent([])

    async def work() -> None:
        async with Agent(model, store=store, limits=QUICK) as agent:
            await agent.run("hi", chat="chat")

    task = asyncio.create_task(work())
    await until_asked(model)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert RunFinished not in await kinds(store)
    assert (await store.chat("chat"))[turn].is_open


async def test_a_run_whose_own_task_is_cancelled_is_over() -> None:
    store, model = Store.memory(), Silent([])
    async with Agent(model, store=store, limits=QUICK) as agent:
        task = asyncio.create_task(agent.run("hi", chat="chat"))
        await until_asked(model)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    [end] = [e.event async for e in (await store.chat("chat")).entries() if isinstance(e.event, RunFinished)]
    assert end.outcome == "cancelled"


async def test_a_store_that_was_given_stays_open_and_one_of_its_own_is_closed(tmp_path: Path) -> None:
    store = Store(tmp_path / "given")
    async with Agent(ScriptedModel(["a"]), store=store) as agent:
        await agent.run("hi", chat="chat")
    await (await store.chat("chat")).user("still open")
    await store.close()
    async with Agent(ScriptedModel(["a"]), store=str(tmp_path / "own")) as agent:
        await agent.run("hi", chat="chat")
    with pytest.raises(Exception, match="closed"):
        await (await agent.store.chat("chat")).user("too late")


async def test_what_failed_in_the_background_closes_the_store_all_the_same(tmp_path: Path) -> None:
    def bug(_payload: dict[str, Any]) -> str:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup, match="in the background"):
        async with Agent(ScriptedModel([bug]), store=tmp_path) as agent:
            await agent.submit("hi", chat="chat")
    with pytest.raises(Exception, match="closed"):
        await (await agent.store.chat("chat")).user("too late")


async def test_a_tool_that_does_not_return_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    stop = False
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool
    def stubborn() -> str:
        loop.call_soon_threadsafe(begun.set)
        while not stop:
            time.sleep(0.01)
        return "at last"

    model = ScriptedModel([ModelReply(calls=(ToolCall("c1", "stubborn"),))])
    with pytest.raises(KeyError):  # noqa: PT012 (what is left is a block)
        async with Agent(model, tools=[stubborn], limits=QUICK) as agent:
            await agent.submit("hi", chat="chat")
            await begun.wait()
            raise KeyError
    stop = True
    assert "stubborn" in caplog.text


PROGRAM = """
import asyncio, sys, time
from contextlib import suppress
from chatfold import Agent, ModelReply, ScriptedModel, ToolCall, tool
from chatfold.agent.limits import Limits

@tool
def sleep() -> str:
    print("sleeping", flush=True)
    time.sleep(600)

@tool
async def stay() -> str:
    print("sleeping", flush=True)
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(600)

async def main():
    model = ScriptedModel([ModelReply(calls=(ToolCall("c1", "{tool}"),))])
    async with Agent(model, store=sys.argv[1], tools=[sleep, stay], limits=Limits(grace=1.0)) as agent:
        await agent.submit("hi", chat="chat")
        {wait}

asyncio.run(main())
"""


@pytest.mark.parametrize("wait", ["await agent.wait_idle()", "await asyncio.sleep(600)", "pass"])
@pytest.mark.parametrize(
    "signals", [("SIGINT",), ("SIGINT", "SIGINT"), ("SIGTERM",), ("SIGKILL",)], ids=" ".join
)
@pytest.mark.parametrize("tool", ["sleep", "stay"])
def test_after_a_signal_the_process_is_gone_and_the_message_is_answered_by_the_next(
    tmp_path: Path, wait: str, signals: tuple[str, ...], tool: str
) -> None:
    program = textwrap.dedent(PROGRAM).replace("{wait}", wait).replace("{tool}", tool)
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "sleeping\n"
    began = time.monotonic()
    for kind in signals:
        process.send_signal(signal.Signals[kind])
        time.sleep(0.05)
    process.wait(30)
    process.communicate()
    assert time.monotonic() - began < 20  # the tool takes 600
    asyncio.run(_is_answered(tmp_path))


async def _is_answered(place: Path) -> None:
    async with Agent(ScriptedModel(["hello"]), store=place) as agent:
        assert await agent.resume_all() == ["chat"]
        await agent.wait_idle()
        found = await kinds(agent.store)
    assert found.count(RunFinished) == 1
    assert found.count(MessageAdded) == 2
