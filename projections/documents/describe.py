"""What else happened, in words: the lines between the messages of a document.

``name`` and ``at`` say how the document writes what somebody named, and the seq of another entry. All else is our own
words. What is None says nothing to a reader: that a run or a model was started or ended well.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Event,
    File,
    Forked,
    Injected,
    Json,
    Lost,
    ModelReturned,
    Noted,
    Part,
    Redacted,
    Rewound,
    RunFinished,
    SendConfirmed,
    SendFailed,
    SendRequested,
    SkillActivated,
    SkillDeactivated,
    Text,
    Unknown,
)

Name: TypeAlias = Callable[[str], str]
At: TypeAlias = Callable[[int], str]
Happened: TypeAlias = tuple[str, tuple[Part, ...]]
"""A line, and the words that stand below it."""

REDACTED_EXPORT = "chatfold.redacted_export"
"""The last note of an export that rules were applied to: it is not the chat it was made from."""

ORIGINS = {"exec": "", "audit": " · for the audit only", "internal": " · internal"}


def happened(event: Event, name: Name, at: At) -> Happened | None:
    return _of_contexts(event, name, at) or _of_runs(event, name, at)


def _of_contexts(event: Event, name: Name, at: At) -> Happened | None:
    match event:
        case ContextOpened(id=id, title=title, reason=reason):
            return f"context {name(id)} opened{_if(': ', title, name)}", (Text(reason),)
        case ContextSwitched(to=to, reason=reason):
            return f"switched to context {name(to)}", (Text(reason),)
        case ContextCleared(reason=reason):
            return "context cleared", (Text(reason),)
        case ContextRecalled(id=id, mode=mode, text=text):
            return f"context {name(id)} recalled for reference ({mode})", (Text(text),)
        case Compacted(first=first, last=last, summary=summary, trigger=trigger):
            line = f"compacted {at(first)} to {at(last)} to a summary{_if(', trigger ', trigger, name)}"
            return line, (Text(summary),)
        case CompactionReverted(seq=seq, reason=reason):
            return f"compaction {at(seq)} reverted", (Text(reason),)
        case CheckpointSet(name=label):
            return f"checkpoint {name(label)}", ()
        case Rewound(to=seq, reason=reason):
            return f"rewound to {at(seq)}", (Text(reason),)
        case ChatStarted(key=key, title=title):
            return f"chat{_if(' ', key, name)} started{_if(': ', title, name)}", ()
        case Forked(parent=parent, at=seq):
            return f"forked from {name(parent)} at {at(seq)}", ()
    return None


def _of_runs(event: Event, name: Name, at: At) -> Happened | None:
    match event:
        case SkillActivated(name=skill, text=text):
            return f"skill {name(skill)} activated", (Text(text),)
        case SkillDeactivated(name=skill):
            return f"skill {name(skill)} deactivated", ()
        case Injected(role=role, parts=parts, source=source):
            return f"injected as {role}{_if(', from ', source, name)}", parts
        case ModelReturned(error=error) if error:
            return "model failed", (Text(error),)
        case RunFinished(outcome=outcome, error=error) if outcome != "done":
            return f"run ended: {outcome}", (Text(error),)
        case SendRequested(send=send, parts=parts):
            return f"to be sent to the user, {name(send)}", parts
        case SendConfirmed(send=send):
            return f"sent to the user, {name(send)}", ()
        case SendFailed(send=send, error=error):
            return f"not sent to the user, {name(send)}", (Text(error),)
        case Redacted(seqs=seqs, reason=reason):
            return f"erased: {', '.join(map(at, seqs)) or 'nothing'}", (Text(reason),)
        case Lost(note=note):
            return "lost: what was here could not be read", (Text(note),)
        case Noted(name=note, data=data) if note == REDACTED_EXPORT:
            return f"redacted before it was exported{_rules(data, name)}", ()
        case Unknown(name=kind):
            return f"{name(kind)}, of a newer version", ()
    return None


def _rules(data: Json, name: Name) -> str:
    rules = data.get("rules") if isinstance(data, dict) else None
    shown = [name(rule) for rule in rules if isinstance(rule, str)][:20] if isinstance(rules, list) else []
    return f", by the rules {', '.join(shown)}" if shown else ""


def _if(label: str, text: str, name: Name) -> str:
    return label + name(text) if text.strip() else ""


def attached(file: File, name: Name) -> str:
    """What a file is, without its bytes."""
    # What follows the comma of a data URL is its bytes.
    where = file.url.partition(",")[0] if file.url.lower().startswith("data:") else file.url
    size = f", {len(file.data)} bytes" if file.data else ""
    return f"file{_if(' ', file.name, name)}, {name(file.media_type)}{size}{_if(', at ', where, name)}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def time_of(ts: int) -> str:
    """In UTC: ``2025-02-05 00:00:00``."""
    moment = _EPOCH + timedelta(milliseconds=min(max(ts, _FIRST), _LAST))
    return moment.isoformat(" ", "seconds")[:19]
