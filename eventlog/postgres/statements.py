"""The SQL of the hot paths, and the values that go with it. ``@`` stands for the schema.

An append is one statement. It locks the row of the chat's part, then the chat if it still is what the lines were numbered from,
then it writes: prints, blobs, lines. Its count of rows is the answer; none says that something has changed.
"""

from collections.abc import Sequence
from functools import cache

import msgspec
from psycopg.types.numeric import Int4, Int8

from chatfold.eventlog.events import Head

_CHUNK = 1 << 16  # bytes of a blob in a row
_SIGN = 1 << 63


def to_bigint(fingerprint: int) -> int:
    """An unsigned number of 64 bits as PostgreSQL keeps it."""
    return fingerprint - 2 * _SIGN if fingerprint >= _SIGN else fingerprint


def from_bigint(number: int) -> int:
    return number % (2 * _SIGN)


class State(msgspec.Struct, frozen=True, gc=False):
    """A chat's row: what an append compares."""

    id: int
    head: Head
    erased: int = 0
    lease: str = ""
    is_fork: bool = False


class Write(msgspec.Struct, gc=False):
    """What an append writes, and what must not have changed. ``token`` tells its lines from the same lines of another."""

    part: int
    key: bytes
    before: State
    is_new: bool
    head: Head
    token: int
    lines: list[bytes]
    prints: list[tuple[int, int]]  # (fingerprint, seq)
    blobs: dict[str, bytes]
    absent: Sequence[int] = ()  # fingerprints that nobody looked for: that must not be there
    lease: str = ""


LINEAGE = """WITH RECURSIVE lineage(id, parent, low, high, own) AS (
    SELECT id, parent, base, head_seq, true FROM @chat WHERE key = %b
    UNION ALL SELECT c.id, c.parent, c.base, least(l.low, l.high), false FROM lineage l JOIN @chat c ON c.id = l.parent)
"""
"""A chat and what it was forked from, each with the seqs above ``low`` and up to ``high`` that are its lines."""

STATE = "SELECT id, head_seq, head_link, erased, lease, parent IS NOT NULL FROM @chat WHERE key = %b"

PRINTS = (
    LINEAGE
    + """SELECT p.fingerprint, p.seq FROM lineage l JOIN @print p
    ON p.chat = l.id AND p.seq > l.low AND p.seq <= l.high WHERE p.fingerprint = ANY(%b::bigint[]) ORDER BY p.seq"""
)

LINES = (
    LINEAGE
    + """SELECT n.seq, n.data FROM lineage l JOIN @line n
    ON n.chat = l.id AND n.seq > l.low AND n.seq <= l.high WHERE n.seq = ANY(%b::bigint[])"""
)

KNOWN = (
    LINEAGE
    + """, found AS (SELECT p.fingerprint, p.seq FROM lineage l JOIN @print p
    ON p.chat = l.id AND p.seq > l.low AND p.seq <= l.high WHERE p.fingerprint = ANY(%b::bigint[])),
wanted AS (SELECT seq FROM found UNION SELECT unnest(%b::bigint[]))
SELECT fingerprint, seq, NULL::bytea FROM found
UNION ALL SELECT NULL, n.seq, n.data FROM wanted w JOIN lineage l ON w.seq > l.low AND w.seq <= l.high
    JOIN @line n ON n.chat = l.id AND n.seq = w.seq"""
)
"""What numbering needs: the seqs of each fingerprint, and the lines of these and of other seqs."""

BLOBS = (
    LINEAGE
    + """SELECT b.digest, string_agg(b.data, ''::bytea ORDER BY b.number) FROM @blob b
    WHERE (b.chat, b.digest) IN (
        SELECT min(o.chat), o.digest FROM lineage l JOIN @blob o ON o.chat = l.id
        WHERE o.digest = ANY(%b::text[]) GROUP BY o.digest)
    GROUP BY b.digest"""
)

_PAGES = (
    LINEAGE
    + """, now AS (SELECT id, least(high, %b) AS stop FROM lineage WHERE own)
SELECT (SELECT id FROM now), (SELECT stop FROM now), string_agg(n.data, '\n'::bytea ORDER BY n.seq)
FROM lineage l JOIN @line n ON n.chat = l.id AND n.seq > l.low AND n.seq <= l.high
WHERE n.seq <= (SELECT stop FROM now) AND """
)

PAGE = _PAGES + "n.seq >= %b AND n.seq < %b"
"""The lines from one seq to before another, up to a last one, in one piece; with the chat's id, and where it stops."""
PAGE_BACK = _PAGES + "n.seq > (SELECT stop FROM now) - %b"

