"""One context: the entries it holds, and the compactions that are in force in it.

Everything that grows is a sorted map, so that a compaction, or taking one back, touches what it changes.
"""

from itertools import takewhile

import msgspec

from chatfold.projections.nest import Nest
from chatfold.projections.sorted_map import SortedMap
from chatfold.projections.spans import SpanMap, Spans, add, minus, remove, spans, within


class Compaction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Entry ``seq`` hides the entries ``first`` … ``last`` of its context."""

    seq: int
    first: int
    last: int


class Context(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    id: str
    opened: int = 0  # the seq that opened it; 0: the first one
    created: int = 0  # when, in epoch milliseconds
    title: str = ""
    archived: int = 0  # when it was left; 0: it is the active one
    reason: str = ""  # why it was left
    left: int = 0  # the seq that left it last
    held: SpanMap = SpanMap()  # its entries, without those since it last became active
    firsts: SortedMap[int, int] = SortedMap()  # of the compactions that none has swallowed: seq -> first
    ranges: SortedMap[tuple[int, int], int] = SortedMap()  # the same: first, seq -> last
    nest: Nest = Nest()  # those that later ones have swallowed
    covered: SpanMap = (
        SpanMap()
    )  # what those cover that are not swallowed; ranges that only touch are not joined
    carried_in: SpanMap = SpanMap()  # after a compaction of that range, which does not hide it

    @property
    def spans(self) -> Spans:
        """Its entries, without those since it last became active."""
        return tuple(self.held.items())

    @property
    def compactions(self) -> list[Compaction]:
        """Those in force, in order; of these the ``tops`` say what is hidden."""
        nested = (Compaction(seq, first, last) for seq, (first, last, _) in self.nest.items())
        return sorted((*nested, *self.tops), key=lambda one: one.seq)

    def has_compaction(self, seq: int) -> bool:
        """Is it in force?"""
        return seq in self.firsts or seq in self.nest

    @property
    def tops(self) -> tuple[Compaction, ...]:
        """Those in force that no other in force has swallowed, in the order of what they hide."""
        return tuple(Compaction(seq, first, last) for (first, seq), last in self.ranges.items())

    @property
    def hidden(self) -> Spans:
        return minus(spans(self.covered.items()), tuple(self.carried_in.items()))


def compact(context: Context, since: int, new: Compaction) -> Context:
    """The same context if that would hide nothing. ``since``: it has all entries from there on."""
    seq, first, last = msgspec.structs.astuple(new)
    touched = takewhile(lambda one: one[0][0] <= last, context.ranges.items((first, 0)))
    swallowed = [(begin, other, end) for (begin, other), end in touched if end <= last]
    if not swallowed and not _hides(context, since, new):
        return context
    for begin, other, end in swallowed:
        nest = context.nest.add(other, begin, end, seq)
        context = msgspec.structs.replace(_without_top(context, other), nest=nest)
    return msgspec.structs.replace(
        _with_top(context, seq, first, last),
        covered=add(context.covered, first, last, touching=False),
        carried_in=remove(context.carried_in, first, last),
    )


def _hides(context: Context, since: int, new: Compaction) -> bool:
    """Is there anything in the range that can be seen?"""
    own = within(context.held, new.first, new.last)
    for first, last in (*own, (max(new.first, since), new.last)):
        if first <= last and (
            minus(((first, last),), tuple(within(context.covered, first, last)))
            or any(within(context.carried_in, first, last))
        ):
            return True
    return False


def _with_top(context: Context, seq: int, first: int, last: int) -> Context:
    firsts, ranges = context.firsts.set(seq, first), context.ranges.set((first, seq), last)
    return msgspec.structs.replace(context, firsts=firsts, ranges=ranges)


def _without_top(context: Context, seq: int) -> Context:
    ranges = context.ranges.without((context.firsts[seq], seq))
    return msgspec.structs.replace(context, firsts=context.firsts.without(seq), ranges=ranges)


def revert(context: Context, seq: int) -> Context:
    """The context as if that compaction had never been; what it had swallowed is in force again."""
    children = context.nest.swallowed_by(seq)
    first = context.firsts.get(seq)
    if first is None:
        context = msgspec.structs.replace(context, nest=context.nest.without(seq))
    else:
        context = _without_top(context, seq)
    for begin, one, end in children:
        swallower = _swallower(context, one, begin, end)
        nest = context.nest.without(one)
        if swallower:
            context = msgspec.structs.replace(context, nest=nest.add(one, begin, end, swallower))
        else:
            context = _with_top(msgspec.structs.replace(context, nest=nest), one, begin, end)
    return (
        context if first is None else msgspec.structs.replace(context, covered=_covered_again(context, first))
    )


def _swallower(context: Context, seq: int, first: int, last: int) -> int:
    """The first compaction in force after this one that covers it; 0 if there is none."""
    tops = ((one, begin, context.ranges[begin, one]) for one, begin in context.firsts.items(seq + 1))
    nested = ((one, begin, end) for one, (begin, end, _) in context.nest.items(seq + 1))
    found = (
        next((one for one, begin, end in some if begin <= first and last <= end), 0)
        for some in (tops, nested)
    )
    return min((one for one in found if one), default=0)


def _covered_again(context: Context, seq: int) -> SpanMap:
    """What is covered, when something that covered this entry is gone: only what had overlapped it is looked at."""
    span = context.covered.floor(seq)
    assert span is not None
    covered = context.covered.without(span[0])
    for (first, _), last in context.ranges.items((span[0], 0)):
        if first > span[1]:
            break
        covered = add(covered, first, last, touching=False)
    return covered
