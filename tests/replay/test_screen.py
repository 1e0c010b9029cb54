"""A frame is as high as the terminal and no wider, whatever is said in it, and says where the cursor is without colours."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatfold.replay.inspect.entries import Row
from chatfold.replay.inspect.sizes import Bucket, Chart, Mark
from chatfold.replay.render.line import CAP, Line, body, lay_out, row, words, wrap, wrap_lines
from chatfold.replay.stepper.help import HELP
from chatfold.replay.stepper.screen import Shown, Size, frame, top_of
from chatfold.replay.stepper.state import TABS, State
from chatfold.replay.terminal import Cell, Style, printable, width

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_COLUMN = re.compile(r"\x1b\[(\d+)G")
_HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b31mred",
    "\u202egnirts",
    "\ud800",
    "a\r\nb\tc\x00\x7f",
    "漢字" * 40,
    "👨‍👩‍👧 é́́",
    "x" * 5000,
]
texts = st.one_of(st.text(max_size=60), st.sampled_from(_HOSTILE))
seqs = st.integers(0, 99)
rows = st.builds(
    Row,
    seq=st.integers(1, 99),
    ts=st.integers(-(1 << 60), 1 << 60),
    turn=seqs,
    kind=texts,
    what=texts,
    glyph=st.sampled_from("▸●→←◆⇄✗"),
    text=texts,
    failed=st.booleans(),
    name=st.sampled_from(["", "c2"]),
)
states = st.builds(
    State,
    chat=texts,
    cursor=seqs,
    end=st.just(99),
    seen=seqs,
    tab=st.sampled_from([*TABS, "why"]),
    mark=st.none() | seqs,
    kinds=st.tuples(texts),
    errors=st.booleans(),
    query=texts,
    hits=st.lists(seqs).map(tuple),
    in_detail=st.booleans(),
    line=st.integers(0, 40),
    prompt=st.sampled_from(["", ":", "/", "f"]),
    typed=texts,
    message=texts,
    help=st.booleans(),
    following=st.booleans(),
)
styles: st.SearchStrategy[Style] = st.sampled_from(["", "dim", "red"])
cells = st.builds(Cell, texts, st.integers(0, 30), styles, st.booleans())
lines: st.SearchStrategy[Line] = st.one_of(
    st.builds(lambda text, style, seq: words((text, style), seq=seq), texts, styles, seqs),
    st.builds(row, st.lists(cells, max_size=5)),
)
pictures = st.builds(
    lambda sizes: Chart(
        tuple(Bucket(at, at, size // 2, size, size) for at, size in enumerate(sizes, 1)),
        (Mark(1, "compacted", 1, 9, 1),) if sizes else (),
        9,
        max(sizes, default=0),
    ),
    st.lists(st.integers(0, 1 << 50), max_size=99),
)
shown = st.builds(
    Shown,
    states,
    texts,
    seqs,
    seqs,
    st.lists(rows, max_size=40).map(tuple),
    st.booleans(),
    st.none() | st.lists(lines, max_size=50),
    st.booleans(),
    st.none() | pictures,
)


def plain(line: str) -> str:
    """What a terminal shows of it; the second pane must begin where it says."""
    text = _STYLE.sub("", line)
    while found := _COLUMN.search(text):
        assert width(text[: found.start()]) == int(found[1]) - 1
        text = text[: found.start()] + text[found.end() :]
    return text


@given(shown, st.integers(1, 140), st.integers(1, 40), st.booleans())
def test_a_frame_fits_and_holds_nothing_that_steers(
    what: Shown, columns: int, rows: int, colour: bool
) -> None:
    made = frame(what, Size(columns, rows), colour=colour)
    assert len(made) == rows
    for line in made:
        text = plain(line)
        assert width(text) <= columns
        assert printable(text) == text


@given(shown, st.integers(1, 140), st.integers(1, 40))
def test_without_colour_it_says_the_same(what: Shown, columns: int, rows: int) -> None:
    size = Size(columns, rows)
    assert list(map(plain, frame(what, size))) == list(map(plain, frame(what, size, colour=False)))
    assert set(_STYLE.findall("".join(frame(what, size, colour=False)))) <= {"\x1b[7m", "\x1b[0m"}


_ROWS = tuple(Row(seq, 0, 1, "message_added", "user", "▸", f"text {seq}") for seq in range(1, 10))


@pytest.mark.parametrize("columns", [20, 99, 100, 200])
def test_the_cursor_has_a_sign_and_is_reversed(columns: int) -> None:
    made = frame(Shown(State("chat", 3, 9), rows=_ROWS), Size(columns, 24), colour=False)
    marked = [line for line in made if "▶" in line]
    assert len(marked) == 1
    assert marked[0].startswith("\x1b[7m▶3 ")


def test_a_narrow_terminal_has_one_pane_and_tab_has_the_other() -> None:
    detail = [words("what the model sees")]
    for in_detail in (False, True):
        state = State("chat", 3, 9, in_detail=in_detail)
        text = "\n".join(map(plain, frame(Shown(state, rows=_ROWS, detail=detail), Size(60, 16))))
        assert ("text 3" in text, "what the model sees" in text) == (not in_detail, in_detail)
    wide = "\n".join(map(plain, frame(Shown(State("chat", 3, 9), rows=_ROWS, detail=detail), Size(120, 24))))
    assert "text 3" in wide
    assert "what the model sees" in wide


def test_who_does_not_scroll_sees_the_newest_of_a_long_context() -> None:
    detail = [words(f"item {number}") for number in range(100)]
    made = "\n".join(map(plain, frame(Shown(State("chat", 3, 9), detail=detail), Size(120, 24))))
    assert "item 0\n" in made
    assert "item 99\n" in made
    assert "⋮ 83 lines" in made
    chosen = State("chat", 3, 9, in_detail=True, line=50)
    made = "\n".join(map(plain, frame(Shown(chosen, detail=detail), Size(120, 24))))
    assert "item 50\n" in made.replace(" " * 20, "").replace("  ", "").replace(" \n", "\n")


def test_the_timeline_says_where_the_cursor_is_and_where_it_was_compacted() -> None:
    known = Chart(
        tuple(Bucket(at, at, at, at, at) for at in range(1, 9)), (Mark(4, "compacted", 1, 9, 1),), 8, 8
    )
    made = list(map(plain, frame(Shown(State("chat", 2, 8), picture=known), Size(80, 24))))
    assert made[1] == "▁┃▃▄▅▆▇█ ▲8"
    assert made[2].rstrip() == "   ◆"


@given(st.integers(-5, 200), st.integers(0, 100), st.integers(0, 100), st.integers(1, 50))
def test_the_list_shows_the_cursor_and_wastes_no_line(top: int, cursor: int, end: int, height: int) -> None:
    cursor = min(cursor, end)
    first = top_of(top, cursor, end, height)
    assert first == 1 or first + height - 1 <= end
    assert first <= max(1, cursor) < first + height
    assert top_of(first, cursor, end, height) == first


@given(texts.map(printable), st.integers(1, 30))
@example("漢", 1)
def test_what_is_wrapped_is_all_there_and_fits(text: str, cells: int) -> None:
    made = wrap(text, cells)
    assert all(width(line) <= cells for line in made)
    assert "".join(made) == "".join(char for char in text if width(char) <= cells)


@given(lines, st.integers(1, 30))
def test_what_is_laid_out_fits(line: Line, cells: int) -> None:
    assert width(lay_out(line, cells, colour=False)) <= cells


def test_a_text_is_wrapped_at_blanks_if_it_can_be() -> None:
    assert wrap("the quick brown fox", 10) == ("the quick ", "brown fox")
    assert wrap("unbreakable words", 6) == ("unbrea", "kable ", "words")


def test_both_panes_are_seen_on_80_by_24_and_the_footer_ends_in_help_and_quit() -> None:
    detail = [words("what the model sees")]
    made = list(map(plain, frame(Shown(State("chat", 3, 9), rows=_ROWS, detail=detail), Size(80, 24))))
    assert any("text 3" in line for line in made)
    assert any("what the model sees" in line for line in made)
    for columns in (60, 80, 100, 200):
        made = frame(Shown(State("chat", 3, 9), rows=_ROWS, detail=detail), Size(columns, 24), colour=False)
        assert made[-1].endswith("? help · q quit")


def test_a_long_body_is_capped_and_says_so() -> None:
    made = list(wrap_lines([body("x" * (CAP + 1))], 64))
    assert len(made) == CAP // 64 + 1
    assert "64 Ki" in made[-1].text
    assert len(list(wrap_lines([body("x" * CAP)], 64))) == CAP // 64


def test_the_help_is_seen_whole_on_80_by_24() -> None:
    lines = HELP.splitlines()
    assert len(lines) <= 20
    assert max(map(width, lines)) <= 80
