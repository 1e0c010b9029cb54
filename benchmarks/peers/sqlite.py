"""Raw SQLite, by hand: a table of JSON texts, an index by chat, WAL. FULL syncs every commit, NORMAL does not.

An asyncio program must not wait for a disk, so what writes goes to a thread; one connection under a lock, which is quicker than
several that wait for each other. ``files``: a database a chat, so that chats do not wait for each other either.
"""

import asyncio
import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock

import msgspec

from benchmarks.conversation import Message

_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY, chat TEXT NOT NULL, number INTEGER NOT NULL, payload TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS messages_of_chat ON messages (chat, number);
CREATE TABLE IF NOT EXISTS starts (chat TEXT PRIMARY KEY, number INTEGER NOT NULL, summary TEXT NOT NULL);
"""
_SEARCH = """
CREATE VIRTUAL TABLE found USING fts5 (payload, tokenize = 'trigram', content = '');
INSERT INTO found (rowid, payload) SELECT id, payload FROM messages;
"""

_FORK = """
INSERT INTO messages (chat, number, payload)
SELECT ?, number, payload FROM messages WHERE chat = ? AND number <= ? ORDER BY number
"""

RELAXED = ("normal",)


def native(message: Message) -> Message:
    return message


plain = native


class _Database:
    def __init__(self, path: Path, synchronous: str) -> None:
        self.lock = Lock()
        self.connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.connection.executescript(f"{_SCHEMA} PRAGMA synchronous = {synchronous}")
        self.next: dict[str, int] = {}

    def append(self, chat: str, messages: Iterable[Message]) -> None:
        payloads = [msgspec.json.encode(message).decode() for message in messages]
        with self.lock:
            number = self.next.get(chat) or self.length(chat) + 1
            rows = [(chat, at, payload) for at, payload in enumerate(payloads, number)]
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.executemany("INSERT INTO messages (chat, number, payload) VALUES (?, ?, ?)", rows)
            self.connection.execute("COMMIT")
            self.next[chat] = number + len(rows)

    def length(self, chat: str) -> int:
        (most,) = self.connection.execute(
            "SELECT max(number) FROM messages WHERE chat = ?", (chat,)
        ).fetchone()
        return most or 0

    def last(self, chat: str, count: int, upto: int | None) -> list[Message]:
        rows = self.connection.execute(
            "SELECT payload FROM messages WHERE chat = ? AND number <= ? ORDER BY number DESC LIMIT ?",
            (chat, 1 << 62 if upto is None else upto, count),
        ).fetchall()
        return [msgspec.json.decode(payload) for (payload,) in reversed(rows)]

    def fork(self, chat: str, new: str, at: int) -> None:
        self.connection.execute(_FORK, (new, chat, at))

    def compact(self, chat: str, summary: Message, keep: int) -> list[Message]:
        """Where the prompt begins, and what it begins with, in a table of its own."""
        start = self.length(chat) - keep
        row = (chat, start, msgspec.json.encode(summary).decode())
        self.connection.execute("INSERT OR REPLACE INTO starts VALUES (?, ?, ?)", row)
        return [summary, *self.last(chat, keep, None)]

    def search(self, text: str) -> int:
        if not self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'found'").fetchone():
            self.connection.executescript(_SEARCH)
        quoted = '"' + text.replace('"', '""') + '"'
        hits = self.connection.execute("SELECT rowid FROM found WHERE found MATCH ? LIMIT 20", (quoted,))
        rows = hits.fetchall()
        for row in rows:
            self.connection.execute("SELECT payload FROM messages WHERE id = ?", row).fetchone()
        return len(rows)

    def scan(self, chat: str, text: str) -> int:
        """Without an index, the newest first."""
        sought = "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"
        hits = self.connection.execute(
            r"SELECT payload FROM messages WHERE chat = ? AND payload LIKE ? ESCAPE '\' ORDER BY number DESC LIMIT 20",
            (chat, sought),
        )
        return len(hits.fetchall())


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        self.place = place
        self.files = setting == "files"
        self.scans = setting == "like"
        self.synchronous = "NORMAL" if setting == "normal" else "FULL"
        assert durable is (setting != "normal")
        self.databases: dict[str, _Database] = {}

    def database(self, chat: str) -> _Database:
        name = chat if self.files else "store"
        if name not in self.databases:
            self.databases[name] = _Database(self.place / f"{name}.sqlite", self.synchronous)
        return self.databases[name]

    async def append(self, chat: str, items: list[Message]) -> None:
        await asyncio.to_thread(self.database(chat).append, chat, items)

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Message]:
        return self.database(chat).last(chat, count, upto)

    async def replay(self, chat: str) -> Iterator[Message]:
        rows = self.database(chat).connection.execute(
            "SELECT payload FROM messages WHERE chat = ? ORDER BY number", (chat,)
        )
        return (msgspec.json.decode(payload) for (payload,) in rows)

    async def fork(self, chat: str, new: str, at: int) -> None:
        await asyncio.to_thread(self.database(chat).fork, chat, new, at)

    async def forget(self, new: str) -> None:
        self.database(new).connection.execute("DELETE FROM messages WHERE chat = ?", (new,))

    async def compact(self, chat: str, summary: Message, keep: int) -> list[Message]:
        return await asyncio.to_thread(self.database(chat).compact, chat, summary, keep)

    async def search(self, chat: str, text: str) -> int:
        database = self.database(chat)
        return database.scan(chat, text) if self.scans else database.search(text)

    async def close(self) -> None:
        for database in self.databases.values():
            database.connection.close()
