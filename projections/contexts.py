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

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter

import msgspec

from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextSwitched,
    Entry,
    MessageAdded,
    Rewound,
)
from chatfold.projections.columns import Rows, Seqs
from chatfold.projections.context import Compaction, Context, compact, revert
from chatfold.projections.fold import projection
from chatfold.projections.packing import Unpack, pack
from chatfold.projections.sorted_map import SortedMap
from chatfold.projections.spans import Spans, add, extended, has, minus, remove, spans
from chatfold.projections.text import clipped

MAIN = "main"
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


_control_of = Unpack(Control)


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
    packed: Rows = Rows()  # the controls
    said: Seqs = Seqs()  # the messages of users and assistants that a model may see
    answers: Seqs = Seqs()  # those of assistants
    internal: Seqs = Seqs()  # those in the user's role that no user has said

    @property
    def controls(self) -> Iterator[Control]:
        """All context events of the log, in order."""
        return map(_control_of, self.packed)

    @property
    def changed(self) -> int:
        """The seq of the last of them; 0 if there was none."""
        return _control_of(self.packed.last).seq if self.packed else 0

    def spans(self, id: str, head: int) -> Spans:
        """The entries of a context, of which the log's ``head`` may be the last; nothing if there is no such context."""
        if id == self.active.id:
            return extended(self.active.spans, self.since, head)
        return self.shelf[id].spans if id in self.shelf else ()

    def context_of(self, compaction: int) -> Context | None:
        """The one in which the compaction of that seq is in force."""
        if compaction in self.active.in_force:
            return self.active
        return next((one for one in self.shelf.values() if compaction in one.in_force), None)

    def messages(self, some: Spans) -> int:
        """How many messages these spans hold."""
        return sum(self.said.within(first, last) for first, last in some)

    def turn_at(self, seq: int) -> int:
        """Which turn entry ``seq`` is in: how many questions of the user there are up to it, those that were rewound included."""
        return self.said.upto(seq) - self.answers.upto(seq) - self.internal.upto(seq)

    def asked_at(self, turn: int) -> int:
        """The seq of the question that turn ``turn`` begins with; 0 if there is no such turn."""
        index = bisect_left(range(len(self.said)), turn, key=lambda index: self.turn_at(self.said[index]))
        return self.said[index] if turn > 0 and index < len(self.said) else 0

    def checkpoint(self, some: Spans) -> int:
        """The seq of the last assistant message in these spans; 0 if there is none."""
        for first, last in reversed(some):
            count = self.answers.upto(last)
            if count and self.answers[count - 1] >= first:
                return self.answers[count - 1]
        return 0


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


MOVES = frozenset((ContextOpened, ContextSwitched, ContextCleared, Compacted, CompactionReverted, Rewound))
"""The events that change what a model sees of the entries before them."""
_CONTROLS = MOVES | {ChatStarted}


# --- the fold --------------------------------------------------------------------------------------------


def _of_the_whole_log(then: Contexts, now: Contexts) -> Contexts:
    """What is counted over the whole log goes on, whatever the chat goes back to."""
    active = then.active
    if not active.opened:  # before the first entry nobody knew when it would be written
        active = msgspec.structs.replace(active, created=now.began)
    return msgspec.structs.replace(now, active=active, since=then.since, shelf=then.shelf)


@projection(Contexts, version=6, rewinds=_of_the_whole_log)
def contexts(state: Contexts, entry: Entry) -> Contexts:
    if entry.seq == 1:
        active = msgspec.structs.replace(state.active, created=entry.time)
        state = msgspec.structs.replace(state, began=entry.time, active=active)
    event = entry.event
    if type(event) is MessageAdded:
        if event.origin == "audit" or event.role not in ("user", "assistant"):
            return state
        said = state.said.append(entry.seq)
        answers, internal = state.answers, state.internal
        if event.role == "assistant":
            answers = answers.append(entry.seq)
        elif event.origin == "internal":
            internal = internal.append(entry.seq)
        return Contexts(
            state.began, state.active, state.since, state.shelf, state.packed, said, answers, internal
        )
    control = _control(state, entry) if type(event) in _CONTROLS else None
    if control is None:
        return state
    state = msgspec.structs.replace(state, packed=state.packed.append(pack(control)))
    return _apply(state, control)


