"""MemoryStorage: the reference that every other storage is held to, and the one for tests and scratch work."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain, count
from typing import Self

from chatfold.eventlog.batch import (
    AppendRequest,
    Batch,
    Clock,
    fingerprints_of,
    id_fingerprint,
    key_fingerprint,
    now,
)
from chatfold.eventlog.codec import EncodedEvent, Page, decode, parse_references, resolve_line
from chatfold.eventlog.erasure import ErasureView, plan_erasure, tombstone
from chatfold.eventlog.errors import (
    ChatDeleted,
    ChatExists,
    Closed,
    CorruptLog,
    LeaseLost,
    NoSuchChat,
    NoSuchPoint,
)
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.keys import folder_name
from chatfold.eventlog.known import Known, Needs, fingerprints_of_events, needs, number
from chatfold.eventlog.line import link_after
from chatfold.eventlog.storage import ChatPage, ChatRow, Durability, Storage
from chatfold.eventlog.transfer import Blob, ExportReader

_PAGE = 64
_BORDER = 4096
_NEAR = 256
_changes = count(1)  # of all chats of all storages: tokens, and marks


class _Chat:
    """A chat's lines, and what goes with them."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.blobs: dict[str, bytes] = {}
        self.seqs: dict[int, list[int]] = {}
        self.changed = asyncio.Event()
        self.changed_at = next(_changes)
        self.kept: dict[int | str, tuple[Head, bytes]] = {}
        self.window: tuple[Head, bytes] | None = None
        self.chapters: dict[int, tuple[Head, bytes]] = {}
        self.row = ("", b"")
        self.erasures = 0
        self.alone = asyncio.Lock()
        self.lease = ""  # the epoch of the one that is held

    @property
    def head(self) -> Head:
        return Head(len(self.lines), link_after(self.lines[-1]).decode()) if self.lines else Head()

    def line(self, seq: int) -> bytes:
        return self.lines[seq - 1]

    def blob(self, digest: str) -> bytes:
        try:
            return self.blobs[digest]
        except LookupError:
            raise CorruptLog(f"the blob {digest} is not there") from None

    def tell(self, wanted: Needs, known: Known) -> None:
        """One round trip: adds what is wanted to what is known."""
        found = {one: tuple(self.seqs.get(one, ())) for one in wanted.fingerprints}
        seqs = {*wanted.seqs, *chain.from_iterable(found.values())}
        known.seqs |= found
        known.lines |= {seq: self.line(seq) for seq in seqs if seq <= len(self.lines)}
        known.blobs |= {digest: self.blob(digest) for digest in wanted.digests}

    def add(self, lines: list[bytes], fingerprints: Iterable[list[int]]) -> None:
        for seq, some in enumerate(fingerprints, len(self.lines) + 1):
            for fingerprint in some:
                self.seqs.setdefault(fingerprint, []).append(seq)
        self.lines += lines
        self.wake()

    def whole(self, line: bytes) -> bytes:
        return resolve_line(line, self.line, self.blob)

    def view(self) -> ErasureView:
        def link(seq: int) -> str | None:
            return link_after(self.lines[seq - 1]).decode() if seq <= len(self.lines) else None

        return ErasureView(
            link,
            [(seq, refs) for seq, line in enumerate(self.lines, 1) if (refs := parse_references(line)[0])],
        )

    def erase(self, seqs: list[int]) -> None:
        self.erasures += 1
        self.changed_at = next(_changes)
        gone = set(seqs)
        self.seqs = {
            key: kept for key, old in self.seqs.items() if (kept := [s for s in old if s not in gone])
        }
        for seq in seqs:
            self.lines[seq - 1] = line = tombstone(self.lines[seq - 1])
            for fingerprint in fingerprints_of(line):
                self.seqs.setdefault(fingerprint, []).append(seq)
        self.kept, self.window, self.chapters = {}, None, {}
        self.row = ("", b"")
        needed = set[str]().union(*(parse_references(line)[1] for line in self.lines))
        self.blobs = {digest: content for digest, content in self.blobs.items() if digest in needed}

    def wake(self) -> None:
        self.changed_at = next(_changes)
        self.changed.set()
        self.changed = asyncio.Event()


