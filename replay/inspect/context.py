"""context: what the model sees at a moment: whole, a window of it, or what is different from a moment before.

    seen = await context_of(moment)                     # all items, and what is archived
    page = await context_page(moment, first=0, most=200)    # a window of the items, with the totals of all of them
    delta = await context_delta(before, after)          # from the one list of items to the other, in one splice

A page and a delta cost what they show: the items of a prompt that goes on are made once.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from chatfold.agent import Moment
from chatfold.projections import ArchiveRow, Tokens, contexts
from chatfold.projections.tokens import Counter, estimate
from chatfold.replay.inspect.items import Item, Kind, by_kind, items_of
from chatfold.replay.inspect.points import number_controls


class InForce(msgspec.Struct, frozen=True):
    """A compaction whose summary the model sees. ``number``: as in ``c2``."""

    number: int
    seq: int
    first: int
    last: int


class Seen(msgspec.Struct, frozen=True):
    """A context of a chat at a moment: what is known of all of it."""

    chat: str
    seq: int
    turn: int
    id: str
    title: str
    tokens: Tokens
    by_kind: dict[Kind, int]  # tokens; only the kinds that are there
    compactions: tuple[InForce, ...]
    shelved: int  # contexts on the shelf, with those that are not listed


class Inspected(Seen, frozen=True):
    """All of its items, and what is archived there."""

    items: tuple[Item, ...]
    archive: tuple[ArchiveRow, ...]  # last left first


class ContextPage(Seen, frozen=True):
    """Its items ``first`` …, of ``count``."""

    first: int
    count: int
    items: tuple[Item, ...]


class ContextDelta(Seen, frozen=True):
    """The items of ``before`` with ``removed`` of them taken out at the index ``at``, and ``added`` put there, are those of ``seq``."""

    before: int
    at: int
    removed: int
    added: tuple[Item, ...]
    count: int


async def context_of(
    moment: Moment, context_id: str | None = None, *, rows: int | None = 20, count: Counter = estimate
) -> Inspected:
    """What the model sees of the active context, or would see of another; ``rows``: the most of the archive."""
    now = await moment.now()
    items = items_of(await now.messages(context=context_id), count)
    archive = tuple(await now.contexts(rows))
    return Inspected(**await _totals(now, context_id, items, count), items=items, archive=archive)


async def context_page(
    moment: Moment,
    *,
    first: int = 0,
    most: int = 200,
    context_id: str | None = None,
    count: Counter = estimate,
) -> ContextPage:
    """``first``: an index; a negative one counts from the end, so that -200 gives the newest 200."""
    now = await moment.now()
    items = items_of(await now.messages(context=context_id), count)
    first = max(0, len(items) + first) if first < 0 else first
    totals = await _totals(now, context_id, items, count)
    return ContextPage(**totals, first=first, count=len(items), items=items[first : first + most])


async def context_delta(before: Moment, after: Moment, *, count: Counter = estimate) -> ContextDelta:
    """From any moment of a chat to any other one, earlier or later."""
    one, other = await before.now(), await after.now()
    old, new = items_of(await one.messages(), count), items_of(await other.messages(), count)
    at, kept = common_ends(old, new)
    return ContextDelta(
        **await _totals(other, None, new, count),
        before=one.seq,
        at=at,
        removed=len(old) - at - kept,
        added=new[at : len(new) - kept],
        count=len(new),
    )


def common_ends(one: Sequence[object], other: Sequence[object]) -> tuple[int, int]:
    """How many are equal at the beginning and, of the rest, at the end."""
    least = min(len(one), len(other))
    first = next((at for at in range(least) if one[at] is not other[at] and one[at] != other[at]), least)
    rest = least - first
    last = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
    return first, last


async def _totals(
    now: Moment, context_id: str | None, items: Sequence[Item], count: Counter
) -> dict[str, Any]:
    """The fields of ``Seen``."""
    state = now[contexts]
    context = state.active if context_id in (None, state.active.id) else state.shelf[str(context_id)]
    return {
        "chat": now.key,
        "seq": now.seq,
        "turn": (await now.history()).turn_at(now.seq),
        "id": context.id,
        "title": context.title,
        "tokens": Tokens(sum(item.tokens for item in items), count is estimate),
        "by_kind": by_kind(items),
        "compactions": await _in_force(now, context.id),
        "shelved": len(state.shelf),
    }


async def _in_force(now: Moment, id: str) -> tuple[InForce, ...]:
    numbers = number_controls(await now.history())
    return tuple(
        InForce(numbers[top.seq][1], top.seq, top.first, top.last) for top in now.window(id).summaries
    )
