"""What was exported comes in again, whole; what came in goes out as it was."""

import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold import Store
from chatfold.agent import Chat
from chatfold.agent.exporting import write_file
from chatfold.eventlog import (
    ContextOpened,
    ContextSwitched,
    Event,
    MessageAdded,
    Rewound,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers import import_paths
from chatfold.importers.ship_export import export_ship, file_name
from chatfold.projections.shapes.values import replace_surrogates
from chatfold.projections.text import text_of
from tests.importers.fixtures import OWN
from tests.support.histories import compacted
from tests.support.profile import searched

TEXTS = st.text(st.characters(exclude_characters="\r"), min_size=1, max_size=12).filter(str.strip)
ROLES: Any = st.sampled_from(["user", "user", "assistant", "system"])


@st.composite
def talks(draw: st.DrawFn) -> list[Event]:
    """Turns with calls, contexts, compactions and steps back."""
    events: list[Event] = [MessageAdded("user", (Text(draw(TEXTS)),))]
    for number in range(draw(st.integers(0, 12))):
        match draw(st.sampled_from(["say", "say", "say", "call", "context", "compact", "back"])):
            case "say":
                events.append(MessageAdded(draw(ROLES), (Text(draw(TEXTS)),)))
            case "call":
                args = {"n": number, "text": draw(TEXTS)}
                events += [
                    MessageAdded("assistant", (Text(draw(TEXTS)),)),
                    ToolCalled(f"c{number}", "read", args),
                ]
                if draw(st.booleans()):
                    events.append(ToolReturned(f"c{number}", (Text(draw(TEXTS)),), draw(st.booleans())))
            case "context":
                known = [event.id for event in events if isinstance(event, ContextOpened)]
                to = draw(st.sampled_from(["main", *known, f"k{number}"]))
                events.append(ContextOpened(to, "title") if to == f"k{number}" else ContextSwitched(to))
            case "compact" if len(events) > 1:
                last = draw(st.integers(1, len(events)))
                events.append(compacted(draw(st.integers(1, last)), last, draw(TEXTS)))
            case "back":
                events.append(Rewound(draw(st.integers(0, len(events)))))
    return events


async def recorded(store: Store, events: list[Event]) -> Chat:
    chat = await store.chat("talk")
    await chat.record(*events)
    return chat


def said(events: list[Event]) -> Counter[tuple[str, str]]:
    found = [event for event in events if isinstance(event, MessageAdded)]
    return Counter((event.role, replace_surrogates(text_of(event.parts))) for event in found)


async def events_of(chat: Chat) -> list[Event]:
    return [entry.event async for entry in chat.log.read(chat.key)]


async def imported(store: Store, path: Path) -> Chat:
    [report] = [report async for report in import_paths(store, [path])]
    assert not report.problems
    return await store.chat(report.key)


@pytest.mark.parametrize("form", ["conversation", "ship"])
@given(talks())
@searched(2)
def test_an_export_comes_in_with_every_message(form: str, events: list[Event]) -> None:
    async def check(folder: Path) -> None:
        async with Store.memory() as one, Store.memory() as other:
            chat = await recorded(one, events)
            path = folder / "talk.jsonl"
            if form == "ship":
                path = folder / ".ship"
                await export_ship(chat, path)
            else:
                await write_file(path, chat.export_bytes("conversation"))
            again = await events_of(await imported(other, path))
            assert said(again) == said(events)
            calls = [event.args for event in events if isinstance(event, ToolCalled)]
            assert len([event for event in again if isinstance(event, ToolCalled)]) == len(calls)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


@pytest.mark.parametrize("form", ["openai", "openai-responses", "anthropic", "ui", "ui-jsonl"])
@given(talks())
@searched(2)
def test_an_export_that_was_imported_is_exported_the_same(form: Any, events: list[Event]) -> None:
    async def check(folder: Path) -> None:
        async with Store.memory() as one, Store.memory() as other:
            chat = await recorded(one, events)
            path = folder / "talk.json"
            await write_file(path, chat.export_bytes(form))
            found = shown(path.read_bytes())
            if not (found["messages"] if isinstance(found, dict) else found):  # nobody sees anything
                return
            again = await imported(other, path)
            out = b"".join([piece async for piece in again.export_bytes(form)])
            assert shown(out) == shown(path.read_bytes())

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


def shown(data: bytes) -> Any:
    """What the file says. A summary is an entry of the log that it came into, with an id and a time of its own."""
    is_lines = not data or data.startswith(b'{"')
    found = [json.loads(line) for line in data.splitlines()] if is_lines else json.loads(data)
    for message in found if isinstance(found, list) else []:
        if message.get("metadata", {}).get("kind") == "summary":
            del message["id"], message["metadata"]["ts"]
    return found


def newest(lines: list[Any]) -> list[Any]:
    """The last line of an id wins, at the place of the first."""
    by_id = {line["id"]: line for line in lines}
    return [by_id.pop(line["id"]) for line in lines if line["id"] in by_id]


@pytest.mark.parametrize("name", ["task-001.jsonl", "task-001-retry.jsonl"])
async def test_a_conversation_file_goes_out_as_it_came_in(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes((OWN / "seed-001" / name).read_bytes())
    given_lines = newest([json.loads(line) for line in path.read_text().splitlines()])
    async with Store.memory() as store:
        chat = await imported(store, path)
        out = b"".join([piece async for piece in chat.export_bytes("conversation")])
    lines = [json.loads(line) for line in out.splitlines()]
    messages = [line for line in lines if line["type"] == "msg"]
    wanted = [line for line in given_lines if line["type"] == "msg"]
    assert [message["id"] for message in messages] == [message["id"] for message in wanted]
    for message, want in zip(messages, wanted, strict=True):
        for field in ("role", "ts", "tool_call_id", "is_error", "is_meta", "compacted"):
            assert message.get(field) == want.get(field), (message, want)
        if isinstance(want["content"], str):
            assert message["content"] == want["content"]
    kinds = {"checkpoint": "checkpoint_set"}
    asked = [kinds.get(line["event"], line["event"]) for line in given_lines if line["type"] == "evt"]
    assert [
        line["event"] for line in lines if line["type"] == "evt" and line["event"] != "chat_started"
    ] == asked


@pytest.mark.parametrize("key", ["..", ".", "a/b", "../../etc/passwd", "\0", "日本", "con", "-rf", "a b%20"])
def test_a_key_names_a_folder_of_its_own(key: str) -> None:
    name = file_name(key)
    assert "/" not in name
    assert "\0" not in name
    assert name not in (".", "..")


async def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".ship").mkdir()
    (tmp_path / ".ship" / "mine").touch()
    async with Store.memory() as store:
        chat = await recorded(store, [MessageAdded("user", (Text("hi"),))])
        with pytest.raises(ValueError, match="there already"):
            await export_ship(chat, tmp_path / ".ship")
    assert [path.name for path in (tmp_path / ".ship").iterdir()] == ["mine"]
