"""The ``chatfold`` command, as its user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from eventlog import Entry, MessageAdded, Text, scan
from replay.cli import entry_line, main, printable

TAGS = [
    "message_added",
    "run_started",
    "injected",
    "noted",
    "noted",
    "model_called",
    "model_returned",
    "tool_called",
    "tool_returned",
    "model_called",
    "model_returned",
    "message_added",
    "run_finished",
]
ENTRIES, CALL = len(TAGS), TAGS.index("tool_called") + 1


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    assert run("demo", tmp_path).exit_code == 0
    return tmp_path / "chats" / "lexer-bug"


def segment(chat: Path) -> Path:
    return chat / "0000000000000001.jsonl"


def damage(chat: Path, old: bytes, new: bytes) -> None:
    content = segment(chat).read_bytes()
    assert old in content
    segment(chat).write_bytes(content.replace(old, new))


# --- demo ------------------------------------------------------------------------------------------------


def test_demo_records_a_chat_and_prints_it_back(tmp_path: Path) -> None:
    result = run("demo", tmp_path)
    assert result.exit_code == 0
    assert "user: Why does the lexer drop newlines?" in result.stdout
    entries = list(scan(tmp_path / "chats" / "lexer-bug"))
    assert all(entry_line(entry) in result.stdout for entry in entries)
    tags = [type(entry.event).__struct_config__.tag for entry in entries]
    assert tags == TAGS


def test_demo_says_what_to_try_next_and_it_works(tmp_path: Path) -> None:
    result = run("demo", tmp_path)
    [path] = {
        word
        for line in result.stdout.splitlines()
        if "jq" in line
        for word in line.split()
        if ".jsonl" in word
    }
    lines = Path(path).read_bytes().splitlines()
    assert [json.loads(line)["seq"] for line in lines[1:]] == list(range(1, ENTRIES + 1))


def test_demo_forks_the_chat_before_the_tool_was_called(chat: Path) -> None:
    branch = list(scan(chat.with_name("lexer-bug-what-if-1")))
    assert branch[0] == next(scan(chat))
    assert [type(entry.event).__name__ for entry in branch[1:]] == ["Forked", "MessageAdded"]


def test_demo_again_goes_on_in_the_same_chat(chat: Path) -> None:
    before = list(scan(chat))
    assert run("demo", chat.parents[1]).exit_code == 0
    after = list(scan(chat))
    assert after[: len(before)] == before
    assert len(after) == 2 * len(before) - 2  # what the model was told besides is noted once
    assert after[len(before)].event != before[0].event


def test_demo_uses_a_folder_of_its_own_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("demo").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["chatfold-demo"]


def test_demo_in_a_file_fails_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert_one_line(run("demo", tmp_path / "file"), 1, "Not a directory")


def test_demo_where_nothing_may_be_made_fails_in_one_line() -> None:
    assert_one_line(run("demo", "/proc/chatfold-demo"), 1, "/proc/chatfold-demo")


def test_demo_in_a_damaged_store_fails_in_one_line(chat: Path) -> None:
    damage(chat, b"lexer drop", b"lexer keep")
    assert_one_line(run("demo", chat.parents[1]), 1, "do not verify")


def assert_one_line(result: Result, code: int, text: str) -> None:
    assert result.exit_code == code
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert text in result.stderr
    assert result.stderr.startswith("chatfold: ")
    assert result.stderr.count("\n") == 1


# --- check, repair, salvage ------------------------------------------------------------------------------


def test_check_of_a_healthy_chat_ends_with_0(chat: Path) -> None:
    result = run("check", chat)
    assert (result.exit_code, result.stdout) == (0, f"ok: {chat}: {ENTRIES} entries in 1 segment\n")


def test_check_of_a_store_looks_at_every_chat(chat: Path) -> None:
    damage(chat, b"lexer drop", b"lexer keep")
    result = run("check", chat.parents[1])
    assert result.exit_code == 2
    assert [line.split(":")[0] for line in result.stdout.splitlines() if line[0] != " "] == ["damaged", "ok"]


def test_check_of_a_torn_chat_ends_with_1(chat: Path) -> None:
    with segment(chat).open("ab") as file:
        file.write(b'{"seq":%d,"ts":17' % (ENTRIES + 1))
    result = run("check", chat)
    assert result.exit_code == 1
    assert result.stdout.startswith("torn: ")
    assert f"seq {ENTRIES + 1}" in result.stdout


def test_check_of_a_damaged_chat_ends_with_2_and_names_the_place(chat: Path) -> None:
    offset = segment(chat).read_bytes().index(b'{"seq":%d,' % CALL)
    damage(chat, b'"args":{"path"', b'"args":{"bath"')
    result = run("check", chat)
    assert result.exit_code == 2
    assert f"at byte {offset}, seq {CALL}" in result.stdout


def test_check_changes_nothing(chat: Path) -> None:
    damage(chat, b'"args":{"path"', b'"args":{"bath"')
    before = {path: path.stat().st_mtime_ns for path in chat.parents[1].rglob("*")}
    run("check", chat)
    assert {path: path.stat().st_mtime_ns for path in chat.parents[1].rglob("*")} == before


def test_repair_keeps_a_copy_and_says_what_was_lost(chat: Path) -> None:
    damage(chat, b'"args":{"path"', b'"args":{"bath"')
    broken = segment(chat).read_bytes()
    result = run("check", chat, "--repair")
    assert result.exit_code == 0
    assert f"could not be kept: {CALL}\n" in result.stdout
    [copy] = (chat / "aside").iterdir()
    assert copy.read_bytes() == broken
    assert run("check", chat).exit_code == 0


def test_salvage_copies_out_what_verifies(chat: Path, tmp_path: Path) -> None:
    damage(chat, b'"args":{"path"', b'"args":{"bath"')
    result = run("salvage", chat, tmp_path / "out")
    assert result.exit_code == 0
    assert f"{ENTRIES - 1} entries" in result.stdout
    assert (tmp_path / "out" / "salvaged.jsonl").read_bytes().count(b"\n") == ENTRIES - 1


def test_salvage_into_a_folder_that_is_there_fails_in_one_line(chat: Path, tmp_path: Path) -> None:
    assert_one_line(run("salvage", chat, tmp_path), 1, "File exists")


@pytest.mark.parametrize(("verb", "code"), [("check", 2), ("salvage", 1)])
def test_a_folder_that_is_no_chat_fails_in_one_line(verb: str, code: int, tmp_path: Path) -> None:
    args = [tmp_path / "nowhere"] + [tmp_path / "out"] * (verb == "salvage")
    assert_one_line(run(verb, *args), code, "not the folder of a chat")


# --- the terminal ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x07", "a\nb", "\r", "\u202eevil", "\x9b31m", "\ud800", "\x7f", "\u2028"]
)
def test_stored_text_cannot_steer_the_terminal(text: str) -> None:
    line = entry_line(Entry(1, 0, MessageAdded("user", (Text(text),))))
    assert line.isprintable()
    assert line.endswith(printable(text))


def test_plain_text_is_printed_as_it_is() -> None:
    assert printable("héllo 日本語 \U0001f600 \\n") == "héllo 日本語 \U0001f600 \\n"


def test_a_long_text_is_cut_to_one_line() -> None:
    assert len(entry_line(Entry(1, 0, MessageAdded("user", (Text("x" * 10_000),))))) < 120


def test_help_does_not_wait_for_an_event_loop() -> None:
    program = (
        "import sys\nfrom replay.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'asyncio', 'eventlog', 'watchfiles', 'msgspec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_output_that_nobody_reads_ends_quietly(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-m", "replay.cli", "demo", str(tmp_path)]
    done = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert len(list(scan(tmp_path / "chats" / "lexer-bug"))) == ENTRIES
