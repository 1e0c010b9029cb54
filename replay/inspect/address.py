"""Addresses: one grammar for the command line, the stepper and links.

    CHAT                  its key, the beginning of one (4 characters or more, if only one begins so), or ``last``
    CHAT@POINT            the chat as it was after that entry
    CHAT@A..B             from one point to another; ``A..`` to the end, ``..B`` from the beginning

    1234, e1234           the entry of this seq                 head, head-5     the last one, or so many before it
    t12, t12.0            the end of turn 12, its question      t-1              the end of the turn before the last
    c2, s3, m311          just after compaction 2, context switch 3, request 311 to a model; c-1: the last of them
    2026-11-15T10:00, -2h the last entry by then, local time    a name           the checkpoint of that name

``^`` after any of them is one entry earlier: ``c2^`` is just before the compaction. ``label:NAME`` is a checkpoint whose
name looks like something else. Reading an address looks at nothing but its text; ``replay.inspect.points`` finds what it means.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from chatfold.eventlog import ChatfoldError

Kind: TypeAlias = Literal["seq", "head", "turn", "compaction", "switch", "call", "label", "time", "ago"]

_LETTERS: dict[str, Kind] = {
    "e": "seq",
    "t": "turn",
    "c": "compaction",
    "s": "switch",
    "m": "call",
}
_NUMBERED = re.compile(r"([etcsm])(-?)(\d{1,15})(\.0)?")
_SEQ = re.compile(r"\d{1,15}")
_HEAD = re.compile(r"head(?:-(\d{1,15}))?")
_AGO = re.compile(r"-(\d{1,6})([smhdw])")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class BadAddress(ChatfoldError, ValueError):
    next_step = "A point is e12, t3, t3.0, c2, c2^, s1, m4, head-5, a checkpoint's name, a time, or -2h"


class Point(msgspec.Struct, frozen=True):
    """``number``: which one; counted from the end if ``backwards``. ``earlier``: so many entries before it."""

    kind: Kind
    number: int = 0
    backwards: bool = False
    start: bool = False  # of a turn: its question
    name: str = ""  # of a label; of a time, as it was written
    earlier: int = 0

    def __str__(self) -> str:
        match self.kind:
            case "head":
                said = f"head-{self.number}" if self.number else "head"
            case "label":
                said = f"label:{self.name}"
            case "time" | "ago":
                said = self.name
            case _:
                letter = next(letter for letter, kind in _LETTERS.items() if kind == self.kind)
                said = f"{letter}{'-' * self.backwards}{self.number}{'.0' * self.start}"
        return said + "^" * self.earlier

    def time(self, now: datetime) -> datetime:
        """Of a time, or of so long ago. Raises ``BadAddress`` if no calendar reaches so far."""
        try:
            if self.kind == "ago":
                return now - timedelta(seconds=self.number)
            return datetime.fromisoformat(self.name).astimezone(UTC)
        except (OverflowError, OSError, ValueError):
            raise BadAddress(f"no calendar has this time: {self.name!r}") from None


HEAD = Point("head")


class Address(msgspec.Struct, frozen=True):
    """``first`` is set in a range only. ``last`` None: nothing was said of a point."""

    chat: str
    last: Point | None = None
    first: Point | None = None
    is_range: bool = False


def point(text: str) -> Point:
    """Raises ``BadAddress``. What is nothing else is the name of a checkpoint."""
    bare = text.rstrip("^")
    earlier = len(text) - len(bare)
    if not bare:
        raise BadAddress(f"not a point: {text!r}")
    return msgspec.structs.replace(_bare(bare), earlier=earlier)


def _bare(text: str) -> Point:
    if text.startswith("label:"):
        return Point("label", name=text.removeprefix("label:"))
    if _SEQ.fullmatch(text):
        return Point("seq", int(text))
    if found := _HEAD.fullmatch(text):
        return Point("head", int(found[1] or 0))
    if found := _NUMBERED.fullmatch(text):
        letter, sign, digits, start = found.groups()
        kind, number = _LETTERS[letter], int(digits)
        if (not start or kind == "turn") and not (sign and (kind == "seq" or not number)):
            return Point(kind, number, backwards=bool(sign), start=bool(start))
    if found := _AGO.fullmatch(text):
        return Point("ago", int(found[1]) * _SECONDS[found[2]], name=text)
    if _TIME.fullmatch(text):
        try:
            datetime.fromisoformat(text)
        except ValueError as error:
            raise BadAddress(f"not a time: {text!r} ({error})") from None
        return Point("time", name=text)
    return Point("label", name=text)


def address(text: str, *, is_chat: bool = False) -> Address:
    """``is_chat``: all of the text is known to be a chat's key, though there is an ``@`` in it."""
    chat, at, points = text.rpartition("@")
    if is_chat or not at or not chat:
        return Address(text)
    first, dots, last = points.partition("..")
    if not dots:
        return Address(chat, point(points))
    return Address(chat, point(last) if last else HEAD, point(first) if first else None, is_range=True)
