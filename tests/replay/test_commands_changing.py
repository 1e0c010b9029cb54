"""Verbs that change a store say what they will do and ask; a range is not taken for its end; a store is found whatever its name."""

import asyncio
import shlex
from pathlib import Path

import pytest

from chatfold.agent import Chat, Store, assistant, user
from chatfold.replay.inspect.places import store_place
from tests.support.debugger.commanded import lines, on_terminal, run
from tests.support.debugger.pages import unpack
from tests.support.debugger.scripted import CHAT, FORK, scripted


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return asyncio.run(scripted(tmp_path / "store"))


def keys(store: Path) -> list[str]:
    return [line["key"] for line in lines(run("ls", "--json", "--sort", "key", store=store))]


# --- redact, compact, delete -----------------------------------------------------------------------------


def test_redact_shows_what_it_erases_and_asks(store: Path) -> None:
    refused = run("redact", f"{CHAT}@2", store=store)
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    asked = on_terminal("redact", f"{CHAT}@2", store=store, keys="n\n")
    assert "Why does the lexer drop newlines?" in asked.text
    assert asked.code == 130
    assert "newlines" in run("show", f"{CHAT}@2", store=store).stdout
    [done] = lines(run("redact", f"{CHAT}@2", "--yes", "--json", "--reason", "asked to", store=store))
    assert done["erased"] == {CHAT: [2], FORK: [2]}
    for key in (CHAT, FORK):
        assert "drop newlines" not in run("show", f"{key}@2", store=store).stdout
    assert "asked to" in run("log", CHAT, "--kind", "redacted", store=store).stdout


def test_redact_of_a_fork_says_that_its_parent_shares_the_text(store: Path) -> None:
    refused = run("redact", f"{FORK}@2", store=store)
    assert "in every chat that shares it" in refused.stderr
    [done] = lines(run("redact", f"{FORK}@2", "--yes", "--json", store=store))
    assert done["erased"] == {CHAT: [2], FORK: [2]}


def test_redact_takes_a_range_and_nothing_but_what_is_named(store: Path) -> None:
    assert run("redact", CHAT, "--yes", store=store).exit_code == 2
    [done] = lines(run("redact", f"{CHAT}@13..15", "--yes", "--json", store=store))
    assert done["erased"] == {CHAT: [14, 15]}


def test_compact_puts_older_messages_behind_a_summary(store: Path) -> None:
    async def talk() -> None:
        async with Store(store) as place:
            chat = await place.chat("long")
            for number in range(20):
                await chat.record(user(f"question {number}"), assistant(f"It is because of {number}. " * 20))

    asyncio.run(talk())
    before = lines(run("context", "long", "--json", store=store))[0]
    assert run("compact", "long", store=store).exit_code == 2
    done = lines(run("compact", "long", "--keep", "4", "--yes", "--json", store=store))
    assert done[-1]["before"] == before["tokens"]["count"]
    after = lines(run("context", "long", "--json", store=store))[0]
    assert len(after["items"]) < len(before["items"])
    assert after["tokens"]["count"] == done[-1]["after"]
    assert run("compact", "long", "--keep", "30", "--yes", store=store).exit_code == 1


def test_compact_asks_nothing_if_there_is_nothing_to_do(store: Path) -> None:
    done = run("compact", CHAT, "--keep", "500", store=store)
    assert done.exit_code == 1
    assert "nothing to put behind a summary" in done.stderr
    assert "This puts" not in done.stderr


def test_delete_names_the_chats_and_forks_stay(store: Path) -> None:
    before = keys(store)
    assert run("delete", CHAT, store=store).exit_code == 2
    assert run("delete", store=store).exit_code == 2
    assert keys(store) == before
    done = run("delete", CHAT, "--yes", store=store)
    assert (done.exit_code, done.stdout) == (0, f"deleted: {CHAT}\n")
    assert keys(store) == [key for key in before if key != CHAT]
    assert run("log", FORK, store=store).exit_code == 0


def test_delete_what_is_old(store: Path) -> None:
    async def recent() -> None:
        async with Store(store) as place:
            await (await place.chat("today")).record(user("hello"))

    asyncio.run(recent())
    assert run("delete", "--older", "90d", CHAT, "--yes", store=store).exit_code == 2
    assert run("delete", "--older", "9000w", "--yes", store=store).exit_code == 1
    mistyped = run("delete", "--older", "old", "--yes", store=store)
    assert (mistyped.exit_code, "90d" in mistyped.stderr) == (2, True)
    done = run("delete", "--older", "90d", "--yes", store=store)
    assert done.exit_code == 0
    assert keys(store) == ["today"]


