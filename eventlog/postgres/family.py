"""fork, redact and delete: what concerns a chat and those that share its lines.

A fork is a row: its lines up to its base are its parent's. So a chat that is deleted while it has forks leaves the lines that they
share, in a row without a key, until the last of them is deleted, too. Copies that were imported begin with the same entry, so
they are found by ``origin`` when something is erased.
"""

from collections.abc import Collection
from itertools import chain
from typing import Any

from psycopg.types.numeric import Int4, Int8

from chatfold.eventlog.batch import AppendRequest, Batch, fingerprints_of
from chatfold.eventlog.codec import EncodedEvent, parse_references
from chatfold.eventlog.erasure import ErasureView, plan_erasure, tombstone
from chatfold.eventlog.errors import ChatExists, CorruptLog, NoSuchChat, NoSuchPoint
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.known import Known, Needs, fingerprints_of_events, needs, number
from chatfold.eventlog.line import link_after
from chatfold.eventlog.postgres.locking import Locked, MoreParts, with_parts
from chatfold.eventlog.postgres.server import Server
from chatfold.eventlog.postgres.statements import (
    BLOBS,
    KNOWN,
    LINES,
    chunk_columns,
    from_bigint,
    to_bigint,
)
from chatfold.eventlog.postgres.turn import new_id
from chatfold.eventlog.postgres.writer import encode_key, part_of

_CHAT = "SELECT id, part, origin, head_seq, erased FROM @chat WHERE key = %b"
_TAKEN = "SELECT id, head_seq FROM @chat WHERE key = %b"
_FORK = """INSERT INTO @chat (id, key, part, pos, origin, parent, base, head_seq, head_link, erased)
    SELECT %b, %b, part, pos, %b, %b, %b, %b, %b, %b FROM @part WHERE part = %b"""
_LINE = "INSERT INTO @line (chat, seq, token, data) VALUES (%b, %b, 0, %b)"
_PRINT = "INSERT INTO @print (chat, fingerprint, seq) VALUES (%b, %b, %b) ON CONFLICT DO NOTHING"
_BLOB = """INSERT INTO @blob (chat, digest, number, data)
    SELECT %b, u.d, u.n, u.c FROM unnest(%b::text[], %b::int[], %b::bytea[]) AS u(d, n, c) ON CONFLICT DO NOTHING"""


# --- forking ---------------------------------------------------------------------------------------------


async def fork(server: Server, chat: str, new: str, at: int, first: EncodedEvent, now: int) -> Entry:
    parent, child, chat_id = encode_key(chat), encode_key(new), new_id()

    async def work(locked: Locked) -> Entry:
        rows = await locked.rows(_CHAT, parent)
        if not rows:
            raise NoSuchChat("no such chat", chat=chat)
        parent_id, _, origin, end, erased = rows[0]
        if not 0 < at <= end:
            raise _no_such_point(chat, at, end)
        line = (await _lines(locked, parent, [at]))[at]
        batch = await _number_first(locked, parent, new, first, Head(at, link_after(line).decode()), now)
        if taken := await locked.rows(_TAKEN, child):
            if taken[0][0] != chat_id:
                raise ChatExists("there is a chat of this key already", chat=new)
            return batch.entries[0]  # it was committed, and the answer was lost
        head = batch.head
        values = [
            Int8(chat_id),
            child,
            origin,
            Int8(parent_id),
            Int8(at),
            Int8(head.seq),
            head.link,
            Int8(erased),
        ]
        await locked.rows(_FORK, *values, Int4(part_of(child, server.parts)))
        await _add(locked, chat_id, batch)
        return batch.entries[0]

    parts = [part_of(key, server.parts) for key in (parent, child)]
    return await with_parts(server, parts, work, chat)


async def _number_first(
    locked: Locked, parent: bytes, new: str, first: EncodedEvent, head: Head, now: int
) -> Batch:
    """The first entry of a fork may refer to what its parent said up to there."""
    request = AppendRequest(new, (first,))
    wanted: Batch | Needs = needs(request)
    known = Known()
    while isinstance(wanted, Needs):
        await _learn(locked, parent, wanted, known, upto=head.seq)
        wanted = number(request, head, head.seq, now, known)
    return wanted


