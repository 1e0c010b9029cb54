"""Databases of the OpenAI Agents SDK: every count holds, branches are forks, and nothing is written beside them."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store
from chatfold.eventlog import (
    Forked,
    MessageAdded,
    ModelReturned,
    Reasoning,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers import import_paths, watch
from chatfold.importers.head import Head
from chatfold.importers.openai_agents import FORMATS
from tests.importers.fixtures import OWN, counted, file_id

AGENTS = OWN / "openai-agents"
LIVE = AGENTS / "0.24.0-live"


def kinds(events: list[Any]) -> Counter[str]:
    """As items: thoughts are in the message that they led to."""
    found: Counter[str] = Counter()
    for event in events:
        if isinstance(event, ToolCalled | ToolReturned):
            found["function_call" + "_output" * isinstance(event, ToolReturned)] += 1
        if isinstance(event, MessageAdded):
            thoughts = sum(isinstance(part, Reasoning) for part in event.parts)
            found["reasoning"] += thoughts
            found[f"message:{event.role}"] += thoughts < len(event.parts)
    return +found


def items_by_key(path: Path) -> Iterator[tuple[str, list[Any]]]:
    [form] = FORMATS
    assert form.recognises(Head(path))
    for session in form.sessions([path]):
        yield session.key, [*session.read()]
        assert session.problems == []


@pytest.mark.parametrize(("path", "expected"), list(counted("openai-agents")), ids=file_id)
def test_the_counts_of_a_database_hold(path: Path, expected: dict[str, Any]) -> None:
    found = dict(items_by_key(path))
    for name, counts in expected["sessions"].items():
        branches = {
            key: items for key, items in found.items() if key.partition(".")[0] == f"openai-agents-{name}"
        }
        assert len(branches) == len(counts.get("branches", "1"))
        once = {item.key: item.event for items in branches.values() for item in items}
        assert kinds([*once.values()]) == counts["items"]
        answered = {event.call for event in once.values() if isinstance(event, ToolReturned)}
        called = {event.call for event in once.values() if isinstance(event, ToolCalled)}
        assert len(called - answered) == counts["open_calls"]
        for branch, size in counts.get("branches", {}).items():
            own = branches[f"openai-agents-{name}" + ("" if branch == "main" else f".{branch}")]
            assert kinds([item.event for item in own]).total() == size
        costs = [event for event in once.values() if isinstance(event, ModelReturned)]
        assert len(costs) == counts.get("usage_rows", 0)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store.memory() as store:
        yield store


async def test_a_branch_shares_what_it_has_in_common(store: Store) -> None:
    reports = {one.key: one async for one in import_paths(store, [AGENTS / "0.24.0" / "advanced.db"])}
    main = "openai-agents-branches-1"
    assert {key: one.forked_from for key, one in reports.items()} == {
        main: "",
        f"{main}.regex": main,
        f"{main}.machine": main,
        "openai-agents-line-2": "",
    }
    for key in (f"{main}.regex", f"{main}.machine"):
        events: Any = [entry.event async for entry in store.log.read(key)]
        assert next(event.at for event in events if isinstance(event, Forked)) == 7
    again = [one async for one in import_paths(store, [AGENTS])]
    assert {one.state for one in again if one.key in reports} == {"unchanged"}


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


async def test_rows_of_the_log_alone_are_read_and_nothing_is_written(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    shutil.copytree(LIVE, folder)
    before = contents(folder)
    [report] = [one async for one in import_paths(store, [folder])]
    assert report.new > 8
    assert contents(folder) == before
    assert sorted(before) == ["sessions.db", "sessions.db-wal"]


WRITER = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as writer:
    writer.execute("PRAGMA journal_mode = WAL")
    row = '{"role": "user", "content": "one"}'
    writer.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('lexer-1', ?)", (row,))
print("written", flush=True)
sys.stdin.read()
"""


async def test_a_database_that_is_open_is_read_and_nothing_is_written(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    shutil.copy(AGENTS / "0.24.0" / "sessions.db", path)
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WRITER, str(path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert await writer.stdout.readline() == b"written\n"
    before = contents(tmp_path)
    assert set(before) == {"sessions.db", "sessions.db-wal", "sessions.db-shm"}
    reports = [one async for one in import_paths(store, [path])]
    assert contents(tmp_path) == before
    assert len(reports) == 2
    assert "one" in str(await (await store.chat("openai-agents-lexer-1")).messages("openai"))
    await writer.communicate(b"")


def say(writer: sqlite3.Connection, text: str) -> None:
    row = "INSERT INTO agent_messages (session_id, message_data) VALUES ('lexer-1', ?)"
    writer.execute(row, (f'{{"role": "user", "content": "{text}"}}',))
    writer.commit()


async def test_watching_sees_a_row_as_it_is_written(tmp_path: Path) -> None:
    folder, stop = tmp_path / "agents", asyncio.Event()
    folder.mkdir()
    shutil.copy(AGENTS / "0.24.0" / "sessions.db", folder)
    writer = sqlite3.connect(folder / "sessions.db", check_same_thread=False)
    writer.execute("PRAGMA journal_mode = WAL")
    told: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def follow(store: Store) -> None:
        async for report in watch(store, [folder], stop=stop):
            told.put_nowait((report.key, report.new))

    async with Store(tmp_path / "store", durability="off") as store, asyncio.timeout(60):
        task = asyncio.create_task(follow(store))
        assert {(await told.get())[0] for _ in range(2)} == {"openai-agents-lexer-1", "openai-agents-chat-2"}
        await asyncio.sleep(0.3)
        for text in ("one", "two"):
            say(writer, text)
            assert await told.get() == ("openai-agents-lexer-1", 1)
            assert text in str(await (await store.chat("openai-agents-lexer-1")).messages("openai"))
        stop.set()
        await task
    writer.close()


async def test_a_damaged_database_is_named(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    data = bytearray((AGENTS / "0.24.0" / "sessions.db").read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(data)
    reports = [one async for one in import_paths(store, [path])]
    assert any(problem.path == str(path) for one in reports for problem in one.problems)
