"""Threads that sync: started when they are needed, at most so many. Jobs return nothing; each gives its answers itself.

An executor makes a future for every job, with locks of its own: as much work as waking the thread. These threads do not keep
the process alive. What is cut off then is what a kill would have cut off.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeAlias

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
