"""contexts: which part of the log the model is at, and which parts are on the shelf.

A context is a line of thought inside a chat. It is kept as spans of the log, never as copied messages, so that opening,
leaving, taking up again, compacting and going back each append one small event. The rules:

- A chat begins in the context ``MAIN``. What is appended belongs to the active context.
- ``context_opened`` shelves the active context and begins an empty one; with an id that exists already it is a switch.
  ``context_cleared`` is the same with an id of our own: what was cleared can be taken up again.
- ``context_switched`` shelves the active context and takes up another; an unknown id, or the active one, changes nothing.
- ``carry`` names entries that move along, such as the question being asked: out of the context left, into the new one,
  where they are seen even if an earlier compaction there covers their range.
- ``compacted`` hides a range of the active context behind a summary. It swallows earlier summaries whose ranges lie
  within its own; one that would hide nothing is ignored. ``compaction_reverted`` takes exactly that one back.
- ``rewound`` makes all of this again what it was after entry ``to``, also if that entry had been rewound away itself.
- A fork inherits everything, since it has all the entries.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextSwitched,
    Entry,
    Noted,
    Rewound,
)
from chatfold.projections.context import Compaction, Context, compact, revert
from chatfold.projections.fold import projection
from chatfold.projections.sorted_map import SortedMap
from chatfold.projections.spans import Spans, add, extend, has, minus, remove, spans
from chatfold.projections.text import clip

MAIN = "main"
_NOWHERE = (1 << 62, 1 << 62)  # after all entries
_TITLE = 200


class Control(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A context event, as much of it as is needed to go back to any earlier state."""

    seq: int
    ts: int
    kind: str
    id: str = ""
    title: str = ""
    reason: str = ""
    carry: tuple[int, ...] = ()
    first: int = 0
    last: int = 0


class Shelf(msgspec.Struct, frozen=True, gc=False):
    """The archived contexts by id, last left last."""

    by_id: SortedMap[str, Context] = SortedMap()
    order: SortedMap[int, str] = SortedMap()  # the seq that left it -> its id

    def __getitem__(self, id: str) -> Context:
        return self.by_id[id]

    def __contains__(self, id: object) -> bool:
        return id in self.by_id

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self.order.items())

    def __reversed__(self) -> Iterator[str]:
        return (self.order[left] for left in reversed(self.order))

    def __len__(self) -> int:
        return len(self.order)

    def keys(self) -> Iterable[str]:
        return list(self)

    def values(self) -> list[Context]:
        return [self.by_id[name] for name in self]

    def items(self) -> list[tuple[str, Context]]:
        return [(name, self.by_id[name]) for name in self]

    def put(self, context: Context) -> "Shelf":
        """With this context, in the place where it was left."""
        return Shelf(self.by_id.set(context.id, context), self.order.set(context.left, context.id))

    def without(self, context: Context) -> "Shelf":
        return Shelf(self.by_id.without(context.id), self.order.without(context.left))


class Contexts(msgspec.Struct, frozen=True, gc=False):
    began: int = 0  # when the first entry was written
    active: Context = Context(MAIN)
    since: int = 1  # the active context has all entries from here on
    shelf: Shelf = Shelf()
    changed: int = 0  # the seq of the last event that was about contexts, whatever came of it

    def spans(self, id: str, head: int) -> Spans:
        """The entries of a context, of which the log's ``head`` may be the last; nothing if there is no such context."""
        if id == self.active.id:
            return extend(self.active.spans, self.since, head)
        return self.shelf[id].spans if id in self.shelf else ()

    def context_of(self, compaction: int) -> Context | None:
        """The one in which the compaction of that seq is in force."""
        if self.active.has_compaction(compaction):
            return self.active
        return next((one for one in self.shelf.values() if one.has_compaction(compaction)), None)


