"""Reading everything: every line verified, chained and decoded to its type."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import msgspec

from benchmarks.eventlog_store import build, chat_folder, remove
from benchmarks.measure import Row, at_least, compared, interleave, progress
from chatfold.eventlog import Entry, scan

_SCAN = "scan"
_DECODE = "msgspec decode of lines in memory"


def rows(folder: Path, rounds: int, events: int) -> Iterator[Row]:
    progress("scan")
    root = folder / "scan"
    asyncio.run(build(root, "chat", events))
    path = chat_folder(root, "chat")
    lines = _lines(path)
    assert len(lines) == events
    samples = interleave(rounds, {_SCAN: lambda: _scan(path, events), _DECODE: lambda: _decode(lines)})
    name = f"scan, verified and decoded, {events:,} entries"
    yield compared(name, "entries/s", samples, _SCAN, _DECODE, at_least(0.8))
    remove(root)


def _lines(path: Path) -> list[bytes]:
    """As they are on disk, read and split before the clock starts; headers and seals are no entries."""
    return [
        line
        for segment in sorted(path.glob("*.jsonl"))
        for line in segment.read_bytes().splitlines()
        if line.startswith(b'{"seq":')
    ]


def _scan(path: Path, events: int) -> float:
    start = perf_counter()
    last = 0
    for entry in scan(path):
        last = entry.seq
    elapsed = perf_counter() - start
    assert last == events
    return events / elapsed


def _decode(lines: Sequence[bytes]) -> float:
    decode = msgspec.json.Decoder(Entry).decode
    start = perf_counter()
    last = 0
    for line in lines:
        last = decode(line).seq
    elapsed = perf_counter() - start
    assert last == len(lines)
    return len(lines) / elapsed
