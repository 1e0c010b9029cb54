"""FileStorage: chats as folders of readable JSON lines, for any number of processes on one machine.

Appends go through ``files.queue`` to each chat's ``writer``. Reading takes no lock and needs no writer.
"""

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self

from chatfold.eventlog.batch import AppendRequest, Clock, now
from chatfold.eventlog.codec import EncodedEvent
from chatfold.eventlog.deltas import ComingAnswer
from chatfold.eventlog.errors import (
    ChatExists,
    ChatfoldError,
    Closed,
    NoSuchChat,
    ReadOnly,
    to_chatfold_error,
)
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.chat_dir import (
    chat_path,
    trash_chat,
)
from chatfold.eventlog.files.deltas import FileAnswer, follow_file
from chatfold.eventlog.files.disk import Disk, has_path
from chatfold.eventlog.files.fork import fork_chat
from chatfold.eventlog.files.importer import import_chat
from chatfold.eventlog.files.lock import alone, holding_lock
from chatfold.eventlog.files.preparation import Preparation
from chatfold.eventlog.files.queue import CommitQueue
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.reading import FileReading
from chatfold.eventlog.files.redact import find_family, redact_chats
from chatfold.eventlog.files.seen import HistoryUnread
from chatfold.eventlog.files.segment import SEGMENT_BYTES
from chatfold.eventlog.files.writer import LogWriter
from chatfold.eventlog.storage import Durability, check_durability

_ROUNDS = 3  # in which the history is read without the lock
_SHORT = 32  # a segment that is shorter than this part of a full one stays open when it is forked


