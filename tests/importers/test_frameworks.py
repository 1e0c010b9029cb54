"""LangGraph, Pydantic AI and aider: every count holds, and nothing is made of what the file does not say."""

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store
from chatfold.eventlog import (
    Compacted,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Reasoning,
    Rewound,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers import import_paths
from chatfold.importers.langgraph import decode_msgpack
from chatfold.importers.pydantic_ai import HistorySession
from chatfold.projections.text import text_of
from tests.importers.fixtures import OWN, counted, file_id

THREADS = OWN / "langgraph" / "threads.sqlite"


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store.memory() as store:
        yield store


async def events_of(store: Store, key: str) -> list[Any]:
    found: Any = [entry.event async for entry in store.log.read(key)]
    return list(found)


def written(thread: str, *, removals: bool = False) -> list[Any]:
    """The messages that tasks wrote, or what they removed, which is another way to know them."""
    with sqlite3.connect(f"file:{THREADS}?immutable=1", uri=True) as database:
        rows = "SELECT value FROM writes WHERE thread_id = ? AND channel = 'messages' ORDER BY checkpoint_id"
        values = [decode_msgpack(value) for (value,) in database.execute(rows, (thread,))]
    database.close()
    return [one for value in values for one in value if (one["type"] == "remove") is removals]


@pytest.mark.parametrize("thread", ["lexer-1", "approve-2"])
async def test_every_message_that_was_written_is_in_the_thread(store: Store, thread: str) -> None:
    _ = [report async for report in import_paths(store, [THREADS])]
    events = await events_of(store, f"langgraph-{thread}")
    told = {message["id"]: message for message in written(thread)}
    kinds = Counter(message["type"] for message in told.values())
    said = Counter(event.role for event in events if isinstance(event, MessageAdded))
    assert sum(isinstance(event, ModelCalled) for event in events) == kinds["ai"]
    assert sum(isinstance(event, ToolReturned) for event in events) == kinds["tool"]
    assert said["user"] == kinds["human"]
    calls = sum(len(message.get("tool_calls", ())) for message in told.values())
    assert sum(isinstance(event, ToolCalled) for event in events) == calls


async def test_branches_compactions_interrupts_and_errors_of_a_thread(store: Store) -> None:
    [(_, expected)] = counted("langgraph")
    _ = [report async for report in import_paths(store, [THREADS])]
    lexer = await events_of(store, "langgraph-lexer-1")
    assert (
        sum(isinstance(event, Rewound) for event in lexer) == expected["threads"]["lexer-1"]["branch_points"]
    )
    approve = await events_of(store, "langgraph-approve-2")
    assert not [event for event in approve if isinstance(event, Rewound)]
    [compacted] = [event for event in approve if isinstance(event, Compacted)]
    assert compacted.summary == "The lexer uses split(). 改行"
    assert compacted.count == len(written("approve-2", removals=True))
    assert [event.error for event in approve if isinstance(event, ModelReturned) and event.error] == [
        "RuntimeError('scripted failure')"
    ]
    notes = [event.name for event in approve if isinstance(event, Noted)]
    assert notes == ["langgraph.interrupt", "langgraph.resume"]
    sent = str(await (await store.chat("langgraph-approve-2")).messages("openai"))
    assert "Please delete" not in sent
    assert "用中文" in sent
    assert {report.state async for report in import_paths(store, [THREADS])} == {"unchanged"}


def test_no_class_of_a_checkpoint_is_imported(tmp_path: Path) -> None:
    assert decode_msgpack(b"\xc7\x0c\x05\x94\xa6antigr\xa1x\x80\xc0") == {"lc_class": "antigr.x"}
    program = """
import asyncio, sys
from pathlib import Path
from chatfold import Store
from chatfold.importers import import_paths

async def main():
    async with Store(sys.argv[2]) as store:
        assert [report async for report in import_paths(store, [Path(sys.argv[1])])]

asyncio.run(main())
print({"langchain_core", "langgraph", "ormsgpack"} & sys.modules.keys())
"""
    command = [sys.executable, "-c", program, str(THREADS), str(tmp_path / "store")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(("path", "expected"), list(counted("pydantic-ai")), ids=file_id)
def test_the_counts_of_a_history_hold(path: Path, expected: dict[str, Any]) -> None:
    session = HistorySession(path)
    events = [item.event for item in session.read()]
    assert session.problems == []
    said = [event for event in events if isinstance(event, MessageAdded)]
    parts = Counter(type(part) for event in said if event.role == "assistant" for part in event.parts)
    told = [event for event in said if event.role == "system" and not event.meta]
    found = {
        "system-prompt": len(told),
        "user-prompt": sum(event.role == "user" for event in said),
        "text": parts[Text],
        "thinking": parts[Reasoning],
        "tool-call": sum(isinstance(event, ToolCalled) for event in events),
        "tool-return": sum(isinstance(event, ToolReturned) for event in events),
    }
    assert found == expected["parts"]
    assert sum(isinstance(event, ModelReturned) for event in events) == expected["messages"]["response"]


async def test_what_was_tried_again_is_a_failed_result(store: Store) -> None:
    path = OWN / "pydantic-ai" / "2.66.0" / "chat-completions.json"
    [report] = [report async for report in import_paths(store, [path])]
    events = await events_of(store, report.key)
    failed = [event.meta for event in events if isinstance(event, ToolReturned) and event.failed]
    assert failed == [{"pydantic-ai": {"outcome": "retried"}}] * 2


async def test_a_history_of_aider(store: Store) -> None:
    reports = [report async for report in import_paths(store, [OWN / "aider" / "0.86.2"])]
    assert [report.key for report in reports] == [
        "aider-2026-11-18-14-50-46",
        "aider-2026-11-18-14-51-18",
        "aider-2026-11-18-14-51-46",
    ]
    events = await events_of(store, reports[1].key)
    said = [(event.role, text_of(event.parts)) for event in events if isinstance(event, MessageAdded)]
    assert said[0] == ("user", "日本語で要約してください。絵文字も 🎉 使って。")
    assert said[1][0] == "assistant"
    assert said[1][1].endswith("𠮷野家。")
    [thought] = [
        p for e in events if isinstance(e, MessageAdded) for p in e.parts if isinstance(p, Reasoning)
    ]
    assert thought.text == "日本語で短く答える。"
    assert [e.model for e in events if isinstance(e, ModelCalled)] == ["openai/scripted-1"]
    usage = [e.usage for e in events if isinstance(e, ModelReturned)]
    assert usage == [{"input_tokens": 99, "output_tokens": 153}]
    assert {report.state async for report in import_paths(store, [OWN / "aider"])} == {"unchanged"}
