"""Folding: one entry more, up to any of them, all of them again; and how large the result is."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from time import perf_counter

import msgspec

from benchmarks.eventlog_store import build as build_plain
from benchmarks.eventlog_store import delete_caches
from benchmarks.machine import in_new_process
from benchmarks.measure import Row, at_least, at_most, compared, interleave, limited, progress
from benchmarks.projections_child import Rebuilt, peak_memory
from benchmarks.projections_store import CHAT, Built, history
from chatfold.agent.views import open_view
from chatfold.eventlog import ContextOpened, Entry, Event, FileStorage, Log
from chatfold.projections import View, contexts
from chatfold.projections.snapshot import dump

_FOLDED = 3_000  # entries, one by one; new contexts and compactions are among them
_NEW_CONTEXT = ContextOpened("one-more", "What the lexer does with newlines", "another topic")
_STANDARD = "all standard projections"


# --- one more ------------------------------------------------------------------------------------------------


def one_more(large: Path, small: Path, rounds: int, entries: int, few: int) -> Iterator[Row]:
    """The same events into both views. A kind of event that is slow and rare counts in the mean, not in the median."""
    progress("fold of one entry")
    here, there = f"{entries:,} entries", f"{few:,} entries"
    views = {here: asyncio.run(_view(large)), there: asyncio.run(_view(small))}
    times: dict[str, list[float]] = {here: [], there: []}
    means = interleave(rounds, {name: partial(_folded, view, times[name]) for name, view in views.items()})
    new_context = interleave(rounds, {name: partial(_new_context, view) for name, view in views.items()})
    name = f"fold of one entry into {_STANDARD}, at {here}"
    yield limited(f"{name}, median", "us", times[here], "the limit", at_most(15))
    yield compared(f"{name}, mean", "us", means, here, there, at_most(1.3))
    yield compared(f"{name}, if it opens a context", "us", new_context, here, there)
    view = views[here]
    name = f"snapshot of {_STANDARD}, {here} in {len(view[contexts].shelf) + 1:,} contexts"
    yield limited(name, "kB", [len(dump(view)) / 1e3], "the limit", at_most(1_000))


async def _view(root: Path) -> View:
    async with Log(FileStorage(root, read_only=True)) as log:
        return (await open_view(log, CHAT)).view


def _folded(view: View, times: list[float]) -> float:
    """The mean of what one entry takes, in microseconds; each is added to ``times``."""
    turns = history(9, _FOLDED, view.seq)
    entries = _following(view, [(event, turn.run) for turn in turns for event in turn.events])
    taken = []
    for entry in entries:
        start = perf_counter()
        view = view.then(entry)
        taken.append((perf_counter() - start) * 1e6)
    times += taken
    return fmean(taken)


def _new_context(view: View) -> float:
    (entry,) = _following(view, [(_NEW_CONTEXT, None)])
    start = perf_counter()
    for _ in range(100):
        view.then(entry)
    return (perf_counter() - start) * 1e4


def _following(view: View, events: Sequence[tuple[Event, str | None]]) -> list[Entry]:
    """As the log would give them; whether sums are right nobody asks."""
    entries = []
    link = view.head.link
    for seq, (event, run) in enumerate(events, view.seq + 1):
        entries.append(Entry(seq, 1_738_713_600_000 + seq, event, run, prev=link, sum=f"{seq:016x}"))
        link = entries[-1].link
    return entries


# --- any, and all of them ------------------------------------------------------------------------------------


def any_seq(root: Path, times: int, built: Built) -> Iterator[Row]:
    progress("state at a random seq")
    name = f"state at a random seq of {built.asked:,}, {_STANDARD}, median"
    yield limited(name, "ms", asyncio.run(_at_random(root, times, built.entries)), "the limit", at_most(60))


async def _at_random(root: Path, times: int, entries: int) -> list[float]:
    """In a log that is open already, as it is when somebody steps through a chat."""
    random = Random(6)
    taken = []
    async with Log(FileStorage(root, read_only=True)) as log:
        await log.head(CHAT)
        for _ in range(times):
            at = random.randint(1, entries)
            start = perf_counter()
            opened = await open_view(log, CHAT, at=at)
            taken.append((perf_counter() - start) * 1e3)
            assert opened.view.seq == at
    return taken


def rebuilt(root: Path, rounds: int, built: Built) -> Iterator[Row]:
    """The cache is gone; that snapshots are written again is part of it. The last rows of a store."""
    name = f"full rebuild of {_STANDARD}, {built.asked:,} entries, no cache"
    reports = _rebuilds(root, rounds, built.entries)
    size = built.payload / built.entries
    rates = [built.entries / report.seconds for report in reports]
    yield limited(
        f"{name}, mean entry {size / 1e3:.2g} kB", "entries/s", rates, "the limit", at_least(50_000)
    )
    bytes_a_second = [rate * size / 1e6 for rate in rates]
    yield limited(f"{name}, as bytes", "MB/s", bytes_a_second, "90 is 50,000 of 1.8 kB")
    above = [(report.peak - _interpreter()) / 1e6 for report in reports]
    yield limited(f"{name}, peak memory above the interpreter", "MB", above, "the limit", at_most(200))


def rebuilt_plain(folder: Path, rounds: int, entries: int) -> Iterator[Row]:
    """A chat of nothing but messages, calls and results: its entries have the size that the limit is meant for."""
    root = folder / "plain"
    payload = asyncio.run(build_plain(root, CHAT, entries))
    reports = _rebuilds(root, rounds, entries)
    name = f"full rebuild of {_STANDARD}, {entries:,} messages, no cache, mean entry {payload / entries / 1e3:.2g} kB"
    rates = [entries / report.seconds for report in reports]
    yield limited(name, "entries/s", rates, "the limit", at_least(50_000))


def _rebuilds(root: Path, rounds: int, entries: int) -> list[Rebuilt]:
    progress(f"rebuilding from {entries:,} entries")
    reports = []
    for index in range(rounds):
        progress(f"  round {index + 1}/{rounds}")
        delete_caches(root, CHAT)
        report = msgspec.json.decode(in_new_process("projections_child", "rebuild", root), type=Rebuilt)
        assert report.entries == entries
        reports.append(report)
    return reports


def _interpreter() -> int:
    """The memory of one that does nothing, in bytes."""
    command = [sys.executable, "-c", "print(open('/proc/self/status').read())"]
    return peak_memory(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
