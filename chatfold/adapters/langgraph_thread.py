"""A thread of LangGraph: the index of its checkpoints, folded from the notes in a chat. Nothing here reads or writes.

Two kinds of notes, both ``Noted("langgraph", …)``:

    {"put": {"ns", "id", "parent", "versions", "header", "metadata", "values": {channel: cell}, "at": {channel: seq},
             "writes": [seq], "top": seq}}
    {"writes": {"ns", "id", "task", "path", "writes": [[index, channel, cell]]}}

A checkpoint holds the values that are new and says in ``at`` which note has the others. A list that goes on says only what is new of it:
``{"list": [item], "from": [seq, kept]}`` begins with the first ``kept`` items of that channel's list in the note of that seq. An item is
``[first, last, id]`` of a message in the log, ``{"in": [seq, index]}`` of one in another note, or a cell.

``writes`` are those that came before their checkpoint, ``top`` is the greatest checkpoint of the root if it is another one: so whoever
opens a long thread needs its end and what that refers to, and not its beginning.
"""

from bisect import insort
from typing import Any, NamedTuple, TypeAlias

from chatfold.adapters.langgraph_values import OWN, Said, id_of, length_of, message_of, with_id
from chatfold.eventlog import (
    Entry,
    Event,
    Head,
    Json,
    MessageAdded,
    Noted,
    Redacted,
    Rewound,
    ToolCalled,
    ToolReturned,
)

Key: TypeAlias = tuple[str, str]
"""Namespace and id of a checkpoint."""

Item: TypeAlias = Said | tuple[int, int]
"""Of a list: a message, or (the seq of a note, the index of the item in it)."""

CUT = 1 << 40
"""The depth of a list of which something was erased: none goes on from it."""

_PENDING = 64  # messages of tasks whose step was given up are never in a list


class Row(NamedTuple):
    """A checkpoint, and the note that it is in."""

    seq: int
    ns: str
    id: str
    parent: str | None


class Write(NamedTuple):
    """A write that is pending, and where it is: in which note, and which of it."""

    path: str
    task: str
    slot: int
    seq: int
    place: int


class Pending(NamedTuple):
    """A message that was recorded before a list had it."""

    last: int
    events: list[Event]

    @property
    def id(self) -> str | None:
        return id_of(message_of(self.events))

    @property
    def nameless(self) -> bytes:
        """Without its id, which it may get later."""
        return with_id(message_of(self.events), None)


class Items(NamedTuple):
    """A list as a checkpoint has it: its items, the bytes of all, and where in them each ends."""

    items: tuple[Item, ...]
    body: bytes
    ends: tuple[int, ...]
    depth: int  # how many notes it is spread over

    def after(self, kept: int) -> dict[bytes, Item]:
        """The items after the first ``kept``, by their bytes."""
        starts = (0, *self.ends)[kept:]
        spans = zip(self.items[kept:], starts, self.ends[kept:], strict=False)
        return {self.body[start:end]: item for item, start, end in spans}

    def kept_by(self, body: bytes) -> int:
        """How many of the first items another list begins with."""
        if self.depth >= CUT:
            return 0
        if body.startswith(self.body):
            return len(self.items)
        low, high = 0, len(self.ends)
        while low < high:
            middle = (low + high + 1) // 2
            end = self.ends[middle - 1]
            low, high = (middle, high) if body[:end] == self.body[:end] else (low, middle - 1)
        return low


class Thread:
    """What is known of a thread from entry ``first`` on."""

    def __init__(self, first: int = 1) -> None:
        self.first = first
        self.head = Head()
        self.rows: dict[Key, Row] = {}
        self.ids: dict[str, list[str]] = {}  # of each namespace, in order
        self.writes: dict[Key, dict[tuple[str, int], Write]] = {}
        self.last_root = 0  # the note of the checkpoint of the root that was put last
        self.pending: dict[int, Pending] = {}  # the messages that no list has yet, by their first entry
        self.is_stale = False  # something was erased: it must be read again

    @property
    def is_whole(self) -> bool:
        return self.first == 1

    def take(self, entry: Entry) -> None:
        """The next entry."""
        self.head = Head(entry.seq, entry.link)
        match entry.event:
            case Noted(name="langgraph", data={"put": put}) if entry.was is None:
                self.put(entry.seq, put)
            case Noted(name="langgraph", data={"writes": writes}) if entry.was is None:
                self.write(entry.seq, writes)
            case Noted(name="langgraph", data={"pruned": list(pruned)}):
                for ns, name in pruned:
                    self._remove((ns, name))
            case Redacted():
                self.is_stale = True
            case Rewound(to=to):
                self.pending = {first: one for first, one in self.pending.items() if first <= to}
            case MessageAdded() | ToolCalled() | ToolReturned() if entry.was is None:
                self._said(entry)

    def put(self, seq: int, put: dict[str, Any]) -> None:
        key = put["ns"], put["id"]
        if key not in self.rows:
            insort(self.ids.setdefault(key[0], []), key[1])
        self.rows[key] = Row(seq, *key, put.get("parent"))
        if not key[0]:
            self.last_root = max(seq, self.last_root)
        for cell in put["values"].values():
            for item in cell.get("list", ()):
                if type(item) is list:
                    self.pending.pop(item[0], None)

    def _said(self, entry: Entry) -> None:
        if count := length_of(entry.event):
            self.pending[entry.seq] = Pending(entry.seq + count - 1, [])
            for seq in list(self.pending)[:-_PENDING]:
                del self.pending[seq]
        if self.pending:
            first, newest = next(reversed(self.pending.items()))
            if first + len(newest.events) == entry.seq <= newest.last:
                newest.events.append(entry.event)

    def write(self, seq: int, note: dict[str, Any]) -> None:
        known = self.writes.setdefault((note["ns"], note["id"]), {})
        for place, (index, _, _) in enumerate(note["writes"]):
            slot = note["task"], index
            if index < 0 or slot not in known:
                known[slot] = Write(note["path"], note["task"], index, seq, place)

    def _remove(self, key: Key) -> None:
        if self.rows.pop(key, None) is not None:
            self.ids[key[0]].remove(key[1])
        self.writes.pop(key, None)

    def newest(self, ns: str) -> Row | None:
        ids = self.ids.get(ns)
        return self.rows[ns, ids[-1]] if ids else None

    def pending_writes(self, key: Key) -> list[Write]:
        return sorted(self.writes.get(key, {}).values())


def note_of(event: Any, kind: str) -> dict[str, Json] | None:
    """What a note of this kind says."""
    if isinstance(event, Noted) and event.name == OWN and isinstance(event.data, dict):
        note = event.data.get(kind)
        return note if isinstance(note, dict) else None
    return None


def places_of(seq: int, note: dict[str, Any]) -> dict[str, int]:
    """Of each channel, the note that has the value it has in the checkpoint of this note."""
    return {**dict.fromkeys(note["values"], seq), **note.get("at", {})}
