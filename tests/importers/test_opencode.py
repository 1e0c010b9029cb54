"""Sessions of opencode: every count holds, in the database and in the files before it; credentials are not read."""

import shutil
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
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
    Noted,
    Reasoning,
    Rewound,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers import import_paths
from chatfold.importers.database import opened
from chatfold.importers.finding import files_of, format_of
from chatfold.importers.opencode import FORMATS
from chatfold.projections import outline
from tests.importers.fixtures import OWN, counted, file_id

DATABASE = OWN / "opencode" / "1.18.33" / "opencode.db"
COMPACTED = "opencode-ses_e10ea283fffeC8qafXVno8b6u8"


def events_by_key(path: Path) -> dict[str, list[Any]]:
    files = [found.path for found in files_of([path])]
    found: dict[str, list[Any]] = {}
    for form in FORMATS:
        own = [one for one in files if format_of(one, []) is form]
        for session in form.sessions(own):
            found[session.key] = [item.event for item in session.read()]
            assert session.problems == []
    return found


@pytest.mark.parametrize(("path", "expected"), list(counted("opencode")), ids=file_id)
def test_the_counts_of_a_session_hold(path: Path, expected: dict[str, Any]) -> None:
    found = events_by_key(path)
    assert found.keys() == {f"opencode-{name}" for name in expected["sessions"]}
    for name, counts in expected["sessions"].items():
        events = found[f"opencode-{name}"]
        said = [event for event in events if isinstance(event, MessageAdded)]
        parts = Counter(type(part) for event in said for part in event.parts)
        asked = sum(isinstance(event, ModelCalled) for event in events)
        ended = [event for event in events if isinstance(event, ModelReturned)]
        results = [event for event in events if isinstance(event, ToolReturned)]
        compactions = sum(isinstance(event, Compacted) for event in events)
        assert asked == counts["messages"]["assistant"]
        assert asked - len(ended) == counts["unfinished_messages"]
        assert sum(bool(event.error) for event in ended) == counts["errors"]
        assert (
            sum(event.role == "user" for event in said) == counts["messages"]["user"] - counts["compactions"]
        )
        assert sum(isinstance(event, ToolCalled) for event in events) == counts["tool_calls"]
        states = Counter("error" if event.failed else "completed" for event in results)
        assert states == counts["tool_states"]
        summaries = min(1, counts["summary_messages"])
        assert compactions == summaries
        assert parts[Text] + compactions == counts["parts"]["text"]
        if not summaries:
            assert parts[Reasoning] == counts["parts"].get("reasoning", 0)
        patches = [event for event in events if isinstance(event, Noted)]
        assert len(patches) == counts["parts"].get("patch", 0)
        started = next(event for event in events if isinstance(event, ChatStarted))
        assert started.meta.get("parent", "") == ((counts["parent"] and f"opencode-{counts['parent']}") or "")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store.memory() as store:
        yield store


async def test_a_compaction_keeps_its_tail(store: Store) -> None:
    reports = [report async for report in import_paths(store, [DATABASE])]
    assert len(reports) == 5
    chat = await store.chat(COMPACTED)
    assert chat[outline].title == "Lexer newlines"
    sent = str(await chat.messages("openai"))
    assert "Fix the lexer and test it" not in sent
    assert "newlines survive" in sent
    assert "The last number is 2500." in sent
    assert {report.state async for report in import_paths(store, [DATABASE])} == {"unchanged"}


async def test_what_the_user_took_back_is_gone_back_behind(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    shutil.copy(DATABASE, path)
    with sqlite3.connect(path) as database:
        revert = '{"messageID": "msg_1ef16788d001ZS6U3WNPdODmwT"}'
        database.execute("UPDATE session SET revert = ? WHERE id LIKE '%8b6u8'", (revert,))
    database.close()
    _ = [report async for report in import_paths(store, [path])]
    events: Any = [entry.event async for entry in store.log.read(COMPACTED)]
    assert isinstance(next(event for event in events if isinstance(event, Rewound)), Rewound)
    sent = str(await (await store.chat(COMPACTED)).messages("openai"))
    assert "the test passes" in sent
    assert "Print many numbers" not in sent


async def test_a_call_and_its_result_come_as_they_are_written(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    shutil.copy(DATABASE, path)
    result = "UPDATE part SET data = json_set(data, '$.state.status', ?) WHERE json_extract(data, '$.callID') = 'call_0348'"
    with sqlite3.connect(path) as database:
        database.execute(
            "DELETE FROM message WHERE session_id LIKE '%8b6u8' AND id > 'msg_1ef16926a001uiqZzKpB0k00vi'"
        )
        database.execute(
            "DELETE FROM part WHERE session_id LIKE '%8b6u8' AND message_id > 'msg_1ef16926a001uiqZzKpB0k00vi'"
        )
        database.execute(
            "UPDATE message SET data = json_remove(data, '$.time.completed') WHERE id = 'msg_1ef16926a001uiqZzKpB0k00vi'"
        )
        database.execute(result, ("running",))
    _ = [report async for report in import_paths(store, [path])]
    with sqlite3.connect(path) as database:
        database.execute(result, ("completed",))
    database.close()
    reports = {report.key: report async for report in import_paths(store, [path])}
    assert reports[COMPACTED].new == 1
    events: Any = [entry.event async for entry in store.log.read(COMPACTED)]
    assert isinstance(events[-1], ToolReturned)


async def test_a_session_that_moved_to_the_database_comes_in_once(store: Store, tmp_path: Path) -> None:
    shutil.copytree(OWN / "opencode" / "1.1.65" / "storage", tmp_path / "storage")
    shutil.copy(DATABASE, tmp_path)
    with sqlite3.connect(tmp_path / "opencode.db") as database:
        database.execute(
            "UPDATE session SET id = 'ses_e10e2facbffeUYn0cZgZyX36MC' WHERE parent_id IS NOT NULL"
        )
    database.close()
    keys = [report.key async for report in import_paths(store, [tmp_path])]
    assert len(keys) == len(set(keys)) == 7


def test_credentials_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    shutil.copy(DATABASE, path)
    with opened(path) as database:
        for table in ("credential", "account", "control_account", "session_share"):
            with pytest.raises(sqlite3.DatabaseError, match="prohibited"):
                database.execute(f"SELECT * FROM {table}")
        assert database.execute("SELECT count(*) AS n FROM part").fetchone() == {"n": 143}
