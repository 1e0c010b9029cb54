"""Exports: a whole chat in one file, and back.

    {"chatfold":1,…}                 the header of a segment that begins with entry 1
    {"blob":"<sha256>",…}            a content too large for a line, before the first line that needs it
    {"seq":1,…}                      the lines of the log, byte for byte
    {"seal":{"count":…},…}           the seal of that segment; without it, the export was cut short

So what comes out of an export is the same chat: the same bytes, the same ``(seq, sum)``, the same export. It is checked
like a log: each line by its sum and its predecessor's, each blob by its name, the whole by the seal. But a
forger can compute sums, and an export may come from a stranger: what could not be read, appended to or erased later is
refused.

``RedactedExport`` leaves out what others must not see. Its result is another chat, with other sums.
"""

import base64
import re
from collections.abc import Callable, Iterator
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from chatfold.eventlog.codec import (
    DEL_BYTE,
    MAX_NAME,
    decode,
    encode_named,
    is_name,
    is_time,
    parse_references,
    resolve_line,
)
from chatfold.eventlog.errors import CorruptLog, InvalidEvent
from chatfold.eventlog.events import Entry, Head, Lost, Unknown
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    MAX_LINE,
    SEAL_PREFIX,
    add_checksum,
    build_entry_line,
    decode_raw_fields,
    format_fields,
    has_valid_sum,
    header_line,
    is_linked_to,
    link_after,
    parse_fields,
    parse_header,
    parse_prev,
    parse_seal,
    parse_seq,
    seal_line,
)
from chatfold.eventlog.values import collect_long_strings, validate_event

_BLOB = b'{"blob":'
_MOST = 1 << 30  # bytes of a blob's line, and of an entry with all that it keeps elsewhere
_NOTHING: tuple[set[int], set[str]] = set(), set()
_SIZES = re.compile(rb'"\x7f(?:ref:\d+:\d+:(\d+)|(?:text|data):([0-9a-f]{64}))"')


class ExportWriter:
    """``begin``, then a ``page`` after the other, then ``end``: the bytes of the export."""

    def __init__(self, blob: Callable[[str], bytes]) -> None:
        self._blob = blob
        self._packed: set[str] = set()
        self._hash = sha256()
        self._bytes = self._count = 0
        self._link = Head().link.encode()

    def begin(self) -> bytes:
        return self._add_lines([header_line(Head())])

    def page(self, lines: list[bytes]) -> bytes:
        packed: list[bytes] = []
        for line in lines:
            packed += [*self._pack_blobs(line), line]
        self._count += len(lines)
        self._link = link_after(lines[-1])
        return self._add_lines(packed)

    def _pack_blobs(self, line: bytes) -> Iterator[bytes]:
        """The blobs that this line is the first to need."""
        try:
            for digest in sorted(parse_references(line)[1] - self._packed):
                self._packed.add(digest)
                yield _blob_line(digest, self._blob(digest))
        except CorruptLog as error:
            error.seq = parse_seq(line)
            raise

    def end(self) -> bytes:
        return seal_line(self._count, self._bytes, self._hash.hexdigest(), self._link) + b"\n"

    def _add_lines(self, lines: list[bytes]) -> bytes:
        data = b"\n".join([*lines, b""])
        self._hash.update(data)
        self._bytes += len(data)
        return data


class RedactedExport:
    """The export of entries that are not what was written: ``begin``, a ``page`` of entries after the other, ``end``.

    Seqs, times, runs, ids, keys and batches stay, and so do tombstones. Sums are those of the new lines, so nothing in them
    tells what stood there before. A text that was a reference to an earlier one is written out.
    """

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._packing = ExportWriter(self._blobs.__getitem__)
        self._link = Head().link

    def begin(self) -> bytes:
        return self._packing.begin()

    def page(self, entries: list[Entry]) -> bytes:
        packed = self._packing.page([self._line(entry) for entry in entries])
        self._blobs.clear()
        return packed

    def end(self) -> bytes:
        return self._packing.end()

    def _line(self, entry: Entry) -> bytes:
        try:
            made = encode_named(entry.event, entry.key)
        except (
            InvalidEvent
        ):  # as it is now, it does not fit into a line, or is no longer an event of its type
            made = encode_named(Lost("it could not be written again"), entry.key)
        self._blobs.update(made.blobs)
        line = build_entry_line(replace(entry, prev=self._link, was=None), made.raw)
        if entry.was is not None:  # as if this had been written, and then erased
            line = build_entry_line(replace(entry, prev=self._link, was=line[-18:-2].decode()), made.raw)
        self._link = link_after(line).decode()
        return line


