"""OpenAI Agents SDK: databases of ``SQLiteSession`` and ``AdvancedSQLiteSession``.

- A chat is a session: ``openai-agents-<id>``. A branch is a fork, ``openai-agents-<id>.<branch>``: it shares the messages that both have.
- An item is in the database once, however many branches it is in; its key is its number there. Times are those of the rows, in seconds.
- What a turn cost is known of advanced sessions only, and of a turn as a whole. The model is not recorded.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chatfold.eventlog import ChatStarted, ModelReturned, Noted
from chatfold.importers.databases import DatabaseSession, object_of, sessions_of
from chatfold.importers.head import Head, Object
from chatfold.importers.items import Format, Item, Maker, Problem, Session, counts_of
from chatfold.importers.times import millis
from chatfold.projections.shapes.openai_responses import from_openai_responses

NAME = "openai-agents"

_MAIN = "main"
_USAGE = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
_DETAILS = {"reasoning_tokens": "reasoning_tokens", "cached_tokens": "cached_input_tokens"}

_PLAIN = "SELECT id, message_data, created_at FROM agent_messages WHERE session_id = ? ORDER BY id"
_BRANCHED = """
    SELECT m.id, m.message_data, m.created_at, s.branch_id, s.user_turn_number AS turn
    FROM message_structure s JOIN agent_messages m ON m.id = s.message_id
    WHERE s.session_id = ? ORDER BY s.branch_id, s.sequence_number, s.id
