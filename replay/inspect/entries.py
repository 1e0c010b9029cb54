"""Rows: an entry as a list shows it. Pure; the same for the terminal, for pipes and for JSON.

The text is what was said: it is not yet safe for a terminal. See ``terminal.printable``.
"""

from collections.abc import Iterable

import msgspec

from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Data,
    Entry,
    Event,
    File,
    Forked,
    Injected,
    Lost,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Part,
    Reasoning,
    Redacted,
    Rewound,
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
    Unknown,
)
from chatfold.projections.shapes.values import json_text
from chatfold.projections.text import one_line
from chatfold.projections.usage import read_counts

# What a list calls each kind of event, and the sign that goes with it: nothing is told by colour alone.
_LABELS: dict[type, tuple[str, str]] = {
    ChatStarted: ("started", "◦"),
    Forked: ("forked", "⑂"),
    ToolCalled: ("call", "→"),
    ToolReturned: ("result", "←"),
    ModelCalled: ("asked", "?"),
    ModelReturned: ("answered", "!"),
    ContextOpened: ("opened", "⇄"),
    ContextSwitched: ("switched", "⇄"),
    ContextRecalled: ("recalled", "↥"),
    ContextCleared: ("cleared", "⇄"),
    Compacted: ("compacted", "◆"),
    CompactionReverted: ("reverted", "◇"),
    CheckpointSet: ("checkpoint", "⚑"),
    Rewound: ("rewound", "↶"),
    SkillActivated: ("skill on", "★"),
    SkillDeactivated: ("skill off", "☆"),
    Injected: ("injected", "↧"),
    RunStarted: ("run", "┌"),
    RunFinished: ("finished", "└"),
    SendRequested: ("sending", "»"),
    SendConfirmed: ("sent", "»"),
    SendFailed: ("not sent", "»"),
    Redacted: ("redacted", "▒"),
    Lost: ("lost", "▒"),
    Noted: ("noted", "·"),
    Unknown: ("unknown", "·"),
}
_ROLES = {"user": "▸", "assistant": "●", "system": "§", "developer": "§"}
_FAILED = "✗"
_FAILURES = frozenset(("compaction_failed", "callback_failed"))


LABELS: tuple[str, ...] = (*_ROLES, *(label for label, _ in _LABELS.values()))
"""What a list calls events."""

KIND_NAMES: tuple[str, ...] = tuple(
    str(one.__struct_config__.tag)
    for one in (MessageAdded, *_LABELS)
    if one is not Unknown and issubclass(one, msgspec.Struct)
)
"""What they are called on disk."""


def kind_name(event: Event) -> str:
    """What the event is called on disk: ``message_added``."""
    return event.name if isinstance(event, Unknown) else str(type(event).__struct_config__.tag)


class Row(msgspec.Struct, frozen=True):
    """``kind``: the event's name on disk. ``what``: what a list calls it. ``name``: ``c2``, if it has one in addresses."""

    seq: int
    ts: int
    turn: int
    kind: str
    what: str
    glyph: str
    text: str
    failed: bool = False
    run: str | None = None
    id: str | None = None
    name: str = ""


def row(entry: Entry, turn: int = 0, name: str = "", *, most: int | None = None) -> Row:
    """``turn``, ``name``: see ``points``. ``most``: characters of the text, on one line; None: all of it, as it was said."""
    event = entry.event
    failed = is_failure(event)
    what, glyph = _sign(event)
    text = describe(event) if most is None else one_line(describe(event, most), most)
    glyph = _FAILED if failed else glyph
    return Row(
        entry.seq, entry.time, turn, kind_name(event), what, glyph, text, failed, entry.run, entry.id, name
    )


def label_of(event: Event) -> str:
    return _sign(event)[0]


def _sign(event: Event) -> tuple[str, str]:
    if isinstance(event, MessageAdded):
        return event.role, _ROLES.get(event.role, "·")
    return _LABELS[type(event)]


def is_failure(event: Event) -> bool:
    match event:
        case ToolReturned(failed=True) | SendFailed() | Lost():
            return True
        case ModelReturned(error=error):
            return bool(error)
        case RunFinished(outcome=outcome):
            return outcome != "done"
        case Noted(name=name):
            return name in _FAILURES
    return False