LOCK = "SELECT part FROM @part WHERE part = ANY(%b::int[]) ORDER BY part FOR UPDATE"
IS_WRITTEN = """SELECT EXISTS (SELECT FROM @line WHERE chat = %b AND seq = %b AND token = %b),
    EXISTS (SELECT FROM @chat WHERE id = %b AND key IS NOT NULL)"""


_MANY_LINES, _ONE_LINE = "unnest(%b::bytea[]) WITH ORDINALITY AS u(d, k)", "(SELECT %b::bytea, 1) AS u(d, k)"
_MANY_PRINTS, _ONE_PRINT = (
    "unnest(%b::bigint[], %b::bigint[]) AS u(f, s)",
    "(SELECT %b::bigint, %b::bigint) AS u(f, s)",
)
"""One is the usual case, and less work for both sides."""


@cache
def _append_text(
    *, is_new: bool, has_lease: bool, has_absent: bool, prints: str, has_blobs: bool, lines: str
) -> str:
    text = "WITH p AS (UPDATE @part SET pos = pos + 1 WHERE part = %b RETURNING pos), h AS ("
    if is_new:
        text += """INSERT INTO @chat (id, key, part, pos, origin, head_seq, head_link)
            SELECT %b, %b, %b, p.pos, %b, %b, %b FROM p ON CONFLICT (key) DO NOTHING RETURNING id)"""
    else:
        text += """UPDATE @chat c SET head_seq = %b, head_link = %b, pos = p.pos FROM p
            WHERE c.id = %b AND c.key IS NOT NULL AND c.head_seq = %b AND c.head_link = %b AND c.erased = %b"""
        if has_lease:
            text += " AND c.lease = %b"
        if has_absent:
            text += " AND NOT EXISTS (SELECT FROM @print o WHERE o.chat = c.id AND o.fingerprint = ANY(%b::bigint[]))"
        text += " RETURNING c.id)"
    if prints:
        text += f""", i AS (INSERT INTO @print (chat, fingerprint, seq)
            SELECT h.id, u.f, u.s FROM h, {prints} ON CONFLICT DO NOTHING)"""
    if has_blobs:
        text += """, b AS (INSERT INTO @blob (chat, digest, number, data)
            SELECT h.id, u.d, u.n, u.c FROM h, unnest(%b::text[], %b::int[], %b::bytea[]) AS u(d, n, c)
            ON CONFLICT DO NOTHING)"""
    return (
        text
        + f""" INSERT INTO @line (chat, seq, token, data)
        SELECT h.id, %b + u.k, %b, u.d FROM h, {lines}"""
    )


def append_statement(write: Write) -> tuple[str, list[object]]:
    lines, prints = write.lines, [(Int8(to_bigint(one)), Int8(seq)) for one, seq in write.prints]
    text = _append_text(
        is_new=write.is_new,
        has_lease=bool(write.lease),
        has_absent=bool(write.absent),
        prints=_ONE_PRINT if len(prints) == 1 else _MANY_PRINTS if prints else "",
        has_blobs=bool(write.blobs),
        lines=_ONE_LINE if len(lines) == 1 else _MANY_LINES,
    )
    before = write.before
    values: list[object] = [Int4(write.part)]
    if write.is_new:
        origin = write.lines[0][-18:-2].decode()
        values += [
            Int8(before.id),
            write.key,
            Int4(write.part),
            origin,
            Int8(write.head.seq),
            write.head.link,
        ]
    else:
        values += [Int8(write.head.seq), write.head.link, Int8(before.id)]
        values += [Int8(before.head.seq), before.head.link, Int8(before.erased)]
        values += [write.lease] if write.lease else []
        values += [[Int8(to_bigint(one)) for one in write.absent]] if write.absent else []
    if len(prints) == 1:
        values += prints[0]
    elif prints:
        values += [[one for one, _ in prints], [seq for _, seq in prints]]
    if write.blobs:
        values += chunk_columns(write.blobs)
    values += [Int8(before.head.seq), Int8(write.token), lines[0] if len(lines) == 1 else lines]
    return text, values


def chunk_columns(blobs: dict[str, bytes]) -> list[object]:
    """(digests, numbers, data) of the rows that these contents become."""
    rows = [
        (digest, at // _CHUNK, content[at : at + _CHUNK])
        for digest, content in blobs.items()
        for at in range(0, len(content) or 1, _CHUNK)
    ]
    return [[row[0] for row in rows], [Int4(row[1]) for row in rows], [row[2] for row in rows]]
