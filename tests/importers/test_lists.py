"""Lists of provider messages: every count holds, and nothing comes in twice."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store
from chatfold.eventlog import MessageAdded, ToolCalled, ToolReturned
from chatfold.importers import UnknownFormat, import_paths
from tests.importers.fixtures import OWN, counted, file_id

LISTS = ("openai-chat", "openai-responses", "anthropic-messages", "ui-messages")


def read(path: Path) -> Any:
    return json.loads(path.read_text())


async def imported(store: Store, path: Path) -> Any:
    [report] = [report async for report in import_paths(store, [path])]
    return report, await store.chat(report.key)


@pytest.mark.parametrize(
    ("path", "expected"), [pair for name in LISTS for pair in counted(name)], ids=file_id
)
async def test_the_counts_of_a_list_hold(path: Path, expected: dict[str, Any]) -> None:
    async with Store.memory() as store:
        _, chat = await imported(store, path)
        events = [entry.event async for entry in store.log.read(chat.key)]
        calls = [event for event in events if isinstance(event, ToolCalled)]
        results = [event for event in events if isinstance(event, ToolReturned)]
        assert (len(calls), len(results)) == (expected["tool_calls"], expected["tool_results"])
        given = Counter(one["role"] for one in read(path) if "role" in one)
        assert given == expected["roles"]
        said = Counter(event.role for event in events if isinstance(event, MessageAdded))
        for role in ("user", "system", "developer"):
            assert path.parent.name == "anthropic-messages" or said[role] == given[role]


@pytest.mark.parametrize("name", LISTS)
async def test_what_came_in_goes_out_in_the_same_shape(name: str) -> None:
    for path, _ in counted(name):
        async with Store.memory() as store:
            report, chat = await imported(store, path)
            given = read(path)
            shape = report.format
            out = json.loads(b"".join([piece async for piece in chat.export_bytes(shape)]))
            out = out["messages"] if isinstance(out, dict) else out
            if report.format == "ui":
                assert out == given
            else:
                assert [one.get("role") for one in out] == [
                    one.get("role") for one in given
                ] or report.format != "openai"


async def test_a_list_that_was_rewritten_takes_the_chat_back(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    async with Store.memory() as store:
        path.write_text(json.dumps(said))
        await imported(store, path)
        path.write_text(json.dumps([*said, {"role": "user", "content": "three"}]))
        report, chat = await imported(store, path)
        assert (report.state, report.new) == ("continued", 1)
        path.write_text(json.dumps([said[0], {"role": "assistant", "content": "another"}]))
        report, chat = await imported(store, path)
        assert report.new == 2
        assert [message["content"] for message in await chat.messages("openai")] == ["one", "another"]
        report, _ = await imported(store, path)
        assert report.new == 0
        path.write_text(json.dumps(said))
        report, chat = await imported(store, path)
        assert [message["content"] for message in await chat.messages("openai")] == ["one", "two"]


async def test_what_was_erased_does_not_come_in_again(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    said = [{"role": "user", "content": "my secret"}, {"role": "assistant", "content": "two"}]
    path.write_text(json.dumps(said))
    async with Store.memory() as store:
        _, chat = await imported(store, path)
        await chat.redact(2)
        path.write_text(json.dumps([*said, {"role": "user", "content": "three"}]))
        report, chat = await imported(store, path)
        assert report.new == 1
        assert not await store.log.grep(chat.key, "my secret")
        assert [entry.seq async for entry in store.log.read(chat.key)] == [1, 2, 3, 4, 5]


async def test_a_message_that_is_none_is_named_and_the_rest_comes_in(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "one"}, {"role": "tool", "content": "no id"}]))
    async with Store.memory() as store:
        report, chat = await imported(store, path)
        [problem] = report.problems
        assert "tool_call_id" in problem.what
        assert len(await chat.messages("openai")) == 1


async def test_what_nobody_knows_is_refused_with_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n")
    async with Store.memory() as store:
        for given in (path, tmp_path):
            with pytest.raises(UnknownFormat, match=r"Codex.*UIMessage.*Anthropic"):
                _ = [report async for report in import_paths(store, [given])]
        assert not [key async for key in store.log.chats()]


async def test_a_store_imports_a_file_of_another_tool(tmp_path: Path) -> None:
    path = OWN / "openai-chat" / "library.json"
    async with Store.memory() as store:
        assert (await store.import_chat(path)).key == "library"
        chat = await store.import_chat(path, "mine")
        assert (await store.import_chat(path, "mine")).seq == chat.seq == 19
        exported = await chat.export(tmp_path / "chat.jsonl")
        assert (await store.import_chat(exported)).key == "chat"


def test_every_fixture_is_there() -> None:
    assert (OWN / "codex").is_dir()
