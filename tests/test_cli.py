"""The ``chatfold`` command as a whole: how it begins, how it ends, and what it says when something is wrong.

What each verb prints is in ``tests/replay/test_commands_*.py``.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chatfold.eventlog import scan
from chatfold.eventlog.line import add_checksum
from chatfold.replay.cli import VERBS, cli

_ASKS = ["model_called", "model_returned", "tool_called", "tool_returned"]
_ANSWERS = ["model_called", "model_returned", "message_added", "run_finished"]
TURN = ["message_added", "run_started", "injected", *_ASKS, *_ANSWERS]
TAGS = [*TURN[:3], "noted", "noted", *TURN[3:], *TURN, "compacted", *TURN]
ENTRIES, CALL = len(TAGS), TAGS.index("tool_called") + 1


def run(*args: str | Path, store: Path | None = None) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args], env={"CHATFOLD_STORE": str(store or "")})


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    assert run("demo", tmp_path).exit_code == 0
    return tmp_path / "chats" / "lexer-bug"


def tags(chat: Path) -> list[str]:
    return [str(type(entry.event).__struct_config__.tag) for entry in scan(chat)]


def segment(chat: Path) -> Path:
    return chat / "0000000000000001.jsonl"


def damage(chat: Path, old: bytes, new: bytes) -> None:
    content = segment(chat).read_bytes()
    assert old in content
    segment(chat).write_bytes(content.replace(old, new, 1))


def assert_one_line(result: Result, code: int, text: str) -> None:
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert text in result.stderr
    assert result.stderr.startswith("chatfold: ")
    assert result.stderr.count("\n") == 1


# --- demo ------------------------------------------------------------------------------------------------


def test_demo_records_a_chat_and_prints_it_back(tmp_path: Path) -> None:
    result = run("demo", tmp_path)
    assert result.exit_code == 0
    assert "▸ user\tWhy does the lexer drop newlines?" in result.stdout
    assert tags(tmp_path / "chats" / "lexer-bug") == TAGS
    shown = [line.split("\t") for line in result.stdout.splitlines() if "\t" in line]
    assert [int(fields[0]) for fields in shown[:ENTRIES]] == list(range(1, ENTRIES + 1))


def test_demo_says_what_to_try_next_and_it_works(tmp_path: Path) -> None:
    import shlex

    result = run("demo", tmp_path)
    tried = [shlex.split(line, comments=True) for line in result.stdout.splitlines() if line.startswith("  ")]
    verbs = [words[1] for words in tried if words[0] != "jq"]
    assert verbs == ["log", "messages", "diff", "why", "step", "check", "demo"]
    for words in tried:
        if words[0] == "jq":
            assert Path(words[-1]).read_bytes().count(b"\n") == ENTRIES + 1
        elif words[1] != "step":
            assert run(*words[1:]).exit_code == 0, words


def test_demo_forks_the_chat_before_the_tool_was_called(chat: Path) -> None:
    branch = list(scan(chat.with_name("lexer-bug-what-if-1")))
    assert branch[0] == next(scan(chat))
    assert [type(entry.event).__name__ for entry in branch[1:]] == ["Forked", "MessageAdded"]


def test_demo_again_goes_on_in_the_same_chat(chat: Path) -> None:
    before = list(scan(chat))
    assert run("demo", chat.parents[1]).exit_code == 0
    after = list(scan(chat))
    assert after[: len(before)] == before
    assert tags(chat)[len(before) :] == [*TURN, "compacted"]  # what the model was told besides is noted once
    assert after[len(before)].event != before[0].event


def test_demo_uses_a_folder_of_its_own_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("demo").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["chatfold-demo"]


def test_demo_in_a_file_fails_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert_one_line(run("demo", tmp_path / "file"), 7, "Not a directory")


def test_demo_where_nothing_may_be_made_fails_in_one_line() -> None:
    result = run("demo", "/proc/chatfold-demo")
    assert result.exit_code in (3, 7)
    assert_one_line(result, result.exit_code, "/proc/chatfold-demo")


def test_demo_in_a_damaged_store_fails_in_one_line(chat: Path) -> None:
    damage(chat, b"lexer drop", b"lexer keep")
    assert_one_line(run("demo", chat.parents[1]), 4, "do not verify")


# --- check, repair, salvage ------------------------------------------------------------------------------


def test_check_of_a_healthy_chat_ends_with_0(chat: Path) -> None:
    result = run("check", chat)
    assert (result.exit_code, result.stdout) == (0, f"ok: {chat}: {ENTRIES} entries in 1 segment\n")


def test_check_of_a_store_looks_at_every_chat(chat: Path) -> None:
    damage(chat, b"lexer drop", b"lexer keep")
    result = run("check", store=chat.parents[1])
    assert result.exit_code == 4
    assert [line.split(":")[0] for line in result.stdout.splitlines() if line[0] != " "] == ["damaged", "ok"]


def test_check_of_a_torn_chat_ends_with_1(chat: Path) -> None:
    with segment(chat).open("ab") as file:
        file.write(b'{"seq":%d,"ts":17' % (ENTRIES + 1))
    result = run("check", chat)
    assert result.exit_code == 1
    assert result.stdout.startswith("torn: ")
    assert f"seq {ENTRIES + 1}" in result.stdout


def test_check_of_a_damaged_chat_ends_with_4_and_names_the_place(chat: Path) -> None:
    offset = segment(chat).read_bytes().index(b'{"seq":%d,' % CALL)
    damage(chat, b'"args":{"path"', b'"args":{"bath"')
    result = run("check", chat)
    assert result.exit_code == 4
    assert f"at byte {offset}, seq {CALL}" in result.stdout


def test_check_finds_a_chat_by_its_key_and_by_the_beginning_of_it(chat: Path) -> None:
    store = chat.parents[1]
    assert run("check", "lexer-bug", store=store).stdout == f"ok: {chat}: {ENTRIES} entries in 1 segment\n"
    assert "lexer-bug-what-if-1" in run("check", "lexer-bug-w", store=store).stdout
    assert_one_line(run("check", "lexer-buk", store=store), 3, "did you mean 'lexer-bug'?")


def test_check_changes_nothing(chat: Path) -> None:
    damage(chat, b'"args":{"path"', b'"args":{"bath"')
    before = {path: path.stat().st_mtime_ns for path in chat.parents[1].rglob("*")}
    assert run("check", chat).exit_code == 4
    assert run("check", chat, "--fast").exit_code in (0, 4)
    assert {path: path.stat().st_mtime_ns for path in chat.parents[1].rglob("*")} == before


def test_repair_keeps_a_copy_and_says_what_was_lost(chat: Path) -> None:
    damage(chat, b'"args":{"path"', b'"args":{"bath"')
    broken = segment(chat).read_bytes()
    result = run("check", chat, "--repair")
    assert result.exit_code == 0
    assert f"could not be kept: e{CALL}\n" in result.stdout
    [copy] = (chat / "aside").iterdir()
    assert copy.read_bytes() == broken
    assert run("check", chat).exit_code == 0


def test_a_repair_looks_at_everything(chat: Path) -> None:
    result = run("check", chat, "--repair", "--fast")
    assert result.exit_code == 2
    assert "leave out --fast" in result.stderr


def test_salvage_copies_out_what_verifies(chat: Path, tmp_path: Path) -> None:
    damage(chat, b'"args":{"path"', b'"args":{"bath"')
    result = run("salvage", chat, tmp_path / "out")
    assert result.exit_code == 0
    assert f"{ENTRIES - 1} entries" in result.stdout
    assert (tmp_path / "out" / "salvaged.jsonl").read_bytes().count(b"\n") == ENTRIES - 1


def test_what_may_be_another_chats_is_named_by_repair_and_salvage(chat: Path, tmp_path: Path) -> None:
    other = chat.parent / "lexer-bug-what-if-1"
    theirs = segment(other).read_bytes().splitlines(keepends=True)[-1]
    strange = theirs.replace(b'"seq":', b'"seq":1', 1)  # far from all the others, so linked to none
    body = strange[: strange.index(b',"sum"')]
    segment(chat).write_bytes(segment(chat).read_bytes() + add_checksum(body) + b"\n")
    damage(chat, b'"args":{"path"', b'"args":{"bath"')
    salvaged = run("salvage", chat, tmp_path / "out")
    assert "1 line that may be another chat's" in salvaged.stdout
    assert (tmp_path / "out" / "unproven.jsonl").read_bytes().count(b"\n") == 1
    assert "nothing proves that it is of this chat: e" in run("check", chat, "--repair").stdout
    assert run("check", chat).exit_code == 0


def test_salvage_into_a_folder_that_is_there_fails_in_one_line(chat: Path, tmp_path: Path) -> None:
    assert_one_line(run("salvage", chat, tmp_path), 7, "File exists")


def test_a_folder_that_is_no_chat_fails_in_one_line(tmp_path: Path, chat: Path) -> None:
    assert_one_line(run("check", tmp_path / "nowhere", store=tmp_path), 3, "nowhere")
    (tmp_path / "empty").mkdir()
    assert_one_line(run("check", tmp_path / "empty"), 3, "no store and no chat")
    assert_one_line(run("salvage", tmp_path / "nowhere", tmp_path / "out"), 3, "not the folder of a chat")


# --- how it begins and ends ------------------------------------------------------------------------------


def process(*args: object, **options: object) -> "subprocess.CompletedProcess[str]":
    program = [sys.executable, "-W", "error", "-m", "chatfold", *map(str, args)]
    settings = {"capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run(program, check=False, **settings)  # type: ignore[call-overload,no-any-return]


def test_without_a_verb_it_tells_what_there_is() -> None:
    shown = process(stdin=subprocess.DEVNULL)
    assert shown.returncode == 0
    assert all(f"  {verb} " in shown.stdout for verb in VERBS)


def test_a_verb_that_there_is_not_is_answered_with_the_nearest() -> None:
    done = process("shwo", "last")
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no verb 'shwo'. Did you mean 'show'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_option_that_there_is_not_is_answered_with_the_nearest(tmp_path: Path) -> None:
    done = process("log", "last", "--revers")
    assert done.returncode == 2
    assert "--reverse" in done.stderr


def test_help_does_not_wait_for_an_event_loop() -> None:
    program = (
        "import sys\nfrom chatfold.replay.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'asyncio', 'chatfold.eventlog', 'watchfiles', 'msgspec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", ["demo", "ls", "log"])
def test_output_that_nobody_reads_ends_quietly(verb: str, tmp_path: Path) -> None:
    if verb != "demo":
        assert run("demo", tmp_path).exit_code == 0
    reading, writing = os.pipe()
    os.close(reading)
    args = (
        ["demo", tmp_path]
        if verb == "demo"
        else [verb, *["lexer-bug"] * (verb == "log"), "--store", tmp_path]
    )
    done = process(*args, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
    assert len(list(scan(tmp_path / "chats" / "lexer-bug"))) == ENTRIES


def test_a_closed_stdout_is_no_reason_to_complain(tmp_path: Path) -> None:
    assert run("demo", tmp_path).exit_code == 0
    shell = f'exec "{sys.executable}" -W error -m chatfold ls --store "{tmp_path}" >&-'
    done = subprocess.run(["sh", "-c", shell], stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_ends_with_130_and_no_traceback(tmp_path: Path) -> None:
    assert run("demo", tmp_path).exit_code == 0
    program = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "chatfold",
        "log",
        "lexer-bug",
        "-f",
        "--store",
        str(tmp_path),
    ]
    with subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        for _ in range(ENTRIES):
            watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, complaint = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert complaint.strip() == ""