async def _learn(locked: Locked, key: bytes, wanted: Needs, known: Known, upto: int) -> None:
    fingerprints = [Int8(to_bigint(one)) for one in wanted.fingerprints]
    if fingerprints or wanted.seqs:
        for fingerprint, seq, data in await locked.rows(KNOWN, key, fingerprints, [*map(Int8, wanted.seqs)]):
            if fingerprint is None:
                known.lines[seq] = data
            elif seq <= upto:
                known.seqs[from_bigint(fingerprint)] = (*known.seqs.get(from_bigint(fingerprint), ()), seq)
    if wanted.digests:
        known.blobs.update(await locked.rows(BLOBS, key, [*wanted.digests]))


async def _add(locked: Locked, chat_id: int, batch: Batch) -> None:
    prints = fingerprints_of_events(None, batch.events)
    for seq, (line, event, found) in enumerate(
        zip(batch.lines, batch.events, prints, strict=True), batch.entries[0].seq
    ):
        if event.blobs:
            await locked.rows(_BLOB, Int8(chat_id), *chunk_columns(dict(event.blobs)))
        await locked.many(_PRINT, [(Int8(chat_id), Int8(to_bigint(one)), Int8(seq)) for one in found])
        await locked.rows(_LINE, Int8(chat_id), Int8(seq), line)


async def _lines(locked: Locked, key: bytes, seqs: Collection[int]) -> dict[int, bytes]:
    return dict(await locked.rows(LINES, key, [*map(Int8, seqs)]))


def _no_such_point(key: str, seq: int, end: int) -> NoSuchPoint:
    return NoSuchPoint(f"there is no entry {seq}, the chat ends at {end}", chat=key, seq=seq)


# --- erasing -----------------------------------------------------------------------------------------------

_FAMILY = "SELECT id, key, part, parent, base, head_seq FROM @chat WHERE origin = %b"
_SHAPES = """SELECT chat, seq, CASE WHEN position('\\x7f'::bytea IN data) > 0 THEN data
    ELSE substring(data FROM greatest(1, length(data) - 255)) END FROM @line WHERE chat = ANY(%b::bigint[])"""
_WHOLE = "SELECT chat, seq, data FROM @line WHERE (chat, seq) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))"
_ERASE = "UPDATE @line SET data = %b WHERE chat = %b AND seq = %b"
_UNPRINT = "DELETE FROM @print WHERE (chat, seq) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))"
_ERASED = "UPDATE @chat SET erased = erased + 1 WHERE id = ANY(%b::bigint[])"
_FORGET = "DELETE FROM @snapshot WHERE chat = ANY(%b::bigint[])"
_UNLIST = "DELETE FROM @listing WHERE chat = ANY(%b::bigint[])"
_UNUSED = "DELETE FROM @blob WHERE chat = ANY(%b::bigint[]) AND NOT digest = ANY(%b::text[])"


