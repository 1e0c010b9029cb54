"""One context: the entries it holds, and the compactions that are in force in it.

Everything that grows is a sorted map, so that a compaction, or taking one back, touches what it changes.
"""

from collections.abc import Iterator

import msgspec

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
    in_force: SortedMap[int, tuple[int, int, int]] = (
        SortedMap()
    )  # compactions: seq -> first, last, swallowed by
    ranges: SortedMap[tuple[int, int, int], int] = SortedMap()  # the same: swallowed by, first, seq -> last
    covered: SpanMap = (
        SpanMap()
    )  # what those cover that are not swallowed; ranges that only touch are not joined
    carried_in: SpanMap = SpanMap()  # after a compaction of that range, which does not hide it

    @property
    def spans(self) -> Spans:
        """Its entries, without those since it last became active."""
        return tuple(self.held.items())

    @property
    def compactions(self) -> Iterator[Compaction]:
        """Those in force, in order; of these the ``tops`` say what is hidden."""
        return (Compaction(seq, first, last) for seq, (first, last, _) in self.in_force.items())

    @property
    def tops(self) -> tuple[Compaction, ...]:
        """Those in force that no other in force has swallowed, in the order of what they hide."""
        return tuple(Compaction(seq, first, last) for first, seq, last in self.swallowed_by(0))

    def swallowed_by(self, seq: int, first: int = 0) -> Iterator[tuple[int, int, int]]:
        """(first, seq, last) of each, from that first on; 0: by none."""
        for (by, begin, one), last in self.ranges.items((seq, first, 0)):
            if by != seq:
                return
            yield begin, one, last

    @property
    def hidden(self) -> Spans:
        return minus(spans(self.covered.items()), tuple(self.carried_in.items()))


def compact(context: Context, since: int, new: Compaction) -> Context:
    """The same context if that would hide nothing. ``since``: it has all entries from there on."""
    seq, first, last = msgspec.structs.astuple(new)
    swallowed = []
    for one in context.swallowed_by(0, first):
        if one[0] > last:
            break
        if one[2] <= last:
            swallowed.append(one)
    if not swallowed and not _hides(context, since, new):
        return context
    for begin, other, end in swallowed:
        context = _put_under(context, Compaction(other, begin, end), 0, seq)
    return msgspec.structs.replace(
        _put_under(context, new, None, 0),
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


def _put_under(context: Context, one: Compaction, old: int | None, new: int) -> Context:
    """The compaction is swallowed by ``new`` from now on; 0: by none. ``old`` None: it is new itself."""
    ranges = context.ranges if old is None else context.ranges.without((old, one.first, one.seq))
    return msgspec.structs.replace(
        context,
        in_force=context.in_force.set(one.seq, (one.first, one.last, new)),
        ranges=ranges.set((new, one.first, one.seq), one.last),
    )


def revert(context: Context, seq: int) -> Context:
    """The context as if that compaction had never been; what it had swallowed is in force again."""
    first, _, by = context.in_force[seq]
    children = list(context.swallowed_by(seq))
    context = msgspec.structs.replace(
        context, in_force=context.in_force.without(seq), ranges=context.ranges.without((by, first, seq))
    )
    for begin, one, end in children:  # each is swallowed by the first later one that covers it
        later = context.in_force.items(one + 1)
        swallower = next((other for other, (low, high, _) in later if low <= begin and end <= high), 0)
        context = _put_under(context, Compaction(one, begin, end), seq, swallower)
    return context if by else msgspec.structs.replace(context, covered=_covered_again(context, first))


def _covered_again(context: Context, seq: int) -> SpanMap:
    """What is covered, when something that covered this entry is gone: only what had overlapped it is looked at."""
    span = context.covered.floor(seq)
    assert span is not None
    covered = context.covered.without(span[0])
    for first, _, last in context.swallowed_by(0, span[0]):
        if first > span[1]:
            break
        covered = add(covered, first, last, touching=False)
    return covered
