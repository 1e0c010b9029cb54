"""The table of names that people bring along: what stands on the right runs, line by line, as it is written there."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from chatfold import Agent, Policy, ScriptedModel, Store
from chatfold.eventlog import Compacted, Noted
from chatfold.importers.ship_export import export_ship
from chatfold.projections import skills, transcript

PAGE = Path(__file__).parent.parent / "docs" / "chats.md"
SEED_NAMES = (
    *("append", "get_llm_messages", "activate_skill", "record_event", "checkpoint", "mark_compacted"),
    *("save", "load", "fork", "fork_from_checkpoint"),
    *("chat_context_new", "chat_context_load", "chat_context_list", "chat_context_clear_active"),
)


def rows() -> list[tuple[str, list[str]]]:
    """Of each line what stands on the left, and the code on the right."""
    table = PAGE.read_text().partition("## Names from elsewhere")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE)
    return [(left, re.findall(r"`([^`]+)`", right)) for left, right in cells if "`" in left]


def is_code(text: str) -> bool:
    return not text.startswith("chatfold ")


async def run(code: str, names: dict[str, Any]) -> None:
    made = eval(compile(code, "table", "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.iscoroutine(made):
        await made


def test_every_name_of_the_documents_is_in_the_table() -> None:
    known = " ".join(left for left, _ in rows())
    assert [name for name in SEED_NAMES if not re.search(rf"`{name}\b", known)] == []


async def test_what_stands_on_the_right_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ship.json").write_text('{"context": {"history": {"maxInputTokensApprox": 12000}}}')
    model = ScriptedModel([])
    done = 0
    async with Store("store") as store, Agent(model) as agent:
        names: dict[str, Any] = {
            "Agent": Agent,
            "Policy": Policy,
            "Store": Store,
            "Path": Path,
            "Compacted": Compacted,
            "Noted": Noted,
            "export_ship": export_ship,
            "skills": skills,
            "transcript": transcript,
            "store": store,
            "agent": agent,
            "model": model,
            "chat": await store.chat("task-001"),
            "elsewhere": await Store.memory().chat("draft"),
        }
        await names["elsewhere"].user("from memory")
        for _, codes in rows():
            for code in filter(is_code, codes):
                await run(code, names)
                done += 1
        assert done > 30
        assert [one.key async for one in store.chats()]
        assert (tmp_path / "chats" / "task-001-retry.jsonl").is_dir()
        assert (tmp_path / "history.json").is_file()
        assert any((tmp_path / "ship").rglob("history.jsonl"))
