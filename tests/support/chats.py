"""What the tests of ``agent`` share: a store, a chat in it, and what a model reads there.

A test module that takes ``store`` or ``chat`` imports the fixtures ``a_store`` and ``a_chat``.
"""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chatfold.agent import Chat, Moment, Store, assistant, user
from chatfold.agent.summary import Material
from chatfold.eventlog import Event, Text, ToolCalled, ToolReturned
from tests.support import storages
from tests.support.storages import Opener


def files(root: Path) -> Store:
    return Store(storages.files(root)())


@pytest.fixture(name="store")
async def a_store(storages: Opener) -> AsyncIterator[Store]:
    async with Store(storages()) as store:
        yield store


@pytest.fixture(name="chat")
async def a_chat(store: Store) -> Chat:
    return await store.chat("chat")


async def texts(chat: Moment) -> list[str]:
    """What the model reads, a text a message; a message of nothing but calls is an ellipsis."""
    return [message.get("content", "…") for message in await chat.messages("openai")]


async def roles(chat: Moment) -> list[str]:
    return [message["role"] for message in await chat.messages("openai")]


async def turns(chat: Chat, count: int) -> None:
    for number in range(count):
        await chat.record(user(f"question {number}"), assistant(f"answer {number}"))


def block(call: str, result: str = "done", name: str = "read") -> tuple[Event, Event]:
    """A call and its result."""
    return ToolCalled(call, name), ToolReturned(call, (Text(result),))


def told(material: Material) -> str:
    """A summary that says how much it stands for."""
    return f"{len(material.messages)} messages after {material.previous!r}"


def started(code: str, *args: object) -> "subprocess.Popen[str]":
    """Another process of the same Python, running this code; ``args`` are its ``sys.argv[1:]``."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, args)]
    top = Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(process: "subprocess.Popen[str]") -> str:
    """What it printed; it must have ended well."""
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output
