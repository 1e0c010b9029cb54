"""A projection is a pure function; a view is what the projections add up to after one entry.

Live, opening, time travel, tailing and replay all fold entries into a ``View``, one after the other, and there is no
other way in which state changes. So the same entries always give equal views, however they were reached.

Going back is done here, once for all projections that ask for it. A view remembers its last states, and ``Rewound(to)``
takes the ones after entry ``to``. A view that does not remember them raises ``NeedsEarlier``: the caller, who has the log,
gives it the view at that entry.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import isqrt
from operator import itemgetter
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
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


class Past(msgspec.Struct, frozen=True):
    """The last versions of a view, at most ``size``: all since the first of them, in two pieces, so that one more copies few.

    It is no part of a view's value: any two are equal.
    """

    size: int = MEMORY
    older: tuple[Version, ...] = ()
    newer: tuple[Version, ...] = ()
    points: tuple[Version, ...] = ()  # some before those

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Past)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.older) + len(self.newer)

    def __repr__(self) -> str:
        return f"<{len(self)} of at most {self.size} versions>"

    def of(self, size: int) -> "Past":
        versions = (*self.older, *self.newer)
        return Past(size, versions[max(0, len(versions) - size) :], (), self.points)

    def begin(self, view: "View") -> list[Version]:
        """What new versions are added to; the first of all is that of the view."""
        if self.newer or self.older:
            return list(self.newer)
        return [(view.seq, _plan(view.projections).pick(view.states))]

    def ending(self, newer: list[Version]) -> "Past":
        """The same with these in the place of the newer ones. What is too old goes."""
        size = self.size
        if len(newer) ** 2 < size:
            return Past(size, self.older, tuple(newer), self.points)
        versions = (*self.older, *newer)
        kept = max(1, size - isqrt(size))  # so that there is room for the next ones
        return Past(size, versions[max(0, len(versions) - kept) :], (), self.points)

    def at(self, seq: int, newer: list[Version]) -> tuple[Any, ...] | None:
        """The states after that entry, if they are remembered. ``newer``: in the place of the newer ones."""
        for versions in (newer, self.older):
            if found := bisect_right(versions, seq, key=_seq_of):
                return versions[found - 1][1]
        return next((states for at, states in self.points if at == seq), None)


class View(msgspec.Struct, frozen=True):
    """The states of some projections after entry ``seq``; ``start((usage, files))`` is where a chat begins.

    What it remembers is no part of its value: it is in no snapshot, and equal views may remember more or less.
    """

    projections: tuple[Projection[Any], ...]
    states: tuple[Any, ...] = ()
    head: Head = _ORIGIN
    past: Past = Past()

    def __post_init__(self) -> None:
        if len(self.states) != len(self.projections):
            raise ValueError("a view has one state for each projection; see ``start``")

    def __repr__(self) -> str:
        return (
            f"View(at entry {self.seq}, {', '.join(one.name.rpartition('.')[2] for one in self.projections)})"
        )

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

    def with_point(self, earlier: "View") -> "View":
        """The same view, which can go back to where ``earlier`` is."""
        states = tuple(earlier[self.projections[index]] for index in _plan(self.projections).rewinding)
        points = (*self.past.points, (earlier.seq, states))[-_POINTS:]
        return msgspec.structs.replace(self, past=msgspec.structs.replace(self.past, points=points))

    def with_memory(self, size: int = MEMORY) -> "View":
        """The same view, which remembers so many versions from now on."""
        return msgspec.structs.replace(self, past=self.past.of(size))

    @property
    def fingerprint(self) -> str:
        """Equal histories have equal fingerprints, wherever they are stored and however they were folded."""
        states = zip(self.projections, self.states, strict=True)
        parts = sorted((p.name, p.version, pack(state, "deterministic")) for p, state in states)
        return xxh3_128_hexdigest(pack((self.seq, parts)))


def start(projections: Iterable[Projection[Any]], *, memory: int = MEMORY) -> View:
    """The view before the first entry. ``memory``: how many versions it, and those folded from it, remember."""
    chosen = tuple(projections)
    return View(chosen, tuple(p.start() for p in chosen), past=Past(memory))


def fold(view: View, entries: Iterable[Entry]) -> View:
    """The view after these entries, which follow it: seq by seq, and each with its predecessor's sum.

    Raises ``NeedsEarlier`` for a ``Rewound`` to an entry that is further back than the view remembers.
    """
    plan, states, past = _plan(view.projections), list(view.states), view.past
    seq, link = view.head.seq, view.head.link
    newer: list[Version] = []  # empty until something is to be remembered
    most = 2 * past.size + MEMORY
    for following in entries:
        if following.seq != seq + 1 or following.prev != link:
            raise OutOfOrder(f"entry {following.seq} does not follow entry {seq} of this history")
        event, is_new = following.event, False
        if type(event) is Rewound and 0 <= event.to < following.seq and plan.rewinding:
            is_new = True
            newer = newer or past.begin(view)
            then = past.at(event.to, newer) if event.to else plan.origin()
            if then is None:
                here = View(view.projections, tuple(states), Head(seq, link), past.ending(newer))
                raise NeedsEarlier(event.to, here)
            plan.rewind(states, then)
        for index, step, rewinds in plan[type(event)]:
            state = step(states[index], following)
            if state is not states[index]:
                states[index] = state
                is_new = is_new or rewinds
        seq, link = following.seq, following.was or following.sum
        if is_new:
            newer = newer or past.begin(view)
            newer.append((seq, plan.pick(states)))
            if len(newer) > most:
                past, newer = past.ending(newer), []
    past = past.ending(newer) if newer else past
    return View(view.projections, tuple(states), Head(seq, link), past)


_seq_of = itemgetter(0)


class _Plan(dict[type, list[tuple[int, Callable[[Any, Entry], Any], bool]]]):
    """By the type of an event, the projections that look at it; made when the first of its type is met."""

    def __init__(self, projections: tuple[Projection[Any], ...]) -> None:
        self.projections = projections
        self.rewinding = tuple(index for index, one in enumerate(projections) if one.rewinds)
        self.pick = _pick(self.rewinding)

    def __missing__(self, kind: type) -> list[tuple[int, Callable[[Any, Entry], Any], bool]]:
        chosen = [
            (i, one.step, one.rewinds)
            for i, one in enumerate(self.projections)
            if not one.on or kind in one.on
        ]
        self[kind] = chosen
        return chosen

    def origin(self) -> tuple[Any, ...]:
        return tuple(self.projections[index].start() for index in self.rewinding)

    def rewind(self, states: list[Any], then: tuple[Any, ...]) -> None:
        for index, earlier in zip(self.rewinding, then, strict=True):
            states[index] = self.projections[index].resume(earlier, states[index])


def _pick(indices: tuple[int, ...]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The states with these indices."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda states: tuple([states[index] for index in indices])


_plan = lru_cache(maxsize=32)(_Plan)


class OutOfOrder(ValueError):
    """An entry that is not the next one, or of another history."""


class NeedsEarlier(LookupError):
    """A rewind to entry ``to``, which ``view`` does not remember: fold on from ``view.with_point(the view at to)``."""

    def __init__(self, to: int, view: View) -> None:
        super().__init__(f"a rewind to entry {to}, which is further back than the view remembers")
        self.to = to
        self.view = view
