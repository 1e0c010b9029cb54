"""Answers on their way from threads to the futures of a loop: many answers, one wake-up.

``call_soon_threadsafe`` makes a handle and writes to a socket for each answer. Here a thread appends to a deque, and writes to an
eventfd only if it has not since the loop last looked. Systems without eventfd do without.
"""

import asyncio
import os
import sys
import threading
import weakref
from collections import deque
from contextlib import suppress

import msgspec

from chatfold.eventlog.batch import AppendRequest, Batch
from chatfold.eventlog.events import Entry
from chatfold.eventlog.storage import Durability

HAS_EVENTFD = sys.platform == "linux" and hasattr(os, "eventfd")


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
