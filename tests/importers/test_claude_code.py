"""Claude Code sessions: every count holds; branches, compactions, subagents and failures are what they were."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store
from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Reasoning,
    Rewound,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers import import_paths
from chatfold.importers.claude_code import ClaudeSession
from chatfold.projections import outline
from chatfold.projections.text import text_of
from tests.importers.fixtures import OWN, counted, file_id

FOLDER = OWN / "claude-code" / "synthetic" / "-home-dev-project"
WITHOUT_WORDS = {"claude-code-log-edge_cases.jsonl": 2}  # prompts whose message is none
PLACEHOLDERS = "agent-sessions-small"  # its lines share their uuids


def read(path: Path) -> tuple[ClaudeSession, list[Any]]:
    session = ClaudeSession(path, is_helper=path.parent.name == "subagents")
    return session, [item.event for item in session.read()]


@pytest.mark.parametrize(
    ("path", "expected"),
    [pair for pair in counted("claude-code") if PLACEHOLDERS not in pair[0].name],
    ids=file_id,
)
def test_the_counts_of_a_session_hold(path: Path, expected: dict[str, Any]) -> None:
    session, events = read(path)
    asked = [event for event in events if isinstance(event, ModelCalled)]
    synthetic = [
        e for e in events if isinstance(e, ModelReturned) and "synthetic" in e.meta.get("claude-code", {})
    ]
    assert len(asked) + len(synthetic) == expected["assistant_messages"]
    calls = [event for event in events if isinstance(event, ToolCalled)]
    results = [event for event in events if isinstance(event, ToolReturned)]
    assert (len(calls), len(results)) == (expected["tool_calls"], expected["tool_results"])
    if not any(
        call.call.startswith("unnamed-") for call in calls
    ):  # a result answers these, though neither has an id
        assert len({call.call for call in calls} - {one.call for one in results}) == expected["open_calls"]
    assert sum(result.failed for result in results) == expected["failed_results"]
    assert len([event for event in events if isinstance(event, Compacted)]) == expected["compactions"]
    parts = [part for event in events if isinstance(event, MessageAdded) for part in event.parts]
    assert sum(isinstance(part, Reasoning) for part in parts) == expected["thinking_blocks"]
    said = [event for event in events if isinstance(event, MessageAdded) and event.role == "user"]
    meta = expected["user_meta_or_summary"] - expected["compact_summaries"]
    assert len(said) == expected["user_prompts"] + meta - WITHOUT_WORDS.get(path.name, 0)
    bad = {problem.line: problem.what for problem in session.problems}
    for one in expected.get("bad_lines", []):
        assert one["line"] in bad
        assert not one["torn"] or "not whole" in bad[one["line"]]


@pytest.fixture
async def store() -> Any:
    async with Store.memory() as store:
        async for _ in import_paths(store, [FOLDER]):
            pass
        yield store


def key(number: int) -> str:
    return f"claude-code-7d1c0f6e-3a1b-4c7e-9f10-2b6d5e8a000{number}"


async def texts(store: Store, chat: str) -> str:
    """What the model would be sent."""
    return json.dumps(await (await store.chat(chat)).messages("anthropic"), ensure_ascii=False)


async def test_a_prompt_on_an_earlier_line_is_going_back(store: Store) -> None:
    entries: Any = [entry async for entry in store.log.read(key(2))]
    [back] = [entry for entry in entries if isinstance(entry.event, Rewound)]
    before = [entry.event for entry in entries[: back.event.to] if isinstance(entry.event, MessageAdded)]
    assert text_of(before[-1].parts) == "First draft of a plan."
    sent = await texts(store, key(2))
    assert "用状态机吧。" in sent
    assert "First draft of a plan." in sent
    assert "Use a regex." not in sent


async def test_parallel_calls_are_no_branches(store: Store) -> None:
    entries: Any = [entry async for entry in store.log.read(key(1))]
    assert not [entry for entry in entries if isinstance(entry.event, Rewound)]
    calls = [entry.event.call for entry in entries if isinstance(entry.event, ToolCalled)]
    assert calls == ["toolu_01", "toolu_02", "toolu_10", "toolu_20"]


async def test_a_compaction_stands_for_what_was_before_it(store: Store) -> None:
    sent = await texts(store, key(1))
    assert "要約" in sent
    assert "改行がなくなる" not in sent
    assert "Fix it, please." in sent
    assert "Compacted</local-command-stdout>" in sent


async def test_a_subagent_is_a_chat_that_names_its_parent(store: Store) -> None:
    helper = await store.chat("claude-code-agent-a1b2c3d4e5f60718")
    assert helper[outline].title == "count files"
    assert helper[outline].words["parent"] == key(1)
    results: Any = [
        entry.event async for entry in store.log.read(key(1)) if isinstance(entry.event, ToolReturned)
    ]
    assert results[2].meta["chat"] == helper.key
    assert (await store.chat(key(1)))[outline].title == "Lexer newlines"


async def test_a_refused_request_is_a_failure_and_no_answer(store: Store) -> None:
    entries: Any = [entry async for entry in store.log.read(key(2))]
    errors = [
        entry.event.error for entry in entries if isinstance(entry.event, ModelReturned) and entry.event.error
    ]
    assert errors == ["overloaded", "API Error: 529 overloaded"]
    assert "529" not in await texts(store, key(2))


async def test_a_session_that_grows_is_followed(tmp_path: Path) -> None:
    whole = (FOLDER / "7d1c0f6e-3a1b-4c7e-9f10-2b6d5e8a0001.jsonl").read_bytes()
    path = tmp_path / "7d1c0f6e-3a1b-4c7e-9f10-2b6d5e8a0001.jsonl"
    async with Store.memory() as grown, Store.memory() as once:
        for end in range(0, len(whole), 3000):
            path.write_bytes(whole[:end] + b"")
            if end:
                async for _ in import_paths(grown, [path]):
                    pass
        path.write_bytes(whole)
        async for _ in import_paths(grown, [path]):
            pass
        async for _ in import_paths(once, [path]):
            pass
        one: Any = [(entry.key, entry.event) async for entry in grown.log.read(key(1))]
        other: Any = [(entry.key, entry.event) async for entry in once.log.read(key(1))]
        assert one == other


async def test_a_session_copied_from_another_shares_its_beginning(tmp_path: Path) -> None:
    source = FOLDER / "7d1c0f6e-3a1b-4c7e-9f10-2b6d5e8a0003.jsonl"
    shutil.copy(source, tmp_path)
    copied = []
    for line in source.read_text().splitlines():
        record = json.loads(line)
        if "uuid" in record:
            record["forkedFrom"] = {"sessionId": record["sessionId"], "messageUuid": record["uuid"]}
            record |= {"uuid": "c" + record["uuid"][1:], "sessionId": "copy"}
        copied.append(record)
    own = {
        **copied[-1],
        "type": "user",
        "uuid": "own",
        "parentUuid": copied[-1].get("uuid"),
        "timestamp": "2026-05-05T00:00:00Z",
    }
    del own["forkedFrom"]
    own["message"] = {"role": "user", "content": "Another way."}
    (tmp_path / "copy.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (*copied, own)))
    async with Store.memory() as store:
        reports = {report.key: report async for report in import_paths(store, [tmp_path])}
        assert reports["claude-code-copy"].forked_from == key(3)
        started: Any = [
            e.event async for e in store.log.read("claude-code-copy") if isinstance(e.event, ChatStarted)
        ]
        assert [event.key for event in started] == [key(3), "claude-code-copy"]
