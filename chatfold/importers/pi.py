"""pi: sessions, ``~/.pi/agent/sessions/--<folder>--/<time>_<id>.jsonl``, of every version there was.

An entry names the one that it follows, so a file is a tree: an entry that follows an earlier one went back there. The first version
has no ids, and is a line.

- A chat is a session: ``pi-<id>``. A fork copies what it begins with into a file of its own, with the ids; it shares that with the chat
  that it names as ``parentSession``.
- A compaction stands for all before the first entry that it keeps. An answer that was taken out of the context is gone back behind.
- What the user ran, what extensions said and the summary of a branch are ``internal``: the model sees them.
- Changes of model and of effort are said by the next request.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Rewound,
    Text,
    ToolReturned,
)
from chatfold.importers.head import Head, Object
from chatfold.importers.items import Format, Home, Item, Maker, Problem, Session, counts_of
from chatfold.importers.lines import Line, LineReader
from chatfold.importers.times import millis
from chatfold.projections.shapes.anthropic import from_anthropic

NAME = "pi"

_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_input_tokens",
    "cacheWrite": "cache_creation_input_tokens",
}
_COMMON = frozenset({"type", "id", "parentId", "timestamp"})
_DEEPEST = 32  # forks of forks


def _is_session(head: Head) -> bool:
    first = head.records[0] if head.records else {}
    return first.get("type") == "session" and {"id", "timestamp", "cwd"} <= first.keys()


def _sessions(paths: Sequence[Path]) -> Iterator[Session]:
    return (PiSession(path) for path in paths)


class _Origin(NamedTuple):
    """A file: what its first line says, and its entries."""

    header: Object
    entries: frozenset[tuple[Any, Any]]


def _origins(path: Path, depth: int = 0) -> list[_Origin]:
    """The files that this one began as a copy of, the oldest first, as far as they lie beside it."""
    header = (Head(path).records or [{}])[0]
    source = header.get("parentSession") or header.get("branchedFrom")
    beside = path.with_name(Path(source).name) if isinstance(source, str) and source else path
    if beside == path or depth > _DEEPEST or not beside.is_file():
        return []
    records = [line.record for line in LineReader(beside, []).read()]
    entries = frozenset((str(one.get("id")), str(one.get("timestamp"))) for one in records[1:])
    return [*_origins(beside, depth + 1), _Origin(records[0] if records else {}, entries)]


class PiSession(Session):
    def __init__(self, path: Path) -> None:
        header = (Head(path).records or [{}])[0]
        self._origins = _origins(path)
        parent = _key(self._origins[-1].header) if self._origins else ""
        super().__init__(_key(header), (path,), parent=parent)

    def restart(self) -> None:
        self._lines = LineReader(self.paths[0], self.problems)
        self._tree = _Tree(self._origins)

    def read(self) -> Iterator[Item]:
        for line in self._lines.read():
            yield from self._tree.take(line, self.paths[0], self.problems)


def _key(header: Object) -> str:
    return f"{NAME}-{header.get('id')}"


class _Tree:
    """From entries to items. It sees every entry once, in order, and never looks ahead."""

    def __init__(self, origins: Sequence[_Origin]) -> None:
        self._maker = Maker()
        self._origins = origins
        self._begun = 0  # how many of the origins' headers were said
        self._header: Object | None = None  # our own, until it is said
        self._places: dict[str, tuple[int, int]] = {}  # of an entry: the place before it, and its last
        self._last = ""  # the entry before
        self._effort: Object = {}

    def take(self, line: Line, path: Path, problems: list[Problem]) -> Iterator[Item]:
        record = line.record
        if record.get("type") == "session":
            if self._header is None and not self._maker.place:
                self._header = record
                yield from self._begin(None)
            return
        yield from self._begin(record)
        own = record.get("id")
        name = own if isinstance(own, str) and own else f"line-{line.number}"
        yield from self._go_back(record, name)
        before = self._maker.place
        try:
            yield from self._entry(record, name)
        except (ValueError, TypeError, LookupError, AttributeError) as error:  # it says what no event can say
            problems.append(Problem(str(path), line.number, line.offset, str(error)))
            yield self._maker.item(Noted(NAME, record), name, _time(record))
        self._places[name] = before, self._maker.place
        self._last = name

    def _begin(self, record: Object | None) -> Iterator[Item]:
        """Whose chat it is: the oldest one's first, ours when an entry comes that was not copied."""
        if self._header is None:
            return
        headers = [*(one.header for one in self._origins), self._header]
        if record is None:
            yield self._started(headers[0])
            return
        entry = str(record.get("id")), str(record.get("timestamp"))
        while self._begun < len(self._origins) and entry not in self._origins[self._begun].entries:
            self._begun += 1
            yield self._started(headers[self._begun])

    def _started(self, header: Object) -> Item:
        words = {"imported": NAME, "session": header.get("id"), "cwd": header.get("cwd")}
        meta = {name: word for name, word in words.items() if isinstance(word, str)}
        return self._maker.item(
            ChatStarted(_key(header), "", meta), f"started-{header.get('id')}", _time(header)
        )

    def _go_back(self, record: Object, name: str) -> Iterator[Item]:
        parent = record.get("parentId")
        if isinstance(parent, str) and parent != self._last and parent in self._places:
            to = self._places[parent][1]
            if to < self._maker.place:
                yield self._maker.item(Rewound(to, "another branch"), f"{name}.back", _time(record))

    # --- entries -------------------------------------------------------------------------------------------

    def _entry(self, record: Object, name: str) -> Iterator[Item]:
        said_at = _time(record)
        match record.get("type"):
            case "message":
                yield from self._message(record["message"], name, said_at)
            case "model_change":
                pass
            case "thinking_level_change":
                level = record.get("thinkingLevel")
                self._effort = {"effort": level} if isinstance(level, str) and level != "off" else {}
            case "session_info":
                yield self._maker.item(ChatStarted("", str(record.get("name") or "")), name, said_at)
            case "compaction":
                yield from self._compacted(record, name, said_at)
            case "branch_summary":
                yield self._internal(
                    str(record.get("summary")), {"branch_summary": record.get("fromId")}, name, said_at
                )
            case "custom_message":
                parts = _parts(record.get("content"))
                meta = {NAME: _rest(record, "content")}
                yield self._maker.item(MessageAdded("user", parts, "internal", meta), name, said_at)
            case "context_edit" if self._is_taken_out(record):
                to = self._places[record["targetId"]][0]
                yield self._maker.item(Rewound(to, "taken out of the context"), name, said_at)
            case kind:
                target = self._places.get(str(record.get("targetId")), (0, 0))[1]
                yield self._maker.item(Noted(f"{NAME}.{kind}", _rest(record), target), name, said_at)

    def _is_taken_out(self, record: Object) -> bool:
        """Is it the newest entry that no longer counts?"""
        return record.get("replacement") is None and record.get("targetId") == self._last

    def _compacted(self, record: Object, name: str, said_at: int | None) -> Iterator[Item]:
        last = self._maker.place
        kept, index = record.get("firstKeptEntryId"), record.get("firstKeptEntryIndex")
        if isinstance(kept, str) and kept in self._places:
            last = self._places[kept][0]
        elif type(index) is int and 0 <= index < len(self._places):
            last = [*self._places.values()][index][0]
        tokens = counts_of({"tokensBefore": "before"}, record)
        if last:
            event = Compacted(1, last, last, str(record.get("summary") or ""), NAME, tokens=tokens)
            yield self._maker.item(event, name, said_at)

    def _message(self, message: Object, name: str, said_at: int | None) -> Iterator[Item]:
        match message.get("role"):
            case "assistant":
                yield from self._answered(message, name, said_at)
            case "toolResult":
                details = message.get("details")
                event = ToolReturned(
                    str(message.get("toolCallId")),
                    _parts(message.get("content")),
                    bool(message.get("isError")),
                    {NAME: {"details": details}} if details else {},
                )
                yield self._maker.item(event, name, said_at)
            case "user":
                yield self._maker.item(MessageAdded("user", _parts(message.get("content"))), name, said_at)
            case "system":
                sections = message.get("sections")
                texts = [message.get("content"), *(sections.values() if isinstance(sections, dict) else ())]
                text = "\n\n".join(one for one in texts if isinstance(one, str) and one)
                yield self._maker.item(MessageAdded("system", (Text(text),)), name, said_at)
            case "bashExecution":
                told = f"$ {message.get('command')}\n{message.get('output')}"
                yield self._internal(told, {"ran": _rest(message, "output", "role")}, name, said_at)
            case role:  # custom, hookMessage
                meta = {NAME: _rest(message, "content") | {"role": role}}
                parts = _parts(message.get("content"))
                yield self._maker.item(MessageAdded("user", parts, "internal", meta), name, said_at)

    def _internal(self, text: str, about: Object, name: str, said_at: int | None) -> Item:
        event = MessageAdded("user", (Text(text),), "internal", {NAME: about})
        return self._maker.item(event, name, said_at)

    def _answered(self, message: Object, name: str, said_at: int | None) -> Iterator[Item]:
        model, provider = str(message.get("model") or ""), str(message.get("provider") or "")
        asked = ModelCalled(model, "", self._effort, provider=provider)
        yield self._maker.item(asked, f"{name}.asked", millis(message.get("timestamp")) or said_at)
        blocks = _blocks(message.get("content"))
        if blocks:
            given = [{"role": "assistant", "content": blocks}]
            for event in from_anthropic(given, model=model, provider=provider):
                yield self._maker.item(event, name, said_at)
        stop = message.get("stopReason")
        failed = stop in ("error", "aborted")
        error = str(message.get("errorMessage") or stop) if failed else ""
        usage = message.get("usage")
        cost = usage.get("cost") if isinstance(usage, dict) else None
        returned = ModelReturned(
            counts_of(_USAGE, usage), str(stop or ""), error, {NAME: {"cost": cost}} if cost else {}
        )
        yield self._maker.item(returned, f"{name}.cost", said_at)


