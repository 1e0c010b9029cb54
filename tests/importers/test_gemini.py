"""Sessions of the Gemini CLI: every count holds after the operations, resumes say nothing twice, what vanishes stays."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store
from chatfold.eventlog import ChatStarted, MessageAdded, ModelCalled, Rewound, ToolCalled, ToolReturned
from chatfold.importers import import_paths, watch
from chatfold.importers.gemini import ListSession, LogSession
from chatfold.importers.items import Item
from tests.importers.fixtures import OWN, counted, file_id

CHATS = OWN / "gemini" / "0.61.0" / "chats"
PAIR = "9ddeb4b9-c18c-4e54-a0fb-e23c1f2e1cbb"


def in_force(items: list[Item]) -> list[Any]:
    events: list[Any] = []
    for item in items:
        events.append(item.event)
        if isinstance(item.event, Rewound):
            events[item.event.to :] = [None] * (len(events) - item.event.to)
    return [event for event in events if event is not None]


@pytest.mark.parametrize(("path", "expected"), list(counted("gemini")), ids=file_id)
def test_the_counts_of_a_session_hold(path: Path, expected: dict[str, Any]) -> None:
    session = ListSession(path) if path.suffix == ".json" else LogSession("one", (path,))
    events = in_force([*session.read()])
    assert session.problems == []
    prompts = [e for e in events if isinstance(e, MessageAdded) and (e.role, e.origin) == ("user", "exec")]
    assert len(prompts) == expected["prompts"]
    assert sum(isinstance(e, ModelCalled) for e in events) == expected["messages_folded"].get("gemini", 0)
    called = {
        call["id"]: call["status"] for call in calls_of(path)
    }  # a resume turns calls into words of its own
    assert len(called) >= expected["tool_calls"]
    assert {e.call for e in events if isinstance(e, ToolCalled)} >= called.keys()
    failed = {e.call for e in events if isinstance(e, ToolReturned) and e.failed}
    assert failed == {name for name, status in called.items() if status != "success"}
    assert len(failed) >= expected["failed_calls"]


def calls_of(path: Path) -> list[dict[str, Any]]:
    """All calls with a status that any message of the file has."""
    text = path.read_text()
    records = (
        [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
    )
    messages = [one for record in records for one in (record, *record.get("messages", ()))]
    return [call for one in messages for call in one.get("toolCalls", ()) if call.get("status")]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store.memory() as store:
        yield store


async def test_the_files_of_a_session_are_one_chat_and_resumes_take_nothing_back(store: Store) -> None:
    reports = {report.key: report async for report in import_paths(store, [CHATS])}
    assert len(reports) == 3
    assert len(reports[f"gemini-{PAIR}"].paths) == 2
    events: Any = [entry.event async for entry in store.log.read(f"gemini-{PAIR}")]
    assert not [event for event in events if isinstance(event, Rewound)]
    assert sum(isinstance(event, ChatStarted) for event in events) == 1
    sent = str(await (await store.chat(f"gemini-{PAIR}")).messages("openai"))
    assert "go on, briefly" in sent
    again = [report async for report in import_paths(store, [CHATS])]
    assert {report.state for report in again} == {"unchanged"}


async def test_operations_that_cut_and_replace_go_back(store: Store, tmp_path: Path) -> None:
    def message(name: str, text: str, kind: str = "user") -> dict[str, Any]:
        return {"id": name, "timestamp": "2026-11-18T15:00:00Z", "type": kind, "content": text}

    header = {"sessionId": "s", "projectHash": "p", "startTime": "2026-11-18T15:00:00Z", "kind": "main"}
    lines = [
        *(header, message("1", "one"), message("2", "two", "gemini"), message("3", "three")),
        *({"$rewindTo": "3"}, message("4", "four"), message("4", "four, once more")),
        {"$set": {"messages": [message("1", "one"), message("5", "five", "gemini")], "summary": "A title"}},
    ]
    path = tmp_path / "session-2026-11-18T15-00-s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [report] = [report async for report in import_paths(store, [path])]
    events: Any = [entry.event async for entry in store.log.read(report.key)]
    reasons = [event.reason for event in events if isinstance(event, Rewound)]
    assert reasons == ["the user went back", "a message was replaced", "the list was set anew"]
    sent = await (await store.chat(report.key)).messages("openai")
    assert [message["content"] for message in sent] == ["one", "five"]


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
async def test_what_the_tool_deletes_stays(suffix: str, tmp_path: Path) -> None:
    folder, stop = tmp_path / "chats", asyncio.Event()
    folder.mkdir()
    source = CHATS if suffix == "jsonl" else OWN / "gemini" / "0.20.2" / "chats"
    told: asyncio.Queue[str] = asyncio.Queue()

    async def follow(store: Store) -> None:
        async for report in watch(store, [folder], stop=stop):
            told.put_nowait(report.key)

    async with Store(tmp_path / "store", durability="off") as store, asyncio.timeout(60):
        task = asyncio.create_task(follow(store))
        await asyncio.sleep(0.3)
        for path in sorted(source.iterdir()):
            shutil.copy(path, folder)
        keys = {await told.get() for _ in range(3)}
        before = {key: await store.log.head(key) for key in keys}
        assert len(keys) == 3
        for path in folder.iterdir():
            path.unlink()
        await asyncio.sleep(0.3)
        assert {key: await store.log.head(key) for key in keys} == before
        stop.set()
        await task
