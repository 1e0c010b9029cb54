"""Rows: whatever an event is and holds, a list has a line for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    Compacted,
    Entry,
    Event,
    File,
    Lost,
    MessageAdded,
    ModelReturned,
    Noted,
    RunFinished,
    SendFailed,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.replay.inspect.entries import describe, is_failure, kind_name, row
from chatfold.testing.strategies import VOCABULARY, events, events_of


@given(st.sampled_from((*VOCABULARY, Unknown)).flatmap(events_of), st.integers(1, 60))
def test_every_event_has_a_row_of_one_line(event: Event, most: int) -> None:
    short = row(Entry(3, 5, event, "run", "id"), 2, "c1", most=most)
    assert len(short.text) <= most
    assert " ".join(short.text.split()) == short.text.strip()
    assert (short.seq, short.ts, short.turn, short.run, short.id, short.name) == (3, 5, 2, "run", "id", "c1")
    assert short.kind == kind_name(event)
    assert short.what
    assert len(short.glyph) == 1
    whole = row(Entry(3, 5, event))
    assert whole.text == describe(event)
    assert whole.failed == is_failure(event) == (whole.glyph == "✗")


@given(events(), st.integers(1, 200))
def test_the_beginning_of_what_is_told_is_the_beginning_of_the_whole(event: Event, most: int) -> None:
    """So that of 50 MB no more is looked at than is shown."""
    if isinstance(event, MessageAdded) and len(event.parts) == 1:
        assert describe(event)[:most].startswith(describe(event, most)[:most])


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (MessageAdded("user", (Text("a\n b"), Text("c"))), "a b c"),
        (MessageAdded("assistant", (Text("a"),), origin="internal"), "(internal) a"),
        (ToolCalled("c", "read", {"path": "x"}), 'read {"path":"x"}'),
        (ToolCalled("c", "read"), "read"),
        (ToolReturned("c", (File("image/png", b"123", "x.png"),)), "[file x.png, image/png, 3 bytes]"),
        (ModelReturned({"input_tokens": 5, "output_tokens": 2}, "stop"), "stop, 5 → 2 tokens"),
        (Compacted(2, 9, 8, "in short", "tokens"), "8 messages of e2..e9 (tokens): in short"),
        (Unknown("new", b'{"type":"new"}'), 'new {"type":"new"}'),
    ],
)
def test_what_is_told(event: Event, text: str) -> None:
    assert row(Entry(1, 0, event), most=100).text == text


@pytest.mark.parametrize(
    "event",
    [
        ToolReturned("c", failed=True),
        SendFailed("s"),
        Lost(),
        ModelReturned(error="overloaded"),
        RunFinished("limit"),
        Noted("compaction_failed"),
    ],
)
def test_failures(event: Event) -> None:
    assert is_failure(event)
    assert row(Entry(1, 0, event), most=10).glyph == "✗"


@pytest.mark.parametrize("event", [ToolReturned("c"), ModelReturned(), RunFinished("done"), Noted("x")])
def test_no_failures(event: Event) -> None:
    assert not is_failure(event)
