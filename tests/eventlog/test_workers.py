"""Calls on other threads."""

import threading
from time import sleep

import pytest

from chatfold.eventlog.files.workers import Shares, Workers


def test_everything_that_was_submitted_is_done_when_they_have_stopped() -> None:
    workers, done = Workers(4, "test"), list[int]()
    for number in range(200):
        workers.submit(done.append, number)
    workers.stop()
    assert sorted(done) == list(range(200))
    assert not [thread for thread in threading.enumerate() if thread.name == "test"]


def test_calls_that_wait_for_each_other_run_side_by_side_but_not_more_than_allowed() -> None:
    workers, met = Workers(3, "test"), threading.Barrier(3)
    running, most = list[int](), list[int]()

    def call() -> None:
        running.append(1)
        most.append(len(running))
        met.wait(10)
        running.pop()

    for _ in range(9):
        workers.submit(call)
    workers.stop()
    assert max(most) == 3


def test_one_call_after_the_other_needs_one_thread() -> None:
    workers, threads = Workers(8, "test"), set[int]()
    for _ in range(20):
        done = threading.Event()
        workers.submit(lambda: threads.add(threading.get_ident()))
        workers.submit(done.set)
        done.wait()
        while workers._idle < len(workers._threads):  # until they wait again, however busy the machine is
            sleep(0.001)
    workers.stop()
    assert len(threads) <= 2


def test_a_call_that_fails_is_reported_and_the_others_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = []
    monkeypatch.setattr(threading, "excepthook", lambda told: reported.append(told.exc_type))
    workers, done = Workers(1, "test"), list[int]()
    workers.submit(divmod, 1, 0)
    for number in range(3):
        workers.submit(done.append, number)
    workers.stop()
    assert reported == [ZeroDivisionError]
    assert done == [0, 1, 2]


def test_a_call_submitted_by_a_call_while_they_stop_is_done_and_nobody_waits_for_ever() -> None:
    workers, stopping, done = Workers(4, "test"), threading.Event(), list[str]()

    def first() -> None:
        stopping.wait(10)
        sleep(0.05)  # stop has said so to all threads
        workers.submit(done.append, "second")
        sleep(0.05)  # a thread started for that would take what tells us to stop
        done.append("first")

    workers.submit(first)
    stop = threading.Thread(target=workers.stop, daemon=True)
    stop.start()
    stopping.set()
    stop.join(10)
    assert not stop.is_alive()
    assert not [thread for thread in threading.enumerate() if thread.name == "test"]
    assert sorted(done) == ["first", "second"]


def test_what_waits_is_shared_by_those_who_are_free() -> None:
    workers, busy, done = Workers(8, "test"), threading.Barrier(3), list[list[str]]()

    def do(some: list[str]) -> None:
        done.append(some)
        if some[0] in "ab":  # both are at it while the others come
            busy.wait(10)
            busy.wait(10)

    shares = Shares[str](workers, 2, do)
    for one in "ab":
        shares.add(one)
    busy.wait(10)
    for one in "cdefgh":
        shares.add(one)
    busy.wait(10)
    workers.stop()
    assert sorted(done[:2]) == [["a"], ["b"]]
    assert sorted(one for some in done for one in some) == [*"abcdefgh"]
    assert done[2] == [*"cde"]  # half of them: there are two who take


def test_nothing_is_left_waiting_whoever_comes_when_the_last_one_goes() -> None:
    for _ in range(200):
        workers, done = Workers(4, "test"), list[int]()
        shares = Shares[int](workers, 1, done.extend)
        for number in range(5):
            shares.add(number)
            if number == 2:
                while not done:  # it goes, or has gone
                    sleep(0)
        workers.stop()
        assert done == list(range(5))


def test_without_a_thread_whoever_adds_does_it() -> None:
    done = list[int]()
    shares = Shares[int](Workers(0, "test"), 4, done.extend)
    for number in range(3):
        shares.add(number)
        assert done[-1] == number
