"""Entry <-> line: the grammar of ``docs/format.md``, without I/O.

A line is ``H,"sum":"<16 hex>"}``, where sum = xxh3_64 of the bytes H, and H ends in ``"prev":"<16 hex>"``.
Both have fixed width, so a line is checked by slicing, before anything is decoded. Lines are passed around
without their newline.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from xxhash import xxh3_64_hexdigest

from chatfold.eventlog.errors import CorruptLog, InvalidEvent, NewerFormat
from chatfold.eventlog.events import Entry, Event, Head, Unknown
from chatfold.eventlog.plain import check_common
from chatfold.eventlog.values import (
    DEL,
    Offload,
    collect_long_strings,
    escape,
    escape_text,
    to_builtins,
    unescape,
    validate_event,
)

FORMAT = 1
MAX_LINE = 1 << 20
ENTRY_PREFIX, HEADER_PREFIX, SEAL_PREFIX = b'{"seq":', b'{"chatfold":', b'{"seal":'

_SUM = 26  # ,"sum":"<16 hex>"}
_PREV = slice(-_SUM - 17, -_SUM - 1)
_WAS = slice(-2 * _SUM - 25, -2 * _SUM - 17)
_MAX_EVENT = MAX_LINE - (1 << 14)  # leaves room for the rest of the line, a run and an id included
DEL_BYTE = ord(DEL)
"""A line without this byte holds all that it says."""

_encode = msgspec.json.Encoder().encode
_decode_entry = msgspec.json.Decoder(Entry).decode
_decode_any = msgspec.json.Decoder().decode

DECODE_ERRORS = (msgspec.DecodeError, ValueError, LookupError, TypeError, RecursionError, OverflowError)
"""What comes of decoding a line that somebody made up: anybody can compute sums."""

_DIGITS = 18
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=10**_DIGITS)]
"""A seq, a number of entries or of bytes, as a file says it: what has more digits is asked of no disk, and of no memory."""

_T = TypeVar("_T")


# --- framing ---------------------------------------------------------------------------------------------


def add_checksum(body: bytes) -> bytes:
    """H -> the line."""
    return b'%b,"sum":"%b"}' % (body, xxh3_64_hexdigest(body).encode())


def has_valid_sum(line: bytes) -> bool:
    """Is this line, alone, what was written?"""
    return line[-_SUM:] == f',"sum":"{xxh3_64_hexdigest(line[:-_SUM])}"}}'.encode() and line[:2] == b'{"'


def count_valid_chain(lines: list[bytes], link: bytes | None) -> int:
    """How many of the lines, from the first on, verify and follow each other. ``link``: see ``segment.Position``.

    Compares everything at once, and only if that fails line by line: this is most of what reading costs. Tombstones
    fail the quick comparison, too; after one, the next line's prev is another than its sum.
    """
    tails = [line[-_SUM:] for line in lines]
    sums = [f',"sum":"{xxh3_64_hexdigest(line[:-_SUM])}"}}' for line in lines]
    links = [link or line[_PREV] for line in lines[:1]] + [tail[8:24] for tail in tails[:-1]]
    if b"".join(tails) == "".join(sums).encode() and b"".join([line[_PREV] for line in lines]) == b"".join(
        links
    ):
        return len(lines)
    before: bytes | None = None
    for index, line in enumerate(lines):
        if not has_valid_sum(line):
            return index
        if link is not None and not is_linked_to(line, link, before):
            return index
        link, before = line[-18:-2], line
    return len(lines)


def is_valid_chain(data: bytes, starts: list[int], stop: int) -> bool:
    """Would ``count_valid_chain`` accept all the lines that begin at these bytes, each with its newline, the last one's before ``stop``?

    They are not cut out for it: to copy them costs more than their sums.
    """
    ends, view = [*starts[1:], stop], memoryview(data)
    sums = [xxh3_64_hexdigest(view[start : end - _SUM - 1]) for start, end in zip(starts, ends, strict=True)]
    tails = b"".join([data[end - _SUM - 18 : end - 1] for end in ends])  # <prev>","sum":"<sum>"}
    # The prev of the first may be any. All that follows it is known: each sum comes twice, as the next one's prev, too.
    chain = "".join([f'{one}"}}{one}","sum":"' for one in sums])
    return tails[16:] == b'","sum":"%b' % chain[:-25].encode()


def parse_prev(line: bytes) -> bytes:
    return line[_PREV]


def decode_verified(line: bytes, decode: Callable[[bytes], _T]) -> _T | None:
    """What the one line of a witness, or the first of a cache, says. None if it does not verify or is not what it should be."""
    try:
        return decode(line) if has_valid_sum(line) else None
    except DECODE_ERRORS:
        return None


def parse_seq(line: bytes) -> int:
    return parse_count(line[len(ENTRY_PREFIX) : max(0, line.find(b","))])


def parse_count(digits: bytes) -> int:
    """A ``Count`` that is not read as JSON. Python itself refuses digits by the thousand, with an error that is not ours."""
    if len(digits) > _DIGITS or not digits.isdigit():
        raise CorruptLog(
            f"a line that verifies cannot be read: {digits[:40]!r} is no number of entries or bytes"
        )
    return int(digits)


def _decode_error(error: Exception, seq: int | None = None) -> CorruptLog:
    what = "is not JSON" if isinstance(error, msgspec.DecodeError) else "cannot be read"
    return CorruptLog(f"a line that verifies {what}: {error}", seq=seq)


_FIELDS = re.compile(rb'(?:,"batch":"(\d+)/(\d+)")?(?:,"synced":(\d+))?(?:,"was":"([0-9a-f]{16})")?')


class LineFields(msgspec.Struct, frozen=True):
    """What stands between the event and ``prev``."""

    index: int  # of the batch, from 1
    size: int  # of the batch
    synced: int | None
    was: bytes | None


def parse_fields(line: bytes) -> LineFields:
    # The event ends in a brace and the marks have none, so nothing inside an event can be taken for them.
    end = len(line) - 2 * _SUM  # ,"prev":"<16 hex>" is as wide as the sum, less its brace, plus its comma
    found = _FIELDS.fullmatch(line, line.rfind(b"}", 0, end) + 1, end)
    if found is None:
        raise CorruptLog("a line without prev and sum")
    index, size, synced, was = found.groups()
    return LineFields(
        parse_count(index or b"1"), parse_count(size or b"1"), parse_count(synced) if synced else None, was
    )


def is_tombstone(line: bytes) -> bool:
    """Has it a ``was``, the last of the marks? All from there on has one width, and an event ends in a brace."""
    return line[_WAS] == b',"was":"'


def link_after(line: bytes) -> bytes:
    """What the next line's prev says: this line's sum or, on a tombstone, the sum that stood here first."""
    return parse_fields(line).was or line[-18:-2]


def is_linked_to(line: bytes, link: bytes, before: bytes | None) -> bool:
    """Does ``line`` come right after the line ``before``, whose sum is ``link``?"""
    return line[_PREV] == link or (before is not None and line[_PREV] == parse_fields(before).was)


# --- entries ---------------------------------------------------------------------------------------------


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event ready to be numbered: its JSON, and what of it may be written elsewhere."""

    event: Event
    raw: bytes
    texts: tuple[str, ...] = ()  # its long strings, as they stand in ``raw``
    blobs: tuple[tuple[str, bytes], ...] = ()  # (sha256, content) that must be kept before the line


