"""FileStorage: chats as folders of readable JSON lines, for any number of processes on one machine.

Appends of one chat are committed in groups by a ``Writer`` on a thread; those that arrive while a sync is under
way form the next group, so they share one. Different chats are written on different threads and sync side by
side. Reading takes no lock and needs no writer.
"""

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from eventlog.clock import Clock, now
from eventlog.disk import Disk
from eventlog.errors import ChatDeleted, ChatfoldError, ForkedProcess, NoSuchChat, ReadOnly
from eventlog.events import Entry, Head
from eventlog.folder import Folder
from eventlog.forking import fork_chat
from eventlog.layout import CHATS, chat_path, make_root, move_out, read_key, sweep
from eventlog.line import Draft, link_of
from eventlog.names import chat_key, is_hashed
from eventlog.numbering import Append
from eventlog.redaction import finish_redactions, redact_chats
from eventlog.segment import SEGMENT_BYTES
from eventlog.storage import Durability
from eventlog.watch import Watch
from eventlog.writer import Outcome, Writer, locked

_OPEN_CHATS = 128  # writers that keep their files open
_THREADS = 32
_BACKGROUND_SYNC_S = 0.2
_POLL_S = 0.02
_POLL_MAX_S = 0.25
_GROUP_BYTES = 4 << 20
T = TypeVar("T")


class _Job(msgspec.Struct, frozen=True, gc=False):
    """An append or, without a ``request``, a sync; and who waits for it, if anybody does."""

    request: Append | None
    durability: Durability
    loop: asyncio.AbstractEventLoop | None = None
    future: "asyncio.Future[list[Entry]] | None" = None


