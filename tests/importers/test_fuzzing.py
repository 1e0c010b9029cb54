"""Files that are not as they should be: whatever happened to their bytes, what can be read is, and the rest is named."""

import asyncio
import contextlib
import json
import shutil
import sqlite3
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold import Store
from chatfold.eventlog import MessageAdded
from chatfold.importers import UnknownFormat, import_paths
from chatfold.importers import lines as reading
from chatfold.projections.text import text_of
from tests.importers.fixtures import OWN
from tests.support.profile import searched

FILES = {
    "codex 0.169": next((OWN / "codex" / "0.169.0").rglob("*14-29-34*")),
    "codex 0.125": next((OWN / "codex" / "0.125.0-app-server").rglob("*14-42-46*")),
    "codex 0.20": next((OWN / "codex" / "0.20.0").rglob("*.jsonl")),
    "claude-code": next((OWN / "claude-code").rglob("*0001.jsonl")),
    "pi": OWN / "pi" / "0.73.1" / "tree.jsonl",
    "pi, the first": next((OWN / "pi" / "0.30.2").rglob("*42-22*")),
    "openai-agents": OWN / "openai-agents" / "0.24.0" / "advanced.db",
    "llm": OWN / "llm" / "0.36" / "logs.db",
    "llm, the first": OWN / "llm" / "0.27.1" / "logs.db",
    "gemini": next((OWN / "gemini" / "0.61.0").rglob("*14-48*")),
    "gemini, the first": next((OWN / "gemini" / "0.20.2").rglob("*8b53*")),
    "opencode": OWN / "opencode" / "1.18.33" / "opencode.db",
    "langgraph": OWN / "langgraph" / "threads.sqlite",
    "pydantic-ai": OWN / "pydantic-ai" / "2.66.0" / "responses.json",
    "aider": OWN / "aider" / "0.86.2" / ".aider.chat.history.md",
    "conversation": OWN / "seed-001" / "task-001.jsonl",
    "ui": OWN / "ui-messages" / "chat.json",
    "ui lines": OWN / "ui-messages" / "chat.jsonl",
    "openai": OWN / "openai-chat" / "library.json",
    "responses": OWN / "openai-responses" / "codex.json",
    "anthropic": OWN / "anthropic-messages" / "pi.json",
    "ship": next((OWN / "ship-gen3").rglob("history.jsonl")),
}
JSON: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes, cut, flipped, doubled or with foreign ones among them."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["cut", "flip", "hole", "double", "foreign", "shuffle"])):
            case "cut":
                data = data[:at]
            case "flip":
                data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
            case "hole":
                data = data[:at] + bytes(draw(st.integers(1, 5000))) + data[at:]
            case "double":
                rows = data.splitlines(keepends=True)
                row = draw(st.integers(0, max(0, len(rows) - 1)))
                data = b"".join([*rows[:row], *rows[row : row + 1] * 2, *rows[row + 1 :]])
            case "foreign":
                odd = draw(
                    st.sampled_from(
                        [b"\xff\xfe\n", b"{}\n", b"null\n", b'{"type":"user"}\n', b"[" * 3000 + b"\n"]
                    )
                )
                data = data[:at] + odd + data[at:]
            case "shuffle":
                rows = data.splitlines(keepends=True)
                data = b"".join(draw(st.permutations(rows)) if len(rows) < 40 else reversed(rows))
    return data


@st.composite
def changed(draw: st.DrawFn, record: Any) -> Any:
    """The same JSON with another value somewhere in it."""
    if not record or not isinstance(record, dict | list) or draw(st.integers(0, 4)) == 0:
        return draw(JSON)
    copy = dict(record) if isinstance(record, dict) else list(record)
    key = draw(st.sampled_from(sorted(copy) if isinstance(copy, dict) else range(len(copy))))
    copy[key] = draw(changed(copy[key]))
    return copy


async def comes_in(name: str, data: bytes, folder: Path) -> None:
    """It is imported or refused as of no known format; again, it brings nothing."""
    path = folder / FILES[name].name
    path.write_bytes(data)
    async with Store.memory() as store:
        try:
            first = [report async for report in import_paths(store, [path])]
        except UnknownFormat:
            return
        again = [report async for report in import_paths(store, [path])]
        assert sum(report.new for report in again) == 0
        assert all(problem.path and problem.what for report in first for problem in report.problems)
        for report in first:
            await (await store.chat(report.key)).messages("openai")


