"""At most one thread is in a chat's writer, and all of them end, whoever comes between any two steps of another."""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from chatfold.eventlog.files.queue import ChatQueue, CommitQueue, PendingAppend


class Tidy:
    """A writer with nothing to do."""

    is_untidy = False
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


def test_who_leaves_does_not_take_who_comes_next_for_itself() -> None:
    writer: Any = Tidy()
    lanes, lane = CommitQueue(lambda _: writer, lambda *_: None), ChatQueue(writer)
    entered: list[str] = []
    workers: Any = lanes._workers
    workers.submit = lambda call, *_: entered.append(call.__name__)
    lock: Any = Interrupted(lambda: lanes._submit(lane, PendingAppend(None, "full")))
    assert lane.enter()
    lane.lock = lock
    lanes._leave(lane)
    assert entered == ["_work"]
    assert lane.busy


def test_the_keeper_ends_although_it_is_told_so_at_the_last_moment() -> None:
    lanes = CommitQueue(lambda _: pytest.fail("no chat"), lambda *_: None)

    class Closed(threading.Event):
        """Set right after the time was over for which somebody waited."""

        def wait(self, timeout: float | None = None) -> bool:
            was_set = self.is_set()
            self.set()
            lanes._due.set()
            return was_set

    lanes._closed = Closed()
    lanes._due.set()
    assert lanes._has_started_keeper()
    assert lanes._keeper is not None
    lanes._keeper.join(10)
    assert not lanes._keeper.is_alive()


def test_a_lane_is_never_missing_while_it_is_used_again() -> None:
    """Or whoever looks after the lanes at that very moment passes over what is to be synced."""
    writer: Any = Tidy()
    lanes = CommitQueue(lambda _: writer, lambda *_: None)
    lane = lanes._lane("chat")
    lanes._lane("another")
    missing: list[int] = []

    def look(frame: FrameType, _event: str, _arg: object) -> Any:
        if lane not in lanes._lanes.values():
            missing.append(frame.f_lineno)
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        assert lanes._lane("chat") is lane
    finally:
        sys.settrace(before)
    assert not missing
    assert list(lanes._lanes) == ["another", "chat"]
