"""opencode: sessions of its database (``~/.local/share/opencode/opencode.db``) and of the folders before it (``storage/``).

Both keep the same objects: messages, one for each step of a model, and their parts, which are written over as they come in.

- A chat is a session: ``opencode-<id>``. That of a helper names its ``parent``. opencode does not say what a fork was forked from.
- A call is told when it is asked, its result in the order in which results came. An answer without an end has no end here.
- A compaction stands for all before the first message that it keeps; one that failed changes nothing. What the user took back is gone back
  behind.
- Snapshots and the bounds of steps are left out; other parts are notes.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    File,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Part,
    Reasoning,
    Rewound,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers.database import is_database, opened
from chatfold.importers.databases import ODD, DatabaseSession, object_of, sessions_of
from chatfold.importers.head import Head, Object, decode_object
from chatfold.importers.items import Format, Home, Item, Maker, Problem, Session, WholeSession, counts_of
from chatfold.importers.times import millis

NAME = "opencode"

_SKIPPED = frozenset({"step-start", "step-finish", "snapshot", "compaction"})
_USAGE = {"input": "input_tokens", "output": "output_tokens", "reasoning": "reasoning_tokens"}
_CACHE = {"read": "cache_read_input_tokens", "write": "cache_creation_input_tokens"}
_SESSIONS = """
    SELECT id, time_updated, title, revert,
        (SELECT count(*) || '.' || max(time_updated) FROM message WHERE session_id = session.id) AS messages,
        (SELECT count(*) || '.' || max(time_updated) FROM part WHERE session_id = session.id) AS parts
    FROM session ORDER BY time_created, id