class Window(msgspec.Struct, frozen=True):
    """What the model sees of a context: entries as they are, and summaries in the place of what they hide."""

    spans: Spans
    summaries: tuple[Compaction, ...]  # in the order of what they hide

    @property
    def entries(self) -> Spans:
        """Everything that must be read to show it."""
        return spans((*self.spans, *((s.seq, s.seq) for s in self.summaries)))


def window(state: Contexts, head: int, id: str | None = None) -> Window:
    """Of the active context, or of any other; nothing if there is no such context."""
    if id is not None and id != state.active.id and id not in state.shelf:
        return Window((), ())
    context = state.active if id is None or id == state.active.id else state.shelf[id]
    return Window(minus(state.spans(context.id, head), context.hidden), context.tops)


def in_place(window: Window, entries: Iterable[Entry]) -> Iterator[Entry]:
    """The visible entries in the order of the log, each summary before what follows the range it stands for."""
    visible: list[Entry] = []
    summaries: dict[int, Entry] = {}
    wanted = {top.seq for top in window.summaries}
    spans = iter(window.spans)
    first, last = next(spans, _NOWHERE)
    for entry in entries:  # in order, as the spans are: one walk along both
        seq = entry.seq
        while seq > last:
            first, last = next(spans, _NOWHERE)
        if seq in wanted:
            summaries[seq] = entry
        elif seq >= first and type(entry.event) is not Compacted:
            visible.append(entry)
    tops = deque(top for top in window.summaries if top.seq in summaries)
    for entry in visible:
        while tops and tops[0].first < entry.seq:
            yield summaries[tops.popleft().seq]
        yield entry
    for top in tops:
        yield summaries[top.seq]


MOVES = frozenset((ContextOpened, ContextSwitched, ContextCleared, Compacted, CompactionReverted, Rewound))
"""The events that change what a model sees of the entries before them."""
_CONTROLS = MOVES | {ChatStarted, Noted}
TITLED = "context_title"
"""The note that gives a context another title: ``{"context": id, "title": title}``."""


# --- the fold --------------------------------------------------------------------------------------------


def _since_the_beginning(then: Contexts, now: Contexts) -> Contexts:
    """When the log began, and what it said last, does not change by going back."""
    active = then.active
    if not active.opened:  # before the first entry nobody knew when it would be written
        active = msgspec.structs.replace(active, created=now.began)
    return msgspec.structs.replace(then, began=now.began, active=active, changed=now.changed)


@projection(Contexts, version=8, rewinds=_since_the_beginning)
def contexts(state: Contexts, entry: Entry) -> Contexts:
    if entry.seq == 1:
        active = msgspec.structs.replace(state.active, created=entry.time)
        state = msgspec.structs.replace(state, began=entry.time, active=active)
    control = control_of(entry)
    if control is None:
        return state
    return msgspec.structs.replace(apply(state, control), changed=entry.seq)


def control_of(entry: Entry) -> Control | None:
    """What the entry asks for, if it can be meant: seqs that do not lie before it are nobody's.

    Of a ``rewound`` the fold has already made what it goes back to."""
    if type(entry.event) not in _CONTROLS:
        return None
    seq, ts = entry.seq, entry.time
    match entry.event:
        case ChatStarted(title=title):
            return Control(seq, ts, "started", title=clip(title, _TITLE))
        case ContextOpened(id=id, title=title, reason=reason, carry=carry):
            title, reason = clip(title, _TITLE), clip(reason, _TITLE)
            return Control(seq, ts, "opened", id, title, reason, _before(seq, carry))
        case ContextSwitched(to=id, reason=reason, carry=carry):
            return Control(seq, ts, "switched", id, "", clip(reason, _TITLE), _before(seq, carry))
        case ContextCleared(reason=reason, carry=carry):
            return Control(seq, ts, "cleared", "", "", clip(reason, _TITLE), _before(seq, carry))
        case Compacted(first=first, last=last) if last >= 1 and first < seq and first <= last:
            return Control(seq, ts, "compacted", first=max(1, first), last=min(last, seq - 1))
        case CompactionReverted(seq=first) if 0 < first < seq:
            return Control(seq, ts, "reverted", first=first)
        case Rewound(to=last) if 0 <= last < seq:
            return Control(seq, ts, "rewound", last=last)
        case Noted(name=name, data={"context": str(id), "title": str(title)}) if name == TITLED:
            return Control(seq, ts, "titled", id, clip(title, _TITLE))
    return None


