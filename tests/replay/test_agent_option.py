"""--agent: whose code is loaded, under which name, and what is said of code that cannot be."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from chatfold.agent import Agent, ScriptedModel, Store
from tests.support.debugger.commanded import assert_one_line, command, contents, environment, lines, run

BUILD = """
from chatfold.agent import Agent, ScriptedModel
def build(store):
    return Agent(store=store, model=ScriptedModel(["hello again"]))
"""
_LIVE = ("--yes", "--agent")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded") / "store"

    async def record() -> None:
        async with Store(root) as store:
            await Agent(store=store, model=ScriptedModel(["hello"])).run("hi", chat="chat")

    asyncio.run(record())
    return root


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody's folder, and we are in it. What is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def write(path: str, text: str = BUILD) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def replayed(agent: str, store: Path) -> Result:
    return run("replay", "chat", "--agent", agent, store=store)


def rerun(agent: str, store: Path) -> Result:
    return run("rerun", "chat@t1", *_LIVE, agent, store=store)


def in_process(agent: str, store: Path) -> "subprocess.CompletedProcess[str]":
    """Where nothing was imported before."""
    program = command("replay", "chat", "--agent", agent)
    return subprocess.run(program, env=environment(store), capture_output=True, text=True, check=False)


# --- rerun -----------------------------------------------------------------------------------------------


def test_rerun_asks_first_and_may_ask_another_model(store: Path, project: Path) -> None:
    write("bot.py")
    args = ("rerun", "chat@t1", "--agent", "bot.py:build", "--name", "again")
    before = contents(store)
    refused = run(*args, store=store)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "asks a real model" in refused.stderr
    assert "--yes" in refused.stderr
    assert contents(store) == before
    [done] = lines(run(*args, "--model", "another", "--yes", "--json", store=store))
    assert (done["fork"], done["outcome"], done["text"]) == ("again", "done", "hello again")
    models = [
        one["entry"]["event"]["model"]
        for seq in (
            row["seq"] for row in lines(run("log", "again", "--kind", "asked", "--json", store=store))
        )
        for one in lines(run("show", f"again@{seq}", "--json", store=store))
    ]
    assert models == ["another"]


# --- whose code ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "agent"),
    [
        ("agent.py", "agent:build"),
        ("agent.py", "agent.py:build"),
        ("agent.py", "./agent.py:build"),
        ("replay.py", "replay:build"),
        ("projections/__init__.py", "projections:build"),
        ("agent/bot.py", "agent.bot:build"),
        ("agent/bot.py", "agent/bot.py:build"),
        ("bots/chatfold.py", "bots/chatfold.py:build"),
        ("bots/click.py", "bots/click.py:build"),
        ("my bots/the-bot.py", "my bots/the-bot.py:build"),
    ],
)
def test_a_users_own_module_is_found_whatever_its_name(
    path: str, agent: str, store: Path, project: Path
) -> None:
    if path == "agent/bot.py":
        write("agent/__init__.py", "")
    write(path)
    done = in_process(agent, store)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok chat: ")


@pytest.mark.parametrize("name", ["agent", "click", "json", "chatfold", "__main__"])
def test_a_file_replaces_no_module(name: str, store: Path, project: Path) -> None:
    write(f"bots/{name}.py")
    before = sys.modules.get(name)
    assert replayed(f"bots/{name}.py:build", store).exit_code == 0
    assert sys.modules.get(name) is before


def test_a_file_is_a_module_like_any_other(store: Path, project: Path) -> None:
    """What looks itself up by the name of its module finds itself."""
    write(
        "bot.py",
        "from __future__ import annotations\n"
        "import pickle, sys, typing\n"
        "from dataclasses import dataclass\n"
        "import msgspec\n"
        "@dataclass\n"
        "class Desk:\n"
        "    kind: typing.ClassVar[str] = 'desk'\n"
        "    order: Order | None = None\n"
        "class Order(msgspec.Struct):\n"
        "    number: int\n"
        "    next: Order | None = None\n"
        "assert typing.get_type_hints(Desk)['order'] == Order | None\n"
        "assert pickle.loads(pickle.dumps(Desk(Order(1)))) == Desk(Order(1))\n"
        "assert msgspec.json.decode(b'{\"number\":1}', type=Order) == Order(1)\n"
        "assert sys.modules[__name__].Desk is Desk\n" + BUILD,
    )
    assert replayed("bot.py:build", store).exit_code == 0


def test_a_file_sees_its_neighbours_first_and_then_what_is_here(store: Path, project: Path) -> None:
    write("bots/bot.py", "import helper_of_bots, shared_by_bots\n" + BUILD)
    write("bots/helper_of_bots.py", "")
    write("helper_of_bots.py", "raise RuntimeError('not the neighbour')")
    write("shared_by_bots.py", "")
    done = replayed("bots/bot.py:build", store)
    assert done.exit_code == 0, done.stderr


def test_what_is_here_comes_before_what_is_installed(store: Path, project: Path) -> None:
    write("installed/bot_of_two.py", "raise RuntimeError('not the one that is here')")
    sys.path.insert(0, str(project / "installed"))
    write("bot_of_two.py")
    assert replayed("bot_of_two:build", store).exit_code == 0


# --- code that cannot be imported ------------------------------------------------------------------------

FAILING = {
    "raises": ("\nraise RuntimeError('boom')", "RuntimeError: boom", 2),
    "says nothing": ("assert False", "AssertionError", 1),
    "no Python": ("x = 1\n\ndef build(:\n", "SyntaxError: invalid syntax", 3),
    "needs what is missing": ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'", 1),
    "needs a missing name": ("from os import nothing_of_the_kind", "ImportError: cannot import name", 1),
    "needs a missing neighbour": ("import bot.neighbour", "No module named 'bot.neighbour'", 1),
    "no package": ("from . import other", "ImportError: attempted relative import", 1),
    "exits": ("import sys\nsys.exit(1)", "SystemExit: 1", 2),
    "exits well": ("raise SystemExit", "SystemExit", 1),
    "needs a file": ("open('missing.json')", "FileNotFoundError: ", 1),
    "steers": ("raise ValueError('\\x1b[2J\\nTraceback'[:6])", "ValueError: \\x1b[2J\\n", 1),
    "cannot be told": (
        "class E(Exception):\n    def __str__(self): raise E\nraise E",
        "E: <exception str() failed>",
        3,
    ),
    "deep": ("def f():\n    raise KeyError('k')\nf()", "KeyError: 'k'", 2),
}


@pytest.mark.parametrize("agent", ["bot:build", "bot.py:build"])
@pytest.mark.parametrize(("source", "said", "line"), FAILING.values(), ids=FAILING)
def test_code_that_fails_is_told_in_one_line_and_ends_with_7(
    source: str, said: str, line: int, agent: str, store: Path, project: Path
) -> None:
    write("bot.py", source)
    before = contents(store)
    for done in (replayed(agent, store), rerun(agent, store)):
        assert (done.exit_code, done.stdout) == (7, ""), done.stderr
        assert_one_line(done.stderr, agent, said, f"{project / 'bot.py'}:{line}. ", "try again")
        assert "\x1b" not in done.stderr
    assert contents(store) == before
    assert not {"bot", "_chatfold_agent_file"} & set(sys.modules)


def test_the_file_that_fails_is_named_not_the_one_that_wants_it(store: Path, project: Path) -> None:
    write("bot.py", "import neighbour_of_bot")
    write("neighbour_of_bot.py", "\n\n1 +")
    done = replayed("bot:build", store)
    assert done.exit_code == 7
    assert_one_line(done.stderr, "SyntaxError: invalid syntax", f"{project / 'neighbour_of_bot.py'}:3. ")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("nowhere:build", "No module named 'nowhere'"),
        ("nowhere.py:build", "there is no file 'nowhere.py'"),
        ("bots.py:build", "there is no file 'bots.py'"),
        ("bot.nowhere:build", "'bot' is not a package"),
        ("pack.nowhere:build", "No module named 'pack.nowhere'"),
        ("bot:nothing", "no function 'nothing' in bot ("),
        ("bot.py:nothing", "no function 'nothing' in bot.py ("),
        ("bot:number", "no function 'number' in bot ("),
        ("bot", "MODULE:FUNCTION"),
        ("bot.py", "MODULE:FUNCTION"),
        (":build", "MODULE:FUNCTION"),
        ("bot:", "MODULE:FUNCTION"),
        (".bot:build", "MODULE:FUNCTION"),
        ("\x1b[2J:build", "No module named '\\x1b[2J'"),
    ],
)
def test_code_that_is_not_there_was_asked_for_wrongly(
    agent: str, said: str, store: Path, project: Path
) -> None:
    write("bot.py", "number = 1\n" + BUILD)
    write("pack/__init__.py", "")
    (project / "bots.py").mkdir()
    for done in (replayed(agent, store), rerun(agent, store)):
        assert (done.exit_code, done.stdout) == (2, ""), done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ("chatfold.eventlog.CorruptLog('of mine')", 4),
        ("chatfold.eventlog.NoSuchChat('of mine')", 3),
        ("chatfold.eventlog.ChatfoldError('of mine')", 7),
        ("ImportError(\"of mine: pip install 'chatfold[openai]'\")", 6),
    ],
)
@pytest.mark.parametrize("where", ["at import", "in build"])
def test_our_own_errors_keep_their_codes(
    raised: str, code: int, where: str, store: Path, project: Path
) -> None:
    prefix = "def build(store): " if where == "in build" else ""
    write("bot.py", f"import chatfold.eventlog\n{prefix}raise {raised}")
    for done in (replayed("bot:build", store), rerun("bot:build", store)):
        assert done.exit_code == code
        assert_one_line(done.stderr, "of mine")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom, in "),
        ("raise ValueError('boom')", "ValueError: boom, in "),
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found', in "),
        ("open('missing.json')", "FileNotFoundError: "),
        ("raise SystemExit(1)", "SystemExit: 1, in "),
        ("return 'an agent'", "the factory gave str, not an Agent"),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_factory_that_fails_ends_with_7(
    kind: str, body: str, said: str, store: Path, project: Path
) -> None:
    write("bot.py", f"{kind} build(store):\n    {body}")
    before = contents(store)
    for done in (replayed("bot:build", store), rerun("bot:build", store)):
        assert (done.exit_code, done.stdout) == (7, ""), done.stderr
        assert_one_line(done.stderr, said, "chat 'chat'", "try again")
    assert contents(store) == before


# --- ctrl-c ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["bot:build", "bot.py:build"])
def test_ctrl_c_during_an_import_ends_with_130_at_once(agent: str, store: Path, project: Path) -> None:
    write("bot.py", "import time\nprint('here', flush=True)\ntime.sleep(60)")
    program = command("replay", "chat", "--agent", agent)
    pipe = subprocess.PIPE
    with subprocess.Popen(program, env=environment(store), stdout=pipe, stderr=pipe, text=True) as loading:
        assert loading.stdout is not None
        assert loading.stdout.readline() == "here\n"
        loading.send_signal(signal.SIGINT)
        _, complaint = loading.communicate(timeout=30)
    assert (loading.returncode, complaint.strip()) == (130, "")
