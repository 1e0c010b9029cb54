"""Sessions of pi: every count holds; branches are gone back to; forks share what they copied."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store
from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    Forked,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Rewound,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers import import_paths
from chatfold.importers.pi import PiSession
from chatfold.projections import outline
from tests.importers.fixtures import OWN, counted, file_id

PI = OWN / "pi"


@pytest.mark.parametrize(("path", "expected"), list(counted("pi")), ids=file_id)
def test_the_counts_of_a_session_hold(path: Path, expected: dict[str, Any]) -> None:
    session = PiSession(path)
    events: list[Any] = [item.event for item in session.read()]
    said = [event for event in events if isinstance(event, MessageAdded)]
    calls = [event for event in events if isinstance(event, ToolCalled)]
    results = [event for event in events if isinstance(event, ToolReturned)]
    returned = [event for event in events if isinstance(event, ModelReturned)]
    roles = Counter(
        "bashExecution" if "ran" in event.meta.get("pi", {}) else event.role
        for event in said
        if event.role != "assistant"
        and not {"branch_summary", "customType"} & event.meta.get("pi", {}).keys()
    )
    roles["assistant"] = sum(isinstance(event, ModelCalled) for event in events)
    roles["toolResult"] = len(results)
    assert +roles == expected["messages"]
    assert Counter(event.stop for event in returned) == expected["stop_reasons"]
    assert (len(calls), len(results)) == (expected["tool_calls"], expected["tool_results"])
    assert sum(event.failed for event in results) == expected["failed_results"]
    assert len({call.call for call in calls} - {one.call for one in results}) == expected["open_calls"]
    assert sum(isinstance(event, Compacted) for event in events) == expected["compactions"]
    cost = sum(event.meta["pi"]["cost"]["total"] for event in returned if event.meta)
    assert cost == pytest.approx(expected["cost"])
    back = [event for event in events if isinstance(event, Rewound) and event.reason == "another branch"]
    assert len(back) == expected.get("leaves", 1) - 1
    bad = expected.get("bad_lines", [])
    assert [problem.line for problem in session.problems] == [one["line"] for one in bad]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store.memory() as store:
        yield store


async def entries(store: Store, key: str) -> list[Any]:
    found: Any = [entry async for entry in store.log.read(key)]
    return list(found)


@pytest.mark.parametrize("version", ["0.73.1/sessions", "0.87.1/sessions"])
async def test_a_fork_shares_what_it_copied(store: Store, version: str) -> None:
    forks = [report async for report in import_paths(store, [PI / version]) if report.forked_from]
    assert len(forks) == 2
    for report in forks:
        own, parent = await entries(store, report.key), await entries(store, report.forked_from)
        shared = next(entry for entry in own if isinstance(entry.event, Forked)).event.at
        assert shared > 8
        assert [entry.sum for entry in own[:shared]] == [entry.sum for entry in parent[:shared]]
        started = [
            entry.event.key for entry in own if isinstance(entry.event, ChatStarted) and entry.event.key
        ]
        assert started == [report.forked_from, report.key]


async def test_branches_of_one_file_are_gone_back_to(store: Store) -> None:
    [report] = [report async for report in import_paths(store, [PI / "0.73.1" / "tree.jsonl"])]
    chat = await store.chat(report.key)
    assert chat[outline].title == "Lexer tree 🌳"
    sent = str(await chat.messages("anthropic"))
    assert "状态机" in sent
    assert "re.split keeps separators" in sent
    assert "With re.split" not in sent
    assert "go on, briefly" not in sent
    assert "keep vendor/ as it is" in sent
    labels = [entry.event for entry in await entries(store, report.key) if isinstance(entry.event, Noted)]
    assert [(note.name, note.ref > 0) for note in labels] == [("pi.label", True), ("pi.custom", False)]


async def test_an_answer_that_was_taken_out_is_not_sent_again(store: Store) -> None:
    path = next((PI / "0.87.1").rglob("*14-48-47*"))
    [report] = [report async for report in import_paths(store, [path])]
    back = [entry.event for entry in await entries(store, report.key) if isinstance(entry.event, Rewound)]
    assert [event.reason for event in back] == ["taken out of the context"]


async def test_again_brings_nothing(store: Store) -> None:
    first = [report async for report in import_paths(store, [PI])]
    again = [report async for report in import_paths(store, [PI])]
    assert {report.state for report in again} == {"unchanged"}
    assert len(again) == len(first)
