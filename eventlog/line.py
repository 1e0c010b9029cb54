"""Entry <-> line: the grammar of ``docs/format.md``, without I/O.

A line is ``H,"sum":"<16 hex>"}``, where sum = xxh3_64 of the bytes H, and H ends in ``"prev":"<16 hex>"``.
Both have fixed width, so a line is checked by slicing, before anything is decoded. Lines are passed around
without their newline.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from xxhash import xxh3_64_hexdigest

from chatfold.eventlog.errors import CorruptLog, NewerFormat
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.values import (
    escape_text,
)

FORMAT = 1
MAX_LINE = 1 << 20
ENTRY_PREFIX, HEADER_PREFIX, SEAL_PREFIX = b'{"seq":', b'{"chatfold":', b'{"seal":'

_SUM = 26  # ,"sum":"<16 hex>"}
_PREV = slice(-_SUM - 17, -_SUM - 1)
_WAS = slice(-2 * _SUM - 25, -2 * _SUM - 17)

_encode = msgspec.json.Encoder().encode
_decode_entry = msgspec.json.Decoder(Entry).decode
_decode_any = msgspec.json.Decoder().decode

DECODE_ERRORS = (msgspec.DecodeError, ValueError, LookupError, TypeError, RecursionError, OverflowError)
"""What decoding a forged line may raise. Sums are no proof: a forger can compute them."""

_DIGITS = 18
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=10**_DIGITS)]
"""A seq, or a number of entries or bytes, as a file states it. More digits than that no disk and no memory can satisfy."""

_T = TypeVar("_T")


# --- framing ---------------------------------------------------------------------------------------------


def add_checksum(body: bytes) -> bytes:
    """H -> the line."""
    return b'%b,"sum":"%b"}' % (body, xxh3_64_hexdigest(body).encode())


def has_valid_sum(line: bytes) -> bool:
    """Does the line have the sum of its own bytes?"""
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


def link_before(data: bytes, starts: list[int], stop: int) -> bytes | None:
    """The prev of the first of the lines that begin at these bytes, each with its newline, the last one's before ``stop``.

    None if ``count_valid_chain`` would not accept them all. They are not cut out for it: to copy them costs more than their sums.
    """
    ends, view = [*starts[1:], stop], memoryview(data)
    sums = [xxh3_64_hexdigest(view[start : end - _SUM - 1]) for start, end in zip(starts, ends, strict=True)]
    tails = b"".join([data[end - _SUM - 18 : end - 1] for end in ends])  # <prev>","sum":"<sum>"}
    # The prev of the first may be any. All that follows it is known: each sum comes twice, as the next one's prev, too.
    chain = "".join([f'{one}"}}{one}","sum":"' for one in sums])
    if tails[16:] == b'","sum":"%b' % chain[:-25].encode():
        return tails[:16]
    lines = data[starts[0] : stop - 1].split(b"\n")
    return parse_prev(lines[0]) if count_valid_chain(lines, None) == len(lines) else None


def parse_prev(line: bytes) -> bytes:
    return line[_PREV]


def decode_verified(line: bytes, decode: Callable[[bytes], _T]) -> _T | None:
    """The decoded line of a witness, or the first of a cache. None if it does not verify or does not decode."""
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


def decode_error(error: Exception, seq: int | None = None) -> CorruptLog:
    what = "is not JSON" if isinstance(error, msgspec.DecodeError) else "cannot be read"
    return CorruptLog(f"a line that verifies {what}: {error}", seq=seq)


def decode_raw_fields(line: bytes) -> dict[str, Any]:
    """The fields of a line as JSON has them, odd values still escaped."""
    try:
        fields: dict[str, Any] = _decode_any(line)
    except DECODE_ERRORS as error:
        raise decode_error(error, try_parse_seq(line)) from None
    return fields


def try_parse_seq(line: bytes) -> int | None:
    with suppress(CorruptLog):
        return parse_seq(line)
    return None


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


def format_prefix(
    ts: int, run: str | None, id: str | None, key: str | None = None, said_at: int | None = None
) -> bytes:
    """What stands between the seq and the event."""
    names = b"" if said_at is None else b',"said_at":%d' % said_at
    if run is not None:
        names += b',"run":' + _encode(escape_text(run))
    if id is not None:
        names += b',"id":' + _encode(escape_text(id))
    if key is not None:
        names += b',"key":' + _encode(escape_text(key))
    return b',"ts":%d%b,"event":' % (ts, names)


SYNCED = b',"synced":%d'


def format_fields(batch: str | None, synced: int | None, was: str | None = None) -> bytes:
    """What stands between the event and ``prev``: the reverse of ``parse_fields``."""
    found = b"" if batch is None else b',"batch":"%b"' % batch.encode()
    if synced is not None:
        found += SYNCED % synced
    return found if was is None else found + b',"was":"%b"' % was.encode()


def build_line(seq: int, names: bytes, raw: bytes, marks: bytes, prev: bytes) -> bytes:
    """The line, from its parts in the order they stand in it."""
    body = b"".join((b'{"seq":', b"%d" % seq, names, raw, marks, b',"prev":"', prev, b'"'))
    return b"".join((body, b',"sum":"', xxh3_64_hexdigest(body).encode(), b'"}'))


def build_entry_line(entry: Entry, raw: bytes) -> bytes:
    """The line of ``entry``, whose event is ``raw``; ``entry.sum`` is not looked at."""
    names = format_prefix(entry.ts, entry.run, entry.id, entry.key, entry.said_at)
    marks = format_fields(entry.batch, entry.synced, entry.was)
    return build_line(entry.seq, names, raw, marks, entry.prev.encode())


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


_decode_header = msgspec.json.Decoder(_Header).decode


@lru_cache(maxsize=256)
def parse_header(line: bytes) -> Head:
    """The head a segment goes on after. NewerFormat if it is not for us; CorruptLog if it is no header."""
    if not has_valid_sum(line) or not line.startswith(HEADER_PREFIX):
        raise CorruptLog("the first line is not a segment header", offset=0)
    try:
        fields: dict[str, Any] = _decode_any(line)
        if fields.get("reader", FORMAT + 1) > FORMAT:
            raise NewerFormat(f"written in format {fields['chatfold']}, this chatfold reads up to {FORMAT}")
        found = _decode_header(line)
        return Head(found.first - 1, found.prev)
    except DECODE_ERRORS as error:
        raise CorruptLog(f"a header that verifies cannot be read: {error}", offset=0) from None


# --- seal ------------------------------------------------------------------------------------------------


class Seal(msgspec.Struct, frozen=True):
    count: Count
    bytes: Count
    sha256: str
    xxh3: str | None = None


class _SealLine(msgspec.Struct):
    seal: Seal


_decode_seal = msgspec.json.Decoder(_SealLine).decode


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
        return _decode_seal(line).seal
    except DECODE_ERRORS as error:
        raise CorruptLog(f"a seal that verifies cannot be read: {error}") from None