class _Lane:
    """One chat's queue. At most one thread is in its writer at a time."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.queue: deque[_Job] = deque()
        self.busy = False
        self.lock = threading.Lock()
        self.unsynced = False

    def enter(self) -> bool:
        """Takes the writer, if nobody has it."""
        with self.lock:
            free, self.busy = not self.busy, True
        return free

    def take(self) -> list[_Job]:
        """The next group; none, and the lane is free, if nobody waits."""
        group: list[_Job] = []
        size = 0
        with self.lock:
            while self.queue and size < _GROUP_BYTES:
                job = self.queue.popleft()
                group.append(job)
                size += sum(len(draft.raw) for draft in job.request.drafts) if job.request else 0
            self.busy = bool(group)
        return group


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
        self._read_only = read_only
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._disk = disk or Disk()
        self._pid = os.getpid()
        self._lanes: dict[str, _Lane] = {}
        self._readers: dict[str, Folder] = {}
        self._watches: dict[str, Watch] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="chatfold")
        self._closing = threading.Event()
        self._unsynced = threading.Event()
        self._syncer: threading.Thread | None = None
        self._prepared = False
        _storages.add(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- appending -------------------------------------------------------------------------------------

    async def append(self, request: Append, durability: Durability | None = None) -> list[Entry]:
        lane = self._lane(request.chat)
        durability = durability or self._durability
        if durability != "full" and lane.enter():
            # Nothing to wait for but a copy into the page cache: a thread would cost ten times as much.
            outcomes = lane.writer.commit([request], sync=[False], wait=False)
            if outcomes is not None:
                self._after(lane, durability)
                self._wake(request.chat)
                self._leave(lane)
                if outcomes[0].error is not None:
                    raise outcomes[0].error
                return outcomes[0].entries
            self._leave(lane)
        return await self._wait(lane, request, durability)

    async def flush(self) -> None:
        await asyncio.gather(*(self._wait(lane, None, "full") for lane in self._lanes.values()))

    def _wait(
        self, lane: _Lane, request: Append | None, durability: Durability
    ) -> asyncio.Future[list[Entry]]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Entry]] = loop.create_future()
        self._submit(lane, _Job(request, durability, loop, future))
        return future

    def _submit(self, lane: _Lane, job: _Job) -> None:
        with lane.lock:
            lane.queue.append(job)
            start, lane.busy = not lane.busy, True
        if start:
            self._pool.submit(self._work, lane)

    def _work(self, lane: _Lane) -> None:
        """On a thread: commits group after group until nobody waits."""
        while group := lane.take():
            try:
                outcomes = self._commit(lane, group)
            except BaseException as error:  # noqa: BLE001 (reported to everybody who waits)
                outcomes = [Outcome(error=RuntimeError(f"a bug in chatfold: {error!r}"))] * len(group)
            _answer(group, outcomes, self._wake)
            lane.writer.bear_witness()
            if lane.writer.is_untidy:
                lane.writer.tidy()

    def _commit(self, lane: _Lane, group: list[_Job]) -> list[Outcome]:
        appends = [job for job in group if job.request is not None]
        outcomes: list[Outcome] = []
        if appends:
            requests = [job.request for job in appends if job.request is not None]
            outcomes = lane.writer.commit(requests, sync=[job.durability == "full" for job in appends]) or []
            self._after(lane, "normal" if any(job.durability == "normal" for job in appends) else "full")
        synced = Outcome(error=lane.writer.sync()) if len(appends) < len(group) else Outcome()
        answers = iter(outcomes)
        return [synced if job.request is None else next(answers) for job in group]

    def _after(self, lane: _Lane, durability: Durability) -> None:
        """What an append leaves to be done by others."""
        if durability == "normal":
            lane.unsynced = True
            self._unsynced.set()
            if self._syncer is None:
                self._syncer = threading.Thread(
                    target=self._sync_now_and_then, name="chatfold-sync", daemon=True
                )
                self._syncer.start()
        ready = lane.writer.ready_seal()
        if ready is not None:
            self._pool.submit(ready)

    def _leave(self, lane: _Lane) -> None:
        """The lane is free again, unless somebody came meanwhile or there is something to tidy up."""
        with lane.lock:
            lane.busy = bool(lane.queue) or lane.writer.is_untidy
        if lane.busy:
            self._pool.submit(self._tidy, lane)

    def _tidy(self, lane: _Lane) -> None:
        lane.writer.tidy()
        self._work(lane)

    def _lane(self, chat: str) -> _Lane:
        self._check_process()
        if self._read_only:
            raise ReadOnly("the storage was opened read-only", chat=chat, path=self._root)
        if self._closing.is_set():
            raise ChatfoldError("the storage is closed", chat=chat, path=self._root)
        lane = self._lanes.get(chat)
        if lane is None:
            path = chat_path(self._root, chat)
            self._prepare()
            self._make_room()
            lane = self._lanes[chat] = _Lane(Writer(path, chat, self._disk, self._clock, self._segment_bytes))
        else:
            self._lanes[chat] = self._lanes.pop(chat)  # the most recently used is last
        return lane

    def _prepare(self) -> None:
        """Before the first change: the store's folders, and what an earlier writer's death left to be done."""
        if not self._prepared:
            make_root(self._disk, self._root)
            sweep(self._disk, self._root)
            finish_redactions(self._disk, self._root)
            self._prepared = True

    def _make_room(self) -> None:
        """Lets the least recently used idle writer close its files."""
        if len(self._lanes) < _OPEN_CHATS:
            return
        for chat, lane in self._lanes.items():
            if lane.enter():
                del self._lanes[chat]
                self._pool.submit(self._retire, lane)
                return

    def _retire(self, lane: _Lane) -> None:
        lane.writer.sync()
        lane.writer.retire()
        self._work(lane)  # somebody may have got hold of it meanwhile

    def _sync_now_and_then(self) -> None:
        """On its own thread: within 200 ms of a ``normal`` append, its chat is asked to sync."""
        while self._unsynced.wait() and not self._closing.wait(_BACKGROUND_SYNC_S):
            self._unsynced.clear()
            for lane in list(self._lanes.values()):
                if lane.unsynced:
                    lane.unsynced = False
                    self._submit(lane, _Job(None, "full"))

    # --- reading ---------------------------------------------------------------------------------------

    def _reader(self, chat: str) -> Folder:
        self._check_process()
        folder = self._readers.pop(chat, None)
        if folder is None:
            folder = Folder(chat_path(self._root, chat), chat, self._disk, may_write=not self._read_only)
            while len(self._readers) >= _OPEN_CHATS:
                del self._readers[next(iter(self._readers))]
        self._readers[chat] = folder
        return folder

    async def read(self, chat: str, first: int = 1, last: int | None = None) -> AsyncIterator[list[bytes]]:
        folder = self._reader(chat)
        async for page in self._pages(folder, folder.pages(max(1, first), last)):
            yield page

    async def read_back(self, chat: str, last: int | None = None) -> AsyncIterator[list[bytes]]:
        folder = self._reader(chat)
        async for page in self._pages(folder, folder.pages_back(last)):
            yield page

    async def _pages(self, folder: Folder, pages: Iterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
        """The first page, a small one, is read right here: a thread would take longer than the disk."""
        try:
            page = _next(folder, pages)
        except NoSuchChat:
            return
        while page is not None:
            yield page
            try:
                page = await self._on_thread(_next, folder, pages)
            except NoSuchChat as error:
                raise ChatDeleted("the chat was deleted", chat=error.chat, path=error.path) from None

    async def head(self, chat: str) -> Head:
        folder = self._reader(chat)
        try:
            with folder.lock:
                return folder.tail().head
        except NoSuchChat:
            return Head()

    async def grown(self, chat: str, after: int) -> None:
        folder = self._reader(chat)
        pause = _POLL_S
        while True:
            head = await self.head(chat)
            if head.seq > after:
                return
            if head.seq == 0 and after > 0:
                raise ChatDeleted("the chat was deleted", chat=chat, path=folder.path)
            watch = self._watches.get(chat)
            if watch is None and head.seq:
                watch = self._watches[chat] = Watch(folder.path)
            await (watch.wait(pause) if watch else asyncio.sleep(pause))
            pause = min(pause * 1.5, _POLL_MAX_S)

    def _wake(self, chat: str) -> None:
        watch = self._watches.get(chat)
        if watch is not None:
            watch.hint.set()

    async def chats(self) -> AsyncIterator[str]:
        self._check_process()
        try:
            names = await self._on_thread(self._disk.names, self._root / CHATS)
        except FileNotFoundError:
            return
        for name in sorted(names):
            key = read_key(self._disk, self._root / CHATS / name) if is_hashed(name) else chat_key(name)
            if key is not None:
                yield key

    # --- forking, erasing, deleting ----------------------------------------------------------------------

    async def fork(self, chat: str, new: str, at: int, first: Draft) -> Entry:
        folder = self._writable(chat)
        chat_path(self._root, new)

        def fork() -> Entry:
            with locked(self._disk, folder):
                return fork_chat(folder, self._root, new, at, first, self._clock)

        return await self._on_thread(fork)

    async def redact(self, chat: str, seqs: Collection[int]) -> dict[str, list[int]]:
        self._writable(chat)
        keys = [key async for key in self.chats()]
        return await self._on_thread(self._redact, chat, seqs, keys)

    def _redact(self, chat: str, seqs: Collection[int], keys: list[str]) -> dict[str, list[int]]:
        mine = self._writable(chat)
        origin = link_of(mine.line(1)) if mine.tail().at.seq else b""
        family = {chat: mine}
        for key in keys:
            folder = self._writable(key)
            with suppress(NoSuchChat):
                if key != chat and folder.tail().at.seq and link_of(folder.line(1)) == origin:
                    family[key] = folder
        return redact_chats(self._root, chat, seqs, family)

    async def delete(self, chat: str) -> None:
        folder = self._writable(chat)

        def delete() -> None:
            with locked(self._disk, folder):
                move_out(self._disk, self._root, folder.path)

        await self._on_thread(delete)
        self._readers.pop(chat, None)
        lane = self._lanes.pop(chat, None)
        if lane is not None and lane.enter():  # a busy one notices by itself
            lane.writer.close()

    def _writable(self, chat: str) -> Folder:
        self._check_process()
        if self._read_only:
            raise ReadOnly("the storage was opened read-only", chat=chat, path=self._root)
        self._prepare()
        return Folder(chat_path(self._root, chat), chat, self._disk)

    # --- the storage itself ------------------------------------------------------------------------------

    async def _on_thread(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *args)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise ForkedProcess("this storage was opened before os.fork()", path=self._root)

    async def close(self) -> None:
        """Everything durable, all files closed. Closing twice is closing once."""
        if self._closing.is_set() or self._pid != os.getpid():
            return
        for watch in self._watches.values():
            await watch.close()
        try:
            await self.flush()
        finally:
            self._closing.set()
            self._unsynced.set()
            await asyncio.to_thread(self._pool.shutdown)
            for lane in self._lanes.values():
                lane.writer.retire()
            self._lanes.clear()


def _next(folder: Folder, pages: Iterator[list[bytes]]) -> list[bytes] | None:
    """The next page, whole. One thread at a time in a folder: it remembers where things are."""
    with folder.lock:
        try:
            page = next(pages, None)
            return None if page is None else [folder.whole(line) for line in page]
        except FileNotFoundError:
            raise NoSuchChat("no such chat", chat=folder.chat, path=folder.path) from None


def _answer(group: list[_Job], outcomes: list[Outcome], wake: Callable[[str], None]) -> None:
    """Wakes each loop once for the whole group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Job, Outcome]]] = {}
    for job, outcome in zip(group, outcomes, strict=True):
        if job.loop is not None:
            by_loop.setdefault(job.loop, []).append((job, outcome))
    for loop, answers in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, answers, wake)


def _settle(answers: list[tuple[_Job, Outcome]], wake: Callable[[str], None]) -> None:
    for job, outcome in answers:
        if job.future is not None and not job.future.done():  # cancelled: the outcome is on disk all the same
            if outcome.error is not None:
                job.future.set_exception(outcome.error)
            else:
                job.future.set_result(outcome.entries)
    for chat in {job.request.chat for job, _ in answers if job.request is not None}:
        wake(chat)


_storages: "weakref.WeakSet[FileStorage]" = weakref.WeakSet()


def _in_child() -> None:
    """After os.fork: the child must not keep the parent's locks alive, nor write with its descriptors."""
    for storage in _storages:
        for lane in storage._lanes.values():  # noqa: SLF001
            lane.writer.close()


os.register_at_fork(after_in_child=_in_child)
