"""The log in the shapes that came before it: the files of working contexts, a JSONL file a conversation.

    active_lines(entries)               # contexts/active.jsonl: the entries of one context
    archive_file(context, entries)      # contexts/archive/<contextId>.json
    index_file(rows)                    # contexts/index.json; rows: those of ``archive.index``
    legacy_lines(entries, state)     # messages and events in one file, a line each

Each is a list or a dict of strict JSON, made from the entries alone: the same entries give the same lines, with the
times and texts that were recorded. Entries may be of any kind; they come in the order of the log.

What was sent to the user is known as a ``transcript`` knows it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from chatfold.eventlog import (
    Compacted,
    ContextRecalled,
    Entry,
    Event,
    Injected,
    Json,
    MessageAdded,
    ModelCalled,
    Noted,
    Part,
    SkillActivated,
    SkillDeactivated,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.projections.archive import ArchiveRow
from chatfold.projections.context import Context
from chatfold.projections.contexts import Contexts, contexts, window
from chatfold.projections.documents.transcript import Said, said_by, words_said
from chatfold.projections.fold import fold, start
from chatfold.projections.shapes.values import arguments, json_text, replace_surrogates, to_json_value
from chatfold.projections.spans import Spans, includes, minus, spans
from chatfold.projections.text import Waiting

Object: TypeAlias = dict[str, Any]

SUMMARY = "[Summary] "


# --- working contexts ------------------------------------------------------------------------------------


def active_lines(entries: Iterable[Entry]) -> list[Object]:
    """One line a message of a user, one for all that a run answered: ``entries`` are all those of a context.

    A run is remembered by what it last sent, if a send was confirmed; else by the last thing the model said in words.
    The line has the place and time of that. What an assistant said outside of any run is a line, too, and so is what
    was said on nobody's behalf (``internal``). What is sent outside of any run is not.
    """
    lines: dict[int, Object] = {}
    answers: dict[str, Said] = {}
    for said in said_by(entries):
        if said.origin == "audit" or said.role not in ("user", "assistant"):
            continue
        content = words_said(said.parts)
        if said.role == "assistant" and said.origin == "exec" and said.run is not None:
            before = answers.get(said.run)
            was_sent = before is not None and before.via == "send"
            if not content.strip() or (was_sent and said.via != "send"):
                continue
            if before:
                del lines[before.seq]
            answers[said.run] = said
        elif said.via == "send":
            continue
        lines[said.seq] = {"v": 1, "ts": said.ts, "role": said.role, "content": content}
    return list(lines.values())


def archive_file(context: Context, entries: Iterable[Entry]) -> Object:
    """``entries``: at least those of ``context.spans``; others are skipped. The summary is its newest one, if any."""
    own = [entry for entry in entries if includes(context.spans, entry.seq)]
    newest = max((top.seq for top in context.tops), default=0)
    file = {
        "v": 1,
        "contextId": replace_surrogates(context.id),
        "title": replace_surrogates(context.title),
        "createdAt": context.created,
        "status": "archived",
        "archivedAt": context.archived,
        "archiveReason": replace_surrogates(context.reason),
        "messages": active_lines(own),
    }
    for entry in own:
        if entry.seq == newest and isinstance(entry.event, Compacted):
            file["summary"] = replace_surrogates(entry.event.summary)
    return file


_INDEX_FIELDS = ("contextId", "title", "createdAt", "archivedAt", "messageCount", "summaryPreview")


def index_file(rows: Iterable[ArchiveRow]) -> Object:
    """``messageCount`` counts messages as they were recorded: a run that said several things is one line of a file."""
    items = [msgspec.to_builtins(row) for row in rows]
    return {"v": 1, "items": [{name: to_json_value(item[name]) for name in _INDEX_FIELDS} for item in items]}


# --- one file a conversation -----------------------------------------------------------------------------


def legacy_lines(entries: Iterable[Entry], state: Contexts | None = None) -> list[Object]:
    """What happened, in the order it happened; ``state``: what ``contexts`` says of the log, without it these are all.

    Messages are ``m001`` …, events ``e001`` …; fields with their default are left out. Calls are on the assistant's
    message they were made with, each result is a message, also one that answers nothing. A message that is hidden by
    a compaction in force, or is the summary of one that is not in force, has ``compacted``. Recorded for the audit
    alone, it is an event: nobody is to take it for a message. Its meta and its run have no place here.
    """
    history = list(entries)
    record = _Record()
    for entry in history:
        record.take(entry)
    if state is None:
        state = fold(start((contexts,), memory=len(history)), history)[contexts]
    record.mark(state)
    return [to_json_value(row) for row in record.rows]


class _Record:
    """The rows so far, and the step that is open: the rules by which ``prompt`` puts calls together."""

    def __init__(self) -> None:
        self.rows: list[Object] = []
        self.messages = 0
        self.owners: dict[int, Object] = {}  # the message each entry is part of
        self.seqs: list[int] = []  # its keys
        self.summaries: set[int] = set()
        self.calls: Waiting[str] = Waiting()  # the names of the tools called
        self.names: dict[str, str] = {}  # the same of all calls, for a result that comes again
        self.step: Object | None = None  # the assistant's message, to which calls may still be added
        self.waiting: list[str] = []  # its calls without a result

    def take(self, entry: Entry) -> None:
        event = entry.event
        self.calls.close_at(event)
        match event:
            case MessageAdded(role=role, parts=parts, origin="exec" | "internal" as origin):
                row = self.message(entry, role, _content(parts), is_meta=origin == "internal")
                if role == "assistant":
                    self.close(row)
            case Injected(role=role, parts=parts):
                # Whoever injected it, it was not said by the system: see ``prompt``.
                role = "assistant" if role == "assistant" else "user"
                self.message(entry, role, _content(parts), is_meta=True)
            case ToolCalled():
                self.call(entry, event)
            case ToolReturned():
                self.answer(entry, event)
            case Compacted():
                self.compaction(entry, event)
            case SkillActivated() | SkillDeactivated():
                tag, fields = _fields(event)
                self.event(entry, tag, {"skill": fields.pop("name"), **fields})
            case _:
                if type(event) is ModelCalled or (type(event) is ContextRecalled and not self.waiting):
                    self.close()
                self.event(entry, *_fields(event))

    def close(self, row: Object | None = None) -> None:
        self.step, self.waiting = row, []

    def message(self, entry: Entry, role: str, content: Json, **more: Json) -> Object:
        if role != "tool" and not self.waiting:
            self.close()
        self.messages += 1
        row = {"id": f"m{self.messages:03}", "ts": _iso(entry.time), "type": "msg", "role": role}
        row |= {key: value for key, value in more.items() if value} | {"content": content}
        self.rows.append(row)
        self.own(entry.seq, row)
        return row

    def own(self, seq: int, row: Object) -> None:
        self.seqs.append(seq)
        self.owners[seq] = row

    def event(self, entry: Entry, tag: str, data: Object) -> None:
        number = len(self.rows) - self.messages + 1
        row = {"id": f"e{number:03}", "ts": _iso(entry.time), "type": "evt", "event": tag, "data": data}
        if isinstance(entry.event, Noted) and entry.event.ref in self.owners:
            row["ref_msg_id"] = self.owners[entry.event.ref]["id"]
        self.rows.append(row)

    def call(self, entry: Entry, event: ToolCalled) -> None:
        step = self.step
        if step is not None and (self.waiting or "tool_calls" not in step):
            self.own(entry.seq, step)
        else:
            step = self.message(entry, "assistant", None)
            self.close(step)
        function = {"name": event.name, "arguments": json_text(arguments(event.args))}
        call = {"id": event.call, "type": "function", "function": function}
        step.setdefault("tool_calls", []).append(call)
        self.waiting.append(event.call)
        self.calls.call(event.call, event.name)
        self.names[event.call] = event.name

    def answer(self, entry: Entry, event: ToolReturned) -> None:
        row = self.message(entry, "tool", _content(event.parts), is_error=event.failed)
        row["tool_call_id"] = event.call
        if event.call in self.names:
            row["tool_name"] = self.calls.answer(event.call) or self.names[event.call]
        if event.call in self.waiting:
            self.waiting.remove(event.call)

    def compaction(self, entry: Entry, event: Compacted) -> None:
        hidden = self.seqs[bisect_left(self.seqs, event.first) : bisect_right(self.seqs, event.last)]
        ids = sorted((self.owners[seq]["id"] for seq in hidden), key=_number) or [None]
        summary = f"m{self.messages + 1:03}"
        self.event(entry, "compaction", {"from": ids[0], "to": ids[-1], "summary": summary})
        self.close()
        self.message(entry, "user", SUMMARY + event.summary)
        self.summaries.add(entry.seq)

    def mark(self, state: Contexts) -> None:
        """A message of several entries is hidden when all of them are."""
        head = max(self.owners, default=0)
        known = (state.active, *state.shelf.values())
        in_force = {top.seq for context in known for top in context.tops}
        hidden = _hidden(state, head)
        shown = {
            row["id"]
            for seq, row in self.owners.items()
            if (seq in in_force if seq in self.summaries else not includes(hidden, seq))
        }
        for row in self.owners.values():
            if row["id"] not in shown:
                row["compacted"] = True


def _number(id: str) -> int:
    return int(id[1:])


def _hidden(state: Contexts, head: int) -> Spans:
    """What belongs to some context and is seen in none."""
    names = (state.active.id, *state.shelf)
    belongs = spans(span for name in names for span in state.spans(name, head))
    return minus(belongs, spans(span for name in names for span in window(state, head, name).spans))


def _content(parts: tuple[Part, ...]) -> Json:
    """One text is a string, nothing is null, anything else a list of parts."""
    match parts:
        case ():
            return None
        case (Text(text=text),):
            return text
    return [_builtins(part) for part in parts]


def _fields(event: Event) -> tuple[str, Object]:
    """The name of the event on disk, and its fields."""
    if isinstance(event, Unknown):
        return event.name, _unknown(event.raw)
    fields = _builtins(event)
    return fields.pop("type"), fields


def _unknown(raw: bytes) -> Object:
    try:
        fields = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return {"raw": raw}
    return {name: value for name, value in fields.items() if name != "type"}


def _builtins(value: Event | Part) -> Object:
    fields: Object = msgspec.to_builtins(value, builtin_types=(bytes,))
    return fields


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def _iso(ts: int) -> str:
    """Milliseconds are shown where there are any."""
    moment = _EPOCH + timedelta(milliseconds=min(max(ts, _FIRST), _LAST))
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")[:-6] + "Z"
