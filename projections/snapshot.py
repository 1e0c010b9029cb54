"""A view as bytes, and back; with the prompt, the window. Whoever stores them says which ``(seq, sum)`` they belong to.

Each state stands under its projection's name and version. What cannot be used (another version, a projection that
was not there, damage) is no error: the view is then folded from further back.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from chatfold.eventlog import Head
from chatfold.projections.fold import Projection, View
from chatfold.projections.prompt import Prompt
from chatfold.projections.shapes import PROMPT_RULES

WINDOW_BYTES = 1 << 20
"""A prompt that says more is not kept: reading it again costs more than it is worth."""
_WINDOW = (
    16 * PROMPT_RULES + 1
)  # the rules that made the prompt, and the version of what ``Prompt.dump`` gives

_States = dict[str, tuple[int, memoryview]]  # not copied before they are unpacked
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_States).decode


class Window(msgspec.Struct, frozen=True, array_like=True):
    """``snapshot``: the seq of the newest view that was kept by itself, as far as its writer knew."""

    version: int
    snapshot: int
    prompt: memoryview
    states: memoryview


_decode_window = msgspec.msgpack.Decoder(Window).decode


def dump(view: View) -> bytes:
    states = zip(view.projections, view.states, strict=True)
    return _encode({p.name: (p.version, p.dump(state)) for p, state in states})


def load(data: bytes | memoryview, head: Head, projections: Sequence[Projection[Any]]) -> View | None:
    """The view at ``head``, if the bytes hold a state for each of these projections."""
    try:
        found = _decode(data)
        states = tuple(p.load(found[p.name][1]) for p in projections if found[p.name][0] == p.version)
    except (ValueError, KeyError):
        return None
    return View(tuple(projections), states, head) if len(states) == len(projections) else None


def dump_window(view: View, prompt: Prompt, snapshot: int) -> bytes | None:
    """The prompt after the view's last entry, and the view; None if they are too large to be worth it."""
    if prompt.weight > WINDOW_BYTES:
        return None
    data = _encode(Window(_WINDOW, snapshot, memoryview(prompt.dump()), memoryview(dump(view))))
    return data if len(data) <= 2 * WINDOW_BYTES else None


def load_window(data: bytes, head: Head, projections: Sequence[Projection[Any]]) -> "Unpacked | None":
    """What ``dump_window`` made of the entries up to ``head``; None if it cannot be used."""
    try:
        window = _decode_window(data)
        packed = load_packed(bytes(window.states), head, projections)  # which outlives the prompt's bytes
        if window.version != _WINDOW or packed is None:
            return None
        return Unpacked(Prompt.load(window.prompt), packed, window.snapshot)
    except ValueError:
        return None


class PackedView:
    """A view whose states are unpacked when they are asked for: who only wants the messages needs few of them."""

    def __init__(self, states: _States, head: Head, projections: tuple[Projection[Any], ...]) -> None:
        """Raises ValueError or KeyError if there is no state for one of these projections."""
        self._packed = states
        self.head = head
        self.projections = projections
        self._states: dict[str, Any] = {}
        for one in projections:
            if states[one.name][0] != one.version:
                raise ValueError(f"another version of {one.name}")
            if not one.name.startswith("chatfold."):  # it may have changed under the same version
                self.part(one)

    def part(self, projection: Projection[Any]) -> View:
        """The view of this projection only."""
        name = projection.name
        if name not in self._states:
            self._states[name] = projection.load(self._packed[name][1])
        return View((projection,), (self._states[name],), self.head)

    @cached_property
    def view(self) -> View:
        return View(self.projections, tuple(self.part(one).states[0] for one in self.projections), self.head)


def load_packed(
    data: bytes | memoryview, head: Head, projections: Sequence[Projection[Any]]
) -> PackedView | None:
    """The view at ``head``, if the bytes hold a state for each of these projections."""
    try:
        return PackedView(_decode(data), head, tuple(projections))
    except (ValueError, KeyError):
        return None


class Unpacked(NamedTuple):
    prompt: Prompt
    packed: PackedView
    snapshot: int
