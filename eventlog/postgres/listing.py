"""The chats of a place: in pages with their rows, and those that change, in the order of their commits for each part.

A chat's token is its id, which no other chat has, with its place among the changes of its part, which every append and every erasure moves.
A mark is the place up to which each part was seen.
"""

import re
from collections.abc import AsyncGenerator, Mapping

from psycopg.types.numeric import Int4, Int8

from chatfold.eventlog.postgres.server import Server
from chatfold.eventlog.postgres.writer import encode_key
from chatfold.eventlog.storage import ChatPage, ChatRow

_CHATS = 1000  # in a page

_MARK = "SELECT part, pos FROM @part WHERE pos > 0 ORDER BY part"
_MARKS = re.compile(r"(?:\d{1,5}:\d{1,18} ?)*")
_WORD = "c.id || '-' || c.pos"
_PAGE = f"""SELECT c.key, {_WORD}, r.data, r.token FROM @chat c LEFT JOIN @listing r ON r.chat = c.id
    LEFT JOIN unnest(%b::int[], %b::bigint[]) AS m(part, pos) ON m.part = c.part
    WHERE c.key > %b AND c.key >= %b AND (%b::bytea IS NULL OR c.key < %b) AND c.pos > coalesce(m.pos, 0)
    ORDER BY c.key LIMIT %b"""
_STORE = f"""WITH new AS (SELECT c.id, u.token, u.data FROM unnest(%b::bytea[], %b::text[], %b::bytea[]) AS u(key, token, data)
    JOIN @chat c ON c.key = u.key AND {_WORD} = u.token ORDER BY c.id FOR SHARE OF c SKIP LOCKED)
INSERT INTO @listing (chat, token, data) SELECT id, token, data FROM new ORDER BY id
ON CONFLICT (chat) DO UPDATE SET token = excluded.token, data = excluded.data"""
"""Nothing of a chat that has changed since its token, or that somebody is changing: the bytes may hold what was erased."""
_CHANGES = """SELECT c.key, c.part, c.pos FROM unnest(%b::int[], %b::bigint[]) AS m(part, pos)
    JOIN @chat c ON c.part = m.part AND c.pos > m.pos AND c.key IS NOT NULL ORDER BY c.part, c.pos, c.id LIMIT %b"""


async def load_mark(server: Server) -> dict[int, int]:
    return dict(await server.rows(_MARK))


def format_mark(mark: Mapping[int, int]) -> str:
    return " ".join(f"{part}:{pos}" for part, pos in sorted(mark.items()))


def parse_mark(mark: str) -> dict[int, int]:
    """Nothing, if it is not one of ours: then everything has changed since."""
    if not _MARKS.fullmatch(mark):
        return {}
    return {int(part): int(pos) for part, pos in (one.split(":") for one in mark.split())}


async def load_pages(server: Server, prefix: str, changed_since: str) -> AsyncGenerator[ChatPage]:
    """One question for the mark, then one a page."""
    mark, since = format_mark(await load_mark(server)), parse_mark(changed_since)
    parts, places = [*map(Int4, since)], [*map(Int8, since.values())]
    low, high = encode_key(prefix), _after_prefix(encode_key(prefix))
    last, is_first = b"", True
    while True:
        rows = await server.rows(_PAGE, (parts, places, last, low, high, high or b"", Int4(_CHATS)))
        if rows or is_first:
            yield ChatPage(
                [ChatRow(_decode_key(key), token, data or b"", of or "") for key, token, data, of in rows],
                mark,
            )
        if len(rows) < _CHATS:
            return
        last, is_first = rows[-1][0], False


async def store_rows(server: Server, rows: Mapping[str, tuple[str, bytes]]) -> None:
    columns = [*map(encode_key, rows)], [row[0] for row in rows.values()], [row[1] for row in rows.values()]
    await server.rows(_STORE, columns)


async def load_changes(
    server: Server, mark: Mapping[int, int], parts: list[int]
) -> AsyncGenerator[tuple[str, int, int]]:
    """(key, part, its place there) of the chats of these parts that have changed since the mark."""
    at = dict(mark)
    while True:
        columns = [Int4(part) for part in parts], [Int8(at.get(part, 0)) for part in parts]
        rows = await server.rows(_CHANGES, (*columns, Int4(_CHATS)))
        for key, part, pos in rows:
            at[part] = pos
            yield _decode_key(key), part, pos
        if len(rows) < _CHATS:
            return


def _decode_key(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")


def _after_prefix(prefix: bytes) -> bytes | None:
    """The first bytes that sort after all that begin so; None if there are none."""
    left = prefix.rstrip(b"\xff")
    return left[:-1] + bytes([left[-1] + 1]) if left else None
