"""A tombstone stands where a line was: same seq, same links, without the payload.

Its own ``sum`` is that of its bytes; its ``was`` is the sum that stood here first, which is what the next line's
``prev`` still says. So the chain verifies, and ``(seq, sum)`` of every later entry stays what it was.
"""

import re
from collections.abc import Callable, Collection

import msgspec
from msgspec.structs import replace

from chatfold.eventlog.codec import decode, encode_event
from chatfold.eventlog.errors import CorruptLog, InvalidEvent
from chatfold.eventlog.events import Entry, Event, Json, Lost, Text, Unknown, defaults_of
from chatfold.eventlog.line import build_entry_line

_KEPT_ELSEWHERE = re.compile(rb'"\x7f007f(?:ref|text|data):')  # its DEL is escaped like one of the user's


PLACEHOLDER = "[redacted]"
_PAYLOAD: dict[str, Json] = {
    "parts": (Text(PLACEHOLDER),),
    "args": None,
    "meta": {},
    "params": {},
    "policy": {},
    "data": None,
    "summary": PLACEHOLDER,
    "text": PLACEHOLDER,
    "title": PLACEHOLDER,
    "reason": PLACEHOLDER,
    "error": PLACEHOLDER,
}


def scrub(event: Event) -> Event:
    """The same fact without its payload: who, which call, which range; but nothing that was said."""
    if isinstance(event, Unknown):
        return Unknown(event.name, msgspec.json.encode({"type": event.name}))
    fields = {
        name: _PAYLOAD[name]
        for name, default in zip(event.__struct_fields__, defaults_of(event), strict=True)
        if name in _PAYLOAD and getattr(event, name) != default
    }
    return replace(event, **fields)


def tombstone(line: bytes) -> bytes:
    """The line without its payload. Its id and its links stay. Erasing twice is erasing once."""
    entry = decode(line)
    event = scrub(entry.event)
    raw = _encode_scrubbed(event)
    if raw is None:
        event = Lost(PLACEHOLDER)
        raw = encode_event(event).raw
    try:
        return build_entry_line(replace(entry, event=event, was=entry.link), raw)
    except UnicodeEncodeError as error:  # a link that is none
        raise CorruptLog(f"a line that verifies cannot be read: {error}", seq=entry.seq) from None


def _encode_scrubbed(event: Event) -> bytes | None:
    """None: what is left of it cannot stand in a line alone."""
    try:
        left = encode_event(event)
    except InvalidEvent:  # of a type we know, in a shape we do not
        return None
    # A name so long that it is a reference is not to be resolved any more.
    return None if left.blobs or _KEPT_ELSEWHERE.search(left.raw) else left.raw


def lost_line(seq: int, prev: bytes, was: bytes | None, batch: str | None, note: str) -> bytes:
    """In place of a line that no longer verifies."""
    event: Event = Lost(note)
    entry = Entry(seq, 0, event, batch=batch, was=was.decode() if was else None, prev=prev.decode())
    return build_entry_line(entry, encode_event(event).raw)


class ErasureView(msgspec.Struct):
    """What erasing needs to know of one chat."""

    link: Callable[[int], str | None]  # of the entry at a seq; None if there is none
    references: list[tuple[int, set[int]]]  # (seq, the earlier seqs it refers to), in order


def plan_erasure(chat: str, seqs: Collection[int], views: dict[str, ErasureView]) -> dict[str, list[int]]:
    """Everything that must go with ``seqs`` of ``chat``: what holds the same text by a reference, either way,
    and the same entries (same seq, same link) of its forks and of what it was forked from."""
    erased = {(seq, views[chat].link(seq)) for seq in seqs}
    plan: dict[str, set[int]] = {}
    known = -1
    while known != len(erased):
        known = len(erased)
        for key, view in views.items():
            same = {seq for seq, link in erased if link and view.link(seq) == link}
            plan[key] = close_over_references(same, view.references)
            erased |= {(seq, view.link(seq)) for seq in plan[key]}
    return {key: sorted(wanted) for key, wanted in plan.items() if wanted}


def close_over_references(wanted: set[int], pointing: list[tuple[int, set[int]]]) -> set[int]:
    """These, and what holds the same text by a reference, either way."""
    known = -1
    while known != len(wanted):
        known = len(wanted)
        for seq, targets in pointing:
            if seq in wanted:
                wanted |= targets
            elif targets & wanted:
                wanted.add(seq)
    return wanted
