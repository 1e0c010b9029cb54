"""LangGraph: threads in the checkpoints of ``SqliteSaver``.

Each checkpoint holds all messages, so a thread is told by what changes from one to the next. Values name Python classes: they are read
as what they hold, and no class is imported.

- A chat is a thread: ``langgraph-<thread>``, and ``.<namespace>`` for that of a subgraph.
- A checkpoint that goes on from an earlier one went back there. Messages at the beginning that vanish were compacted; the channel ``summary``,
  if there is one, says what stands for them. Where others vanish or change, the chat goes back and says the rest again.
- Interrupts and what they were resumed with are notes; an error is a failed request. Channels without messages are left out.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    Data,
    Event,
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
from chatfold.importers.databases import DatabaseSession, sessions_of
from chatfold.importers.head import Head, Object
from chatfold.importers.items import Format, Item, Maker, Problem, Session, counts_of
from chatfold.importers.times import millis

NAME = "langgraph"

_CLASS = "lc_class"  # what a value of a class says of it
_USAGE = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
_CACHE = {"cache_read": "cache_read_input_tokens", "cache_creation": "cache_creation_input_tokens"}
_ROLES = frozenset({"human", "ai", "tool", "system", "developer", "function", "chat"})
_TOLD = ("__interrupt__", "__error__", "__resume__")  # in the order in which they come
_THREADS = """
    SELECT thread_id, checkpoint_ns, count(*) AS n, max(checkpoint_id) AS last,
        (SELECT count(*) FROM writes w WHERE w.thread_id = c.thread_id) AS writes
    FROM checkpoints c GROUP BY thread_id, checkpoint_ns ORDER BY min(checkpoint_id)
