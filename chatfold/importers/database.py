"""Databases of other tools: read as they are, and nothing is written, beside them neither.

A database that another process has open is read through its own index of the write-ahead log, which is only looked at
(``readonly_shm``). What a process left behind that ended without closing (rows that are in the ``-wal`` alone, a journal that has to be
rolled back) is put in order in a copy. Otherwise nobody has it open, and the file is read by itself.

Only the tables that a reader names are read, and never those with credentials.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

MAGIC = b"SQLite format 3\0"
BESIDE = ("-wal", "-shm", "-journal")
_WAITS_S = 5.0
_SECRET = frozenset({"account", "account_state", "control_account", "credential", "session_share"})
"""Tables with credentials. SQLite itself refuses to read them."""


def is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def database_of(path: Path) -> Path:
    """The database that this file belongs to, or the file itself."""
    for ending in BESIDE:
        if path.name.endswith(ending) and is_database(own := path.with_name(path.name.removesuffix(ending))):
            return own
    return path


def state_of(path: Path) -> tuple[int, ...]:
    """Changes whenever something is written to the database."""
    found: list[int] = []
    for ending in ("", "-wal", "-journal"):
        try:
            stat = os.stat(f"{path}{ending}")  # noqa: PTH116
            found += (stat.st_size, stat.st_mtime_ns, stat.st_ino)
        except FileNotFoundError:
            found += (0, 0, 0)
    return tuple(found)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Rows are dicts; texts that are not UTF-8 are read as far as they are. Raises ``sqlite3.DatabaseError``."""
    wal, index, journal = (Path(f"{path}{ending}") for ending in BESIDE)
    has_rows = wal.is_file() and wal.stat().st_size > 0
    if has_rows and index.is_file():
        with _connected(path, "mode=ro&readonly_shm=1") as found:
            yield found
    elif has_rows or (journal.is_file() and journal.stat().st_size > 0):
        with _copied(path) as copy, _connected(copy, "mode=rw") as found:
            yield found
    else:
        with _connected(path, "mode=ro" if _has_journal(path) else "immutable=1") as found:
            yield found


def tables_of(path: Path) -> dict[str, frozenset[str]]:
    """The tables and their columns; none if it is no database."""
    try:
        with opened(path) as found:
            names = [
                row["name"] for row in found.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            ]
            columns = {
                name: found.execute("SELECT name FROM pragma_table_info(?)", (name,)) for name in names
            }
            return {name: frozenset(row["name"] for row in rows) for name, rows in columns.items()}
    except sqlite3.Error:
        return {}


@contextmanager
def _connected(path: Path, how: str) -> Iterator[sqlite3.Connection]:
    address = f"file:{quote(str(path.absolute()))}?{how}"
    with closing(sqlite3.connect(address, uri=True, timeout=_WAITS_S, check_same_thread=False)) as found:
        found.row_factory = _as_dict
        found.text_factory = _as_text
        found.execute("PRAGMA trusted_schema = OFF")  # what is defined in a foreign file calls nothing
        found.set_authorizer(_allow)
        yield found


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="chatfold-") as folder:  # for this user alone
        for ending in ("", "-wal", "-journal"):
            if Path(f"{path}{ending}").is_file():
                shutil.copyfile(f"{path}{ending}", Path(folder, f"database{ending}"))
        yield Path(folder, "database")


def _has_journal(path: Path) -> bool:
    """Is it locked as it is read? One in the mode of a write-ahead log that has none is nobody's just now."""
    with path.open("rb") as file:
        return file.read(20)[18:20] != b"\x02\x02"


def _allow(action: int, table: str | None, *_: object) -> int:
    is_secret = action == sqlite3.SQLITE_READ and table in _SECRET
    return sqlite3.SQLITE_DENY if is_secret else sqlite3.SQLITE_OK


def _as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
