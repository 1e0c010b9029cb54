"""Who is to be gone on with, and that no message is forgotten, whenever it comes."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from chatfold.agent import Agent, Chat, ModelReply, Result, Store, assistant, system, tool, user
from chatfold.agent.limits import Limits
from chatfold.agent.models import Piece, Request
from chatfold.eventlog import (
    Entry,
    Event,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.text import text_of
from tests.support.judges.judging_runs import entries_of, prompt_is_valid, requests_are_proved
from tests.support.processes.killed_runs import (
    CHAT,
    FIRST,
    LATE,
    TALK,
    World,
    agent_in,
    in_memory,
    on_disk,
    talk,
)

# --- who needs it ------------------------------------------------------------------------------------------------


class Recorded(NamedTuple):
    """What was recorded together, and in the name of which run."""

    run: str | None
    events: tuple[Event, ...]


History = Sequence[Recorded]


def _r1(*events: Event) -> Recorded:
    return Recorded("r1", events)


def _by_hand(*events: Event) -> Recorded:
    return Recorded(None, events)


_QUESTION = _by_hand(user("what is due?"))
_AND_NOW = _by_hand(user("and now?"))
_STARTED = (_QUESTION, _r1(RunStarted()))
_CALLED = (*_STARTED, _r1(ModelCalled("model", "print")))
_OPEN = (*_CALLED, _r1(ModelReturned(), ToolCalled("c1", "look", {})))
_RETURNED = (*_OPEN, _r1(ToolReturned("c1", (Text("rent"),))))
_ANSWER = _r1(ModelReturned(), assistant("rent"))
_ANSWERED = (*_CALLED, _ANSWER)
_END = _r1(RunFinished("done"))
_FINISHED = (*_ANSWERED, _END)
_BUSY = _r1(ModelReturned(error="busy", meta={"retry": 1}))
_NO_MODEL = _r1(ModelReturned(error="no such model"))

NEEDS: dict[str, tuple[History, int]] = {
    "a message, and nothing about it": ([_QUESTION], 1),
    "a run has started": (_STARTED, 1),
    "the model was called": (_CALLED, 1),
    "calls are open": (_OPEN, 1),
    "results are in, but no answer": (_RETURNED, 1),
    "the model failed, and would have been asked again": ((*_CALLED, _BUSY), 1),
    "the answer is there, the end is not": (_ANSWERED, 0),
    "a message came while the model answered": ((*_CALLED, _AND_NOW, _ANSWER), 1),
    "a message came before the run had ended": ((*_ANSWERED, _AND_NOW, _END), 1),
    "a message came after the run had ended": ((*_FINISHED, _AND_NOW), 1),
    "a message came after an answer by hand": ([_QUESTION, _by_hand(assistant("rent")), _AND_NOW], 1),
}
"""Chats that are to be gone on with, and how often a model is asked about each."""

NEEDS_NOT: dict[str, History] = {
    "finished": _FINISHED,
    "failed": (*_CALLED, _NO_MODEL, _r1(RunFinished("failed", "no such model"))),
    "cancelled": (*_CALLED, _r1(ModelReturned(error="cancelled"), RunFinished("cancelled"))),
    "out of steps": (*_RETURNED, _r1(RunFinished("limit"))),
    "answered by hand": [_QUESTION, _by_hand(assistant("rent"))],
    "answered by a run of another program": [
        _QUESTION,
        Recorded("x1", (RunStarted(), assistant("rent"), RunFinished("done"))),
    ],
    "no message of the user": [_by_hand(system("be brief"), Noted("imported"))],
}


class Brief:
    """A model that answers at once; ``asked`` has the chats it was asked about."""

    name, provider = "brief", "test"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def payload(self, request: Request) -> dict[str, Any]:
        payload: dict[str, Any] = msgspec.to_builtins(request)
        return payload

    async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        self.asked.append(payload["system"].removeprefix("chatKey: "))
        yield ModelReply((Text("rent it is"),))


@tool(after_crash="again")
async def look() -> str:
    return "rent"


async def _recorded(store: Store, key: str, history: History) -> Chat:
    chat = await store.chat(key)
    for run, events in history:
        await chat.record(*events, run=run)
    return chat


@pytest.mark.smoke
async def test_all_chats_that_need_it_and_no_others_are_gone_on_with(fast_folder: Path) -> None:
    model = Brief()
    async with Agent(model=model, tools=[look], store=on_disk(fast_folder)) as agent:
        for key, (history, _) in NEEDS.items():
            await _recorded(agent.store, key, history)
        others = [await _recorded(agent.store, key, history) for key, history in NEEDS_NOT.items()]
        assert sorted(await agent.resume_all()) == sorted(NEEDS)
        await agent.wait_idle()
        assert sorted(model.asked) == sorted(key for key, (_, asked) in NEEDS.items() for _ in range(asked))
        for key, (history, asked) in NEEDS.items():
            chat = await agent.store.chat(key)
            entries = [entry async for entry in chat.entries()]
            said = [one.event for one in entries if isinstance(one.event, MessageAdded)]
            assert said[-1] == assistant("rent it is" if asked else "rent"), key
            assert isinstance(entries[-1].event, RunFinished)
            begun = [entry.run for entry in entries if isinstance(entry.event, RunStarted)]
            assert begun == [entry.run for entry in entries if isinstance(entry.event, RunFinished)], key
            if _r1(RunStarted()) in history and _END not in history:
                assert begun == ["r1"], key
        for chat in others:
            assert (await agent.store.chat(chat.key)).seq == chat.seq, chat.key
        assert await agent.resume_all() == []


@pytest.mark.smoke
@pytest.mark.parametrize("key", NEEDS_NOT)
async def test_a_chat_that_does_not_need_it_stays_byte_for_byte_as_it_is(fast_folder: Path, key: str) -> None:
    async with Store(on_disk(fast_folder)) as store:
        await _recorded(store, key, NEEDS_NOT[key])
    before = _bytes(fast_folder)
    async with Agent(model=Brief(), tools=[look], store=on_disk(fast_folder)) as agent:
        assert await agent.resume(key) is None
        assert _bytes(fast_folder) == before


def _bytes(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.smoke
@pytest.mark.parametrize("key", NEEDS)
async def test_what_is_gone_on_with_gives_the_result_of_the_run_that_answered(key: str) -> None:
    history, asked = NEEDS[key]
    async with Agent(model=Brief(), tools=[look]) as agent:
        chat = await _recorded(agent.store, key, history)
        result = await agent.resume(key)
        assert result is not None
        assert (result.outcome, result.text) == ("done", "rent it is" if asked else "rent")
        assert result.run == (await chat.runs())[-1].request_id
        assert await agent.resume(key) is None


@pytest.mark.smoke
async def test_steps_that_failed_and_were_tried_again_do_not_count_after_a_crash() -> None:
    async with Agent(model=Brief(), tools=[look], limits=Limits(steps=2)) as agent:
        await _recorded(agent.store, CHAT, (*_CALLED, _BUSY, *_CALLED[2:], _BUSY, *_RETURNED[2:]))
        result = await agent.resume(CHAT)
        assert result is not None
        assert (result.outcome, result.text) == ("done", "rent it is")


# --- a message that comes at any moment --------------------------------------------------------------------------


class Arrival:
    """Right before the ``nth`` append, or after it, a message is there; whoever brought it waits for what comes of it."""

    def __init__(self, agent: Agent, nth: int, when: str) -> None:
        self.agent = agent
        self.when = when
        self.entry: Entry | None = None
        self.answer: asyncio.Task[Result] | None = None
        self._left = nth
        self._append = agent.store.log.append
        setattr(agent.store.log, "append", self._watched)  # noqa: B010 (a method, says mypy)

    async def _watched(self, *args: Any, **options: Any) -> list[Entry]:
        self._left -= 1
        is_now = self._left == 0
        if is_now and self.when == "before":
            await self._arrives()
        entries = await self._append(*args, **options)
        if is_now and self.when == "after":
            await self._arrives()
        return entries

    async def _arrives(self) -> None:
        chat = await self.agent.store.chat(CHAT)
        self.entry = await chat.user(LATE.text, id=LATE.id)
        self.answer = asyncio.create_task(self.agent.run(LATE.text, chat=CHAT, id=LATE.id))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_message_that_comes_at_any_event_is_seen_and_answered(fast_folder: Path, when: str) -> None:
    for nth in count(2 if when == "before" else 1):  # the first is the question itself
        (fast_folder / str(nth)).mkdir()
        storage = in_memory()
        await talk(Store(storage))
        async with agent_in(World(fast_folder / str(nth)), storage, alone=True) as agent:
            arrival = Arrival(agent, nth, when)
            first = await agent.run(FIRST.text, chat=CHAT, id=FIRST.id)
            if arrival.answer is None or arrival.entry is None:
                break
            try:
                await _is_answered(agent, arrival.entry, first, await arrival.answer)
            except AssertionError as error:
                raise AssertionError(f"it came {when} append {nth}") from error
    assert nth > 35


async def _is_answered(agent: Agent, late: Entry, first: Result, second: Result) -> None:
    chat = await agent.store.chat(CHAT)
    entries = await entries_of(chat)
    asked = [entry for entry in entries if isinstance(entry.event, ModelCalled)]
    assert asked[0].run == first.run
    assert [entry.run for entry in asked if entry.seq > late.seq][:1] == [second.run]
    assert (first.outcome, second.outcome) == ("done", "done")
    words = [e.event for e in entries if isinstance(e.event, MessageAdded) and e.event.role == "assistant"]
    assert LATE.text in text_of(words[-1].parts)
    assert FIRST.text in text_of(words[-1].parts)
    assert sum(isinstance(entry.event, RunFinished) for entry in entries) == len({first.run, second.run})
    assert chat.seq == TALK + len(entries)
    await requests_are_proved(agent, chat, entries)
    await prompt_is_valid(chat)
    assert await agent.resume(CHAT) is None
