"""PostgresStorage: the contract of ``eventlog.storage`` on a PostgreSQL database."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from hashlib import sha256
from itertools import chain
from typing import Self

from psycopg.types.numeric import Int8

from chatfold.eventlog.batch import AppendRequest, Clock, id_fingerprint, key_fingerprint, now
from chatfold.eventlog.codec import EncodedEvent, Page, decode, parse_references, resolve_line
from chatfold.eventlog.errors import ChatDeleted, CorruptLog, ReadOnly
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.keys import folder_name
from chatfold.eventlog.known import Known, Needs
from chatfold.eventlog.line import count_valid_chain, link_after, parse_seq
from chatfold.eventlog.postgres import family, listing, transfer
from chatfold.eventlog.postgres.deltas import Answers
from chatfold.eventlog.postgres.leases import Leases
from chatfold.eventlog.postgres.news import ALL, LOOK, News
from chatfold.eventlog.postgres.place import Place, parse_address
from chatfold.eventlog.postgres.server import Server
from chatfold.eventlog.postgres.snapshots import (
    BORDER,
    load_chapters,
    load_opening,
    load_snapshots,
    load_window,
    store_chapter,
    store_snapshot,
    store_window,
)
from chatfold.eventlog.postgres.statements import (
    BLOBS,
    KNOWN,
    PAGE,
    PAGE_BACK,
    from_bigint,
    to_bigint,
)
from chatfold.eventlog.postgres.writer import Writer, encode_key
from chatfold.eventlog.storage import Change, ChatPage, Durability, Opening, Storage

_ROWS, _BYTES = (64, 4096), 1 << 20  # of a page: the first and the most lines, what it should have
_END = (1 << 63) - 1

_HEAD = "SELECT head_seq, head_link, erased FROM @chat WHERE key = %b"


class PostgresStorage(Storage):
    """``patience``: seconds until what does not answer is ``Unavailable``. ``lease_seconds``: how long one who died keeps others out.

    All appends are durable when they return, as far as the server is set up to be.
    """

    def __init__(
        self,
        place: str | Place,
        *,
        read_only: bool = False,
        clock: Clock = now,
        patience: float = 30,
        lease_seconds: float = 15,
    ) -> None:
        self.place = parse_address(place) if isinstance(place, str) else place
        self.read_only = read_only
        self._server = Server(self.place, read_only=read_only, patience=patience)
        self._clock = clock
        self._news = News(self._server)
        self._writer = Writer(self._server, clock, self._news.tell)
        self._leases = Leases(self._server, self._news, lease_seconds)
        self._deltas = Answers(self._server, self._news, lease_seconds)

    def __repr__(self) -> str:
        return f"PostgresStorage({self.place.shown!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- appending -----------------------------------------------------------------------------------------

    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:  # noqa: ARG002
        folder_name(request.chat)  # the same keys are refused everywhere
        await self._open_to_write(request.chat)
        return await self._writer.append(request)

    async def _open_to_write(self, chat: str) -> None:
        if self.read_only:
            raise ReadOnly("the storage is read-only", chat=chat)
        await self._server.open()

    # --- reading -------------------------------------------------------------------------------------------

    async def read(self, chat: str, first: int = 1, last: int | None = None) -> AsyncGenerator[Page]:
        key, end = encode_key(chat), Int8(_END if last is None else last)
        chat_id, at, link, count = 0, max(1, first), Head().link.encode() if first <= 1 else None, _ROWS[0]
        while at <= end:
            rows = await self._server.rows(PAGE, (key, end, Int8(at), Int8(at + count)))
            found, stop, data = rows[0]
            if found is None or found != (chat_id or found):
                _check_gone(chat, chat_id)
                return
            chat_id, end = found, Int8(stop)
            if data is not None:
                lines = _verify_lines(chat, data, at, min(at + count - 1, stop), link)
                yield Page(data + b"\n", 0, len(data) + 1)
                at, link = at + len(lines), link_after(lines[-1])
                count = _next_count(count, len(data))
            elif at <= end:
                raise _gap(chat, at)

    def read_back(self, chat: str, last: int | None = None) -> AsyncGenerator[Page]:
        return self._read_back(chat, last, _ROWS[0])

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Entry]:
        """In one round trip, unless they are too many for a page."""
        found: list[Entry] = []
        async with aclosing(self._read_back(chat, upto, max(1, min(count, _ROWS[1])))) as pages:
            while len(found) < count and (page := await anext(pages, None)):
                found[:0] = await self._decode(chat, page)
        return found[max(0, len(found) - count) :]

    async def _read_back(self, chat: str, last: int | None, count: int) -> AsyncGenerator[Page]:
        key, end, chat_id = encode_key(chat), Int8(_END if last is None else last), 0
        after: bytes | None = None  # the first line of the page after this one
        while end > 0:
            rows = await self._server.rows(PAGE_BACK, (key, end, Int8(count)))
            found, stop, data = rows[0]
            if found is None or found != (chat_id or found):
                _check_gone(chat, chat_id)
                return
            chat_id = found
            if data is None:
                if stop > 0:
                    raise _gap(chat, stop)
                return
            first = max(1, stop - count + 1)
            lines = _verify_lines(chat, data, first, stop, Head().link.encode() if first == 1 else None)
            if after is not None and not _is_followed(lines[-1], after):
                raise CorruptLog("a line does not follow the one before it", chat=chat, seq=stop + 1)
            yield Page(data + b"\n", 0, len(data) + 1)
            after, end, count = lines[0], Int8(first - 1), _next_count(count, len(data))

    async def head(self, chat: str) -> Head:
        rows = await self._server.rows(_HEAD, (encode_key(chat),))
        return Head(rows[0][0], rows[0][1]) if rows else Head()

    async def erasure_epoch(self, chat: str) -> str:
        rows = await self._server.rows(_HEAD, (encode_key(chat),))
        return str(rows[0][2] or "") if rows else ""

    async def find(self, chat: str, *, id: str | None = None, key: str | None = None) -> int | None:
        proposed = [id_fingerprint(id)] if id is not None else []
        proposed += [key_fingerprint(key)] if key is not None else []
        known = await self.fetch(chat, Needs(tuple(proposed)))
        for seq in sorted({*chain.from_iterable(known.seqs.values())}):
            line = known.lines.get(seq)
            if line is None:
                continue  # deleted meanwhile
            needed, digests = parse_references(line)
            others = await self.fetch(chat, Needs((), tuple(needed), tuple(digests)))
            entry = decode(resolve_line(line, others.lines.__getitem__, others.blobs.__getitem__))
            if (id is not None and entry.id == id) or (key is not None and entry.key == key):
                return seq
        return None

    async def fetch(self, chat: str, wanted: Needs) -> Known:
        """In one round trip; in two if blobs are among it."""
        key, known = encode_key(chat), Known()
        if wanted.fingerprints or wanted.seqs:
            fingerprints = [Int8(to_bigint(one)) for one in wanted.fingerprints]
            for fingerprint, seq, data in await self._server.rows(
                KNOWN, (key, fingerprints, [*map(Int8, wanted.seqs)])
            ):
                if fingerprint is None:
                    known.lines[seq] = data
                else:
                    known.seqs[from_bigint(fingerprint)] = (
                        *known.seqs.get(from_bigint(fingerprint), ()),
                        seq,
                    )
        if wanted.digests:
            known.blobs.update(await self._server.rows(BLOBS, (key, [*wanted.digests])))
        return known

    async def blob(self, chat: str, digest: str) -> bytes:
        content = (await self.fetch(chat, Needs(digests=(digest,)))).blobs.get(digest)
        if content is None:
            raise CorruptLog(f"the blob {digest} is not there", chat=chat)
        if sha256(content).hexdigest() != digest:
            raise CorruptLog(f"the blob {digest} is damaged", chat=chat)
        return content

    async def wait_for_news(self, chat: str, after: int) -> None:
        await self._server.open()
        key = encode_key(chat)
        async with self._news.watch(key) as changed:
            head = await self.head(chat)
            if head == Head() and after > 0:
                raise ChatDeleted("the chat was deleted", chat=chat)
            if head.seq <= after:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await changed.wait()

    # --- all chats -----------------------------------------------------------------------------------------

    def chats(self, prefix: str = "", changed_since: str = "") -> AsyncGenerator[ChatPage]:
        return listing.load_pages(self._server, prefix, changed_since)

    async def store_rows(self, rows: Mapping[str, tuple[str, bytes]]) -> None:
        if not self.read_only:
            await listing.store_rows(self._server, rows)

    async def follow_chats(self, since: str = "") -> AsyncGenerator[Change]:
        """In the order of their commits, for each part; a mark goes on after that very change."""
        await self._server.open()
        mark = listing.parse_mark(since)
        while True:
            async with self._news.watch(ALL) as changed:
                now_at = await listing.load_mark(self._server)
                moved = [part for part, pos in now_at.items() if pos > mark.get(part, 0)]
                async for key, part, pos in listing.load_changes(self._server, mark, moved):
                    mark[part] = pos
                    yield Change(key, listing.format_mark(mark))
                # All that these parts had before the look was told.
                mark.update({part: max(now_at[part], mark.get(part, 0)) for part in moved})
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await changed.wait()

    # --- whole chats ---------------------------------------------------------------------------------------

    async def fork(self, chat: str, new: str, at: int, first: EncodedEvent) -> Entry:
        folder_name(new)
        await self._open_to_write(chat)
        entry = await family.fork(self._server, chat, new, at, first, self._clock())
        self._news.tell([encode_key(new)])
        return entry

    async def redact(self, chat: str, seqs: Collection[int]) -> dict[str, list[int]]:
        await self._open_to_write(chat)
        erased = await family.redact(self._server, chat, seqs)
        self._news.tell([encode_key(key) for key in erased])
        return erased

    async def delete(self, chat: str) -> None:
        await self._open_to_write(chat)
        await family.delete(self._server, chat)
        await self._deltas.forget(chat)
        self._news.tell([encode_key(chat)])

    async def import_chat(self, chat: str, chunks: AsyncIterator[bytes]) -> None:
        folder_name(chat)
        await self._open_to_write(chat)
        await transfer.import_chat(self._server, chat, chunks)
        self._news.tell([encode_key(chat)])

    def lease(self, chat: str) -> AbstractAsyncContextManager[str]:
        return self._leases.lease(chat)

    # --- answers that are coming -----------------------------------------------------------------------------

    async def pass_delta(self, chat: str, data: bytes) -> None:
        await self._open_to_write(chat)
        await self._deltas.pass_delta(chat, data)

    async def end_deltas(self, chat: str) -> None:
        await self._deltas.end(chat)

    def follow_deltas(self, chat: str) -> AsyncGenerator[bytes]:
        return self._deltas.follow(chat)

    # --- caches --------------------------------------------------------------------------------------------

    async def store_snapshot(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        if not self.read_only:
            await store_snapshot(self._server, chat, head, data, erasures)

    def load_snapshots(self, chat: str, last: int | None = None) -> AsyncGenerator[tuple[Head, bytes]]:
        return load_snapshots(self._server, chat, last)

    async def store_window(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        if not self.read_only:
            await store_window(self._server, chat, head, data, erasures)

    async def load_window(self, chat: str) -> tuple[Head, bytes] | None:
        return await load_window(self._server, chat)

    async def store_chapter(self, chat: str, first: int, head: Head, data: bytes, erasures: str = "") -> None:
        if not self.read_only:
            await store_chapter(self._server, chat, first, head, data, erasures)

    async def load_chapters(self, chat: str, first: int, last: int) -> dict[int, tuple[Head, bytes]]:
        return await load_chapters(self._server, chat, first, last)

    async def load_opening(self, chat: str, last: int | None = None) -> Opening:
        return await load_opening(self._server, chat, last)

    async def segment_boundaries(self, chat: str) -> Sequence[int]:
        return range(BORDER, (await self.head(chat)).seq + 1, BORDER)

    async def close(self) -> None:
        if not self._server.is_closed:
            await self._deltas.close()
            await self._writer.close()
            await self._news.close()
            await self._server.close()


def _verify_lines(chat: str, data: bytes, first: int, last: int, link: bytes | None) -> list[bytes]:
    """The lines of a page: all there are from ``first`` to ``last``, each linked to the one before."""
    lines = data.split(b"\n")
    count = count_valid_chain(lines, link)
    if count < len(lines):
        raise CorruptLog("a line does not verify", chat=chat, seq=first + count)
    if parse_seq(lines[0]) != first or parse_seq(lines[-1]) != last or len(lines) != last - first + 1:
        raise _gap(chat, first)
    return lines


def _is_followed(line: bytes, after: bytes) -> bool:
    return count_valid_chain([line, after], None) == 2


def _gap(chat: str, seq: int) -> CorruptLog:
    return CorruptLog("lines are missing", chat=chat, seq=seq)


def _check_gone(chat: str, chat_id: int) -> None:
    if chat_id:
        raise ChatDeleted("the chat was deleted while it was read", chat=chat)


def _next_count(count: int, size: int) -> int:
    """So many lines that the next page has about as many bytes as it should."""
    return max(1, min(_ROWS[1], count * 8, count * _BYTES // max(1, size)))
