"""Appends on their way to the writers: one lane a chat, one group at a time in each.

An append that finds its lane free is written at once, into the page cache; only the sync is waited for, on a thread. Those that
arrive meanwhile form a group, which is written and synced as one. Lanes sync side by side, many of them in turns: what a sync
costs the disk is shared by those that come together, and what it costs Python is mostly the waking of threads and loops.
"""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.segment import Tail
from chatfold.eventlog.files.workers import Shares, Workers
from chatfold.eventlog.files.writer import LogWriter, Result
from chatfold.eventlog.storage import Durability

OPEN_CHATS = 128
"""Writers that keep their files open."""

_THREADS = 32
_SYNCING = 4  # of them: with more, the disk is no faster, and each wakes the loop for fewer
_LATER_S = 0.2
_GROUP_BYTES = 4 << 20


class PendingAppend(msgspec.Struct, frozen=True):
    """An append or, without a ``request``, a sync or the end of a segment; and who waits for it, if anybody does.

    Seen by the collector, as ``Result`` is.
    """

    request: AppendRequest | None
    durability: Durability
    loop: asyncio.AbstractEventLoop | None = None
    future: "asyncio.Future[list[Entry]] | None" = None
    end: tuple[int, int] | None = None


class ChatQueue:
    """One chat's queue. At most one thread is in its writer at a time: whoever entered."""

    def __init__(self, writer: LogWriter) -> None:
        self.writer = writer
        self.queue: deque[PendingAppend] = deque()
        self.busy = False
        self.lock = threading.Lock()
        self.due: Literal["", "sync", "witness"] = ""  # what is to be done soon
        self.gone = False  # the chat was deleted: whoever is in here last closes its files

    def enter(self) -> bool:
        """Takes the writer, if nobody has it."""
        with self.lock:
            free, self.busy = not self.busy, True
        return free

    def take(self) -> list[PendingAppend]:
        """The next group; none, and the lane is free, if nobody waits."""
        group: list[PendingAppend] = []
        size = 0
        with self.lock:
            while self.queue and size < _GROUP_BYTES:
                job = self.queue.popleft()
                group.append(job)
                size += sum([len(draft.raw) for draft in job.request.events]) if job.request else 0
            self.busy = bool(group)
        return group


class _Written(msgspec.Struct, frozen=True):
    """An append that is in the file, by whoever has the lane until it is synced."""

    lane: ChatQueue
    job: PendingAppend
    outcome: Result


