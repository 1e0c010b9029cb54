"""Conversation JSONL: messages (``msg``) and events (``evt``) in one file, a line each, as document 001 describes it.

A line that says an id again is the same message, marked as compacted: the event that compacted it has said so. A compaction waits
for the message with its summary. Events that name entries of another log by their number are notes.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    Compacted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Data,
    Event,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Origin,
    Part,
    RunFinished,
    RunStarted,
    SendConfirmed,
    SendFailed,
    SendRequested,
    SkillActivated,
    SkillDeactivated,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers.head import Head, Object
from chatfold.importers.items import Format, Item, Keys, Problem, Session
from chatfold.importers.lines import Line, LineReader
from chatfold.importers.times import millis
from chatfold.projections.shapes.openai import from_openai
from chatfold.projections.shapes.parse import arguments_of

NAME = "conversation"
SUMMARY = "[Summary] "

_EVENTS = (
    ModelCalled
    | ModelReturned
    | ContextOpened
    | ContextSwitched
    | ContextRecalled
    | ContextCleared
    | CheckpointSet
    | SkillActivated
    | SkillDeactivated
    | RunStarted
    | RunFinished
    | SendRequested
    | SendConfirmed
    | SendFailed
    | Noted
)
_SKILLS = frozenset({"skill_activated", "skill_deactivated"})


def _is_conversation(head: Head) -> bool:
    records = head.records
    return bool(records) and all(
        record.get("type") in ("msg", "evt") and isinstance(record.get("id"), str) for record in records
    )


def _sessions(paths: Sequence[Path]) -> Iterator[Session]:
    beside: dict[Path, set[str]] = {}  # the names in each folder, read once
    for path in paths:
        if path.parent not in beside:
            beside[path.parent] = {one.name for one in path.parent.iterdir()}
        yield ConversationSession(path, _origins(path, beside[path.parent]))


def _key(path: Path) -> str:
    return path.name.partition(".")[0] or path.name


class _Origin(NamedTuple):
    """A file that another began as a copy of, and how many lines of it."""

    path: Path
    lines: int


def _origins(path: Path, names: AbstractSet[str]) -> list[_Origin]:
    """What the file is a copy of, and what that is a copy of in turn, which comes first."""
    shorter = (path.stem[:size] + path.suffix for size in range(len(path.stem) - 1, 0, -1))
    source = next((path.with_name(name) for name in shorter if name in names), None)
    common = _common_lines(path, source) if source is not None else 0
    if source is None or not common:
        return []
    found = [*_origins(source, names), _Origin(source, common)]
    last = next(at for at, one in enumerate(found) if one.lines >= common)
    return [*found[:last], _Origin(found[last].path, common)]


class ConversationSession(Session):
    """A fork is a copy of the file: of the one beside it whose name this name begins with, and whose lines."""

    def __init__(self, path: Path, origins: Sequence[_Origin]) -> None:
        ends = [0, *(one.lines for one in origins)]
        self._begins = list(zip(ends, [*(one.path for one in origins), path], strict=True))
        super().__init__(_key(path), (path,), parent=_key(origins[-1].path) if origins else "")

    def restart(self) -> None:
        self._lines = LineReader(self.paths[0], self.problems)
        self._reader = _Reader()
        self._begun = 0

    def read(self) -> Iterator[Item]:
        yield from self._begin(0)
        for line in self._lines.read():
            yield from self._begin(line.number - 1)
            yield from self._reader.take(line, self.paths[0], self.problems)

    def _begin(self, lines: int) -> Iterator[Item]:
        """What begins after that many lines, and was not said yet."""
        while self._begun < len(self._begins) and self._begins[self._begun][0] <= lines:
            path = self._begins[self._begun][1]
            key = self.key if path == self.paths[0] else _key(path)
            about = {"imported": NAME, "source": str(path.absolute())}
            yield self._reader.made(ChatStarted(key, "", about), f"started-{key}", None)
            self._begun += 1


def _common_lines(one: Path, other: Path) -> int:
    """How many lines two files have in common, from the first on."""
    count = 0
    with one.open("rb") as left, other.open("rb") as right:
        for own, theirs in zip(left, right, strict=False):
            if own != theirs:
                break
            count += 1
    return count


class _Reader:
    def __init__(self) -> None:
        self.place = 0
        self._places: dict[str, tuple[int, int]] = {}  # of a message: its first and its last item
        self._texts: dict[str, str] = {}
        self._waiting: dict[
            str, tuple[Object, int | None, str]
        ] = {}  # compactions, by the id of their summary
        self._keys = Keys()

    def take(self, line: Line, path: Path, problems: list[Problem]) -> Iterator[Item]:
        record = line.record
        name = record.get("id")
        name = name if isinstance(name, str) and name else f"line-{line.number}"
        ts = millis(record.get("ts"))
        try:
            if record.get("type") == "evt":
                yield from self._event(record, name, ts)
            elif name not in self._places:
                yield from self._message(record, name, ts)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            problems.append(Problem(str(path), line.number, line.offset, str(error)))
            yield self.made(Noted(NAME, record), name, ts)

    def _message(self, record: Object, name: str, ts: int | None) -> Iterator[Item]:
        before = self.place
        content = record.get("content")
        if name in self._waiting:
            compaction, said_at, key = self._waiting.pop(name)
            yield from self._compacted(compaction, _words(content).removeprefix(SUMMARY), key, said_at)
        else:
            for event in _events_of(record):
                yield self.made(event, name, ts)
        self._places[name] = min(before + 1, self.place), self.place
        self._texts[name] = _words(content)

    def _event(self, record: Object, name: str, ts: int | None) -> Iterator[Item]:
        kind, data = str(record.get("event")), record.get("data")
        data = data if isinstance(data, dict) else {}
        if kind == "compaction" and isinstance(data.get("summary"), str):
            if data["summary"] in self._texts:
                yield from self._compacted(data, self._texts[data["summary"]].removeprefix(SUMMARY), name, ts)
            else:
                self._waiting[data["summary"]] = data, ts, name
            return
        if kind == "checkpoint" and isinstance(data.get("name"), str):
            yield self.made(CheckpointSet(data["name"]), name, ts)
            return
        if kind in _SKILLS and "skill" in data:
            data = {
                "name": data["skill"],
                **{field: value for field, value in data.items() if field != "skill"},
            }
        try:
            event = msgspec.convert({**data, "type": kind}, _EVENTS)
        except msgspec.ValidationError:
            ref = record.get("ref_msg_id")
            event = Noted(
                f"{NAME}.{kind}", data, self._places.get(ref, (0, 0))[0] if isinstance(ref, str) else 0
            )
        if isinstance(event, ContextOpened | ContextSwitched | ContextCleared):
            event = msgspec.structs.replace(event, carry=())
        if isinstance(event, Noted) and event.ref and kind == "noted":
            event = msgspec.structs.replace(
                event, ref=self._places.get(str(record.get("ref_msg_id")), (0, 0))[0]
            )
        yield self.made(event, name, ts)

    def _compacted(self, data: Object, summary: str, name: str, ts: int | None) -> Iterator[Item]:
        first = self._places.get(str(data.get("from")), (1, 0))[0]
        last = self._places.get(str(data.get("to")), (0, self.place))[1]
        if 0 < first <= last:
            yield self.made(Compacted(first, last, last - first + 1, summary, "imported"), name, ts)
        else:
            yield self.made(Noted(f"{NAME}.compaction", {**data, "text": summary}), name, ts)

    def made(self, event: Event, name: str, ts: int | None) -> Item:
        self.place += 1
        return Item(event, self._keys.unique(name), ts)


def _events_of(record: Object) -> list[Event]:
    role, content = record.get("role"), record.get("content")
    parts = _parts(content)
    if role == "tool":
        return [ToolReturned(str(record.get("tool_call_id") or ""), parts, bool(record.get("is_error")))]
    if role not in ("user", "assistant", "system", "developer"):
        raise ValueError(f"role: expected 'user', 'assistant', 'system', 'developer' or 'tool', got {role!r}")
    calls = record.get("tool_calls")
    asked: list[Event] = (
        [_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    )
    origin: Origin = "internal" if record.get("is_meta") else "exec"
    said = [MessageAdded(role, parts, origin)] if content is not None or not asked else []
    return [*said, *asked]


def _call(call: Object) -> ToolCalled:
    function = call.get("function")
    given = function if isinstance(function, dict) else call
    args = next((given[name] for name in ("arguments", "args", "input") if name in given), None)
    return ToolCalled(
        str(call.get("id") or ""),
        str(given.get("name") or ""),
        arguments_of(args) if isinstance(args, str) else args,
    )


def _parts(content: Any) -> tuple[Part, ...]:
    """A content of any kind: parts as a log has them, as OpenAI has them, or anything else."""
    match content:
        case None:
            return ()
        case str():
            return (Text(content),)
        case list():
            try:
                return msgspec.convert(content, tuple[Part, ...])
            except msgspec.ValidationError:
                pass
            try:
                [event] = from_openai([{"role": "user", "content": content}])
            except ValueError:
                return (Data("json", content),)
            return event.parts if isinstance(event, MessageAdded) else ()
    return (Data("json", content),)


def _words(content: Any) -> str:
    return "\n".join(part.text for part in _parts(content) if isinstance(part, Text))


FORMATS = (Format(NAME, "conversation JSONL (msg and evt lines)", _is_conversation, _sessions),)
