"""Calls on other threads, of which nobody awaits a result: whoever is called tells by itself.

An executor makes a future for every call, with locks of its own; that is as much work as waking the thread. Threads are started
when they are needed. They do not keep the process alive: what is cut off is what a kill would have cut off.
"""

import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class Workers:
    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0  # threads that wait for a call, less the calls that wait for a thread
        self._lock = threading.Lock()

    def submit(self, call: Callable[..., None], *args: Any) -> None:
        with self._lock:
            self._idle -= 1
            if self._idle < 0 and len(self._threads) < self._most:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._calls.put((call, args))

    def stop(self) -> None:
        """When all calls are done."""
        with self._lock:
            threads, self._threads = self._threads, []
        for _ in threads:
            self._calls.put(None)
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            work = self._calls.get()
            if work is None:
                return
            call, args = work
            try:
                call(*args)
            except Exception:  # noqa: BLE001 (reported, as Python reports those that end a thread)
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            del work, call, args  # nobody's while we wait
