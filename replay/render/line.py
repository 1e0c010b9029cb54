"""A line: words in styles or the fields of a row, and where it points to."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from chatfold.replay.terminal import Cell, Style, columns, fit, paint, printable, printable_lines, width

CAP = 1 << 16
"""Characters of one body that a screen is shown."""

Word: TypeAlias = str | tuple[str, Style]


class Line(msgspec.Struct, frozen=True):
    """``row``: fields, aligned on a terminal and separated by tabs in a pipe. ``body``: a text of any length.

    ``seq``, ``chat``: where it points to. ``value``: what a program is given instead, of a row.
    """

    cells: tuple[Cell, ...] = ()
    seq: int = 0
    chat: str = ""
    form: Literal["words", "row", "body"] = "words"
    value: Any = None

    @property
    def text(self) -> str:
        return (" " if self.form == "row" else "").join(cell.text for cell in self.cells)


def words(*some: Word, seq: int = 0, chat: str = "") -> Line:
    pairs = [(word, "") if isinstance(word, str) else word for word in some]
    return Line(tuple(Cell(text, style=style) for text, style in pairs), seq, chat)  # type: ignore[arg-type]


def row(cells: Iterable[Cell], value: Any = None, *, seq: int = 0, chat: str = "") -> Line:
    return Line(tuple(cells), seq, chat, "row", value)


def body(text: str, indent: str = "", *, seq: int = 0) -> Line:
    """``indent`` stands before each of its lines."""
    return Line((Cell(indent), Cell(text)), seq, form="body")


# --- on a screen -----------------------------------------------------------------------------------------


def wrap_lines(lines: Iterable[Line], cells: int) -> Iterator[Line]:
    """Lines that fit a pane of so many cells, once each is cut: bodies are wrapped, and capped if they are very long."""
    for line in lines:
        if line.form != "body":
            yield line
            continue
        indent, text = (cell.text for cell in line.cells)
        room = max(1, cells - len(indent))
        for one in printable_lines(text[:CAP]):
            for piece in wrap(one, room):
                yield words(indent + piece, seq=line.seq)
        if len(text) > CAP:
            yield words((f"… the first {CAP // 1024} Ki characters; ! says how to print all", "dim"))


def lay_out(line: Line, cells: int, *, colour: bool) -> str:
    """One line as a pane shows it, cut to so many cells."""
    if line.form == "row":
        return columns(line.cells, cells, colour=colour)
    shown: list[str] = []
    for cell in line.cells:
        text = fit(printable(cell.text[: 8 * cells + 8]), cells)
        cells -= width(text)
        shown.append(paint(text, cell.style, colour=colour))
        if cells <= 0:
            break
    return "".join(shown)


def beginning(lines: Sequence[Line], most: int) -> list[Line]:
    """Of a long list the first ``most`` lines, and how many there are more."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[:most], words((f"… {len(lines) - most} more; ! says how to print all", "dim"))]


@lru_cache(maxsize=4096)
def wrap(text: str, cells: int) -> tuple[str, ...]:
    """A printable line as lines of at most so many cells, at blanks if there are any; what is wider than a line is left out."""
    cells = max(1, cells)
    lines: list[str] = []
    line, used, blank = "", 0, 0  # ``blank``: how much of the line ends in one
    for char in text:
        wide = width(char)
        if wide > cells:
            continue
        if used + wide > cells:
            at = blank or len(line)
            lines.append(line[:at])
            line, blank = line[at:], 0
            used = width(line)
        line, used = line + char, used + wide
        if char == " ":
            blank = len(line)
    return (*lines, line)