def _before(seq: int, carry: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted({one for one in carry if 0 < one < seq}))


def choose_id(state: Contexts, control: Control) -> Control:
    """One that clears begins a context with an id that no other has."""
    if control.kind != "cleared":
        return control
    name = f"{MAIN}-{control.seq}"
    while name in state.shelf or name == state.active.id:
        name += "-"
    return msgspec.structs.replace(control, id=name)


def apply(state: Contexts, control: Control) -> Contexts:
    control = choose_id(state, control)
    match control.kind:
        case "started":
            return _set_title(state, control)
        case "opened" | "cleared" if control.id not in state.shelf and control.id != state.active.id:
            context = Context(control.id, control.seq, control.ts, control.title)
            return _move(state, context, control)
        case "opened" | "switched" if control.id in state.shelf:
            return _move(state, state.shelf[control.id], control)
        case "compacted":
            new = Compaction(control.seq, control.first, control.last)
            active = compact(state.active, state.since, new)
            return state if active is state.active else msgspec.structs.replace(state, active=active)
        case "reverted":
            return _revert(state, control.first)
        case "rewound":
            return _resume(state, control.last, control.seq)
        case "titled" if control.id == state.active.id:
            return msgspec.structs.replace(state, active=_with_title(state.active, control))
        case "titled" if control.id in state.shelf:
            return msgspec.structs.replace(
                state, shelf=state.shelf.put(_with_title(state.shelf[control.id], control))
            )
    return state


def _with_title(context: Context, control: Control) -> Context:
    return msgspec.structs.replace(context, title=control.title)


def _set_title(state: Contexts, control: Control) -> Contexts:
    """Gives the first context its title, once."""
    if state.active.id != MAIN or state.active.title:
        return state
    active = msgspec.structs.replace(state.active, title=control.title)
    return msgspec.structs.replace(state, active=active)


def _move(state: Contexts, to: Context, control: Control) -> Contexts:
    """Shelves the active context and makes ``to`` the active one."""
    seq, left = control.seq, state.active
    held, carried_in = add(left.held, state.since, seq - 1), left.carried_in
    there, shown = to.held, to.carried_in
    for one in control.carry:
        held, carried_in = remove(held, one, one), remove(carried_in, one, one)
        there = add(there, one, one)
        shown = add(shown, one, one) if has(to.covered, one) else shown
    shelved = msgspec.structs.replace(
        left, archived=control.ts, reason=control.reason, left=seq, held=held, carried_in=carried_in
    )
    shelf = (state.shelf.without(to) if to.left else state.shelf).put(shelved)
    active = msgspec.structs.replace(to, archived=0, reason="", left=0, held=there, carried_in=shown)
    return msgspec.structs.replace(state, active=active, since=seq, shelf=shelf)


# --- compaction ------------------------------------------------------------------------------------------


def _revert(state: Contexts, seq: int) -> Contexts:
    context = state.context_of(seq)
    if context is None:
        return state
    without = revert(context, seq)
    if context is state.active:
        return msgspec.structs.replace(state, active=without)
    return msgspec.structs.replace(state, shelf=state.shelf.put(without))


# --- going back ------------------------------------------------------------------------------------------


def _resume(state: Contexts, to: int, seq: int) -> Contexts:
    """As after entry ``to``, going on with entry ``seq``."""
    active = msgspec.structs.replace(state.active, held=add(state.active.held, state.since, to))
    return msgspec.structs.replace(state, active=active, since=seq)
