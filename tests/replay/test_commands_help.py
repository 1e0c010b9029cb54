"""Help that opens with examples that work, completion in the shell, and a start that waits for nothing it does not need."""

import asyncio
import io
import itertools
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from chatfold.agent import Chat, Store, assistant, user
from chatfold.eventlog import CheckpointSet, Compacted, ModelCalled, ModelReturned
from chatfold.replay.cli import VERBS, cli
from chatfold.replay.output import Out
from tests.support.chats import turns
from tests.support.debugger.commanded import PROGRESS, TOP, command, environment, process, run
from tests.support.debugger.scripted import CHAT, FORK, scripted


def command_of(verb: str) -> click.Command:
    found = cli.get_command(click.Context(cli), verb)
    assert found is not None
    return found


def examples(verb: str) -> list[list[str]]:
    """The first block of the help, as words; what comes after a pipe or goes to a file is the shell's business."""
    block = (command_of(verb).help or "").split("\n\n")[0].splitlines()
    assert block[0] == "\b"
    words = [shlex.split(line) for line in block[1:]]
    assert all(line[:2] == ["chatfold", verb] for line in words)
    return [line[2 : next((at for at, word in enumerate(line) if word in "|>"), None)] for line in words]


COMMON = ["--store", "--json", "--raw", "--color", "--no-pager", "--quiet"]
EXAMPLES = [(verb, args) for verb in VERBS for args in examples(verb)[1:]]  # for the first ones see below
ELSEWHERE = {
    "copy",
    "step",
    "view",
    "rerun",
    "demo",
    "import",
    "salvage",
    "watch",
}  # they need a terminal, an agent, a folder of their own or no end


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In which everything is that the examples name."""
    root = tmp_path_factory.mktemp("help") / "store"

    async def make() -> None:
        await scripted(root)
        async with Store(root, durability="off") as store:
            for key in ("my-chat", "telegram-42", "newest"):
                await filled(await store.chat(key))
            await (await store.chat("my-chat")).fork("my-chat-what-if", at=5)
            await (await store.chat("newest")).record(user("the newest"))

    asyncio.run(make())
    return root


async def filled(chat: Chat) -> None:
    await chat.record(user("You must not touch vendor/, and not drop newlines 换行 in the lexer."))
    await turns(chat, 12)
    for number in range(3):
        await chat.record(ModelCalled("model", f"{number}"), ModelReturned(), CheckpointSet("here"))
    await chat.record(Compacted(1, 20, 20, "in short"), assistant("done"))


@pytest.mark.parametrize("verb", VERBS)
def test_help_opens_with_examples(verb: str) -> None:
    assert examples(verb)
    shown = run(verb, "--help").stdout
    assert shown.splitlines()[2].strip().startswith(f"chatfold {verb}")
    assert run(verb, "-h").stdout == shown
    assert "--json" in shown
    prose = shown.partition("Options:")[0].split("\n\n")[2:]
    assert not any(re.search(r"\S {2,}\S", paragraph) for paragraph in prose)
    own = [name for option in command_of(verb).params for name in option.opts]
    assert own[-len(COMMON) :] == COMMON, "the verb's own options come first"


@pytest.mark.parametrize(
    ("verb", "args"), EXAMPLES, ids=lambda value: " ".join(value) if isinstance(value, list) else value
)
def test_an_example_is_understood_and_does_what_it_says(
    verb: str, args: list[str], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("chat.jsonl", "rules.txt"):
        Path(name).touch()
    command_of(verb).make_context(verb, list(args), parent=cli.make_context("chatfold", []))
    mine = verb in ELSEWHERE or "-f" in args or "--agent" in args or "--edit" in args
    if mine or any(arg.startswith("./chatfold-demo") for arg in args):
        return
    place = (
        Path(shutil.copytree(store, tmp_path / "store"))
        if verb in ("fork", "redact", "compact", "delete")
        else store
    )
    if verb in ("redact", "compact", "delete") and "--yes" not in args:
        assert "--yes" in run(verb, *args, store=place).output, "who cannot be asked says it"
        args = [*args, "--yes"]
    done = run(verb, *args, store=place)
    assert done.exit_code in (0, 1), done.output
    assert done.exit_code == 0 or verb in ("log", "ls", "replay", "compact", "delete"), (
        done.output
    )  # --errors: there were none


# --- on the demo -----------------------------------------------------------------------------------------

ASKING = ("redact", "compact", "delete", "rerun")
ENDLESS = ("view", "watch")
BOT = """
from chatfold import Agent, ScriptedModel
from chatfold.replay.demo import read_file
def build(store):
    return Agent(store=store, model=ScriptedModel(["anew"]), tools=[read_file], name="demo")
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but what ``chatfold demo`` makes, and what the examples name besides."""
    folder = tmp_path_factory.mktemp("demo")
    demo = folder / "chatfold-demo"
    assert run("demo", demo).exit_code == 0
    assert run("export", "last", "-o", folder / "chat.jsonl", store=demo).exit_code == 0
    (folder / "bot.py").write_text(BOT)
    (folder / ".codex" / "sessions").mkdir(parents=True)
    return folder


@pytest.fixture
def here(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "here"))


def tried(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*args),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ENDLESS])
def test_the_first_example_of_a_verb_works_on_the_demo(verb: str, here: Path) -> None:
    done = tried(here, verb, *examples(verb)[0], *["--yes"] * (verb in ASKING))
    assert (done.returncode, done.stdout != "") == (0, verb not in ("export", "mcp")), done.stderr


@pytest.mark.parametrize("verb", ENDLESS)
def test_so_does_that_of_a_verb_that_goes_on_until_it_is_interrupted(verb: str, here: Path) -> None:
    program = command(verb, *examples(verb)[0])
    where = environment(HOME=str(here), BROWSER="true", PYTHONUNBUFFERED="1")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        program, cwd=here, env=where, stdout=pipe, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    assert first.startswith(("chatfold view: http://", "watching "))
    assert running.returncode in (0, 130)


def test_the_examples_of_the_command_itself_work_on_the_demo(here: Path) -> None:
    told = [line for line in (cli.help or "").splitlines() if line.strip().startswith("chatfold ")]
    lines = [shlex.split(re.split(r" {3,}| && ", line.strip())[0])[1:] for line in told]
    demo, *rest = lines
    assert demo == ["demo"]
    for args in rest:
        done = tried(here, *args)
        assert (done.returncode, done.stdout != "") == (0, True), done.stderr


def test_the_verbs_are_those_that_there_are() -> None:
    asked_for = "ls log show context messages diff why tree search fork redact compact delete replay rerun step view stats export import watch mcp copy check demo"
    assert VERBS.keys() == {*asked_for.split(), "salvage"}
    shown = run("--help").stdout
    assert all(said in " ".join(shown.split()) for _, said in VERBS.values())
    assert run("--version").stdout.startswith("chatfold, version ")


# --- the shell -------------------------------------------------------------------------------------------


def completed(*words: str, store: Path) -> list[str]:
    done = process(
        store=store,
        _CHATFOLD_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(("chatfold", *words)),
        COMP_CWORD=str(len(words)),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_the_shell_completes_verbs_keys_and_options(store: Path, tmp_path: Path) -> None:
    assert "complete" in process(_CHATFOLD_COMPLETE="zsh_source").stdout
    assert completed("me", store=store) == ["messages"]
    assert completed("log", "lexer-b", store=store) == [CHAT, FORK]
    assert completed("--store", str(store), "log", "my-", store=tmp_path) == ["my-chat", "my-chat-what-if"]
    assert completed("diff", "my-chat", "tele", store=store) == ["telegram-42"]
    assert completed("search", "x", "-C", "new", store=store) == ["newest"]
    assert completed("log", "--rev", store=store) == ["--reverse"]
    assert completed("log", "x", store=tmp_path / "nowhere") == []


def test_completing_a_verb_imports_none(store: Path) -> None:
    assert (
        loaded(["m"], store, _CHATFOLD_COMPLETE="bash_complete", COMP_WORDS="chatfold m", COMP_CWORD="1")
        & {
            "msgspec",
            "asyncio",
            "chatfold.replay.verbs.chats",
        }
        == set()
    )


# --- the start -------------------------------------------------------------------------------------------

HEAVY = {
    "chatfold.agent.models.anthropic",
    "chatfold.agent.tools.mcp",
    "chatfold.agent.models",
    "chatfold.agent.models.openai",
    "chatfold.agent.models.common",
    "chatfold.agent.run",
    "chatfold.agent.agent",
    "chatfold.agent.tools",
    "aiofiles",
    "anthropic",
    "html",
    "httpx",
    "json",
    "mcp",
    "openai",
    "pydantic",
    "chatfold.replay.verify",
    "chatfold.replay.stepper",
    "rich",
    "shlex",
    "sqlite3",
    "textual",
    "unittest",
    "urllib.request",
    "watchfiles",
}


def loaded(args: list[str], store: Path, **more: str) -> set[str]:
    """The modules that a verb has imported in the end."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "from chatfold.replay.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        cwd=TOP,
        env=environment(store, **more),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "args", [["ls"], ["log", "my-chat", "-n", "20"], ["show", "my-chat@3"]], ids=" ".join
)
def test_a_verb_imports_nothing_heavy(args: list[str], store: Path) -> None:
    run("ls", store=store)  # what a list remembers is there
    assert sorted(loaded(args, store) & HEAVY) == []


