"""Which storage a place means, and that a password in it is told to nobody."""

import asyncio
import logging
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from chatfold.agent import Store
from chatfold.eventlog import ChatfoldError, FileStorage, InvalidPlace, Unavailable, storage_of
from chatfold.eventlog.places import show_place
from chatfold.eventlog.postgres.place import parse_address

SECRET = "s3cret%2Fword"
PLAIN = "s3cret/word"


def test_a_folder_is_files_and_an_address_is_postgresql(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    assert isinstance(storage_of(tmp_path), FileStorage)
    assert isinstance(storage_of(str(tmp_path)), FileStorage)
    for scheme in ("postgresql", "postgres"):
        assert type(storage_of(f"{scheme}://host/db")).__name__ == "PostgresStorage"
    with pytest.raises(InvalidPlace):
        storage_of("mysql://host/db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "conninfo", "schema"),
    [
        ("postgresql://h/db", "postgresql://h/db", "chatfold"),
        ("postgres://u@h:5/db?schema=bots", "postgresql://u@h:5/db", "bots"),
        ("postgresql://u:p@h/db?sslmode=require&schema=B_1", "postgresql://u@h/db?sslmode=require", "B_1"),
        ("postgresql://u@h1,h2:6/db?password=p", "postgresql://u@h1,h2:6/db", "chatfold"),
        (
            "postgresql://u@h/db?pooler=transaction&sslmode=require",
            "postgresql://u@h/db?sslmode=require",
            "chatfold",
        ),
    ],
)
def test_an_address_is_taken_apart(address: str, conninfo: str, schema: str) -> None:
    place = parse_address(address)
    assert (place.conninfo, place.schema) == (conninfo, schema)
    assert place.secrets() == ({"password": "p"} if "p@" in address or "password" in address else {})


def test_a_pooler_has_one_of_two_names() -> None:
    for name in ("transaction", "session"):
        assert parse_address(f"postgresql://h/db?pooler={name}").pooler == name
    assert parse_address("postgresql://h/db").pooler == ""
    with pytest.raises(InvalidPlace):
        parse_address("postgresql://h/db?pooler=yes")


@pytest.mark.parametrize("schema", ["", "a-b", 'a"b', "a b", "1a", "x" * 64, "a%s"])
def test_a_schema_is_a_plain_name(schema: str) -> None:
    with pytest.raises(InvalidPlace, match="the name of a schema"):
        parse_address(f"postgresql://h/db?schema={schema}")


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:{SECRET}@127.0.0.1:1/db",
        f"postgresql://u@127.0.0.1:1/db?password={SECRET}",
        f"postgresql://u:{SECRET}@[broken/db",
        f"postgresql://u:{SECRET}@127.0.0.1:1/db?schema=a-b",
        f"postgresql://u:{SECRET}@127.0.0.1:1/db?no_such_option=1",
    ],
)
def test_no_error_and_no_log_has_the_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("psycopg")
    caplog.set_level(logging.DEBUG)

    async def use() -> None:
        async with Store(address) as store:
            assert PLAIN not in repr(store.log.storage)
            await (await store.chat("a")).user("hi")

    with pytest.raises(ChatfoldError) as raised:
        asyncio.run(use())
    told = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + caplog.text
    assert PLAIN not in told
    assert SECRET not in told


def test_a_place_is_shown_without_its_password() -> None:
    shown = show_place(f"postgresql://u:{SECRET}@h/db?schema=bots")
    assert shown == "postgresql://u@h/db?schema=bots"


def run(*args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "chatfold", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )


def test_a_password_on_the_command_line_is_refused() -> None:
    done = run("ls", "--store", f"postgresql://u:{SECRET}@127.0.0.1:1/db")
    assert done.returncode == 2
    assert "PGPASSWORD" in done.stderr
    assert SECRET not in done.stderr


def test_without_the_driver_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "psycopg.py").write_text("raise ModuleNotFoundError('no', name='psycopg')")
    path = f"{tmp_path}:{Path(__file__).parents[2]}:" + ":".join(sys.path)
    done = run("ls", PYTHONPATH=path, CHATFOLD_STORE="postgresql://h/db")
    assert done.returncode == 6
    assert done.stderr == "chatfold: PostgreSQL needs psycopg: pip install 'chatfold[postgres]'\n"


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    pytest.importorskip("psycopg")
    async with Store("postgresql://127.0.0.1:1/db") as store:
        with pytest.raises(Unavailable) as raised:
            await store.chat("a")
    assert "\n" not in str(raised.value)
