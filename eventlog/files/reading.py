"""Reading a store: entries, chats, search and snapshots. Takes no lock, and needs no writer.

The first, small pages are read on the event loop: a thread would take longer than the disk. All else is read on threads.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from chatfold.eventlog.codec import Page
from chatfold.eventlog.errors import (
    ChatDeleted,
    CorruptLog,
    ForkedProcess,
    NoSuchChat,
)
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.cache import Cache, Span
from chatfold.eventlog.files.chat_dir import (
    LISTING,
    change_token,
    chat_keys,
    chat_path,
)
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.notify import Notifier
from chatfold.eventlog.files.open_chat import OPEN_CHATS
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.search import Oddities, search_back
from chatfold.eventlog.files.segment import BIG_PAGE, Tail
from chatfold.eventlog.files.snapshots import load_snapshots, snapshot_seqs, store_snapshot
from chatfold.eventlog.search import Query, Spans
from chatfold.eventlog.storage import ChatPage, Storage
from chatfold.eventlog.transfer import ExportWriter

_POLL_S = 0.02
_POLL_MAX_S = 0.25
_HERE = 2  # pages that are read without a thread
_LISTING_KIND = "listing 1"
_LISTED = 1000  # chats in a page

P = TypeVar("P")
T = TypeVar("T")


class FileReading(Storage):
    """The half of ``FileStorage`` that changes nothing but caches."""

    def __init__(self, root: Path, disk: Disk, *, read_only: bool) -> None:
        self.read_only = read_only
        self._root = root
        self._disk = disk
        self._forked = False  # by os.fork, in the child
        self._readers: dict[str, LogReader] = {}
        self._opening = threading.Lock()
        self._oddities = Oddities()
        self._notifier = Notifier()

    # --- entries ---------------------------------------------------------------------------------------------

    def _reader(self, chat: str) -> LogReader:
        self._check_process()
        with self._opening:
            folder = self._readers.pop(chat, None)
            if folder is None:
                folder = self._open_reader(chat)
                while len(self._readers) >= OPEN_CHATS:
                    del self._readers[next(iter(self._readers))]
            self._readers[chat] = folder
            return folder

    def _open_reader(self, chat: str) -> LogReader:
        return LogReader(chat_path(self._root, chat), chat, self._disk, may_write=not self.read_only)

    def read(self, chat: str, first: int = 1, last: int | None = None) -> AsyncGenerator[Page]:
        folder = self._reader(chat)
        return self._pages(folder, folder.pages(max(1, first), last), _as_it_is)

    def read_back(self, chat: str, last: int | None = None) -> AsyncGenerator[Page]:
        folder = self._reader(chat)
        return self._pages(folder, folder.pages_back(last), _as_it_is)

    def read_entries(self, chat: str, first: int = 1, last: int | None = None) -> AsyncGenerator[list[Entry]]:
        folder = self._reader(chat)
        pages = folder.pages(max(1, first), last)
        return self._pages(folder, pages, folder.entries)

    def read_entries_back(self, chat: str, last: int | None = None) -> AsyncGenerator[list[Entry]]:
        folder = self._reader(chat)
        return self._pages(folder, folder.pages_back(last), folder.entries)

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Entry]:
        folder = self._reader(chat)
        found: list[Entry] = []
        async for page in self._pages(folder, folder.pages_back(upto, count), folder.entries):
            found[:0] = page
        return found

    async def _pages(
        self, folder: LogReader, pages: Iterator[P], made: Callable[[P], T]
    ) -> AsyncGenerator[T]:
        """What is made of the pages. The first, small ones, are read right here: a thread would take longer than the disk."""
        with folder.translating_deletion():
            try:
                page = _next(folder, pages, made)
            except NoSuchChat:
                return
            here = 1
            while page is not None:
                yield page
                try:
                    page = (
                        _next(folder, pages, made)
                        if here < _HERE
                        else await asyncio.to_thread(_next, folder, pages, made)
                    )
                    here += 1
                except NoSuchChat as error:
                    raise ChatDeleted("the chat was deleted", chat=error.chat, path=error.path) from None

    async def find(self, chat: str, *, id: str | None = None, key: str | None = None) -> int | None:
        """Reads all of it, like an append with an id whose caches are gone."""
        async for page in self.read_entries(chat):
            for entry in page:
                if (id is not None and entry.id == id) or (key is not None and entry.key == key):
                    return entry.seq
        return None

    async def blob(self, chat: str, digest: str) -> bytes:
        return await asyncio.to_thread(self._reader(chat).blob, digest)

    async def head(self, chat: str) -> Head:
        folder = self._reader(chat)
        try:
            with folder.lock, folder.translating_deletion():
                return folder.tail().head
        except NoSuchChat:
            self._readers.pop(chat, None)  # whoever follows chats that come and go need not remember them
            return Head()

    async def wait_for_news(self, chat: str, after: int) -> None:
        path = self._reader(chat).path
        pause = _POLL_S
        with self._notifier.following(chat, path) as news:  # before we look: no hint is missed
            while (head := await self.head(chat)).seq <= after:
                if head.seq == 0 and after > 0:
                    raise ChatDeleted("the chat was deleted", chat=chat, path=path)
                await news.wait(pause)
                pause = min(pause * 1.5, _POLL_MAX_S)

    def _publish(self, chat: str, tail: Tail) -> None:
        """What this process wrote need not be read to be believed. From any thread."""
        reader = self._readers.get(chat)
        if reader is not None:
            reader.remember(tail)
        self._notifier.wake(chat)

    async def export(self, chat: str) -> AsyncGenerator[bytes]:
        folder = LogReader(chat_path(self._root, chat), chat, self._disk)
        self._check_process()
        packing = ExportWriter(folder.blob)
        pages = folder.line_pages(size=BIG_PAGE)
        with folder.translating_deletion():
            data = packing.begin() + await asyncio.to_thread(_next_packed, folder, packing, pages)
            while data:
                yield data
                data = await asyncio.to_thread(_next_packed, folder, packing, pages)
            yield packing.end()

    # --- chats -----------------------------------------------------------------------------------------------

    async def chats(self, prefix: str = "", changed_since: str = "") -> AsyncGenerator[ChatPage]:  # noqa: ARG002
        for start in range(0, len(keys := await self._keys()) or 1, _LISTED):
            yield ChatPage([key for key in keys[start : start + _LISTED] if key.startswith(prefix)])

    async def _keys(self) -> list[str]:
        self._check_process()
        return await asyncio.to_thread(lambda: list(chat_keys(self._disk, self._root)))

    async def change_tokens(self) -> list[tuple[str, str]]:
        return await asyncio.to_thread(self._stamps, await self._keys())

    def _stamps(self, keys: list[str]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for key in keys:
            path = chat_path(self._root, key)
            with suppress(FileNotFoundError, NotADirectoryError):
                found.append((key, change_token(self._disk, path)))
        return found

    async def keep_listing(self, data: bytes) -> None:
        if not self.read_only:
            store = Cache(self._root, self._disk).store
            await asyncio.to_thread(store, LISTING, _LISTING_KIND, Span.up_to(Head()), data, "")

    async def kept_listing(self) -> bytes:
        kept = await asyncio.to_thread(Cache(self._root, self._disk).load, LISTING, _LISTING_KIND)
        return kept.payload if kept else b""

    # --- searching -------------------------------------------------------------------------------------------

    async def search(self, chat: str, query: Query, without: Spans = ()) -> AsyncGenerator[Entry]:
        """Like the default, by the bytes, on threads."""
        self._check_process()
        found = search_back(
            self._open_reader(chat), query, without, self._oddities
        )  # our own: nobody waits for it
        while (entries := await asyncio.to_thread(next, found, None)) is not None:
            for entry in entries:
                yield entry

    # --- snapshots -------------------------------------------------------------------------------------------

    async def erasure_epoch(self, chat: str) -> str:
        return self._reader(chat).cache.epoch()

    async def store_snapshot(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        if not self.read_only:
            folder = self._reader(chat)
            await asyncio.to_thread(self._store_snapshot, folder, head, data, erasures)

    def _store_snapshot(self, folder: LogReader, head: Head, data: bytes, known: str) -> None:
        if folder.cache.epoch() != known:
            return
        stored = folder.snapshots
        if stored is None:
            stored = folder.snapshots = snapshot_seqs(folder.cache)
        try:
            with folder.lock:  # not while it is written: the loop takes this lock, too
                end, border = folder.tail().position.seq, folder.is_segment_end(head.seq)
        except NoSuchChat:
            return
        if not store_snapshot(folder.cache, head, data, end, stored, known, border=border):
            folder.snapshots = None

    async def load_snapshots(self, chat: str, last: int | None = None) -> AsyncGenerator[tuple[Head, bytes]]:
        for found in load_snapshots(self._reader(chat).cache, last):
            yield found

    async def segment_boundaries(self, chat: str) -> Sequence[int]:
        try:
            return [first - 1 for first in self._reader(chat).segments()[1:]]
        except NoSuchChat:
            return ()

    def _check_process(self) -> None:
        if self._forked:
            raise ForkedProcess("this storage was opened before os.fork()", path=self._root)


def _next(folder: LogReader, pages: Iterator[P], made: Callable[[P], T]) -> T | None:
    """What is made of the next page. One thread at a time in a folder: it remembers where things are."""
    with folder.lock:
        try:
            page = next(pages, None)
            return None if page is None else made(page)
        except FileNotFoundError:
            raise NoSuchChat("no such chat", chat=folder.chat, path=folder.path) from None


def _as_it_is(page: Page) -> Page:
    return page


def _next_packed(folder: LogReader, packing: ExportWriter, pages: Iterator[list[bytes]]) -> bytes:
    page = next(pages, None)
    try:
        return packing.page(page) if page else b""
    except CorruptLog as error:
        error.chat, error.path = folder.chat, error.path or folder.path
        raise
