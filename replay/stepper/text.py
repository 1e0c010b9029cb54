"""Text for a pane: printable, capped, cut or wrapped to so many cells."""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from chatfold.eventlog import Entry, Event, Unknown
from chatfold.replay.inspect.entries import describe
from chatfold.replay.stepper.state import Line
from chatfold.replay.terminal import fit, printable, printable_lines, width

CAP = 64 * 1024
"""Characters that are shown of one body."""


def cut(text: str, cells: int) -> str:
    """One line; of what does not fit the beginning."""
    return fit(printable(text[: 8 * cells + 8]), cells)


def body(text: str, cells: int) -> Iterator[Line]:
    """What somebody said, wrapped; the beginning of very much."""
    for line in printable_lines(text[:CAP]):
        yield from map(Line, wrapped(line, cells))
    if len(text) > CAP:
        yield Line(cut(f"… the first {CAP // 1024} Ki characters; ! says how to print all", cells), "dim")


@lru_cache(maxsize=4096)
def wrapped(text: str, cells: int) -> tuple[str, ...]:
    """A printable line as lines of at most so many cells; of a terminal of one cell, wide characters are left out."""
    cells = max(1, cells)
    if text.isascii():
        return tuple(text[at : at + cells] for at in range(0, len(text), cells)) or ("",)
    lines: list[str] = []
    line, used = "", 0
    for char in text:
        wide = width(char)
        if used + wide > cells:
            lines.append(line)
            line, used = "", 0
        if wide <= cells:
            line, used = line + char, used + wide
    return (*lines, line)


def capped(entry: Entry) -> str:
    return describe(entry.event, CAP + 1)[: CAP + 1]


def as_json(event: Event) -> str:
    """The payload as people read JSON; what is no JSON, as its bytes."""
    if isinstance(event, Unknown):
        value: Any = _raw(event)
    else:
        value = msgspec.to_builtins(event)
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=2, ensure_ascii=False)[: CAP + 1]


def _raw(event: Unknown) -> Any:
    try:
        return msgspec.json.decode(event.raw)
    except (ValueError, RecursionError):
        return event.raw[: CAP + 1].decode(errors="backslashreplace")
