"""Logs of llm: every count holds in both schemas; branches are gone back to, and forks share what came before."""

import shutil
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store
from chatfold.eventlog import (
    Forked,
    MessageAdded,
    ModelCalled,
    Reasoning,
    Rewound,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers import import_paths
from chatfold.importers.head import Head
from chatfold.importers.llm import FORMATS
from chatfold.projections import outline
from chatfold.projections.text import text_of
from tests.importers.fixtures import OWN, counted, file_id

NEW, OLD = OWN / "llm" / "0.36" / "logs.db", OWN / "llm" / "0.27.1" / "logs.db"


@pytest.mark.parametrize(("path", "expected"), list(counted("llm")), ids=file_id)
def test_the_counts_of_a_log_hold(path: Path, expected: dict[str, Any]) -> None:
    [form] = FORMATS
    assert form.recognises(Head(path))
    sessions = [*form.sessions([path])]
    assert len(sessions) == expected.get("threads", expected["conversations"])
    events: list[Any] = [item.event for session in sessions for item in session.read()]
    calls = sum(isinstance(event, ToolCalled) for event in events)
    results = [event for event in events if isinstance(event, ToolReturned)]
    said = [event for event in events if isinstance(event, MessageAdded)]
    assert sum(isinstance(event, ModelCalled) for event in events) == expected.get(
        "turns", expected["responses"]
    )
    assert (calls, len(results)) == (
        expected["tool_calls"] or expected["parts_by_type"]["tool_call"],
        expected["tool_results"] or expected["parts_by_type"]["tool_result"],
    )
    if "turns" in expected:
        roles = Counter(event.role for event in said)
        assert (roles["user"], roles["system"]) == (7, 1)
        parts = Counter(type(part) for event in said for part in event.parts)
        assert parts == {
            Text: expected["parts_by_type"]["text"],
            Reasoning: expected["parts_by_type"]["reasoning"],
        }
    assert "fragment text 断片\n\nThank you" in [text_of(event.parts) for event in said]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store.memory() as store:
        yield store


@pytest.mark.parametrize("path", [NEW, OLD], ids=["new", "old"])
async def test_both_schemas_say_the_same(store: Store, path: Path) -> None:
    reports = [report async for report in import_paths(store, [path])]
    assert len(reports) == 3
    chat = await store.chat(reports[0].key)
    assert chat[outline].title == "Why does the lexer drop newline…"
    sent = await chat.messages("openai")
    assert [message["role"] for message in sent[:5]] == ["system", "user", "assistant", "tool", "assistant"]
    times = [entry.time async for entry in store.log.read(chat.key) if isinstance(entry.event, MessageAdded)]
    assert times == sorted(times)
    again = [report async for report in import_paths(store, [path])]
    assert {report.state for report in again} == {"unchanged"}


async def test_a_turn_on_an_earlier_message_goes_back_and_a_forked_thread_shares(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "logs.db"
    shutil.copy(NEW, path)
    thread, first = "01m7qh6bp5nf3pw8041ys5dzvb", "b2:0022aeb07080236fbc83eebd753f6526"
    with sqlite3.connect(path) as database:
        for name, parent, role in (
            ("q", first, "user"),
            ("a", "q", "assistant"),
            ("q2", first, "user"),
            ("a2", "q2", "assistant"),
        ):
            database.execute("INSERT INTO messages VALUES (?, ?, ?, NULL)", (name, parent, role))
            part = "INSERT INTO parts (message_hash, position, type, text) VALUES (?, 0, 'text', ?)"
            database.execute(part, (name, f"words of {name}"))
        insert = "INSERT INTO turns (id, thread_id, parent_message_hash, tip_message_hash, datetime_utc) VALUES (?, ?, ?, ?, ?)"
        database.execute(insert, ("0z1", thread, "q", "a", "2026-11-18T15:00:00+00:00"))
        database.execute("INSERT INTO threads VALUES ('forked', 'other', 'a2', ?, '2026-11-18')", (thread,))
        database.execute(insert, ("0z2", "forked", "q2", "a2", "2026-11-18T15:01:00+00:00"))
    database.close()
    reports = {report.key: report async for report in import_paths(store, [path])}
    own: Any = [entry.event async for entry in store.log.read(f"llm-{thread}")]
    assert [event.reason for event in own if isinstance(event, Rewound)] == ["another branch"]
    sent = str(await (await store.chat(f"llm-{thread}")).messages("openai"))
    assert "words of q" in sent
    assert "Thank you" not in sent
    assert reports["llm-forked"].forked_from == f"llm-{thread}"
    fork: Any = [entry.event async for entry in store.log.read("llm-forked")]
    assert [event.at for event in fork if isinstance(event, Forked)] == [5]
    sent = str(await (await store.chat("llm-forked")).messages("openai"))
    assert "用中文说明一下" in sent
    assert "words of a2" in sent
