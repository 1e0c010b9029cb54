"""sizes: how large the context was after every entry, read once and carried on.

    sizes = Sizes()
    await sizes.read_on(moment)                 # reads what it has not seen yet
    sizes.chart(await moment.history(), width=60)     # the whole chat in 60 buckets; first=, last= for a part of it

The size after an entry is the sum of what the entries in the model's window cost, each by itself. Between two context
events a window only grows, so prefix sums give every size. It is what ``Moment.messages`` cost, but for the framing that
the calls of one step share, results without a call or that are made up for calls without one, the label of a
late result, and injections of one fingerprint, of which the model sees the first.
"""

from array import array
from collections.abc import Callable, Iterator

import msgspec

from chatfold.agent import Moment
from chatfold.eventlog import Compacted, ContextRecalled, Entry, Event
from chatfold.projections import Window, estimate
from chatfold.projections.contexts import window
from chatfold.projections.history import History, changes
from chatfold.projections.labels import RECALLED, SUMMARY
from chatfold.projections.tokens import FRAMING, Counter, of_event
from chatfold.replay.inspect.points import number_controls

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


class Chart(msgspec.Struct, frozen=True):
    buckets: tuple[Bucket, ...]  # at most as many as were asked for
    marks: tuple[Mark, ...]  # all of them, in order
    size: int  # at the end
    peak: int


def cost_of(event: Event, count: Counter = estimate) -> int:
    """What an event costs in a prompt by itself; of a compaction, its summary."""
    match event:
        case Compacted(summary=summary):
            return FRAMING + count(SUMMARY + summary)
        case ContextRecalled(id=id, mode=mode, text=text):
            return FRAMING + count(RECALLED.format(id=id, mode=mode) + text)
    return of_event(event, count)


class Sizes:
    """What was read stays; what comes after it is added."""

    def __init__(self, count: Counter = estimate) -> None:
        self._count = count
        self._sums = array("q", [0])  # what the entries up to each one cost
        self._summaries: dict[int, int] = {}
        self._sizes = array("q", [0])
        self._marks: list[Mark] = []
        self._controls = 0  # how many of them are in ``_sizes``

    @property
    def seq(self) -> int:
        """The last entry that was read."""
        return len(self._sums) - 1

    async def read_on(self, moment: Moment, progress: Progress | None = None) -> "Sizes":
        async for page in moment.log.pages(moment.key, self.seq + 1, moment.seq):
            for entry in page:
                self.take(entry)
            if progress is not None:
                progress(page[-1].seq, moment.seq)
        return self

    def take(self, entry: Entry) -> None:
        """The next entry."""
        self.add(cost_of(entry.event, self._count), is_summary=isinstance(entry.event, Compacted))

    def add(self, cost: int, *, is_summary: bool) -> None:
        """The next entry, if its cost is known."""
        if is_summary:  # shown in the place of what it hides, not in its own
            self._summaries[self.seq + 1] = cost
        self._sums.append(self._sums[-1] + (0 if is_summary else cost))

    def chart(self, known: History, width: int, *, first: int = 1, last: int | None = None) -> Chart:
        """Of the entries ``first`` … ``last``. ``known``: of the chat, up to the last entry that was read, or before."""
        self._settle(known)
        last = self.seq if last is None else min(last, self.seq)
        sizes = self._sizes[: last + 1]
        marks = tuple(mark for mark in self._marks if first <= mark.seq <= last)
        buckets = tuple(_buckets(sizes, max(1, first), max(1, width)))
        return Chart(buckets, marks, sizes[-1], max(sizes[max(0, first - 1) :], default=0))

    def _settle(self, known: History) -> None:
        """The sizes up to here. What a context event did is looked at once."""
        numbers = number_controls(known)
        for index, (control, _, after) in enumerate(changes(known)):
            if index < self._controls or control.seq > self.seq:
                continue
            self._grow(control.seq - 1)
            size = self._size(window(after, control.seq))
            if control.kind != "started":
                number = numbers[control.seq][1]
                self._marks.append(Mark(control.seq, control.kind, number, self._sizes[-1], size))
            self._sizes.append(size)
            self._controls += 1
        self._grow(self.seq)

    def _grow(self, last: int) -> None:
        """The sizes up to entry ``last``: nothing but new entries came into the window."""
        sizes, sums = self._sizes, self._sums
        at = len(sizes) - 1
        more = sizes[at] - sums[at]
        sizes.extend(array("q", (total + more for total in sums[at + 1 : last + 1])))

    def _size(self, seen: Window) -> int:
        said = sum(self._sums[last] - self._sums[first - 1] for first, last in seen.spans)
        return said + sum(self._summaries.get(top.seq, 0) for top in seen.summaries)


async def chart_of(
    moment: Moment, *, width: int = 60, count: Counter = estimate, progress: Progress | None = None
) -> Chart:
    """Of one moment, with nothing kept: reads the whole chat."""
    now = await moment.now()
    return (await Sizes(count).read_on(now, progress)).chart(await now.history(), width)


def _buckets(sizes: "array[int]", begin: int, width: int) -> Iterator[Bucket]:
    """``sizes[seq]``, from entry ``begin`` on."""
    entries = len(sizes) - begin
    for index in range(min(width, entries)):
        first = begin + index * entries // min(width, entries)
        last = begin - 1 + (index + 1) * entries // min(width, entries)
        some = sizes[first : last + 1]
        yield Bucket(first, last, min(some), max(some), some[-1])
