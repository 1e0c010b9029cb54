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
from chatfold.eventlog.files.handover import Inbox, PendingAppend
from chatfold.eventlog.files.notify import Notifier
from chatfold.eventlog.files.open_chat import OPEN_CHATS, OpenChat, OpenChats
from chatfold.eventlog.files.queue import CommitQueue


class Idle:
    """A writer with nothing to do."""

    has_cache_work = False


class Interrupted:
    """A turn: somebody else comes right before and right after it is let go of."""

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._before = before
        self._after = after
        self._lock = threading.Lock()

    def acquire(self, *, blocking: bool) -> bool:
        return self._lock.acquire(blocking=blocking)

    def release(self) -> None:
        self._before()
        self._lock.release()
        self._after()


@pytest.mark.parametrize("tries", [True, False])
@pytest.mark.parametrize("is_early", [True, False])
def test_an_append_that_comes_while_the_turn_is_let_go_of_is_served_by_one(
    *, is_early: bool, tries: bool
) -> None:
    """By who comes or by who leaves, whichever of them is the last one to look."""
    writer: Any = Idle()
    chat = OpenChat("chat", writer)
    got: list[bool] = []

    def come() -> None:
        chat.pending.append(PendingAppend())
        if tries:
            got.append(chat.turn.acquire(blocking=False))

    turn: Any = Interrupted(come if is_early else int, int if is_early else come)  # type: ignore[arg-type]
    chat.turn = turn
    assert chat.turn.acquire(blocking=False)
    has_left = chat.leave()
    assert has_left == (got == [True])
    assert not chat.turn.acquire(blocking=False)  # one of them has it


def test_a_chat_is_not_left_while_an_append_waits_or_work_is_to_be_done() -> None:
    writer: Any = Idle()
    chat = OpenChat("chat", writer)
    assert chat.turn.acquire(blocking=False)
    chat.pending.append(PendingAppend())
    assert not chat.leave()
    assert len(chat.take_group()) == 1
    writer.has_cache_work = True
    assert not chat.leave()
    writer.has_cache_work = False
    assert chat.leave()
    assert chat.turn.acquire(blocking=False)


def test_the_timer_ends_although_it_is_told_so_at_the_last_moment() -> None:
    queue = CommitQueue(lambda _: pytest.fail("no chat"), Notifier())

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
    assert busy.turn.acquire(blocking=False)
    for number in range(OPEN_CHATS + 2):
        chats.get(str(number))
    popped = chats.pop_idle()
    assert [chat.key for chat in popped] == ["0", "1", "2"]
    assert not any(chat.turn.acquire(blocking=False) for chat in popped)  # the caller has them
    assert chats.find("busy") is busy
    assert chats.pop_idle() == []


def test_chats_that_begin_side_by_side_have_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = CommitQueue(lambda _: pytest.fail("no chat"), Notifier())
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


async def test_the_answers_of_a_group_wake_their_loop_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the loop takes the interpreter from the thread in the middle of its work, again and again."""
    woken, groups = list[int](), list[int]()
    wake, reply = Inbox.wake, CommitQueue._reply

    def counting_wake(inbox: Inbox) -> None:
        woken.append(len(inbox.answers))
        wake(inbox)

    def counting_reply(queue: CommitQueue, chat: OpenChat, answered: list[PendingAppend]) -> None:
        groups.append(len(answered))
        reply(queue, chat, answered)

    monkeypatch.setattr(Inbox, "wake", counting_wake)
    monkeypatch.setattr(CommitQueue, "_reply", counting_reply)
    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", Noted("first"))
        woken.clear()
        groups.clear()
        await asyncio.gather(*(log.append("chat", Noted(str(number))) for number in range(64)))
    answered = [size for size in groups if size]
    assert max(answered) > 32
    assert len(woken) == len(answered)
    assert max(woken) >= max(answered)
