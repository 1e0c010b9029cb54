"""Jobs on threads of ours."""

import threading
from functools import partial
from time import sleep

import pytest

from chatfold.eventlog.files.handover import Threads


def test_everything_that_was_submitted_is_done_when_they_have_stopped() -> None:
    threads, done = Threads(4, "test"), list[int]()
    for number in range(200):
        threads.submit(partial(done.append, number))
    threads.stop()
    assert sorted(done) == list(range(200))
    assert not [thread for thread in threading.enumerate() if thread.name == "test"]


def test_calls_that_wait_for_each_other_run_side_by_side_but_not_more_than_allowed() -> None:
    threads, met = Threads(3, "test"), threading.Barrier(3)
    running, most = list[int](), list[int]()

    def call() -> None:
        running.append(1)
        most.append(len(running))
        met.wait(10)
        running.pop()

    for _ in range(9):
        threads.submit(call)
    threads.stop()
    assert max(most) == 3


def test_one_call_after_the_other_needs_one_thread() -> None:
    threads, seen = Threads(8, "test"), set[int]()
    for _ in range(20):
        done = threading.Event()
        threads.submit(lambda: seen.add(threading.get_ident()))
        threads.submit(done.set)
        done.wait()
        while not threads.is_idle:  # until they wait again, however busy the machine is
            sleep(0.001)
    threads.stop()
    assert len(seen) <= 2


def test_a_call_that_fails_is_reported_and_the_others_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = []
    monkeypatch.setattr(threading, "excepthook", lambda told: reported.append(told.exc_type))
    threads, done = Threads(1, "test"), list[int]()
    threads.submit(partial(divmod, 1, 0))
    for number in range(3):
        threads.submit(partial(done.append, number))
    threads.stop()
    assert reported == [ZeroDivisionError]
    assert done == [0, 1, 2]


def test_a_call_submitted_by_a_call_while_they_stop_is_done_and_nobody_waits_for_ever() -> None:
    threads, stopping, done = Threads(4, "test"), threading.Event(), list[str]()

    def first() -> None:
        stopping.wait(10)
        sleep(0.05)  # stop has said so to all threads
        threads.submit(partial(done.append, "second"))
        sleep(0.05)  # a thread started for that would take what tells us to stop
        done.append("first")

    threads.submit(first)
    stop = threading.Thread(target=threads.stop, daemon=True)
    stop.start()
    stopping.set()
    stop.join(10)
    assert not stop.is_alive()
    assert not [thread for thread in threading.enumerate() if thread.name == "test"]
    assert sorted(done) == ["first", "second"]


def test_without_a_thread_it_is_done_at_once() -> None:
    threads, done = Threads(0, "test"), list[int]()
    for number in range(3):
        threads.submit(partial(done.append, number))
        assert done[-1] == number
