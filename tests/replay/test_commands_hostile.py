"""What users, models and tools said may hold anything. None of it reaches a terminal as it is, and none of it stops us."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Store, assistant, user
from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    Compacted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    Data,
    Event,
    File,
    Injected,
    ModelCalled,
    ModelReturned,
    Noted,
    Reasoning,
    RunFinished,
    RunStarted,
    SendFailed,
    SendRequested,
    SkillActivated,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.testing.strategies import events
from tests.support.debugger.commanded import (
    SGR,
    command,
    environment,
    lines,
    on_terminal,
    run,
    several_on_terminal,
    told_as_lines,
)
from tests.support.debugger.scripted import HOSTILE
from tests.support.profile import searched

KEY = f"evil{HOSTILE}"
OTHER = f"other{HOSTILE}"
BENIGN = "\u200c\u200d\xa0\u202f\u3000"  # joiners and blanks
STEERING = re.compile(r"[^\n\x20-\x7e]")


def hostile_events() -> list[Event]:
    """Every place in which a text can be, filled with one that wants out."""
    bad = HOSTILE
    parts = (
        Text(bad),
        Reasoning(bad, bad, bad, bad, bad),
        File(bad, b"\x1b[2J", bad, bad),
        Data(bad, {bad: bad}),
    )
    return [
        ChatStarted(bad, bad, {bad: bad}),
        user(bad),
        RunStarted(bad, {bad: bad}),
        ModelCalled(bad, bad, {bad: bad}, (bad,), bad),
        ModelReturned({bad: 1}, bad, bad, {bad: bad}),
        ToolCalled(bad, bad, {bad: bad}, {bad: bad}),
        ToolReturned(bad, parts, failed=True, meta={bad: bad}),
        assistant(bad),
        CheckpointSet(bad),
        SkillActivated(bad, bad, bad),
        Injected("user", bad, parts, bad),
        SendRequested(bad, parts, {bad: bad}),
        SendFailed(bad, bad),
        Noted(bad, {bad: [bad, bad.encode("utf-8", "surrogatepass")]}),
        RunFinished("failed", bad, {bad: bad}),
        Compacted(2, 5, 3, bad, bad, {bad: bad}, {bad: 1}),
        ContextOpened(bad, bad, bad),
        user(bad),
        ContextCleared(bad),
        ContextRecalled(bad, "full", bad),
        user("the end"),
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile") / "store"

    async def make() -> None:
        async with Store(root, durability="off") as store:
            chat = await store.chat(KEY)
            for event in hostile_events():
                await chat.record(event, run=HOSTILE)
            await chat.fork(OTHER, at=8)

    asyncio.run(make())
    return root


COMMANDS: list[list[str]] = [
    ["ls"],
    ["ls", "-q", "evil"],
    ["log", KEY],
    ["log", KEY, "--graph"],
    ["log", KEY, "--turns"],
    ["log", KEY, "-S", HOSTILE],
    *(["show", f"{KEY}@{seq}"] for seq in range(1, len(hostile_events()) + 1)),
    ["context", KEY],
    ["context", f"{KEY}@16", "--full"],
    ["context", KEY, "--archive"],
    ["context", KEY, "--lifetimes"],
    ["messages", f"{KEY}@15"],
    ["messages", f"{KEY}@15", "--as", "openai"],
    ["messages", f"{KEY}@15", "--as", "anthropic"],
    ["messages", KEY, "--for-call", "1"],
    ["diff", f"{KEY}@1..16"],
    ["diff", f"{KEY}@16..", "--what", "archive"],
    ["diff", f"{KEY}@1..8", "--what", "messages"],
    ["diff", KEY, OTHER],
    ["why", KEY, HOSTILE],
    ["why", KEY, "end"],
    ["tree", OTHER],
    ["tree", "--all"],
    ["search", "evil"],
    ["stats", KEY],
    ["stats", KEY, "--line"],
    ["log", f"{KEY}@nowhere{HOSTILE}"],
    ["log", f"nowhere{HOSTILE}"],
    ["context", KEY, "--id", HOSTILE],
    ["check"],
    ["replay", KEY],
]


def assert_safe(text: str, *, colour: bool) -> None:
    """Nothing but what can be printed, line ends, and on a terminal our own colours and progress that was erased."""
    text = SGR.sub("", told_as_lines(text)) if colour else text
    for found in STEERING.findall(text.replace("\t", "" if not colour else "\t")):
        assert found.isprintable() or found in BENIGN, (
            f"{found!r} in {text[max(0, text.index(found) - 60) :][:120]!r}"
        )


@pytest.fixture(scope="module")
def encodable() -> list[list[str]]:
    """What can be said on a command line: half a character cannot."""
    return [args for args in COMMANDS if "\ud800" not in "".join(args) and "\0" not in "".join(args)]


@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: ascii(" ".join(args))[:60])
def test_into_a_pipe(args: list[str], store: Path) -> None:
    done = run(*args, store=store)
    assert done.exit_code in (0, 1, 3), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert_safe(done.output, colour=False)


@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: ascii(" ".join(args))[:60])
def test_for_programs(args: list[str], store: Path) -> None:
    done = run(*args, "--json", store=store)
    assert_safe(done.output, colour=False)
    assert all(line["v"] == 1 for line in lines(done, done.exit_code))


def test_on_a_terminal(store: Path, encodable: list[list[str]]) -> None:
    asked = [["log", "last"], ["show", "last@7"], ["context", "last"], ["messages", "last@15"], ["tree"]]
    asked += [
        ["context", "last@16", "--full"],
        ["why", "last", "end"],
        ["diff", "last@1..16"],
        ["stats", "last"],
    ]
    shown = several_on_terminal([*asked, *encodable], store=store)
    assert len(shown) == len(asked) + len(encodable)
    for one in shown:
        assert one.code in (0, 1, 3), one.text
        assert "Traceback" not in one.text
        assert_safe(one.text, colour=True)


def test_raw_is_what_was_said(store: Path) -> None:
    assert "\x1b[2J" in run("messages", f"{KEY}@2", "--raw", store=store).stdout_bytes.decode(
        errors="replace"
    )
    assert "\x1b[2J" in run("log", KEY, "--raw", store=store).stdout_bytes.decode(errors="replace")
    shown = on_terminal("messages", "last@2", "--raw", store=store)
    assert shown.code == 0
    assert "\x1b[2J\x1b]0;mine\x07" in shown.text


@given(st.lists(events(), min_size=1, max_size=4))
@searched(5 / 12)
def test_whatever_an_event_holds_every_verb_can_show_it(history: list[Event]) -> None:
    import tempfile

    async def make(root: str) -> None:
        async with Store(root, durability="off") as store:
            await (await store.chat("chat")).record(*history)

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(make(root))
        for args in (
            ["log", "chat"],
            ["log", "chat", "--turns"],
            ["show", "chat@1"],
            ["show", "chat"],
            ["context", "chat"],
            ["context", "chat", "--full"],
            ["context", "chat", "--lifetimes"],
            ["messages", "chat"],
            ["messages", "chat", "--as", "openai"],
            ["diff", "chat@0..1"],
            ["stats", "chat"],
        ):
            for form in ([], ["--json"]):
                done = run(*args, *form, store=Path(root))
                assert done.exit_code == 0, (args, done.output, done.exception)
                assert_safe(done.output, colour=False)
                assert all(line["v"] == 1 for line in (lines(done) if form else []))


# --- 50 MB -----------------------------------------------------------------------------------------------

LARGE = 50 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("large") / "store"

    async def make() -> None:
        async with Store(root, durability="off") as store:
            chat = await store.chat("large")
            await chat.record(user("what does it say?"), ToolCalled("c", "read", {"path": "x" * 1000}))
            await chat.record(ToolReturned("c", (Text("\x1b[31m all on one line " * (LARGE // 22)),)))
            await chat.record(assistant("a lot"))

    asyncio.run(make())
    return root


@pytest.mark.campaign
def test_a_terminal_is_shown_the_beginning_of_what_is_very_long(large: Path) -> None:
    asked = [["log", "large"], ["show", "large@3"], ["context", "large", "--full"], ["messages", "large"]]
    for one in several_on_terminal(asked, store=large):
        assert one.code == 0
        assert len(one.text) < 1 << 19
        assert_safe(one.text, colour=True)


@pytest.mark.campaign
def test_a_pipe_is_given_all_of_it_in_a_few_times_its_size(large: Path) -> None:
    counted = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command("log", "large")],
        env=environment(large),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    size, most = map(int, counted.stdout.split())
    assert size > LARGE
    assert most < 12 * LARGE


_MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True)
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(len(done.stdout), most * 1024)
"""
