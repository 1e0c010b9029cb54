"""Importers: how fast each format comes in, what a home of 2,000 sessions takes, and when a line that a tool writes is in ``chatfold view``.

The sessions are the fixtures of the tests, made long by saying them again under new ids. Each sample is a process of its own, and
its clock starts after the imports. The last row needs chromium, as ``view`` does.
"""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.machine import HERE, environment
from benchmarks.measure import QUICK_ROUNDS, Row, absent, at_most, limited, progress

_FIXTURES = HERE.parent / "tests" / "importers" / "fixtures"
_CODEX = (
    "codex/0.169.0/sessions/2026/11/18/rollout-2026-11-18T14-29-15-01a1ef0f-d8b1-7f53-9aa0-71de2760ae89.jsonl"
)
_CLAUDE = "claude-code/synthetic/-home-dev-project/7d1c0f6e-3a1b-4c7e-9f10-2b6d5e8a0001.jsonl"
_SHIP = "ship-gen3/.ship/chat/telegram-chat--1001234567-topic-7/messages/history.jsonl"
_FORMATS = {
    "Codex 0.169": _CODEX,
    "Codex 0.47": "codex/0.47.0/sessions/2026/11/18/rollout-2026-11-18T14-34-16-01a1ef14-6fa4-70b0-89c2-5ec4ad3b81fc.jsonl",
    "Claude Code": _CLAUDE,
    ".ship": _SHIP,
    "conversation JSONL": "seed-001/task-001.jsonl",
    "UIMessage, lines": "ui-messages/chat.jsonl",
    "UIMessage, list": "ui-messages/chat.json",
    "OpenAI Chat Completions": "openai-chat/opencode.json",
    "OpenAI Responses": "openai-responses/codex.json",
    "Anthropic Messages": "anthropic-messages/pi.json",
    "pi": "pi/0.87.1/sessions/--home-dev-project--/2026-11-18T14-48-28-996Z_01a1ef21-7240-7192-9ee2-8a0d46ba3915.jsonl",
}
_AS_THEY_ARE = {
    "opencode, database": "opencode/1.18.33/opencode.db",
    "Gemini CLI, JSON lines": "gemini/0.61.0/chats/session-2026-11-18T14-48-9ddeb4b9.jsonl",
    "Gemini CLI, JSON": "gemini/0.20.2/chats/session-2026-11-18T14-59-8b531a9f.json",
    "llm 0.36": "llm/0.36/logs.db",
    "llm 0.27": "llm/0.27.1/logs.db",
    "OpenAI Agents SDK": "openai-agents/0.24.0/advanced.db",
    "LangGraph": "langgraph/threads.sqlite",
    "Pydantic AI": "pydantic-ai/2.66.0/chat-completions.json",
    "aider": "aider/0.86.2/.aider.chat.history.md",
}
"""Files that cannot be made long by saying their records again: there are many copies of them instead, each in a folder of its own."""
_IDS = ("id", "uuid", "parentUuid", "parentId")
_SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # of a tool that names it in its files
_LONG = 300_000  # bytes of a session

Object = dict[str, Any]


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    sessions, home, rounds = (4, 40, QUICK_ROUNDS) if quick else (20, 2_000, 5)
    for label, name in (_FORMATS | _AS_THEY_ARE).items():
        progress(f"{label}: {sessions} files")
        source = folder / label
        put = _copy if label in _AS_THEY_ARE else _put
        size = sum(put(source, name, number) for number in range(sessions))
        samples = [_imported(source, folder / f"{label}-{number}") for number in range(rounds)]
        told = f"{samples[0].entries:,} entries of {sessions} files, {size / 1e6:.1f} MB"
        yield limited(f"import, {label}", "MB/s", [size / 1e6 / one.seconds for one in samples], told)
        yield limited(f"import, {label}", "entries/s", [one.entries / one.seconds for one in samples], told)
    yield from _home(folder, home)
    yield _watched(folder, rounds)