class CommitQueue:
    """``open_writer(chat)`` makes the writer of a chat; ``wake(chat, tail)`` is called on a loop when a chat has grown."""

    def __init__(self, open_writer: Callable[[str], LogWriter], wake: Callable[[str, Tail], None]) -> None:
        self._open_writer = open_writer
        self._wake = wake
        self._lanes: OrderedDict[str, ChatQueue] = OrderedDict()
        self._workers = Workers(_THREADS, "chatfold")
        self._syncs = Shares(self._workers, _SYNCING, self._sync)
        self._closed = threading.Event()
        self._due = threading.Event()
        self._keeper: threading.Thread | None = None
        self._later_s = _LATER_S
        self._retiring: set[ChatQueue] = set()
        self._failed: Exception | None = None  # a sync of one that was retired: whoever flushes is told

    async def append(self, request: AppendRequest, durability: Durability) -> list[Entry]:
        lane = self._lane(request.chat)
        if lane.enter():
            # Nothing to wait for but a copy into the page cache: to do it on a thread would cost ten times as much, and threads
            # that do more than to wait for the disk wait for each other.
            try:
                outcomes = lane.writer.commit([request], sync=[False], wait=False)
            except BaseException:
                self._leave(lane)
                raise
            if outcomes is not None and outcomes[0].error is None and durability == "full":
                return await self._synced(lane, request, outcomes[0])
            if outcomes is not None:
                self._after(lane, durability)
                self._tell(request.chat)
            self._leave(lane)
            if outcomes is not None:
                if outcomes[0].error is not None:
                    raise outcomes[0].error
                return outcomes[0].entries
        return await self._wait(lane, request, durability)

    async def flush(self) -> None:
        lanes = [*self._lanes.values(), *self._retiring]
        await asyncio.gather(*(self._wait(lane, None, "full") for lane in lanes))
        if self._failed is not None:
            raise self._failed

    async def end_segment(self, chat: str, upto: int, least: int) -> None:
        """See ``Writer.end_segment``. Only by a writer that is at work: one that knows nothing would take longer than a copy."""
        lane = self._lanes.get(chat)
        if lane is not None:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[list[Entry]] = loop.create_future()
            self._submit(lane, PendingAppend(None, "full", loop, future, (upto, least)))
            await future

    def forget(self, chat: str) -> None:
        """The chat was deleted."""
        lane = self._lanes.pop(chat, None)
        if lane is not None:
            lane.gone = True
            if lane.enter():
                self._let_go(lane)

    def _let_go(self, lane: ChatQueue) -> None:
        """Of a chat that was deleted: its files would be kept, by the system too, for as long as we have them open."""
        lane.writer.close()
        with lane.lock:
            lane.busy = stays = bool(lane.queue)
        if stays:  # they will be told that it is gone
            self._workers.submit(self._work, lane)

    async def close(self) -> None:
        """Everything durable, all files closed."""
        try:
            await self.flush()
        finally:
            try:
                await asyncio.to_thread(self.abandon)
            except RuntimeError:  # no more threads are to be had: we wait here
                self.abandon()
            for lane in self._lanes.values():
                lane.writer.retire()
            self._lanes.clear()

    def abandon(self) -> None:
        """Stops the threads; nothing more is written."""
        self._closed.set()
        self._due.set()
        if self._keeper is not None:
            self._keeper.join()  # what it witnesses is not closed under it
        self._workers.stop()

    def close_files(self) -> None:
        """After os.fork: the child must not keep the parent's locks alive, nor write with its descriptors."""
        for lane in self._lanes.values():
            lane.writer.close()

    # --- lanes -----------------------------------------------------------------------------------------

    def _lane(self, chat: str) -> ChatQueue:
        lane = self._lanes.get(chat)
        if lane is None:
            lane = self._lanes[chat] = ChatQueue(self._open_writer(chat))
        # The most recently used is last. Not taken out for that: whoever looks after them meanwhile would pass over it.
        self._lanes.move_to_end(chat)
        self._make_room()
        return lane

    def _make_room(self) -> None:
        """Lets the least recently used writers close their files, as far as they are idle."""
        excess = len(self._lanes) - OPEN_CHATS
        for chat, lane in list(self._lanes.items())[:-1] if excess > 0 else ():
            if excess > 0 and lane.enter():
                excess -= 1
                del self._lanes[chat]
                self._retiring.add(lane)
                self._workers.submit(self._retire, lane)

    def _retire(self, lane: ChatQueue) -> None:
        self._failed = lane.writer.sync() or self._failed
        lane.writer.retire()
        self._work(lane)  # somebody may have got hold of it meanwhile
        self._retiring.discard(lane)

    def _leave(self, lane: ChatQueue) -> None:
        if not self._is_left(lane):
            self._workers.submit(self._tidy, lane)

    def _is_left(self, lane: ChatQueue) -> bool:
        """Is the lane free again? Not if somebody came meanwhile or there is something to tidy up."""
        with lane.lock:
            lane.busy = stays = bool(lane.queue) or lane.writer.is_untidy or lane.gone
        return not stays  # not ``lane.busy``, which may be somebody else's by now

    def _tidy(self, lane: ChatQueue) -> None:
        lane.writer.tidy()
        self._work(lane)

    # --- jobs ------------------------------------------------------------------------------------------

    def _wait(
        self, lane: ChatQueue, request: AppendRequest | None, durability: Durability
    ) -> asyncio.Future[list[Entry]]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Entry]] = loop.create_future()
        self._submit(lane, PendingAppend(request, durability, loop, future))
        return future

    def _synced(
        self, lane: ChatQueue, request: AppendRequest, outcome: Result
    ) -> asyncio.Future[list[Entry]]:
        """Of what is written already. The lane stays ours until it is synced."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Entry]] = loop.create_future()
        self._syncs.add(_Written(lane, PendingAppend(request, "full", loop, future), outcome))
        return future

    def _sync(self, some: list[_Written]) -> None:
        """On a thread. Nothing here needs the loop to go on: another one may use the chats next."""
        outcomes: list[Result] = []
        untidy: list[ChatQueue] = []
        for written in some:
            lane = written.lane
            outcomes.append(self._outcome_of(written))
            self._after(lane, "full")
            # The lane is left before the answer is given: whoever waited for that finds it free, and the interpreter's lock, too.
            if not self._is_left(lane):
                untidy.append(lane)
        self._answer([written.job for written in some], outcomes)
        for lane in untidy:
            self._tidy(lane)

    def _outcome_of(self, written: _Written) -> Result:
        try:
            error = written.lane.writer.sync()
        except BaseException as bug:  # noqa: BLE001 (reported to whoever waits)
            return _failed(bug)
        return written.outcome if error is None else Result(error=error)

    def _submit(self, lane: ChatQueue, job: PendingAppend) -> None:
        with lane.lock:
            lane.queue.append(job)
            start, lane.busy = not lane.busy, True
        if start:
            self._workers.submit(self._work, lane)

    def _work(self, lane: ChatQueue) -> None:
        """On a thread: commits group after group until nobody waits."""
        while group := lane.take():
            try:
                outcomes = self._commit(lane, group)
            except BaseException as error:  # noqa: BLE001 (reported to everybody who waits)
                outcomes = [_failed(error)] * len(group)
            self._answer(group, outcomes)
            if lane.writer.is_untidy:
                lane.writer.tidy()
        if lane.gone and lane.enter():
            self._let_go(lane)

    def _commit(self, lane: ChatQueue, group: list[PendingAppend]) -> list[Result]:
        appends = [job for job in group if job.request is not None]
        outcomes: list[Result] = []
        if appends:
            requests = [job.request for job in appends if job.request is not None]
            outcomes = lane.writer.commit(requests, sync=[job.durability == "full" for job in appends]) or []
            self._after(lane, "normal" if any(job.durability == "normal" for job in appends) else "full")
        syncs = any(job.request is None and job.end is None for job in group)
        synced = Result(error=lane.writer.sync()) if syncs else Result()
        if syncs and not appends:
            self._after(lane, "full")  # it is witnessed
        answers = iter(outcomes)
        return [next(answers) if job.request else self._ended(lane, job) or synced for job in group]

    def _ended(self, lane: ChatQueue, job: PendingAppend) -> Result | None:
        return Result(error=lane.writer.end_segment(*job.end)) if job.end else None

    def _after(self, lane: ChatQueue, durability: Durability) -> None:
        """What an append leaves to be done by others."""
        if durability != "off":
            with lane.lock:
                lane.due = "sync" if durability == "normal" or lane.due == "sync" else "witness"
            self._due.set()
            if self._keeper is None and not self._has_started_keeper() and durability == "normal":
                self._submit(lane, PendingAppend(None, "full"))
        ready = lane.writer.ready_seal()
        if ready is not None:
            self._workers.submit(ready)

    def _has_started_keeper(self) -> bool:
        keeper = threading.Thread(target=self._look_after, name="chatfold-keeper", daemon=True)
        try:
            keeper.start()
        except RuntimeError:  # no more threads are to be had
            return False
        self._keeper = keeper
        return True

    def _look_after(self) -> None:
        """On its own thread: within 200 ms a ``normal`` append is synced, and what is synced is witnessed."""
        while self._due.wait():
            self._due.clear()  # before we look whether to stop: whoever says so sets it afterwards
            if self._closed.wait(self._later_s):
                return
            for lane in list(self._lanes.values()):
                with lane.lock:
                    due, lane.due = lane.due, ""
                if due == "sync":
                    self._submit(lane, PendingAppend(None, "full"))
                elif due == "witness":
                    self._witness(lane)

    def _witness(self, lane: ChatQueue) -> None:
        if lane.enter():
            lane.writer.bear_witness()
            self._leave(lane)
        else:  # whoever is in there
            with lane.lock:
                lane.due = lane.due or "witness"
            self._due.set()

    def _answer(self, group: list[PendingAppend], outcomes: list[Result]) -> None:
        """Wakes each loop once for the whole group."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[PendingAppend, Result]]] = {}
        for job, outcome in zip(group, outcomes, strict=True):
            if job.loop is not None:
                by_loop.setdefault(job.loop, []).append((job, outcome))
        for loop, answers in by_loop.items():
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(self._settle, answers)

    def _tell(self, chat: str) -> None:
        lane = self._lanes.get(chat)
        if lane is not None and lane.writer.tail is not None:
            self._wake(chat, lane.writer.tail)

    def _settle(self, answers: list[tuple[PendingAppend, Result]]) -> None:
        for job, outcome in answers:
            if job.future is not None and not job.future.done():  # cancelled: it is on disk all the same
                if outcome.error is not None:
                    job.future.set_exception(outcome.error)
                else:
                    job.future.set_result(outcome.entries)
        for chat in {job.request.chat for job, _ in answers if job.request is not None}:
            self._tell(chat)
        self._make_room()  # of many that were busy at once


def _failed(error: BaseException) -> Result:
    """Of what nobody expected."""
    if isinstance(error, MemoryError):
        return Result(error=error)
    return Result(error=RuntimeError(f"a bug in chatfold: {error!r}"))
