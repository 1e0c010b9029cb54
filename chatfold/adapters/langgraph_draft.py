"""What one call of a saver appends: messages as events, then the note. Nothing is written here.

The messages of the root's list are what the chat shows. New ones are recorded when they are first seen: as the input, as what a task
wrote, or in the list. What the list lost is taken out of the chat's context, so that the two stay the same.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple, Protocol

from chatfold.adapters.langgraph_thread import Item, Items, Key, Thread, places_of
from chatfold.adapters.langgraph_values import (
    OWN,
    Said,
    Value,
    body_of,
    cell_of,
    events_of,
    id_of,
    is_message,
    items_of,
    with_id,
)
from chatfold.eventlog import ChatStarted, ContextCleared, Event, Json, Noted, Rewound

_DEEP = 32  # notes that a list may be spread over, however short it is
_SPREAD = 8  # items a note, of a longer one: so what says where they are grows with what is said
_LARGE = 64  # bytes: items of at least this size on the average are kept one by one
_INPUT = "__start__"


class Kept(Protocol):
    """What is in the log already."""

    async def put_note(self, seq: int) -> dict[str, Any] | None: ...
    async def items(self, seq: int, channel: str) -> Items: ...


class _Plan(NamedTuple):
    """A list: the first ``kept`` items of the one at ``place``, then these, of which bytes are new."""

    place: int
    base: Items
    kept: int
    tail: list[Item | bytes]
    ends: tuple[int, ...]
    body: bytes

    @property
    def known(self) -> Iterable[Item]:
        yield from self.base.items[: self.kept]
        for item in self.tail:
            if not isinstance(item, bytes):
                yield item


class Draft:
    """``channel``: of the root's messages."""

    def __init__(self, kept: Kept, thread: Thread, key: str, channel: str) -> None:
        self._kept, self._thread, self._channel = kept, thread, channel
        self.events: list[Event] = [] if thread.head.seq else [ChatStarted(key, "", {"adapter": OWN})]
        self.lists: dict[str, Items] = {}

    @property
    def _seq(self) -> int:
        """Of the next event."""
        return self._thread.head.seq + len(self.events) + 1

    async def put(
        self,
        note: dict[str, Any],
        values: Mapping[str, Value],
        places: Mapping[str, int],
        at: Mapping[str, int],
    ) -> None:
        """Adds to the note what is new. ``places``: where the values of the parent are; ``at``: of those that stay."""
        key = note["ns"], note["id"]
        is_root = not key[0]
        plans = {
            channel: plan
            for channel, value in values.items()
            if (plan := await self._plan(channel, value, places.get(channel, 0), is_root=is_root)) is not None
        }
        if is_root:
            await self._move(plans.get(self._channel), at.get(self._channel, 0))
        note["values"] = cells = {
            channel: self._list(plans[channel], is_root=is_root and channel == self._channel)
            if channel in plans
            else self._cell(value, may_say=is_root and channel == _INPUT)
            for channel, value in values.items()
        }
        if at:
            note["at"] = dict(at)
        if early := sorted({write.seq for write in self._thread.pending_writes(key)}):
            note["writes"] = early
        newest = self._thread.newest("")
        if is_root and newest is not None and newest.id > key[1]:
            note["top"] = newest.seq
        self.lists = {channel: self._keep_list(plan, cells[channel]) for channel, plan in plans.items()}
        self.events.append(Noted(OWN, {"put": note}))

    def writes(self, key: Key, task: str, path: str, writes: Sequence[tuple[int, str, Value]]) -> None:
        cells = [
            [index, channel, self._cell(value, may_say=not key[0] and channel == self._channel)]
            for index, channel, value in writes
        ]
        note = {"ns": key[0], "id": key[1], "task": task, "path": path, "writes": cells}
        self.events.append(Noted(OWN, {"writes": note}))

    # --- messages ------------------------------------------------------------------------------------------

    def _recorded(self, message: bytes, taken: Collection[int] = ()) -> Said | None:
        """Where the message was recorded before any list had it, perhaps without the id it has now."""
        if not self._thread.pending or not is_message(message):
            return None
        nameless, name = with_id(message, None), id_of(message)
        for first, one in self._thread.pending.items():
            if first not in taken and one.id in (None, name) and one.nameless == nameless:
                return Said(first, one.last, None if one.id == name else name)
        return None

    def _say(self, message: bytes) -> Said | None:
        if (said := self._recorded(message)) is not None:
            return said
        return self._say_anew(message)

    def _say_anew(self, message: bytes) -> Said | None:
        events = events_of(message)
        if events is None:
            return None
        first = self._seq
        self.events.extend(events)
        return Said(first, self._seq - 1)

    def _cell(self, value: Value, *, may_say: bool) -> Json:
        before = len(self.events)
        cell = cell_of(value, self._say if may_say else None)
        if "is" not in cell:
            del self.events[before:]
        return cell

    async def _move(self, plan: _Plan | None, place: int) -> None:
        """Makes the chat show what the new list has of the messages that are there already."""
        thread = self._thread
        last = await self._kept.put_note(thread.last_root) if thread.last_root else None
        shown_at = places_of(thread.last_root, last).get(self._channel, 0) if last else 0
        if plan is None and place == shown_at:
            return
        shown = await self._messages_at(shown_at)
        wanted = _messages(plan.known) if plan else await self._messages_at(place)
        dropped = shown.keys() - wanted.keys()
        missing = wanted.keys() - shown.keys() - thread.pending.keys()
        if not dropped and not missing:
            return
        back = plan.place if plan else place  # then the chat showed the list that this one goes on from
        if dropped and not missing and max(wanted, default=0) <= back < min(dropped):
            self.events.append(Rewound(back, "an earlier checkpoint"))
            return
        pending = {first: Said(first, one.last) for first, one in thread.pending.items()}
        carry = {seq for said in (wanted | pending).values() for seq in range(said.first, said.last + 1)}
        self.events.append(ContextCleared("the graph's messages changed", tuple(sorted(carry))))

    async def _messages_at(self, place: int) -> dict[int, Said]:
        note = await self._kept.put_note(place) if place else None
        if note is None or "list" not in note["values"].get(self._channel, ()):
            return {}
        return _messages((await self._kept.items(place, self._channel)).items)

    # --- lists ---------------------------------------------------------------------------------------------

    async def _plan(self, channel: str, value: Value, place: int, *, is_root: bool) -> _Plan | None:
        """None for what is no list, or one of small items."""
        found = body_of(value)
        are_messages = is_root and channel == self._channel
        if found is None or not (are_messages or len(found[1]) > _LARGE * found[0]):
            return None
        count, body = found
        base = Items((), b"", (), 0)
        note = await self._kept.put_note(place) if place else None
        if note is not None and "list" in note["values"][channel]:
            base = await self._kept.items(place, channel)
        kept = base.kept_by(body)
        tail = items_of(count - kept, body[base.ends[kept - 1] if kept else 0 :])
        if tail is None:
            return None
        ends = accumulate(map(len, tail), initial=base.ends[kept - 1] if kept else 0)
        known = base.after(kept)
        items = [known.pop(one, one) for one in tail]
        return _Plan(
            place,
            base,
            kept,
            self._seen(items) if are_messages else items,
            (*base.ends[:kept], *islice(ends, 1, None)),
            body,
        )

    def _seen(self, items: list[Item | bytes]) -> list[Item | bytes]:
        """The same, with those that were recorded before any list had them, each once."""
        taken = set[int]()
        found: list[Item | bytes] = []
        for item in items:
            said = self._recorded(item, taken) if isinstance(item, bytes) else None
            taken |= {said.first} if said else set()
            found.append(said or item)
        return found

    def _list(self, plan: _Plan, *, is_root: bool) -> Json:
        """The cell of a list: what is new of it, or all of it where it would be spread too far."""
        is_fresh = not plan.kept or (
            plan.base.depth >= _DEEP and _SPREAD * plan.base.depth > len(plan.base.items)
        )
        items = [*plan.base.items[: plan.kept], *plan.tail] if is_fresh else plan.tail
        cell: dict[str, Json] = {"list": [self._item(item, may_say=is_root) for item in items]}
        return cell if is_fresh else cell | {"from": [plan.place, plan.kept]}

    def _item(self, item: Item | bytes, *, may_say: bool) -> Json:
        if isinstance(item, bytes):
            said = self._say_anew(item) if may_say and is_message(item) else None
            return cell_of(("msgpack", item)) if said is None else _without_id(said)
        return _without_id(item) if isinstance(item, Said) else {"in": list(item)}

    def _keep_list(self, plan: _Plan, cell: Mapping[str, Any]) -> Items:
        """The list as it will be read from this note, which is the next event."""
        new = [item_of(item, self._seq, index) for index, item in enumerate(cell["list"])]
        is_spread = "from" in cell
        kept = plan.base.items[: plan.kept] if is_spread else ()
        return Items((*kept, *new), plan.body, plan.ends, plan.base.depth + 1 if is_spread else 1)


def item_of(item: Json, seq: int, index: int) -> Item:
    """An item of the list in the note of this seq."""
    if type(item) is list:
        return Said(*item)
    return (item["in"][0], item["in"][1]) if "in" in item else (seq, index)


def _without_id(said: Said) -> list[Json]:
    return [*said] if said.id is not None else [said.first, said.last]


def _messages(items: Iterable[Item]) -> dict[int, Said]:
    return {item.first: item for item in items if isinstance(item, Said)}
