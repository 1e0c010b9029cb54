"""Event <-> JSON: how an event becomes the bytes of a line, and a line the entry it was. No I/O.

Texts and contents that a line keeps elsewhere, in an earlier line or in a blob, are put back before its JSON is decoded.
"""

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from chatfold.eventlog.errors import CorruptLog, InvalidEvent
from chatfold.eventlog.events import Compacted, Entry, Event, MessageAdded, ToolReturned, Unknown
from chatfold.eventlog.line import (
    DECODE_ERRORS,
    MAX_LINE,
    build_entry_line,
    decode_error,
    is_tombstone,
    parse_count,
    parse_seq,
    try_parse_seq,
)
from chatfold.eventlog.values import (
    DEL,
    Offload,
    check_common,
    collect_long_strings,
    escape,
    make_converter,
    to_builtins,
    unescape,
    validate_event,
)

MAX_EVENT = MAX_LINE - (1 << 14)
"""Bytes of an event's JSON: leaves room for the rest of the line, a run and an id included."""
MAX_NAME = 1024
"""Characters in a run, an id or a key."""
_KEY_ROOM = 6 * MAX_NAME
"""Bytes that a key takes at most: JSON writes a control character with six."""

DEL_BYTE = ord(DEL)
"""A line without this byte holds all that it says."""

_NO_TIME = 10**18
_encode = msgspec.json.Encoder().encode
_decode_entry = msgspec.json.Decoder(Entry).decode
_decode_entries = msgspec.json.Decoder(Entry).decode_lines
_decode_event = msgspec.json.Decoder(Event).decode
_decode_any = msgspec.json.Decoder().decode
_to_entry = make_converter(Entry)


