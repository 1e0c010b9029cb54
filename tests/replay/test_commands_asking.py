"""Which chat, which point, and what is said when there is none: every exit code, and one line with what to do next."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chatfold.agent import Store, user
from chatfold.eventlog import check
from chatfold.eventlog.line import add_checksum
from chatfold.replay.command import verb
from chatfold.replay.output import Out
from tests.support.debugger.commanded import (
    TOP,
    assert_one_line,
    bytes_of,
    contents,
    environment,
    lines,
    process,
    run,
)
from tests.support.debugger.scripted import CHAT, FORK, WIDE, scripted


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(scripted(tmp_path_factory.mktemp("asking") / "store"))


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "store"))


def seqs(*args: object, store: Path) -> list[int]:
    return [line["seq"] for line in lines(run("log", *args, "--json", store=store))]


# --- addresses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "first", "last"),
    [
        (CHAT, 1, 34),
        (f"{CHAT}@5", 1, 5),
        (f"{CHAT}@e5", 1, 5),
        (f"{CHAT}@c1^..s1", 19, 20),
        (f"{CHAT}@t1.0..t1", 3, 16),
        (f"{CHAT}@t4..", 30, 34),
        (f"{CHAT}@..before-tools", 1, 3),
        (f"{CHAT}@head-2..head", 33, 34),
        (f"{CHAT}@m2..m-1", 12, 32),
        (f"{CHAT}@label:before-tools..s-1", 4, 23),
        (f"{CHAT}@..2025-02-05T00:00:09Z", 1, 9),
        (f"{CHAT}@..-1d", 1, 34),
        (f"{FORK}", 1, 5),
        ("lexer-bug-w", 1, 5),
        ("last", 1, 2),
    ],
)
def test_a_range_is_what_came_after_one_point_up_to_another(
    address: str, first: int, last: int, store: Path
) -> None:
    assert seqs(address, store=store) == list(range(first, last + 1))


def test_a_chat_is_also_named_by_a_path(store: Path, tmp_path: Path) -> None:
    assert run("export", CHAT, "-o", tmp_path / "out.jsonl", store=store).exit_code == 0
    outside = shutil.copytree(store / "chats" / CHAT, tmp_path / "elsewhere")
    for place in (store / "chats" / CHAT, tmp_path / "out.jsonl", outside):
        for point, count in (("", 34), ("@t1", 16)):
            assert len(seqs(f"{place}{point}", store=tmp_path)) == count


def test_a_key_may_look_like_an_address(tmp_path: Path) -> None:
    async def make() -> None:
        async with Store(tmp_path) as store:
            for key in ("a@b", "a", "x@1..2"):
                await (await store.chat(key)).record(user(key))

    asyncio.run(make())
    for key in ("a@b", "x@1..2", "a"):
        assert lines(run("log", key, "--json", store=tmp_path))[0]["text"] == key
    assert lines(run("log", "a@b@1", "--json", store=tmp_path))[0]["text"] == "a@b"


def test_the_store_is_the_one_that_is_named_else_that_of_the_environment_else_here(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("ls", "--store", store, store=tmp_path / "other").exit_code == 0
    assert run("--store", store, "ls").exit_code == 0
    assert run("ls", store=store).exit_code == 0
    monkeypatch.chdir(store)
    assert run("ls").exit_code == 0
    (tmp_path / "project").mkdir()
    store.rename(tmp_path / "project" / "chats")
    monkeypatch.chdir(tmp_path / "project")
    assert run("ls").exit_code == 0


# --- exit codes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["log", "lexe"], 2, f"could be '{CHAT}', '{FORK}'"),
        (["log", "lexer-bug-what-iff"], 3, f"did you mean '{FORK}'?"),
        (["log", "lex"], 3, "no chat 'lex'"),  # too little of a key to name a chat
        (["log", ""], 2, "key"),
        (["log", f"{CHAT}@t9"], 3, "there is no turn 9: the chat has 5"),
        (["log", f"{CHAT}@c2"], 3, "there is no compaction 2: the chat has 1"),
        (["log", f"{WIDE}@c1"], 3, "there is no compaction 1: the chat has none"),
        (["log", f"{CHAT}@99"], 3, "there is no entry 99"),
        (["log", f"{CHAT}@head-99"], 3, "before the beginning"),
        (["log", f"{CHAT}@before-tool"], 3, "did you mean 'before-tools'?"),
        (["log", f"{CHAT}@t2..t1"], 3, "comes after"),
        (["log", f"{CHAT}@^"], 2, "not a point"),
        (["log", f"{CHAT}@2026-99-99"], 2, "not a time"),
        (["log", f"{CHAT}@-999999w"], 2, "no calendar"),
        (["ls", "--since", "t3"], 2, "not a time"),
        (["show", f"{CHAT}@0"], 3, "nothing to show"),
        (["context", CHAT, "--id", "nowhere"], 3, "no context 'nowhere'"),
        (["messages", CHAT, "--for-call", "9"], 3, "no model call 9"),
        (["diff", CHAT], 2, "between which two points"),
        (["why", CHAT, ""], 2, ""),
        (["why", CHAT, "e99"], 3, "99"),
        (["search", ""], 2, ""),
        (["export", CHAT, "--redact", "re:("], 2, "not a regular expression"),
        (["fork", CHAT, "--name", FORK], 7, FORK),
        (["log", "./nowhere.jsonl"], 3, "nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_not_there_is_told_in_one_line(args: list[str], code: int, said: str, store: Path) -> None:
    before = contents(store)
    done = run(*args, store=store)
    assert (done.exit_code, done.stdout) == (code, "")
    assert_one_line(done.stderr, said)
    assert "?." not in done.stderr
    assert contents(store) == before


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["search", "wordthatnobodysaid"], "no entry holds all these words"),
        (["log", CHAT, "-S", "words that nobody said"], "no such entry"),
        (["ls", "-q", "wordthatnobodysaid"], "there is no such chat"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_that_nothing_is_found_is_said_to_people(args: list[str], said: str, store: Path) -> None:
    done = run(*args, store=store)
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"{said}\n")
    assert run(*args, "--quiet", store=store).output == ""


@pytest.mark.parametrize(
    "args",
    [
        ["log", CHAT, "-n", "-1"],
        ["log", CHAT, "--turns", "-f"],
        ["log"],
        ["ls", "--sort", "luck"],
        ["diff", CHAT, "--as", "morse"],
        ["messages", CHAT, "--as", "morse"],
        ["stats", CHAT, "--height", "0"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_what_is_asked_wrongly_ends_with_2(args: list[str], store: Path) -> None:
    done = run(*args, store=store)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["log", CHAT, "-S", "xyzzy"],
        ["log", CHAT, "--kind", "lost"],
        ["ls", "-q", "xyzzy"],
        ["search", "xyzzy"],
        ["search", "lexer", "--kind", "compacted"],
        ["why", CHAT, "xyzzy"],
        ["diff", f"{CHAT}@c1^..c1", "--exit-code"],
        ["diff", f"{CHAT}@1..", "--what", "events", "--exit-code"],
    ],
    ids=" ".join,
)
def test_nothing_found_and_a_difference_end_with_1(args: list[str], store: Path) -> None:
    assert run(*args, store=store).exit_code == 1


def test_no_difference_ends_with_0(store: Path) -> None:
    assert run("diff", f"{CHAT}@3..7", "--exit-code", store=store).exit_code == 0


def test_no_store_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHATFOLD_STORE", raising=False)
    for words in (["ls"], ["log", "last"], ["check"], ["search", "x"]):
        done = run(*words)
        assert done.exit_code == 3
        assert_one_line(done.stderr, "no store here", "chatfold demo")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_has_no_last_chat(tmp_path: Path) -> None:
    (tmp_path / "chats").mkdir()
    assert run("ls", store=tmp_path).exit_code == 1
    done = run("log", "last", store=tmp_path)
    assert done.exit_code == 3
    assert_one_line(done.stderr, "empty")


READING: list[list[str]] = [
    ["log", CHAT],
    ["log", CHAT, "--turns"],
    ["show", f"{CHAT}@5"],
    ["context", CHAT],
    ["context", CHAT, "--lifetimes"],
    ["messages", CHAT],
    ["diff", f"{CHAT}@1..3"],
    ["why", CHAT, "lexer"],
    ["stats", CHAT],
    ["fork", CHAT],
    ["replay", CHAT],
    ["export", CHAT],
]


def broken(store: Path, old: bytes, new: bytes) -> None:
    """In the middle of the log, and no window is there that would spare us reading it."""
    [segment] = (store / "chats" / CHAT).glob("*.jsonl")
    shutil.rmtree(store / "chats" / CHAT / "cache", ignore_errors=True)
    content = segment.read_bytes()
    assert old in content
    segment.write_bytes(content.replace(old, new, 1))


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_damaged_log_is_told_and_nothing_is_changed(args: list[str], store: Path) -> None:
    broken(store, b"split(): it splits", b"split(): it spl1ts")
    before = bytes_of(store)
    done = run(*args, store=store)
    assert done.exit_code == 4
    assert_one_line(done.stderr, "0000000000000001.jsonl", "offset", "seq")
    assert bytes_of(store) == before


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_log_of_a_newer_version_is_told_and_nothing_is_changed(args: list[str], store: Path) -> None:
    header = b'{"chatfold":%d,"reader":%d,"first":1,"prev":"0000000000000000"'
    broken(store, add_checksum(header % (1, 1)), add_checksum(header % (9, 9)))
    before = bytes_of(store)
    done = run(*args, store=store)
    assert done.exit_code == 5
    assert_one_line(done.stderr)
    assert bytes_of(store) == before
    assert run("check", CHAT, store=store).exit_code == 5


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_torn_tail_is_passed_over_and_left_where_it_is(args: list[str], store: Path) -> None:
    [segment] = (store / "chats" / CHAT).glob("*.jsonl")
    whole = run(*args, store=store)
    with segment.open("ab") as file:
        file.write(b'{"seq":35,"ts":17')
    (store / "chats" / CHAT / "head").unlink()  # as after a crash: nobody has seen it durable
    before = bytes_of(store / "chats" / CHAT)
    torn = run(*args, store=store)
    assert torn.exit_code == 0
    if args[0] != "fork":  # which makes up a name
        assert torn.stdout == whole.stdout
    assert bytes_of(store / "chats" / CHAT) == before
    assert {problem.kind for problem in check(store / "chats" / CHAT).problems} == {"torn"}


def test_a_chat_that_cannot_be_read_hides_no_other(store: Path) -> None:
    broken(store, b"split(): it splits", b"split(): it spl1ts")
    listed = {line["key"]: line["error"] for line in lines(run("ls", "--json", store=store))}
    assert set(listed) == {CHAT, FORK, WIDE}
    assert [key for key, error in listed.items() if error] == [CHAT]
    found = run("search", "i", "-n", "100", store=store)
    assert found.exit_code == 0
    assert f"{WIDE}@2\t" in found.stdout
    assert "does not verify" in found.stderr
    assert run("tree", FORK, store=store).exit_code == 0


def test_an_extra_that_is_missing_ends_with_6_and_says_how_to_get_it(store: Path, tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text(
        "from chatfold.agent import Agent, OpenAIModel\n"
        "def build(store):\n"
        "    return Agent(store=store, model=OpenAIModel('some-model'))\n"
    )
    program = (
        "import sys; sys.modules['openai'] = None\n"
        "from chatfold.replay.cli import main\n"
        f"main(['rerun', '{CHAT}@t1', '--yes', '--agent', {str(bot) + ':build'!r}, '--store', {str(store)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TOP,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 6, done.stderr
    assert_one_line(done.stderr, "pip install 'chatfold[openai]'")


def test_a_store_that_may_not_be_looked_at_ends_with_7(store: Path) -> None:
    done = process("ls", "--store", store / "chats" / CHAT / "head" / "x")
    assert done.returncode in (3, 7)
    assert_one_line(done.stderr)


def test_a_complaint_stands_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    @verb("chatfold fail")
    async def fail(out: Out, store: str | None) -> int:
        out._telling = True  # a line of progress stands there
        raise FileNotFoundError(2, "no such file", "somewhere")

    with pytest.raises(SystemExit):
        fail.main([])
    assert capsys.readouterr().err == "\r\x1b[Kchatfold: no such file: somewhere\n"
