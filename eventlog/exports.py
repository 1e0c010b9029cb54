"""Exports: a whole chat in one file, and back.

    {"chatfold":1,…}                 the header of a segment that begins with entry 1
    {"blob":"<sha256>",…}            a content too large for a line, before the first line that needs it
    {"seq":1,…}                      the lines of the log, byte for byte
    {"seal":{"count":…},…}           the seal of that segment; without it, the export was cut short

So what comes out of an export is the same chat: the same bytes, the same ``(seq, sum)``, the same export. It is checked
like a log: each line by its sum and its predecessor's, each blob by its name, the whole by the seal. What anybody may
have put together, and what would not be read back, is refused.
"""

import base64
from collections.abc import Callable, Iterator
from hashlib import sha256

import msgspec

from eventlog.errors import CorruptLog
from eventlog.events import Head
from eventlog.line import (
    ENTRY,
    MAX_LINE,
    SEAL,
    follows,
    header,
    link_of,
    marks,
    read_header,
    read_seal,
    references,
    seal,
    seal_up,
    verifies,
)

_BLOB = b'{"blob":'
_MOST = 1 << 30  # bytes of one line, a blob's included: what is longer is no export


class Packing:
    """``begin``, then a ``page`` after the other, then ``end``: the bytes of the export."""

    def __init__(self, blob: Callable[[str], bytes]) -> None:
        self._blob = blob
        self._packed: set[str] = set()
        self._hash = sha256()
        self._bytes = self._count = 0
        self._link = Head().sum.encode()

    def begin(self) -> bytes:
        return self._written([header(Head())])

    def page(self, lines: list[bytes]) -> bytes:
        packed: list[bytes] = []
        for line in lines:
            for digest in sorted(references(line)[1] - self._packed):
                self._packed.add(digest)
                packed.append(_blob_line(digest, self._blob(digest)))
            packed.append(line)
        self._count += len(lines)
        self._link = link_of(lines[-1])
        return self._written(packed)

    def end(self) -> bytes:
        return seal(self._count, self._bytes, self._hash.hexdigest(), self._link) + b"\n"

    def _written(self, lines: list[bytes]) -> bytes:
        data = b"\n".join([*lines, b""])
        self._hash.update(data)
        self._bytes += len(data)
        return data


class Blob(msgspec.Struct, frozen=True):
    digest: str
    content: bytes


class _BlobLine(msgspec.Struct):
    blob: str
    base64: str


def _blob_line(digest: str, content: bytes) -> bytes:
    return seal_up(b'{"blob":"%b","base64":"%b"' % (digest.encode(), base64.b64encode(content)))


class Unpacking:
    """Bytes in, cut anywhere; lines and blobs out, in order, each of them checked. ``end`` says that it was all."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # of a line that goes on
        self._offset = 0
        self._hash = sha256()
        self._blobs: set[str] = set()
        self._before: bytes | None = None
        self._link = b""  # empty before the header
        self._count = 0
        self._sealed = False

    def feed(self, data: bytes) -> Iterator[bytes | Blob]:
        lines = data.split(b"\n")
        self._rest.append(lines[0])
        if len(lines) > 1:
            lines[0] = b"".join(self._rest)
            self._rest = [lines.pop()]
            for line in lines:
                yield from self._line(line)
        if sum(map(len, self._rest)) > _MOST:
            raise self._wrong("a line without an end")

    def end(self) -> Head:
        if not self._sealed or any(self._rest):
            raise self._wrong("the export ends too early: its last line is missing")
        return Head(self._count, self._link.decode())

    def _line(self, line: bytes) -> Iterator[bytes | Blob]:
        if self._sealed:
            raise self._wrong("more lines after the last one")
        if not verifies(line):
            raise self._wrong("a line does not verify")
        try:
            if not self._link:
                self._header(line)
            elif line.startswith(_BLOB):
                yield self._unpacked(line)
            elif line.startswith(SEAL):
                self._seal(line)
            else:
                yield self._entry(line)
        except (ValueError, KeyError, TypeError):  # it verifies, but nobody of us wrote it
            raise self._wrong("not a line of an export") from None
        self._hash.update(line + b"\n")
        self._offset += len(line) + 1

    def _header(self, line: bytes) -> None:
        if read_header(line) != Head():
            raise self._wrong("it does not begin with the first entry")
        self._link = Head().sum.encode()

    def _entry(self, line: bytes) -> bytes:
        if not line.startswith(b'%b%d,"ts":' % (ENTRY, self._count + 1)) or len(line) > MAX_LINE:
            raise self._wrong("not the next entry")
        if not follows(line, self._link, self._before):
            raise self._wrong("an entry that does not follow the one before it")
        seqs, blobs = references(line)
        if max(seqs, default=0) > self._count or not blobs <= self._blobs:
            raise self._wrong("an entry refers to what is not before it")
        if (marks(line).synced or 0) > self._count:
            raise self._wrong("an entry calls durable what is not before it")
        self._before, self._link = line, link_of(line)
        self._count += 1
        return line

    def _unpacked(self, line: bytes) -> Blob:
        found = msgspec.json.decode(line, type=_BlobLine)
        content = base64.b64decode(found.base64, validate=True)
        if sha256(content).hexdigest() != found.blob:
            raise self._wrong("a blob does not have the content of its name")
        self._blobs.add(found.blob)
        return Blob(found.blob, content)

    def _seal(self, line: bytes) -> None:
        found = read_seal(line)
        last = marks(self._before) if self._before else None
        if (found.count, found.bytes, found.sha256) != (self._count, self._offset, self._hash.hexdigest()):
            raise self._wrong("the last line is that of another export")
        if last is None or last.index != last.size:
            raise self._wrong("the last entries are not whole")
        self._sealed = True

    def _wrong(self, message: str) -> CorruptLog:
        return CorruptLog(message, offset=self._offset, seq=self._count + 1)
