"""FileStorage: chats as folders of readable JSON lines, for any number of processes on one machine.

Appends go through ``files.queue`` to each chat's ``writer``. Reading takes no lock and needs no writer.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Self, TypeVar

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.codec import EncodedEvent, decode, decode_all
from chatfold.eventlog.errors import (
    ChatDeleted,
    ChatExists,
    ChatfoldError,
    Closed,
    CorruptLog,
    ForkedProcess,
    NoSuchChat,
    ReadOnly,
)
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.chat_dir import (
    CHATS,
    LISTING,
    change_token,
    chat_keys,
    chat_path,
    make_root,
    sweep,
    trash_chat,
)
from chatfold.eventlog.files.disk import Disk, has_path, is_folder
from chatfold.eventlog.files.fork import fork_chat
from chatfold.eventlog.files.grep import grep
from chatfold.eventlog.files.importer import import_chat
from chatfold.eventlog.files.lock import alone, holding_lock
from chatfold.eventlog.files.notify import Watch
from chatfold.eventlog.files.offsets import CACHE
from chatfold.eventlog.files.open_chat import OPEN_CHATS
from chatfold.eventlog.files.queue import CommitQueue
from chatfold.eventlog.files.reader import BIG_PAGE, LogReader
from chatfold.eventlog.files.redact import finish_redactions, redact_chats
from chatfold.eventlog.files.search_files import SEARCH, StoredSearchIndex
from chatfold.eventlog.files.segment import SEGMENT_BYTES, Tail
from chatfold.eventlog.files.snapshots import (
    drop_snapshot,
    erasures,
    keep_file,
    keep_snapshot,
    kept_file,
    snapshot_seqs,
    snapshots,
)
from chatfold.eventlog.files.writer import LogWriter
from chatfold.eventlog.search import SearchHit, search
from chatfold.eventlog.storage import Clock, Durability, now
from chatfold.eventlog.transfer import ExportWriter

_POLL_S = 0.02
_POLL_MAX_S = 0.25
_HERE = 2  # pages that are read without a thread
_SHORT = 32  # a segment that is shorter than this part of a full one stays open when it is forked

P = TypeVar("P")
T = TypeVar("T")


class FileStorage:
    """``async with FileStorage(path) as storage``. Closing makes everything durable.

    ``read_only``: nothing on disk is changed, ever. ``segment_bytes``: when a segment is full.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        durability: Durability = "full",
        read_only: bool = False,
        clock: Clock = now,
        segment_bytes: int = SEGMENT_BYTES,
        disk: Disk | None = None,
    ) -> None:
        self._root = Path(root)
        self._durability = durability
        self.read_only = read_only
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._disk = disk or Disk()
        self._forked = False  # by os.fork, in the child
        self._queue = CommitQueue(self._open_writer, self._publish)
        self._readers: dict[str, LogReader] = {}
        self._watches: dict[str, Watch] = {}
        self._indexes: dict[str, tuple[LogReader, StoredSearchIndex]] = {}
        self._searching = threading.Lock()
        self._prepared = self._closed = False
        self._unfinished = False  # did an erasure fail that is still to be finished?
        _storages.add(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- appending -------------------------------------------------------------------------------------

    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:
        self._check_writable(request.chat)
        if self._unfinished:
            self._prepare()
        return await self._queue.append(request, durability or self._durability)

    async def flush(self) -> None:
        await self._queue.flush()

    def _open_writer(self, chat: str) -> LogWriter:
        path = chat_path(self._root, chat)
        self._prepare()
        return LogWriter(path, chat, self._disk, self._clock, self._segment_bytes)

    def _check_writable(self, chat: str) -> None:
        self._check_process()
        if self.read_only:
            raise ReadOnly("the storage was opened read-only", chat=chat, path=self._root)
        if self._closed:
            raise Closed("the storage is closed", chat=chat, path=self._root)

    def _prepare(self) -> None:
        """Before the first change: what an earlier writer's death left to be done."""
        if (self._unfinished or not self._prepared) and is_folder(self._disk, self._root / CHATS):
            make_root(self._disk, self._root)  # whoever began it may have been killed
            sweep(self._disk, self._root)
            finish_redactions(self._disk, self._root)
            self._prepared, self._unfinished = True, False

    # --- reading ---------------------------------------------------------------------------------------

    def _reader(self, chat: str) -> LogReader:
        self._check_process()
        folder = self._readers.pop(chat, None)
        if folder is None:
            folder = LogReader(chat_path(self._root, chat), chat, self._disk, may_write=not self.read_only)
            while len(self._readers) >= OPEN_CHATS:
                del self._readers[next(iter(self._readers))]
        self._readers[chat] = folder
        return folder

    async def read(self, chat: str, first: int = 1, last: int | None = None) -> AsyncIterator[list[bytes]]:
        folder = self._reader(chat)
        async for page in self._pages(folder, folder.line_pages(max(1, first), last), folder.resolve_lines):
            yield page

    def read_back(self, chat: str, last: int | None = None) -> AsyncGenerator[list[bytes]]:
        folder = self._reader(chat)
        return self._pages(folder, folder.line_pages_back(last), folder.resolve_lines)

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Entry]:
        folder = self._reader(chat)
        found: list[Entry] = []
        async for page in self._pages(folder, folder.pages_back(upto, count), folder.entries):
            found[:0] = page
        return found

    async def _pages(
        self, folder: LogReader, pages: Iterator[P], made: Callable[[P], list[T]]
    ) -> AsyncGenerator[list[T]]:
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

    async def head(self, chat: str) -> Head:
        folder = self._reader(chat)
        try:
            with folder.lock, folder.translating_deletion():
                return folder.tail().head
        except NoSuchChat:
            self._readers.pop(chat, None)  # whoever follows chats that come and go need not remember them
            return Head()

    async def wait_for_news(self, chat: str, after: int) -> None:
        folder = self._reader(chat)
        pause = _POLL_S
        while True:
            head = await self.head(chat)
            if head.seq > after:
                return
            if head.seq == 0 and after > 0:
                raise ChatDeleted("the chat was deleted", chat=chat, path=folder.path)
            if chat not in self._watches and head.seq:
                await self._close_watches(idle=True)
                if chat not in self._watches:  # another follower may have been here meanwhile
                    self._watches[chat] = Watch(folder.path)
            watch = self._watches.get(chat)
            await (watch.wait(pause) if watch else asyncio.sleep(pause))
            pause = min(pause * 1.5, _POLL_MAX_S)

    async def _close_watches(self, *, idle: bool) -> None:
        for chat, watch in list(self._watches.items()):
            if watch.is_idle or not idle:
                del self._watches[chat]
                await watch.close()

    def _publish(self, chat: str, tail: Tail) -> None:
        """What this process wrote need not be read to be believed. From any thread."""
        reader = self._readers.get(chat)
        if reader is not None:
            reader.remember(tail)
        watch = self._watches.get(chat)
        if watch is not None:
            watch.wake()

    async def chats(self) -> AsyncIterator[str]:
        self._check_process()
        for key in await asyncio.to_thread(lambda: list(chat_keys(self._disk, self._root))):
            yield key

    async def change_tokens(self) -> list[tuple[str, str]]:
        return await asyncio.to_thread(self._stamps, [key async for key in self.chats()])

    def _stamps(self, keys: list[str]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for key in keys:
            path = chat_path(self._root, key)
            with suppress(FileNotFoundError, NotADirectoryError):
                found.append((key, change_token(self._disk, path)))
        return found

    async def keep_listing(self, data: bytes) -> None:
        if not self.read_only:
            await asyncio.to_thread(keep_file, self._disk, self._root, LISTING, Head(), data)

    async def kept_listing(self) -> bytes:
        kept = await asyncio.to_thread(kept_file, self._disk, self._root, LISTING)
        return kept[1] if kept else b""

    # --- searching ---------------------------------------------------------------------------------------

    async def search(
        self, chat: str, query: str, *, limit: int = 20, without: Sequence[tuple[int, int]] = ()
    ) -> list[SearchHit]:
        self._check_process()
        return await asyncio.to_thread(self._search, chat, query, limit, without)

    def _search(
        self, chat: str, query: str, limit: int, without: Sequence[tuple[int, int]]
    ) -> list[SearchHit]:
        with self._searching:  # an index serves one thread at a time
            folder, index = self._index(chat)

            def pages(first: int) -> Iterator[list[Entry]]:
                for page in folder.line_pages(first, size=BIG_PAGE):
                    yield list(decode_all(page, folder.resolve_line))

            def read(seq: int) -> Entry | None:
                return decode(folder.resolve_line(folder.line(seq))) if folder.link(seq) else None

            with folder.ignoring_deletion():
                return search(index, folder.link, pages, read, query, limit, without)
            return []

    async def grep(self, chat: str, text: str) -> list[int]:
        self._check_process()
        return await asyncio.to_thread(grep, LogReader(chat_path(self._root, chat), chat, self._disk), text)

    def _index(self, chat: str) -> tuple[LogReader, StoredSearchIndex]:
        """A folder of its own: catching up with a long chat must not hold up those who read it."""
        if chat not in self._indexes:
            while len(self._indexes) >= OPEN_CHATS:
                self._indexes.pop(next(iter(self._indexes)))[1].close()
            folder = LogReader(chat_path(self._root, chat), chat, self._disk, may_write=not self.read_only)
            path = folder.path / CACHE / SEARCH
            self._indexes[chat] = (
                folder,
                StoredSearchIndex(path, disk=self._disk, may_write=not self.read_only),
            )
        return self._indexes[chat]

    # --- snapshots ---------------------------------------------------------------------------------------

    async def erasure_epoch(self, chat: str) -> str:
        return erasures(self._disk, self._reader(chat).path)

    async def store_snapshot(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        if not self.read_only:
            folder = self._reader(chat)
            await asyncio.to_thread(self._keep, folder, head, data, erasures)

    def _keep(self, folder: LogReader, head: Head, data: bytes, known: str) -> None:
        if erasures(self._disk, folder.path) != known:
            return
        with folder.lock, suppress(NoSuchChat):
            end = folder.tail().position.seq
            if folder.snapshots is None:
                folder.snapshots = snapshot_seqs(self._disk, folder.path)
            border = folder.is_segment_end(head.seq)
            keep_snapshot(self._disk, folder.path, head, data, end, folder.snapshots, border=border)
        # An erasure says so before it drops all snapshots: either it has dropped this one, or it is told here.
        if erasures(self._disk, folder.path) != known:
            drop_snapshot(self._disk, folder.path, head)
            folder.snapshots = None

    async def load_snapshots(self, chat: str, last: int | None = None) -> AsyncGenerator[tuple[Head, bytes]]:
        for found in snapshots(self._disk, self._reader(chat).path, last):
            yield found

    async def segment_boundaries(self, chat: str) -> Sequence[int]:
        try:
            return [first - 1 for first in self._reader(chat).segments()[1:]]
        except NoSuchChat:
            return ()

    # --- forking, erasing, deleting ----------------------------------------------------------------------

    async def fork(self, chat: str, new: str, at: int, first: EncodedEvent) -> Entry:
        folder = self._writable(chat)
        if not has_path(self._disk, chat_path(self._root, new)):  # else it is refused, and changes nothing
            await self._end_segment(chat, at)

        def fork() -> Entry:
            with holding_lock(folder):
                return fork_chat(folder, self._root, new, at, first, self._clock)

        return await asyncio.to_thread(fork)

    async def _end_segment(self, chat: str, at: int) -> None:
        """So that a fork at the end of the log shares all of it. A short segment is copied: there would be one for each fork."""
        reader, least = self._reader(chat), self._segment_bytes // _SHORT
        try:
            with reader.lock:
                tail = reader.tail()
        except ChatfoldError:
            return  # whoever forks it is told
        if tail.position.seq == at and not tail.sealed and tail.position.offset >= least:
            await self._queue.seal_at(chat, at, least)

    async def export(self, chat: str) -> AsyncIterator[bytes]:
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

    async def import_chat(self, chat: str, chunks: AsyncIterator[bytes]) -> None:
        path = self._writable(chat).path
        if await self.head(chat) != Head() or not await import_chat(
            self._disk, path, chat, chunks, self._segment_bytes
        ):
            raise ChatExists("there is a chat of this key already", chat=chat, path=path)

    async def redact(self, chat: str, seqs: Collection[int]) -> dict[str, list[int]]:
        self._writable(chat)
        keys = [key async for key in self.chats()]
        try:
            return await asyncio.to_thread(self._redact, chat, seqs, keys)
        except OSError:
            self._unfinished = True
            raise

    def _redact(self, chat: str, seqs: Collection[int], keys: list[str]) -> dict[str, list[int]]:
        mine = self._writable(chat)
        with mine.translating_deletion():
            origin = mine.link(1)
            family = {chat: mine}
            for key in keys:
                folder = self._writable(key)
                with folder.ignoring_deletion():
                    if key != chat and origin and folder.link(1) == origin:
                        family[key] = folder
            return redact_chats(self._root, chat, seqs, family, looked_at=keys)

    async def delete(self, chat: str) -> None:
        folder = self._writable(chat)

        def delete() -> None:
            with holding_lock(folder):
                trash_chat(self._disk, self._root, folder.path)

        await asyncio.to_thread(delete)
        self._readers.pop(chat, None)
        self._indexes.pop(chat, None)
        self._queue.drop_chat(chat)

    def _writable(self, chat: str) -> LogReader:
        self._check_writable(chat)
        folder = LogReader(chat_path(self._root, chat), chat, self._disk)
        self._prepare()
        return folder

    def lease(self, chat: str) -> AbstractAsyncContextManager[None]:
        return alone(self._writable(chat))

    # --- the storage itself ------------------------------------------------------------------------------

    def _check_process(self) -> None:
        if self._forked:
            raise ForkedProcess("this storage was opened before os.fork()", path=self._root)

    async def close(self) -> None:
        """Everything durable, all files closed. Closing twice is closing once."""
        if self._closed or self._forked:
            return
        await self._close_watches(idle=False)
        self._closed = True
        for _, index in self._indexes.values():
            index.close()
        await self._queue.close()

    def close_files(self) -> None:
        self._queue.close_files()

    def _in_child(self) -> None:
        self._forked = True
        self.close_files()


def _next(folder: LogReader, pages: Iterator[P], made: Callable[[P], list[T]]) -> list[T] | None:
    """What is made of the next page. One thread at a time in a folder: it remembers where things are."""
    with folder.lock:
        try:
            page = next(pages, None)
            return None if page is None else made(page)
        except FileNotFoundError:
            raise NoSuchChat("no such chat", chat=folder.chat, path=folder.path) from None


def _next_packed(folder: LogReader, packing: ExportWriter, pages: Iterator[list[bytes]]) -> bytes:
    page = next(pages, None)
    try:
        return packing.page(page) if page else b""
    except CorruptLog as error:
        error.chat, error.path = folder.chat, error.path or folder.path
        raise


_storages: "weakref.WeakSet[FileStorage]" = weakref.WeakSet()


def _in_child() -> None:
    for storage in _storages:
        storage._in_child()  # noqa: SLF001 (of this module)


os.register_at_fork(after_in_child=_in_child)