class Blob(msgspec.Struct, frozen=True):
    digest: str
    content: bytes


class _BlobLine(msgspec.Struct):
    blob: str
    base64: str


_decode_blob = msgspec.json.Decoder(_BlobLine).decode


def _blob_line(digest: str, content: bytes) -> bytes:
    return add_checksum(b'{"blob":"%b","base64":"%b"' % (digest.encode(), base64.b64encode(content)))


class ExportReader:
    """Bytes in, cut anywhere; lines and blobs out, in order, each of them checked. ``end`` says that it was all.

    ``line_of`` and ``blob_of`` give back what came out before. Without them it is remembered here. ``chat``: what it
    is to become.
    """

    def __init__(
        self,
        line_of: Callable[[int], bytes] | None = None,
        blob_of: Callable[[str], bytes] | None = None,
        *,
        chat: str | None = None,
    ) -> None:
        self._chat = chat
        self._known: dict[int | str, bytes] = {}
        self._remembers = line_of is None
        self._line_of = line_of or self._known.__getitem__
        self._blob_of = blob_of or self._known.__getitem__
        self._rest = bytearray()  # of a line that goes on
        self._offset = 0
        self._hash = sha256()
        self._blobs: dict[str, int] = {}  # how large they are
        self._unused: set[str] = set()  # those that no entry has needed yet
        self._before: bytes | None = None
        self._link = b""  # empty before the header
        self._count = 0
        self._sealed = False

    def feed(self, data: bytes) -> Iterator[bytes | Blob]:
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest + lines[0])
            self._rest.clear()
        for line in lines:
            item = self._line(line)
            if item is not None:
                yield item
        self._rest += rest
        if len(self._rest) > (_MOST if self._rest.startswith(_BLOB) else MAX_LINE):
            raise self._refusal("a line without an end")

    def end(self) -> Head:
        if self._sealed and self._rest:
            raise self._refusal("something follows the last line")
        if not self._sealed:
            raise self._refusal("the export ends too early: its last line is missing")
        return Head(self._count, self._link.decode())

    def _line(self, line: bytes) -> bytes | Blob | None:
        if self._sealed:
            raise self._refusal("something follows the last line")
        if not has_valid_sum(line):
            raise self._refusal("a line does not verify")
        item: bytes | Blob | None = None
        try:
            if not self._link:
                self._header(line)
            elif line.startswith(_BLOB):
                item = self._unpack_blob(line)
            elif line.startswith(SEAL_PREFIX):
                self._seal(line)
            else:
                item = self._entry(line)
        except (_Wrong, CorruptLog, InvalidEvent) as error:
            raise self._refusal(error.args[0]) from None
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise self._refusal(f"a line that verifies cannot be read: {error}") from None
        self._hash.update(line + b"\n")
        self._offset += len(line) + 1
        return item

    def _header(self, line: bytes) -> None:
        if parse_header(line) != Head():
            raise _Wrong("it does not begin with the first entry")
        self._link = Head().link.encode()

    def _entry(self, line: bytes) -> bytes:
        seq = self._count + 1
        if not line.startswith(b'%b%d,"ts":' % (ENTRY_PREFIX, seq)) or len(line) > MAX_LINE:
            raise _Wrong("not the next entry")
        if not is_linked_to(line, self._link, self._before):
            raise _Wrong("an entry that does not follow the one before it")
        place = parse_fields(line)
        if not 1 <= place.index <= place.size:
            raise _Wrong("an entry that is not in its batch")
        if (place.synced or 0) >= seq:
            raise _Wrong("an entry calls durable what is not before it")
        if DEL_BYTE in line:
            self._elsewhere(line)
        if self._unused:
            raise _Wrong("a blob that the entry after it does not need")
        _verify_readable(line, seq, resolve_line(line, self._line_of, self._blob_of))
        if self._remembers:
            self._known[seq] = line
        self._before, self._link, self._count = line, link_after(line), seq
        return line

    def _elsewhere(self, line: bytes) -> None:
        """Refuses an entry that keeps anything elsewhere but before it, or more than fits into memory."""
        seqs, blobs = parse_references(line)
        if not all(1 <= seq <= self._count for seq in seqs) or not blobs <= self._blobs.keys():
            raise _Wrong("an entry refers to what is not before it")
        self._unused -= blobs
        sizes = _SIZES.findall(line)
        if sum(int(size or 0) + self._blobs.get(digest.decode(), 0) for size, digest in sizes) > _MOST:
            raise _Wrong("an entry that is too large when it is whole")

    def _unpack_blob(self, line: bytes) -> Blob:
        found = _decode_blob(line)
        content = base64.b64decode(found.base64, validate=True)
        if sha256(content).hexdigest() != found.blob or found.blob in self._blobs:
            raise _Wrong("a blob does not have the content of its name, or is there twice")
        self._blobs[found.blob] = len(content)
        self._unused.add(found.blob)
        if self._remembers:
            self._known[found.blob] = content
        return Blob(found.blob, content)

    def _seal(self, line: bytes) -> None:
        found = parse_seal(line)
        last = parse_fields(self._before) if self._before else None
        if (found.count, found.bytes, found.sha256) != (self._count, self._offset, self._hash.hexdigest()):
            raise _Wrong("the last line is that of another export")
        if last is None or last.index != last.size or self._unused or parse_prev(line) != self._link:
            raise _Wrong("the last entries are not whole")
        self._sealed = True

    def _refusal(self, message: str) -> CorruptLog:
        error = CorruptLog(message, chat=self._chat, offset=self._offset, seq=self._count + 1)
        error.next_step = "Nothing was imported. Export the chat again, or copy the file again"
        return error


