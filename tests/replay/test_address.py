"""Addresses: whatever is typed is understood or refused, and what is understood can be written down again."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.replay.inspect.address import HEAD, Address, BadAddress, Point, address, point

_pieces = st.sampled_from(
    [
        *"etcsm^@.-",
        "..",
        ".0",
        "head",
        "label:",
        "0",
        "7",
        "12",
        "-2h",
        "-1w",
        "2026-11-15",
        "T10:00",
        "Z",
        "+02:00",
        "x y",
    ]
)
typed = st.one_of(st.lists(_pieces, max_size=6).map("".join), st.text(max_size=12))
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def read(text: str) -> Point | None:
    try:
        return point(text)
    except BadAddress:
        return None


@given(typed)
def test_a_point_that_is_understood_reads_back_the_same(text: str) -> None:
    found = read(text)
    if found is not None:
        assert point(str(found)) == found


@given(typed)
def test_a_point_has_a_time_or_it_is_refused(text: str) -> None:
    found = read(text)
    if found is not None and found.kind in ("time", "ago"):
        try:
            assert found.time(NOW).utcoffset() == timedelta(0)
        except BadAddress:
            assert found.kind == "time" or found.number > 10**9


@given(typed)
def test_an_address_is_understood_or_refused(text: str) -> None:
    try:
        found = address(text)
    except BadAddress:
        return
    assert found.chat or not text
    assert text.startswith(found.chat)
    assert address(text, is_chat=True) == Address(text)


@given(st.text(min_size=1).filter(lambda text: not text.endswith("^")))
def test_every_name_of_a_checkpoint_can_be_said(name: str) -> None:
    assert point(f"label:{name}") == Point("label", name=name)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("12", Point("seq", 12)),
        ("e12", Point("seq", 12)),
        ("0", Point("seq", 0)),
        ("head", HEAD),
        ("head-5", Point("head", 5)),
        ("t3", Point("turn", 3)),
        ("t3.0", Point("turn", 3, start=True)),
        ("t-1", Point("turn", 1, backwards=True)),
        ("c2^", Point("compaction", 2, earlier=1)),
        ("c-1^^", Point("compaction", 1, backwards=True, earlier=2)),
        ("s3", Point("switch", 3)),
        ("m311", Point("call", 311)),
        ("-2h", Point("ago", 7200, name="-2h")),
        ("2026-11-15", Point("time", name="2026-11-15")),
        ("2026-11-15T10:00:01.5Z", Point("time", name="2026-11-15T10:00:01.5Z")),
        ("before-tools", Point("label", name="before-tools")),
        ("label:t3", Point("label", name="t3")),
        ("c2.0", Point("label", name="c2.0")),
        ("e-5", Point("label", name="e-5")),
        ("t-0", Point("label", name="t-0")),
        ("T3", Point("label", name="T3")),
        ("12abc", Point("label", name="12abc")),
    ],
)
def test_what_a_point_means(text: str, meant: Point) -> None:
    assert point(text) == meant


@pytest.mark.parametrize("text", ["", "^", "^^", "2026-13-01", "2026-11-15T25:00"])
def test_what_is_no_point(text: str) -> None:
    with pytest.raises(BadAddress):
        point(text)


@pytest.mark.parametrize("text", ["-999999w", "0001-01-01T00:00+14:00", "9999-12-31T23:00-14:00"])
def test_a_time_that_no_calendar_has_is_refused_when_it_is_asked_for(text: str) -> None:
    with pytest.raises(BadAddress):
        point(text).time(NOW)


def test_times() -> None:
    assert point("-90s").time(NOW) == NOW - timedelta(seconds=90)
    assert point("2026-11-15T10:00+02:00").time(NOW) == datetime(2026, 11, 15, 8, tzinfo=UTC)
    local = datetime(2026, 11, 15, 10).astimezone()  # what a user means
    assert point("2026-11-15T10:00").time(NOW) == local


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("chat", Address("chat")),
        ("chat@t3", Address("chat", Point("turn", 3))),
        ("chat@t1..t3", Address("chat", Point("turn", 3), Point("turn", 1), is_range=True)),
        ("chat@..t3", Address("chat", Point("turn", 3), None, is_range=True)),
        ("chat@5..", Address("chat", HEAD, Point("seq", 5), is_range=True)),
        ("chat@..", Address("chat", HEAD, None, is_range=True)),
        ("a@b@3", Address("a@b", Point("seq", 3))),
        ("@me", Address("@me")),
        ("", Address("")),
    ],
)
def test_what_an_address_means(text: str, meant: Address) -> None:
    assert address(text) == meant


@pytest.mark.parametrize("text", ["chat@", "chat@^..3", "chat@3..^"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BadAddress):
        address(text)
