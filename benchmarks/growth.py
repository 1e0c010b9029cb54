"""Growth: what one event costs in a large chat, as a ratio to what it costs in a small one.

A case is a chat that consists of one thing, done over and over. Processor time is counted, per event: of folding, of ``stays``
(which is under ``chatfold why``) for two entries, of making messages, planning a compaction and UI messages, and of opening the chat in a
store whose caches were deleted. And the memory of a view.
"""

import asyncio
import gc
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from benchmarks.machine import HERE
from benchmarks.measure import QUICK_ROUNDS, Row, at_most, compared, interleave, limited, progress
from benchmarks.open_chats import CHATS, MESSAGES, record
from chatfold.agent.compaction import Policy, make_plans
from chatfold.agent.views import open_view
from chatfold.eventlog import (
    CheckpointSet,
    Compacted,
    CompactionReverted,
    ContextOpened,
    ContextSwitched,
    Entry,
    Event,
    FileStorage,
    Forked,
    Head,
    Log,
    MessageAdded,
    Rewound,
    SendRequested,
    SkillActivated,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections import STANDARD, NeedsEarlier, View, fold, messages, start, to_ui
from chatfold.projections.fold import MEMORY
from chatfold.projections.history import History, of_entries
from chatfold.projections.lifetimes import stays

_FLAT = at_most(1.5)
_FEW, _MANY, _QUICK = 1_000, 64_000, 8_000
_READ = ("a plain talk", "compactions side by side", "parallel calls, answered")
_REMEMBERED = (
    "a plain talk",
    "an answer generated again",
    "the last turn edited",
    "compactions, each around the last",
    "two contexts in turn",
)
_OPENED = 16_000  # entries of a chat that is opened from its log alone
_USER, _ANSWER = MessageAdded("user", (Text("and now?"),)), MessageAdded("assistant", (Text("like this"),))

Case = Callable[[int], list[Event]]


def regenerated(count: int) -> list[Event]:
    """The answer to one question, again and again."""
    return [_USER, *(event for _ in range(count // 2) for event in (_ANSWER, Rewound(1)))]


def edited(count: int) -> list[Event]:
    """Back one turn, and another question."""
    return [event for at in range(0, count, 3) for event in (_USER, _ANSWER, Rewound(at))]


def rewound_anywhere(count: int) -> list[Event]:
    random = Random(count)
    return [Rewound(random.randrange(at)) if at % 8 == 7 else _USER for at in range(count)]


def side_by_side(count: int) -> list[Event]:
    return [e for at in range(0, count, 3) for e in (_USER, _ANSWER, Compacted(at + 1, at + 2, 2, "so"))]


def nested(count: int) -> list[Event]:
    return [e for at in range(0, count, 3) for e in (_USER, _ANSWER, Compacted(1, at + 2, 2, "so"))]


def reverted(count: int) -> list[Event]:
    """A nest of compactions is taken apart again."""
    nest = [event for at in range(1, count * 2 // 3, 2) for event in (_USER, Compacted(1, at, 1, "so"))]
    return [*nest, *(CompactionReverted(seq) for seq in range(len(nest), 0, -2))]


def two_in_turn(count: int) -> list[Event]:
    names = ("main", "a")
    turns = [(_USER, ContextSwitched(names[at // 2 % 2], (at + 3,))) for at in range(0, count, 2)]
    return [_USER, ContextOpened("a"), *(event for turn in turns for event in turn)]


def among_many(count: int) -> list[Event]:
    random = Random(count)
    opened: list[Event] = [ContextOpened(f"context-{number}") for number in range(count // 4)]
    names = (f"context-{random.randrange(count // 4)}" for _ in range(count // 4))
    return [*opened, *(event for name in names for event in (_USER, ContextSwitched(name), _ANSWER))]


def answered(count: int) -> list[Event]:
    """Calls side by side, and then their results."""
    calls: list[Event] = [ToolCalled(f"call-{number}", "read") for number in range(count // 2)]
    return [*calls, *(ToolReturned(f"call-{number}") for number in range(count // 2))]


CASES: dict[str, Case] = {
    "a plain talk": lambda count: [_USER, _ANSWER] * (count // 2),
    "an answer generated again": regenerated,
    "the last turn edited": edited,
    "a rewind to a random entry": rewound_anywhere,
    "compactions side by side": side_by_side,
    "compactions, each around the last": nested,
    "the same, reverted": reverted,
    "two contexts in turn": two_in_turn,
    "switches among many contexts": among_many,
    "open calls": lambda count: [ToolCalled(f"call-{number}", "read") for number in range(count)],
    "parallel calls, answered": answered,
    "checkpoints": lambda count: [CheckpointSet(f"point-{number}") for number in range(count)],
    "forks of forks": lambda count: [Forked("parent", number) for number in range(count)],
    "open sends": lambda count: [SendRequested(f"send-{number}", ()) for number in range(count)],
    "skills": lambda count: [SkillActivated(f"skill-{number}", "print") for number in range(count)],
}


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    rounds, many = (QUICK_ROUNDS, _QUICK) if quick else (7, _MANY)
    for name, case in CASES.items():
        yield _folding(name, case, rounds, many)
    for name in ("the last turn edited", "compactions, each around the last", "two contexts in turn"):
        yield _tracing(name, CASES[name], rounds, many)
    for name in ("a plain talk", "an answer generated again", "a rewind to a random entry"):
        yield _opening(folder, name, CASES[name], rounds, _OPENED // 4 if quick else _OPENED)
    for what, work in {"messages": _prompt, "planning a compaction": _planned, "UI messages": _shown}.items():
        for name in _READ:
            yield _reading(f"an event, {what}, {name}", work, CASES[name], rounds, many // 8)
    for name in _REMEMBERED:
        yield _remembering(name, CASES[name], many // 4)
    yield from _memory(folder / "open", 100 if quick else CHATS)


def _folding(name: str, case: Case, rounds: int, many: int) -> Row:
    sizes = {f"{count:,} entries": _entries(case(count)) for count in (many, _FEW)}
    samples = interleave(rounds, {size: partial(_folded, some) for size, some in sizes.items()})
    return compared(f"an event folded, {name}", "us", samples, *_ends(sizes), _FLAT)


def _folded(entries: list[Entry]) -> float:
    view = _before(entries)
    gc.collect()
    gc.disable()  # what is remembered here, and by no chat, would be looked at again and again
    began = process_time()
    fold(view, entries)
    taken = process_time() - began
    gc.enable()
    return taken / len(entries) * 1e6


def _before(entries: list[Entry]) -> View:
    """As a chat's view remembers; where something is rewound, all: there is no log to read what it has forgotten from."""
    goes_back = any(type(entry.event) is Rewound for entry in entries)
    return start(STANDARD, memory=len(entries) if goes_back else MEMORY)


def _tracing(name: str, case: Case, rounds: int, many: int) -> Row:
    sizes = {f"{count:,} entries": _entries(case(count)) for count in (many, _FEW)}
    known = {size: of_entries(entries) for size, entries in sizes.items()}
    samples = interleave(rounds, {size: partial(_traced, one) for size, one in known.items()})
    return compared(f"an event, for the stays of two entries, {name}", "us", samples, *_ends(sizes), _FLAT)


def _traced(history: History) -> float:
    began = process_time()
    stays(history, ((1, 1), (history.seq // 2, history.seq // 2)))
    return (process_time() - began) / history.seq * 1e6


def _reading(name: str, work: Callable[[list[Entry]], float], case: Case, rounds: int, many: int) -> Row:
    sizes = {f"{count:,} entries": _entries(case(count)) for count in (many, _FEW)}
    samples = interleave(rounds, {size: partial(work, some) for size, some in sizes.items()})
    return compared(name, "us", samples, *_ends(sizes), _FLAT)


def _prompt(entries: list[Entry]) -> float:
    view = fold(_before(entries), entries)
    began = process_time()
    messages(view, entries)
    return (process_time() - began) / len(entries) * 1e6


def _planned(entries: list[Entry]) -> float:
    view = fold(_before(entries), entries)
    said = messages(view, entries)
    began = process_time()
    make_plans(view, said, Policy(keep=30, budget=None))
    return (process_time() - began) / len(entries) * 1e6


def _shown(entries: list[Entry]) -> float:
    began = process_time()
    to_ui(entries)
    return (process_time() - began) / len(entries) * 1e6


def _remembering(name: str, case: Case, many: int) -> Row:
    """The memory of a view, as a chat folds it: what it has forgotten is read again."""
    sizes = {f"{count:,} entries": _entries(case(count)) for count in (many, _FEW)}
    samples = {size: [_size_of_view(some)] for size, some in sizes.items()}
    return compared(f"memory of a view, {name}", "kB", samples, *_ends(sizes), at_most(2))


def _size_of_view(entries: list[Entry]) -> float:
    gc.collect()
    tracemalloc.start()
    view, rest = start(STANDARD), entries
    while rest:
        try:
            view, rest = fold(view, rest), []
        except NeedsEarlier as needed:
            view = needed.view.with_point(fold(start(STANDARD), entries[: needed.to]))
            rest = entries[view.seq :]
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / 1e3


def _opening(folder: Path, name: str, case: Case, rounds: int, many: int) -> Row:
    places = {f"{count:,} entries": folder / f"{count}" for count in (many, _FEW)}
    for place, count in zip(places.values(), (many, _FEW), strict=True):
        progress(f"recording {name}, {count:,} entries")
        asyncio.run(_record(place, case(count)))
    samples = interleave(rounds, {size: partial(_opened, place) for size, place in places.items()})
    for place in places.values():
        shutil.rmtree(place)
    return compared(f"an event, opened without caches, {name}", "us", samples, *_ends(places), _FLAT)


async def _record(root: Path, events: list[Event]) -> None:
    async with Log(FileStorage(root, durability="off")) as log:
        for at in range(0, len(events), 500):
            await log.append("chat", *events[at : at + 500])


def _opened(root: Path) -> float:
    for cache in root.glob("chats/*/cache"):
        shutil.rmtree(cache)
    return asyncio.run(_open(root))


async def _open(root: Path) -> float:
    async with Log(FileStorage(root, durability="off")) as log:
        began = process_time()
        opened = await open_view(log, "chat")
        return (process_time() - began) / opened.view.seq * 1e6


def _memory(place: Path, chats: int) -> Iterator[Row]:
    progress(f"opening {chats:,} chats")
    asyncio.run(record(place, chats))
    command = [sys.executable, "-m", "benchmarks.open_chats", str(place)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=HERE.parent).stdout
    shutil.rmtree(place)
    for state, used in zip(("with their prompts", "idle"), answer.split(), strict=True):
        name = f"{chats:,} open chats of {MESSAGES} messages, {state}"
        yield limited(name, "MB", [float(used)], "the limit", at_most(150))


def _ends(sizes: dict[str, Any]) -> tuple[str, str]:
    many, few = sizes
    return many, few


def _entries(events: Iterable[Event]) -> list[Entry]:
    """As a log gives them."""
    made: list[Entry] = []
    link = Head().link
    for seq, event in enumerate(events, 1):
        made.append(Entry(seq, seq, event, prev=link, sum=f"{seq:016x}"))
        link = made[-1].link
    return made
