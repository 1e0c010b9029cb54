"""comparing: what is different between two points of a chat, or of two chats: items, tokens, archive, prompt prefix.

Two moments share the history up to the last entry that both have: for two points of one chat that is the earlier one,
for a fork and its parent the fork point. An item made from entries of the shared history is the same item on both
sides; what lies beyond is the same item if it says the same. Everything is one walk over both contexts.
"""

from collections import Counter as Counts
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from chatfold.agent import Moment
from chatfold.agent.moment import SentShape
from chatfold.eventlog import Compacted, CompactionReverted, Entry, Json, Rewound
from chatfold.projections import ArchiveRow, Message, Tokens, contexts
from chatfold.projections.prompt import first_difference
from chatfold.projections.tokens import Counter, estimate
from chatfold.replay.inspect.entries import kind_name
from chatfold.replay.inspect.items import Item, item_of, items_of
from chatfold.replay.inspect.matching import comparable, key_messages, last_shared, out_of_order
from chatfold.replay.inspect.points import SWITCHES, number_controls

Cache: TypeAlias = Literal["whole", "part", "lost"]
"""Of what a provider has cached of the first prompt, the second one can use all, some, or nothing but system messages."""


class Side(msgspec.Struct, frozen=True):
    """One of the two moments."""

    chat: str
    seq: int
    turn: int
    context: str
    title: str
    items: int
    tokens: Tokens


class Change(msgspec.Struct, frozen=True):
    """The same item, saying something else: a call that was answered meanwhile, an entry that was erased."""

    before: Item
    after: Item


class Step(msgspec.Struct, frozen=True):
    """A context event between the two: what it did, as far as it says so.

    ``kind``: opened, switched, cleared, compacted, reverted, rewound. ``number``: as in ``c2`` and ``s3``.
    """

    seq: int
    ts: int
    kind: str
    number: int
    turn: int
    context: str = ""  # the one that became active
    title: str = ""
    reason: str = ""
    first: int = 0  # compacted: the range; reverted: the compaction; rewound: 0
    last: int = 0  # compacted: the range; rewound: where to
    trigger: str = ""
    policy: dict[str, Json] = {}
    tokens: dict[str, int] = {}
    summary: str = ""


class Comparison(msgspec.Struct, frozen=True):
    before: Side
    after: Side
    shared: int  # the seq of the last entry that both have
    left: tuple[Item, ...]
    kept: tuple[Item, ...]  # as they were, with those that moved
    added: tuple[Item, ...]
    changed: tuple[Change, ...]
    moved: tuple[Item, ...]  # kept, and elsewhere among what was kept
    tokens: dict[str, int]  # of left, kept, added; changed: after, less before
    steps: tuple[Step, ...]  # of the second after what is shared
    undone: tuple[Step, ...]  # of the first after what is shared
    archive: "Archives"
    prefix: int  # messages at the beginning that are the same in both prompts
    prefix_tokens: int
    cache: Cache

    @property
    def is_same(self) -> bool:
        """Is what the model sees the same?"""
        return not (self.left or self.added or self.changed or self.moved)


class Archives(msgspec.Struct, frozen=True):
    """What is on the shelf at the second point and not at the first, and the reverse; last left first."""

    added: tuple[ArchiveRow, ...]
    removed: tuple[ArchiveRow, ...]
    changed: tuple[tuple[ArchiveRow, ArchiveRow], ...]
    kept: int


class Messages(msgspec.Struct, frozen=True):
    """Two lists of messages in a provider's shape: the same at the beginning and at the end, ``left`` and ``added`` between."""

    shape: str
    prefix: int
    suffix: int
    left: tuple[Any, ...]
    added: tuple[Any, ...]

    @property
    def is_same(self) -> bool:
        return not self.left and not self.added


class Events(msgspec.Struct, frozen=True):
    """How many entries of each kind each side has after what is ``shared``."""

    shared: int
    before: dict[str, int]
    after: dict[str, int]


