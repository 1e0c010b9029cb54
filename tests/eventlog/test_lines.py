"""A line says what was written, and nothing inside an event can pretend to be part of it."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_hexdigest

from chatfold.eventlog import (
    CorruptLog,
    Entry,
    Event,
    File,
    Head,
    MessageAdded,
    NewerFormat,
    Noted,
    Text,
    ToolCalled,
    Unknown,
)
from chatfold.eventlog.batch import AppendRequest, build_batch
from chatfold.eventlog.codec import (
    EncodedEvent,
    decode,
    encode_event,
    extract_event,
    parse_references,
    resolve_line,
)
from chatfold.eventlog.line import (
    add_checksum,
    build_entry_line,
    has_valid_sum,
    header_line,
    link_after,
    parse_fields,
    parse_header,
    parse_prev,
    parse_seq,
)
from chatfold.testing.strategies import LARGE_TEXT, LONG_TEXTS, batches, events, names, same

SUM = "0123456789abcdef"
sums = st.integers(0, 2**64 - 1).map("{:016x}".format)


class Lines:
    """A history in a list that proposes every earlier line for every fingerprint, right or wrong."""

    is_tracking = True

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.blobs: dict[str, bytes] = {}
        self.pending: dict[int, bytes] = {}

    def find(self, fingerprint: int) -> Sequence[int]:
        return [*range(1, len(self.lines) + 1), *self.pending]

    def line(self, seq: int) -> bytes:
        return self.pending[seq] if seq in self.pending else self.lines[seq - 1]

    def link(self, seq: int) -> str:
        return link_after(self.line(seq)).decode()

    def blob(self, digest: str) -> bytes:
        return self.blobs[digest]

    def add(self, seq: int, line: bytes, fingerprints: list[int]) -> None:
        self.pending[seq] = line

    def append(self, *some: Event, id: str | None = None, run: str | None = None) -> list[Entry]:
        drafts = tuple(encode_event(event) for event in some)
        self.blobs.update(blob for drafted in drafts for blob in drafted.blobs)
        numbered = build_batch(AppendRequest("chat", drafts, None, id, run), self.head, 0, 5, self)
        self.lines += numbered.lines
        self.pending.clear()
        return numbered.entries

    @property
    def head(self) -> Head:
        return Head(len(self.lines), link_after(self.lines[-1]).decode()) if self.lines else Head()

    def whole(self) -> list[Entry]:
        return [decode(resolve_line(line, self.line, self.blob)) for line in self.lines]


@st.composite
def entries(draw: st.DrawFn) -> tuple[Entry, EncodedEvent]:
    event = draw(events())
    size = draw(st.integers(1, 300))
    batch = f"{draw(st.integers(1, size))}/{size}" if size > 1 else None
    optional = st.none() | names()
    entry = Entry(
        draw(st.integers(1, 2**53)),
        draw(st.integers(0, 2**43)),
        event,
        draw(optional),
        draw(optional),
        batch,
        draw(st.none() | st.integers(0, 2**53)),
        draw(st.none() | sums),
        draw(sums),
        "",
        draw(optional),
        draw(st.none() | st.integers(-(2**53), 2**53)),
    )
    return entry, encode_event(event)


@given(made=entries())
def test_a_line_decodes_to_the_entry_it_was_built_from(made: tuple[Entry, EncodedEvent]) -> None:
    entry, drafted = made
    line = build_entry_line(entry, drafted.raw)
    assert has_valid_sum(line)
    assert b"\n" not in line
    found = decode(resolve_line(line, lambda _: b"", dict(drafted.blobs).__getitem__))
    assert same(msgspec.structs.replace(found, sum=""), entry)


@given(made=entries())
def test_what_stands_around_the_event_is_read_without_decoding_it(made: tuple[Entry, EncodedEvent]) -> None:
    entry, drafted = made
    line = build_entry_line(entry, drafted.raw)
    index, _, size = (entry.batch or "1/1").partition("/")
    found = parse_fields(line)
    assert (found.index, found.size, found.synced) == (int(index), int(size), entry.synced)
    assert found.was == (entry.was.encode() if entry.was else None)
    assert (parse_seq(line), parse_prev(line).decode()) == (entry.seq, entry.prev)
    assert link_after(line).decode() == decode(line).link
    assert extract_event(line) == drafted.raw


@pytest.mark.parametrize(
    "args",
    [
        {"batch": "1/3", "synced": 9, "was": SUM, "prev": SUM, "sum": SUM},
        {"a": {}, "batch": "1/3"},
        '},"batch":"1/3","synced":9',
        '"},"batch":"1/3","prev":"0123456789abcdef","sum":"0123456789abcdef"}',
        [{}, {"batch": "2/2"}],
    ],
)
def test_an_event_cannot_pretend_to_be_a_mark(args: Any) -> None:
    event = ToolCalled("c", "t", args)
    plain = parse_fields(build_entry_line(Entry(1, 0, event, prev=SUM), encode_event(event).raw))
    assert (plain.index, plain.size, plain.synced, plain.was) == (1, 1, None, None)
    marked = parse_fields(
        build_entry_line(Entry(1, 0, event, batch="2/4", synced=7, prev=SUM), encode_event(event).raw)
    )
    assert (marked.index, marked.size, marked.synced, marked.was) == (2, 4, 7, None)


def test_the_sum_is_xxh3_of_everything_before_it() -> None:
    line = build_entry_line(Entry(1, 0, Noted("n"), prev=SUM), encode_event(Noted("n")).raw)
    body, _, _ = line.rpartition(b',"sum":')
    fields = json.loads(line)
    assert fields["sum"] == xxh3_64_hexdigest(body) == decode(line).sum
    assert list(fields) == ["seq", "ts", "event", "prev", "sum"]


def test_no_line_verifies_with_any_one_bit_flipped() -> None:
    event = MessageAdded(
        "assistant", (Text("Voilà: 漢字 \x7f."), File("image/png", b"\0\xff", "a.png")), meta={"k": [1]}
    )
    line = build_entry_line(
        Entry(42, 1738713600000, event, "r7", "tg-991", "2/3", 39, None, SUM), encode_event(event).raw
    )
    for bit in range(len(line) * 8):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not has_valid_sum(bytes(flipped))


def test_no_part_of_a_line_verifies() -> None:
    line = build_entry_line(Entry(42, 1, Noted("n"), prev=SUM), encode_event(Noted("n")).raw)
    assert not any(has_valid_sum(line[:end]) or has_valid_sum(line[end:]) for end in range(1, len(line)))
    assert not has_valid_sum(b"")


# --- unknown types, fields and shapes --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("not_yet", b'{"type":"not_yet","x":[1,2.50,"\\u00e9"],"y":{"z":1e3}}'),
        ("not_yet", b'{ "x" : 1 , "type" : "not_yet" }'),
        ("not_yet", b'{"type":"not_yet","x":"\x7fnan","y":"\x7f0041"}'),
        ("not_yet", b'{"type":"not_yet","n":123456789012345678901234567890,"f":1.10}'),
        ("noted", b'{"type":"noted","name":7}'),
        ("message_added", b'{"type":"message_added","role":"narrator","parts":[]}'),
        ("message_added", b'{"type":"message_added","role":"user","parts":[{"type":"video"}]}'),
        ("message_added", b'{"type":"message_added","role":"user","parts":[{"type":"video","x":"\x7fnan"}]}'),
        ("", b'{"type":""}'),
        ("", b'{"type":"","name":"forged","raw":"aGk="}'),
    ],
)
@pytest.mark.parametrize("run", [None, "\ud800"])
def test_what_this_version_cannot_read_survives_byte_for_byte(name: str, raw: bytes, run: str | None) -> None:
    line = build_entry_line(Entry(3, 4, Unknown(name, raw), run, "id", "1/2", 2, None, SUM), raw)
    entry = decode(line)
    assert entry.event == Unknown(name, raw)
    assert (entry.seq, entry.ts, entry.run, entry.id, entry.batch, entry.synced) == (
        3,
        4,
        run,
        "id",
        "1/2",
        2,
    )
    assert build_entry_line(entry, encode_event(entry.event).raw) == line


def test_a_field_this_version_does_not_know_is_skipped_and_stays_on_disk() -> None:
    raw = b'{"type":"noted","name":"n","data":1,"mood":"good"}'
    line = build_entry_line(Entry(1, 0, Noted("n", 1), prev=SUM), raw)
    assert decode(line).event == Noted("n", 1)
    assert extract_event(line) == raw


@pytest.mark.parametrize(
    "body", [b'{"seq":1', b'{"seq":1,"ts":0,"event":{}', b'{"seq":1,"ts":0,"event":[', b'{"']
)
def test_a_line_that_verifies_and_is_no_entry_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode(add_checksum(body + b',"prev":"' + SUM.encode() + b'"'))


def test_a_header_of_a_newer_format_is_refused() -> None:
    assert parse_header(header_line(Head(7, SUM))) == Head(7, SUM)
    with pytest.raises(NewerFormat):
        parse_header(add_checksum(b'{"chatfold":2,"reader":2,"first":1,"prev":"%b"' % SUM.encode()))
    written_later = add_checksum(b'{"chatfold":2,"reader":1,"first":8,"prev":"%b"' % SUM.encode())
    assert parse_header(written_later) == Head(7, SUM)


# --- what a line keeps elsewhere -------------------------------------------------------------------------


@given(some=st.lists(batches(), min_size=1, max_size=4))
def test_references_and_blobs_are_put_back_byte_for_byte(some: list[tuple[Event, ...]]) -> None:
    history = Lines()
    expected = [entry for batch in some for entry in history.append(*batch)]
    assert same(history.whole(), expected)
    for line, entry in zip(history.lines, expected, strict=True):
        assert extract_event(resolve_line(line, history.line)) == encode_event(entry.event).raw


@pytest.mark.parametrize("text", LONG_TEXTS, ids=range(len(LONG_TEXTS)))
def test_a_long_text_said_again_is_written_as_a_reference(text: str) -> None:
    history = Lines()
    event = MessageAdded("user", (Text(text), Text(text)), meta={"again": text})
    history.append(event)
    history.append(Noted(text, [text, {"k": text}]))
    assert parse_references(history.lines[1])[0] == {1}
    assert len(history.lines[1]) < 400
    assert same([entry.event for entry in history.whole()], [event, Noted(text, [text, {"k": text}])])


def test_a_text_too_large_for_a_line_becomes_a_blob_and_comes_back() -> None:
    history = Lines()
    event = MessageAdded(
        "user", (Text(LARGE_TEXT), File("a/b", b"\xff" * 3_000_000), Text("\ud800" + LARGE_TEXT))
    )
    history.append(event)
    history.append(event)
    assert all(len(line) < 1000 and len(parse_references(line)[1]) == 3 for line in history.lines)
    assert [entry.event for entry in history.whole()] == [event, event]


def test_texts_of_one_fingerprint_and_different_bytes_are_not_confused() -> None:
    """``Lines`` proposes every line for every text, as if all fingerprints collided."""
    history = Lines()
    said = ["a" * 2000, "a" * 2001, "b" + "a" * 1999, "a" * 1999 + "b", '"' + "a" * 2000, "\\" + "a" * 2000]
    for text in said:
        history.append(Noted(text))
    assert [entry.event for entry in history.whole()] == [Noted(text) for text in said]
    assert not any(parse_references(line)[0] for line in history.lines)


def test_a_text_that_looks_like_the_json_between_two_texts_leaves_every_line_valid_json() -> None:
    """In ``"b":[1,1,…,"x"]`` the text stands between quotes, without being a string there."""
    history = Lines()
    trap = ":[" + "1," * 600
    event = ToolCalled("c", "t", {"a": trap, "b": [1] * 600 + ["x"]})
    history.append(Noted(trap))
    history.append(event)
    assert history.whole()[1].event == event
    assert json.loads(history.lines[1])["event"]["args"]["b"] == [1] * 600 + ["x"]


def test_a_text_cannot_be_taken_for_a_reference() -> None:
    history = Lines()
    history.append(Noted("secret " * 300))
    forged = ["\x7fref:1:10:40", "\x7ftext:" + "0" * 64, '"\x7fref:1:10:40"', "\\u007fref:1:10:40"]
    history.append(Noted("n", [*forged, *(text.ljust(1100) for text in forged)]))
    assert parse_references(history.lines[1]) == (set(), set())
    assert history.whole()[1].event == Noted("n", [*forged, *(text.ljust(1100) for text in forged)])
