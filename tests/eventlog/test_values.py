"""What an event may hold comes back exactly; what it may not hold is refused before anything is written."""

import enum
import math
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workload import events as workload
from chatfold.eventlog import (
    ContextCleared,
    Data,
    Entry,
    Event,
    File,
    Forked,
    InvalidEvent,
    Log,
    MessageAdded,
    ModelReturned,
    Noted,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.eventlog.codec import decode, encode_event, resolve_line
from chatfold.eventlog.line import build_entry_line
from chatfold.eventlog.values import MAX_DEPTH, MAX_DIGITS, check_common, validate_event
from chatfold.testing.strategies import LARGE_TEXT, VOCABULARY, events_of, same, texts, unknown_events, values


def read_back(event: Event) -> Event:
    drafted = encode_event(event)
    blobs = dict(drafted.blobs)
    line = build_entry_line(Entry(1, 0, event, prev="0" * 16), drafted.raw)
    return decode(resolve_line(line, lambda _: b"", blobs.__getitem__)).event


def nested(depth: int, innermost: Any = None) -> Any:
    value = innermost
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("kind", VOCABULARY, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_event_comes_back_as_it_was(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(events_of(kind))
    assert same(read_back(event), event)


class _Role(enum.StrEnum):
    USER = "user"


STRANGE: tuple[Any, ...] = (
    None,
    1,
    True,
    [],
    {},
    (),
    "",
    "user",
    "no role",
    _Role.USER,
    ["x"],
    {"a": 1},
    {1: 1},
    math.nan,
)


@pytest.mark.parametrize("kind", [MessageAdded, ToolCalled, ToolReturned], ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_the_quick_look_at_an_event_sees_what_the_thorough_one_sees(
    kind: type[Event], data: st.DataObject
) -> None:
    """Whatever somebody put in: what the quick one takes for plain is right and needs no escaping, with the same long strings."""
    event = data.draw(events_of(kind))
    for field in data.draw(st.sets(st.sampled_from(kind.__struct_fields__))):
        inner = st.sampled_from(STRANGE) | texts
        strange = inner | st.tuples(inner) | st.tuples(inner.map(Text), inner.map(Text))
        event = msgspec.structs.replace(event, **{field: data.draw(strange)})
    quick: list[str] = []
    if check_common(event, quick):
        thorough: list[str] = []
        assert validate_event(event, thorough) is False
        assert quick == thorough


def test_the_quick_look_is_enough_for_what_agents_say() -> None:
    for event in islice(workload(1), 300):
        assert check_common(event, [])


@given(event=unknown_events())
def test_an_event_of_an_unknown_type_comes_back_byte_for_byte(event: Unknown) -> None:
    assert same(read_back(event), event)


@given(value=values)
def test_every_json_like_value_comes_back_with_its_types(value: Any) -> None:
    assert same(read_back(Noted("n", value)), Noted("n", value))


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        -0.0,
        1.0,
        True,
        2**64,
        10**MAX_DIGITS - 1,
        1 - 10**MAX_DIGITS,
        b"",
        b"\xff" * 2_000_000,
        LARGE_TEXT,
        "\ud800" * 500_000,
        "\x7f" * 400_000,
        {"": {"\x7f": "\x7fref:1:2:3"}},
        nested(MAX_DEPTH),
        nested(MAX_DEPTH, math.inf),
        nested(MAX_DEPTH - 1, "long " * 300),
        ["many texts " * 60_000, "none of them larger than a line " * 20_000],
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_at_the_edge_comes_back(value: Any) -> None:
    assert same(read_back(Noted("n", value)), Noted("n", value))
    in_a_part = MessageAdded("user", (Data("d", value),))
    assert same(read_back(in_a_part), in_a_part)


@pytest.mark.parametrize("run", ["\x7f", "\ud800"])
def test_a_file_next_to_an_odd_run_keeps_its_bytes(run: str) -> None:
    event = MessageAdded("user", (File("image/png", b"\0\x01 not text", "a.png"), Text("plain")))
    line = build_entry_line(Entry(1, 0, event, run=run, prev="0" * 16), encode_event(event).raw)
    assert (decode(line).event, decode(line).run) == (event, run)


# --- what is refused -------------------------------------------------------------------------------------


class Name(str):
    __slots__ = ()


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


REFUSED: dict[str, Callable[[], Any]] = {
    "a tuple": lambda: (1, 2),
    "a set": lambda: {1},
    "a bytearray": lambda: bytearray(b"x"),
    "a key that is no string": lambda: {1: "x"},
    "a key of a subclass": lambda: {Name("x"): 1},
    "a datetime": lambda: datetime.now(UTC),
    "a Decimal": lambda: Decimal("1.0"),
    "a complex number": lambda: 1j,
    "a struct": lambda: Text("x"),
    "a str subclass": lambda: Name("x"),
    "a str enum": lambda: Colour.RED,
    "an int enum": lambda: Level.HIGH,
    "a dict subclass": lambda: OrderedDict(a=1),
    "nesting one too deep": lambda: nested(MAX_DEPTH + 1),
    "nesting far too deep": lambda: nested(100_000),
    "a circle": circular,
    "an int of too many digits": lambda: 10**MAX_DIGITS,
    "a negative int of too many digits": lambda: -(10**MAX_DIGITS),
    "an int of too many digits next to an odd value": lambda: [math.nan, 10**MAX_DIGITS],
    "an int of more digits than Python reads": lambda: -(10**4300),
    "a deep one in a key's value": lambda: {"a": nested(MAX_DEPTH)},
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
def test_a_value_that_would_not_come_back_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidEvent):
        encode_event(Noted("n", make()))
    with pytest.raises(InvalidEvent):
        encode_event(ToolCalled("c", "t", {"x": [make()]}))


def wrong(kind: type[Any], *args: Any, **fields: Any) -> Any:
    """An event that no type checker would let pass; msgspec does."""
    return kind(*args, **fields)


@pytest.mark.parametrize(
    "event",
    [
        wrong(MessageAdded, "user", [Text("a list")]),
        wrong(MessageAdded, "user", ("no part",)),
        wrong(MessageAdded, "user", (Noted("an event is no part"),)),
        wrong(MessageAdded, "narrator", ()),
        wrong(MessageAdded, Name("user"), ()),
        wrong(MessageAdded, "user", (), meta=None),
        wrong(MessageAdded, "user", (wrong(Text, None),)),
        wrong(MessageAdded, "user", (wrong(File, "a/b", "not bytes"),)),
        wrong(MessageAdded, "user", (wrong(File, "a/b", bytearray(b"x")),)),
        wrong(Forked, "parent", "7"),
        wrong(Forked, "parent", 7.0),
        wrong(Forked, "parent", True),
        wrong(Forked, "parent", 10**MAX_DIGITS),
        wrong(Forked, "parent", -(10**MAX_DIGITS)),
        wrong(Forked, "\x7f", 10**MAX_DIGITS),
        wrong(ModelReturned, {"input": -(10**MAX_DIGITS)}),
        wrong(ContextCleared, "", (1, -(10**MAX_DIGITS))),
        wrong(Forked, None, 7),
        wrong(ModelReturned, {"input": 1.5}),
        wrong(ModelReturned, {"input": True}),
        wrong(ModelReturned, {1: 1}),
        wrong(ModelReturned, {"\x7f": 10**MAX_DIGITS}),
        wrong(dict, type="noted"),
        wrong(str, "noted"),
        Text("a part is no event"),
        Unknown("x", b""),
        Unknown("x", b"[]"),
        Unknown("x", b'{"type":"y"}'),
        Unknown("x", b'{"type":"x"}\n'),
        Unknown("x", b'{"type":"x"} '),
        Unknown("x", b' {"type":"x"}'),
        Unknown("x", b'{"type":"x"}\r'),
        Unknown("x", b'{"type":"x"},"batch":"1/2"'),
        Unknown("x", b'{"type":"x","a":"\x7fref:1:2:3"}'),
        Unknown("x", b'{"type":"x","a":"\xff"}'),
        Unknown("x", b'{"type":"x","a":' + b"[" * 5000 + b"]" * 5000 + b"}"),
        Unknown("x", b'{"type":"x","a":' + b"[" * 600 + b"]" * 600 + b"}"),
        Unknown("x", b'{"type":"x","a":"' + b"a" * 2_000_000 + b'"}'),
        wrong(Unknown, "x", '{"type":"x"}'),
        wrong(Unknown, "x", bytearray(b'{"type":"x"}')),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_that_would_not_come_back_is_refused(event: Any) -> None:
    with pytest.raises(InvalidEvent):
        encode_event(event)


def test_an_event_too_large_even_without_its_long_texts_is_refused() -> None:
    with pytest.raises(InvalidEvent):
        encode_event(Noted("n", ["short text"] * 200_000))


async def test_nothing_is_written_of_a_batch_with_an_invalid_event(log: Log) -> None:
    before = (await log.append("chat", Noted("good")))[-1]
    with pytest.raises(InvalidEvent):
        await log.append("chat", Noted("good too"), Noted("bad", {1, 2}))
    assert (await log.head("chat")).link == before.sum
    with pytest.raises(InvalidEvent):
        await log.append("new", Noted("bad", (1, 2)))
    assert [key async for key in log.chats()] == ["chat"]


@pytest.mark.parametrize("name", ["", "x" * 1025, 7, b"bytes", Name("subclass")])
async def test_an_id_or_run_that_is_no_short_string_is_refused(log: Log, name: Any) -> None:
    with pytest.raises(InvalidEvent):
        await log.append("chat", Noted("n"), id=name)
    with pytest.raises(InvalidEvent):
        await log.append("chat", Noted("n"), run=name)
    assert (await log.head("chat")).seq == 0


def test_msgspec_alone_would_have_altered_these() -> None:
    """Why there is a check of our own: the day this fails, it may be simpler."""
    assert msgspec.json.encode(Noted("n", math.nan)) == b'{"type":"noted","name":"n","data":null}'
    assert msgspec.json.encode(Noted("n", (1,))) == msgspec.json.encode(Noted("n", [1]))
