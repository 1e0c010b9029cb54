"""Hints that a chat changed. A hint may be late, doubled or missing: polling tells.

An append of this process wakes the followers of its chat itself. What other processes write, the operating system tells: one
thread a storage watches the folders of the chats that are followed, and ends soon after the last follower. It does not watch
``chats/`` as a whole: that takes a watch of the system for every folder of every chat, and there are few of them.

The set of folders that are watched cannot be changed, so another one is made for a chat that is new to it. A chat stays in the
set for a while: a follower leaves and comes back with each entry it reads.
"""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

_IDLE_S = 1.0  # a chat that nobody followed for so long is not watched any more
_LOOK_MS = 100  # how often the thread looks for idle chats
_STEP_MS = 2
_DEBOUNCE_MS = 20


class News:
    """Hints for one follower, on its own loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._hint = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Until the next hint, at most this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # ``wait_for`` loses a cancellation that comes with a hint
                await self._hint.wait()
        self._hint.clear()

    def wake(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._hint.set)


class _Followed(msgspec.Struct):
    """A chat, who follows it, and when the last one left."""

    folder: str
    followers: set[News]
    left: float = 0.0


class Notifier:
    """For all followers of one storage. Any thread may use it. ``chats``: those that are followed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.chats: dict[str, _Followed] = {}
        self._watched: dict[str, str] = {}  # chat, by its folder
        self._thread: threading.Thread | None = None
        self._must_choose = threading.Event()  # a chat is followed that is not watched yet, or we end
        self._is_closed = False

    @contextmanager
    def following(self, chat: str, path: Path) -> Iterator[News]:
        news = News()
        with self._lock:
            followed = self.chats.setdefault(chat, _Followed(str(path), set()))
            followed.followers.add(news)
            if followed.folder not in self._watched:
                self._must_choose.set()
            self._start()
        try:
            yield news
        finally:
            with self._lock:
                followed.followers.discard(news)
                followed.left = time.monotonic()

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def wake(self, chat: str) -> None:
        """The chat has grown."""
        with self._lock:
            followed = self.chats.get(chat)
            followers = list(followed.followers) if followed else []
        for news in followers:
            news.wake()

    def close(self) -> None:
        with self._lock:
            self._is_closed, thread = True, self._thread
            self._must_choose.set()
        if thread is not None:
            thread.join()

    # --- the thread --------------------------------------------------------------------------------------

    def _start(self) -> None:
        """The caller holds the lock."""
        if self._thread is None and not self._is_closed:
            thread = threading.Thread(target=self._run, name="chatfold-notify", daemon=True)
            with suppress(RuntimeError):  # no more threads are to be had: the poll carries on alone
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while self._is_needed():
            # Without inotify, or out of its limits, there are no hints.
            try:
                self._watch(self._choose_folders())
            except (OSError, RuntimeError):
                self._must_choose.wait(_IDLE_S)

    def _watch(self, folders: list[str]) -> None:
        """Wakes followers until other folders are to be watched."""
        from watchfiles._rust_notify import RustNotify  # noqa: PLC0415 (slow, and only followers need it)

        with RustNotify(folders, False, False, 0, False, True) as system:
            for folder in folders:  # it may have changed before it was watched
                self._wake_folder(folder)
            while not self._is_outdated():
                changes = system.watch(_DEBOUNCE_MS, _STEP_MS, _LOOK_MS, self._must_choose)
                if isinstance(changes, set):
                    self._wake_changed({path for _, path in changes})

    def _wake_changed(self, paths: set[str]) -> None:
        for folder in {os.path.dirname(path) for path in paths} | paths:  # noqa: PTH120 (many, and often)
            self._wake_folder(folder)
        with self._lock:
            for path in paths:  # the folder itself: deleted, and perhaps made again
                self._watched.pop(path, None)

    def _wake_folder(self, folder: str) -> None:
        chat = self._watched.get(folder)
        if chat is not None:
            self.wake(chat)

    def _is_needed(self) -> bool:
        """If it is not, the next follower starts another thread."""
        with self._lock:
            self._drop_idle()
            if not self.chats or self._is_closed:
                self._thread, self._watched = None, {}
                return False
        return True

    def _is_outdated(self) -> bool:
        """Does the set of watched folders lack one, or hold mostly idle ones?"""
        with self._lock:
            self._drop_idle()
            return self._must_choose.is_set() or 2 * len(self.chats) <= len(self._watched)

    def _drop_idle(self) -> None:
        """The caller holds the lock."""
        long_ago = time.monotonic() - _IDLE_S
        for chat, followed in list(self.chats.items()):
            if not followed.followers and followed.left < long_ago:
                del self.chats[chat]

    def _choose_folders(self) -> list[str]:
        """Those that are there. A chat that is to come is polled for."""
        with self._lock:
            if not self._is_closed:
                self._must_choose.clear()
            chats = {followed.folder: chat for chat, followed in self.chats.items()}
        there = {folder: chat for folder, chat in chats.items() if os.path.isdir(folder)}  # noqa: PTH112
        with self._lock:
            self._watched = there
        return list(there)