def _home(folder: Path, count: int) -> Iterator[Row]:
    progress(f"a home of {count:,} sessions")
    source, store = folder / "home", folder / "home-store"
    size = sum(_put(source, (_CODEX, _CLAUDE)[number % 2], number) for number in range(count))
    told = f"{count:,} sessions of Codex and Claude Code, {size / 1e6:,.0f} MB"
    first = _imported(source, store)
    again = [_imported(source, store) for _ in range(3)]
    assert sum(one.entries for one in again) == 0
    yield limited("a home, imported", "s", [first.seconds], told)
    yield limited(
        "a home, imported: memory above the interpreter", "MB", [first.peak / 1e6], told, at_most(200)
    )
    yield limited("a home, imported again", "s", [one.seconds for one in again], told, at_most(1))


class Figures(msgspec.Struct):
    seconds: float
    entries: int  # that were new
    peak: int  # bytes that were resident at most, above what the imports take


def _imported(source: Path, store: Path) -> Figures:
    command = [sys.executable, "-m", "benchmarks.imports_child", str(source), str(store)]
    done = subprocess.run(command, cwd=HERE.parent, env=environment(), capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Figures)


# --- sessions ------------------------------------------------------------------------------------------------


def _put(folder: Path, name: str, number: int) -> int:
    """Another session like this fixture, in a place of its own; its size."""
    path, named = _FIXTURES / name, f"{number:04x}"
    data = _lengthened(path)
    if session := _SESSION.search(path.name):
        own = session[0][:-4] + named
        data, name = data.replace(session[0].encode(), own.encode()), name.replace(session[0], own)
    elif ".ship" in name:
        name = name.replace("topic-7", f"topic-{number}")
    else:  # the file's name is the chat's
        name = f"chat{named}{path.suffix}"
    target = folder / named / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return len(data)


def _copy(folder: Path, name: str, number: int) -> int:
    data = (_FIXTURES / name).read_bytes()
    target = folder / f"{number:04x}" / Path(name).name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return len(data)


def _lengthened(path: Path) -> bytes:
    data = path.read_bytes()
    times = max(1, _LONG // len(data))
    if path.suffix == ".json":
        messages = msgspec.json.decode(data)
        return msgspec.json.encode([_again(one, time) for time in range(times) for one in messages])
    first, *others = [msgspec.json.decode(line) for line in data.splitlines()]
    lines = [first, *(_again(one, time) for time in range(times) for one in others)]
    return msgspec.json.Encoder().encode_lines(lines)


def _again(record: Object, time: int) -> Object:
    new = {name: f"{record[name]}-{time}" for name in _IDS if time and isinstance(record.get(name), str)}
    return record | new


# --- watching ------------------------------------------------------------------------------------------------


@contextmanager
def _watching(folder: Path, store: Path) -> Iterator[None]:
    program = "from chatfold.replay.cli import main; main()"
    command = [sys.executable, "-c", program, "watch", str(folder), "--store", str(store)]
    process = subprocess.Popen(
        command,
        cwd=HERE.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()  # the chat is there
        yield
    finally:
        process.send_signal(2)
        process.wait()


def _watched(folder: Path, rounds: int) -> Row:
    """From when a line is in the tool's file until the page says that there is something new."""
    what = "watch: from a line in a tool's file to chatfold view"
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 (only for this row)

        from benchmarks.view import launched, noticed, opened_page, served  # noqa: PLC0415
    except ImportError:
        return absent(what, "", "not installed: pip install 'chatfold[test]'")
    place, store = folder / "watched", folder / "watched-store"
    _put(place, _CLAUDE, 0)
    path = next(place.rglob("*.jsonl"))
    with _watching(place, store), served(store) as (base, token, _), sync_playwright() as playwright:
        browser = launched(playwright)
        with opened_page(browser, base, token, f"/c/claude-code-{path.stem}?at=e5") as page:
            page.wait_for_function("() => document.querySelector('.chart')", timeout=60_000)
            page.wait_for_timeout(3_000)  # what was read is durable, and the session open
            told: list[float] = []
            taken = noticed(page, told, partial(_write, path, rounds, told))
        browser.close()
    return limited(what, "ms", taken, "", at_most(100))


async def _write(path: Path, rounds: int, told: list[float]) -> None:
    line = msgspec.json.decode((await asyncio.to_thread(path.read_bytes)).splitlines()[-1])
    for number in range(rounds):
        new = {
            "uuid": f"new-{number}",
            "message": {"role": "user", "content": f"new {number}"},
            "type": "user",
        }
        with path.open("ab") as file:
            file.write(msgspec.json.encode(line | new) + b"\n")
        told.append(time.time() * 1000)
        await asyncio.sleep(0.7)