def encode_event(event: Event) -> EncodedEvent:
    """Checks and encodes. Raises InvalidEvent for what could not be read back exactly."""
    if type(event) is Unknown:
        return _encode_unknown(event)
    texts: list[str] = []
    odd = False
    if not check_common(event, texts):
        texts.clear()
        odd = validate_event(event, texts)
    try:
        raw = _encode(event) if not odd else b""
    except UnicodeEncodeError:  # a lone surrogate somewhere
        raw = b""
    except ValueError as error:  # an integer of more digits than Python converts
        raise InvalidEvent(f"{type(event).__name__}: {error}") from None
    if raw and DEL_BYTE not in raw and len(raw) <= _MAX_EVENT:
        return EncodedEvent(event, raw, tuple(texts))
    return _encode_escaped(event)


def _encode_escaped(event: Event) -> EncodedEvent:
    plain = to_builtins(event)
    for limit in (MAX_LINE, 1 << 16, 1 << 10):  # as few strings as possible leave the line, the largest first
        blobs: dict[str, bytes] = {}
        value = escape(plain, _move_to_blobs(limit, blobs))
        raw = _encode(value)
        if len(raw) <= _MAX_EVENT:
            return EncodedEvent(event, raw, tuple(collect_long_strings(value)), tuple(blobs.items()))
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


def _encode_unknown(event: Unknown) -> EncodedEvent:
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
    if len(raw) > _MAX_EVENT or _ELSEWHERE.search(raw):
        raise InvalidEvent(f"Unknown {event.name!r}: too large for a line, or refers to another one")
    if type(decode(build_entry_line(Entry(1, 0, event), raw)).event) is not Unknown:
        raise InvalidEvent(f"Unknown {event.name!r}: this version knows it; append the event itself")
    return EncodedEvent(event, raw)


def format_prefix(ts: int, run: str | None, id: str | None) -> bytes:
    """What stands between the seq and the event."""
    names = b"" if run is None else b',"run":' + _encode(escape_text(run))
    if id is not None:
        names += b',"id":' + _encode(escape_text(id))
    return b',"ts":%d%b,"event":' % (ts, names)


def format_fields(batch: str | None, synced: int | None, was: str | None = None) -> bytes:
    """What stands between the event and ``prev``: the reverse of ``parse_fields``."""
    found = b"" if batch is None else b',"batch":"%b"' % batch.encode()
    if synced is not None:
        found += b',"synced":%d' % synced
    return found if was is None else found + b',"was":"%b"' % was.encode()


def build_line(seq: int, names: bytes, raw: bytes, marks: bytes, prev: bytes) -> bytes:
    """The line, from its parts in the order they stand in it."""
    body = b"".join((b'{"seq":', b"%d" % seq, names, raw, marks, b',"prev":"', prev, b'"'))
    return b"".join((body, b',"sum":"', xxh3_64_hexdigest(body).encode(), b'"}'))


