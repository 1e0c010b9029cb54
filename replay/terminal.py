"""The terminal: text that cannot steer it, columns that fit it, colour where it is wanted.

What users, models and tools said may hold anything: escape sequences, text that runs backwards, half of a character. None of
it reaches a terminal as it is; ``printable`` shows what it is made of.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias
from unicodedata import combining, east_asian_width

Style: TypeAlias = Literal["", "dim", "bold", "red", "green", "yellow", "blue", "magenta", "cyan"]

_CODES = {
    "dim": "2",
    "bold": "1",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_JOINERS = "\u200c\u200d"  # without them Persian, Indic scripts and many emoji are not what they are
_BLANKS = "\xa0\u202f\u3000"  # French and Chinese are written with them; they steer nothing
_FEW = 64


def printable(text: str) -> str:
    """The text on one line, with everything that could steer a terminal or mislead an eye made visible."""
    if text.isprintable():
        return text
    odd = [
        char for char in set(text) if not char.isprintable() and char not in _JOINERS and char not in _BLANKS
    ]
    if len(odd) > _FEW:
        escapes = {char: _escape(char) for char in odd}
        return "".join([escapes.get(char, char) for char in text])
    for char in odd:  # of a very long text: a few passes in C
        text = text.replace(char, _escape(char))
    return text


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def printable_lines(text: str) -> list[str]:
    """The same line by line; tabs as blanks."""
    return [printable(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n")]


def width(text: str) -> int:
    """How many cells of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if char in _JOINERS or combining(char) or "\ufe00" <= char <= "\ufe0f":
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def fit(text: str, cells: int) -> str:
    """At most so many cells, the last of them an ellipsis if something is missing."""
    if len(text) <= cells and width(text) <= cells:
        return text
    taken, used = [], 0
    for char in text:
        used += _cells(char)
        if used > cells - 1:
            break
        taken.append(char)
    return "".join(taken) + "…" if cells > 0 else ""


def pad(text: str, cells: int, *, right: bool = False) -> str:
    text = fit(text, cells)
    gap = " " * (cells - width(text))
    return gap + text if right else text + gap


def paint(text: str, style: Style, *, colour: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour and style and not text.isspace() and text else text


class Cell(NamedTuple):
    """One field of a row. ``cells``: its width on a terminal; 0: all that is left, for the last one."""

    text: str
    cells: int = 0
    style: Style = ""
    right: bool = False


def columns(row: Sequence[Cell], cells: int, *, colour: bool) -> str:
    """A row as a terminal shows it: aligned, and not wider than it is. What has no room is left out."""
    shown = []
    for cell in row:
        text, room = printable(cell.text), max(cells, 0)
        text = pad(text, min(cell.cells, room), right=cell.right) if cell.cells else fit(text, room)
        cells -= width(text) + 1
        shown.append(paint(text, cell.style, colour=colour))
    return " ".join(shown).rstrip()


def join_by_tabs(row: Iterable[Cell], *, colour: bool = False) -> str:
    """The same for a pipe: separated by tabs, nothing cut."""
    return "\t".join(paint(printable(cell.text), cell.style, colour=colour) for cell in row)


def wants_colour(wish: str, stream: object = None) -> bool:
    """``auto``: on a terminal that is not dumb, unless NO_COLOR says otherwise; FORCE_COLOR also into a pipe."""
    if wish != "auto":
        return wish == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if force := os.environ.get("FORCE_COLOR"):
        return force != "0"
    stream = stream or sys.stdout
    return bool(getattr(stream, "isatty", bool)()) and os.environ.get("TERM") != "dumb"


def plural(number: int, what: str) -> str:
    """``1 turn``, ``2 turns``, ``2 entries``."""
    if number == 1:
        return f"1 {what}"
    return f"{number} {what.removesuffix('y')}ies" if what.endswith("ry") else f"{number} {what}s"


def short(number: int) -> str:
    """A count in at most five characters: 950, 12.4k, 183k, 1.2M."""
    for power, letter in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        size = 10**power
        if number >= size:
            tenths = number * 10 // size  # never rounded up to one digit more
            return f"{tenths / 10}{letter}" if tenths < 1000 else f"{tenths // 10}{letter}"
    return str(number)
