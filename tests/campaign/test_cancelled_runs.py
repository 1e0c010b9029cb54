"""A run that is cancelled, at whatever moment, has said so in the log; its calls are answered, and the next run goes on."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chatfold.agent import Agent, ModelReply, Result, ScriptedModel, Store, ToolCall, tool
from chatfold.agent.limits import Limits
from chatfold.agent.models import Line
from chatfold.eventlog import (
    Entry,
    MessageAdded,
    RunFinished,
    RunStarted,
    SendConfirmed,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.files.disk import Disk
from chatfold.projections import executions, sends
from chatfold.projections.text import text_of
from tests.support.judges.judging_runs import CALLS, entries_of, prompt_is_valid, requests_are_proved
from tests.support.processes.killed_runs import CHAT, FIRST, SECOND, World, agent_in, in_memory, on_disk, talk

Task = asyncio.Task[Result]
Cancel = Callable[[Agent, Callable[[], None], int], Awaitable[None]]
"""Sees to it that the run is stopped at the n-th moment of its kind, if there are that many."""


class PausingDisk(Disk):
    """Takes its time with what it is doing while ``seconds`` says so, and then does it."""

    seconds = 0.0

    def write(self, fd: int, data: bytes | memoryview) -> int:
        time.sleep(self.seconds)
        return super().write(fd, data)


async def in_any_turn_of_the_loop(agent: Agent, stop: Callable[[], None], nth: int) -> None:
    for _ in range(nth):
        await asyncio.sleep(0)
    stop()


async def in_an_append(agent: Agent, stop: Callable[[], None], nth: int) -> None:
    _watch(agent, stop, nth, is_before=True)


async def after_an_append(agent: Agent, stop: Callable[[], None], nth: int) -> None:
    _watch(agent, stop, nth, is_before=False)


def _watch(agent: Agent, stop: Callable[[], None], nth: int, *, is_before: bool) -> None:
    append, done = agent.store.log.append, 0

    async def watched(*args: Any, **options: Any) -> list[Entry]:
        nonlocal done
        done += 1
        own = done
        if own == nth and is_before:
            stop()
        entries = await append(*args, **options)
        if own == nth and not is_before:
            stop()
        return entries

    setattr(agent.store.log, "append", watched)  # noqa: B010 (a method, says mypy)


@pytest.mark.parametrize(
    ("cancel", "where"),
    [  # on a disk, nobody knows how many turns there are
        (in_any_turn_of_the_loop, "memory"),
        (in_an_append, "memory"),
        (in_an_append, "disk"),
        (after_an_append, "memory"),
        (after_an_append, "disk"),
    ],
)
async def test_a_run_that_is_cancelled_ends_and_the_next_one_goes_on(
    fast_folder: Path, cancel: Cancel, where: str
) -> None:
    for nth in count(1):
        folder, disk = fast_folder / str(nth), PausingDisk()
        storage = in_memory() if where == "memory" else on_disk(folder, disk)
        folder.mkdir()
        await talk(Store(storage))
        world = World(folder)
        async with agent_in(world, storage, alone=True) as agent:
            run = asyncio.create_task(agent.run(FIRST.text, chat=CHAT, id=FIRST.id))
            await cancel(agent, partial(_stop, run, disk), nth)
            await asyncio.wait([run])
            try:
                await _judge(agent, world, run, disk)
            except Exception as error:
                raise AssertionError(f"cancelled at {nth}") from error
        if not run.cancelled():
            break
    assert nth > 35


def _stop(run: Task, disk: PausingDisk) -> None:
    """While the disk is still at it."""
    disk.seconds = 0.01
    run.cancel()


async def _judge(agent: Agent, world: World, run: Task, disk: PausingDisk) -> None:
    chat = await agent.store.chat(CHAT)
    left = await entries_of(chat)
    disk.seconds = 0.0
    is_told = run.cancelled() and not _has_answered(left)  # else it came too late
    _has_ended(left, "cancelled" if is_told else "done")
    assert not chat[executions].running
    await prompt_is_valid(chat)
    result = await agent.run(SECOND.text, chat=CHAT, id=SECOND.id)
    assert (result.outcome, result.error) == ("done", "")
    entries = await entries_of(await agent.store.chat(CHAT))
    assert [entry.seq for entry in entries[: len(left)]] == [entry.seq for entry in left]
    assert _has_ended(entries, "done")
    assert [row.outcome for row in await chat.runs()][-1] == "done"
    _did_everything_once(entries, world)
    assert [*(await chat.refresh())[sends].open] == _unconfirmed(entries)
    await requests_are_proved(agent, chat, entries)
    await prompt_is_valid(chat)


def _has_answered(entries: Sequence[Entry]) -> bool:
    return any(entry.event == RunFinished("done") for entry in entries)


def _has_ended(entries: Sequence[Entry], how: str) -> bool:
    """Every run that has begun, the last one like this, after all of its calls were answered once."""
    events = [entry.event for entry in entries]
    begun = [entry.run for entry in entries if isinstance(entry.event, RunStarted)]
    ended = [entry.run for entry in entries if isinstance(entry.event, RunFinished)]
    assert begun == ended
    called = Counter(event.call for event in events if isinstance(event, ToolCalled))
    assert called == Counter(event.call for event in events if isinstance(event, ToolReturned))
    outcomes = [event.outcome for event in events if isinstance(event, RunFinished)]
    assert outcomes[-1:] in ([how], [])
    if outcomes:
        assert isinstance(events[-1], RunFinished)
    return bool(outcomes)


def _did_everything_once(entries: Sequence[Entry], world: World) -> None:
    called = Counter(entry.event.call for entry in entries if isinstance(entry.event, ToolCalled))
    assert called == Counter(CALLS.keys())
    assert max(Counter(world.lines("deeds")).values()) == 1
    assert len(world.lines("outbox")) <= 1
    said = {entry.id for entry in entries}
    assert all(one.text in _last_words(entries) for one in (FIRST, SECOND) if one.id in said)


def _last_words(entries: Sequence[Entry]) -> str:
    events = [entry.event for entry in entries]
    words = [event for event in events if isinstance(event, MessageAdded) and event.role == "assistant"]
    return text_of(words[-1].parts)


def _unconfirmed(entries: Sequence[Entry]) -> list[str]:
    confirmed = any(isinstance(entry.event, SendConfirmed) for entry in entries)
    requested = any(entry.id and entry.id.startswith("send:") for entry in entries)
    return ["s3-chat_send"] if requested and not confirmed else []


# --- who else may cancel something -------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_a_message_whose_sender_gave_up_waiting_is_answered_all_the_same(fast_folder: Path) -> None:
    async with agent_in(World(fast_folder), in_memory(), alone=True) as agent:
        run = asyncio.create_task(agent.run(FIRST.text, chat=CHAT, id=FIRST.id))
        waiting = asyncio.create_task(agent.run(SECOND.text, chat=CHAT, id=SECOND.id))
        await asyncio.wait([waiting], timeout=0.005)
        waiting.cancel()
        assert (await run).outcome == "done"
        assert SECOND.text in _last_words(await _all(agent))


@tool
async def give_up() -> str:
    raise asyncio.CancelledError


@pytest.mark.smoke
async def test_a_tool_that_is_cancelled_from_within_has_failed(fast_folder: Path) -> None:
    script: list[Line] = [ModelReply(calls=(ToolCall("c1", "give_up"),)), "done"]
    async with Agent(model=ScriptedModel(script), tools=[give_up]) as agent:
        result = await agent.run(FIRST.text, chat=CHAT)
        assert (result.outcome, [use.failed for use in result.tool_calls]) == ("done", [True])
        _has_ended(await _all(agent), "done")


@pytest.mark.smoke
async def test_a_model_that_is_cancelled_from_within_is_not_asked_for_ever() -> None:
    def give_up(_: object) -> ModelReply:
        raise asyncio.CancelledError

    model = ScriptedModel([give_up] * 100)
    async with Agent(model=model, limits=Limits(retries=0)) as agent:
        assert (await agent.run(FIRST.text, chat=CHAT)).outcome == "failed"
    assert len(model.payloads) == 1


async def _all(agent: Agent) -> list[Entry]:
    return [entry async for entry in (await agent.store.chat(CHAT)).entries()]
