"""chatfold next to what people would pick instead: the same messages, the same jobs, the same rounds; see ``peers``."""

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import eventlog_follow, side_by_side_sizes
from benchmarks.child import digest
from benchmarks.children import Children
from benchmarks.conversation import short
from benchmarks.limits import LIMITS
from benchmarks.machine import in_new_process
from benchmarks.measure import (
    QUICK_ROUNDS,
    Row,
    Target,
    absent,
    at_least,
    compared,
    interleave,
    limited,
    progress,
)
from benchmarks.peers import FULL, HOP, LOG, NORMAL, PEERS, Peer
from benchmarks.sampling import Bench, Sampled, build, sample, versus

MORE: dict[str, object] = {}
"""What a run says of itself besides its rows: the versions of the peers, and who was not there."""

_SHORT = 20  # messages of a small chat
_ROUNDS = 5
_DURABLE = 5  # rounds of what waits for the disk, whose mood changes
_SECONDS = 0.4  # of appending, each time


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    with Children(quick=quick) as children:
        MORE.update(versions=children.versions, missing=children.missing)
        for label, why in children.missing.items():
            yield absent("all jobs", label, f"not measured: {why}")
        bench = Bench(children, folder, rounds=QUICK_ROUNDS if quick else _ROUNDS, quick=quick)
        yield from _limits(bench)
        yield from _appends(bench)
        yield from _small(bench)
        yield from eventlog_follow.rows(folder, events=10 if quick else 100)
        yield absent("follow", "all peers", "no such job: they would have to ask again and again")
        yield from side_by_side_sizes.rows(bench)


def _limits(bench: Bench) -> Iterator[Row]:
    progress("limits")
    count = 1_000 if bench.quick else 20_000
    bytes_a_second: dict[str, list[float]] = {name: [] for name in LIMITS}

    def one(name: str) -> float:
        messages, data = msgspec.json.decode(in_new_process("limits", name, count, 1), type=list[float])
        bytes_a_second[name].append(data / 1e6)
        return messages

    rates = interleave(bench.rounds, {name: partial(one, name) for name in LIMITS}, warm_up=False)
    for name, values in rates.items():
        yield limited(f"limit: {name}", "messages/s", values, "nothing stored")
        yield limited(f"limit: {name}, as bytes", "MB/s", bytes_a_second[name], "nothing stored")


def _appends(bench: Bench) -> Iterator[Row]:
    many = 2 if bench.quick else 64

    def one_by_one(peer: Peer) -> Target | None:
        known = {HOP: at_least(0.9), FULL: at_least(1.2)}
        return known.get(peer.label) or (at_least(2) if peer.framework else None)

    def on_one_chat(peer: Peer) -> Target | None:
        return at_least(5) if peer.label == FULL else None

    def side_by_side(peer: Peer) -> Target | None:
        return at_least(2) if peer.label == FULL else None

    def relaxed(peer: Peer) -> Target | None:
        return at_least(2.5) if peer.label == NORMAL else None

    name = "durable append, one turn at a time"
    yield from versus(bench, name, "turns/s", "append", _append(bench, 1, 1), want=one_by_one)
    name = f"durable append, {many} appenders on one chat"
    sampled = _append(bench, many, 1)
    yield from versus(bench, name, "turns/s", "append", sampled, want=on_one_chat)
    if {LOG, FULL} <= sampled.values.keys():
        log = f"the log alone, {many} appenders on one chat"
        yield compared(log, "turns/s", sampled.values, LOG, FULL, at_least(6))
    name = f"durable append, {many} chats side by side"
    yield from versus(bench, name, "turns/s", "append", _append(bench, many, many), want=side_by_side)
    name = "relaxed append, one turn at a time"
    sampled = _append(bench, 1, 1, durable=False)
    yield from versus(bench, name, "turns/s", "relaxed", sampled, want=relaxed, among=_may_relax)


def _may_relax(peer: Peer) -> bool:
    return peer.label != FULL  # which is NORMAL then, and has a row


def _append(bench: Bench, appenders: int, chats: int, *, durable: bool = True) -> Sampled:
    job = "append" if durable else "relaxed"
    progress(f"{job}: {appenders} appenders, {chats} chats")
    places = (bench.folder / f"{job}-{appenders}-{chats}-{number}" for number in count())
    seconds = 0.02 if bench.quick else _SECONDS

    def order(label: str, _: int) -> dict[str, Any]:
        return {
            "job": "append",
            "place": str(next(places)),
            "seed": 1,
            "appenders": appenders,
            "chats": chats,
            "durable": durable,
            "seconds": seconds,
            "calm": 1 if bench.quick else 5,
            "turns": appenders + int(PEERS[label].pace * seconds),
        }

    return sample(bench, bench.able(job), order, rounds=None if bench.quick else _DURABLE)


def _small(bench: Bench) -> Iterator[Row]:
    chats = 4 if bench.quick else 1_000
    progress(f"{chats:,} small chats")
    able = bench.able("small")
    places = {label: str(bench.folder / f"small-{number}") for number, label in enumerate(able)}
    what = {"chats": chats, "count": _SHORT}
    built = build(bench, able, lambda label: {"job": "build_small", "place": places[label], **what})
    said = digest(one for number in range(chats) for turn in short(number, _SHORT) for one in turn)
    sampled = sample(
        bench, built.values, lambda label, _: {"job": "small", "place": places[label], **what}, digest=said
    )
    sampled.failed.update(built.failed)
    name = f"{chats:,} chats of {_SHORT} messages, each opened and read"
    yield from versus(bench, name, "ms a chat", "small", sampled, faster=True)
