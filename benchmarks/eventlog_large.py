"""What must not grow with the history: opening, reading the end, forking; and the bytes on disk.

Opening and reading the end happen in a new process each time, and the clock starts after its imports.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, time_ns

from benchmarks.eventlog_store import build, chat_folder, delete_caches, size_of
from benchmarks.machine import in_new_process
from benchmarks.measure import (
    QUICK_ROUNDS,
    Case,
    Row,
    at_least,
    at_most,
    compared,
    interleave,
    limited,
    progress,
)
from chatfold.eventlog import FileStorage, Log, Noted

MILLION = 1_000_000
_SMALL = 1_000
_SEGMENT = 4_200  # entries; most of the 8 MiB of one segment
_MIDDLING = 40_000


def rows(folder: Path, rounds: int, events: int) -> Iterator[Row]:
    root = folder / "sizes"
    payload = 0
    for size in (_SMALL, _SEGMENT, _middling(events), events):
        progress(f"building a chat of {size:,} entries")
        payload = asyncio.run(build(root, _chat(size), size))
    yield from _open(root, rounds, events)
    yield from _last(root, rounds, events)
    yield from _fork(root, rounds, events)
    yield from _bytes(chat_folder(root, _chat(events)), events, payload)
    yield from _open_without_caches(root, rounds, events)
    yield from _beside_an_id(root, events)


def _chat(size: int) -> str:
    return f"{size:,} entries"


def _middling(events: int) -> int:
    return _MIDDLING if events > _MIDDLING else 10_000


def _open(root: Path, rounds: int, events: int) -> Iterator[Row]:
    """Appending a long text asks whether it was said before, a short one does not."""
    progress("open for append + head")
    large, small = _chat(events), _chat(_SMALL)
    for text in ("short", "long") if events == MILLION else ("long",):
        samples = interleave(
            rounds, {chat: _opened(root, chat, text) for chat in (large, small)}, warm_up=False
        )
        name = f"open for append + head, {large}, cold process, caches present, {text} text"
        yield compared(name, "ms", samples, large, small, at_most(2))


def _open_without_caches(root: Path, rounds: int, events: int) -> Iterator[Row]:
    """Against a chat that is all in one segment. The last rows, since nothing brings the caches back."""
    progress("open without caches")
    large, segment = _chat(events), _chat(_SEGMENT)
    name = f"open for append + head, {large}, cold process, caches deleted"
    samples = interleave(
        rounds, {chat: _opened(root, chat, "short", caches=False) for chat in (large, segment)}, warm_up=False
    )
    yield compared(f"{name}, short text", "ms", samples, large, segment, at_most(2))
    if events == MILLION:  # takes too long for a quick run
        samples = interleave(
            5, {chat: _opened(root, chat, "long", caches=False) for chat in (large, segment)}, warm_up=False
        )
        yield compared(f"{name}, long text", "ms", samples, large, segment)


def _beside_an_id(root: Path, events: int) -> Iterator[Row]:
    """An id that has to be looked for in a history that no cache knows. Others append to the same chat meanwhile."""
    progress("beside an id, without caches")
    chat = _chat(_middling(events))
    whole, beside = "the append with an id", "the slowest append beside it"
    samples: dict[str, list[float]] = {beside: [], whole: []}
    for _ in range(QUICK_ROUNDS):
        delete_caches(root, chat)
        slowest, elapsed = asyncio.run(_append_beside_an_id(root, chat))
        samples[beside].append(slowest)
        samples[whole].append(elapsed)
    yield compared(f"{beside}, {chat}, caches deleted", "ms", samples, beside, whole, at_most(0.5))


async def _append_beside_an_id(root: Path, chat: str) -> tuple[float, float]:
    async with Log(FileStorage(root, durability="off")) as log:
        await log.append(chat, Noted("beside", 0))
        start = perf_counter()
        with_id = asyncio.create_task(log.append(chat, Noted("new", 0), id=f"never used, {time_ns()}"))
        slowest = 0.0
        while not with_id.done():
            begin = perf_counter()
            await log.append(chat, Noted("beside", 0))
            slowest = max(slowest, perf_counter() - begin)
            await asyncio.sleep(0)
        return slowest * 1e3, (perf_counter() - start) * 1e3


def _opened(root: Path, chat: str, text: str, *, caches: bool = True) -> Case:
    def case() -> float:
        if not caches:
            delete_caches(root, chat)
        return float(in_new_process("eventlog_child", f"open-{text}", root, chat))

    return case


def _last(root: Path, rounds: int, events: int) -> Iterator[Row]:
    progress("the last 50")
    large, small = _chat(events), _chat(_SMALL)

    def last(chat: str) -> Case:
        return lambda: float(in_new_process("eventlog_child", "last", root, chat, 50))

    samples = interleave(rounds, {chat: last(chat) for chat in (large, small)}, warm_up=False)
    yield compared(f"read the last 50 of {events:,}, cold process", "ms", samples, large, small, at_most(2))


def _fork(root: Path, rounds: int, events: int) -> Iterator[Row]:
    """A fork is durable when it returns. A copy is not, so there is one with syncs as well."""
    progress("fork")
    size = _middling(events)
    ours, middling = "the fork", f"a fork at {size // 2:,} entries"
    copy, synced_copy = "copying the folder", "copying the folder, with syncs"
    large = chat_folder(root, _chat(events))
    samples = interleave(
        rounds,
        {
            ours: _forks(root, _chat(events), events // 2, rounds),
            middling: _forks(root, _chat(size), size // 2, rounds),
            copy: lambda: _copy(large, sync=False),
            synced_copy: lambda: _copy(large, sync=True),
        },
        warm_up=False,
    )
    name = f"fork at the middle of {events:,} entries"
    yield compared(name, "ms", samples, ours, middling, at_most(3))
    rates = {case: [1e3 / ms for ms in times] for case, times in samples.items()}
    target = at_least(20) if events == MILLION else None  # a small chat is soon copied
    yield compared(f"{name}, as a rate", "forks/s", rates, ours, copy, target)
    yield compared(f"{name}, as a rate", "forks/s", rates, ours, synced_copy)


def _forks(root: Path, chat: str, middle: int, rounds: int) -> Case:
    """Forks near the middle, each round at another place of a segment: how much is copied depends on it."""
    places = iter([middle + _SEGMENT * index // rounds for index in range(rounds)])
    return lambda: asyncio.run(_fork_once(root, chat, next(places)))


async def _fork_once(root: Path, chat: str, at: int) -> float:
    start = perf_counter()
    log = Log(FileStorage(root))
    await log.fork(chat, "fork", at)
    elapsed = perf_counter() - start
    await log.delete("fork")
    await log.storage.close()
    return elapsed * 1e3


def _copy(path: Path, *, sync: bool) -> float:
    copy = path.with_name("copy")
    start = perf_counter()
    shutil.copytree(path, copy)
    if sync:
        for file in copy.rglob("*.jsonl"):
            fd = os.open(file, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
    elapsed = perf_counter() - start
    shutil.rmtree(copy)
    return elapsed * 1e3


def _bytes(path: Path, events: int, payload: int) -> Iterator[Row]:
    """A count, not a measurement: it is the same in every round."""
    name = f"bytes on disk per byte of JSON payload, {events:,} entries"
    kept = size_of(path, "*.jsonl", "blobs/*") / payload
    yield limited(f"{name}: segments and blobs", "B/B", [kept], "the payload", at_most(0.96))
    yield limited(f"{name}: with caches", "B/B", [size_of(path, "**/*") / payload], "the payload")
