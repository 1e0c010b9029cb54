"""What must not grow with the history, on chats of a hundred to a million messages; and what is done with a long one.

A peer is judged at 100,000 messages, or at the longest chat that can be built for it in some minutes. At each size everybody's store
is built, the jobs are done in interleaved rounds, and the stores are removed. What changes a store is done on a copy or at the end.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from benchmarks.child import digest
from benchmarks.conversation import SUMMARY, WINDOW, Message, history, is_summary
from benchmarks.measure import Row, Target, absent, at_least, at_most, compared, interleave, limited, progress
from benchmarks.peers import DECODE, FULL, LIKE, OURS, PEERS, Peer
from benchmarks.sampling import Bench, Sampled, alone, best, build, points, sample, versus
from benchmarks.workload import event_of

_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
_QUICK = (100, 140)
_SEED = 3
_COPIED = 10_000  # messages of a store that is copied before it is changed
_FORKS = 100_000  # messages; to copy more than that, as all peers do, takes minutes
_POINTS = 7  # of time travel
_QUERIES = 12
_OPEN, _APPEND, _NEXT, _FORK, _DISK = "open", "append", "messages", "fork", "disk"
_GONE_ON = 10  # turns; one in a quick run

Judged = Callable[[Peer], bool]
"""Is this the size at which the peer is compared?"""


class Chat(NamedTuple):
    """What the peers are asked to keep, as much of it as is needed to see that they did."""

    size: int
    last: list[Message]  # the last ``WINDOW``
    points: list[tuple[int, int]]  # the ends of some turns, and how many messages the model saw there
    seen: str  # the digest of all those
    all: str
    payload: int  # bytes of JSON
    texts: list[str]
    keep: int  # messages of whole turns at the end


def rows(bench: Bench) -> Iterator[Row]:
    sizes = _QUICK if bench.quick else _SIZES
    judged = sizes[-1] if bench.quick else sizes[-2]
    kept: dict[int, Path] = {}
    for size in sizes:
        chat = _chat(size)
        able = bench.able("next", size)
        decoding = [DECODE] if DECODE in bench.children.jobs else []
        labels = [*able, *(decoding if size == judged else [])]
        places, failed = _build(bench, size, labels)
        yield from _at_size(bench, chat, places, judged)
        for label, why in failed.items():
            yield absent(f"a chat of {size:,} messages", label, f"could not be built: {why}")
        if size >= judged:
            yield from _not_built(bench, size, able)
        short = kept.get(1_000) or kept.get(sizes[0])
        if size == sizes[-1] and short and OURS in places:
            yield from _flat(bench, places[OURS], short, size)
        yield from _grow(bench, chat, places)
        for label, place in places.items():
            if label == OURS and size <= 1_000:
                kept[size] = place
            else:
                shutil.rmtree(place)


def _not_built(bench: Bench, size: int, able: Sequence[str]) -> Iterator[Row]:
    for label, jobs in bench.children.jobs.items():
        if "next" in jobs and label not in able:
            peer = PEERS[label]
            yield absent(f"a chat of {size:,} messages", label, f"only {peer.most:,} were built: {peer.why}")


def _build(bench: Bench, size: int, labels: Sequence[str]) -> tuple[dict[str, Path], dict[str, str]]:
    progress(f"building chats of {size:,} messages")
    places = {label: bench.folder / f"{size}-{number}" for number, label in enumerate(labels)}
    built = build(
        bench,
        labels,
        lambda label: {"job": "build", "place": str(places[label]), "seed": _SEED, "count": size},
    )
    for label in built.failed:
        shutil.rmtree(places[label], ignore_errors=True)
    return {label: places[label] for label in labels if label in built.values}, built.failed


# --- at one size -------------------------------------------------------------------------------------------


def _at_size(bench: Bench, chat: Chat, places: dict[str, Path], judged: int) -> Iterator[Row]:
    size = chat.size

    def is_judged(peer: Peer) -> bool:
        return min(peer.most, judged) == size

    yield from _disk(chat, places)
    yield from _next(bench, chat, places, is_judged)
    if any(is_judged(PEERS[label]) for label in places):
        some = {label: place for label, place in places.items() if label == OURS or is_judged(PEERS[label])}
        yield from _reading(bench, chat, some, is_judged)
    if size == judged:
        yield from _search(bench, chat, places)
    if size == (judged if bench.quick else 1_000):
        yield from _changing(bench, chat, places)
    yield from _forks(bench, chat, places, judged)


def _disk(chat: Chat, places: dict[str, Path]) -> Iterator[Row]:
    """A count, not a measurement: whole folders, so that everybody's indexes are in it."""
    size = chat.size
    used = {label: [_bytes(place) / size] for label, place in places.items() if label != DECODE}
    name = f"bytes on disk, {size:,} messages"
    if OURS not in used:
        return
    found = (compared(name, "B a message", used, OURS, label, at_most(1)) for label in used if label != OURS)
    yield from points(found, _DISK, size)
    (folder,) = places[OURS].glob("chats/*")
    segments = sum(file.stat().st_size for some in ("*.jsonl", "blobs/*") for file in folder.glob(some))
    name = f"bytes on disk a byte of JSON payload, {size:,} messages, segments and blobs"
    target = at_most(0.96) if size >= 100_000 else None
    yield limited(name, "B/B", [segments / chat.payload], "the payload", target)


