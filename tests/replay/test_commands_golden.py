"""What the command prints, to the letter: on a terminal, into a pipe, and for programs.

The chats are those of ``scripted``: fixed texts, a clock of their own. If an output is meant to change, look at the
difference after ``python -m pytest tests/replay/test_commands_golden.py --override-ini=addopts= -q`` with ``GOLDEN=write``
in the environment: that writes the files anew.
"""

import os
import re
from pathlib import Path

import pytest

from tests.support.debugger.commanded import Shown, lines, run, several_on_terminal
from tests.support.debugger.scripted import CHAT, FORK, scripted

GOLDEN = Path(__file__).parents[1] / "golden" / "cli"
COMMANDS: dict[str, list[str]] = {
    "ls": ["ls"],
    "log": ["log", CHAT],
    "log-range": ["log", f"{CHAT}@c1^..s2", "--graph"],
    "log-errors": ["log", CHAT, "--errors", "--reverse"],
    "log-turns": ["log", CHAT, "--turns"],
    "log-text": ["log", CHAT, "-S", "vendor/", "-n", "2"],
    "log-graph": ["log", f"{CHAT}@4", "--graph"],
    "show-call": ["show", f"{CHAT}@13"],
    "show-hostile": ["show", f"{CHAT}@26"],
    "show-compaction": ["show", f"{CHAT}@c1"],
    "context": ["context", CHAT],
    "context-before": ["context", f"{CHAT}@c1^"],
    "context-full": ["context", f"{CHAT}@26", "--full"],
    "context-archive": ["context", CHAT, "--archive"],
    "context-lifetimes": ["context", CHAT, "--lifetimes"],
    "messages": ["messages", f"{CHAT}@26"],
    "messages-openai": ["messages", CHAT, "--as", "openai"],
    "messages-for-call": ["messages", CHAT, "--for-call", "2"],
    "messages-hash": ["messages", CHAT, "--hash"],
    "diff": ["diff", f"{CHAT}@c1^..c1"],
    "diff-stat": ["diff", f"{CHAT}@s1^..s1", "--stat"],
    "diff-fork": ["diff", f"{CHAT}@t1", FORK],
    "diff-messages": ["diff", f"{CHAT}@c1^..c1", "--what", "messages"],
    "diff-archive": ["diff", f"{CHAT}@s1^..s1", "--what", "archive"],
    "diff-events": ["diff", f"{CHAT}@t1..t2", "--what", "events"],
    "why": ["why", CHAT, "vendor/"],
    "why-entry": ["why", CHAT, "e24"],
    "tree": ["tree", FORK],
    "search": ["search", "lexer"],
    "search-chinese": ["search", "换行符"],
    "stats": ["stats", CHAT],
    "stats-line": ["stats", CHAT, "--line"],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import asyncio

    return asyncio.run(scripted(tmp_path_factory.mktemp("golden") / "store"))


@pytest.fixture(scope="module")
def shown(store: Path) -> dict[str, Shown]:
    found = several_on_terminal(list(COMMANDS.values()), store=store)
    return dict(zip(COMMANDS, found, strict=True))


def compared(name: str, kind: str, text: str) -> None:
    path = GOLDEN / f"{name}.{kind}"
    text = re.sub(r"\d+ y ago", "1 y ago", text)  # as long as it takes until then: the columns are the same
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_on_a_terminal(name: str, shown: dict[str, Shown]) -> None:
    assert shown[name].code == 0
    compared(name, "terminal", shown[name].lasting.replace("\x1b", "␛"))


@pytest.mark.parametrize("name", COMMANDS)
def test_into_a_pipe(name: str, store: Path) -> None:
    done = run(*COMMANDS[name], store=store)
    assert done.exit_code == 0
    compared(name, "pipe", done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_for_programs(name: str, store: Path) -> None:
    done = run(*COMMANDS[name], "--json", store=store)
    assert all(line["v"] == 1 for line in lines(done))
    compared(name, "json", done.stdout)


def test_there_is_no_file_that_nobody_compares() -> None:
    there = {path.name for path in GOLDEN.iterdir()}
    assert there == {f"{name}.{kind}" for name in COMMANDS for kind in ("terminal", "pipe", "json")}
