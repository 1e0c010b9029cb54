"""Between event loops and threads: work goes there, answers come back. To wake somebody costs more than the work, so it is done rarely.

``Threads`` sync: started when they are needed, at most so many. Jobs return nothing; each gives its answers itself. An executor
makes a future for every job, with locks of its own: as much work as waking the thread. These threads do not keep the process
alive. What is cut off then is what a kill would have cut off.

``Inbox``: answers on their way to the futures of a loop: many answers, one wake-up. ``call_soon_threadsafe`` makes a handle and
writes to a socket for each. Here a thread appends to a deque, and writes to an eventfd only if it has not since the loop last
looked. Systems without eventfd do without.
"""

import asyncio
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeAlias

import msgspec

from chatfold.eventlog.batch import AppendRequest, Batch
from chatfold.eventlog.events import Entry
from chatfold.eventlog.storage import Durability

HAS_EVENTFD = sys.platform == "linux" and hasattr(os, "eventfd")

Job: TypeAlias = Callable[[], None]


class Threads:
    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0  # threads that wait for a job, less the jobs that wait for a thread
        self._is_stopped = False  # then jobs are done where they are submitted
        self._lock = threading.Lock()

    @property
    def is_started(self) -> bool:
        return bool(self._threads)

    @property
    def is_idle(self) -> bool:
        return not self._threads or self._idle == len(self._threads)

    def submit(self, job: Job) -> None:
        """Do it soon on a thread; here and now, if there is none to be had."""
        with self._lock:
            self._idle -= 1
            if self._idle < 0 and len(self._threads) < self._most and not self._is_stopped:
                self._start()
            is_done_here = self._is_stopped or not self._threads
            if is_done_here:
                self._idle += 1
            else:  # under the lock: no job is put behind the word that stops a thread
                self._jobs.put(job)
        if is_done_here:
            try:
                job()
            except Exception:  # noqa: BLE001
                _report()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        with suppress(RuntimeError):  # no more threads are to be had: the others do the job
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Return when all jobs are done, also those that these submit."""
        with self._lock:
            self._is_stopped = True
            for _ in self._threads:
                self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = self._jobs.get()
            if job is None:
                return
            try:
                job()
            except Exception:  # noqa: BLE001
                _report()
            del job  # nobody's while we wait


def _report() -> None:
    """As Python reports what ends a thread."""
    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


class PendingAppend(msgspec.Struct, eq=False):
    """An append on its way and the future that waits for it. Without a ``request``, a sync or the end of a segment."""

    request: AppendRequest | None = None
    durability: Durability = "full"
    inbox: "Inbox | None" = None
    future: asyncio.Future[list[Entry]] | None = None
    result: Batch | Exception | None = None  # once it is written, or will never be
    seal: tuple[int, int] | None = None


class Inbox:
    """Of one loop, made on it. The loop may be closed at any time: then nobody waits for an answer any more.

    ``answers``: appends that have their results. Any thread adds to them, and calls ``wake``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self.answers: deque[PendingAppend] = deque()
        self._is_woken = False
        self._fd = -1
        if HAS_EVENTFD:
            self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._close_fd = weakref.finalize(self, os.close, self._fd)
            loop.add_reader(self._fd, self._drain)

    def wake(self) -> None:
        """From any thread: the loop gives its answers soon."""
        if self._is_woken:
            return
        self._is_woken = True
        if self._fd >= 0:
            os.eventfd_write(self._fd, 1)
        elif (loop := self._loop()) is not None:
            with suppress(RuntimeError):  # it was closed
                loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        if self._fd >= 0:
            with suppress(BlockingIOError):  # nothing was written
                os.eventfd_read(self._fd)
        self._is_woken = False  # before the answers are looked at: one that comes now wakes the loop again
        while self.answers:
            answered = self.answers.popleft()
            future, result = answered.future, answered.result
            if future is None or future.done():
                continue  # a cancelled append is on disk all the same
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result.entries if result else [])

    def close(self) -> None:
        """On its loop."""
        self._drain()
        loop = self._loop()
        if self._fd >= 0 and self._close_fd.alive:
            if loop is not None and not loop.is_closed():
                loop.remove_reader(self._fd)
            self._close_fd()


class Inboxes:
    """One for each loop that appends."""

    def __init__(self) -> None:
        self._inboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Inbox] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    def get(self) -> Inbox:
        loop = asyncio.get_running_loop()
        inbox = self._inboxes.get(loop)
        if inbox is None:
            with self._lock:
                inbox = self._inboxes[loop] = Inbox(loop)
        return inbox

    def close(self) -> None:
        """The running loop's; those of other loops go with them."""
        with self._lock:
            inbox = self._inboxes.pop(asyncio.get_running_loop(), None)
        if inbox is not None:
            inbox.close()