def _next(bench: Bench, chat: Chat, places: dict[str, Path], is_judged: Judged) -> Iterator[Row]:
    progress(f"open + messages, {chat.size:,} messages")
    what = {"job": "next", "new": True, "window": WINDOW}
    # Who is not compared here is not asked a second time: for some it takes minutes.
    judged = {label for label in places if label == OURS or is_judged(PEERS[label])}
    orders = {
        label: {**what, "place": str(place), "again": label in judged} for label, place in places.items()
    }
    orders.pop(DECODE, None)
    sampled = sample(bench, orders, lambda label, _: orders[label], digest=digest(chat.last))

    def want(peer: Peer) -> Target | None:
        if not is_judged(peer) or bench.quick:
            return None
        return {FULL: at_least(2)}.get(peer.label) or (at_least(5) if peer.framework else None)

    name = f"cold open + messages for the next call, {chat.size:,} messages"
    found = versus(bench, name, "ms", "next", sampled, faster=True, want=want)
    yield from points((row for row in found if row.note != "no such job"), _NEXT, chat.size)
    name = f"the same, second time in the process, {chat.size:,} messages"
    yield from versus(bench, name, "ms", "next", sampled.of("again"), faster=True, among=is_judged)
    yield from _memory(bench, chat, sampled, is_judged)


def _memory(bench: Bench, chat: Chat, sampled: Sampled, is_judged: Judged) -> Iterator[Row]:
    base = _interpreter()
    values = {
        label: [(answer["peak"] - base) / 1e6 for answer in sampled.answers[label]]
        for label in sampled.values
    }
    above = Sampled(values, sampled.failed, sampled.answers)
    name = f"peak memory above the interpreter, opening {chat.size:,} messages"
    if chat.size >= 100_000 or bench.quick:
        target = None if bench.quick else at_most(60)
        yield alone(name, "MB", above, "the limit", target)
    yield from versus(bench, name, "MB", "next", above, among=is_judged)