class FileStorage(FileReading):
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
        check_durability(durability)
        super().__init__(Path(root), disk or Disk(), read_only=read_only)
        self._durability = durability
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._queue = CommitQueue(self._open_writer, self._notifier)
        self._preparation = Preparation(self._disk, self._root)
        self._readings: dict[str, asyncio.Future[None]] = {}
        self._closed = False
        _storages.add(self)

    def __repr__(self) -> str:
        return f"FileStorage({str(self._root)!r}{', read_only=True' if self.read_only else ''})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- appending -------------------------------------------------------------------------------------

    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:
        if self.read_only or self._closed or self._forked:
            self._check_writable(request.chat)
        if durability is not None:
            check_durability(durability)
        if not self._preparation.is_done:
            await self._prepare(request.chat)
        rounds = 0
        while True:
            try:
                return await self._queue.append(request, durability or self._durability)
            except HistoryUnread:
                rounds += 1
                await self._make_known(request, rounds)

    async def _make_known(self, request: AppendRequest, rounds: int) -> None:
        """Read the history without the lock, once for all appends that wait for it. Others append meanwhile.

        If they append faster than we read, the writer reads the rest under the lock.
        """
        self._check_writable(request.chat)
        if request.has_names:
            reading = self._readings.get(request.chat)
            if reading is None or reading.get_loop() is not asyncio.get_running_loop():
                reading = asyncio.ensure_future(asyncio.to_thread(self._read_history, request.chat))
                self._readings[request.chat] = reading
                reading.add_done_callback(partial(self._forget_reading, request.chat))
            await asyncio.shield(reading)
        if rounds >= _ROUNDS:
            self._queue.chats.get(request.chat).writer.seen.reads_all = True

    def _forget_reading(self, chat: str, reading: asyncio.Future[None]) -> None:
        if self._readings.get(chat) is reading:
            del self._readings[chat]
        if not reading.cancelled():
            reading.exception()  # whoever waits is told

    async def flush(self) -> None:
        await self._queue.flush()

    async def _prepare(self, chat: str) -> None:
        """An erasure that a kill or a full disk cut off is finished before anything else changes."""
        with _in_our_words(chat, self._root):
            await self._preparation.finish()

    def _open_writer(self, chat: str) -> LogWriter:
        path = chat_path(self._root, chat)
        with self._opening:
            end = self._end_of(chat)
        ensure_root = self._preparation.ensure_root
        return LogWriter(
            path, chat, self._disk, self._clock, self._segment_bytes, ensure_root, end, self._files
        )

    def _check_writable(self, chat: str) -> None:
        self._check_process()
        if self.read_only:
            raise ReadOnly("the storage was opened read-only", chat=chat, path=self._root)
        if self._closed:
            raise Closed("the storage is closed", chat=chat, path=self._root)

    # --- forking, erasing, deleting ----------------------------------------------------------------------

    async def fork(self, chat: str, new: str, at: int, first: EncodedEvent) -> Entry:
        self._check_writable(chat)
        await self._prepare(chat)
        parent = self._reader(chat)  # which knows the chat already
        if not has_path(self._disk, chat_path(self._root, new)):  # else it is refused, and changes nothing
            await self._end_segment(parent, at)

        def fork() -> Entry:
            with _in_our_words(chat, parent.path), holding_lock(parent):
                return fork_chat(parent, self._root, new, at, first, self._clock)

        return await asyncio.to_thread(fork)

    async def _end_segment(self, reader: LogReader, at: int) -> None:
        """So that a fork at the end of the log shares all of it. A short segment is copied: there would be one for each fork."""
        least = self._segment_bytes // _SHORT
        try:
            tail = await asyncio.to_thread(reader.look)
        except (ChatfoldError, OSError):
            return  # whoever forks it is told
        if tail.position.seq == at and not tail.sealed and tail.position.offset >= least:
            await self._queue.seal_at(reader.chat, at, least)

    async def import_chat(self, chat: str, chunks: AsyncIterator[bytes]) -> None:
        path = (await self._writable(chat)).path
        if await self.head(chat) != Head() or not await import_chat(
            self._disk, path, chat, chunks, self._segment_bytes
        ):
            raise ChatExists("there is a chat of this key already", chat=chat, path=path)

    async def redact(self, chat: str, seqs: Collection[int]) -> dict[str, list[int]]:
        mine = await self._writable(chat)
        keys = await self._keys()
        with _in_our_words(chat, mine.path):
            try:
                return await asyncio.to_thread(self._redact, mine, seqs, keys)
            except OSError:
                self._preparation.require()
                raise

    def _redact(self, mine: LogReader, seqs: Collection[int], keys: list[str]) -> dict[str, list[int]]:
        chat = mine.chat
        try:
            with mine.translating_deletion():
                family = find_family(mine, self._root, keys)
                return redact_chats(self._root, chat, seqs, family, looked_at=keys)
        finally:
            self._files.forget()

    async def delete(self, chat: str) -> None:
        folder = await self._writable(chat)

        def delete() -> None:
            with suppress(NoSuchChat), holding_lock(folder):
                trash_chat(self._disk, self._root, folder.path)
            self._files.forget()

        await asyncio.to_thread(delete)
        self._readers.pop(chat, None)
        self._past.pop(chat, None)
        self._ends.pop(chat, None)
        self._queue.drop_chat(chat)

    async def _writable(self, chat: str) -> LogReader:
        self._check_writable(chat)
        folder = LogReader(chat_path(self._root, chat), chat, self._disk)
        await self._prepare(chat)
        return folder

    @asynccontextmanager
    async def lease(self, chat: str) -> AsyncGenerator[str]:
        async with alone(await self._writable(chat)):
            yield ""  # the lock is the lease: it is lost by dying only

    def _begin_answer(self, chat: str) -> ComingAnswer:
        if self.read_only:
            return super()._begin_answer(chat)
        return FileAnswer(self._disk, chat_path(self._root, chat))

    def follow_deltas(self, chat: str) -> AsyncGenerator[bytes]:
        if chat in self._answers:
            return super().follow_deltas(chat)
        return follow_file(self._disk, chat_path(self._root, chat))

    # --- the storage itself ------------------------------------------------------------------------------

    async def close(self) -> None:
        """Everything durable, all files closed. Closing twice is closing once."""
        if self._closed or self._forked:
            return
        self._closed = True
        for chat in [*self._answers]:
            await self.end_deltas(chat)
        self._files.close()
        if self._notifier.is_running or self._listing.has_unsaved:
            try:
                await asyncio.to_thread(self._let_go)
            except RuntimeError:  # no more threads are to be had: we wait here
                self._let_go()
        await self._queue.close()

    def _let_go(self) -> None:
        self._notifier.close()
        self._listing.save()

    def close_files(self) -> None:
        self._queue.close_files()

    def _in_child(self) -> None:
        self._forked = True
        self.close_files()


@contextmanager
def _in_our_words(chat: str, path: Path) -> Iterator[None]:
    """``DiskFull`` and ``ReadOnly`` for what the system says."""
    try:
        yield
    except OSError as error:
        known = to_chatfold_error(error, chat, path)
        if known is error:
            raise
        raise known from error


_storages: "weakref.WeakSet[FileStorage]" = weakref.WeakSet()


def _in_child() -> None:
    for storage in _storages:
        storage._in_child()  # noqa: SLF001 (of this module)


os.register_at_fork(after_in_child=_in_child)
