"""Races: threads and processes that append and erase at the same time, and what must be true afterwards."""

import asyncio
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

from chatfold.eventlog import Conflict, Entry, Event, Log, MemoryStorage, MessageAdded, Noted, Text
from chatfold.testing.backend import Backend
from chatfold.testing.strategies import LONG_TEXTS, same_entries

_RACERS = 3
_TURNS = 12
_ERASABLE = MessageAdded("user", (Text(LONG_TEXTS[0]),))
Answer = tuple[list[int], list[Event]]


def run_race(backend: Backend, kind: str) -> list[Answer]:
    """What each append was answered: seqs and events."""
    with _executor(kind) as pool:
        races = [pool.submit(_run_racer, backend, number) for number in range(_RACERS)]
        return [answer for race in races for answer in race.result()]


def _executor(kind: str) -> Executor:
    if kind == "threads":
        return ThreadPoolExecutor(_RACERS)
    return ProcessPoolExecutor(_RACERS, get_context("spawn"))


def _run_racer(backend: Backend, number: int) -> list[Answer]:
    return asyncio.run(_race(backend, number))


async def _race(backend: Backend, number: int) -> list[Answer]:
    answers: list[Answer] = []
    async with Log(backend.open(lambda: 1)) as log:
        for turn in range(_TURNS):
            both: list[Event] = [Noted(f"{number}-{turn}"), _ERASABLE]
            events = both[: 1 + turn % 2]
            name = f"{number}-{turn}" if turn % 3 else None
            entries = await _append(log, events, name, expects=turn % 4 == 0)
            answers.append(([entry.seq for entry in entries], events))
            if name:  # as if the answer had been lost
                again = await log.append("chat", *events, id=name)
                assert [entry.seq for entry in again] == [entry.seq for entry in entries]
            if number == 0 and turn % 4 == 3:
                await log.storage.redact("chat", [entries[-1].seq])
    return answers


async def _append(log: Log, events: list[Event], name: str | None, *, expects: bool) -> list[Entry]:
    while True:
        after = (await log.head("chat")).seq if expects else None
        try:
            return await log.append("chat", *events, id=name, after=after)
        except Conflict:
            continue


async def judge_race(log: Log, answers: list[Answer]) -> None:
    """All that was answered is there, once, in whole batches, and MemoryStorage says the same of it in this order."""
    entries = [entry async for entry in log.read("chat")]
    assert sorted(seq for seqs, _ in answers for seq in seqs) == [entry.seq for entry in entries]
    expected = Log(MemoryStorage(clock=lambda: 1))
    for seqs, events in sorted(answers, key=lambda answer: answer[0]):
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
        await expected.append("chat", *events, id=entries[seqs[0] - 1].id)
    judged = [entry async for entry in expected.read("chat")]
    assert any(entry.was for entry in entries)
    for one, other in zip(judged, entries, strict=True):
        assert (other.was and one.event == _ERASABLE) or same_entries([one], [other], sums=False)
