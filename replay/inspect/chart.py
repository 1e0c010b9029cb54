"""picture: how large the context was over time, from one reading of the log; stats: what the chat adds up to.

The size after an entry is the sum of what the entries in the model's window cost, each by itself. Between two context
events a window only grows, so prefix sums give every size. It is what ``Moment.shown`` costs, but for the framing that
the calls of one step share, results that nobody asked for or that are made up for calls without one, the label of a
late result, and injections of one fingerprint, of which the model sees the first.
"""

from array import array
from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import accumulate

import msgspec

from chatfold.agent import Moment
from chatfold.eventlog import (
    Compacted,
    ContextRecalled,
    Entry,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections import Contexts, Window, contexts, estimate, executions, lineage, outline, usage
from chatfold.projections.contexts import changes, window
from chatfold.projections.prompt import RECALLED, SUMMARY
from chatfold.projections.tokens import FRAMING, Counter, of_event
from chatfold.projections.usage import Usage
from chatfold.replay.inspect.entries import is_failure
from chatfold.replay.inspect.items import kind_name, numbered

Progress = Callable[[int, int], None]
"""(entries read so far, entries in all)"""


class Bucket(msgspec.Struct, frozen=True):
    """The sizes after the entries ``first`` … ``last``, in estimated tokens."""

    first: int
    last: int
    low: int
    high: int
    end: int


class Mark(msgspec.Struct, frozen=True):
    """A context event: compacted, reverted, opened, switched, cleared, rewound. ``before``, ``after``: sizes."""

    seq: int
    kind: str
    number: int
    before: int
    after: int


class Picture(msgspec.Struct, frozen=True):
    buckets: tuple[Bucket, ...]  # at most as many as were asked for
    marks: tuple[Mark, ...]  # all of them, in order
    size: int  # now
    peak: int


class ToolCount(msgspec.Struct, frozen=True):
    calls: int = 0
    failed: int = 0
    unanswered: int = 0


class Stats(msgspec.Struct, frozen=True):
    """Everything that ever happened up to the moment counts, also what was rewound."""

    chat: str
    title: str
    entries: int
    first: int  # when, in epoch milliseconds
    last: int
    kinds: dict[str, int]  # entries by the name of their event, the most first
    turns: int
    messages: int  # of users and assistants
    usage: Usage  # as the models reported it
    tools: dict[str, ToolCount]  # by name, the most called first
    errors: int  # as many as ``log --errors`` lists
    runs: dict[str, int]  # by outcome; "running": those without an end
    compactions: int
    hidden_tokens: int  # what the compactions took out of sight, less their summaries, when they did
    contexts: int  # the active one included
    forks: int  # how often this history was forked off another
    picture: Picture


async def stats(
    moment: Moment, *, width: int = 60, count: Counter = estimate, progress: Progress | None = None
) -> Stats:
    """Reads the whole chat once, in pages."""
    now = await moment.now()
    sizes, tally = _Sizes(count), _Tally()
    async for page in _pages(now, progress):
        for entry in page:
            sizes.take(entry)
            tally.take(entry)
    told, state, done = now[outline], now[contexts], now[executions]
    seen = sizes.picture(state, width)
    hides = [mark.before - mark.after for mark in seen.marks if mark.kind == "compacted"]
    return Stats(
        now.key,
        told.title,
        now.seq,
        told.created,
        told.active,
        dict(tally.kinds.most_common()),
        told.turns,
        told.messages,
        now[usage],
        tally.tools(),
        tally.errors,
        {**done.outcomes, **({"running": len(done.running)} if done.running else {})},
        len(hides),
        sum(hides),
        1 + len(state.shelf),
        len(now[lineage].forks),
        seen,
    )


async def picture(
    moment: Moment, *, width: int = 60, count: Counter = estimate, progress: Progress | None = None
) -> Picture:
    """The same reading, for the picture alone."""
    now = await moment.now()
    sizes = _Sizes(count)
    async for page in _pages(now, progress):
        for entry in page:
            sizes.take(entry)
    return sizes.picture(now[contexts], width)


async def _pages(moment: Moment, progress: Progress | None) -> AsyncIterator[list[Entry]]:
    async for page in moment.log.pages(moment.key, 1, moment.seq):
        yield page
        if progress is not None:
            progress(page[-1].seq, moment.seq)


class _Tally:
    """What is counted that no projection keeps."""

    def __init__(self) -> None:
        self.kinds: Counts[str] = Counts()
        self.errors = 0
        self._tools: dict[str, list[int]] = {}  # name -> calls, failures, answers
        self._open: dict[str, list[str]] = {}  # the names of the calls of an id that have no result yet

    def take(self, entry: Entry) -> None:
        event = entry.event
        self.kinds[kind_name(event)] += 1
        self.errors += is_failure(event)
        match event:
            case ToolCalled(call=call, name=name):
                self._tools.setdefault(name, [0, 0, 0])[0] += 1
                self._open.setdefault(call, []).append(name)
            case ToolReturned(call=call, failed=failed) if self._open.get(call):
                counts = self._tools[self._open[call].pop(0)]
                counts[1] += failed
                counts[2] += 1

    def tools(self) -> dict[str, ToolCount]:
        most = sorted(self._tools.items(), key=lambda tool: -tool[1][0])
        return {name: ToolCount(calls, failed, calls - answers) for name, (calls, failed, answers) in most}


# --- sizes -----------------------------------------------------------------------------------------------


class _Sizes:
    """What each entry costs, and so what any window does."""

    def __init__(self, count: Counter) -> None:
        self._count = count
        self._costs = array("q", [0])
        self._summaries: dict[int, int] = {}

    def take(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, Compacted):  # shown in the place of what it hides, not in its own
            self._summaries[entry.seq] = FRAMING + self._count(SUMMARY + event.summary)
            self._costs.append(0)
        elif isinstance(event, ContextRecalled):
            label = RECALLED.format(id=event.id, mode=event.mode)
            self._costs.append(FRAMING + self._count(label + event.text))
        else:
            self._costs.append(of_event(event, self._count))

    def picture(self, state: Contexts, width: int) -> Picture:
        sums = array("q", accumulate(self._costs))
        sizes = array("q", [0])
        marks: list[Mark] = []
        numbers = numbered(state)
        for control, _, after in changes(state):
            _grow(sizes, sums, control.seq - 1)
            size = self._size(sums, window(after, control.seq))
            if control.kind != "started":
                marks.append(Mark(control.seq, control.kind, numbers[control.seq][1], sizes[-1], size))
            sizes.append(size)
        _grow(sizes, sums, len(sums) - 1)
        buckets = tuple(_buckets(sizes, max(1, width)))
        return Picture(buckets, tuple(marks), sizes[-1], max(sizes))

    def _size(self, sums: "array[int]", seen: Window) -> int:
        said = sum(sums[last] - sums[first - 1] for first, last in seen.spans)
        return said + sum(self._summaries.get(top.seq, 0) for top in seen.summaries)


def _grow(sizes: "array[int]", sums: "array[int]", last: int) -> None:
    """The sizes up to entry ``last``: nothing but new entries came into the window."""
    at = len(sizes) - 1
    more = sizes[at] - sums[at]
    sizes.extend(array("q", (total + more for total in sums[at + 1 : last + 1])))


def _buckets(sizes: "array[int]", width: int) -> Iterator[Bucket]:
    """``sizes[seq]``; the one before the first entry is left out."""
    entries = len(sizes) - 1
    for index in range(min(width, entries)):
        first = 1 + index * entries // min(width, entries)
        last = (index + 1) * entries // min(width, entries)
        some = sizes[first : last + 1]
        yield Bucket(first, last, min(some), max(some), some[-1])


# --- drawing ---------------------------------------------------------------------------------------------

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LIGHT = "░"
_SIGNS = {"compacted": "◆", "reverted": "↺", "rewound": "↶", "opened": "⇄", "switched": "⇄", "cleared": "⇄"}


def drawn(picture: Picture, height: int = 1, *, marked: bool = True) -> list[str]:
    """``height`` lines of block characters, a column a bucket, highest first; and one of marks below, if there are any.

    A column is as high as the largest size in its bucket, and what is not nothing is seen; of several lines, those that
    the smallest size does not reach are lighter. Marks: ◆ compacted, ⇄ another context, ↶ rewound, ↺ reverted; of several
    in one bucket the first of these.
    """
    height = max(1, height)
    peak = max(1, picture.peak)
    columns = [
        (-(-one.low * 8 * height // peak), -(-one.high * 8 * height // peak)) for one in picture.buckets
    ]
    lines = [
        "".join(_cell(low - 8 * row, high - 8 * row, height) for low, high in columns)
        for row in reversed(range(height))
    ]
    below = _marks(picture) if marked and picture.marks else ""
    return [*lines, below] if below else lines


def _cell(low: int, high: int, height: int) -> str:
    """``low``, ``high``: how many eighths of this line, and more, the sizes fill."""
    return _LIGHT if high >= 8 and low <= 0 and height > 1 else _BLOCKS[min(8, max(0, high))]


def _marks(picture: Picture) -> str:
    order = "◆⇄↶↺ "
    columns = [" "] * len(picture.buckets)
    ends = [bucket.last for bucket in picture.buckets]
    for mark in picture.marks:
        column = bisect_left(ends, mark.seq)
        columns[column] = min(columns[column], _SIGNS[mark.kind], key=order.index)
    return "".join(columns)
