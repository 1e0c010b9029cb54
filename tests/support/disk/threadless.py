"""The engine without threads, where one thing happens at a time anyway: to wait for a thread takes longer than most of what it does.

The engine allows for it: where no more threads are to be had, whoever appends does their work.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from chatfold.eventlog import FileStorage

T = TypeVar("T")
_IDLE = threading.Thread(name="a timer that never looks after anything")
_IDLE.start()


class Here(ThreadPoolExecutor):
    """Does at once what is handed to it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 (told to whoever awaits it)
            done.set_exception(error)
        return done


def without_threads(storage: FileStorage) -> FileStorage:
    """It starts none, neither now nor later."""
    storage._queue._threads._most = 0
    storage._queue._timer = _IDLE
    return storage


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``; what is sent to a thread is done here."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(Here(1))
        return runner.run(work)