"""


class _Talk:
    """From messages with their parts to items."""

    def __init__(self, session: Object, source: str) -> None:
        self._session = session
        self._source = source
        self._maker = Maker()
        self._before: dict[str, int] = {}  # of a message, the place before it
        self.problems: list[str] = []
        self._kept = ""  # the first message that the compaction being made keeps

    def items(self, messages: Sequence[tuple[Object, Sequence[Object]]]) -> Iterator[Item]:
        name = str(self._session.get("id"))
        words = {"cwd": self._session.get("directory"), "version": self._session.get("version")}
        parent = self._session.get("parent_id") or self._session.get("parentID")
        about = {"imported": NAME, "session": name, "source": self._source, **words}
        about |= {"parent": f"{NAME}-{parent}"} if parent else {}
        meta = {one: word for one, word in about.items() if isinstance(word, str) and word}
        yield self._maker.item(
            ChatStarted(f"{NAME}-{name}", "", meta), f"started-{name}", _time(self._session, "created")
        )
        for message, parts in messages:
            self._before[str(message["id"])] = self._maker.place
            try:
                yield from self._message(message, parts)
            except ODD as error:  # it says what no event can say
                self.problems.append(f"{message['id']}: {error}")
                yield self._maker.item(Noted(NAME, message), str(message["id"]))
        revert = self._session.get("revert")
        revert = revert if isinstance(revert, dict) else object_of(revert)
        to = self._before.get(str(revert.get("messageID")), 0)
        if to:
            yield self._maker.item(Rewound(to, "the user took it back"), f"{revert['messageID']}.revert")

    def _message(self, message: Object, parts: Sequence[Object]) -> Iterator[Item]:
        match message.get("role"):
            case "user":
                yield from self._asked(message, parts)
            case "assistant" if message.get("summary") is True:
                yield from self._compacted(message, parts)
            case "assistant":
                yield from self._answered(message, parts)
            case role:
                yield self._maker.item(Noted(f"{NAME}.{role}", message), str(message["id"]))

    def _asked(self, message: Object, parts: Sequence[Object]) -> Iterator[Item]:
        name, said_at = str(message["id"]), _time(message, "created")
        compaction = next((part for part in parts if part.get("type") == "compaction"), None)
        if compaction is not None:
            self._kept = str(compaction.get("tail_start_id") or name)
        said, is_typed = _said(parts)
        if said:
            event = MessageAdded("user", said, "exec" if is_typed else "internal")
            yield self._maker.item(event, name, said_at)
        yield from self._notes(message, parts)

    def _answered(self, message: Object, parts: Sequence[Object]) -> Iterator[Item]:
        name, said_at = str(message["id"]), _time(message, "created")
        model, provider = str(message.get("modelID") or ""), str(message.get("providerID") or "")
        yield self._maker.item(ModelCalled(model, "", provider=provider), f"{name}.asked", said_at)
        said, _ = _said(parts, provider, model)
        if said:
            yield self._maker.item(MessageAdded("assistant", said), name, said_at)
        tools = [part for part in parts if part.get("type") == "tool" and isinstance(part.get("state"), dict)]
        for part in tools:
            call = ToolCalled(str(part.get("callID")), str(part.get("tool")), part["state"].get("input"))
            yield self._maker.item(call, str(part["id"]), _time(part["state"], "start") or said_at)
        done = [part for part in tools if part["state"].get("status") in ("completed", "error")]
        for part in sorted(done, key=lambda one: _time(one["state"], "end") or 0):
            yield self._returned(part)
        yield from self._end(message)
        yield from self._notes(message, parts)

    def _returned(self, part: Object) -> Item:
        state = part["state"]
        failed = state["status"] == "error"
        text = state.get("error") if failed else state.get("output")
        metadata = state.get("metadata")
        child = metadata.get("sessionId") if isinstance(metadata, dict) else None
        meta = {"chat": f"{NAME}-{child}"} if isinstance(child, str) else {}
        event = ToolReturned(str(part.get("callID")), (Text(str(text or "")),), failed, meta)
        return self._maker.item(event, f"{part['id']}.result", _time(state, "end"))

    def _end(self, message: Object) -> Iterator[Item]:
        """What it cost, if it has come to its end."""
        ended, error = _time(message, "completed"), message.get("error")
        if ended is None and not error:
            return
        tokens = message.get("tokens")
        cache = tokens.get("cache") if isinstance(tokens, dict) else None
        usage = counts_of(_USAGE, tokens) | counts_of(_CACHE, cache)
        cost = message.get("cost")
        told = ModelReturned(
            usage, str(message.get("finish") or ""), _error(error), {NAME: {"cost": cost}} if cost else {}
        )
        yield self._maker.item(told, f"{message['id']}.cost", ended)

    def _compacted(self, message: Object, parts: Sequence[Object]) -> Iterator[Item]:
        name, said_at = str(message["id"]), _time(message, "created")
        model, provider = str(message.get("modelID") or ""), str(message.get("providerID") or "")
        last = self._before.get(self._kept) or self._before[name]
        ended = _time(message, "completed")
        if ended is None:
            return
        yield self._maker.item(ModelCalled(model, "", provider=provider), f"{name}.asked", said_at)
        yield from self._end(message)
        summary = "\n".join(part.text for part in _said(parts)[0] if isinstance(part, Text))
        if summary and not message.get("error"):
            yield self._maker.item(Compacted(1, last, last, summary, NAME), name, ended)

    def _notes(self, message: Object, parts: Sequence[Object]) -> Iterator[Item]:
        for part in parts:
            if (
                part.get("type") not in ("text", "reasoning", "tool", "file")
                and part.get("type") not in _SKIPPED
            ):
                data = {
                    one: value
                    for one, value in part.items()
                    if one not in ("id", "sessionID", "messageID", "type")
                }
                event = Noted(f"{NAME}.{part.get('type')}", data)
                yield self._maker.item(event, str(part.get("id")), _time(message, "created"))


def _said(parts: Sequence[Object], provider: str = "", model: str = "") -> tuple[tuple[Part, ...], bool]:
    """What is said in words and files, and whether any of it was typed."""
    said: list[Part] = []
    is_typed = False
    for part in parts:
        text = part.get("text")
        match part.get("type"):
            case "text" if isinstance(text, str) and text:
                said.append(Text(text))
                is_typed |= not part.get("synthetic")
            case "reasoning" if isinstance(text, str) and text:
                said.append(Reasoning(text, provider, model))
            case "file":
                url, name = str(part.get("url") or ""), str(part.get("filename") or "")
                said.append(File(str(part.get("mime") or ""), name=name, url=url))
                is_typed = True
    return tuple(said), is_typed


def _time(record: Object, name: str) -> int | None:
    time = record.get("time")
    return millis(time.get(name)) if isinstance(time, dict) else millis(record.get(f"time_{name}"))


def _error(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error or "")
    data = error.get("data")
    message = data.get("message") if isinstance(data, dict) else None
    return f"{error.get('name')}: {message}" if message else str(error.get("name") or "error")


# --- the database ------------------------------------------------------------------------------------------------


def _is_home(head: Head) -> bool:
    parts = head.tables.get("part", frozenset())
    return {"message_id", "session_id", "data"} <= parts and {"session", "message"} <= head.tables.keys()


def _list(database: sqlite3.Connection, path: Path) -> Iterator[Session]:
    for row in database.execute(_SESSIONS).fetchall():
        session = RowsSession(f"{NAME}-{row['id']}", path, tuple(row.values()))
        session.title = str(row["title"] or "")
        yield session


class RowsSession(DatabaseSession):
    def rows(self, database: sqlite3.Connection) -> Iterator[Item]:
        name = self.version[0] if isinstance(self.version, tuple) else ""
        session = database.execute("SELECT * FROM session WHERE id = ?", (name,)).fetchone()
        if session is None:  # it was deleted
            return
        found = database.execute("SELECT * FROM message WHERE session_id = ? ORDER BY id", (name,)).fetchall()
        parts: dict[str, list[Object]] = {}
        for row in database.execute("SELECT * FROM part WHERE session_id = ? ORDER BY id", (name,)):
            parts.setdefault(row["message_id"], []).append(object_of(row["data"]) | {"id": row["id"]})
        messages = [(object_of(row["data"]) | {"id": row["id"]}, parts.get(row["id"], [])) for row in found]
        talk = _Talk(session, str(self.paths[0].absolute()))
        yield from talk.items(messages)
        self.problems += (Problem(str(self.paths[0]), 0, 0, what) for what in talk.problems)


# --- folders -----------------------------------------------------------------------------------------------------


def _is_of_tree(head: Head) -> bool:
    if not head.start.startswith(b"{") or b'"id"' not in head.start or head.path.suffix != ".json":
        return False
    value = head.value
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        return False
    place = head.path.parts[-3:-1]
    return ("sessionID" in value and place[0] in ("message", "part")) or (
        "projectID" in value and place[0] == "session"
    )


def _trees(paths: Sequence[Path]) -> Iterator[Session]:
    seen: set[tuple[Path, str]] = set()
    moved: dict[Path, frozenset[str]] = {}
    for path in paths:
        root = path.parents[2]
        record = decode_object(path.read_bytes()) or {}
        name = str(record.get("sessionID") or record.get("id"))
        if root not in moved:
            moved[root] = _in_database(root.parent / "opencode.db")
        if (root, name) not in seen and name not in moved[root]:
            seen.add((root, name))
            yield TreeSession(root, name)


def _in_database(path: Path) -> frozenset[str]:
    """The sessions that a newer opencode has taken over."""
    if not is_database(path):
        return frozenset()
    try:
        with opened(path) as database:
            return frozenset(row["id"] for row in database.execute("SELECT id FROM session"))
    except sqlite3.Error:
        return frozenset()


class TreeSession(WholeSession):
    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._name = name
        super().__init__(f"{NAME}-{name}", tuple(self._files()))
        self.source = str((root / name).absolute())

    def _files(self) -> list[Path]:
        """That of the session first, then each message with its parts."""
        found = sorted(self._root.glob(f"session/*/{self._name}.json"))
        for message in sorted((self._root / "message" / self._name).glob("*.json")):
            found += [message, *sorted((self._root / "part" / message.stem).glob("*.json"))]
        return found

    def state(self) -> object:
        self.paths = tuple(self._files())
        return [(path, stat.st_mtime_ns, stat.st_size) for path in self.paths for stat in [path.stat()]]

    def items(self) -> Iterator[Item]:
        session: Object = {"id": self._name}
        messages: list[tuple[Object, list[Object]]] = []
        for path in self.paths:
            record = decode_object(path.read_bytes())
            if record is None or not isinstance(record.get("id"), str):
                self.problems.append(Problem(str(path), 0, 0, "no JSON object: is it being written?"))
            elif path.parents[1].name == "session":
                session = record
            elif path.parents[1].name == "message":
                messages.append((record, []))
            elif messages:
                messages[-1][1].append(record)
        self.title = str(session.get("title") or "")
        talk = _Talk(session, self.source)
        yield from talk.items(messages)
        self.problems += (Problem(str(self.paths[0]), 0, 0, what) for what in talk.problems)


_HOMES = (Home("XDG_DATA_HOME", ".local/share", NAME),)

FORMATS = (
    Format(NAME, "sessions of opencode (opencode.db)", _is_home, sessions_of(_list), _HOMES, holds_many=True),
    Format(f"{NAME}-json", "sessions of opencode before 1.2 (storage/)", _is_of_tree, _trees),
)
