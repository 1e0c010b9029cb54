"""A run with a real MCP server is ended after each of its events, by each signal; ``resume_all`` answers the message once.

An accepted message is forgotten by no signal. What the server was asked to do is not done again once its result is recorded, and no
server outlives the process that started it.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from chatfold import Store
from chatfold.eventlog import Entry, MessageAdded, RunFinished, ToolCalled, ToolReturned
from tests.support.processes.mcp_run import CHAT, QUESTION

ROOT = Path(__file__).parents[2]


def _process(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.processes.mcp_run", *map(str, args)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def _entries(folder: Path) -> list[Entry]:
    async with Store(folder / "store", read_only=True) as store:
        return [entry async for entry in (await store.chat(CHAT)).entries()]


def _has_server(folder: Path) -> bool:
    for commands in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder / "deeds").encode() in commands.read_bytes():
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_message_is_answered_once_whatever_ended_the_run(tmp_path: Path, number: signal.Signals) -> None:
    for nth in range(1, 100):
        folder = tmp_path / str(nth)
        folder.mkdir()
        began = _process(folder, int(number), nth)
        left = asyncio.run(_entries(folder))
        is_through = any(isinstance(entry.event, RunFinished) for entry in left)
        assert began.returncode or is_through, f"event {nth}: {began.stdout}{began.stderr}"
        for _ in range(100):
            if not _has_server(folder):
                break
            time.sleep(0.1)
        assert not _has_server(folder), f"event {nth}: a server was left"
        resumed = _process(folder)
        assert resumed.returncode == 0, f"event {nth}: {resumed.stderr}"
        _judge(asyncio.run(_entries(folder)), left, folder, f"event {nth}")
        if is_through:
            break
    assert nth > 6


def _judge(entries: list[Entry], left: list[Entry], folder: Path, where: str) -> None:
    said = [
        (entry.event.role, "".join(getattr(part, "text", "") for part in entry.event.parts))
        for entry in entries
        if isinstance(entry.event, MessageAdded) and entry.event.origin == "exec"
    ]
    assert said == [("user", QUESTION), ("assistant", "It is done.")], where
    calls = Counter(entry.event.call for entry in entries if isinstance(entry.event, ToolCalled))
    answers = Counter(entry.event.call for entry in entries if isinstance(entry.event, ToolReturned))
    assert set(calls.values()) <= {1}, where
    assert calls == answers, where
    outcomes = [entry.event.outcome for entry in entries if isinstance(entry.event, RunFinished)]
    assert outcomes == ["done"], where
    deeds = (folder / "deeds").read_text().splitlines() if (folder / "deeds").exists() else []
    had_result = any(isinstance(entry.event, ToolReturned) for entry in left)
    had_call = any(isinstance(entry.event, ToolCalled) for entry in left)
    assert len(deeds) == 1 if had_result or not had_call else len(deeds) <= 1, where