"""


def _is_sessions(head: Head) -> bool:
    return {"session_id", "message_data"} <= head.tables.get("agent_messages", frozenset())


class _Begin(NamedTuple):
    """Whose chat begins after how many messages."""

    messages: int
    key: str
    branch: str


def _list(database: sqlite3.Connection, path: Path) -> Iterator[Session]:
    advanced = _has(database, "message_structure")
    counted = "SELECT session_id, count(*) AS n, max(id) AS last FROM agent_messages GROUP BY session_id"
    for row in database.execute(counted).fetchall():
        session, version = str(row["session_id"]), (row["n"], row["last"])
        branches: dict[str, list[int]] = {}
        if advanced:
            placed = database.execute(_BRANCHED, (session,)).fetchall()
            for one in placed:
                branches.setdefault(str(one["branch_id"]), []).append(one["id"])
            version += (len(placed), *_usage_version(database, session))
        for branch, begins in _begins(session, branches or {_MAIN: []}):
            yield AgentsSession(path, session, branch, begins, version, is_branched=bool(branches))


def _usage_version(database: sqlite3.Connection, session: str) -> tuple[Any, ...]:
    if not _has(database, "turn_usage"):
        return ()
    total = "SELECT count(*) AS n, sum(total_tokens) AS total FROM turn_usage WHERE session_id = ?"
    return tuple(database.execute(total, (session,)).fetchone().values())


def _has(database: sqlite3.Connection, table: str) -> bool:
    return database.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone() is not None


def _begins(session: str, branches: dict[str, list[int]]) -> Iterator[tuple[str, list[_Begin]]]:
    """Of each branch, what it began as a copy of, the oldest first: the branch before it that it has most in common with."""
    found: dict[str, list[_Begin]] = {}
    for branch in sorted(branches, key=lambda one: (one != _MAIN, max(branches[one], default=0))):
        own, begins = branches[branch], [_Begin(0, _key(session, branch), branch)]
        shared = {other: _common(own, branches[other]) for other in found}
        source = max(shared, key=lambda other: shared[other], default=None)
        if source is not None and shared[source]:
            common = shared[source]
            before = [one for one in found[source] if one.messages < common]
            begins = [*before, _Begin(common, _key(session, branch), branch)]
        found[branch] = begins
        yield branch, begins


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _key(session: str, branch: str) -> str:
    return f"{NAME}-{session}" + ("" if branch == _MAIN else f".{branch}")


class AgentsSession(DatabaseSession):
    def __init__(
        self,
        path: Path,
        session: str,
        branch: str,
        begins: list[_Begin],
        version: object,
        *,
        is_branched: bool,
    ) -> None:
        self._session = session
        self._branch = branch
        self._begins = begins
        self._is_branched = is_branched
        parent = begins[-2].key if len(begins) > 1 else ""
        super().__init__(_key(session, branch), path, version, parent=parent)

    def rows(self, database: sqlite3.Connection) -> Iterator[Item]:
        maker, thoughts = Maker(), list[tuple[Object, Any]]()
        rows, costs = self._messages(database), self._costs(database)
        begins = [*self._begins]
        for at, row in enumerate(rows):
            while begins and begins[0].messages <= at:
                yield self._started(maker, begins.pop(0), row)
            item = object_of(row["message_data"])
            if item.get("type") == "reasoning":  # it goes with what it leads to
                thoughts.append((item, row))
            else:
                yield from self._item(maker, [*(one for one, _ in thoughts), item], row)
                thoughts = []
            follows = rows[at + 1] if at + 1 < len(rows) else None
            if follows is None or row.get("turn") != follows.get("turn"):
                yield from self._cost(maker, costs.get((row.get("origin"), row.get("turn"))), row)
        for item, row in thoughts:
            yield from self._item(maker, [item], row)

    def _messages(self, database: sqlite3.Connection) -> list[Object]:
        """In the branch's order; of each, the branch that it was said in."""
        if not self._is_branched:
            return database.execute(_PLAIN, (self._session,)).fetchall()
        first: dict[int, str] = {}
        structure = "SELECT message_id, branch_id FROM message_structure WHERE session_id = ? ORDER BY id"
        for row in database.execute(structure, (self._session,)):
            first.setdefault(row["message_id"], row["branch_id"])
        rows = database.execute(_BRANCHED, (self._session,)).fetchall()
        return [row | {"origin": first.get(row["id"])} for row in rows if row["branch_id"] == self._branch]

    def _costs(self, database: sqlite3.Connection) -> dict[tuple[Any, Any], Object]:
        if not self._is_branched or not _has(database, "turn_usage"):
            return {}
        rows = database.execute("SELECT * FROM turn_usage WHERE session_id = ?", (self._session,)).fetchall()
        return {(row["branch_id"], row["user_turn_number"]): row for row in rows}

    def _started(self, maker: Maker, begin: _Begin, row: Object) -> Item:
        about = {"imported": NAME, "session": self._session, "source": str(self.paths[0].absolute())}
        about |= {} if begin.branch == _MAIN else {"branch": begin.branch}
        return maker.item(
            ChatStarted(begin.key, "", about), f"started-{begin.branch}", millis(row["created_at"])
        )

    def _item(self, maker: Maker, items: list[Object], row: Object) -> Iterator[Item]:
        said_at, item = millis(row["created_at"]), items[-1]
        try:
            events = from_openai_responses(items, provider="openai")
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            if item and "__enc__" not in item:
                what = f"message {row['id']} of session {self._session!r}: {error}"
                self.problems.append(Problem(str(self.paths[0]), 0, 0, what))
            events = [Noted(NAME, item or {"text": str(row["message_data"])})]
        for event in events:
            yield maker.item(event, f"{row['id']}", said_at)

    def _cost(self, maker: Maker, cost: Object | None, row: Object) -> Iterator[Item]:
        if cost is not None:
            details = object_of(cost.get("input_tokens_details")) | object_of(
                cost.get("output_tokens_details")
            )
            usage = counts_of(_USAGE, cost) | counts_of(_DETAILS, details)
            event = ModelReturned(usage, meta={NAME: {"requests": cost.get("requests")}})
            yield maker.item(event, f"{row['id']}.cost", millis(row["created_at"]))


FORMATS = (
    Format(
        NAME,
        "sessions of the OpenAI Agents SDK (SQLite)",
        _is_sessions,
        sessions_of(_list),
        holds_many=True,
    ),
)
