"""The files of the documents: .ship folders of each generation, conversation JSONL. Every count holds."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chatfold import Store
from chatfold.eventlog import (
    CheckpointSet,
    Compacted,
    ContextOpened,
    Forked,
    MessageAdded,
    RunStarted,
    SkillActivated,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers import import_paths
from chatfold.projections import contexts
from chatfold.projections.text import text_of
from tests.importers.fixtures import OWN

CHAT = "telegram-chat--1001234567-topic-7"
GENERATIONS = ("ship-gen1", "ship-gen2", "ship-gen3", "ship-gen3-later")


async def imported(store: Store, folder: Path) -> list[Any]:
    return [report async for report in import_paths(store, [folder])]


async def events(store: Store, key: str) -> list[Any]:
    return [entry.event async for entry in store.log.read(key)]


def expected(folder: str) -> dict[str, Any]:
    return json.loads((OWN / folder / "expected.json").read_text())  # type: ignore[no-any-return]


def said(found: list[Any], *roles: str) -> Counter[str]:
    return Counter(event.role for event in found if isinstance(event, MessageAdded) and event.role in roles)


def count(found: list[Any], kind: type) -> int:
    return sum(isinstance(event, kind) for event in found)


@pytest.mark.parametrize("folder", GENERATIONS)
async def test_a_folder_is_one_chat(folder: str) -> None:
    async with Store.memory() as store:
        [report] = await imported(store, OWN / folder)
        assert (report.key, report.problems) == (CHAT, ())
        [again] = await imported(store, OWN / folder)
        assert again.new == 0


async def test_the_first_generation() -> None:
    counts = expected("ship-gen1")
    async with Store.memory() as store:
        await imported(store, OWN / "ship-gen1")
        found = await events(store, CHAT)
        history, runs = (
            next(c for name, c in counts.items() if end in name) for end in ("history", "agent-context")
        )
        assert said(found, "user", "assistant") == history["roles"]
        assert (count(found, RunStarted), count(found, ToolCalled)) == (runs["runs"], runs["tool_calls"])
        assert sum(event.failed for event in found if isinstance(event, ToolReturned)) == 1


async def test_the_second_generation() -> None:
    counts = expected("ship-gen2")
    async with Store.memory() as store:
        await imported(store, OWN / "ship-gen2")
        found = await events(store, CHAT)
        of = {name.rpartition("/")[2]: value for name, value in counts.items()}
        archived = sum(value["messages"] for name, value in of.items() if "_2026" in name)
        assert sum(said(found, "user", "assistant").values()) == of["history.jsonl"]["lines"] + archived
        assert count(found, ContextOpened) == of["index.json"]["items"]
        chat = await store.chat(CHAT)
        shelf = {one.id: one.title for one in chat[contexts].shelf.values()}
        assert shelf == {"c_20260205_abcd": "修复跨轮 context 保持", "ctx_20260206_efgh": "docs build"}
        assert len(await chat.messages("openai")) == 6 + 3  # with the texts of the profile and the memory


@pytest.mark.parametrize("folder", GENERATIONS[2:])
async def test_the_third_generation(folder: str) -> None:
    counts = expected(folder)
    async with Store.memory() as store:
        await imported(store, OWN / folder)
        found = await events(store, CHAT)
        history = next(value for name, value in counts.items() if name.endswith(".jsonl"))
        archive = next(value for name, value in counts.items() if "/archive/" in name)
        users = said(found, "user")["user"]
        assert users == history["roles"]["user"] + archive["messages"] // 2
        assert count(found, Compacted) == history["summaries"]
        calls = sum(number for name, number in history["parts"].items() if name.startswith("tool-"))
        assert count(found, ToolCalled) == calls + 2
        chat = await store.chat(CHAT)
        shown = await chat.messages("openai")
        assert "换行问题出在 split()。" in json.dumps(shown, ensure_ascii=False)
        assert "词法分析器为什么丢掉换行" not in json.dumps(shown, ensure_ascii=False)


async def test_a_compaction_that_comes_later_changes_nothing_before_it(tmp_path: Path) -> None:
    """The tool rewrites its history when it compacts; the chat only grows."""
    shutil.copytree(OWN / "ship-gen3", tmp_path, dirs_exist_ok=True)
    folder = tmp_path / ".ship" / "chat" / CHAT / "messages"
    history, [archive] = folder / "history.jsonl", (folder / "archive").iterdir()
    after, archived = history.read_text().splitlines(), archive.read_text()
    before = [json.dumps(one) for one in json.loads(archived)["messages"]] + after[1:3]
    archive.unlink()
    async with Store.memory() as store:
        history.write_text("\n".join(before) + "\n")
        await imported(store, tmp_path)
        first = await events(store, CHAT)
        archive.write_text(archived)
        history.write_text("\n".join(after) + "\n")
        [report] = await imported(store, tmp_path)
        second = await events(store, CHAT)
        assert second[: len(first)] == first
        assert isinstance(second[len(first)], Compacted)
        assert report.state == "continued"


async def test_a_conversation_file() -> None:
    counts = expected("seed-001")
    async with Store.memory() as store:
        reports = await imported(store, OWN / "seed-001")
        assert [(report.key, report.forked_from) for report in reports] == [
            ("task-001", ""),
            ("task-001-retry", "task-001"),
        ]
        for report in reports:
            found, want = await events(store, report.key), counts[f"{report.key}.jsonl"]
            roles = said(found, "user", "assistant", "system", "developer")
            silent = sum(isinstance(e, ToolCalled) for e in found)  # calls without words are their message
            summaries = count(found, Compacted)
            assert roles["user"] + summaries == want["messages"]["user"]
            assert roles["assistant"] + silent == want["messages"]["assistant"]
            assert roles["system"] == want["messages"]["system"]
            assert (count(found, ToolCalled), count(found, ToolReturned)) == (
                want["tool_calls"],
                want["tool_results"],
            )
            assert sum(e.failed for e in found if isinstance(e, ToolReturned)) == want["failed_results"]
            assert summaries == want["events"].get("compaction", 0)
            assert count(found, CheckpointSet) == want["events"]["checkpoint"]
            assert count(found, SkillActivated) == want["events"]["skill_activated"]
        original, fork = [[entry async for entry in store.log.read(report.key)] for report in reports]
        [at] = [entry.event.at for entry in fork if isinstance(entry.event, Forked)]
        assert at == 13
        assert [entry.sum for entry in fork[:at]] == [entry.sum for entry in original[:at]]
        texts = [text_of(e.event.parts) for e in fork if isinstance(e.event, MessageAdded)]
        assert texts[-2:] == ["换个模板", "换好了"]


async def test_a_copy_is_a_fork_of_the_file_with_the_longest_name_that_begins_its_own(tmp_path: Path) -> None:
    lines = (OWN / "seed-001" / "task-001.jsonl").read_bytes().splitlines(keepends=True)
    for name, count in (("task", 4), ("task-1", 8), ("task-1-again", 8), ("other", 8)):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(lines[:count]))
    async with Store.memory() as store:
        found = {report.key: report.forked_from async for report in import_paths(store, [tmp_path])}
    assert found == {"task": "", "task-1": "task", "task-1-again": "task-1", "other": ""}
