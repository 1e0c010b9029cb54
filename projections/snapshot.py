"""A view as bytes, and back. Whoever stores them says which ``(seq, sum)`` they belong to.

Each state stands under its projection's name and version. What cannot be used (another version, a projection that
was not there, damage) is no error: the view is then folded from further back.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from chatfold.eventlog import Head
from chatfold.projections.fold import Projection, View

_States = dict[str, tuple[int, memoryview]]  # not copied before they are unpacked
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_States).decode


def dump(view: View) -> bytes:
    states = zip(view.projections, view.states, strict=True)
    return _encode({p.name: (p.version, p.dump(state)) for p, state in states})


def load(data: bytes, head: Head, projections: Sequence[Projection[Any]]) -> View | None:
    """The view at ``head``, if the bytes hold a state for each of these projections."""
    try:
        found = _decode(data)
        states = tuple(p.load(found[p.name][1]) for p in projections if found[p.name][0] == p.version)
    except (ValueError, KeyError):
        return None
    return View(tuple(projections), states, head) if len(states) == len(projections) else None