# --- encoding --------------------------------------------------------------------------------------------


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event ready to be numbered: its JSON, and what of it may be written elsewhere.

    ``event`` is a copy. The caller may go on with the dicts and lists that were passed in, and what is returned is still
    what was written.
    """

    event: Event
    raw: bytes
    texts: tuple[str, ...] = ()  # its long strings, as they stand in ``raw``
    blobs: tuple[tuple[str, bytes], ...] = ()  # (sha256, content) that must be kept before the line
    key: str | None = None
    said_at: int | None = None


def is_name(value: object) -> bool:
    """Can this be a run, an id or a key?"""
    return type(value) is str and 0 < len(value) <= MAX_NAME


def is_time(value: object) -> bool:
    """Can this be a ``said_at``?"""
    return type(value) is int and abs(value) < _NO_TIME


def encode_event(event: Event, most: int = MAX_EVENT) -> EncodedEvent:
    """Checks and encodes. Raises InvalidEvent for what could not be read back exactly. ``most``: bytes of its JSON."""
    if type(event) is Unknown:
        return _encode_unknown(event, most)
    texts: list[str] = []
    odd = False
    is_common = check_common(event, texts)
    if not is_common:
        texts.clear()
        odd = validate_event(event, texts)
    try:
        raw = _encode(event) if not odd else b""
    except UnicodeEncodeError:  # a lone surrogate somewhere
        raw = b""
    except ValueError as error:  # an integer of more digits than Python converts
        raise InvalidEvent(f"{type(event).__name__}: {error}") from None
    if raw and DEL_BYTE not in raw and len(raw) <= most:
        # Nearly all events are messages and results whose meta is empty and whose parts cannot change.
        if is_common and type(event) is MessageAdded:
            own: Event = MessageAdded(event.role, event.parts, event.origin)
        elif is_common and type(event) is ToolReturned:
            own = ToolReturned(event.call, event.parts, event.failed)
        else:
            own = _decode_event(raw)
        if (
            type(event) is Compacted
        ):  # a summary repeats nothing, and to make sure the whole history would be read
            texts = []
        return EncodedEvent(own, raw, tuple(texts) if texts else ())
    return _encode_escaped(event, most)


def _copy(value: Any) -> Any:
    match value:
        case dict():
            return {key: _copy(item) for key, item in value.items()}
        case list():
            return [_copy(item) for item in value]
        case tuple():
            return tuple(map(_copy, value))
        case msgspec.Struct():
            return type(value)(*[_copy(getattr(value, name)) for name in value.__struct_fields__])
    return value


def encode_named(event: Event, key: str | None, said_at: int | None = None) -> EncodedEvent:
    """The same of an event that has a key, or was said at another time than it is written."""
    if not (key is None or is_name(key)):
        raise InvalidEvent(f"key must be a string of 1 to {MAX_NAME} characters")
    if not (said_at is None or is_time(said_at)):
        raise InvalidEvent("said_at must be epoch milliseconds, an integer of at most 18 digits")
    encoded = encode_event(event, MAX_EVENT if key is None else MAX_EVENT - _KEY_ROOM)
    return replace(encoded, key=key, said_at=said_at)


def _encode_escaped(event: Event, most: int) -> EncodedEvent:
    plain = to_builtins(event)
    for limit in (MAX_LINE, 1 << 16, 1 << 10):  # as few strings as possible leave the line, the largest first
        blobs: dict[str, bytes] = {}
        value = escape(plain, _move_to_blobs(limit, blobs))
        raw = _encode(value)
        if len(raw) <= most:
            return EncodedEvent(_copy(event), raw, tuple(collect_long_strings(value)), tuple(blobs.items()))
    raise InvalidEvent(f"{type(event).__name__}: larger than {MAX_LINE} bytes even without its long texts")


def _move_to_blobs(limit: int, blobs: dict[str, bytes]) -> Offload:
    def offload(kind: str, content: str | bytes) -> str | None:
        if len(content) * 4 < limit:
            return None
        data = content.encode() if isinstance(content, str) else content
        if len(data) < limit:
            return None
        digest = sha256(data).hexdigest()
        blobs[digest] = data
        return f"{DEL}{kind}:{digest}"

    return offload


def _encode_unknown(event: Unknown, most: int) -> EncodedEvent:
    """An event of a newer version, passed on byte for byte: it must be one whole object of its type."""
    raw = event.raw
    try:
        value = _decode_any(raw) if type(raw) is bytes else None
        collect_long_strings(value)  # for the depth
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidEvent) as error:
        raise InvalidEvent(f"Unknown {event.name!r}: {error}") from None
    if not isinstance(value, dict) or value.get("type") != event.name:
        raise InvalidEvent(f"Unknown {event.name!r}: raw must be the bytes of one object of this type")
    if not (raw.startswith(b"{") and raw.endswith(b"}")) or b"\n" in raw or b"\r" in raw:
        raise InvalidEvent(f"Unknown {event.name!r}: raw must be on one line, with nothing around it")
    if len(raw) > most or _ELSEWHERE.search(raw):
        raise InvalidEvent(f"Unknown {event.name!r}: too large for a line, or refers to another one")
    if type(decode(build_entry_line(Entry(1, 0, event), raw)).event) is not Unknown:
        raise InvalidEvent(f"Unknown {event.name!r}: this version knows it; append the event itself")
    return EncodedEvent(event, raw)


# --- decoding ------------------------------------------------------------------------------------------


class _Envelope(msgspec.Struct):
    seq: int
    ts: int
    event: msgspec.Raw
    run: str | None = None
    id: str | None = None
    batch: str | None = None
    synced: int | None = None
    was: str | None = None
    prev: str = ""
    sum: str = ""
    key: str | None = None
    said_at: int | None = None


class _Tag(msgspec.Struct):
    type: str


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_tag = msgspec.json.Decoder(_Tag).decode


def decode(line: bytes) -> Entry:
    """The entry of a verified, resolved line. An event we cannot read becomes ``Unknown``; what is no entry, CorruptLog."""
    try:
        if DEL_BYTE not in line:
            return _decode_entry(line)
        entry = _to_entry(unescape(_decode_any(line)))
    except msgspec.ValidationError:
        return _decode_unknown(line)
    except DECODE_ERRORS as error:
        raise decode_error(error, try_parse_seq(line)) from None
    return entry if type(entry.event) is not Unknown else _decode_unknown(line)


def decode_all(lines: list[bytes], whole: Callable[[bytes], bytes]) -> Iterator[Entry]:
    """The entries of verified lines; ``whole`` puts back what a line keeps elsewhere. Written for speed."""
    for line in lines:
        if DEL_BYTE in line:
            yield decode(whole(line))
            continue
        try:
            yield _decode_entry(line)
        except msgspec.ValidationError:
            yield _decode_unknown(line)
        except DECODE_ERRORS:
            yield decode(line)  # says what is wrong with it


def _decode_unknown(line: bytes) -> Entry:
    """A type, or a shape of a type, that we do not know: kept as it is."""
    try:
        envelope = _decode_envelope(line)
        event = Unknown(_decode_tag(envelope.event).type, bytes(envelope.event))
        fields = {
            name: unescape(getattr(envelope, name)) for name in _Envelope.__struct_fields__ if name != "event"
        }
        if not all(isinstance(fields[name], str | None) for name in ("run", "id", "key")):
            raise TypeError("a key, a run or an id that is no string")
    except msgspec.DecodeError as error:
        raise CorruptLog(f"a line that verifies is not an entry: {error}", seq=try_parse_seq(line)) from None
    except DECODE_ERRORS as error:
        raise decode_error(error, try_parse_seq(line)) from None
    return Entry(event=event, **fields)


def extract_event(line: bytes) -> bytes:
    """The event of a resolved line, byte for byte."""
    try:
        return bytes(_decode_envelope(line).event)
    except DECODE_ERRORS as error:
        raise decode_error(error, try_parse_seq(line)) from None


# --- many lines at once --------------------------------------------------------------------------------


class Page(msgspec.Struct, frozen=True, gc=False):
    """Verified lines, each with its newline, as they stand between two places of some bytes."""

    data: bytes
    start: int
    end: int

    @classmethod
    def of(cls, lines: list[bytes]) -> "Page":
        data = b"\n".join([*lines, b""])
        return cls(data, 0, len(data))

    def lines(self) -> list[bytes]:
        return self.data[self.start : self.end - 1].split(b"\n")

    def first_line(self) -> bytes:
        return self.data[self.start : self.data.index(b"\n", self.start)]

    def last_line(self) -> bytes:
        begin = self.data.rfind(b"\n", self.start, self.end - 1) + 1 or self.start
        return self.data[begin : self.end - 1]


def decode_page(page: Page, whole: Callable[[bytes], bytes]) -> list[Entry]:
    """What ``decode_all`` makes of the lines.

    Those that hold no escape are decoded where they stand, all that follow each other at once.
    """
    data, start, stop = page.data, page.start, page.end
    view = memoryview(data)
    entries: list[Entry] = []
    try:
        while (at := data.find(DEL_BYTE, start, stop)) >= 0:
            begin, end = data.rfind(b"\n", start, at) + 1 or start, data.index(b"\n", at)
            entries += _decode_entries(view[start:begin])
            entries.append(decode(whole(data[begin:end])))
            start = end + 1
        entries += _decode_entries(view[start:stop])
    except DECODE_ERRORS:  # an event that we do not know is among them
        entries.clear()
    if entries:
        first, last = entries[0].seq, entries[-1].seq
        begin = data.rfind(b"\n", page.start, stop - 1) + 1 or page.start
        # As many as there should be, first of all: a seq that somebody made up may be any number.
        is_whole = len(entries) == last - first + 1 and data.startswith(b'{"seq":%d,' % last, begin)
        if is_whole and [one.seq for one in entries] == list(range(first, last + 1)):
            return entries
    return list(decode_all(page.lines(), whole))


# --- what a line keeps elsewhere -------------------------------------------------------------------------

_FEW = 24
_ELSEWHERE = re.compile(rb'"\x7f(?:(ref):(\d+):(\d+):(\d+)|(text|data):([0-9a-f]{64}))"')


def find_reference(seq: int, line: bytes, text: str) -> tuple[bytes, bytes] | None:
    """(the JSON string ``text``, what may stand for it), if ``line``, of seq ``seq``, holds it byte for byte.

    The comparison is the point: fingerprints only propose a line. xxh3 collides at will, and a hit taken on
    trust would let a tool's output forge another's.
    """
    literal = _encode(text)
    at = _find_literal(line, literal)
    if at < 0 or is_tombstone(line):  # a tombstone keeps names; but nobody may refer to what was erased
        return None
    return literal, b'"%b"' % f"{DEL}ref:{seq}:{at}:{len(literal)}".encode()


def replace_with_reference(raw: bytes, literal: bytes, standing: bytes) -> bytes:
    """The event's JSON with a string, where it is found first, replaced by what stands for it.

    ``resolve_line`` is its exact inverse whatever the bytes are. But a text made to look like the JSON between two
    others could be found where no string starts, and a line must be JSON as it stands: then nothing is replaced.
    """
    at = _find_literal(raw, literal)
    if at < 0:
        return raw
    shorter = b"".join((raw[:at], standing, raw[at + len(literal) :]))
    try:
        _decode_any(shorter)
    except msgspec.DecodeError:
        return raw
    return shorter


def _find_literal(among: bytes, literal: bytes) -> int:
    """Where it is found first. To look for many bytes takes longer than to compare them: the first few are looked for."""
    at = among.find(literal[:_FEW])
    return at if at < 0 or among.startswith(literal, at) else among.find(literal, at)


def resolve_line(
    line: bytes, line_of: Callable[[int], bytes], blob_of: Callable[[str], bytes] | None = None
) -> bytes:
    """The line with everything it keeps elsewhere put back (blobs only if ``blob_of`` is given).

    The result reads as it was appended; its sum is that of the line as it was written.
    """

    def put_back(match: re.Match[bytes]) -> bytes:
        is_ref, seq, at, size, kind, digest = match.groups()
        if is_ref:
            return _read_literal(line_of(parse_count(seq)), parse_count(at), parse_count(size))
        if blob_of is None:
            return match[0]
        content = blob_of(digest.decode())
        return _encode(content.decode() if kind == b"text" else escape(content, lambda *_: None))

    # A DEL of the user's is escaped and a quote of the user's has a backslash: no text can look like these.
    try:
        return _ELSEWHERE.sub(put_back, line) if DEL_BYTE in line else line
    except UnicodeDecodeError as error:
        raise CorruptLog(f"a blob cannot be read as text: {error}", seq=try_parse_seq(line)) from None
    except CorruptLog as error:
        error.seq = error.seq or try_parse_seq(line)
        raise


def _read_literal(line: bytes, at: int, size: int) -> bytes:
    """The JSON string at these bytes. A tombstone has other bytes than the line that was referred to."""
    literal = line[at : at + size]
    if len(literal) != size or literal[:1] != b'"' or literal[-1:] != b'"' or is_tombstone(line):
        raise CorruptLog("the text that an entry refers to is not there any more", seq=parse_seq(line))
    return literal


def parse_references(line: bytes) -> tuple[set[int], set[str]]:
    """(seqs, blobs) this line needs to be whole."""
    found = _ELSEWHERE.findall(line) if DEL_BYTE in line else []
    try:
        numbers = [[*map(parse_count, f[1:4])] for f in found if f[0]]
        return {seq for seq, _, _ in numbers}, {f[5].decode() for f in found if f[4]}
    except CorruptLog as error:
        error.seq = try_parse_seq(line)
        raise