class _Member:
    """A chat of a family: its own row, and where its lines are."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.id, self.key, self.part, self.parent, self.base, self.end = row

    @property
    def name(self) -> str:
        return str(self.key.decode("utf-8", "surrogatepass"))


async def redact(server: Server, chat: str, seqs: Collection[int]) -> dict[str, list[int]]:
    key = encode_key(chat)

    async def work(locked: Locked) -> dict[str, list[int]]:
        rows = await locked.rows(_CHAT, key)
        if not rows:
            raise NoSuchChat("no such chat", chat=chat)
        for seq in seqs:
            if not 0 < seq <= rows[0][3]:
                raise _no_such_point(chat, seq, rows[0][3])
        members = [_Member(row) for row in await locked.rows(_FAMILY, rows[0][2])]
        if missing := {member.part for member in members} - {*locked.parts}:
            raise MoreParts(missing)  # a fork of any of these needs its part: no other can come now
        return await _erase(locked, chat, seqs, {member.id: member for member in members})

    return await with_parts(server, [part_of(key, server.parts)], work, chat)


async def _erase(
    locked: Locked, chat: str, seqs: Collection[int], members: dict[int, _Member]
) -> dict[str, list[int]]:
    ids = [*map(Int8, members)]
    shapes = {(at, seq): shape for at, seq, shape in await locked.rows(_SHAPES, ids)}
    living = [member for member in members.values() if member.key is not None]
    places = {member.name: _places(member, members) for member in living}
    views = {name: _view(shapes, found) for name, found in places.items()}
    erased = plan_erasure(chat, seqs, views)
    gone = sorted({places[name][seq] for name, some in erased.items() for seq in some})
    columns = [Int8(at) for at, _ in gone], [Int8(seq) for _, seq in gone]
    lines = {(at, seq): tombstone(data) for at, seq, data in await locked.rows(_WHOLE, *columns)}
    await locked.many(_ERASE, [(line, Int8(at), Int8(seq)) for (at, seq), line in lines.items()])
    await locked.rows(_UNPRINT, *columns)
    prints = [
        (Int8(at), Int8(to_bigint(one)), Int8(seq))
        for (at, seq), line in lines.items()
        for one in fingerprints_of(line)
    ]
    await locked.many(_PRINT, prints)
    changed = [Int8(member.id) for member in living if member.name in erased]
    await locked.rows(_ERASED, changed)
    await locked.rows(_FORGET, ids)
    await locked.rows(_UNLIST, changed)
    await locked.mark_changed(changed)
    left = {**{place: shape for place, shape in shapes.items() if b"\x7f" in shape}, **lines}
    needed = set(chain.from_iterable(parse_references(line)[1] for line in left.values()))
    await locked.rows(_UNUSED, ids, [*needed])
    return erased


def _places(member: _Member, members: dict[int, _Member]) -> dict[int, tuple[int, int]]:
    """Where each line of a chat is: (chat, seq) by seq."""
    found: dict[int, tuple[int, int]] = {}
    at: _Member | None = member
    high = member.end
    while at is not None:
        found.update((seq, (at.id, seq)) for seq in range(at.base + 1, high + 1))
        high = min(high, at.base)
        if at.parent is not None and at.parent not in members:
            raise CorruptLog("what the chat was forked from is not there", chat=member.name)
        at = members[at.parent] if at.parent is not None else None
    return found


def _view(shapes: dict[tuple[int, int], bytes], places: dict[int, tuple[int, int]]) -> ErasureView:
    def link(seq: int) -> str | None:
        return link_after(shapes[places[seq]]).decode() if seq in places else None

    references = [
        (seq, refs)
        for seq, place in sorted(places.items())
        if b"\x7f" in shapes[place] and (refs := parse_references(shapes[place])[0])
    ]
    return ErasureView(link, references)


# --- deleting ----------------------------------------------------------------------------------------------

_ANCESTORS = """WITH RECURSIVE up(id, key, part, parent) AS (
    SELECT id, key, part, parent FROM @chat WHERE key = %b
    UNION ALL SELECT c.id, c.key, c.part, c.parent FROM up JOIN @chat c ON c.id = up.parent)
SELECT id, key, part FROM up"""
_SHARED = "SELECT (SELECT max(base) FROM @chat WHERE parent = c.id) FROM @chat c WHERE c.id = %b FOR UPDATE"
"""The lock comes before the rest: who keeps a cache of the chat at this moment has done so before, or does not."""
_DROP = """WITH n AS (DELETE FROM @line WHERE chat = %b AND seq > %b),
    p AS (DELETE FROM @print WHERE chat = %b AND seq > %b),
    s AS (DELETE FROM @snapshot WHERE chat = %b AND seq > %b)
    SELECT 1"""
_BURY = "UPDATE @chat SET key = NULL, head_seq = %b, lease = '' WHERE id = %b"
_REMOVE = "WITH b AS (DELETE FROM @blob WHERE chat = %b) DELETE FROM @chat WHERE id = %b"
_LEFT = "SELECT data FROM @line WHERE chat = %b AND position('\\x7f'::bytea IN data) > 0"


async def delete(server: Server, chat: str) -> None:
    key = encode_key(chat)

    async def work(locked: Locked) -> None:
        rows = await locked.rows(_ANCESTORS, key)
        if missing := {part for _, _, part in rows} - {*locked.parts}:
            raise MoreParts(missing)
        for generation, (chat_id, name, _) in enumerate(rows):
            if generation and name is not None:
                return  # it lives
            await _cut(locked, chat_id)

    await with_parts(server, [part_of(key, server.parts)], work, chat)


async def _cut(locked: Locked, chat_id: int) -> None:
    """A chat that nobody has any more: only what forks share of it stays."""
    shared = (await locked.rows(_SHARED, Int8(chat_id)))[0][0]
    keep = Int8(shared or 0)
    await locked.rows(_DROP, *(Int8(chat_id), keep) * 3)
    await locked.rows(_UNLIST, [Int8(chat_id)])
    if shared is None:
        await locked.rows(_REMOVE, Int8(chat_id), Int8(chat_id))
        return
    await locked.rows(_BURY, keep, Int8(chat_id))
    needed = set[str]()
    for (data,) in await locked.rows(_LEFT, Int8(chat_id)):
        needed |= parse_references(data)[1]
    await locked.rows(_UNUSED, [Int8(chat_id)], [*needed])