def build_entry_line(entry: Entry, raw: bytes) -> bytes:
    """The line of ``entry``, whose event is ``raw``; ``entry.sum`` is not looked at."""
    marks = format_fields(entry.batch, entry.synced, entry.was)
    return build_line(
        entry.seq, format_prefix(entry.ts, entry.run, entry.id), raw, marks, entry.prev.encode()
    )


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


class _Tag(msgspec.Struct):
    type: str


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_tag = msgspec.json.Decoder(_Tag).decode


def decode(line: bytes) -> Entry:
    """The entry of a verified, resolved line. An event we cannot read becomes ``Unknown``; what is no entry, CorruptLog."""
    try:
        if DEL_BYTE not in line:
            return _decode_entry(line)
        entry = msgspec.convert(unescape(_decode_any(line)), Entry)
    except msgspec.ValidationError:
        return _decode_unknown(line)
    except DECODE_ERRORS as error:
        raise _decode_error(error, _try_parse_seq(line)) from None
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


def _try_parse_seq(line: bytes) -> int | None:
    with suppress(CorruptLog):
        return parse_seq(line)
    return None


def _decode_unknown(line: bytes) -> Entry:
    """A type, or a shape of a type, that we do not know: kept as it is."""
    try:
        envelope = _decode_envelope(line)
        event = Unknown(_decode_tag(envelope.event).type, bytes(envelope.event))
        fields = {
            name: unescape(getattr(envelope, name)) for name in _Envelope.__struct_fields__ if name != "event"
        }
        if not all(isinstance(name, str | None) for name in (fields["run"], fields["id"])):
            raise TypeError("a run or an id that is no string")
    except msgspec.DecodeError as error:
        raise CorruptLog(f"a line that verifies is not an entry: {error}", seq=_try_parse_seq(line)) from None
    except DECODE_ERRORS as error:
        raise _decode_error(error, _try_parse_seq(line)) from None
    return Entry(event=event, **fields)


def decode_raw_fields(line: bytes) -> dict[str, Any]:
    """The fields of a line as JSON has them, odd values still escaped."""
    try:
        fields: dict[str, Any] = _decode_any(line)
    except DECODE_ERRORS as error:
        raise _decode_error(error, _try_parse_seq(line)) from None
    return fields


def extract_event(line: bytes) -> bytes:
    """The event of a resolved line, byte for byte."""
    try:
        return bytes(_decode_envelope(line).event)
    except DECODE_ERRORS as error:
        raise _decode_error(error, _try_parse_seq(line)) from None


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
        raise CorruptLog(f"a blob cannot be read as text: {error}", seq=_try_parse_seq(line)) from None
    except CorruptLog as error:
        error.seq = error.seq or _try_parse_seq(line)
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
        error.seq = _try_parse_seq(line)
        raise


# --- header ----------------------------------------------------------------------------------------------


def header_line(head: Head) -> bytes:
    """The first line of a segment that goes on after ``head``. ``reader``: the oldest format that can read it."""
    return add_checksum(
        b'{"chatfold":%d,"reader":%d,"first":%d,"prev":"%b"'
        % (FORMAT, FORMAT, head.seq + 1, head.link.encode())
    )


class _Header(msgspec.Struct):
    first: Count
    prev: str


@lru_cache(maxsize=256)
def parse_header(line: bytes) -> Head:
    """The head a segment goes on after. NewerFormat if it is not for us; CorruptLog if it is no header."""
    if not has_valid_sum(line) or not line.startswith(HEADER_PREFIX):
        raise CorruptLog("the first line is not a segment header", offset=0)
    try:
        fields: dict[str, Any] = _decode_any(line)
        if fields.get("reader", FORMAT + 1) > FORMAT:
            raise NewerFormat(f"written in format {fields['chatfold']}, this chatfold reads up to {FORMAT}")
        found = msgspec.convert(fields, _Header)
        return Head(found.first - 1, found.prev)
    except DECODE_ERRORS as error:
        raise CorruptLog(f"a header that verifies cannot be read: {error}", offset=0) from None


# --- seal ------------------------------------------------------------------------------------------------


class Seal(msgspec.Struct, frozen=True):
    count: Count
    bytes: Count
    sha256: str
    xxh3: str | None = None


def seal_line(count: int, size: int, digest: str, prev: bytes, xxh3: str | None = None) -> bytes:
    """The last line of a full segment: its entries, its bytes before this line, and their sums."""
    fast = b',"xxh3":"%b"' % xxh3.encode() if xxh3 else b""
    return add_checksum(
        b'{"seal":{"count":%d,"bytes":%d,"sha256":"%b"%b},"prev":"%b"'
        % (count, size, digest.encode(), fast, prev)
    )


def parse_seal(line: bytes) -> Seal:
    """Of a line that verifies and says that it is a seal."""
    try:
        return msgspec.convert(decode_raw_fields(line)["seal"], Seal)
    except DECODE_ERRORS as error:
        raise CorruptLog(f"a seal that verifies cannot be read: {error}") from None