# --- ranges ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ["context"],
        ["messages"],
        ["show"],
        ["stats"],
        ["why", "newlines"],
        ["fork"],
        ["step"],
        ["export", "--as", "openai"],
        ["export"],
        ["compact", "--yes"],
        ["delete", "--yes"],
        ["tree"],
    ],
    ids=" ".join,
)
def test_a_range_is_refused_where_a_point_is_meant(args: list[str], store: Path) -> None:
    before = keys(store)
    done = run(args[0], f"{CHAT}@3..10", *args[1:], store=store)
    assert done.exit_code == 2, done.output
    assert keys(store) == before


@pytest.mark.parametrize("form", ["markdown", "html"])
@pytest.mark.parametrize("more", [(), ("--redact", "emails")])
def test_an_exported_range_holds_nothing_else(form: str, more: tuple[str, ...], store: Path) -> None:
    """Who shares ten turns does not share the chat, nor its title, which is its first question."""
    whole = unpack(run("export", CHAT, "--as", form, *more, store=store).stdout)
    done = run("export", f"{CHAT}@16..18", "--as", form, *more, store=store)
    assert done.exit_code == 0
    part = unpack(done.stdout)
    assert "Understood." in part
    assert "touch vendor/" in part
    assert "Why does the lexer" in whole
    for text in ("Why does the lexer", "read_file", "Because of split", "Windows"):
        assert text not in part


def test_an_export_replaces_no_file_unless_it_is_told_to(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "it's mine.jsonl"
    path.write_text("mine")
    done = run("export", CHAT, "-o", path, store=store)
    assert (done.exit_code, shlex.quote(str(path)) in done.stderr) == (2, True)
    assert path.read_text() == "mine"
    assert run("export", CHAT, "-o", path, "--force", store=store).exit_code == 0
    assert path.read_text() != "mine"


def test_an_export_onto_a_folder_names_the_folder(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "chats"
    folder.mkdir()
    done = run("export", CHAT, "-o", folder, "--force", store=store)
    assert done.exit_code != 0
    assert str(folder) in done.stderr
    assert ".tmp" not in done.stderr
    assert list(folder.iterdir()) == []


# --- where the store is ----------------------------------------------------------------------------------


def test_the_only_store_in_a_folder_is_found_whatever_its_name(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHATFOLD_STORE", raising=False)
    (tmp_path / "src" / "chats").mkdir(parents=True)  # no store
    assert CHAT in run("ls").stdout
    asyncio.run(scripted(tmp_path / "other one"))
    done = run("ls")
    assert done.exit_code == 2
    assert "store" in done.stderr
    assert "'other one'" in done.stderr
    asyncio.run(scripted(tmp_path / "chats"))
    assert run("ls").exit_code == 0, "./chats comes first"


def test_a_chats_folder_and_the_folder_of_chats_name_their_store(store: Path) -> None:
    for place in (store, store / "chats", store / "chats" / CHAT):
        assert store_place(place) == store
        assert CHAT in run("ls", "--store", place).stdout


# --- what is printed can be pasted -----------------------------------------------------------------------


def test_a_key_is_quoted_wherever_a_command_is_printed(tmp_path: Path) -> None:
    key = "x'; touch PWNED; '"

    async def make() -> Chat:
        async with Store(tmp_path / "store") as place:
            chat = await place.chat(key)
            await chat.record(user("alpha"), assistant("beta"))
            await chat.new_context("another")
            await chat.record(user("omega"))
            return chat

    asyncio.run(make())
    shown = run("why", key, "alpha", store=tmp_path / "store").stdout
    command = shown[shown.index("chatfold context") :].splitlines()[0]
    assert shlex.split(command)[2] == f"{key}@s1^"
    from click import Command, Context, Option

    from chatfold.replay.command import complete_chat

    context = Context(Command("log"))
    context.params["store"] = str(tmp_path / "store")
    assert complete_chat(context, Option(["--x"]), "x") == [shlex.quote(key)]


# --- kinds, hits -----------------------------------------------------------------------------------------


def test_a_kind_that_there_is_not_names_those_there_are(store: Path) -> None:
    for args in (["log", CHAT], ["search", "lexer"]):
        done = run(*args, "--kind", "bogus", store=store)
        assert done.exit_code == 2
        assert "compacted" in done.stderr
    [one] = lines(run("log", CHAT, "--kind", "comp", "--json", store=store))
    assert one["kind"] == "compacted"


def test_hits_are_counted_in_all_and_the_newest_come_first(store: Path) -> None:
    hits = lines(run("search", "lexer", "-n", "2", "--json", store=store))
    assert len(hits) == 2
    every = lines(run("search", "lexer", "--json", store=store))
    assert [hit["ts"] for hit in every] == sorted((hit["ts"] for hit in every), reverse=True)


def test_a_log_before_the_beginning_says_so(store: Path) -> None:
    done = run("log", f"{CHAT}@2001-01-01", store=store)
    assert done.exit_code == 1
    assert "later" in done.stderr


def test_no_request_is_no_riddle(store: Path) -> None:
    done = run("messages", f"{CHAT}@2", "--for-call", "1", store=store)
    assert done.exit_code == 2
    assert "no model was asked" in done.stderr
