"""Opening a chat and making what is sent to the model next, in a new process each time; and how others do that.

The clock starts after the imports. A peer reads the same messages as we do, and that they are the same is checked.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from agent.opening import keep_view, open_view
from benchmarks.machine import in_new_process
from benchmarks.measure import Row, Samples, Target, at_least, at_most, compared, interleave, progress
from benchmarks.projections_opened import Opened
from benchmarks.projections_peers import AGENTS, SQLITE, fill_sqlite
from benchmarks.projections_store import CHAT, SHOWN, WINDOW, Built, Turn, history
from benchmarks.workload import message_of
from eventlog import Compacted, FileStorage, Log
from projections.prompt import SUMMARY

_OURS = "chatfold"
_BEHIND = 128  # entries; half of those after which opening keeps a new snapshot
_COLD = "cold process"
_AGAIN = "second time in a process"


def against_small(large: Path, small: Path, rounds: int, entries: int, few: int) -> Iterator[Row]:
    progress("open + messages")
    here, there = f"{entries:,} entries", f"{few:,} entries"
    cold, again = _opened(rounds, {here: _ours(large), there: _ours(small)})
    name = f"open + messages for the next call, {here}, window of {WINDOW}"
    yield compared(f"{name}, {_COLD}", "ms", cold, here, there, at_most(2))
    yield compared(f"{name}, {_AGAIN}", "ms", again, here, there)


def against_peers(root: Path, built: Built, seed: int, rounds: int) -> Iterator[Row]:
    """``seed``: what the store was built from."""
    progress("open + messages, next to others")
    raw = root / "raw.sqlite"
    assert fill_sqlite(raw, CHAT, _payloads(history(seed, built.asked))) == built.messages + 1
    cases = {_OURS: _ours(root), SQLITE: _command("projections_peers", "sqlite", raw, CHAT, WINDOW)}
    if AGENTS:
        session = root / "session.sqlite"
        in_new_process("projections_peers", "fill-agents", session, CHAT, raw)
        cases[AGENTS] = _command("projections_peers", "agents", session, CHAT, WINDOW)
    else:
        progress("openai-agents is not installed: there is no row for it")
    name = f"open + messages for the next call, {built.messages:,} messages, window of {WINDOW}"
    cold, again = _opened(rounds, cases, same=True)
    yield _rates(f"{name}, {_COLD}", cold, SQLITE, at_least(2))
    yield _rates(f"{name}, {_AGAIN}", again, SQLITE)
    if AGENTS:
        yield _rates(f"{name}, {_COLD}", cold, AGENTS, at_least(5))
        yield _rates(f"{name}, {_AGAIN}", again, AGENTS)
    asyncio.run(_fall_behind(root))
    cold, again = _opened(rounds, {case: cases[case] for case in (_OURS, SQLITE)}, same=True)
    name += f", {_BEHIND} entries and a compaction since the newest snapshot"
    yield _rates(f"{name}, {_COLD}", cold, SQLITE)
    yield _rates(f"{name}, {_AGAIN}", again, SQLITE)


def _rates(name: str, samples: Samples, peer: str, target: Target | None = None) -> Row:
    rates = {case: [1e3 / ms for ms in times] for case, times in samples.items()}
    return compared(name, "opens/s", rates, _OURS, peer, target)


# --- processes -----------------------------------------------------------------------------------------------

Command = tuple[object, ...]


def _command(*arguments: object) -> Command:
    return arguments


def _ours(root: Path) -> Command:
    return _command("projections_child", "open", root)


def _opened(rounds: int, commands: Mapping[str, Command], *, same: bool = False) -> tuple[Samples, Samples]:
    """The milliseconds of each process' first time, and of its second. ``same``: all must read the same."""
    again: dict[str, list[float]] = {name: [] for name in commands}
    seen: set[str] = set()

    def run(name: str) -> float:
        module, *arguments = commands[name]
        opened = msgspec.json.decode(in_new_process(str(module), *arguments), type=Opened)
        seen.add(opened.digest)
        assert opened.messages == WINDOW
        assert len(seen) == 1 or not same
        again[name].append(opened.second)
        return opened.first

    cold = interleave(rounds, {name: partial(run, name) for name in commands}, warm_up=False)
    return cold, again


async def _fall_behind(root: Path) -> None:
    """Makes the newest snapshot an older one, as it is when somebody went on after opening. The model's window was a
    larger one then, for the last entry is a compaction."""
    async with Log(FileStorage(root)) as log:
        end = (await log.head(CHAT)).seq
        opened = await open_view(log, CHAT, at=end - _BEHIND)
        await keep_view(log, CHAT, opened.view)


# --- what the peers keep -------------------------------------------------------------------------------------


def _payloads(turns: Iterator[Turn]) -> Iterator[str]:
    """What is sent to the model, in that order: the last summary before the messages that follow what it stands for."""
    recent: deque[str] = deque()
    summary = ""
    for turn in turns:
        for event in turn.events:
            if isinstance(event, Compacted):
                summary = _json({"role": "assistant", "content": SUMMARY + event.summary})
            elif isinstance(event, SHOWN):
                recent.append(_json(message_of(event)))
                if len(recent) == WINDOW:
                    yield recent.popleft()
    yield summary
    yield from recent


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
