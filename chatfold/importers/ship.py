""".ship folders, of all generations that documents 000, 002, 003 and 004 describe. A chat is a folder, and its key is the folder's.

    chats/<chat>/history.jsonl, memory/agent-context/<chat>.jsonl                   transcript; what each run did
    chat/<chat>/conversations/history.jsonl, contexts/…, memory/…, profile/…        transcript; the contexts, active and archived
    chat/<chat>/messages/… or context/<chat>/messages/…                             UIMessages, with those that were archived

Where two files say the same, it is one message: contexts say which of them hold it. A summary of the last generation stands for what
its archive holds, at the time of that archive. Such folders are rewritten, so all of a folder is read again when one of its
files has changed.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    ContextOpened,
    ContextSwitched,
    Data,
    Event,
    MessageAdded,
    Noted,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers.head import Head, Object, decode_object
from chatfold.importers.items import Format, Item, Keys, Problem, Session, WholeSession
from chatfold.importers.lines import LineReader
from chatfold.importers.lists import items_of
from chatfold.importers.times import millis
from chatfold.projections.contexts import MAIN
from chatfold.projections.shapes.ui import from_ui
from chatfold.projections.shapes.ui_parts import message_id
from chatfold.projections.text import text_of

NAME = "ship"

_PLACES = re.compile(
    r"(?P<root>.*?)/?(?:"
    r"chats/(?P<first>[^/]+)/history\.jsonl|memory/agent-context/(?P<runs>[^/]+)\.jsonl"
    r"|chat/(?P<second>[^/]+)/(?:conversations/[^/]+\.jsonl|contexts/.+\.jsonl?|memory/[^/]+\.md)"
    r"|(?P<kind>chat|context)/(?P<third>[^/]+)/messages/(?:[^/]+\.jsonl|meta\.json|archive/[^/]+\.json))$"
)
_SYSTEM = ("profile/Primary.md", "profile/other.md")


def _is_of_ship(head: Head) -> bool:
    place = _PLACES.match(head.path.absolute().as_posix())
    if place is None:
        return False
    if head.path.suffix != ".jsonl":
        return (
            head.path.suffix != ".md"
            and ".ship" in head.path.absolute().parts
            and head.start.startswith(b"{")
        )
    records = head.records
    return bool(records) and all(
        "requestId" in record
        if place["runs"]
        else "role" in record and {"text", "content", "parts"} & record.keys()
        for record in records
    )


def _sessions(paths: Sequence[Path]) -> Iterator[Session]:
    seen: set[tuple[str, str, str]] = set()
    for path in paths:
        place = _PLACES.match(path.absolute().as_posix())
        assert place is not None
        name = place["first"] or place["runs"] or place["second"] or place["third"]
        generation = "third" if place["third"] else "second" if place["second"] else "first"
        if _is_whole(Path(place["root"] or "/"), name):
            generation = "third"
        if (place["root"], generation, name) not in seen:
            seen.add((place["root"], generation, name))
            yield ShipSession(Path(place["root"] or "/"), generation, name, place["kind"] or "chat")


def _is_whole(root: Path, name: str) -> bool:
    """Did an export write this, whose UIMessages are all there is?"""
    try:
        meta = decode_object((root / "chat" / name / "messages" / "meta.json").read_bytes())
    except OSError:
        return False
    return meta is not None and meta.get("source") == "chatfold"


class ShipSession(WholeSession):
    def __init__(self, root: Path, generation: str, name: str, kind: str) -> None:
        self._root = root
        self._generation = generation
        self._name = name
        self._folder = (
            root / (kind if generation == "third" else "chat" if generation == "second" else "chats") / name
        )
        super().__init__(unquote(name) or name, tuple(self._files()))
        self.source = str(self._folder.absolute())

    def _files(self) -> list[Path]:
        match self._generation:
            case "first":
                own = [
                    self._folder / "history.jsonl",
                    self._root / "memory" / "agent-context" / f"{self._name}.jsonl",
                ]
            case "second":
                own = [*sorted(self._folder.rglob("*.json*")), self._folder / "memory" / "Primary.md"]
                own += [self._root / name for name in _SYSTEM]
            case _:
                own = sorted((self._folder / "messages").rglob("*.json*"))
        return [path for path in own if path.is_file()]

    def state(self) -> object:
        return {path: (stat.st_mtime_ns, stat.st_size) for path in self._files() for stat in [path.stat()]}

    def items(self) -> Iterator[Item]:
        self.paths = tuple(self._files())
        about = {"imported": NAME, "source": str(self._folder.absolute())}
        yield Item(ChatStarted(self.key, "", about), "started")
        if self._generation == "third":
            yield from _third(self._lists(), 1)
        else:
            yield from self._of_transcripts()

    # --- what the files say --------------------------------------------------------------------------------

    def _lines(self, path: Path) -> list[Object]:
        return [line.record for line in LineReader(path, self.problems).read()] if path.is_file() else []

    def _object(self, path: Path) -> Object:
        try:
            found = decode_object(path.read_bytes())
        except OSError:
            return {}
        if found is None:
            self.problems.append(Problem(str(path), 0, 0, "no JSON object"))
        return found or {}

    def _lists(self) -> tuple[list[tuple[int, list[Object]]], list[Object]]:
        """The archives with their times, oldest first, and the history."""
        folder = self._folder / "messages"
        archives = []
        for path in sorted((folder / "archive").glob("*.json")):
            archive = self._object(path)
            messages = archive.get("messages")
            archives.append((millis(archive.get("archivedAt")) or 0, self._readable(messages, path)))
        history: list[Object] = []
        for path in sorted(folder.glob("*.jsonl")):
            history += self._readable(self._lines(path), path)
        return sorted(archives, key=lambda one: one[0]), history

    def _readable(self, messages: Any, path: Path) -> list[Object]:
        good = []
        for message in messages if isinstance(messages, list) else []:
            try:
                from_ui([message])
            except ValueError as error:
                self.problems.append(Problem(str(path), 0, 0, str(error)))
            else:
                good.append(message)
        return good

    def _of_transcripts(self) -> Iterator[Item]:
        if self._generation == "first":
            said = self._lines(self._folder / "history.jsonl")
            runs = self._lines(self._root / "memory" / "agent-context" / f"{self._name}.jsonl")
            yield from _Timeline(said, {}, runs).items()
            return
        said = [
            line
            for path in sorted((self._folder / "conversations").glob("*.jsonl"))
            for line in self._lines(path)
        ]
        contexts = {MAIN: {"messages": self._lines(self._folder / "contexts" / "active.jsonl")}}
        for path in sorted((self._folder / "contexts" / "archive").glob("*.json")):
            archive = self._object(path)
            contexts[str(archive.get("contextId") or path.stem)] = archive
        yield from self._system_texts()
        yield from _Timeline(said, contexts, []).items()

    def _system_texts(self) -> Iterator[Item]:
        for path in (*(self._root / name for name in _SYSTEM), self._folder / "memory" / "Primary.md"):
            if path.is_file() and (text := path.read_text("utf-8", "replace").strip()):
                event = MessageAdded("system", (Text(text),), meta={"source": path.name})
                yield Item(event, f"system-{path.parent.name}-{path.stem}")


# --- transcripts -------------------------------------------------------------------------------------------


class _Timeline:
    """Messages in the order of their times, each once, and in which context they are."""

    def __init__(self, said: list[Object], contexts: dict[str, Object], runs: list[Object]) -> None:
        self._contexts = contexts
        self._rows: list[tuple[int, int, str, list[Item]]] = []
        where = {key: name for name, one in contexts.items() for key in map(_identity, _messages_of(one))}
        known = set()
        for number, line in enumerate(said, 1):
            key = _identity(line)
            known.add(key)
            self._add(line, where.get(key, MAIN), f"line-{number}")
        for name, context in contexts.items():
            for number, line in enumerate(_messages_of(context), 1):
                if _identity(line) not in known:
                    self._add(line, name, f"{name}-{number}")
        for number, run in enumerate(runs, 1):
            self._rows.append((millis(run.get("ts")) or 0, len(self._rows), MAIN, [*_run_items(run, number)]))
        self._rows.sort(key=lambda row: row[:2])

    def _add(self, line: Object, context: str, fallback: str) -> None:
        ts = millis(line.get("ts"))
        role, text = line.get("role"), _text_of(line)
        about = {
            name: value for name, value in line.items() if name not in ("v", "ts", "role", "text", "content")
        }
        event: Event = Noted(f"{NAME}.{role}", {"text": text, **about})
        if role in ("user", "assistant", "system"):
            event = MessageAdded(role, (Text(text),), meta={NAME: about} if about else {})
        message = line.get("messageId")
        name = f"u-{message}" if isinstance(message, str) and message and role == "user" else fallback
        self._rows.append((ts or 0, len(self._rows), context, [Item(event, name, ts)]))

    def items(self) -> Iterator[Item]:
        here, opened = MAIN, {MAIN}
        keys = Keys()
        moves = 0
        for ts, _, context, items in self._rows:
            if context != here:
                moves += 1
                yield self._move(context, here, opened, ts, keys.unique(f"move-{moves}"))
                here = context
            for item in items:
                yield Item(item.event, keys.unique(item.key), item.said_at, item.run)
        if here != MAIN:
            yield self._move(MAIN, here, opened, 0, keys.unique(f"move-{moves + 1}"))

    def _move(self, to: str, here: str, opened: set[str], ts: int, key: str) -> Item:
        left = self._contexts.get(here, {})
        reason = left.get("archiveReason")
        reason = reason if isinstance(reason, str) else ""
        event: Event = ContextSwitched(to, reason=reason)
        if to not in opened:
            opened.add(to)
            title = self._contexts.get(to, {}).get("title")
            event = ContextOpened(to, title if isinstance(title, str) else "", reason)
        return Item(event, key, ts or None)


def _messages_of(context: Object) -> list[Object]:
    found = context.get("messages") or context.get("turns")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _identity(line: Object) -> tuple[Any, Any, str]:
    return millis(line.get("ts")), str(line.get("role")), _text_of(line)


def _text_of(line: Object) -> str:
    text = line.get("text", line.get("content"))
    return text if isinstance(text, str) else ""


def _run_items(run: Object, number: int) -> Iterator[Item]:
    """What a run did, as far as it was kept: its calls with their results."""
    name = run.get("requestId")
    name = name if isinstance(name, str) and name else f"run-{number}"
    ts = millis(run.get("ts"))
    about = {key: run[key] for key in ("userPreview", "outputPreview") if isinstance(run.get(key), str)}
    yield Item(RunStarted(NAME, about), f"{name}.started", ts, name)
    calls = run.get("toolCalls")
    for at, call in enumerate(calls if isinstance(calls, list) else [], 1):
        if not isinstance(call, dict):
            continue
        id_ = f"{name}.{at}"
        failed = call.get("success") is False
        yield Item(ToolCalled(id_, str(call.get("tool") or ""), call.get("input")), id_, ts, name)
        output = call.get("error") if failed and call.get("error") else call.get("output")
        part = Text(output) if isinstance(output, str) else Data("json", output)
        yield Item(ToolReturned(id_, (part,), failed), f"{id_}.result", ts, name)
    yield Item(RunFinished("done"), f"{name}.finished", ts, name)


# --- UIMessages --------------------------------------------------------------------------------------------


def _third(lists: tuple[list[tuple[int, list[Object]]], list[Object]], place: int) -> Iterator[Item]:
    """All messages, archived ones first; a compaction stands where it was when its archive was written."""
    archives, history = lists
    archived_at = {str(one.get("id")): ts for ts, messages in archives for one in messages}
    messages: dict[str, Object] = {}
    for one in (*(one for _, some in archives for one in some), *history):
        messages.setdefault(str(one.get("id")), one)
    summaries = [(_compacted_at(one, archived_at), one) for one in messages.values() if _is_summary(one)]
    summaries.sort(key=lambda pair: pair[0])
    places: dict[str, tuple[int, int]] = {}
    name, ts = "", 0
    for item in items_of(from_ui([one for one in messages.values() if not _is_summary(one)])):
        if found := message_id(item.event):
            name, ts = found, item.said_at or ts
            while summaries and summaries[0][0] < ts:
                compaction = _compaction(*summaries.pop(0), places)
                place += 1
                yield compaction
        place += 1
        places[name] = places.get(name, (place, 0))[0], place
        yield item
    for at, summary in summaries:
        yield _compaction(at, summary, places)


def _is_summary(message: Object) -> bool:
    metadata = message.get("metadata")
    return (
        isinstance(metadata, dict)
        and metadata.get("kind") == "summary"
        and isinstance(metadata.get("sourceRange"), dict)
    )


def _compacted_at(summary: Object, archived_at: dict[str, int]) -> int:
    metadata = summary["metadata"]
    return archived_at.get(str(metadata["sourceRange"].get("toId"))) or millis(metadata.get("ts")) or 0


def _compaction(at: int, summary: Object, places: dict[str, tuple[int, int]]) -> Item:
    source = summary["metadata"]["sourceRange"]
    first, last = (places.get(str(source.get(name)), (0, 0)) for name in ("fromId", "toId"))
    text = "\n".join(text_of(event.parts) for event in from_ui([summary]) if isinstance(event, MessageAdded))
    name = str(summary.get("id"))
    ts = at or None
    if not last[1]:
        return Item(Noted(f"{NAME}.summary", summary), name, ts)
    count = source.get("count")
    begin = first[0] or 1
    places[name] = begin, last[1]
    event = Compacted(
        begin, last[1], count if type(count) is int and count > 0 else last[1] - begin + 1, text, "imported"
    )
    return Item(event, name, ts)


FORMATS = (Format(NAME, ".ship folders (chats, contexts, archives)", _is_of_ship, _sessions),)
