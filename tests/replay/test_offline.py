"""Whatever an agent's code tries, a rehearsal does not reach the world."""

import asyncio
import socket
import subprocess
import sys
import threading
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