class MemoryStorage(Storage):
    def __init__(self, *, clock: Clock = now) -> None:
        self._chats: dict[str, _Chat] = {}
        self._clock = clock
        self._closed = False

    def __repr__(self) -> str:
        return f"MemoryStorage({len(self._chats)} chats)"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:  # noqa: ARG002
        folder_name(request.chat)  # the same keys are refused everywhere
        self._check_open(request.chat)
        chat = self._chats.get(request.chat) or _Chat()
        if request.lease and request.lease != chat.lease:
            raise LeaseLost("the lease has passed", chat=request.chat)
        batch = self._number(request, chat)
        self._write(request, batch, chat)
        return batch.entries

    def _number(self, request: AppendRequest, chat: _Chat) -> Batch:
        now, known = self._clock(), Known()
        made: Batch | Needs = needs(request)
        while isinstance(made, Needs):
            chat.tell(made, known)
            made = number(request, chat.head, len(chat.lines), now, known)
        return made

    def _write(self, request: AppendRequest, batch: Batch, chat: _Chat) -> None:
        if batch.lines:
            for event in batch.events:
                chat.blobs.update(event.blobs)
            chat.add(batch.lines, fingerprints_of_events(request.id, batch.events))
            self._chats[request.chat] = chat

    async def read(self, chat: str, first: int = 1, last: int | None = None) -> AsyncGenerator[Page]:
        lines = self._lines(chat)[max(0, first - 1) : last]
        for index in range(0, len(lines), _PAGE):
            yield Page.of(lines[index : index + _PAGE])

    async def read_back(self, chat: str, last: int | None = None) -> AsyncGenerator[Page]:
        lines = self._lines(chat)[:last]
        for end in range(len(lines), 0, -_PAGE):
            yield Page.of(lines[max(0, end - _PAGE) : end])

    def _lines(self, chat: str) -> list[bytes]:
        return self._chats[chat].lines if chat in self._chats else []

    async def head(self, chat: str) -> Head:
        found = self._chats.get(chat)
        return found.head if found else Head()

    async def find(self, chat: str, *, id: str | None = None, key: str | None = None) -> int | None:
        found, proposed = self._chats.get(chat) or _Chat(), list[int]()
        if id is not None:
            proposed += found.seqs.get(id_fingerprint(id), ())
        if key is not None:
            proposed += found.seqs.get(key_fingerprint(key), ())
        for seq in proposed:
            entry = decode(found.whole(found.line(seq)))
            if (id is not None and entry.id == id) or (key is not None and entry.key == key):
                return seq
        return None

    async def blob(self, chat: str, digest: str) -> bytes:
        return (self._chats.get(chat) or _Chat()).blob(digest)

    async def wait_for_news(self, chat: str, after: int) -> None:
        found = self._chats.get(chat)
        if found is None and after > 0:
            raise ChatDeleted("the chat was deleted", chat=chat)
        if found is None:
            await asyncio.sleep(0.01)
        elif len(found.lines) <= after:
            await found.changed.wait()

    async def chats(self, prefix: str = "", changed_since: str = "") -> AsyncGenerator[ChatPage]:
        mark, since = str(next(_changes)), int(changed_since) if changed_since.isdecimal() else 0
        rows = [
            ChatRow(key, str(chat.changed_at), chat.row[1], chat.row[0])
            for key, chat in self._chats.items()
            if key.startswith(prefix) and chat.changed_at > since
        ]
        for index in range(0, len(rows) or 1, _PAGE):
            yield ChatPage(rows[index : index + _PAGE], mark)

    async def store_rows(self, rows: Mapping[str, tuple[str, bytes]]) -> None:
        for key, row in rows.items():
            if key in self._chats and row[0] == str(self._chats[key].changed_at):
                self._chats[key].row = row

    async def fork(self, chat: str, new: str, at: int, first: EncodedEvent) -> Entry:
        self._check_open(chat)
        folder_name(new)
        parent = self._find_chat(chat)
        if not 0 < at <= len(parent.lines):
            raise _no_such_point(chat, at, parent)
        if new in self._chats:
            raise ChatExists("there is a chat of this key already", chat=new)
        child = _Chat()
        child.blobs.update(parent.blobs)
        child.erasures = parent.erasures
        child.kept = {key: kept for key, kept in parent.kept.items() if kept[0].seq <= at}
        child.chapters = {first: kept for first, kept in parent.chapters.items() if kept[0].seq <= at}
        child.add(parent.lines[:at], [fingerprints_of(parent.whole(line)) for line in parent.lines[:at]])
        request = AppendRequest(new, (first,))
        batch = self._number(request, child)
        self._write(request, batch, child)
        return batch.entries[0]

    async def import_chat(self, chat: str, chunks: AsyncIterator[bytes]) -> None:
        self._check_open(chat)
        folder_name(chat)
        arrived = _Chat()
        unpacking = ExportReader()
        async for data in chunks:
            for item in unpacking.feed(data):
                if isinstance(item, Blob):
                    arrived.blobs[item.digest] = item.content
                else:
                    arrived.lines.append(item)
        unpacking.end()
        wholes = [arrived.whole(line) for line in arrived.lines]
        for whole in wholes:
            decode(whole)
        lines, arrived.lines = arrived.lines, []
        arrived.add(lines, map(fingerprints_of, wholes))
        if chat in self._chats:
            raise ChatExists("there is a chat of this key already", chat=chat)
        self._chats[chat] = arrived

    async def redact(self, chat: str, seqs: Collection[int]) -> dict[str, list[int]]:
        self._check_open(chat)
        target = self._find_chat(chat)
        for seq in seqs:
            if not 0 < seq <= len(target.lines):
                raise _no_such_point(chat, seq, target)
        erased = plan_erasure(chat, seqs, {key: other.view() for key, other in self._chats.items()})
        for key, same in erased.items():
            self._chats[key].erase(same)
        return erased

    def _find_chat(self, chat: str) -> _Chat:
        found = self._chats.get(chat)
        if found is None:
            raise NoSuchChat("no such chat", chat=chat)
        return found

    async def delete(self, chat: str) -> None:
        self._check_open(chat)
        if chat in self._chats:
            self._chats.pop(chat).wake()

    async def erasure_epoch(self, chat: str) -> str:
        found = self._chats.get(chat)
        return str(found.erasures) if found and found.erasures else ""

    async def store_snapshot(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        found = self._chats.get(chat)
        if found is not None and await self.erasure_epoch(chat) == erasures:
            apart = all(abs(seq - head.seq) >= _NEAR for seq in (0, *found.kept) if isinstance(seq, int))
            if apart or head.seq % _BORDER == 0:
                found.kept[head.seq] = (head, data)
            if len(found.lines) - head.seq < _NEAR:
                found.kept["newest"] = (head, data)

    async def load_snapshots(self, chat: str, last: int | None = None) -> AsyncGenerator[tuple[Head, bytes]]:
        found = self._chats.get(chat) or _Chat()
        once = {kept[0].seq: kept for kept in found.kept.values()}
        for _, (head, data) in sorted(once.items(), reverse=True):
            if last is None or head.seq <= last:
                yield head, data

    async def store_window(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        found = self._chats.get(chat)
        if found is not None and await self.erasure_epoch(chat) == erasures:
            found.window = (head, data)

    async def load_window(self, chat: str) -> tuple[Head, bytes] | None:
        return (self._chats.get(chat) or _Chat()).window

    async def store_chapter(self, chat: str, first: int, head: Head, data: bytes, erasures: str = "") -> None:
        found = self._chats.get(chat)
        if found is not None and await self.erasure_epoch(chat) == erasures:
            found.chapters[first] = (head, data)

    async def load_chapters(self, chat: str, first: int, last: int) -> dict[int, tuple[Head, bytes]]:
        found = self._chats.get(chat) or _Chat()
        return {begin: kept for begin, kept in found.chapters.items() if first <= begin <= last}

    async def segment_boundaries(self, chat: str) -> Sequence[int]:
        return range(_BORDER, (await self.head(chat)).seq + 1, _BORDER)

    @asynccontextmanager
    async def lease(self, chat: str) -> AsyncIterator[str]:
        found = self._find_chat(chat)
        async with found.alone:
            found.lease = str(next(_changes))
            try:
                yield found.lease
            finally:
                found.lease = ""

    async def close(self) -> None:
        self._closed = True

    def _check_open(self, chat: str) -> None:
        if self._closed:
            raise Closed("the storage is closed", chat=chat)


def _no_such_point(key: str, seq: int, chat: _Chat) -> NoSuchPoint:
    return NoSuchPoint(f"there is no entry {seq}, the chat ends at {len(chat.lines)}", chat=key, seq=seq)
