"""The event log: appending, reading, opening, forking, following, and what it costs on disk."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks import eventlog_append, eventlog_follow, eventlog_large, eventlog_scan
from benchmarks.measure import QUICK_ROUNDS, Row


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    rounds = QUICK_ROUNDS if quick else 15
    # A disk's mood changes by the tenth of a second: many short rounds, so that both sides meet the same one.
    yield from eventlog_append.durable(folder, QUICK_ROUNDS if quick else 51, events=50 if quick else 200)
    yield from eventlog_append.unsynced(folder, rounds, events=4_000 if quick else 20_000)
    yield from eventlog_scan.rows(folder, rounds, events=6_000 if quick else 50_000)
    large = 12_000 if quick else eventlog_large.MILLION
    yield from eventlog_large.rows(folder, QUICK_ROUNDS if quick else 9, events=large)
    yield from eventlog_follow.rows(folder, events=20 if quick else 200)
