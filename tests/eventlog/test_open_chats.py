"""At most one thread is in a chat's writer, and all of them end, whoever comes between any two steps of another."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from chatfold.eventlog import FileStorage, Log, Noted
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.open_chat import OPEN_CHATS, OpenChat, OpenChats, PendingAppend
from chatfold.eventlog.files.queue import CommitQueue


class Idle:
    """A writer with nothing to do."""

    has_cache_work = False
    tail = None


class Interrupted:
    """A lock after whose first release somebody else has a turn at once."""

    def __init__(self, turn: Callable[[], None]) -> None:
        self._turn: list[Callable[[], None]] = [turn]
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        while self._turn:
            self._turn.pop()()


def test_who_releases_a_chat_does_not_take_who_comes_next_for_itself() -> None:
    writer: Any = Idle()
    chat = OpenChat("chat", writer)
    got: list[bool] = []
    lock: Any = Interrupted(lambda: got.append(chat.add(PendingAppend(None, "full"))))
    assert chat.acquire()
    chat._lock = lock
    assert chat.release()
    assert got == [True]  # the one that came has it
    assert not chat.acquire()


def test_a_chat_is_not_released_while_an_append_waits_or_work_is_left() -> None:
    writer: Any = Idle()
    chat = OpenChat("chat", writer)
    assert chat.acquire()
    assert not chat.add(PendingAppend(None, "full"))
    assert not chat.release()
    assert len(chat.pop_group()) == 1
    assert chat.pop_group() == []  # and with that it is free
    assert chat.acquire()
    writer.has_cache_work = True
    assert not chat.release()
    writer.has_cache_work = False
    chat.is_gone = True
    assert not chat.release()


def test_a_sync_that_is_due_is_not_forgotten_for_a_watermark() -> None:
    chat = OpenChat("chat", Idle())  # type: ignore[arg-type]
    chat.add_followup("sync")
    chat.add_followup("watermark")
    assert (chat.take_followup(), chat.take_followup()) == ("sync", "")


def test_the_timer_ends_although_it_is_told_so_at_the_last_moment() -> None:
    queue = CommitQueue(lambda _: pytest.fail("no chat"), lambda *_: None)

    class Closed(threading.Event):
        """Set right after the time was over for which the timer waited."""

        def wait(self, timeout: float | None = None) -> bool:
            was_set = self.is_set()
            self.set()
            queue._due.set()
            return was_set

    queue._is_closed = Closed()
    queue._due.set()
    assert queue._has_started_timer()
    assert queue._timer is not None
    queue._timer.join(10)
    assert not queue._timer.is_alive()


def test_a_chat_is_never_missing_while_it_is_used_again() -> None:
    """Or the timer, which looks after the chats at that very moment, passes over what is to be synced."""
    writer: Any = Idle()
    chats = OpenChats(lambda _: writer)
    chat = chats.get("chat")
    chats.get("another")
    missing: list[int] = []

    def look(frame: FrameType, _event: str, _arg: object) -> Any:
        if chat not in chats._chats.values():
            missing.append(frame.f_lineno)
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        assert chats.get("chat") is chat
    finally:
        sys.settrace(before)
    assert not missing
    assert [one.key for one in chats.all()] == ["another", "chat"]


def test_the_least_recently_used_chats_that_are_free_are_let_go() -> None:
    writer: Any = Idle()
    chats = OpenChats(lambda _: writer)
    busy = chats.get("busy")
    assert busy.acquire()
    for number in range(OPEN_CHATS + 2):
        chats.get(str(number))
    popped = chats.pop_idle()
    assert [chat.key for chat in popped] == ["0", "1", "2"]
    assert not any(chat.acquire() for chat in popped)  # the caller has them
    assert chats.find("busy") is busy
    assert chats.pop_idle() == []


def test_chats_that_begin_side_by_side_have_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = CommitQueue(lambda _: pytest.fail("no chat"), lambda *_: None)
    begun = threading.Barrier(9)
    started: list[threading.Thread] = []

    class Slow(threading.Thread):
        """Takes a while to start: the other threads have time to start one, too."""

        def start(self) -> None:
            super().start()
            started.append(self)
            time.sleep(0.05)

    def ask() -> None:
        begun.wait(10)
        assert queue._has_started_timer()

    askers = [threading.Thread(target=ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    monkeypatch.setattr("chatfold.eventlog.files.queue.threading.Thread", Slow)
    begun.wait(10)
    for asker in askers:
        asker.join(10)
    queue.stop()
    assert len([thread for thread in started if thread.name == "chatfold-timer"]) == 1


class Tracing(Disk):
    """Knows which locks are held while bytes are synced."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.synced_under_lock: list[bool] = []
        self.is_watching = False

    def lock(self, fd: int) -> None:
        super().lock(fd)
        self.held.add(fd)

    def try_lock(self, fd: int) -> bool:
        is_held = super().try_lock(fd)
        if is_held:
            self.held.add(fd)
        return is_held

    def unlock(self, fd: int) -> None:
        self.held.discard(fd)
        super().unlock(fd)

    def sync(self, fd: int) -> None:
        if self.is_watching:
            self.synced_under_lock.append(bool(self.held))
        time.sleep(0.01)  # so that appends come together
        super().sync(fd)


async def test_a_group_is_synced_without_the_lock(root: Path) -> None:
    """Or other processes wait for the disk of this one."""
    disk = Tracing()
    async with Log(FileStorage(root, disk=disk)) as log:
        for number in range(2):
            await log.append("chat", Noted(f"{number}"))
        disk.is_watching = True
        await asyncio.gather(*(log.append("chat", Noted(f"{number}")) for number in range(20)))
        disk.is_watching = False
    assert len(disk.synced_under_lock) < 20  # they were grouped
    assert not any(disk.synced_under_lock)
