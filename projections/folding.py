"""A projection is a pure function; a view is what the projections add up to after one entry.

Live, opening, time travel, tailing and replay all fold entries into a ``View``, one after the other, and there is no
other way in which state changes. So the same entries always give equal views, however they were reached.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec
from xxhash import xxh3_128_hexdigest

from chatfold.eventlog import Entry, Head
from chatfold.projections.packing import Unpack, pack

S = TypeVar("S")


class Projection(Generic[S]):
    """Made by ``@projection``: the function, where its state begins, and how that goes into a snapshot."""

    def __init__(
        self, step: Callable[[S, Entry], S], state: type[S], version: int, on: Iterable[type] = ()
    ) -> None:
        self.step = step
        self.start = state
        self.on = frozenset(on)
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


def projection(
    state: type[S], *, version: int = 1, on: Iterable[type] = ()
) -> Callable[[Callable[[S, Entry], S]], Projection[S]]:
    """``@projection(State, version=1) def name(state, entry) -> State``

    ``State()`` is where it begins: a frozen msgspec Struct with defaults, or anything msgspec encodes and decodes
    exactly; keys of dicts are strings or integers. The function returns the state it was given or a new one, and looks at nothing but its arguments.
    Raise ``version`` whenever it computes something else than before: older snapshots are then not used. ``on``: the
    types of events it looks at, if it does not care for the others; they then cost it nothing.
    """

    def make(step: Callable[[S, Entry], S]) -> Projection[S]:
        return Projection(step, state, version, on)

    return make


class View(msgspec.Struct, frozen=True):
    """The states of some projections after entry ``seq``; ``start((usage, files))`` is where a chat begins."""

    projections: tuple[Projection[Any], ...]
    states: tuple[Any, ...] = ()
    head: Head = Head()
    entry: Entry | None = None

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

    @property
    def fingerprint(self) -> str:
        """Equal histories have equal fingerprints, wherever they are stored and however they were folded."""
        states = zip(self.projections, self.states, strict=True)
        parts = sorted((p.name, p.version, pack(state, "deterministic")) for p, state in states)
        return xxh3_128_hexdigest(pack((self.seq, parts)))


def start(projections: Iterable[Projection[Any]]) -> View:
    """The view before the first entry."""
    chosen = tuple(projections)
    return View(chosen, tuple(p.start() for p in chosen))


def fold(view: View, entries: Iterable[Entry]) -> View:
    """The view after these entries, which follow it: seq by seq, and each with its predecessor's sum."""
    steps = _steps(view.projections)
    states = list(view.states)
    entry, seq, link = view.entry, view.seq, view.head.link
    for entry in entries:
        if entry.seq != seq + 1 or entry.prev != link:
            raise OutOfOrder(f"entry {entry.seq} does not follow entry {seq} of this history")
        seq, link = entry.seq, entry.was or entry.sum
        for index, step in steps[type(entry.event)]:
            states[index] = step(states[index], entry)
    return View(view.projections, tuple(states), Head(seq, link), entry)


class _Steps(dict[type, list[tuple[int, Callable[[Any, Entry], Any]]]]):
    """By the type of an event, the projections that look at it; made when the first of its type is met."""

    def __init__(self, projections: tuple[Projection[Any], ...]) -> None:
        self._projections = projections

    def __missing__(self, kind: type) -> list[tuple[int, Callable[[Any, Entry], Any]]]:
        chosen = [(i, p.step) for i, p in enumerate(self._projections) if not p.on or kind in p.on]
        self[kind] = chosen
        return chosen


_steps = lru_cache(maxsize=32)(_Steps)


class OutOfOrder(ValueError):
    """An entry that is not the next one, or of another history."""
