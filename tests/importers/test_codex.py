"""Codex rollouts: every count holds; forks share, a thread that went back is one chat, nothing comes in twice."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store
from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    File,
    Forked,
    MessageAdded,
    ModelReturned,
    Reasoning,
    Rewound,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers import Item, import_paths
from chatfold.importers.codex import CodexSession
from chatfold.importers.codex_rollouts import Piece, rollout_of
from chatfold.projections import contexts, lineage, outline
from chatfold.projections.text import text_of
from tests.importers.fixtures import OWN, counted, file_id

CODEX = OWN / "codex"
LONG = "codex-01a1ef0f-d8b1-7f53-9aa0-71de2760ae89"


def read(path: Path) -> list[Item]:
    """The items of this file alone."""
    rollout = rollout_of(path)
    session = CodexSession(rollout.thread, [Piece(rollout, None)], "")
    return list(session.read())


def of(items: list[Item], *kinds: type) -> list[Any]:
    return [item.event for item in items if isinstance(item.event, kinds)]


@pytest.mark.parametrize(("path", "expected"), list(counted("codex")), ids=file_id)
def test_the_counts_of_a_rollout_hold(path: Path, expected: dict[str, Any]) -> None:
    items = read(path)
    # Thoughts go with what they lead to; alone, as what the provider's own tools did, they are no message of the file.
    said = [event for event in of(items, MessageAdded) if event.role != "system"]
    thoughts = [part for event in said for part in event.parts if isinstance(part, Reasoning)]
    roles = Counter(e.role for e in said if not e.parts or any(isinstance(p, Text | File) for p in e.parts))
    calls, results = of(items, ToolCalled), of(items, ToolReturned)
    assert roles == expected["messages"]
    assert (len(calls), len(results)) == (expected["tool_calls"], expected["tool_results"])
    assert len({call.call for call in calls} - {one.call for one in results}) == expected["open_calls"]
    assert len(thoughts) == expected.get("reasoning", 0)
    assert len(of(items, Compacted)) == expected["compactions"]
    if "prompts" in expected and "public" not in path.parts:  # which say what was typed in words of their own
        assert sum(event.role == "user" and event.origin == "exec" for event in said) == expected["prompts"]
    assert len(of(items, Rewound)) == expected.get("rollbacks", 0)
    finished = Counter(event.outcome for event in of(items, RunFinished))
    if "turns_started" in expected:
        assert len(of(items, RunStarted)) == expected["turns_started"]
        assert finished["done"] == expected.get("turns_completed", 0)
    if expected.get("total_tokens"):
        totals = [
            event.meta["codex"]["total"]["total_tokens"] for event in of(items, ModelReturned) if event.meta
        ]
        assert totals[-1] == expected["total_tokens"]


@pytest.fixture
async def store() -> Any:
    async with Store.memory() as store:
        yield store


async def entries(store: Store, key: str) -> list[Any]:
    found: Any = [entry async for entry in store.log.read(key)]
    return list(found)


async def test_a_fork_shares_its_beginning_with_what_it_was_forked_from(store: Store) -> None:
    reports = {report.key: report async for report in import_paths(store, [CODEX / "0.169.0"])}
    long = await entries(store, LONG)
    forks = [report for report in reports.values() if report.forked_from == LONG]
    assert len(forks) == 2
    for report in forks:
        fork = await entries(store, report.key)
        shared = next(entry for entry in fork if isinstance(entry.event, Forked)).event.at
        assert [entry.sum for entry in fork[:shared]] == [entry.sum for entry in long[:shared]]
        assert shared == len(long)
        whence = (await store.chat(report.key))[lineage].parent
        assert whence is not None
        assert whence.parent == LONG


async def test_a_copied_fork_shares_its_beginning_too(store: Store) -> None:
    reports = [report async for report in import_paths(store, [CODEX / "0.125.0-app-server"])]
    assert [report.forked_from for report in reports] == ["", "codex-01a1ef1c-23bf-78f3-b2b1-0c207e6a6aac"]
    parent, fork = [await entries(store, report.key) for report in reports]
    shared = next(entry for entry in fork if isinstance(entry.event, Forked)).event.at
    assert shared == len(parent) - 1  # the name of the thread, which is kept beside it
    [own] = [entry for entry in fork[shared:] if isinstance(entry.event, ChatStarted)]
    assert own.event.key == reports[1].key


async def test_a_thread_that_went_back_is_one_chat(store: Store) -> None:
    reports = [report async for report in import_paths(store, [CODEX / "0.169.0-app-server"])]
    thread, fork = reports
    assert len(thread.paths) == 2
    assert fork.forked_from == thread.key
    chat = await store.chat(thread.key)
    [back] = [entry for entry in await entries(store, thread.key) if isinstance(entry.event, Rewound)]
    seen = [entry.seq for entry in await chat.context_entries()]
    assert back.event.to in range(10, back.seq)
    assert not [seq for seq in seen if back.event.to < seq < back.seq]
    assert chat[outline].title == "レクサー 🎉"
    assert len([*chat[contexts].active.compactions]) == 1


async def test_one_file_brings_what_it_goes_on_from(store: Store) -> None:
    path = next((CODEX / "0.169.0").rglob("*14-29-31*"))
    [report] = [report async for report in import_paths(store, [path])]
    texts = [
        text_of(entry.event.parts)
        for entry in await entries(store, report.key)
        if isinstance(entry.event, MessageAdded)
        and entry.event.origin == "exec"
        and entry.event.role == "user"
    ]
    assert len(texts) == 7
    assert texts[-1] == "What if we used a regex instead?"


async def test_again_brings_nothing(store: Store, tmp_path: Path) -> None:
    first = [report async for report in import_paths(store, [CODEX])]
    before = {report.key: (await store.log.head(report.key)) for report in first}
    again = [report async for report in import_paths(store, [CODEX])]
    assert [report.state for report in again] == ["unchanged"] * len(first)
    assert {key: await store.log.head(key) for key in before} == before


async def test_times_are_those_of_the_session(store: Store) -> None:
    path = next((CODEX / "0.169.0").rglob("*14-29-15*"))
    async for _ in import_paths(store, [path]):
        pass
    said = [entry.said_at for entry in await entries(store, LONG) if isinstance(entry.event, MessageAdded)]
    assert said[0] == 1795012156478
    assert said == sorted(said)
