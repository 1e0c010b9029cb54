"""Appending: one at a time and durable, many at once and durable, in batches and unsynced.

Every case of a round starts on a new chat or a new file that has its first bytes already, so that making it is
not measured.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from time import perf_counter

import msgspec
from xxhash import xxh3_64_hexdigest

from benchmarks.measure import Row, at_least, compared, interleave, progress
from benchmarks.workload import events as workload
from chatfold.eventlog import Event, FileStorage, Log, MessageAdded, Text

CHAT = "chat"
FIRST = MessageAdded("user", (Text("hello"),))
_APPENDERS = 64
_BATCH = 100
_OPENING = 5  # syncs that make the files and start the threads, before the clock starts

# The names of the cases are what the table says.
_ONE = "one appender"
_MANY = f"{_APPENDERS} appenders"
_HOP = "to_thread(write + fdatasync)"
_BARE = "write + fdatasync, bare loop"
_ENGINE = "Log.append"
_PLAIN = "encode + xxh3 + write, bare loop"


def durable(folder: Path, rounds: int, events: int) -> Iterator[Row]:
    progress("durable append")
    stores = _places(folder / "durable")
    some = list(islice(workload(1), events))
    many = list(islice(workload(2), 20 * _APPENDERS))
    lines = _lines(folder / "lines", some)
    samples = interleave(
        rounds,
        {
            _ONE: lambda: _append(next(stores), lambda log: _one_by_one(log, some), events),
            _HOP: lambda: asyncio.run(_with_hops(next(stores), lines)),
            _BARE: lambda: _bare(next(stores), lines),
            _MANY: lambda: _append(next(stores), lambda log: _at_once(log, many), len(many)),
        },
    )
    shutil.rmtree(folder / "durable")
    name = "durable append, one appender, one event at a time"
    yield compared(name, "events/s", samples, _ONE, _HOP, at_least(0.9))
    yield compared(name, "events/s", samples, _ONE, _BARE)
    name = f"durable append, {_APPENDERS} concurrent appenders on one chat"
    yield compared(name, "events/s", samples, _MANY, _ONE, at_least(15))


def unsynced(folder: Path, rounds: int, events: int) -> Iterator[Row]:
    progress("append with off")
    some = list(islice(workload(3), events))
    samples = interleave(
        rounds,
        {
            _ENGINE: lambda: _removing(
                folder / "off", lambda at: _append(at, lambda log: _in_batches(log, some), events)
            ),
            _PLAIN: lambda: _removing(folder / "plain", lambda at: _plain(at / "file", some)),
        },
    )
    name = f"append with off, batches of {_BATCH}, {events:,} events"
    yield compared(name, "events/s", samples, _ENGINE, _PLAIN, at_least(0.5))


def _places(folder: Path) -> Iterator[Path]:
    """A new place for each case. All are removed at the end: what a removal leaves to do, the next sync would pay."""
    folder.mkdir()
    return (folder / str(number) for number in count())


def _removing(place: Path, measured: Callable[[Path], float]) -> float:
    """Bytes that nobody synced go at once, before the system writes them out under the next case."""
    place.mkdir()
    try:
        return measured(place)
    finally:
        shutil.rmtree(place)


# --- the engine --------------------------------------------------------------------------------------------


def _append(root: Path, work: Callable[[Log], Awaitable[None]], events: int) -> float:
    """Events a second of ``work`` on a chat that is there already."""

    async def run() -> float:
        async with Log(FileStorage(root)) as log:
            for _ in range(_OPENING):
                await log.append(CHAT, FIRST)
            start = perf_counter()
            await work(log)
            return events / (perf_counter() - start)

    return asyncio.run(run())


async def _one_by_one(log: Log, events: Sequence[Event]) -> None:
    for event in events:
        await log.append(CHAT, event)


async def _at_once(log: Log, events: Sequence[Event]) -> None:
    await asyncio.gather(*(_one_by_one(log, events[start::_APPENDERS]) for start in range(_APPENDERS)))


async def _in_batches(log: Log, events: Sequence[Event]) -> None:
    for start in range(0, len(events), _BATCH):
        await log.append(CHAT, *events[start : start + _BATCH], durability="off")


def _lines(root: Path, events: Sequence[Event]) -> list[bytes]:
    """What the engine writes for these events: the peers write the same bytes."""

    async def run() -> None:
        async with Log(FileStorage(root, segment_bytes=1 << 30, durability="off")) as log:
            await log.append(CHAT, FIRST)
            await _one_by_one(log, events)

    asyncio.run(run())
    (segment,) = root.glob("chats/*/*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    shutil.rmtree(root)
    return lines[-len(events) :]


# --- the peers ---------------------------------------------------------------------------------------------


@contextmanager
def _file(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    try:
        for _ in range(_OPENING):
            _write_and_sync(fd, b"\n" * 100)
        yield fd
    finally:
        os.close(fd)


def _write_and_sync(fd: int, data: bytes) -> None:
    os.write(fd, data)
    os.fdatasync(fd)


async def _with_hops(path: Path, lines: Sequence[bytes]) -> float:
    with _file(path) as fd:
        await asyncio.to_thread(_write_and_sync, fd, b"\n")  # starts the thread
        start = perf_counter()
        for line in lines:
            await asyncio.to_thread(_write_and_sync, fd, line)
        return len(lines) / (perf_counter() - start)


def _bare(path: Path, lines: Sequence[bytes]) -> float:
    with _file(path) as fd:
        start = perf_counter()
        for line in lines:
            _write_and_sync(fd, line)
        return len(lines) / (perf_counter() - start)


def _plain(path: Path, events: Sequence[Event]) -> float:
    encode = msgspec.json.Encoder().encode
    with _file(path) as fd:
        start = perf_counter()
        for at in range(0, len(events), _BATCH):
            lines = []
            for event in events[at : at + _BATCH]:
                raw = encode(event)
                lines.append(b'%b,"sum":"%b"}\n' % (raw, xxh3_64_hexdigest(raw).encode()))
            os.write(fd, b"".join(lines))
        return len(events) / (perf_counter() - start)
