"""CommitQueue: how appends get into the writers and who syncs.

An append that finds its chat free is written where it is asked for: a bounded copy into the page cache. Only the sync is left to
a thread, because a thread for the write costs more than the write. Appends that arrive meanwhile form the next group: the thread
that synced writes and syncs them as one. Chats sync side by side, and one wake-up tells a loop of all answers that are there.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from chatfold.eventlog.batch import AppendRequest, Batch
from chatfold.eventlog.errors import ChatfoldError
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.handover import Inbox, Inboxes, PendingAppend, Threads
from chatfold.eventlog.files.lock import WouldBlock
from chatfold.eventlog.files.notify import Notifier
from chatfold.eventlog.files.open_chat import OpenChat, OpenChats
from chatfold.eventlog.files.writer import LogWriter
from chatfold.eventlog.storage import Durability

_THREADS = 8  # with more, the disk is no faster
_LATER_S = 0.2


class CommitQueue:
    """``notifier``: wakes who follows a chat that has grown."""

    def __init__(self, open_writer: Callable[[str], LogWriter], notifier: Notifier) -> None:
        self.chats = OpenChats(open_writer)
        self._notifier = notifier
        self._inboxes = Inboxes()
        self._threads = Threads(_THREADS, "chatfold")
        self._timer: threading.Thread | None = None
        self._timer_lock = threading.Lock()  # many chats may ask for the first one at once
        self._has_due = False  # is there something for the timer to do?
        self._due = threading.Event()  # the same, for the timer to wait for
        self._is_closed = threading.Event()
        self._later_s = _LATER_S
        self._retiring: set[OpenChat] = set()
        # Of a sync that no append waited for: ``flush`` raises it.
        self._failed_retirement: Exception | None = None

    async def append(self, request: AppendRequest, durability: Durability) -> list[Entry]:
        chat = self.chats.get(request.chat)
        if self.chats.has_excess:
            self._close_idle()
        if chat.pending or not chat.turn.acquire(blocking=False):
            return await self._wait(chat, request, durability)
        result: Batch | Exception | None = None
        try:
            [result] = chat.writer.commit([request], wait=False)
        except WouldBlock:
            pass  # a thread writes it
        except BaseException:
            self._leave(chat)
            raise
        if result is None or (durability == "full" and type(result) is Batch):
            inbox = self._inboxes.get()
            future: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()
            pending = PendingAppend(request, durability, inbox, future, result)
            self._threads.submit(partial(self._serve, chat, [pending]))
            return await future
        if isinstance(result, Exception):
            self._leave(chat)
            raise result
        self._look_after(chat, durability)
        if request.chat in self._notifier.chats:
            self._notifier.wake(request.chat)
        self._leave(chat)
        return result.entries

    async def flush(self) -> None:
        """A barrier: what was appended before is durable."""
        chats = [*self.chats.all(), *self._retiring]
        await asyncio.gather(*(self._wait(chat) for chat in chats))
        failed, self._failed_retirement = self._failed_retirement, None
        if failed is not None:
            raise failed

    async def seal_at(self, key: str, upto: int, least: int) -> None:
        """See ``LogWriter.seal_at``. Only by a writer that is at work: one that knows nothing would take longer than a copy."""
        chat = self.chats.find(key)
        if chat is not None:
            await self._wait(chat, seal=(upto, least))

    def drop_chat(self, key: str) -> None:
        """The chat was deleted. The system would keep its files for as long as we have them open."""
        chat = self.chats.pop(key)
        if chat is not None:
            chat.is_gone = True
            chat.pending.append(PendingAppend(durability="off"))
            self._serve_pending(chat)

    async def close(self) -> None:
        """Everything is durable, all files are closed."""
        try:
            await self.flush()
        finally:
            try:
                if self._timer is not None or self._threads.is_started:
                    await asyncio.to_thread(self.stop)
            except RuntimeError:  # no more threads are to be had: we wait here
                self.stop()
            for chat in self.chats.all():
                self.chats.pop(chat.key)
                chat.writer.retire()
            self._inboxes.close()

    def stop(self) -> None:
        """Stop the threads. Nothing more is written."""
        self._is_closed.set()
        self._due.set()
        if self._timer is not None:
            self._timer.join()  # what it writes is not closed under it
        self._threads.stop()

    def close_files(self) -> None:
        """After os.fork: the child must not keep the parent's locks alive, nor write with its descriptors."""
        for chat in self.chats.all():
            chat.writer.close()

    # --- waiting for a turn --------------------------------------------------------------------------------

    async def _wait(
        self,
        chat: OpenChat,
        request: AppendRequest | None = None,
        durability: Durability = "full",
        seal: tuple[int, int] | None = None,
    ) -> list[Entry]:
        future: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()
        chat.pending.append(PendingAppend(request, durability, self._inboxes.get(), future, None, seal))
        self._serve_pending(chat)
        return await future

    def _serve_pending(self, chat: OpenChat) -> None:
        """Have what waits served, by who has the turn or by a thread."""
        if chat.pending and chat.turn.acquire(blocking=False):
            self._threads.submit(partial(self._serve, chat, []))

    def _leave(self, chat: OpenChat) -> None:
        if chat.is_gone or not chat.leave():
            self._threads.submit(partial(self._serve, chat, []))

    # --- chats come and go -------------------------------------------------------------------------------

    def _close_idle(self) -> None:
        for chat in self.chats.pop_idle():
            self._retiring.add(chat)
            self._threads.submit(partial(self._retire, chat))

    def _retire(self, chat: OpenChat) -> None:
        """Close the files of a chat that was not used for long. An append may have got hold of it meanwhile: it is served."""
        try:
            chat.writer.sync()
        except Exception as error:  # noqa: BLE001 (``flush`` raises it)
            self._failed_retirement = error
        chat.writer.retire()
        self._serve(chat, [])
        self._retiring.discard(chat)

    # --- on the threads ------------------------------------------------------------------------------------

    def _serve(self, chat: OpenChat, group: list[PendingAppend]) -> None:
        """Commit and sync the group, then group after group until nothing waits. The caller has the turn.

        The chat is set free before the last answers are given: the appends that these set off find it free.
        """
        while True:
            if group:
                if group[0].result is None:  # the one that comes with the turn may be written already
                    self._commit(chat, group)
                self._sync(chat, group)
            if chat.writer.has_cache_work:
                self._reply(chat, group)
                group = []
                chat.writer.flush_cache()
            if chat.is_gone:
                chat.writer.close()
            following = chat.take_group() if chat.pending else []
            is_left = not following and chat.leave()
            self._reply(chat, group)
            if is_left:
                break
            group = following
        if self.chats.has_excess:  # of many that were busy at once
            self._close_idle()

    def _commit(self, chat: OpenChat, group: list[PendingAppend]) -> None:
        """Write the appends of the group. Each gets its result; an error that concerns all is given to all."""
        appends = [pending for pending in group if pending.request is not None]
        try:
            requests = [pending.request for pending in appends if pending.request is not None]
            results = chat.writer.commit(requests) if requests else []
        except BaseException as error:  # noqa: BLE001 (reported to every caller)
            results = [to_reported(error)] * len(appends)
        for pending, result in zip(appends, results, strict=True):
            pending.result = result

    def _sync(self, chat: OpenChat, group: list[PendingAppend]) -> None:
        """Make durable what the group wrote, if one of its appends asks for it; seal, if one asks for that."""
        asked = {pending.durability for pending in group}
        try:
            if "full" in asked:
                chat.writer.sync()
            for pending in group:
                if pending.seal is not None:
                    chat.writer.seal_at(*pending.seal)
        except BaseException as error:  # noqa: BLE001 (reported to every caller that waits for it)
            failed = to_reported(error)
            for pending in group:
                if pending.durability == "full" and not isinstance(pending.result, Exception):
                    pending.result = failed
        self._look_after(chat, "full" if "full" in asked else "normal" if "normal" in asked else "off")

    def _reply(self, chat: OpenChat, answered: list[PendingAppend]) -> None:
        """A loop is woken once, when all its answers are there."""
        if answered and chat.key in self._notifier.chats:
            self._notifier.wake(chat.key)
        inboxes = set[Inbox]()
        for pending in answered:
            if pending.inbox is not None:
                pending.inbox.answers.append(pending)
                inboxes.add(pending.inbox)
        for inbox in inboxes:
            inbox.wake()

    # --- what an append leaves to be done soon -------------------------------------------------------------

    def _look_after(self, chat: OpenChat, durability: Durability) -> None:
        """The chat's turn is ours."""
        work = chat.writer.seal_work() if chat.writer.is_seal_due else None
        if work is not None:
            self._threads.submit(work)
        if durability == "off":
            return
        chat.is_sync_due = durability == "normal"
        if not self._has_due:
            self._has_due = True
            self._due.set()
        if self._timer is None and not self._has_started_timer() and chat.is_sync_due:
            chat.pending.append(PendingAppend())  # it is synced before we leave

    def _has_started_timer(self) -> bool:
        with self._timer_lock:
            if self._timer is None:
                timer = threading.Thread(target=self._run_timer, name="chatfold-timer", daemon=True)
                with suppress(RuntimeError):  # no more threads are to be had
                    timer.start()
                    self._timer = timer
            return self._timer is not None

    def _run_timer(self) -> None:
        """Within 200 ms a ``normal`` append is synced, and what is synced stands in the watermark."""
        while self._due.wait():
            self._due.clear()  # before the look at ``_is_closed``, which is set first
            if self._is_closed.wait(self._later_s):
                return
            self._has_due = (
                False  # before the look at the chats: what they leave from now on is for the next round
            )
            for chat in self.chats.all():
                self.follow_up(chat)

    def follow_up(self, chat: OpenChat) -> None:
        if chat.is_sync_due:
            chat.is_sync_due = False
            chat.pending.append(PendingAppend())
            self._serve_pending(chat)
        elif chat.writer.is_watermark_due:
            if chat.turn.acquire(blocking=False):
                chat.writer.write_watermark()
                self._leave(chat)
            else:  # another thread is in the writer
                self._has_due = True
                self._due.set()


def to_reported(error: BaseException) -> Exception:
    """What callers are told: what can go wrong as it is, anything else as a bug."""
    if isinstance(error, ChatfoldError | OSError | MemoryError):
        return error
    return RuntimeError(f"a bug in chatfold: {error!r}")