def _reading(bench: Bench, chat: Chat, places: dict[str, Path], is_judged: Judged) -> Iterator[Row]:
    """In a store that is open."""
    size = chat.size

    def orders(job: str, **what: object) -> Callable[[str, int], dict[str, Any]]:
        return lambda label, done: {"job": job, "place": str(places[label]), "check": not done, **what}

    def want(peer: Peer) -> Target | None:
        known = {DECODE: at_least(0.8), FULL: at_least(1.8)}
        return None if bench.quick else known.get(peer.label) or (at_least(2) if peer.framework else None)

    progress(f"replay, {size:,} messages")
    able = [label for label in bench.able("replay") if label in places]
    sampled = sample(bench, able, orders("replay"), digest=chat.all)
    name = f"full replay, {size:,} messages"
    yield from versus(bench, name, "messages/s", "replay", sampled, want=want, among=is_judged)
    progress(f"last {WINDOW}, {size:,} messages")
    able = [label for label in bench.able("last") if label in places]
    sampled = sample(bench, able, orders("last", window=WINDOW, times=20), digest=digest(chat.last))
    name = f"the last {WINDOW} of {size:,} messages, store open"
    yield from versus(bench, name, "ms", "last", sampled, faster=True, among=is_judged)
    progress(f"time travel, {size:,} messages")
    able = [label for label in bench.able("at") if label in places]
    sampled = sample(bench, able, orders("at", window=WINDOW, points=chat.points), digest=chat.seen)
    name = f"the prompt at a random point of {size:,} messages, store open"
    yield from versus(bench, name, "ms", "at", sampled, faster=True, among=is_judged)


def _search(bench: Bench, chat: Chat, places: dict[str, Path]) -> Iterator[Row]:
    progress(f"search, {chat.size:,} messages")
    if FULL in places:  # the same database, asked otherwise
        places = places | {LIKE: places[FULL]}
    able = [label for label in bench.able("search") if label in places]
    queries = _queries(chat.texts)
    sampled = sample(
        bench, able, lambda label, _: {"job": "search", "place": str(places[label]), "queries": queries}
    )
    name = f"search in {chat.size:,} messages, first 20 hits, median of {len(queries)} queries"
    yield from versus(bench, name, "ms", "search", sampled, faster=True)
    for label, answers in sampled.answers.items():
        if answers:
            name = f"search in {chat.size:,} messages: the first query, and the index where there is one"
            yield limited(name, "s", [answers[0]["index"]], label)


def _changing(bench: Bench, chat: Chat, places: dict[str, Path]) -> Iterator[Row]:
    """Each round on a new copy."""
    summary = {"role": "assistant", "content": f"{SUMMARY}All went well so far, and the tests are green."}
    kept = digest([summary, *chat.last[-chat.keep :]])
    for job, name, there in (
        ("compact", f"compaction of {chat.size:,} messages to a summary and {chat.keep}", kept),
        ("switch", f"to another context and back, {chat.size:,} messages", digest(chat.last)),
    ):
        progress(name)
        able = [label for label in bench.able(job) if label in places]

        def order(label: str, _: int, job: str = job) -> dict[str, Any]:
            copy = _copied(places[label])
            return {
                "job": job,
                "place": str(copy),
                "window": WINDOW,
                "keep": chat.keep,
                "summary": summary,
            }

        sampled = sample(bench, able, order, digest=there)
        yield from versus(bench, name, "ms", job, sampled, faster=True)


def _forks(bench: Bench, chat: Chat, places: dict[str, Path], judged: int) -> Iterator[Row]:
    """Before the last question. Peers have to copy everything."""
    size = chat.size
    progress(f"fork, {size:,} messages")
    able = [label for label in bench.able("fork") if label in places and (label == OURS or size <= _FORKS)]
    what = {"job": "fork", "at": size - 1, "window": WINDOW}
    sampled = sample(
        bench, able, lambda label, _: {**what, "place": str(places[label])}, digest=digest(chat.last[:-1])
    )
    name = f"fork at {size:,} messages"
    if able == [OURS]:
        yield from points([alone(name, "ms", sampled)], _FORK, size)
        return
    found = versus(bench, name, "ms", "fork", sampled, faster=True)
    yield from points((row for row in found if row.note != "no such job" or size == judged), _FORK, size)
    if size == judged:
        target = None if bench.quick else at_least(50)
        peers = [label for label in sampled.values if label != OURS]
        yield from best(name, "ms", sampled, peers, faster=True, target=target)