def _control(state: Contexts, entry: Entry) -> Control | None:
    """What the entry asks for, if it can be meant: seqs that do not lie before it are nobody's.

    Of a ``rewound`` the fold has already made what it goes back to."""
    seq, ts = entry.seq, entry.time
    match entry.event:
        case ChatStarted(title=title):
            return Control(seq, ts, "started", title=clipped(title, _TITLE))
        case ContextOpened(id=id, title=title, reason=reason, carry=carry):
            title, reason = clipped(title, _TITLE), clipped(reason, _TITLE)
            return Control(seq, ts, "opened", id, title, reason, _before(seq, carry))
        case ContextSwitched(to=id, reason=reason, carry=carry):
            return Control(seq, ts, "switched", id, "", clipped(reason, _TITLE), _before(seq, carry))
        case ContextCleared(reason=reason, carry=carry):
            reason = clipped(reason, _TITLE)
            return Control(seq, ts, "cleared", _fresh(state, seq), "", reason, _before(seq, carry))
        case Compacted(first=first, last=last) if last >= 1 and first < seq and first <= last:
            return Control(seq, ts, "compacted", first=max(1, first), last=min(last, seq - 1))
        case CompactionReverted(seq=first) if 0 < first < seq:
            return Control(seq, ts, "reverted", first=first)
        case Rewound(to=last) if 0 <= last < seq:
            return Control(seq, ts, "rewound", last=last)
    return None


def _before(seq: int, carry: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted({one for one in carry if 0 < one < seq}))


def _fresh(state: Contexts, seq: int) -> str:
    """An id that no context has."""
    name = f"{MAIN}-{seq}"
    while name in state.shelf or name == state.active.id:
        name += "-"
    return name


def _apply(state: Contexts, control: Control) -> Contexts:
    match control.kind:
        case "started":
            return _started(state, control)
        case "opened" | "cleared" if control.id not in state.shelf and control.id != state.active.id:
            context = Context(control.id, control.seq, control.ts, control.title)
            return _moved(state, context, control)
        case "opened" | "switched" if control.id in state.shelf:
            return _moved(state, state.shelf[control.id], control)
        case "compacted":
            new = Compaction(control.seq, control.first, control.last)
            active = compact(state.active, state.since, new)
            return state if active is state.active else msgspec.structs.replace(state, active=active)
        case "reverted":
            return _reverted(state, control.first)
        case "rewound":
            return _resumed(state, control.last, control.seq)
    return state


def _started(state: Contexts, control: Control) -> Contexts:
    """Gives the first context its title, once."""
    if state.active.id != MAIN or state.active.title:
        return state
    active = msgspec.structs.replace(state.active, title=control.title)
    return msgspec.structs.replace(state, active=active)


def _moved(state: Contexts, to: Context, control: Control) -> Contexts:
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


def _reverted(state: Contexts, seq: int) -> Contexts:
    context = state.context_of(seq)
    if context is None:
        return state
    without = revert(context, seq)
    if context is state.active:
        return msgspec.structs.replace(state, active=without)
    return msgspec.structs.replace(state, shelf=state.shelf.put(without))


# --- going back ------------------------------------------------------------------------------------------


def changes(state: Contexts) -> Iterator[tuple[Control, Contexts, Contexts]]:
    """Every context event of the log with the state before and after it, in order."""
    now = Contexts(active=Context(MAIN, created=state.began))
    versions = [(0, now)]
    for control in state.controls:
        before = now
        if control.kind == "rewound":
            now = versions[bisect_right(versions, control.last, key=itemgetter(0)) - 1][1]
        now = _apply(now, control)
        versions.append((control.seq, now))
        yield control, before, now


def _resumed(state: Contexts, to: int, seq: int) -> Contexts:
    """As after entry ``to``, going on with entry ``seq``."""
    active = msgspec.structs.replace(state.active, held=add(state.active.held, state.since, to))
    return msgspec.structs.replace(state, active=active, since=seq)