@pytest.mark.parametrize("name", FILES)
@given(st.data())
@searched(2)
def test_damaged_bytes_end_in_no_error(name: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(comes_in(name, data.draw(damaged(FILES[name].read_bytes())), Path(folder)))


@pytest.mark.campaign
@pytest.mark.parametrize("name", [name for name, path in FILES.items() if path.suffix.startswith(".json")])
@given(st.data())
@searched(2)
def test_values_of_any_kind_end_in_no_error(name: str, data: st.DataObject) -> None:
    text = FILES[name].read_text()
    if FILES[name].suffix == ".json":
        changed_text = json.dumps(data.draw(changed(json.loads(text))))
    else:
        rows = text.splitlines()
        at = data.draw(st.integers(0, len(rows) - 1))
        rows[at] = json.dumps(data.draw(changed(json.loads(rows[at]))))
        changed_text = "\n".join(rows) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(comes_in(name, changed_text.encode("utf-8", "replace"), Path(folder)))


COLUMNS = {
    "openai-agents": [("agent_messages", "message_data"), ("message_structure", "branch_id")],
    "llm": [
        ("parts", "payload"),
        ("messages", "role"),
        ("turns", "datetime_utc"),
        ("messages", "parent_hash"),
    ],
    "llm, the first": [("responses", "token_details"), ("tool_calls", "arguments"), ("responses", "prompt")],
    "opencode": [("message", "data"), ("part", "data"), ("session", "revert"), ("session", "title")],
    "langgraph": [
        ("checkpoints", "checkpoint"),
        ("writes", "value"),
        ("checkpoints", "parent_checkpoint_id"),
    ],
}


def other_value(draw: st.DrawFn, value: Any) -> Any:
    """In the place of what a column holds: the same with something else in it, or anything."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.none() | st.integers(-9, 9) | st.text(max_size=5) | st.binary(max_size=5))
    if isinstance(value, bytes) and value:
        plain = msgspec.msgpack.decode(value, ext_hook=lambda _, data: bytes(data))
        try:
            return msgspec.msgpack.encode(draw(changed(plain)))
        except OverflowError:  # msgpack holds no such number: no value at all, then
            return b"\xc1"
    try:
        return json.dumps(draw(changed(json.loads(value))))
    except (TypeError, ValueError):
        return json.dumps(draw(JSON))


@st.composite
def with_other_rows(draw: st.DrawFn, name: str) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        shutil.copyfile(FILES[name], file.name)
        with sqlite3.connect(file.name) as database:
            for _ in range(draw(st.integers(1, 3))):
                table, column = draw(st.sampled_from(COLUMNS[name]))
                rows = database.execute(f"SELECT rowid, {column} FROM {table} ORDER BY rowid").fetchall()
                row, value = draw(st.sampled_from(rows))
                with contextlib.suppress(sqlite3.IntegrityError):
                    told = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                    database.execute(told, (other_value(draw, value), row))
        database.close()
        return Path(file.name).read_bytes()


@pytest.mark.campaign
@pytest.mark.parametrize("name", COLUMNS)
@given(st.data())
@searched(3)
def test_rows_of_any_kind_end_in_no_error(name: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(comes_in(name, data.draw(with_other_rows(name)), Path(folder)))


@pytest.mark.parametrize("name", ["codex 0.169", "claude-code", "conversation"])
async def test_what_cannot_be_read_is_named_with_its_line_and_byte(name: str, tmp_path: Path) -> None:
    rows = FILES[name].read_bytes().splitlines(keepends=True)
    rows.insert(5, b"{not json}\n")
    path = tmp_path / FILES[name].name
    path.write_bytes(b"".join(rows) + b'{"torn":')
    async with Store.memory() as store:
        [report] = [report async for report in import_paths(store, [path])]
    broken, torn = report.problems
    assert (broken.path, broken.line, broken.byte) == (str(path), 6, len(b"".join(rows[:5])))
    assert (torn.line, torn.byte) == (len(rows) + 1, len(b"".join(rows)))
    assert str(torn) == f"{path}, line {torn.line}, byte {torn.byte}: the last line is not whole"


async def test_a_long_line_comes_in_and_one_that_is_too_long_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST", 1 << 20)
    rows = FILES["conversation"].read_bytes().splitlines(keepends=True)
    long = {"id": "long", "ts": "2026-01-28T10:00:00Z", "type": "msg", "role": "user"}
    rows[5:5] = [json.dumps(long | {"content": "x" * size}).encode() + b"\n" for size in (1 << 19, 5 << 20)]
    path = tmp_path / "task.jsonl"
    path.write_bytes(b"".join(rows))
    async with Store.memory() as store:
        [report] = [report async for report in import_paths(store, [path])]
        assert [(problem.line, problem.what) for problem in report.problems] == [
            (7, "a line of more than 1 MiB")
        ]
        said: Any = [e.event async for e in store.log.read("task") if isinstance(e.event, MessageAdded)]
        assert max(len(text_of(event.parts)) for event in said) == 1 << 19
        assert text_of(said[-2].parts) == "不客气 🙏"


@pytest.mark.campaign
async def test_a_line_of_100_mb_comes_in(tmp_path: Path) -> None:
    line = {
        "id": "m1",
        "ts": "2026-01-28T10:00:00Z",
        "type": "msg",
        "role": "user",
        "content": "x" * 100_000_000,
    }
    path = tmp_path / "task.jsonl"
    path.write_bytes(json.dumps(line).encode() + b"\n" + FILES["conversation"].read_bytes())
    tracemalloc.start()
    async with Store(tmp_path / "store", durability="off") as store:
        [report] = [report async for report in import_paths(store, [path])]
        assert (report.problems, report.new > 10) == ((), True)
    assert tracemalloc.get_traced_memory()[1] < 1_500_000_000
    tracemalloc.stop()


async def test_a_content_that_is_no_text_comes_in(tmp_path: Path) -> None:
    line = {"id": "m001", "ts": "2026-01-28T10:00:00Z", "type": "msg", "role": "system", "content": True}
    await comes_in("conversation", json.dumps(line).encode() + b"\n", tmp_path)
