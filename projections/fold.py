"""A projection is a pure function; a view is what the projections add up to after one entry.

Live, opening, time travel, tailing and replay all fold entries into a ``View``, one after the other, and there is no
other way in which state changes. So the same entries always give equal views, however they were reached.

Going back is done here, once for all projections that ask for it. A view remembers its last states, and ``Rewound(to)``
takes the ones after entry ``to``. A view that does not remember them raises ``NeedsEarlier``: the caller, who has the log,
gives it the view at that entry.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any, Generic, TypeAlias, TypeVar

from xxhash import xxh3_128_hexdigest

from chatfold.eventlog import Entry, Head, Rewound
from chatfold.projections.packing import Unpack, pack

S = TypeVar("S")
Resume: TypeAlias = Callable[[S, S], S]
Version: TypeAlias = tuple[int, tuple[Any, ...]]
"""A seq, and the states after that entry of the projections that rewind."""

MEMORY = 256
"""How many versions a view remembers: one for each entry that changed a projection that rewinds."""
_ORIGIN = Head()
_POINTS = 8  # earlier ones that it was given, and may need again


class Projection(Generic[S]):
    """Made by ``@projection``: the function, where its state begins, and how that goes into a snapshot."""

    def __init__(
        self,
        step: Callable[[S, Entry], S],
        state: type[S],
        version: int,
        on: Iterable[type] = (),
        rewinds: bool | Resume[S] = False,
    ) -> None:
        self.step = step
        self.start = state
        self.on = frozenset(on)
        self.rewinds = bool(rewinds)
        self.resume: Resume[S] = rewinds if callable(rewinds) else _all_of_then
        self.name = f"{step.__module__}.{step.__qualname__}"
        self.version = version
        self.__doc__ = step.__doc__
        self._unpack = Unpack(state)

    def __call__(self, state: S, entry: Entry) -> S:
        return self.step(state, entry)

    def __repr__(self) -> str:
        return f"<projection {self.name} version {self.version}>"

    def dump(self, state: S) -> bytes:
        return pack(state)

    def load(self, data: bytes | memoryview) -> S:
        """Raises ValueError if this is not a state of this projection."""
        return self._unpack(data)


def _all_of_then(then: S, _now: S) -> S:
    return then


def projection(
    state: type[S], *, version: int = 1, on: Iterable[type] = (), rewinds: bool | Resume[S] = False
) -> Callable[[Callable[[S, Entry], S]], Projection[S]]:
    """``@projection(State, version=1) def name(state, entry) -> State``

    ``State()`` is where it begins: a frozen msgspec Struct with defaults, or anything msgspec encodes and decodes
    exactly; keys of dicts are strings or integers. The function returns the state it was given or a new one, and looks at nothing but its arguments.
    Raise ``version`` whenever it computes something else than before: older snapshots are then not used. ``on``: the
    types of events it looks at, if it does not care for the others; they then cost it nothing.

    ``rewinds``: after ``Rewound(to)`` the state is again the one after entry ``to``. A function says what of the present
    stays: it is given the state of then and the one of now. The step sees the ``Rewound``, too, with the state of then.
    """

    def make(step: Callable[[S, Entry], S]) -> Projection[S]:
        return Projection(step, state, version, on, rewinds)

    return make


@dataclass(frozen=True)
class View:
    """The states of some projections after entry ``seq``; ``start((usage, files))`` is where a chat begins.

    What it remembers is no part of its value: it is in no snapshot, and equal views may remember more or less.
    """

    projections: tuple[Projection[Any], ...]
    states: tuple[Any, ...] = ()
    head: Head = _ORIGIN
    entry: Entry | None = None
    memory: int = field(default=MEMORY, compare=False, repr=False)
    past: tuple[Version, ...] = field(default=(), compare=False, repr=False)  # all since the first of them
    points: tuple[Version, ...] = field(default=(), compare=False, repr=False)  # some before that

    def __post_init__(self) -> None:
        if len(self.states) != len(self.projections):
            raise ValueError("a view has one state for each projection; see ``start``")

    @property
    def seq(self) -> int:
        return self.head.seq

    def __getitem__(self, projection: Projection[S]) -> S:
        try:
            state: S = self.states[self.projections.index(projection)]
        except ValueError:
            raise KeyError(f"{projection!r} is not folded here: open the chat with it") from None
        return state

    def then(self, entry: Entry) -> "View":
        """The view after the next entry."""
        return fold(self, (entry,))

    def remembering(self, earlier: "View") -> "View":
        """The same view, which can go back to where ``earlier`` is."""
        states = tuple(earlier[self.projections[index]] for index in _plan(self.projections).rewinding)
        return replace(self, points=(*self.points, (earlier.seq, states)))

    def forgetting(self, memory: int = MEMORY) -> "View":
        """The same view, which remembers as many versions as this."""
        return replace(self, memory=memory, past=self.past[-memory:])

    @property
    def fingerprint(self) -> str:
        """Equal histories have equal fingerprints, wherever they are stored and however they were folded."""
        states = zip(self.projections, self.states, strict=True)
        parts = sorted((p.name, p.version, pack(state, "deterministic")) for p, state in states)
        return xxh3_128_hexdigest(pack((self.seq, parts)))


def start(projections: Iterable[Projection[Any]], *, memory: int = MEMORY) -> View:
    """The view before the first entry. ``memory``: how many versions it, and those folded from it, remember."""
    chosen = tuple(projections)
    return View(chosen, tuple(p.start() for p in chosen), memory=memory)


def fold(view: View, entries: Iterable[Entry]) -> View:
    """The view after these entries, which follow it: seq by seq, and each with its predecessor's sum.

    Raises ``NeedsEarlier`` for a ``Rewound`` to an entry that is further back than the view remembers.
    """
    now = _Folding(view)
    for entry in entries:
        now.take(entry)
    return now.view()


class _Folding:
    """A view that is being made from another."""

    def __init__(self, view: View) -> None:
        self._base = view
        self._plan = _plan(view.projections)
        self._states = list(view.states)
        self._entry, self._seq, self._link = view.entry, view.seq, view.head.link
        self._past: list[Version] | None = None  # none until something is to be remembered

    def take(self, entry: Entry) -> None:
        if entry.seq != self._seq + 1 or entry.prev != self._link:
            raise OutOfOrder(f"entry {entry.seq} does not follow entry {self._seq} of this history")
        event, states = entry.event, self._states
        changed = type(event) is Rewound and 0 <= event.to < entry.seq and self._rewind(event.to)
        for index, step, rewinds in self._plan[type(event)]:
            state = step(states[index], entry)
            if state is not states[index]:
                states[index] = state
                changed |= rewinds
        self._entry, self._seq, self._link = entry, entry.seq, entry.was or entry.sum
        if changed:
            self._remember()

    def _remember(self) -> None:
        past = self._remembered()
        past.append((self._seq, self._plan.pick(self._states)))
        if len(past) > 2 * self._base.memory + MEMORY:
            del past[: -self._base.memory or None]

    def _remembered(self) -> list[Version]:
        if self._past is None:
            base = self._base
            self._past = list(base.past) or [(base.seq, self._plan.pick(base.states))]
        return self._past

    def _rewind(self, to: int) -> bool:
        """Has anything gone back?"""
        plan = self._plan
        if not plan.rewinding:
            return False
        for index, then in zip(plan.rewinding, self._at(to), strict=True):
            self._states[index] = plan.projections[index].resume(then, self._states[index])
        return True

    def _at(self, to: int) -> tuple[Any, ...]:
        past = self._remembered()
        if found := bisect_right(past, to, key=_seq_of):
            return past[found - 1][1]
        if not to:
            return tuple(self._plan.projections[index].start() for index in self._plan.rewinding)
        for seq, states in self._base.points:
            if seq == to:
                return states
        raise NeedsEarlier(to, self.view(keep=None))

    def view(self, keep: int | None = _POINTS) -> View:
        base, past = self._base, self._past
        memory = tuple(past[max(0, len(past) - base.memory) :]) if past else base.past
        points = base.points if keep is None else base.points[-keep:]
        head = Head(self._seq, self._link)
        return View(base.projections, tuple(self._states), head, self._entry, base.memory, memory, points)


_seq_of = itemgetter(0)


class _Plan(dict[type, list[tuple[int, Callable[[Any, Entry], Any], bool]]]):
    """By the type of an event, the projections that look at it; made when the first of its type is met."""

    def __init__(self, projections: tuple[Projection[Any], ...]) -> None:
        self.projections = projections
        self.rewinding = tuple(index for index, one in enumerate(projections) if one.rewinds)

    def __missing__(self, kind: type) -> list[tuple[int, Callable[[Any, Entry], Any], bool]]:
        chosen = [
            (i, one.step, one.rewinds)
            for i, one in enumerate(self.projections)
            if not one.on or kind in one.on
        ]
        self[kind] = chosen
        return chosen

    def pick(self, states: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([states[index] for index in self.rewinding])


_plan = lru_cache(maxsize=32)(_Plan)


class OutOfOrder(ValueError):
    """An entry that is not the next one, or of another history."""


class NeedsEarlier(LookupError):
    """A rewind to entry ``to``, which ``view`` does not remember: fold on from ``view.remembering(the view at to)``."""

    def __init__(self, to: int, view: View) -> None:
        super().__init__(f"a rewind to entry {to}, which is further back than the view remembers")
        self.to = to
        self.view = view
