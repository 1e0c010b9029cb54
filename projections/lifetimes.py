"""lifetimes: when each item came into the model's sight, when it left, and why: the answer to "why did it forget X?"

Made from the context events in ``history``, by the same steps as the fold: no second record could say something else.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TypeAlias

import msgspec

from chatfold.eventlog import Compacted, Entry
from chatfold.projections.contexts import Contexts, Control
from chatfold.projections.history import History, changes
from chatfold.projections.sorted_map import SortedMap
from chatfold.projections.spans import Span, Spans, add, common, minus, spans, within
from chatfold.projections.tokens import Counter, estimate, of_event


class Stay(msgspec.Struct, frozen=True):
    """The entries ``first`` … ``last`` were in sight from ``entered`` (0: each from its own seq on) until ``left``.

    ``left`` 0: they still are. ``cause``: what the entry ``left`` did.
    """

    first: int
    last: int
    entered: int = 0
    left: int = 0
    cause: str = ""


class Lifetime(msgspec.Struct, frozen=True):
    """One stay of one item. ``tokens`` are estimated, unless the counter given knows better."""

    item: int
    entered: int
    left: int
    cause: str
    tokens: int


def lifetimes(history: History, entries: Iterable[Entry], count: Counter = estimate) -> Iterator[Lifetime]:
    """Of each of these entries, given in order, that a model can see; one that came back has several."""
    shown, summaries = _Sweep(stays(history)), _Sweep(summary_stays(history))
    for entry in entries:
        tokens = of_event(entry.event, count)
        if tokens:
            for stay in (summaries if type(entry.event) is Compacted else shown).at(entry.seq):
                entered = stay.entered or entry.seq
                yield Lifetime(entry.seq, entered, stay.left, stay.cause, tokens)


class _Sweep:
    """Which of the stays an entry has had, for one entry after the other."""

    def __init__(self, stays: Iterable[Stay]) -> None:
        self._ahead = sorted(
            enumerate(stays), key=lambda one: one[1].first, reverse=True
        )  # the next one last
        self._here: list[tuple[int, Stay]] = []

    def at(self, seq: int) -> list[Stay]:
        while self._ahead and self._ahead[-1][1].first <= seq:
            self._here.append(self._ahead.pop())
        self._here = sorted(one for one in self._here if one[1].last >= seq)
        return [stay for _, stay in self._here]


def stays(history: History, among: Spans | None = None) -> list[Stay]:
    """Of all entries, or of those ``among``, in the order they ended; those that have not ended come last.

    One sweep: an event is looked at where it changed what is held, covered or carried in, and nowhere else. A switch changes
    all that is seen: who asks about few entries says which.
    """
    head = history.seq
    every = among is None
    among = ((1, head),) if among is None else among
    done: list[Stay] = []
    present: _Present = SortedMap()
    new = 1
    for control, before, after in changes(history):
        for span in common(((new, control.seq - 1),), among):
            present = _enter(present, *span)
        new = control.seq
        for first, last in _regions(before, after, control.seq - 1) if every else among:
            seen = _seen(after, control.seq - 1, first, last)
            present = _sweep(present, done, (first, last), seen, control)
    for span in common(((new, head),), among):
        present = _enter(present, *span)
    return done + [Stay(first, last, entered) for first, (last, entered) in present.items()]


_Present: TypeAlias = SortedMap[int, tuple[int, int]]
"""Those who are in sight: first -> last, entered."""


def _enter(present: _Present, first: int, last: int) -> _Present:
    """Each in its own turn. What follows such entries makes one stay with them."""
    if first > last:
        return present
    before = present.floor(first)
    if before is not None and before[1] == (first - 1, 0):
        return present.set(before[0], (last, 0))
    return present.set(first, (last, 0))


def _regions(before: Contexts, after: Contexts, head: int) -> Spans:
    """Where an event may have changed what is seen of the entries up to ``head``."""
    one, other = before.active, after.active
    held = [add(state.active.held, state.since, head) for state in (before, after)]
    return spans(
        (
            *held[0].differences(held[1]),
            *one.covered.differences(other.covered),
            *one.carried_in.differences(other.carried_in),
        )
    )


def _seen(state: Contexts, head: int, first: int, last: int) -> Spans:
    """What of these entries is in sight."""
    context = state.active
    since = max(first, state.since), min(last, head)
    covered = spans(within(context.covered, first, last))
    hidden = minus(covered, tuple(within(context.carried_in, first, last)))
    return minus(spans((*within(context.held, first, last), since)), hidden)


def _sweep(present: _Present, done: list[Stay], region: Span, seen: Spans, control: Control) -> _Present:
    """In this region only these are seen from now on."""
    before = present.floor(region[0])
    here: list[Span] = []
    for first, (last, entered) in list(_until(present.items(before[0] if before else 0), region[1])):
        whole = ((first, last),)
        here.append((first, last))
        left = minus(common(whole, (region,)), seen)
        if left:
            done += [Stay(*span, entered, control.seq, control.kind) for span in left]
            present = present.without(first)
            for begin, end in minus(whole, left):
                present = present.set(begin, (end, entered))
    for begin, end in minus(seen, spans(here)):
        present = present.set(begin, (end, control.seq))
    return present


def _until(items: Iterator[tuple[int, tuple[int, int]]], last: int) -> Iterator[tuple[int, tuple[int, int]]]:
    return takewhile(lambda item: item[0] <= last, items)


def summary_stays(history: History) -> list[Stay]:
    """The same of summaries, each an entry of its own."""
    done: list[Stay] = []
    present: dict[int, Stay] = {}
    for control, before, after in changes(history):
        changed = {seq for seq, _ in before.active.firsts.differences(after.active.firsts)}
        for seq in sorted(changed):
            is_seen = seq in after.active.firsts
            if is_seen and seq not in present:
                present[seq] = Stay(seq, seq, control.seq)
            elif not is_seen and seq in present:
                stay = present.pop(seq)
                done.append(Stay(seq, seq, stay.entered, control.seq, control.kind))
    return [*done, *present.values()]
