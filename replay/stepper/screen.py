"""The stepper's screen as lines: pure. A frame has as many lines as the terminal, none wider than it is.

What was said in the chat comes through ``printable``; the only escape sequences in a line are styles, and the one that says in
which column the right pane begins, so that a terminal that measures a character otherwise than we do keeps its panes apart.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from chatfold.replay.inspect.entries import Row
from chatfold.replay.inspect.sizes import Chart
from chatfold.replay.inspect.times import clock
from chatfold.replay.render.chart import draw
from chatfold.replay.render.entries import style_of
from chatfold.replay.render.line import Line, lay_out, words
from chatfold.replay.stepper.help import CHOOSING, HELP, HINTS, footer
from chatfold.replay.stepper.state import TABS, State
from chatfold.replay.terminal import fit, pad, paint, printable, short, width

_WIDE = 100  # columns; with fewer there is one pane
_HEAD = 3  # lines of the context that stay, with the note of what is left out
_TALL = 20  # rows; with fewer there is one line of timeline


class Size(NamedTuple):
    columns: int
    rows: int

    @property
    def is_wide(self) -> bool:
        return self.columns >= _WIDE

    @property
    def left(self) -> int:
        """Cells of the list of events."""
        return self.columns * 2 // 5 if self.is_wide else self.columns

    @property
    def right(self) -> int:
        """Cells of the detail pane."""
        return self.columns - self.left - 2 if self.is_wide else self.columns

    @property
    def timeline(self) -> int:
        return 2 if self.rows >= _TALL else 1

    @property
    def chart(self) -> int:
        """Cells of the timeline, without its scale."""
        return max(1, self.columns - 8)

    @property
    def is_stacked(self) -> bool:
        """Does the detail pane stand below the list?"""
        return not self.is_wide and self.rows >= _TALL

    @property
    def has_one_pane(self) -> bool:
        return not self.is_wide and not self.is_stacked

    @property
    def body(self) -> int:
        """Lines of both panes with their heads."""
        return max(2, self.rows - self.timeline - 3)

    @property
    def listed(self) -> int:
        """Lines of the list, below its head."""
        return max(1, self.body // 3 if self.is_stacked else self.body - 1)

    @property
    def detailed(self) -> int:
        """Lines of the detail pane, below its head."""
        return max(1, self.body - self.listed - 2 if self.is_stacked else self.body - 1)


class Shown(msgspec.Struct, frozen=True):
    """What is to be shown. ``rows``: those around the cursor; ``is_looking``: there may be more. ``detail`` None: not yet."""

    state: State
    title: str = ""
    turn: int = 0
    turns: int = 0
    rows: tuple[Row, ...] = ()
    is_looking: bool = False
    detail: Sequence[Line] | None = None
    is_stale: bool = False  # the detail is still that of a moment ago
    picture: Chart | None = None


def top_of(top: int, cursor: int, end: int, height: int) -> int:
    """The first seq of a list that shows the cursor: it stays as it is while it can, and then goes by a third."""
    margin = height // 3
    if cursor < top:
        top = cursor - margin
    elif cursor >= top + height:
        top = cursor - height + 1 + margin
    return max(1, min(top, end - height + 1))


def frame(shown: Shown, size: Size, *, colour: bool = True) -> list[str]:
    body = size.rows - size.timeline - 3
    lines = [_title(shown, size.columns, colour=colour), *_timeline(shown, size, colour=colour)]
    lines += list(_body(shown, size, colour=colour))[: max(0, body)]
    lines += [""] * (size.timeline + 1 + body - len(lines))
    lines += [_message(shown.state, size.columns, colour=colour)]
    hints = footer(CHOOSING if shown.state.in_detail else HINTS, size.columns)
    lines += [paint(fit(hints, size.columns), "dim", colour=colour)]
    return lines[: size.rows]


def _title(shown: Shown, columns: int, *, colour: bool) -> str:
    state = shown.state
    words = [f"e{state.cursor} / {state.end} · t{shown.turn}/{shown.turns}"]
    if state.new > 0:
        words.append(f"+{state.new} new")
    if state.following:
        words.append("● following")
    if state.mark is not None:
        words.append(f"A e{state.mark}")
    where = " · ".join(words)
    name = printable(f"{state.chat} {shown.title}" if shown.title != state.chat else state.chat)
    room = columns - len(where) - 2
    text = f"{pad(name, room)}  {where}" if room >= 8 else fit(where, columns)
    return paint(text, "bold", colour=colour)


def _timeline(shown: Shown, size: Size, *, colour: bool) -> Iterator[str]:
    """How large the context was, and where the cursor is; below it, where it was compacted or changed."""
    known, end = shown.picture, max(1, shown.state.end)
    room = size.chart
    lines = draw(known) if known and known.buckets else ["·" * min(room, end)]
    cells, marks = lines[0][:room], lines[1][:room] if len(lines) > 1 else ""
    column = min((shown.state.cursor - 1) * len(cells) // end, len(cells) - 1)
    now = f" ▲{short(known.peak)}" if known and size.columns > room + 7 else ""
    if column < 0:
        yield paint(cells, "blue", colour=colour) + now
    else:
        before = paint(cells[:column], "blue", colour=colour)
        after = paint(cells[column + 1 :], "blue", colour=colour)
        yield before + _reverse("┃") + after + now
    if size.timeline > 1:
        yield paint(marks, "yellow", colour=colour)


def _reverse(text: str) -> str:
    """Where the cursor is: no colour, so it is there without colours, too."""
    return f"\x1b[7m{text}\x1b[0m"


# --- the panes -------------------------------------------------------------------------------------------


def _body(shown: Shown, size: Size, *, colour: bool) -> Iterator[str]:
    if shown.state.help:
        yield from (paint(fit(line, size.columns), "", colour=colour) for line in HELP.splitlines())
        return
    left = [_events_head(shown, size.left, colour=colour), *_events(shown, size.left, colour=colour)]
    right = [_tabs(shown, size.right, colour=colour), *_detail(shown, size, colour=colour)]
    if size.is_stacked:
        yield from [*left, *[""] * (size.listed + 1 - len(left)), *right]
        return
    if not size.is_wide:
        yield from right if shown.state.in_detail else left
        return
    bar = f"\x1b[{size.left + 1}G" + paint("│ ", "dim", colour=colour)
    for at in range(size.listed + 1):
        yield (left[at] if at < len(left) else " " * size.left) + bar + (right[at] if at < len(right) else "")


def _events_head(shown: Shown, cells: int, *, colour: bool) -> str:
    state = shown.state
    kinds = ", ".join(state.kinds) or "all kinds"
    words = ["EVENTS", printable(kinds) + (", errors only" if state.errors else "")]
    if shown.rows:
        words.append(f"e{shown.rows[0].seq}..e{shown.rows[-1].seq}")
    if state.query:
        words.append(f"/{printable(state.query)}/ {len(state.hits)}")
    if shown.is_looking:
        words.append("looking …")
    return _focus(pad(" · ".join(words), cells), not state.in_detail, colour=colour)


def _focus(text: str, has_focus: bool, *, colour: bool) -> str:
    return paint(text, "bold" if has_focus else "dim", colour=colour)


def _events(shown: Shown, cells: int, *, colour: bool) -> Iterator[str]:
    state = shown.state
    digits = len(str(state.end))
    hits = frozenset(state.hits)
    for row in shown.rows:
        sign = (
            "▶"
            if row.seq == state.cursor
            else "A"
            if row.seq == state.mark
            else "/"
            if row.seq in hits
            else " "
        )
        name = f"{row.name} " if row.name else ""
        text = f"{sign}{row.seq:>{digits}} {clock(row.ts)} {row.glyph} {row.what:9} {name}{row.text}"
        line = pad(printable(text[: 8 * cells + 8]), cells)
        if row.seq == state.cursor:
            yield _reverse(line)
        elif row.seq > state.cursor:
            yield paint(line, "dim", colour=colour)
        else:
            style = style_of(row)
            yield paint(line, "" if style == "dim" else style, colour=colour)
    if not shown.rows:
        yield pad("looking …" if shown.is_looking else "nothing to list", cells)


def _tabs(shown: Shown, cells: int, *, colour: bool) -> str:
    state = shown.state
    names = [f"{number} {tab.title()}" for number, tab in enumerate(TABS, 1)]
    if state.tab == "why":
        names.append("b Why")
    at = len(TABS) if state.tab == "why" else TABS.index(state.tab)
    whole = " ".join(f"[{name}]" if index == at else f" {name} " for index, name in enumerate(names))
    text = f"e{state.cursor} {whole}"
    if len(text) > cells:
        text = f"[{names[at]}] e{state.cursor}"
    text += " …" if shown.is_stale else ""
    return _focus(fit(text, cells), state.in_detail, colour=colour)


def _detail(shown: Shown, size: Size, *, colour: bool) -> Iterator[str]:
    if shown.detail is None:
        yield paint(fit("…", size.right), "dim", colour=colour)
        return
    state, height = shown.state, size.detailed
    chosen = min(state.line, len(shown.detail) - 1)
    top = max(0, chosen) // height * height
    lines = list(enumerate(shown.detail[top : top + height], top))
    if state.tab == "context" and not state.in_detail and len(shown.detail) > height > _HEAD:
        # Who steps wants to see what came, not how it all began.
        left_out = len(shown.detail) - height + 1
        note = words((f"⋮ {left_out} lines; Tab scrolls", "dim"))
        lines[_HEAD - 1 :] = [(-1, note), *((-1, line) for line in shown.detail[left_out + _HEAD - 1 :])]
    for at, line in lines:
        if state.in_detail and at == chosen:
            yield _reverse(pad(lay_out(line, size.right, colour=False), size.right))
        else:
            yield lay_out(line, size.right, colour=colour)


def _message(state: State, columns: int, *, colour: bool) -> str:
    if state.prompt:
        ask = {":": "go to: ", "/": "search: ", "f": "kinds: "}[state.prompt]
        typed = printable(state.typed)
        room = columns - len(ask) - 1
        while typed and width(typed) > room:
            typed = typed[1:]
        return fit(f"{ask}{typed}▏", columns)
    return paint(fit(printable(state.message), columns), "yellow", colour=colour)
