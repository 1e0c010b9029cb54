"""llm (simonw/llm): ``logs.db``, of both schemas.

- A chat is a thread, or in older files a conversation: ``llm-<id>``.
- The newer schema keeps messages under a hash that names all before them too, so threads and branches share them. A turn that goes on
  from an earlier message went back there; a thread that was forked shares what came before.
- In the older one a tool's results belong to the response after them. A system prompt is said again only when it has changed.
- Messages have no times: that of the question is their turn's, that of the answer is later by what it took.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chatfold.eventlog import (
    ChatStarted,
    Event,
    File,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Part,
    Reasoning,
    Rewound,
    Role,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers.databases import DatabaseSession, object_of, sessions_of
from chatfold.importers.head import Head, Object, decode_value
from chatfold.importers.items import Format, Home, Item, Maker, Session, counts_of
from chatfold.importers.times import millis

NAME = "llm"

_USAGE = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
_THREADS = """
    SELECT t.id, t.name, t.forked_from, count(u.id) AS turns, max(u.id) AS last, t.tip_message_hash AS tip
    FROM threads t LEFT JOIN turns u ON u.thread_id = t.id GROUP BY t.id ORDER BY t.id
"""
_CONVERSATIONS = """
    SELECT coalesce(r.conversation_id, r.id) AS id, c.name, count(*) AS turns, max(r.id) AS last
    FROM responses r LEFT JOIN conversations c ON c.id = r.conversation_id GROUP BY 1 ORDER BY 1
