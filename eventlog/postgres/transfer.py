"""import: an export becomes a chat. It is read to its end, checked and kept in a file without a name before anything is written."""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import IO, Any

from psycopg.types.numeric import Int4, Int8

from chatfold.eventlog.batch import fingerprints_of
from chatfold.eventlog.codec import resolve_line
from chatfold.eventlog.errors import ChatExists
from chatfold.eventlog.events import Head
from chatfold.eventlog.line import link_after
from chatfold.eventlog.postgres.locking import Locked, with_parts
from chatfold.eventlog.postgres.server import Server
from chatfold.eventlog.postgres.statements import chunk_columns, to_bigint
from chatfold.eventlog.postgres.turn import new_id
from chatfold.eventlog.postgres.writer import encode_key, part_of
from chatfold.eventlog.transfer import Blob, ExportReader

_BYTES = 1 << 20  # of lines in a statement
_TAKEN = "SELECT id FROM @chat WHERE key = %b"
_CHAT = """INSERT INTO @chat (id, key, part, pos, origin, head_seq, head_link)
    SELECT %b, %b, part, pos, %b, %b, %b FROM @part WHERE part = %b"""
_LINES = """INSERT INTO @line (chat, seq, token, data)
    SELECT %b, %b + u.k, 0, u.d FROM unnest(%b::bytea[]) WITH ORDINALITY AS u(d, k)"""
_PRINTS = """INSERT INTO @print (chat, fingerprint, seq)
    SELECT %b, u.f, u.s FROM unnest(%b::bigint[], %b::bigint[]) AS u(f, s) ON CONFLICT DO NOTHING"""
_BLOB = """INSERT INTO @blob (chat, digest, number, data)
    SELECT %b, u.d, u.n, u.c FROM unnest(%b::text[], %b::int[], %b::bytea[]) AS u(d, n, c)"""


class Arrived:
    """Lines and blobs in a file, and where they stand."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = 0
        self.lines: list[tuple[int, int]] = []
        self.blobs: dict[str, tuple[int, int]] = {}

    def add(self, item: bytes | Blob) -> None:
        data = item.content if isinstance(item, Blob) else item
        place = self._size, len(data)
        self._file.write(data)
        self._size += len(data)
        if isinstance(item, Blob):
            self.blobs[item.digest] = place
        else:
            self.lines.append(place)

    def line(self, seq: int) -> bytes:
        return self._at(*self.lines[seq - 1])

    def blob(self, digest: str) -> bytes:
        return self._at(*self.blobs[digest])

    def _at(self, start: int, size: int) -> bytes:
        self._file.flush()
        return os.pread(self._file.fileno(), size, start)

    def batches(self) -> Iterator[tuple[int, list[bytes]]]:
        """(the seq before them, lines), so many as one statement has."""
        found: list[bytes] = []
        for seq in range(1, len(self.lines) + 1):
            found.append(self.line(seq))
            if sum(size for _, size in self.lines[seq - len(found) : seq]) >= _BYTES or len(found) >= 1000:
                yield seq - len(found), found
                found = []
        if found:
            yield len(self.lines) - len(found), found


async def import_chat(server: Server, chat: str, chunks: AsyncIterator[bytes]) -> None:
    with tempfile.TemporaryFile() as file:
        arrived = Arrived(file)
        unpacking = ExportReader(arrived.line, arrived.blob, chat=chat)
        async for data in chunks:
            for item in unpacking.feed(data):
                arrived.add(item)
        head = unpacking.end()
        await _write(server, chat, arrived, head)


async def _write(server: Server, chat: str, arrived: Arrived, head: Head) -> None:
    key, chat_id = encode_key(chat), new_id()
    part = part_of(key, server.parts)

    async def work(locked: Locked) -> None:
        if taken := await locked.rows(_TAKEN, key):
            if taken[0][0] != chat_id:
                raise ChatExists("there is a chat of this key already", chat=chat)
            return  # it was committed, and the answer was lost
        for digest in arrived.blobs:
            await locked.rows(_BLOB, Int8(chat_id), *chunk_columns({digest: arrived.blob(digest)}))
        for before, lines in arrived.batches():
            await locked.rows(_LINES, Int8(chat_id), Int8(before), lines)
            if prints := [*_prints(arrived, before, lines)]:
                await locked.rows(
                    _PRINTS, Int8(chat_id), [one[0] for one in prints], [one[1] for one in prints]
                )
        values: list[Any] = [
            Int8(chat_id),
            key,
            link_after(arrived.line(1)).decode(),
            Int8(head.seq),
            head.link,
        ]
        await locked.rows(_CHAT, *values, Int4(part))

    await with_parts(server, [part], work, chat)


def _prints(arrived: Arrived, before: int, lines: list[bytes]) -> Iterator[tuple[Int8, Int8]]:
    for seq, line in enumerate(lines, before + 1):
        for fingerprint in fingerprints_of(resolve_line(line, arrived.line, arrived.blob)):
            yield Int8(to_bigint(fingerprint)), Int8(seq)