# --- progress --------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_told_after_half_a_second_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("chatfold.replay.output.time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", told := Terminal())
    monkeypatch.setattr(sys, "stdout", shown := io.StringIO())
    out = Out()
    tell = out.progress("reading entries")
    for now[0], done in ((0.1, 1), (0.4, 40)):
        tell(done, 1000)
    assert told.getvalue() == ""
    now[0] = 1.0
    tell(100, 1000)
    assert told.getvalue() == "\r\x1b[Kreading entries: 100 of 1000, 100/s, 9 s left"
    now[0] = 1.05
    tell(105, 1000)  # not more often than can be read
    assert told.getvalue().count("reading") == 1
    out.line("a row")
    assert told.getvalue().endswith("left\r\x1b[K")
    assert shown.getvalue() == "a row\n"
    now[0] = 2.0
    tell(200, None)
    tell(1000, 1000)
    assert told.getvalue().endswith("reading entries: 200, 100/s\r\x1b[K")
    assert PROGRESS.sub("", told.getvalue()) == ""


@pytest.mark.parametrize("quiet", [True, False])
def test_progress_is_for_people(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("chatfold.replay.output.time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", told := Terminal() if quiet else io.StringIO())
    tell = Out(quiet=quiet).progress("reading")
    now[0] = 5.0
    tell(1, 2)
    assert told.getvalue() == ""


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["replay", "last"], "replaying lexer-bug: "),
        (["check"], "checking lexer-bug, segments: "),
        (["export", "last", "-o", "new.jsonl"], "exporting bytes: "),
        (["import", "chat.jsonl", "--name", "new"], "importing bytes: "),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_long_work_shows_progress_on_a_terminal_only(
    args: list[str], what: str, is_terminal: bool, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    clock, begin = itertools.count(), Out.progress
    told, shown = Terminal() if is_terminal else io.StringIO(), io.StringIO()

    def slowly(out: Out, what: str) -> Callable[[int, int | None], None]:
        tell = begin(out, what)
        tell(1, 100)  # a second later: all that follows is done at once here
        return tell

    monkeypatch.setattr(Out, "progress", slowly)
    monkeypatch.setattr("chatfold.replay.output.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setattr(sys, "stdout", shown)
    cli.main(args, standalone_mode=False)
    assert (what in told.getvalue()) == is_terminal
    assert what not in shown.getvalue()
    assert what not in told.getvalue().rpartition("\x1b[K")[2], "it is taken away"