"""


def _is_log(head: Head) -> bool:
    return "prompt_json" in head.tables.get("responses", frozenset()) and "conversations" in head.tables


def _list(database: sqlite3.Connection, path: Path) -> Iterator[Session]:
    if database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'threads'").fetchone():
        rows = database.execute(_THREADS).fetchall()
        sources = {row["id"]: row["forked_from"] for row in rows}
        for row in rows:
            yield ThreadSession(path, row, _ancestors(row["id"], sources))
    for row in database.execute(_CONVERSATIONS).fetchall():
        yield ResponsesSession(path, row)


def _ancestors(thread: str, sources: dict[str, Any]) -> list[str]:
    """What a thread was forked from, and that in turn, the oldest first."""
    found: list[str] = []
    while (
        (source := sources.get(found[0] if found else thread)) and source in sources and source not in found
    ):
        found.insert(0, source)
    return found


class _LogSession(DatabaseSession):
    def __init__(self, path: Path, row: Object, ancestors: Sequence[str] = ()) -> None:
        self._id = str(row["id"])
        self._name = str(row["name"] or "")
        self._maker = Maker()
        version = row["turns"], row["last"], row.get("tip"), self._name
        parent = f"{NAME}-{ancestors[-1]}" if ancestors else ""
        super().__init__(f"{NAME}-{self._id}", path, version, parent=parent)
        self.title = self._name

    def _started(self, name: str, said_at: int | None) -> Item:
        about = {"imported": NAME, "session": name, "source": str(self.paths[0].absolute())}
        return self._maker.item(ChatStarted(f"{NAME}-{name}", "", about), f"started-{name}", said_at)

    def _cost(self, turn: Object, answered_at: int | None) -> Item:
        details = object_of(turn.get("token_details")).get("completion_tokens_details")
        usage = counts_of(_USAGE, turn) | counts_of({"reasoning_tokens": "reasoning_tokens"}, details)
        return self._maker.item(ModelReturned(usage), f"{turn['id']}.cost", answered_at)

    def _asked(self, turn: Object, said_at: int | None) -> Item:
        options = object_of(turn.get("options_json"))
        model = str(turn.get("resolved_model") or turn.get("model") or "")
        return self._maker.item(ModelCalled(model, "", options), f"{turn['id']}.asked", said_at)


def _times(turn: Object) -> tuple[int | None, int | None]:
    """When it was asked, and when it was answered."""
    asked = millis(turn["datetime_utc"])
    took = turn.get("duration_ms")
    return asked, asked + took if asked is not None and type(took) is int else asked


def _failed(result: Object) -> bool:
    return bool(result.get("exception"))


# --- threads -------------------------------------------------------------------------------------------------


class ThreadSession(_LogSession):
    def __init__(self, path: Path, row: Object, ancestors: Sequence[str]) -> None:
        self._threads = [*ancestors, str(row["id"])]
        super().__init__(path, row, ancestors)

    def rows(self, database: sqlite3.Connection) -> Iterator[Item]:
        self._maker = Maker()
        self._database = database
        self._ends: dict[str, int] = {}  # of a message, by its hash, the place after it
        self._tip = ""
        turns = {thread: self._turns(thread) for thread in self._threads}
        own = turns[self._id]
        path = set(self._path(own[0]["parent_message_hash"])) if own else set()
        for thread in self._threads:
            taken = [turn for turn in turns[thread] if thread == self._id or turn["tip_message_hash"] in path]
            if taken:
                yield self._started(thread, _times(taken[0])[0])
            for turn in taken:
                yield from self._turn(turn)

    def _turns(self, thread: str) -> list[Object]:
        told = "SELECT * FROM turns WHERE thread_id = ? ORDER BY id"
        return self._database.execute(told, (thread,)).fetchall()

    def _path(self, tip: Any) -> list[str]:
        """The messages up to this one, the first first, as far as they were not said yet: after one that was."""
        found: list[str] = []
        while isinstance(tip, str) and tip not in found:
            found.append(tip)
            row = self._database.execute("SELECT parent_hash FROM messages WHERE hash = ?", (tip,)).fetchone()
            if row is None or tip in self._ends:
                break
            tip = row["parent_hash"]
        return found[::-1]

    def _turn(self, turn: Object) -> Iterator[Item]:
        asked_at, answered_at = _times(turn)
        path = self._path(turn["tip_message_hash"])
        known = path[0] if path and path[0] in self._ends else ""
        if self._tip and known != self._tip:
            to = self._ends.get(known, 1)
            yield self._maker.item(Rewound(to, "another branch"), f"{turn['id']}.back", asked_at)
        new = [one for one in path if one not in self._ends]
        asked = new.index(turn["parent_message_hash"]) + 1 if turn["parent_message_hash"] in new else 0
        for one in new[:asked]:
            yield from self._message(one, asked_at)
        yield self._asked(turn, asked_at)
        for one in new[asked:]:
            yield from self._message(one, answered_at)
        yield self._cost(turn, answered_at)
        self._tip = path[-1] if path else self._tip
        self._ends[self._tip] = self._maker.place

    def _message(self, name: str, said_at: int | None) -> Iterator[Item]:
        message = self._database.execute("SELECT * FROM messages WHERE hash = ?", (name,)).fetchone()
        parts = "SELECT * FROM parts WHERE message_hash = ? ORDER BY position, id"
        said: list[Part] = []
        done: list[Event] = []
        for row in self._database.execute(parts, (name,)).fetchall():
            given = object_of(row["payload"])
            call = str(given.get("tool_call_id") or "")
            match row["type"]:
                case "text":
                    said.append(Text(self._text(row, given)))
                case "reasoning":
                    said.append(Reasoning(row["text"] or "", redacted=bool(given.get("redacted"))))
                case "tool_call":
                    done.append(ToolCalled(call, str(row["tool_name"] or ""), given.get("arguments")))
                case "tool_result":
                    done.append(ToolReturned(call, (Text(str(given.get("output") or "")),), _failed(given)))
                case "attachment":
                    said += self._files(row)
                case kind:
                    done.append(Noted(f"{NAME}.{kind}", {"text": row["text"], **given}))
        roles: dict[str, Role] = {"assistant": "assistant", "system": "system"}
        role = roles.get(message["role"] if message else "", "user")
        events: list[Event] = [MessageAdded(role, tuple(said)), *done] if said else done
        for event in events:
            yield self._maker.item(event, name, said_at)
        self._ends[name] = self._maker.place

    def _text(self, row: Object, given: Object) -> str:
        """A text may be made of fragments, which are kept once."""
        if row["text"] is not None or not isinstance(given.get("text_ref"), list):
            return str(row["text"] or "")
        pieces = [one for one in given["text_ref"] if isinstance(one, dict)]
        found = "SELECT content FROM fragments WHERE id = ?"
        texts = [
            next((r["content"] for r in self._database.execute(found, (one["fragment"],))), "")
            if "fragment" in one
            else one.get("literal")
            for one in pieces
        ]
        return "".join(text for text in texts if isinstance(text, str))

    def _files(self, row: Object) -> list[File]:
        found = """
            SELECT a.* FROM part_attachments p JOIN attachments a ON a.id = p.attachment_id
            WHERE p.part_id = ? ORDER BY p."order"
        """
        return _files(self._database.execute(found, (row["id"],)).fetchall())


# --- responses -----------------------------------------------------------------------------------------------


class ResponsesSession(_LogSession):
    def rows(self, database: sqlite3.Connection) -> Iterator[Item]:
        self._maker = Maker()
        told = "SELECT * FROM responses WHERE coalesce(conversation_id, id) = ? ORDER BY id"
        system = ""
        for number, turn in enumerate(database.execute(told, (self._id,)).fetchall()):
            asked_at, answered_at = _times(turn)
            name = str(turn["id"])
            if not number:
                yield self._started(self._id, asked_at)
            said = self._texts(database, "system_fragments", turn, turn["system"])
            if said and said != system:
                system = said
                yield self._maker.item(MessageAdded("system", (Text(said),)), f"{name}.system", asked_at)
            for result in self._of(database, "tool_results", name):
                output = (Text(str(result["output"] or "")),)
                event = ToolReturned(str(result["tool_call_id"]), output, _failed(result))
                yield self._maker.item(event, f"{name}.result", asked_at)
            prompt = self._texts(database, "prompt_fragments", turn, turn["prompt"])
            parts = ((Text(prompt),) if prompt else ()) + tuple(self._files(database, name))
            if parts:
                yield self._maker.item(MessageAdded("user", parts), name, asked_at)
            yield self._asked(turn, asked_at)
            if turn["response"]:
                answer = MessageAdded("assistant", (Text(turn["response"]),))
                yield self._maker.item(answer, f"{name}.answer", answered_at)
            for call in self._of(database, "tool_calls", name):
                args = decode_value(str(call["arguments"]).encode("utf-8", "replace"))
                event_ = ToolCalled(str(call["tool_call_id"]), str(call["name"]), args)
                yield self._maker.item(event_, f"{name}.call", answered_at)
            yield self._cost(turn, answered_at)

    @staticmethod
    def _of(database: sqlite3.Connection, table: str, response: str) -> list[Object]:
        if not database.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone():
            return []  # of a version without tools
        found = f"SELECT * FROM {table} WHERE response_id = ? ORDER BY id"  # noqa: S608 (our own names)
        return database.execute(found, (response,)).fetchall()

    @staticmethod
    def _texts(database: sqlite3.Connection, table: str, turn: Object, text: Any) -> str:
        fragments: list[Object] = []
        if database.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone():
            found = f"""
                SELECT f.content FROM {table} p JOIN fragments f ON f.id = p.fragment_id
                WHERE p.response_id = ? ORDER BY p."order"
            """  # noqa: S608 (our own names)
            fragments = database.execute(found, (turn["id"],)).fetchall()
        texts = [*(row["content"] for row in fragments), text]
        return "\n".join(one for one in texts if isinstance(one, str) and one)

    @staticmethod
    def _files(database: sqlite3.Connection, response: str) -> list[File]:
        found = """
            SELECT a.* FROM prompt_attachments p JOIN attachments a ON a.id = p.attachment_id
            WHERE p.response_id = ? ORDER BY p."order"
        """
        return _files(database.execute(found, (response,)).fetchall())


def _files(rows: list[Object]) -> list[File]:
    return [
        File(str(row["type"] or ""), row["content"] or b"", url=str(row["url"] or row["path"] or ""))
        for row in rows
    ]


FORMATS = (
    Format(
        NAME,
        "logs of llm (logs.db)",
        _is_log,
        sessions_of(_list),
        (Home("LLM_USER_PATH", ".config/io.datasette.llm", ""),),
        holds_many=True,
    ),
)