def _time(record: Object) -> int | None:
    return millis(record.get("timestamp"))


def _rest(record: Object, *said: str) -> Object:
    return {name: value for name, value in record.items() if name not in _COMMON and name not in said}


def _parts(content: Any) -> tuple[Any, ...]:
    blocks = _blocks(content)
    events = from_anthropic([{"role": "user", "content": blocks}]) if blocks else []
    return tuple(part for event in events if isinstance(event, MessageAdded) for part in event.parts)


def _blocks(content: Any) -> list[Object]:
    """What a message holds, as Anthropic's blocks say it."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_block(one) for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def _block(block: Object) -> Object:
    match block.get("type"):
        case "thinking":
            signature = str(block.get("thinkingSignature") or "")
            return {"type": "thinking", "thinking": str(block.get("thinking") or ""), "signature": signature}
        case "toolCall":
            return {
                "type": "tool_use",
                "id": str(block["id"]),
                "name": str(block["name"]),
                "input": block.get("arguments"),
            }
        case "image":
            source = {"type": "base64", "media_type": str(block.get("mimeType")), "data": block.get("data")}
            return {"type": "image", "source": source}
    return {"type": "text", "text": str(block.get("text") or "")}


FORMATS = (
    Format(
        NAME,
        "sessions of pi (~/.pi/agent/sessions)",
        _is_session,
        _sessions,
        (Home("PI_CODING_AGENT_DIR", ".pi/agent", "sessions"),),
    ),
)
