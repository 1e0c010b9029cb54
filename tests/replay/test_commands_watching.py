"""Looking at a chat changes nothing, waits for nobody, and sees what others write meanwhile."""

import asyncio
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from chatfold.agent import Store, assistant, user
from chatfold.eventlog import scan
from tests.replay.test_commands_golden import COMMANDS
from tests.support.chats import finished, started
from tests.support.debugger.commanded import (
    TOP,
    assert_one_line,
    bytes_of,
    command,
    contents,
    environment,
    lines,
    run,
)
from tests.support.debugger.scripted import CHAT, FORK, scripted


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(scripted(tmp_path_factory.mktemp("watching") / "store"))


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "store"))


# --- nothing is changed ----------------------------------------------------------------------------------

REMEMBERING = {"ls", "tree", "search", "log-graph", "log-range"}  # these keep what they found in the cache
READING = {
    **COMMANDS,
    "check": ["check"],
    "check-fast": ["check", "--fast"],
    "replay": ["replay", CHAT],
    "replay-all": ["replay", "--all"],
    "export": ["export", CHAT],
    "export-html": ["export", CHAT, "--as", "html"],
}


@pytest.mark.parametrize("name", [name for name in READING if name.split("-")[0] not in REMEMBERING])
def test_no_byte_and_no_time_is_changed(name: str, store: Path) -> None:
    if name in REMEMBERING:
        return
    before = bytes_of(store)
    assert run(*READING[name], store=store).exit_code == 0
    assert bytes_of(store) == before


@pytest.mark.parametrize(
    "args", [*(READING[name] for name in sorted(REMEMBERING)), ["log", "last"]], ids=" ".join
)
def test_what_is_remembered_is_remembered_in_caches_only(args: list[str], store: Path) -> None:
    before = contents(store)
    first = run(*args, store=store)
    assert contents(store) == before
    assert run(*args, store=store).stdout == first.stdout
    for cache in [path for path in store.rglob("cache") if path.is_dir()]:
        shutil.rmtree(cache)
    assert run(*args, store=store).stdout == first.stdout


def test_no_lock_is_waited_for(store: Path) -> None:
    """If it were, this would not end."""
    with (store / "chats" / CHAT / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for args in READING.values():
            assert run(*args, store=store).exit_code == 0


@pytest.fixture
def theirs(store: Path) -> Iterator[Path]:
    """The store of somebody else, which may be read and not written."""
    with tempfile.TemporaryDirectory(dir="/tmp" if os.geteuid() == 0 else None) as folder:
        copy = Path(shutil.copytree(store, Path(folder) / "store"))
        paths = (copy, *copy.rglob("*"))
        Path(folder).chmod(0o755)
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield copy
        for path in paths:
            path.chmod(0o700)


ASKED = ["ls", "log", "context", "messages", "diff", "why", "tree", "search", "stats", "show-call"]


def test_a_store_that_cannot_be_written_is_read(theirs: Path, store: Path) -> None:
    asked = [READING[name] for name in ASKED]
    before = bytes_of(theirs)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _EACH, json.dumps(asked), str(store), str(theirs)],
        cwd=TOP,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    ours, read = (done.stdout.replace(str(store), str(theirs)).split("\x1e")[part] for part in (0, 1))
    assert read.count("\n") > 100
    assert read == ours
    assert bytes_of(theirs) == before


_EACH = """
import json, os, sys
from chatfold.replay.cli import main
for number, store in enumerate(sys.argv[2:]):
    if number and os.geteuid() == 0:  # root may write anything. By now everything that is needed is imported
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    for args in json.loads(sys.argv[1]):
        try:
            main([*args, "--store", store])
        except SystemExit as ended:
            assert not ended.code, (args, ended.code)
    sys.stdout.write("\\x1e")
"""


