"""Whatever an agent's code tries, a rehearsal does not reach the world."""

import _posixsubprocess
import asyncio
import ctypes
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from chatfold.agent import Agent, ScriptedModel, Store
from chatfold.replay.verify.offline import LiveCall, offline
from chatfold.replay.verify.rehearsal import rehearse
from tests.support.debugger.recorded_bot import build, diverged, talked


async def test_the_models_own_ask_is_never_called() -> None:
    class Live(ScriptedModel):
        async def ask(self, payload: dict[str, Any]) -> Any:
            raise AssertionError("a model was asked")
            yield

    chat = await talked(Store.memory())
    assert (await rehearse(chat, lambda store: build(store, model=Live([], name="rules")))).ok
    found = await diverged(chat, lambda store: build(store, model=Live([], name="rules"), instructions=""))
    assert found.field.startswith("request.system")


def connect() -> None:
    with socket.socket() as made:
        made.connect(("127.0.0.1", 9))


def in_a_thread() -> None:
    thread = threading.Thread(target=lambda: swallowed(connect))
    thread.start()
    thread.join()


def swallowed(act: Any) -> None:
    try:
        act()
    except Exception:  # noqa: BLE001
        return


WAYS = {
    "connect": connect,
    "a name": lambda: socket.getaddrinfo("localhost", 80),
    "a program": lambda: subprocess.run([sys.executable, "-V"], check=False),
    "a thread": in_a_thread,
}


@pytest.mark.parametrize("way", WAYS)
async def test_whatever_the_agents_code_tries_it_does_not_reach_the_world(way: str) -> None:
    chat = await talked(Store.memory(), "hello")

    def about(_key: str) -> dict[str, Any]:
        swallowed(WAYS[way])
        return {}

    found = await diverged(chat, lambda store: build(store, about=about))
    assert found.kind == "live"
    assert found.field.startswith(("socket.", "subprocess."))

    def factory(store: Store) -> Agent:
        swallowed(WAYS[way])
        return build(store)

    with pytest.raises(LiveCall, match="tried to reach the world"):
        await rehearse(chat, factory)


async def test_a_program_started_by_the_event_loop_is_refused_too() -> None:
    chat = await talked(Store.memory(), "hello")

    async def factory(store: Store) -> Agent:
        await asyncio.create_subprocess_exec(sys.executable, "-V")
        return build(store)

    with pytest.raises(LiveCall, match=r"subprocess\.Popen"):
        await rehearse(chat, factory)


def test_before_and_after_the_world_is_there() -> None:
    with offline() as tried, pytest.raises(LiveCall):
        connect()
    assert len(tried) == 1
    done = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True)
    assert done.stdout.strip() == b"1"
    with pytest.raises(OSError):
        connect()
    assert len(tried) == 1


def spawned() -> None:
    """``multiprocessing`` with spawn, which the interpreter does not ask about."""
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()


def forked() -> None:
    if os.fork() == 0:
        os._exit(0)


def by_hand() -> None:
    import _posixsubprocess

    _posixsubprocess.fork_exec([b"/bin/true"])  # type: ignore[call-arg]


MORE_WAYS = {
    "spawn": spawned,
    "fork": forked,
    "fork_exec": by_hand,
    "ctypes": lambda: ctypes.CDLL(None),
    "a process pool": lambda: (
        ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")).submit(print).result(10)
    ),
}


@pytest.mark.parametrize("way", MORE_WAYS)
def test_what_the_interpreter_does_not_ask_about_is_refused_too(way: str) -> None:
    before = _posixsubprocess.fork_exec
    with offline() as tried:
        assert _posixsubprocess.fork_exec is not before
        with pytest.raises(LiveCall):
            MORE_WAYS[way]()  # type: ignore[no-untyped-call]
    assert tried
    assert _posixsubprocess.fork_exec is before
    subprocess.run([sys.executable, "-c", ""], check=True)  # afterwards all is as it was


def test_a_subinterpreter_is_refused() -> None:
    """Audit hooks are an interpreter's own: nobody would watch another one."""
    subinterpreters = pytest.importorskip("_xxsubinterpreters")
    with offline() as tried, pytest.raises((LiveCall, RuntimeError)):
        subinterpreters.create()
    assert tried


async def test_the_verdict_tells_every_attempt() -> None:
    chat = await talked(Store.memory(), "hello")

    def about(_key: str) -> dict[str, Any]:
        swallowed(connect)
        swallowed(lambda: socket.getaddrinfo("localhost", 80))
        return {}

    found = await rehearse(chat, lambda store: build(store, about=about))
    assert [one.partition(" ")[0] for one in found.attempts][:2] == ["socket.connect", "socket.getaddrinfo"]
