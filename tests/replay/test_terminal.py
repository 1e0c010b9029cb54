"""Text that cannot steer a terminal, columns that fit it, and JSON that any program reads."""

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.projections.shapes.values import to_json_value
from chatfold.replay.inspect.serial import json_lines, json_text
from chatfold.replay.inspect.times import ago, clock, iso
from chatfold.replay.terminal import (
    Cell,
    columns,
    fit,
    join_by_tabs,
    pad,
    paint,
    plural,
    printable,
    printable_lines,
    short,
    wants_colour,
    width,
)
from chatfold.testing.strategies import values

texts = st.text(st.characters(exclude_categories=()), max_size=30)
BENIGN = "\u200c\u200d\xa0\u202f\u3000"


def is_safe(text: str) -> bool:
    return all(char.isprintable() or char in BENIGN for char in text)


@given(texts)
def test_what_is_printed_cannot_steer(text: str) -> None:
    shown = printable(text)
    assert is_safe(shown)
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


@given(texts)
def test_nothing_is_lost(text: str) -> None:
    """What was escaped can be told from what is printed, if there was no backslash before."""
    if "\\" not in text:
        odd = [char for char in text if not is_safe(char)]
        assert printable(text).count("\\") == len(odd)


def test_many_odd_characters_are_shown_as_few_are() -> None:
    many = "".join(map(chr, range(0x200)))
    assert printable(many) == "".join(map(printable, many))
    assert is_safe(printable(many))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\r", "a\\nb\\r"),
        ("\u202eevil", "\\u202eevil"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud800", "\\ud800"),
        ("\x7f\x00\u2028", "\\x7f\\x00\\u2028"),
        ("héllo 日本語 \U0001f600 \\n", "héllo 日本語 \U0001f600 \\n"),
        ("はい\u3000そう", "はい\u3000そう"),
        ("क्\u200dष", "क्\u200dष"),
    ],
)
def test_what_is_shown_instead(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_stay_lines() -> None:
    assert printable_lines("a\tb\r\nc\x0b\n") == ["a   b", "c\\x0b", ""]


@given(texts, st.integers(0, 40))
def test_a_text_fits(text: str, cells: int) -> None:
    text = printable(text)
    assert width(fit(text, cells)) <= cells
    assert width(pad(text, cells)) == cells
    assert width(pad(text, cells, right=True)) == cells
    if width(text) <= cells:
        assert fit(text, cells) == text


cells = st.builds(Cell, texts, st.integers(0, 20), st.sampled_from(["", "red", "dim"]), st.booleans())


@given(st.lists(cells, min_size=1, max_size=5), st.integers(1, 60), st.booleans())
def test_a_row_is_not_wider_than_the_terminal(row: list[Cell], wide: int, colour: bool) -> None:
    shown = columns(row, wide, colour=colour)
    bare = shown.replace("\x1b[31m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert width(bare.rstrip()) <= wide
    assert is_safe(bare)
    assert bare.rstrip() == columns(row, wide, colour=False)


@given(st.lists(cells, min_size=1, max_size=5))
def test_a_pipe_is_given_every_field_whole(row: list[Cell]) -> None:
    fields = join_by_tabs(row).split("\t")
    assert fields == [printable(cell.text) for cell in row]


def test_a_style_is_taken_back_and_blanks_have_none() -> None:
    assert paint("x", "red", colour=True) == "\x1b[31mx\x1b[0m"
    assert paint("x", "red", colour=False) == "x"
    assert paint("  ", "red", colour=True) == "  "
    assert paint("", "red", colour=True) == ""


@given(st.integers(0, 2**63 - 1) | st.integers(0, 999_999))
def test_a_short_number_is_short_and_near(number: int) -> None:
    text = short(number)
    assert len(text) <= 5
    size = 1000 ** ("kMGTPE".find(text[-1]) + 1)
    assert 0 <= number - Fraction(text.rstrip("kMGTPE")) * size < size


def test_numbers() -> None:
    assert [short(number) for number in (0, 950, 12_449, 99_999, 183_112, 1_250_000)] == [
        "0",
        "950",
        "12.4k",
        "99.9k",
        "183k",
        "1.2M",
    ]
    assert [plural(number, "turn") for number in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]


class Stream:
    def __init__(self, *, is_terminal: bool) -> None:
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize(
    ("environment", "wish", "is_terminal", "wanted"),
    [
        ({"TERM": "xterm"}, "auto", True, True),
        ({"TERM": "xterm"}, "auto", False, False),
        ({"TERM": "dumb"}, "auto", True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, "auto", True, False),
        ({"NO_COLOR": ""}, "auto", True, True),
        ({"FORCE_COLOR": "1"}, "auto", False, True),
        ({"FORCE_COLOR": "0"}, "auto", True, False),
        ({"NO_COLOR": "1"}, "always", False, True),
        ({"FORCE_COLOR": "1"}, "never", True, False),
    ],
)
def test_colour(
    environment: dict[str, str], wish: str, is_terminal: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(wish, Stream(is_terminal=is_terminal)) == wanted


# --- JSON ------------------------------------------------------------------------------------------------


@given(values)
def test_json_is_on_one_line_safe_and_the_same_to_a_program(value: Any) -> None:
    written = json_text({"value": value})
    assert all(char.isprintable() for char in written)
    read = json.loads(written)["value"]
    assert read == json.loads(json_lines({"value": value}))["value"]
    if not halves(value):
        assert read == to_json_value(value)


def halves(value: Any) -> bool:
    """Is half a character somewhere in it? Those come back as they are; providers are given another sign for them."""
    return any(0xD800 <= ord(char) < 0xE000 for char in repr(value)) or "\\ud" in repr(value)


def test_what_json_has_no_word_for() -> None:
    assert json_text({"a": [math.nan, math.inf], "b": "\ud800", "c": 2**70, "d": b"\xff"}) == (
        '{"a":[null,null],"b":"\\ud800","c":1180591620717411303424,"d":"/w=="}'
    )


# --- times -----------------------------------------------------------------------------------------------


@given(st.integers(-(2**70), 2**70))
def test_every_number_can_be_shown_as_a_time(ts: int) -> None:
    assert iso(ts)
    assert len(clock(ts)) == 8
    assert ago(ts)


def test_times() -> None:
    assert iso(1_738_713_600_123) == "2025-02-05T00:00:00.123Z"
    from datetime import UTC, datetime

    now = datetime(2025, 2, 6, 1, tzinfo=UTC)
    then = [0, 59_000, 60_000, 3_600_000, 25 * 3_600_000, 400 * 86_400_000]
    assert [ago(round(now.timestamp() * 1000) - past, now) for past in then] == [
        "just now",
        "just now",
        "1 min ago",
        "1 h ago",
        "1 d ago",
        "1 y ago",
    ]
    assert ago(round(now.timestamp() * 1000) + 3_600_000, now) == "2025-02-06T02:00:00.000Z"
