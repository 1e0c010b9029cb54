"""Calls on other threads, of which nobody awaits a result: whoever is called tells by itself.

An executor makes a future for every call, with locks of its own; that is as much work as waking the thread. Threads are started
when they are needed. They do not keep the process alive: what is cut off is what a kill would have cut off.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Workers:
    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0  # threads that wait for a call, less the calls that wait for a thread
        self._stopped = False  # then calls are done where they are submitted
        self._lock = threading.Lock()

    def submit(self, call: Callable[..., None], *args: Any) -> None:
        with self._lock:
            self._idle -= 1
            if self._idle < 0 and len(self._threads) < self._most and not self._stopped:
                self._start()
            here = self._stopped or not self._threads
            if here:
                self._idle += 1
            else:  # under the lock: nothing is put behind what tells a thread to stop
                self._calls.put((call, args))
        if here:
            self._do(call, args)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        # No more threads are to be had: those there are do it or, without any, the caller.
        with suppress(RuntimeError):
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """When all calls are done, also those that these submit."""
        with self._lock:
            self._stopped = True
            for _ in self._threads:
                self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            work = self._calls.get()
            if work is None:
                return
            call, args = work
            self._do(call, args)
            del work, call, args  # nobody's while we wait

    def _do(self, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        try:
            call(*args)
        except Exception:  # noqa: BLE001 (reported, as Python reports those that end a thread)
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


class Shares(Generic[T]):
    """Many things to be done by a few threads: each takes its share of those that wait and does them together."""

    def __init__(self, workers: Workers, most: int, do: Callable[[list[T]], None]) -> None:
        self._workers = workers
        self._most = most
        self._do = do
        self._waiting: deque[T] = deque()
        self._busy = 0
        self._lock = threading.Lock()

    def add(self, one: T) -> None:
        with self._lock:
            self._waiting.append(one)
            start = self._busy < self._most
            self._busy += start
        if start:
            self._workers.submit(self._work)

    def _work(self) -> None:
        while some := self._take():
            self._do(some)

    def _take(self) -> list[T]:
        """Nothing if nothing waits; then, under the same lock, one is busy no more: what comes next finds it so."""
        with self._lock:
            share = -(-len(self._waiting) // self._most)
            self._busy -= not share
            return [self._waiting.popleft() for _ in range(share)]
