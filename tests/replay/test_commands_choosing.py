"""What ls, log, search, why and fork choose: of the chats, of the entries, and where a fork begins."""

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.debugger.commanded import assert_one_line, bytes_of, lines, on_terminal, run
from tests.support.debugger.scripted import CHAT, FORK, WIDE, scripted


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(scripted(tmp_path_factory.mktemp("choosing") / "store"))


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "store"))


def seqs(*args: object, store: Path) -> list[int]:
    return [line["seq"] for line in lines(run("log", *args, "--json", store=store))]


# --- fork ------------------------------------------------------------------------------------------------


def test_a_fork_has_everything_up_to_the_point_and_the_parent_stays_as_it_is(store: Path) -> None:
    before = bytes_of(store / "chats" / CHAT)
    done = run("fork", f"{CHAT}@t1", store=store)
    key = done.stdout.strip()
    assert key.startswith(f"{CHAT}-16-")
    assert seqs(key, store=store) == list(range(1, 18))
    after = bytes_of(store / "chats" / CHAT)
    assert {name: one[2] for name, one in after.items()} == {name: one[2] for name, one in before.items()}


def test_a_fork_may_ask_something_else(store: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text("import sys; open(sys.argv[1], 'a').write('\\nAnd briefly.')")
    args = ("fork", f"{CHAT}@t1", "--edit", "--name", "edited")
    refused = run(*args, store=store, VISUAL="", EDITOR=f"{sys.executable} {editor}")
    assert (refused.exit_code, "needs a terminal" in refused.stderr) == (2, True)
    more = {"VISUAL": "", "EDITOR": f"{sys.executable} {editor}"}
    assert on_terminal(*args, store=store, more=more).code == 0
    assert lines(run("log", "edited", "--json", store=store))[-1]["text"] == (
        "Why does the lexer drop newlines?\nAnd briefly."
    )
    assert seqs("edited", store=store) == [1, 2, 3]


def test_an_editor_that_leaves_nothing_forks_nothing(store: Path) -> None:
    before = bytes_of(store / "chats")
    for editor in ("false", "cp /dev/null"):
        done = on_terminal("fork", CHAT, "--edit", store=store, more={"VISUAL": "", "EDITOR": editor})
        assert done.code == 7
        assert "Nothing was forked" in done.text
    assert on_terminal("fork", f"{CHAT}@1", "--edit", store=store).code == 3
    assert bytes_of(store / "chats") == before


def test_a_fork_of_what_is_in_no_store_is_refused(store: Path, tmp_path: Path) -> None:
    assert run("export", CHAT, "-o", tmp_path / "out.jsonl", store=store).exit_code == 0
    done = run("fork", f"{tmp_path / 'out.jsonl'}@t1", store=store)
    assert done.exit_code == 2
    assert_one_line(done.stderr, "chatfold import")
    inside = run("fork", f"{store / 'chats' / CHAT}@t1", "--name", "inside", store=tmp_path)
    assert inside.exit_code == 0
    assert (store / "chats" / "inside").is_dir()


# --- what a list selects ---------------------------------------------------------------------------------


def test_what_log_selects(store: Path) -> None:
    whole = lines(run("log", CHAT, "--json", store=store))
    assert seqs(CHAT, "-n", 3, store=store) == [32, 33, 34]
    assert seqs(CHAT, "-n", 3, "--reverse", store=store) == [34, 33, 32]
    assert seqs(CHAT, "--reverse", store=store) == list(range(34, 0, -1))
    assert (
        seqs(CHAT, "--errors", store=store)
        == [line["seq"] for line in whole if line["failed"]]
        == [10, 33, 34]
    )
    assert seqs(CHAT, "--kind", "user,compacted", store=store) == [2, 17, 19, 21, 24, 30]
    assert seqs(CHAT, "--kind", "tool_called", "-n", 2, store=store) == [13, 25]
    assert seqs(CHAT, "-S", "vendor/", store=store) == [17, 19]
    assert seqs(f"{CHAT}@18..", "-S", "vendor/", store=store) == [19]
    assert seqs(CHAT, "-S", "vendor/", "--reverse", "-n", 1, store=store) == [19]
    turns = lines(run("log", CHAT, "--turns", "--errors", "--json", store=store))
    assert [turn["turn"] for turn in turns] == [1, 5]
    turns = lines(run("log", CHAT, "--turns", "-n", "2", "--reverse", "--json", store=store))
    assert [turn["turn"] for turn in turns] == [5, 4]


def test_what_ls_selects(store: Path) -> None:
    def keys(*args: str) -> list[str]:
        return [line["key"] for line in lines(run("ls", *args, "--json", store=store))]

    assert keys() == [WIDE, FORK, CHAT]
    assert keys("-n", "1") == [WIDE]
    assert keys("--forks") == [FORK]
    assert keys("--no-forks") == [WIDE, CHAT]
    assert keys("--sort", "turns") == [CHAT, FORK, WIDE]
    assert keys("-q", "NEWLINES") == [FORK, CHAT]
    assert keys("--since", "2025-02-05T00:00:34Z") == [WIDE, FORK]
    assert run("ls", "-n", "1", store=store).stderr == "1 of 3 chats; -n 0 shows all\n"
    assert run("ls", "-n", "1", "--quiet", store=store).stderr == ""


def test_what_search_selects(store: Path) -> None:
    def found(*args: str) -> list[tuple[str, int]]:
        return [(one["chat"], one["seq"]) for one in lines(run("search", *args, "--json", store=store))]

    assert (WIDE, 1) in found("换行符")
    assert {chat for chat, _ in found("lexer", "-C", FORK)} == {FORK}
    assert {seq for _, seq in found("lexer", "-C", CHAT, "--kind", "call")} == {9, 13}
    assert len(found("lexer", "-C", CHAT, "-n", "1")) == 1


def test_why_tells_of_a_point_of_the_past_in_both_ways(store: Path) -> None:
    one = json.loads(run("why", f"{CHAT}@18", "vendor/", "--json", store=store).stdout)
    other = json.loads(run("why", CHAT, "vendor/", "--at", "c1^", "--json", store=store).stdout)
    assert one == other
    assert [trace["now"]["where"] for trace in one["traces"]] == ["active"]


def test_a_request_counted_from_the_end_is_that_before_the_point(store: Path) -> None:
    last = json.loads(run("messages", CHAT, "--for-call", "-1", "--json", store=store).stdout)
    assert (last["number"], last["seq"], last["proved"]) == (3, 32, True)
    first = json.loads(run("messages", f"{CHAT}@t1", "--for-call", "-2", "--json", store=store).stdout)
    assert (first["number"], first["seq"], first["proved"]) == (1, 7, True)
