"""Snapshots in a table: one at every border, some in between, and the newest. A fork finds those of what it was forked from, too.

The window of a chat is a row of the same table, of its own only. A chapter is one, too, and a fork finds those of its parent.
"""

from collections.abc import AsyncGenerator

from psycopg.types.numeric import Int8

from chatfold.eventlog.events import Head
from chatfold.eventlog.postgres.server import Server
from chatfold.eventlog.postgres.statements import LINEAGE
from chatfold.eventlog.postgres.writer import encode_key
from chatfold.eventlog.storage import Opening

BORDER = 4096
_NEAR = 256
_NEWEST, _WINDOW, _NOWHERE = 0, -1, -2  # slots; the other snapshots have their seq
_CHAPTERS = -2  # the slot of one is before this by the seq of its first entry

_STORE = """WITH c AS (SELECT id, head_seq FROM @chat WHERE key = %b AND erased = %b AND head_seq >= %b FOR SHARE)
INSERT INTO @snapshot (chat, slot, seq, link, data) SELECT c.id, u.slot, %b, %b, %b FROM c, unnest(%b::bigint[]) AS u(slot)
WHERE CASE WHEN u.slot = 0 THEN c.head_seq - %b < %b
    ELSE %b OR NOT EXISTS (SELECT FROM @snapshot s WHERE s.chat = c.id AND s.slot > 0 AND abs(s.seq - %b) < %b) END
ON CONFLICT (chat, slot) DO UPDATE SET seq = excluded.seq, link = excluded.link, data = excluded.data"""
_STORE_AT = """WITH c AS (SELECT id FROM @chat WHERE key = %b AND erased = %b AND head_seq >= %b FOR SHARE)
INSERT INTO @snapshot (chat, slot, seq, link, data) SELECT c.id, %b, %b, %b, %b FROM c
ON CONFLICT (chat, slot) DO UPDATE SET seq = excluded.seq, link = excluded.link, data = excluded.data"""
_NEXT = """SELECT s.seq, s.link, s.data FROM lineage l JOIN @snapshot s
    ON s.chat = l.id AND s.slot >= 0 AND s.seq <= l.high WHERE s.seq < %b ORDER BY s.seq DESC LIMIT 1"""
_LOAD = LINEAGE + _NEXT
_OPENING = (
    LINEAGE
    + f"""SELECT c.erased, c.head_seq, c.head_link, n.seq, n.link, n.data, w.seq, w.link, w.data
    FROM lineage o JOIN @chat c ON c.id = o.id LEFT JOIN @snapshot w ON w.chat = c.id AND w.slot = %b
    LEFT JOIN ({_NEXT}) n ON w.seq IS NULL WHERE o.own"""
)
_LOAD_CHAPTERS = (
    LINEAGE
    + """SELECT s.slot, s.seq, s.link, s.data FROM lineage l JOIN @snapshot s
    ON s.chat = l.id AND s.slot <= %b AND s.slot >= %b AND (l.own OR s.seq <= l.high) ORDER BY l.own"""
)
_LOAD_WINDOW = "SELECT w.seq, w.link, w.data FROM @chat c JOIN @snapshot w ON w.chat = c.id AND w.slot = %b WHERE c.key = %b"


async def store_snapshot(server: Server, chat: str, head: Head, data: bytes, erasures: str) -> None:
    """Nothing is kept if something was erased since ``erasures``: both lock the chat's row."""
    seq, erased, near = Int8(head.seq), Int8(int(erasures or 0)), Int8(_NEAR)
    slots = [Int8(_NEWEST), seq] if head.seq >= _NEAR else [Int8(_NEWEST)]
    values = (encode_key(chat), erased, seq, seq, head.link, data, slots, seq, near)
    await server.rows(_STORE, (*values, head.seq % BORDER == 0, seq, near))


async def store_window(server: Server, chat: str, head: Head, data: bytes, erasures: str) -> None:
    await _store_at(server, chat, _WINDOW, head, data, erasures)


async def store_chapter(
    server: Server, chat: str, first: int, head: Head, data: bytes, erasures: str
) -> None:
    await _store_at(server, chat, _CHAPTERS - first, head, data, erasures)


async def _store_at(server: Server, chat: str, slot: int, head: Head, data: bytes, erasures: str) -> None:
    seq, erased = Int8(head.seq), Int8(int(erasures or 0))
    await server.rows(_STORE_AT, (encode_key(chat), erased, seq, Int8(slot), seq, head.link, data))


async def load_chapters(server: Server, chat: str, first: int, last: int) -> dict[int, tuple[Head, bytes]]:
    slots = Int8(_CHAPTERS - first), Int8(_CHAPTERS - last)
    rows = await server.rows(_LOAD_CHAPTERS, (encode_key(chat), *slots))
    return {_CHAPTERS - slot: (Head(seq, link), data) for slot, seq, link, data in rows}


async def load_window(server: Server, chat: str) -> tuple[Head, bytes] | None:
    for seq, link, data in await server.rows(_LOAD_WINDOW, (Int8(_WINDOW), encode_key(chat))):
        return Head(seq, link), data
    return None


async def load_opening(server: Server, chat: str, last: int | None) -> Opening:
    before, slot = ((1 << 63) - 1, _WINDOW) if last is None else (last + 1, _NOWHERE)
    rows = await server.rows(_OPENING, (encode_key(chat), Int8(slot), Int8(before)))
    if not rows:
        return Opening("", Head())
    erased, seq, link, *snapshot, of, of_link, data = rows[0]
    window = None if data is None else (Head(of, of_link), data)
    of, of_link, data = snapshot
    return Opening(
        str(erased or ""), Head(seq, link), None if data is None else (Head(of, of_link), data), window
    )


async def load_snapshots(server: Server, chat: str, last: int | None) -> AsyncGenerator[tuple[Head, bytes]]:
    before = (1 << 63) - 1 if last is None else last + 1
    while rows := await server.rows(_LOAD, (encode_key(chat), Int8(before))):
        before, link, data = rows[0]
        yield Head(before, link), data
