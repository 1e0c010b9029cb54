"""What an earlier writer's death left undone is done before the first change: once a storage, and never on an event loop.

A killed process leaves folders half made, chats half removed and erasures half done. How much it left, and so how long the work
takes, has no limit.
"""

import asyncio
import threading
import weakref
from concurrent.futures import Future
from pathlib import Path

from chatfold.eventlog.files.chat_dir import CHATS, make_root, sweep
from chatfold.eventlog.files.disk import Disk, is_folder
from chatfold.eventlog.files.redact import finish_redactions


class Preparation:
    """Callers that come at the same time, from any loop, wait for the same work and get the same error."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self.is_done = False  # does nobody have to wait?
        self._required = 1  # so often was it required,
        self._finished = 0  # and so much of that is done
        self._disk = disk
        self._root = root
        self._is_root_there = False
        self._lock = threading.Lock()
        self._running: Future[None] | None = None
        self._waiting = 0  # callers that have not gone on yet: no other may overtake them
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            weakref.WeakKeyDictionary()
        )

    def ensure_root(self) -> None:
        """The root is there, durably. On a thread of its caller's."""
        if not self._is_root_there:
            make_root(self._disk, self._root)
            self._is_root_there = True

    def require(self) -> None:
        """An erasure of ours was interrupted: the next change waits for it to be finished."""
        with self._lock:
            self._required += 1
            self.is_done = False

    async def finish(self) -> None:
        """Returns when nothing is left to be done, to the callers of a loop in the order in which they came.

        After an error, the next call tries again.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            running = self._running
            is_new = running is None and self._finished != self._required
            if is_new:
                running = self._running = Future()
            turn = self._turns.setdefault(loop, asyncio.Lock())
            self._waiting += 1
            self.is_done = False
        try:
            if is_new and running is not None:
                self._start(loop, running)
            async with turn:
                if running is not None:
                    # The work goes on for the others when one of those who wait is cancelled.
                    await asyncio.shield(asyncio.wrap_future(running))
        finally:
            with self._lock:
                self._waiting -= 1
                self.is_done = self._finished == self._required and not self._waiting

    def _start(self, loop: asyncio.AbstractEventLoop, running: "Future[None]") -> None:
        try:
            loop.run_in_executor(None, self._run, running)
        except RuntimeError:  # no more threads are to be had: we wait here
            self._run(running)

    def _run(self, running: "Future[None]") -> None:
        with self._lock:
            if self._running is not running or not _begin(running):
                return  # it is done where no thread was to be had
            required = self._required
        error = self._attempt()
        with self._lock:
            self._running = None
            if error is None:
                self._finished = required
        if error is None:
            running.set_result(None)
        else:
            running.set_exception(error)

    def _attempt(self) -> BaseException | None:
        try:
            if is_folder(self._disk, self._root / CHATS):  # else nobody left anything
                self.ensure_root()  # its maker may have been killed
                sweep(self._disk, self._root)
                finish_redactions(self._disk, self._root)
        except BaseException as error:  # noqa: BLE001 (raised where it is waited for)
            return error
        return None


def _begin(running: "Future[None]") -> bool:
    return not running.running() and running.set_running_or_notify_cancel()