def test_what_a_fork_may_not_write_is_told(theirs: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anything")
    done = run("fork", CHAT, store=theirs)
    assert done.exit_code == 7
    assert_one_line(done.stderr, "Permission denied")


def test_what_is_made_is_nobody_elses_to_read(store: Path) -> None:
    assert run("fork", CHAT, "--name", "mine", store=store).exit_code == 0
    for path in (store / "chats" / "mine").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


# --- what others write meanwhile -------------------------------------------------------------------------

_WRITER = """
import asyncio, sys
from chatfold.agent import Store, assistant, user
async def write():
    async with Store(sys.argv[1], durability="normal") as store:
        chat = await store.chat("talk")
        for number in range(int(sys.argv[2])):
            await chat.record(user(f"question {number}"), assistant(f"answer {number}"))
asyncio.run(write())
"""


class Watching:
    """``chatfold log -f`` in a process of its own."""

    def __init__(self, *args: object, store: Path) -> None:
        self.process = subprocess.Popen(
            command("log", *args, "-f", "--json"),
            cwd=TOP,
            env=environment(store),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._alarm = threading.Timer(300, self.process.kill)  # a test that fails ends, too
        self._alarm.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._alarm.cancel()
        self.process.kill()
        self.process.communicate()

    def rows(self, count: int) -> list[tuple[int, str]]:
        assert self.process.stdout is not None
        read = [json.loads(self.process.stdout.readline()) for _ in range(count)]
        return [(row["seq"], row["text"]) for row in read]

    def ended(self) -> tuple[int, str]:
        _, complaint = self.process.communicate(timeout=300)
        return self.process.returncode, complaint


async def begun(root: Path) -> None:
    async with Store(root) as store:
        await (await store.chat("talk")).record(user("begin"))


def test_a_chat_that_is_written_while_it_is_watched_is_seen_whole(tmp_path: Path) -> None:
    asyncio.run(begun(tmp_path))
    with Watching("talk", store=tmp_path) as watching:
        writers = [started(_WRITER, tmp_path, 20) for _ in range(2)]
        seen = watching.rows(81)
        for writer in writers:
            finished(writer)
    there = [line["text"] for line in lines(run("log", "talk", "--json", store=tmp_path))]
    assert seen == list(enumerate(there, 1))


def test_what_is_watched_may_be_chosen(tmp_path: Path) -> None:
    asyncio.run(begun(tmp_path))
    with (
        Watching("talk", "--kind", "assistant", store=tmp_path) as answers,
        Watching("talk", "-n", "1", "-S", "question 3", store=tmp_path) as questions,
    ):
        finished(started(_WRITER, tmp_path, 5))
        assert answers.rows(5) == [(3 + 2 * number, f"answer {number}") for number in range(5)]
        assert questions.rows(1) == [(8, "question 3")]


def test_a_chat_that_is_deleted_while_it_is_watched_ends_it_in_one_line(tmp_path: Path) -> None:
    asyncio.run(begun(tmp_path))
    with Watching("talk", store=tmp_path) as watching:
        assert watching.rows(1) == [(1, "begin")]

        async def delete() -> None:
            async with Store(tmp_path) as store:
                await store.delete("talk")

        asyncio.run(delete())
        code, complaint = watching.ended()
    assert code == 3
    assert_one_line(complaint, "talk")


def test_every_verb_works_while_others_write(tmp_path: Path) -> None:
    asyncio.run(begun(tmp_path))
    writer = started(_WRITER, tmp_path, 200)
    asked = (
        ["ls"],
        ["log", "talk"],
        ["context", "talk"],
        ["messages", "talk"],
        ["stats", "talk"],
        ["search", "question"],
    )
    rounds = 0
    while writer.poll() is None or not rounds:
        rounds += 1
        for args in asked:
            done = run(*args, store=tmp_path)
            assert done.exit_code in (0, 1) if args[0] == "search" else done.exit_code == 0, done.output
    finished(writer)
    assert len(list(scan(tmp_path / "chats" / "talk"))) == 401


def test_a_fork_is_made_while_the_parent_is_held(store: Path) -> None:
    async def both() -> None:
        async with Store(store) as place:
            chat = await place.chat(FORK)
            assert (await asyncio.to_thread(run, "fork", FORK, "--name", "third", store=store)).exit_code == 0
            await chat.record(assistant("and on"))

    asyncio.run(both())
    assert len(list(scan(store / "chats" / "third"))) == 6
