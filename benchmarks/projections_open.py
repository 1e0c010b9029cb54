"""Opening a chat and making what is sent to the model next, in a new process each time. How others do that: ``side_by_side``."""

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.machine import in_new_process
from benchmarks.measure import Row, Samples, at_most, compared, interleave, progress
from benchmarks.projections_child import Opened
from benchmarks.projections_store import CHAT, WINDOW
from chatfold.agent.views import keep_view, open_view
from chatfold.eventlog import FileStorage, Log

_BEHIND = 128  # entries; half of those after which opening keeps a new snapshot
_COLD = "cold process"
_AGAIN = "second time in a process"


def against_small(large: Path, small: Path, rounds: int, entries: int, few: int) -> Iterator[Row]:
    progress("open + messages")
    here, there = f"{entries:,} entries", f"{few:,} entries"
    cold, again = _opened(rounds, {here: large, there: small})
    name = f"open + messages for the next call, {here}, window of {WINDOW}"
    yield compared(f"{name}, {_COLD}", "ms", cold, here, there, at_most(2))
    yield compared(f"{name}, {_AGAIN}", "ms", again, here, there)


def behind(large: Path, small: Path, rounds: int, entries: int, few: int) -> Iterator[Row]:
    """The same when the newest snapshots are older ones, as they are when somebody went on after opening."""
    for root in (large, small):
        asyncio.run(_fall_behind(root))
    progress("open + messages, behind")
    here, there = f"{entries:,} entries", f"{few:,} entries"
    cold, again = _opened(rounds, {here: large, there: small})
    name = f"open + messages for the next call, {here}, {_BEHIND} entries since the newest snapshot"
    yield compared(f"{name}, {_COLD}", "ms", cold, here, there, at_most(2))
    yield compared(f"{name}, {_AGAIN}", "ms", again, here, there)


def _opened(rounds: int, roots: Mapping[str, Path]) -> tuple[Samples, Samples]:
    """The milliseconds of each process' first time, and of its second."""
    again: dict[str, list[float]] = {name: [] for name in roots}

    def run(name: str) -> float:
        said = in_new_process("projections_child", "open", roots[name])
        opened = msgspec.json.decode(said, type=Opened)
        assert opened.messages == WINDOW
        again[name].append(opened.second)
        return opened.first

    cold = interleave(rounds, {name: partial(run, name) for name in roots}, warm_up=False)
    return cold, again


async def _fall_behind(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        end = (await log.head(CHAT)).seq
        opened = await open_view(log, CHAT, at=end - _BEHIND)
        await keep_view(log, CHAT, opened.view)