def describe(event: Event, most: int = 1 << 62) -> str:
    """What happened, in the words of the event; of very long ones the beginning is enough."""
    match event:
        case MessageAdded(parts=parts, origin=origin):
            return (f"({origin}) " if origin != "exec" else "") + describe_parts(parts, most)
        case ToolCalled(name=name, args=args):
            return f"{name} {json_text(args)}" if args is not None else name
        case ToolReturned(parts=parts) | SendRequested(parts=parts):
            return describe_parts(parts, most)
        case Injected(source=source, parts=parts):
            return (f"({source}) " if source else "") + describe_parts(parts, most)
        case ModelCalled() | ModelReturned():
            return _model(event)
        case Compacted(first=first, last=last, count=count, summary=summary, trigger=trigger):
            return f"{count} messages of e{first}..e{last} ({trigger}): {summary[:most]}"
        case Noted(name=name, data=data):
            return f"{name}: {json_text(data)}" if data is not None else name
        case Unknown(name=name, raw=raw):
            return f"{name} {raw[:most].decode(errors='backslashreplace')}"
    return _story(event)


def _model(event: ModelCalled | ModelReturned) -> str:
    if isinstance(event, ModelCalled):
        tools = f", {len(event.tools)} tool{'s' * (len(event.tools) > 1)}" if event.tools else ""
        return f"{event.model}{tools}, request {event.request}"
    cost = read_counts(event.usage, failed=False)
    tokens = f"{cost.input} → {cost.output} tokens" if cost.tokens else ""
    return ", ".join(word for word in (event.stop, tokens, event.error) if word)


def _story(event: Event) -> str:
    match event:
        case ChatStarted(key=key, title=title):
            return " ".join(word for word in (key, title) if word)
        case Forked(parent=parent, at=at):
            return f"from {parent} at e{at}"
        case ContextOpened(id=id, title=title, reason=reason):
            return _join(id, f'"{title}"' if title else "", reason)
        case ContextSwitched(to=id, reason=reason):
            return _join(id, reason)
        case ContextRecalled(id=id, mode=mode):
            return f"{id} ({mode})"
        case ContextCleared(reason=reason):
            return reason
        case CompactionReverted(seq=seq, reason=reason) | Rewound(to=seq, reason=reason):
            return _join(f"e{seq}", reason)
        case CheckpointSet(name=name) | SkillActivated(name=name) | SkillDeactivated(name=name):
            return name
        case RunStarted(agent=agent):
            return agent
        case RunFinished(outcome=outcome, error=error):
            return _join(outcome, error)
        case SendConfirmed(send=send):
            return send
        case SendFailed(send=send, error=error):
            return _join(send, error)
        case Redacted(seqs=seqs, reason=reason):
            return _join(", ".join(f"e{seq}" for seq in seqs), reason)
        case Lost(note=note):
            return note
    return ""


def _join(*words: str) -> str:
    return " · ".join(word for word in words if word)


def describe_parts(parts: Iterable[Part], most: int = 1 << 62) -> str:
    said = []
    for part in parts:
        match part:
            case Reasoning(text=text):
                said.append(f"(thinking) {text[:most]}")
            case File(name=name, media_type=kind, data=data, url=url):
                size = f", {len(data)} bytes" if data else ""
                said.append(f"[file {name or url or 'without a name'}, {kind}{size}]")
            case Data(data=data):
                said.append(json_text(data)[:most])
            case Text(text=text):
                said.append(text[:most])
    return "\n".join(said)


# --- a piece of a long one -------------------------------------------------------------------------------


class Body(msgspec.Struct, frozen=True):
    """The characters from ``first`` on of what entry ``seq`` says, which has ``total``."""

    seq: int
    first: int
    total: int
    text: str


def body_of(entry: Entry, first: int = 0, most: int = 1 << 16) -> Body:
    """A range of its text, so that the beginning of 5 MB costs only that."""
    text = describe(entry.event)
    return Body(entry.seq, first, len(text), text[first : first + most])
