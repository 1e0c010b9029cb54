"""lifetimes: when each item came into the model's sight, when it left, and why: the answer to "why did it forget X?"

Made from what ``contexts`` keeps, which is all that it takes: no second record that could say something else.
"""

from collections.abc import Iterable, Iterator

import msgspec

from chatfold.eventlog import Compacted, Entry
from chatfold.projections.context import Contexts, changes, window
from chatfold.projections.spans import Spans, common, minus, spans
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


def lifetimes(
    state: Contexts, head: int, entries: Iterable[Entry], count: Counter = estimate
) -> Iterator[Lifetime]:
    """Of each of these entries, given in order, that a model can see; one that came back has several."""
    shown, summaries = _Sweep(stays(state, head)), _Sweep(summary_stays(state))
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


def stays(state: Contexts, head: int) -> list[Stay]:
    """Of all entries, in the order they ended; those that have not ended come last."""
    done: list[Stay] = []
    present: list[Stay] = []
    for control, before, after in changes(state):
        present = _entered(present, window(before, control.seq - 1).spans, 0)
        present = _left(present, done, window(after, control.seq).spans, control.seq, control.kind)
        present = _entered(
            present, minus(window(after, control.seq).spans, ((control.seq, control.seq),)), control.seq
        )
    return done + _entered(present, window(state, head).spans, 0)


def _entered(present: list[Stay], visible: Spans, at: int) -> list[Stay]:
    new = minus(visible, spans((stay.first, stay.last) for stay in present))
    return [*present, *(Stay(first, last, at) for first, last in new)]


def _left(present: list[Stay], done: list[Stay], visible: Spans, at: int, cause: str) -> list[Stay]:
    kept: list[Stay] = []
    for stay in present:
        whole = ((stay.first, stay.last),)
        kept += [Stay(first, last, stay.entered) for first, last in common(whole, visible)]
        done += [Stay(first, last, stay.entered, at, cause) for first, last in minus(whole, visible)]
    return kept


def summary_stays(state: Contexts) -> list[Stay]:
    """The same of summaries, each an entry of its own."""
    done: list[Stay] = []
    present: dict[int, Stay] = {}
    for control, _, after in changes(state):
        visible = {top.seq for top in after.active.tops}
        done += [
            Stay(seq, seq, stay.entered, control.seq, control.kind)
            for seq, stay in present.items()
            if seq not in visible
        ]
        present = {seq: present.get(seq, Stay(seq, seq, control.seq)) for seq in sorted(visible)}
    return [*done, *present.values()]
