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

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.errors import ChatfoldError
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.inbox import Inboxes
from chatfold.eventlog.files.lock import WouldBlock
from chatfold.eventlog.files.open_chat import OpenChat, OpenChats, PendingAppend
from chatfold.eventlog.files.segment import Tail
from chatfold.eventlog.files.threads import Threads
from chatfold.eventlog.files.writer import LogWriter, Result
from chatfold.eventlog.storage import Durability

_THREADS = 8  # with more, the disk is no faster
_LATER_S = 0.2


class CommitQueue:
    """``publish(chat, tail)`` is called, on the thread that wrote, when a chat has grown."""

    def __init__(self, open_writer: Callable[[str], LogWriter], publish: Callable[[str, Tail], None]) -> None:
        self.chats = OpenChats(open_writer)
        self._publish = publish
        self._inboxes = Inboxes()
        self._threads = Threads(_THREADS, "chatfold")
        self._timer: threading.Thread | None = None
        self._timer_lock = threading.Lock()  # many chats may ask for the first one at once
        self._due = threading.Event()  # is there a followup?
        self._is_closed = threading.Event()
        self._later_s = _LATER_S
        self._retiring: set[OpenChat] = set()
        # Of a sync that no append waited for: ``flush`` raises it.
        self._failed_retirement: Exception | None = None

    async def append(self, request: AppendRequest, durability: Durability) -> list[Entry]:
        chat = self.chats.get(request.chat)
        if self.chats.has_excess:
            self._close_idle()
        if not chat.acquire():
            return await self._enqueue(chat, PendingAppend(request, durability, self._inboxes.get()))
        try:
            [result] = chat.writer.commit([request], wait=False)
        except WouldBlock:
            pending = PendingAppend(request, durability, self._inboxes.get())
            self._threads.submit(partial(self._serve, chat, [], [pending]))
            return await pending.answer()
        except BaseException:
            self._leave(chat)
            raise
        if result.error is None and durability == "full":
            pending = PendingAppend(request, durability, self._inboxes.get())
            pending.result = result
            self._threads.submit(partial(self._serve, chat, [pending]))
            return await pending.answer()
        self._schedule(chat, durability)
        self._announce(chat)
        self._leave(chat)
        if result.error is not None:
            raise result.error
        return result.entries

    async def flush(self) -> None:
        """A barrier: what was appended before is durable."""
        chats = [*self.chats.all(), *self._retiring]
        await asyncio.gather(*(self._enqueue(chat, self._barrier()) for chat in chats))
        failed, self._failed_retirement = self._failed_retirement, None
        if failed is not None:
            raise failed

    async def seal_at(self, key: str, upto: int, least: int) -> None:
        """See ``LogWriter.seal_at``. Only by a writer that is at work: one that knows nothing would take longer than a copy."""
        chat = self.chats.find(key)
        if chat is not None:
            await self._enqueue(chat, PendingAppend(None, "full", self._inboxes.get(), seal=(upto, least)))

    def drop_chat(self, key: str) -> None:
        """The chat was deleted. The system would keep its files for as long as we have them open."""
        chat = self.chats.pop(key)
        if chat is not None:
            chat.is_gone = True
            if chat.acquire():
                self._threads.submit(partial(self._serve, chat, []))

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

    # --- chats come and go -------------------------------------------------------------------------------

    def _barrier(self) -> PendingAppend:
        return PendingAppend(None, "full", self._inboxes.get())

    async def _enqueue(self, chat: OpenChat, pending: PendingAppend) -> list[Entry]:
        if chat.add(pending):
            self._threads.submit(partial(self._serve, chat, []))
        return await pending.answer()

    def _leave(self, chat: OpenChat) -> None:
        if not chat.release():
            self._threads.submit(partial(self._serve, chat, []))

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

    def _serve(
        self, chat: OpenChat, written: list[PendingAppend], group: list[PendingAppend] | None = None
    ) -> None:
        """Sync what is ``written``, then commit and sync group after group until nothing waits. The caller had the chat.

        The chat is set free before the last answers are given: the appends that these set off find it free.
        """
        while True:
            if group:
                self._commit(chat, group)
                written = group
            if written:
                self._sync(chat, written)
                self._schedule(chat, strongest([pending.durability for pending in written]))
            if chat.writer.has_cache_work:
                self._reply(chat, written)
                written = []
                chat.writer.flush_cache()
            if chat.is_gone:
                chat.writer.close()
            group = chat.pop_group()
            self._reply(chat, written)
            written = []
            if not group:
                break
        if self.chats.has_excess:  # of many that were busy at once
            self._close_idle()

    def _commit(self, chat: OpenChat, group: list[PendingAppend]) -> None:
        """Write the appends of the group. Each gets its result; an error that concerns all is given to all."""
        appends = [pending for pending in group if pending.request is not None]
        try:
            requests = [pending.request for pending in appends if pending.request is not None]
            results = chat.writer.commit(requests) if requests else []
        except BaseException as error:  # noqa: BLE001 (reported to every caller)
            results = [Result(error=to_reported(error))] * len(appends)
        for pending, result in zip(appends, results, strict=True):
            pending.result = result

    def _sync(self, chat: OpenChat, group: list[PendingAppend]) -> None:
        """Make durable what the group wrote, if one of its appends asks for it; seal, if one asks for that."""
        try:
            if any(pending.durability == "full" for pending in group):
                chat.writer.sync()
            for pending in group:
                if pending.seal is not None:
                    chat.writer.seal_at(*pending.seal)
        except BaseException as error:  # noqa: BLE001 (reported to every caller that waits for it)
            failed = Result(error=to_reported(error))
            for pending in group:
                if pending.durability == "full" and pending.result.error is None:
                    pending.result = failed

    def _reply(self, chat: OpenChat, answered: list[PendingAppend]) -> None:
        """An inbox wakes its loop once for all answers that are there."""
        if not answered:
            return
        self._announce(chat)
        for pending in answered:
            if pending.inbox is not None:
                pending.inbox.add(pending)

    def _announce(self, chat: OpenChat) -> None:
        tail = chat.writer.tail
        if tail is not None:
            self._publish(chat.key, tail)

    # --- what an append leaves to be done soon -------------------------------------------------------------

    def _schedule(self, chat: OpenChat, durability: Durability) -> None:
        if durability != "off":
            chat.add_followup("sync" if durability == "normal" else "watermark")
            self._due.set()
            if self._timer is None and not self._has_started_timer() and durability == "normal":
                chat.add(PendingAppend(None, "full"))  # the chat is ours: it is synced before we leave
        work = chat.writer.seal_work()
        if work is not None:
            self._threads.submit(work)

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
            for chat in self.chats.all():
                self.follow_up(chat)

    def follow_up(self, chat: OpenChat) -> None:
        followup = chat.take_followup()
        if followup == "sync":
            if chat.add(PendingAppend(None, "full")):
                self._threads.submit(partial(self._serve, chat, []))
        elif followup == "watermark":
            if chat.acquire():
                chat.writer.write_watermark()
                self._leave(chat)
            else:  # another thread is in the writer
                chat.add_followup("watermark")
                self._due.set()


def strongest(asked: list[Durability]) -> Durability:
    return "full" if "full" in asked else "normal" if "normal" in asked else "off"


def to_reported(error: BaseException) -> Exception:
    """What callers are told: what can go wrong as it is, anything else as a bug."""
    if isinstance(error, ChatfoldError | OSError | MemoryError):
        return error
    return RuntimeError(f"a bug in chatfold: {error!r}")
