"""Reading a store: entries, chats, search and snapshots. Takes no lock, and needs no writer.

The first, small pages are read on the event loop: a thread would take longer than the disk. All else is read on threads.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from chatfold.eventlog.codec import Page
from chatfold.eventlog.errors import (
    ChatDeleted,
    CorruptLog,
    ForkedProcess,
    NoSuchChat,
    NoSuchStore,
)
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.chat_dir import chat_keys, chat_path
from chatfold.eventlog.files.disk import Disk, OpenFiles
from chatfold.eventlog.files.listing import StoreListing
from chatfold.eventlog.files.log_end import TailCell
from chatfold.eventlog.files.notify import Notifier
from chatfold.eventlog.files.open_chat import OPEN_CHATS
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.search import Oddities, search_back
from chatfold.eventlog.files.seen import Seen
from chatfold.eventlog.files.segment import BIG_PAGE
from chatfold.eventlog.files.snapshots import (
    has_small_newest,
    load_chapters,
    load_newest,
    load_snapshots,
    load_window,
    snapshot_seqs,
    store_chapter,
    store_snapshot,
    store_window,
)
from chatfold.eventlog.search import Query, Spans
from chatfold.eventlog.storage import ChatPage, Storage
from chatfold.eventlog.transfer import ExportWriter

_POLL_S = 0.02
_POLL_MAX_S = 0.25
_OPEN_FILES = 64  # segments that stay open for reading, of all chats
_LISTED = 4096  # entries: if none of the snapshots that were listed is so near, they are listed again
_HERE = 2  # pages that are read without a thread

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
        self._past: dict[str, Seen] = {}
        self._ends: WeakValueDictionary[str, TailCell] = WeakValueDictionary()  # as long as somebody has it
        self._files = OpenFiles(disk, _OPEN_FILES)
        self._opening = threading.Lock()
        self._oddities = Oddities()
        self._notifier = Notifier()
        self._listing = StoreListing(root, disk, may_write=not read_only)

    # --- entries ---------------------------------------------------------------------------------------------

    def _reader(self, chat: str) -> LogReader:
        if self._forked:
            self._check_process()
        with self._opening:
            folder = self._readers.pop(chat, None)
            if folder is None:
                folder = self._open_reader(chat, self._end_of(chat))
                while len(self._readers) >= OPEN_CHATS:
                    del self._readers[next(iter(self._readers))]
            self._readers[chat] = folder
            return folder

    def _open_reader(self, chat: str, end: TailCell | None = None) -> LogReader:
        path, may_write = chat_path(self._root, chat), not self.read_only
        return LogReader(path, chat, self._disk, end, may_write=may_write, files=self._files)

    def _end_of(self, chat: str) -> TailCell:
        """One for the writer and the readers of a chat. The caller holds ``_opening``."""
        end = self._ends.get(chat)
        if end is None:
            end = self._ends[chat] = TailCell()
        return end

    def read(self, chat: str, first: int = 1, last: int | None = None) -> AsyncGenerator[Page]:
        folder = self._reader(chat)
        return self._pages(folder, folder.pages(max(1, first), last), _as_it_is, first)

    def read_back(self, chat: str, last: int | None = None) -> AsyncGenerator[Page]:
        folder = self._reader(chat)
        return self._pages(folder, folder.pages_back(last), _as_it_is)

    def read_entries(self, chat: str, first: int = 1, last: int | None = None) -> AsyncGenerator[list[Entry]]:
        folder = self._reader(chat)
        pages = folder.pages(max(1, first), last)
        return self._pages(folder, pages, folder.entries, first)

    def read_entries_back(self, chat: str, last: int | None = None) -> AsyncGenerator[list[Entry]]:
        folder = self._reader(chat)
        return self._pages(folder, folder.pages_back(last), folder.entries)

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Entry]:
        folder = self._reader(chat)
        found: list[Entry] = []
        first = 0 if upto is None else upto - count + 1
        async for page in self._pages(folder, folder.pages_back(upto, count), folder.entries, first):
            found[:0] = page
        return found

    async def _pages(
        self, folder: LogReader, pages: Iterator[P], made: Callable[[P], T], first: int = 0
    ) -> AsyncGenerator[T]:
        """What is made of the pages. The first, small ones, are read right here: a thread would take longer than the disk.

        ``first``: the earliest entry of them; 0 if that is not known.
        """
        with folder.translating_deletion():
            try:
                here = int(folder.is_near_tail(first))
                page = (
                    _next(folder, pages, made)
                    if here
                    else await asyncio.to_thread(_next, folder, pages, made)
                )
            except NoSuchChat:
                return
            while page is not None:
                yield page
                try:
                    page = (
                        _next(folder, pages, made)
                        if 0 < here < _HERE
                        else await asyncio.to_thread(_next, folder, pages, made)
                    )
                    here += here > 0
                except NoSuchChat as error:
                    raise ChatDeleted("the chat was deleted", chat=error.chat, path=error.path) from None

    async def find(self, chat: str, *, id: str | None = None, key: str | None = None) -> int | None:
        self._check_process()
        return await asyncio.to_thread(self._find, chat, id, key)

    def _find(self, chat: str, id: str | None, key: str | None) -> int | None:
        seen = self._seen_of(chat)
        with seen.reader.lock, seen.reader.ignoring_deletion():
            return seen.find_entry(id=id, key=key)
        return None

    def _seen_of(self, chat: str) -> Seen:
        """With a reader of its own: to read a long history must not hold up those who read the chat."""
        with self._opening:
            seen = self._past.pop(chat, None) or Seen(self._open_reader(chat))
            while len(self._past) >= OPEN_CHATS:
                del self._past[next(iter(self._past))]
            self._past[chat] = seen
            return seen

    def _read_history(self, chat: str) -> None:
        """So that a writer finds in caches what it needs to know."""
        seen = self._seen_of(chat)
        with seen.reader.lock, seen.reader.ignoring_deletion():
            seen.catch_up()

    async def blob(self, chat: str, digest: str) -> bytes:
        return await asyncio.to_thread(self._reader(chat).blob, digest)

    async def head(self, chat: str) -> Head:
        folder = self._reader(chat)
        try:
            with folder.translating_deletion():
                if not folder.is_near_tail():
                    return (await asyncio.to_thread(folder.look)).head
                return folder.look().head
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

    async def export(self, chat: str) -> AsyncGenerator[bytes]:
        folder = LogReader(chat_path(self._root, chat), chat, self._disk)
        self._check_process()
        packing = ExportWriter(folder.blob)
        pages = folder.line_pages(size=BIG_PAGE)
        with folder.translating_deletion():
            data = packing.begin() + await asyncio.to_thread(_pack_next, folder, packing, pages)
            while data:
                yield data
                data = await asyncio.to_thread(_pack_next, folder, packing, pages)
            yield packing.end()

    # --- chats -----------------------------------------------------------------------------------------------

    async def chats(self, prefix: str = "", changed_since: str = "") -> AsyncGenerator[ChatPage]:
        self._check_process()
        if self.read_only and not await asyncio.to_thread(self._root.is_dir):
            raise NoSuchStore(
                f"there is no folder {str(self._root)!r}"
            )  # a name that was mistyped, most likely
        for page in await asyncio.to_thread(self._listing.pages, prefix, changed_since):
            yield page

    async def store_rows(self, rows: Mapping[str, tuple[str, bytes]]) -> None:
        self._check_process()
        await asyncio.to_thread(self._listing.store, rows)

    async def _keys(self) -> list[str]:
        self._check_process()
        return await asyncio.to_thread(lambda: list(chat_keys(self._disk, self._root)))

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
        folder = self._reader(chat)
        cache = folder.cache
        if not cache.is_there:  # as in most chats
            return
        is_small = has_small_newest(cache)
        newest = load_newest(cache, last) if is_small else await asyncio.to_thread(load_newest, cache, last)
        if newest and last is None:
            yield newest.span.head, newest.payload
        stay = folder.snapshots
        if stay is None or (
            last is not None and not any(0 <= last - seq < _LISTED for seq in reversed(stay))
        ):
            stay = folder.snapshots = await asyncio.to_thread(snapshot_seqs, cache)
        older = load_snapshots(cache, last, newest, stay)
        while kept := next(older, None) if is_small else await asyncio.to_thread(next, older, None):
            yield kept
            is_small = False

    async def store_window(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        if not self.read_only:
            await asyncio.to_thread(store_window, self._reader(chat).cache, head, data, erasures)

    async def load_window(self, chat: str) -> tuple[Head, bytes] | None:
        """Right here: one file, and a small one."""
        return load_window(self._reader(chat).cache)

    async def store_chapter(self, chat: str, first: int, head: Head, data: bytes, erasures: str = "") -> None:
        if not self.read_only:
            await asyncio.to_thread(store_chapter, self._reader(chat).cache, first, head, data, erasures)

    async def load_chapters(self, chat: str, first: int, last: int) -> dict[int, tuple[Head, bytes]]:
        return await asyncio.to_thread(load_chapters, self._reader(chat).cache, first, last)

    async def segment_boundaries(self, chat: str) -> Sequence[int]:
        try:
            segments = await asyncio.to_thread(self._reader(chat).segments)
            return [first - 1 for first in segments[1:]]
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


def _pack_next(folder: LogReader, packing: ExportWriter, pages: Iterator[list[bytes]]) -> bytes:
    page = next(pages, None)
    try:
        return packing.page(page) if page else b""
    except CorruptLog as error:
        error.chat, error.path = folder.chat, error.path or folder.path
        raise