class _Wrong(Exception):
    """The line verifies, but an export has no such line here."""


def _verify_readable(line: bytes, seq: int, whole: bytes) -> None:
    """Asks of an entry now what will be asked of it later. Raises what would be raised then, or ``_Wrong``."""
    entry = decode(whole)
    # What the slices of the line say, which is what a log goes by, is what its JSON says.
    ends = format_fields(entry.batch, entry.synced, entry.was), entry.prev.encode(), entry.sum.encode()
    if entry.seq != seq or not line.endswith(b'}%b,"prev":"%b","sum":"%b"}' % ends):
        raise _Wrong("an entry with fields where they must not be")
    for name, what in ((entry.run, "run or an id"), (entry.id, "run or an id"), (entry.key, "key")):
        if not (name is None or is_name(name)):
            raise _Wrong(f"a {what} that is not a string of 1 to {MAX_NAME} characters")
    if not (entry.said_at is None or is_time(entry.said_at)):
        raise _Wrong("a said_at of more than 18 digits")
    fields = decode_raw_fields(whole)
    event = fields.pop("event")
    collect_long_strings(event)  # for the depth, and the digits of integers
    collect_long_strings(fields)
    if DEL_BYTE not in line:
        return
    if parse_references(whole) != _NOTHING or parse_references(line.partition(b',"event":')[0]) != _NOTHING:
        raise _Wrong("an entry with a reference where it must not be")
    # Who erases the entry does not put back what it keeps elsewhere.
    if line != whole and decode_raw_fields(line)["event"]["type"] != event["type"]:
        raise _Wrong("an event whose type is a reference")
    if not isinstance(entry.event, Unknown):
        validate_event(entry.event, [])