def _grow(bench: Bench, chat: Chat, places: dict[str, Path]) -> Iterator[Row]:
    """The last at a size, since it makes the chats longer."""
    size = chat.size
    progress(f"open + append, {size:,} messages")
    able = [label for label in bench.able("append") if label in places]

    def order(label: str, done: int) -> dict[str, Any]:
        place = _copied(places[label]) if size <= _COPIED else places[label]
        return {
            "job": "grow",
            "place": str(place),
            "seed": 100 + done,
            "turns": 1 if bench.quick else _GONE_ON,
        }

    sampled = sample(bench, able, order)
    name = f"cold open + one durable turn, {size:,} messages"
    yield from points(versus(bench, name, "ms", "append", sampled, faster=True), _OPEN, size)
    name = f"one durable turn more, {size:,} messages"
    yield from points(versus(bench, name, "ms", "append", sampled.of("append"), faster=True), _APPEND, size)


def _flat(bench: Bench, long: Path, short: Path, size: int) -> Iterator[Row]:
    """Ours at both ends, in the same rounds."""
    progress("open + messages, the longest chat next to a short one")
    here, there = f"{size:,} messages", "a short chat"
    what = {"job": "next", "new": True, "window": WINDOW}
    cases = {
        name: partial(_value, bench, {**what, "place": str(place)})
        for name, place in ((here, long), (there, short))
    }
    samples = interleave(2 * bench.rounds, cases, warm_up=False)
    target = None if bench.quick else at_most(2)
    yield compared(f"cold open + messages for the next call, {here}", "ms", samples, here, there, target)


def _value(bench: Bench, order: dict[str, Any]) -> float:
    return float(bench.children.order(OURS, **order)["value"])


# --- what is asked for -------------------------------------------------------------------------------------


def _chat(size: int) -> Chat:
    """In one go over the messages, since a million of them are many."""
    progress(f"what {size:,} messages say")
    random = Random(size)
    ends = [end for end, _ in _ends(size)][:-2]
    wanted = set(random.sample(ends, min(_POINTS, len(ends))))
    said: list[Message] = []  # since the last summary
    seen: list[Message] = []
    marks: list[tuple[int, int]] = []
    texts: list[str] = []
    payload = 0
    encode = msgspec.json.Encoder().encode
    for end, turn in _ends(size):
        for message in turn:
            said = [message] if is_summary(message) else [*said, message]
            payload += len(encode(event_of(message)))
            if len(texts) < 2_000:
                texts.append(str(message.get("content", "")))
        if end in wanted:
            marks.append((end, len(said)))
            seen += said
    last = said[-WINDOW:]
    users = [at for at, message in enumerate(last) if message["role"] == "user"]
    keep = WINDOW - next(at for at in reversed(users) if WINDOW - at >= 20)
    whole = digest(message for _, turn in _ends(size) for message in turn)
    return Chat(size, last, marks, digest(seen), whole, payload, texts, keep)


def _ends(size: int) -> Iterator[tuple[int, list[Message]]]:
    end = 0
    for turn in history(_SEED, size):
        end += len(turn)
        yield end, turn


def _queries(texts: Sequence[str]) -> list[str]:
    """Ids out of logs, words, and pieces of CJK text: three characters, for SQLite's index knows none shorter."""
    random = Random(7)
    found: list[str] = []
    for pattern in (r'id="([0-9a-f]{16})"', r"\b[a-z]{6,}\b", r"[\u4e00-\u9fff]{3}"):
        words = sorted({word for text in texts for word in re.findall(pattern, text)})
        found += random.sample(words, min(_QUERIES // 3, len(words)))
    return found


def _copied(place: Path) -> Path:
    copy = place.with_name(f"{place.name}-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place, copy)
    os.sync()  # or whoever syncs a file pays for the copy
    return copy


def _bytes(place: Path) -> int:
    """As ``ls`` says, not in blocks; LMDB's file has holes, so of that it is the blocks."""
    total = 0
    for file in place.rglob("*"):
        if file.is_file():
            stat = file.stat()
            total += min(stat.st_size, stat.st_blocks * 512) if file.name == "data.mdb" else stat.st_size
    return total


def _interpreter() -> int:
    """The memory of one that does nothing, in bytes."""
    program = "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    return int(done.stdout) * 1024