async def compare(before: Moment, after: Moment, *, count: Counter = estimate) -> Comparison:
    """Of any two moments, in any order, of one chat or of two."""
    one, other = await before.now(), await after.now()
    last = await last_shared(one, other)
    messages = await one.messages(), await other.messages()
    sides = key_messages(messages[0], last), key_messages(messages[1], last)
    left = tuple(item_of(message, count) for key, message in sides[0].items() if key not in sides[1])
    added = tuple(item_of(message, count) for key, message in sides[1].items() if key not in sides[0])
    both = {key: (sides[0][key], message) for key, message in sides[1].items() if key in sides[0]}
    differ = {
        key for key, (old, new) in both.items() if key.said is None and comparable(old) != comparable(new)
    }
    changed = tuple(
        Change(item_of(both[key][0], count), item_of(both[key][1], count)) for key in both if key in differ
    )
    kept = {key: item_of(new, count) for key, (_, new) in both.items() if key not in differ}
    places = {key: place for place, key in enumerate(sides[0])}
    moved = out_of_order([places[key] for key in kept])
    difference = first_difference(list(map(comparable, messages[0])), list(map(comparable, messages[1])))
    prefix = len(messages[0]) if difference is None else difference
    groups = {"left": left, "kept": tuple(kept.values()), "added": added}
    return Comparison(
        await _side(one, messages[0], count),
        await _side(other, messages[1], count),
        last,
        **groups,
        changed=changed,
        moved=tuple(item for key, item in kept.items() if places[key] in moved),
        tokens={
            **{name: sum(item.tokens for item in items) for name, items in groups.items()},
            "changed": sum(change.after.tokens - change.before.tokens for change in changed),
        },
        steps=await _steps(other, last),
        undone=await _steps(one, last),
        archive=await compare_archives(one, other),
        prefix=prefix,
        prefix_tokens=sum(item.tokens for item in items_of(messages[0][:prefix], count)),
        cache=_cache(messages[0], prefix),
    )


async def compare_messages(
    before: Moment, after: Moment, shape: SentShape = "neutral", *, model: str = ""
) -> Messages:
    """What a model would be sent at the two moments, in one of the shapes of ``Moment.messages``."""
    one = _list_messages(await before.messages(shape, model=model))
    other = _list_messages(await after.messages(shape, model=model))
    difference = first_difference(one, other)
    prefix = len(one) if difference is None else difference
    rest = min(len(one), len(other)) - prefix
    suffix = 0
    while suffix < rest and one[-1 - suffix] == other[-1 - suffix]:
        suffix += 1
    left, added = one[prefix : len(one) - suffix], other[prefix : len(other) - suffix]
    return Messages(shape, prefix, suffix, tuple(left), tuple(added))


def _list_messages(request: Any) -> list[Any]:
    """The messages of a request; a system prompt that stands apart comes first, as one of them."""
    if not isinstance(request, dict):
        return list(request)
    return [*([{"system": request["system"]}] if "system" in request else []), *request["messages"]]


async def compare_archives(before: Moment, after: Moment) -> Archives:
    one = {row.context_id: row for row in await before.contexts(None)}
    other = {row.context_id: row for row in await after.contexts(None)}
    both = [(one[name], row) for name, row in other.items() if name in one]
    return Archives(
        tuple(row for name, row in other.items() if name not in one),
        tuple(row for name, row in one.items() if name not in other),
        tuple((old, new) for old, new in both if old != new),
        sum(old == new for old, new in both),
    )


async def compare_events(before: Moment, after: Moment) -> Events:
    """Reads the entries that are not shared."""
    one, other = await before.now(), await after.now()
    last = await last_shared(one, other)
    return Events(last, await _count_kinds(one, last), await _count_kinds(other, last))


async def _count_kinds(moment: Moment, after: int) -> dict[str, int]:
    counts: Counts[str] = Counts()
    async for entry in moment.entries(after + 1):
        counts[kind_name(entry.event)] += 1
    return dict(counts.most_common())


async def _side(moment: Moment, messages: Sequence[Message], count: Counter) -> Side:
    state = moment[contexts]
    tokens = Tokens(sum(item.tokens for item in items_of(messages, count)), count is estimate)
    turn, active = (await moment.history()).turn_at(moment.seq), state.active
    return Side(moment.key, moment.seq, turn, active.id, active.title, len(messages), tokens)


def _cache(messages: Sequence[Message], prefix: int) -> Cache:
    system = sum(1 for _ in takewhile(lambda message: message.is_system, messages))
    return "whole" if prefix == len(messages) else "part" if prefix > system else "lost"


async def _steps(moment: Moment, after: int) -> tuple[Step, ...]:
    """The context events of a moment after that seq."""
    known = await moment.history()
    found = [one for seq, one in number_controls(known).items() if seq > after and one[0].kind != "started"]
    wanted = tuple((control.seq, control.seq) for control, _ in found if control.kind not in SWITCHES)
    entries = {entry.seq: entry for entry in await moment.read(wanted)}
    return tuple(
        replace(
            Step(control.seq, control.ts, control.kind, number, known.turn_at(control.seq)),
            context=control.id,
            title=control.title,
            first=control.first,
            last=control.last,
            **{"reason": control.reason, **_details(entries.get(control.seq))},
        )
        for control, number in found
    )


def _details(entry: Entry | None) -> dict[str, Any]:
    """What the event says about itself that ``contexts`` does not keep."""
    match entry.event if entry is not None else None:
        case Compacted(trigger=trigger, policy=policy, tokens=tokens, summary=summary):
            return {"trigger": trigger, "policy": policy, "tokens": tokens, "summary": summary}
        case Rewound(reason=reason) | CompactionReverted(reason=reason):
            return {"reason": reason}
    return {}
