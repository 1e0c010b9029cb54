"""The command on a database: what it shows of a chat is what it shows of the same chat in a folder."""

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

import psycopg
from click.testing import CliRunner, Result

from chatfold.agent import Store
from chatfold.eventlog import CorruptLog
from chatfold.replay.cli import cli
from chatfold.replay.demo import record
from chatfold.testing.strategies import LARGE_TEXT
from chatfold.testing.telling import said
from tests.replay.web.serving import serving
from tests.support.postgres import shared_cluster


@pytest.fixture
def address() -> str:
    return shared_cluster().address()


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    await record(tmp_path / "demo")
    return tmp_path / "demo"


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, args)], catch_exceptions=False)


def test_what_is_copied_there_and_back_is_byte_for_byte_the_same(
    folder: Path, address: str, tmp_path: Path
) -> None:
    back = tmp_path / "back"
    assert run("copy", folder, address).output.count("copied") == 2
    assert run("copy", folder, address).output == ""  # all of it is there
    assert run("copy", address, back).exit_code == 0
    exports = [run("export", "lexer-bug", "--store", place).stdout_bytes for place in (folder, address, back)]
    assert exports[0] == exports[1] == exports[2] != b""


VERBS = """ls
log lexer-bug
show lexer-bug@3
context lexer-bug
messages lexer-bug --for-call 2
tree
stats lexer-bug
search newline
why lexer-bug newlines
replay --all
diff lexer-bug@1..9
export lexer-bug --as markdown"""


def test_every_verb_says_the_same(folder: Path, address: str) -> None:
    run("copy", folder, address)
    for verb in VERBS.splitlines():
        files, database = (run(*verb.split(), "--store", place) for place in (folder, address))
        said = [
            # A copy takes no caches along; and a command that is named has the place.
            re.sub(r" · \d+ snapshots?", "", one.output).replace(shlex.quote(str(place)), "PLACE")
            for one, place in ((files, folder), (database, address))
        ]
        assert (files.exit_code, said[0]) == (database.exit_code, said[1]), verb
        assert files.output, verb


def test_the_page_shows_the_same(folder: Path, address: str, tmp_path: Path) -> None:
    run("copy", folder, address)
    shown: list[list[object]] = []
    for place in (folder, address):
        with serving(place, tmp_path / "user") as server:
            questions = [
                server.ask("chats")["chats"],
                server.ask("chat", chat="lexer-bug"),
                server.ask("lines", chat="lexer-bug", first=1, last=500),
                server.ask("request", chat="lexer-bug", at="m2"),
                server.ask("why", chat="lexer-bug", q="newlines"),
            ]
        shown.append(questions)
    assert shown[0] == shown[1]


def test_another_chat_of_the_same_key_is_left_as_it_is(folder: Path, address: str) -> None:
    run("copy", folder, address, "lexer-bug")
    run("fork", "lexer-bug@2", "--name", "lexer-bug-what-if-1", "--store", address)
    done = run("copy", folder, address)
    assert done.exit_code == 1
    assert done.output.startswith("differs: lexer-bug-what-if-1")


def test_check_finds_a_line_that_was_changed(folder: Path, address: str) -> None:
    run("copy", folder, address)
    assert run("check", "--store", address).exit_code == 0
    with psycopg.connect(shared_cluster().dsn, autocommit=True) as connection:
        table = f"{address.partition('schema=')[2]}.line"
        changed = f"UPDATE {table} SET data = overlay(data placing 'x'::bytea from 40) WHERE seq = 5"
        assert connection.execute(changed.encode()).rowcount == 1
    done = run("check", "--store", address)
    assert done.exit_code == 4
    assert "damaged: lexer-bug" in done.output
    assert "seq 5" in done.output


async def test_a_blob_that_was_changed_is_not_read(address: str) -> None:
    table = f"{address.partition('schema=')[2]}.blob"
    async with Store(address) as store:
        await store.log.append("chat", said(LARGE_TEXT))
        assert [entry.event async for entry in store.log.read("chat")] == [said(LARGE_TEXT)]
        shared_cluster().execute(
            f"UPDATE {table} SET data = overlay(data placing 'x'::bytea from 9) WHERE number = 3"
        )
        with pytest.raises(CorruptLog):
            [entry async for entry in store.log.read("chat")]


def test_a_schema_without_chats_is_no_store(address: str) -> None:
    done = CliRunner().invoke(cli, ["ls", "--store", address])
    assert done.exit_code == 3
    schema = address.partition("schema=")[2]
    assert not shared_cluster().execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'")


async def test_a_damaged_chat_is_not_read(folder: Path, address: str) -> None:
    async with Store(folder) as files, Store(address) as database:
        await database.import_chat(await files.chat("lexer-bug"), "chat")
        table = f"{address.partition('schema=')[2]}.line"
        shared_cluster().execute(f"DELETE FROM {table} WHERE seq = 4")
        with pytest.raises(CorruptLog):
            [entry async for entry in database.log.read("chat")]
        with pytest.raises(CorruptLog):
            [entry async for entry in database.log.read_back("chat")]
