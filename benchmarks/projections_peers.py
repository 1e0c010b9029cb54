"""The end of a chat as others read it: ``python -m benchmarks.projections_peers DEED PATH CHAT COUNT``, prints JSON.

Rows are messages in the shape they are sent in, so all there is to do with them is to decode them. Nothing of chatfold
is imported here: the process is what that of an author without it would be.
"""

import asyncio
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from benchmarks.projections_opened import Opened, Prompt, opened

SQLITE = f"raw SQLite {sqlite3.sqlite_version}"
AGENTS = ""  # if it is not installed
with suppress(PackageNotFoundError):
    AGENTS = f"OpenAI Agents {version('openai-agents')} SQLiteSession"

_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE messages (id INTEGER PRIMARY KEY, chat TEXT NOT NULL, payload TEXT NOT NULL);
CREATE INDEX messages_of_chat ON messages (chat, id);
"""
_LAST = "SELECT payload FROM messages WHERE chat = ? ORDER BY id DESC LIMIT ?"
_BATCH = 1_000


# --- raw SQLite ----------------------------------------------------------------------------------------------


def fill_sqlite(path: Path, chat: str, payloads: Iterable[str]) -> int:
    """How many there are in the end."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_SCHEMA)
        with connection:
            connection.executemany(
                "INSERT INTO messages (chat, payload) VALUES (?, ?)", ((chat, one) for one in payloads)
            )
        (count,) = connection.execute("SELECT count(*) FROM messages").fetchone()
    return int(count)


def read_sqlite(path: Path, chat: str, count: int) -> tuple[float, Prompt]:
    decode = msgspec.json.Decoder().decode
    start = perf_counter()
    connection = sqlite3.connect(path)
    prompt = [decode(payload) for (payload,) in connection.execute(_LAST, (chat, count))]
    prompt.reverse()
    elapsed = perf_counter() - start
    connection.close()
    return elapsed * 1e3, prompt


# --- OpenAI Agents -------------------------------------------------------------------------------------------


async def fill_agents(path: Path, chat: str, source: Path) -> None:
    """With the messages of a raw database."""
    session = _session(path, chat)
    with closing(sqlite3.connect(source)) as connection:
        cursor = connection.execute("SELECT payload FROM messages ORDER BY id")
        while rows := cursor.fetchmany(_BATCH):
            await session.add_items([msgspec.json.decode(payload) for (payload,) in rows])
    session.close()


async def read_agents(path: Path, chat: str, count: int) -> tuple[float, Prompt]:
    start = perf_counter()
    session = _session(path, chat)
    prompt: Prompt = await session.get_items(limit=count)
    elapsed = perf_counter() - start
    session.close()
    return elapsed * 1e3, prompt


def _session(path: Path, chat: str) -> Any:
    return import_module("agents").SQLiteSession(chat, path)


# --- the process ---------------------------------------------------------------------------------------------


def twice_sqlite(path: Path, chat: str, count: int) -> Opened:
    first, prompt = read_sqlite(path, chat, count)
    second, _ = read_sqlite(path, chat, count)
    return opened(first, second, prompt)


async def twice_agents(path: Path, chat: str, count: int) -> Opened:
    import_module("agents")  # before the clock starts
    first, prompt = await read_agents(path, chat, count)
    second, _ = await read_agents(path, chat, count)
    return opened(first, second, prompt)


def main() -> None:
    deed, path, chat, last = sys.argv[1:]
    match deed:
        case "sqlite":
            print(msgspec.json.encode(twice_sqlite(Path(path), chat, int(last))).decode())
        case "agents":
            print(msgspec.json.encode(asyncio.run(twice_agents(Path(path), chat, int(last)))).decode())
        case "fill-agents":
            asyncio.run(fill_agents(Path(path), chat, Path(last)))


if __name__ == "__main__":
    main()