"""


def _is_checkpoints(head: Head) -> bool:
    columns = head.tables.get("checkpoints", frozenset())
    return {"thread_id", "checkpoint_id", "checkpoint"} <= columns and "writes" in head.tables


def _list(database: sqlite3.Connection, path: Path) -> Iterator[Session]:
    for row in database.execute(_THREADS).fetchall():
        yield ThreadSession(path, str(row["thread_id"]), str(row["checkpoint_ns"] or ""), tuple(row.values()))


class _Taken(msgspec.Struct, frozen=True):
    """A message in force. ``before`` and ``last``: the places around it."""

    id: str
    words: int
    before: int
    last: int


class ThreadSession(DatabaseSession):
    def __init__(self, path: Path, thread: str, namespace: str, version: object) -> None:
        self._thread, self._namespace = thread, namespace
        key = f"{NAME}-{thread}" + (f".{namespace}" if namespace else "")
        super().__init__(key, path, version)

    def rows(self, database: sqlite3.Connection) -> Iterator[Item]:
        self._maker = Maker()
        self._taken: tuple[_Taken, ...] = ()
        self._summary = ""
        ends: dict[str, tuple[int, tuple[_Taken, ...]]] = {}
        last = ""
        found = """
            SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint FROM checkpoints
            WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id
        """
        for row in database.execute(found, (self._thread, self._namespace)):
            name, parent = row["checkpoint_id"], row["parent_checkpoint_id"]
            state = self._state(row)
            said_at = millis(state.get("ts"))
            if not self._maker.place:
                about = {"imported": NAME, "session": self._thread, "source": str(self.paths[0].absolute())}
                yield self._maker.item(ChatStarted(self.key, "", about), "started", said_at)
            if parent != last and parent in ends:
                to, self._taken = ends[parent]
                if to < self._maker.place:
                    yield self._maker.item(Rewound(to, "from an earlier checkpoint"), f"{name}.back", said_at)
            channels = state.get("channel_values")
            if isinstance(channels, dict):
                yield from self._follow(_messages_of(channels), channels.get("summary"), name, said_at)
            yield from self._writes(database, name, said_at)
            ends[name], last = (self._maker.place, self._taken), name

    def _state(self, row: Object) -> Object:
        try:
            value = decode_msgpack(row["checkpoint"]) if row["type"] == "msgpack" else None
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
            self._refuse(row["checkpoint_id"], str(error))
            value = {}
        if value is None:
            self._refuse(row["checkpoint_id"], f"of type {row['type']!r}, not msgpack")
        return value if isinstance(value, dict) else {}

    def _refuse(self, name: Any, what: str) -> None:
        problem = f"checkpoint {name} of thread {self._thread!r}: {what}"
        self.problems.append(Problem(str(self.paths[0]), 0, 0, problem))

    # --- from one checkpoint to the next -------------------------------------------------------------------

    def _follow(
        self, messages: Sequence[Object], summary: Any, name: str, said_at: int | None
    ) -> Iterator[Item]:
        new = [(_id(message), _words(message)) for message in messages]
        taken = [(one.id, one.words) for one in self._taken]
        dropped = _dropped(taken, new)
        if dropped:
            gone = self._taken[:dropped]
            text = summary if isinstance(summary, str) else ""
            event = Compacted(gone[0].before + 1, gone[-1].last, len(gone), text, NAME)
            self._taken = self._taken[dropped:]
            yield self._maker.item(event, f"{name}.compacted", said_at)
        same = 0
        for one, (own, words) in zip(self._taken, new, strict=False):
            if (one.id, one.words) != (own, words):
                break
            same += 1
        if same < len(self._taken):
            to = self._taken[same].before
            self._taken = self._taken[:same]
            yield self._maker.item(
                Rewound(to, "messages were removed or changed"), f"{name}.changed", said_at
            )
        for message in messages[same:]:
            yield from self._add(message, said_at)

    def _add(self, message: Object, said_at: int | None) -> Iterator[Item]:
        before, name = self._maker.place, _id(message)
        try:
            events = [*_events(message)]
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self._refuse(name, str(error))
            events = [Noted(NAME, message)]
        for number, event in enumerate(events):
            yield self._maker.item(event, f"{name}.{number}" if number else name, said_at)
        self._taken += (_Taken(name, _words(message), before, self._maker.place),)

    def _writes(self, database: sqlite3.Connection, checkpoint: str, said_at: int | None) -> Iterator[Item]:
        found = """
            SELECT task_id, idx, channel, type, value FROM writes
            WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND channel LIKE '\\_\\_%' ESCAPE '\\'
            ORDER BY task_id, idx
        """
        rows = database.execute(found, (self._thread, self._namespace, checkpoint)).fetchall()
        told = [row for row in rows if row["channel"] in _TOLD]
        for row in sorted(told, key=lambda one: _TOLD.index(one["channel"])):
            kind = row["channel"].strip("_")
            if kind == "resume" and row["task_id"].strip("0-"):  # said again for each task
                continue
            try:
                value = decode_msgpack(row["value"]) if row["type"] == "msgpack" else None
            except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
                self._refuse(checkpoint, str(error))
                continue
            event: Event = Noted(f"{NAME}.{kind}", value)
            if kind == "error":
                event = ModelReturned(error=value if isinstance(value, str) else str(value))
            yield self._maker.item(event, f"{checkpoint}.{kind}", said_at)


def _dropped(taken: Sequence[object], new: Sequence[object]) -> int:
    """How many at the beginning are gone, if those after them are all still there."""
    for count in range(1, len(taken) + 1):
        kept = taken[count:]
        if list(new[: len(kept)]) == list(kept) and (not new or new[0] != taken[0]):
            return count
    return 0


# --- values ----------------------------------------------------------------------------------------------------


def decode_msgpack(data: bytes) -> Any:
    """Values of a class as a dict of what they hold, under its name; nothing is imported."""
    return _decoder.decode(data)


def _read_class(_: int, data: memoryview) -> Any:
    """LangGraph writes a list: module, name, what is given to it, and how."""
    value = _decoder.decode(data)
    if not isinstance(value, list) or len(value) < 2:
        return value
    module, name, *given = value
    held = given[0] if given else None
    return (
        {**held, _CLASS: f"{module}.{name}"}
        if isinstance(held, dict)
        else {_CLASS: f"{module}.{name}", "value": held}
    )


_decoder = msgspec.msgpack.Decoder(ext_hook=_read_class)


def _messages_of(channels: Object) -> list[Object]:
    """Those of the channel ``messages``, or of the first that has any."""
    for name in sorted(channels, key=lambda one: one != "messages"):
        value = channels[name]
        found = (
            [one for one in value if isinstance(one, dict) and one.get("type") in _ROLES]
            if isinstance(value, list)
            else []
        )
        if found:
            return found
    return []


def _id(message: Object) -> str:
    found = message.get("id")
    return found if isinstance(found, str) and found else f"unnamed-{_words(message):x}"


def _words(message: Object) -> int:
    return xxh3_64_intdigest(msgspec.msgpack.encode(message))


def _events(message: Object) -> Iterator[Event]:
    match message.get("type"):
        case "human":
            yield MessageAdded("user", _parts(message))
        case "system" | "developer":
            yield MessageAdded("system", _parts(message))
        case "tool" | "function":
            call = str(message.get("tool_call_id") or message.get("name") or "")
            yield ToolReturned(call, _parts(message), message.get("status") == "error")
        case "ai":
            yield from _answered(message)
        case kind:
            yield Noted(f"{NAME}.{kind}", message)


def _answered(message: Object) -> Iterator[Event]:
    about = message.get("response_metadata")
    about = about if isinstance(about, dict) else {}
    yield ModelCalled(str(about.get("model_name") or about.get("model") or ""), "")
    parts = _parts(message)
    if parts:
        yield MessageAdded("assistant", parts)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        yield ToolCalled(str(call["id"]), str(call["name"]), call.get("args"))
    if refused := message.get("invalid_tool_calls"):
        yield Noted(f"{NAME}.invalid_tool_calls", refused)
    usage = message.get("usage_metadata")
    details = usage.get("input_token_details") if isinstance(usage, dict) else None
    stop = about.get("finish_reason") or about.get("stop_reason")
    yield ModelReturned(counts_of(_USAGE, usage) | counts_of(_CACHE, details), str(stop or ""))


def _parts(message: Object) -> tuple[Part, ...]:
    content = message.get("content")
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(map(_part, content)) if isinstance(content, list) else ()


def _part(block: Any) -> Part:
    if isinstance(block, str):
        return Text(block)
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        return Text(str(block.get("text") or ""))
    if kind in ("thinking", "reasoning"):
        return Reasoning(
            str(block.get("thinking") or block.get("reasoning") or ""),
            signature=str(block.get("signature") or ""),
        )
    if kind == "image_url":
        image = block.get("image_url")
        return File("image/*", url=str(image.get("url") if isinstance(image, dict) else image))
    return Data("json", block)


FORMATS = (
    Format(NAME, "threads of LangGraph (SqliteSaver)", _is_checkpoints, sessions_of(_list), holds_many=True),
)
