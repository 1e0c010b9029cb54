"""A chat as a Markdown document, for people to read.

    for piece in markdown(entries, title="lexer"):
        file.write(piece)                   # one entry at a time: a long chat is never held

The whole log in its order, as it happened: also what was compacted, cleared or rewound later. Messages, calls and
results have a heading each; what else happened is a line in italics, with its text, if it has one, below. Everything
bears its seq. Left out is what says nothing to a reader: that a run or a model was started or ended well, tokens and
parameters, meta, ids of runs, the bytes of files, which entries a context took along.

Texts are anybody's, and nothing that was said can look like something that happened. Words are quoted line by line.
Arguments, results and data are fenced blocks, names are code. HTML, images and definitions of links are shown as they
were typed: opening the document runs and fetches nothing. See ``quoting``; code within quoted words shows its escapes.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from eventlog import (
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
    Json,
    Lost,
    MessageAdded,
    ModelReturned,
    Noted,
    Part,
    Reasoning,
    Redacted,
    Rewound,
    RunFinished,
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
from eventlog.search_terms import OURS
from projections.quoting import code, fence, quote
from projections.wire import json_text

_ORIGINS = {"exec": "", "audit": " · for the audit only", "internal": " · internal"}


def markdown(entries: Iterable[Entry], title: str = "") -> Iterator[str]:
    """The pieces of the document, in order."""
    document = Document(title)
    yield document.begin()
    for entry in entries:
        yield document.of(entry)


class Document:
    """The same for entries that come one after the other: ``begin``, then ``of`` each."""

    def __init__(self, title: str = "") -> None:
        self._title = title
        self._called: dict[str, str] = {}  # what calls without a result are named, by their ids

    def begin(self) -> str:
        return f"# {code(self._title)}\n\n" if self._title.strip() else ""

    def of(self, entry: Entry) -> str:
        return "".join(f"{block}\n\n" for block in self._blocks(entry))

    def _blocks(self, entry: Entry) -> Iterator[str]:
        match entry.event:
            case MessageAdded(role=role, parts=parts, origin=origin):
                yield f"### {role}{_ORIGINS[origin]}{_stamp(entry)}"
                yield from _parts(parts)
            case ToolCalled(call=call, name=name, args=args):
                self._called[call] = f"{code(name)}, called in #{entry.seq}"
                yield f"### tool call: {code(name)}{_stamp(entry)}"
                if args is not None:
                    yield _json(args)
            case ToolReturned(call=call, parts=parts, failed=failed):
                what = self._called.pop(call, f"call {code(call)}")
                yield f"### tool result: {what}{' · failed' if failed else ''}{_stamp(entry)}"
                yield from _parts(parts, fenced=True)
            case Noted(name=name, data=data, ref=ref) if not name.startswith(OURS):
                yield f"*note {code(name)}{f' on #{ref}' if ref else ''}{_stamp(entry)}*"
                if data is not None:
                    yield _json(data)
            case event if happened := _of_contexts(event) or _of_runs(event):
                yield f"*{happened[0]}{_stamp(entry)}*"
                yield from _parts(happened[1])


# --- what else happened ----------------------------------------------------------------------------------


def _of_contexts(event: Event) -> tuple[str, tuple[Part, ...]] | None:
    match event:
        case ContextOpened(id=id, title=title, reason=reason):
            return f"context {code(id)} opened{_if(': ', title)}", (Text(reason),)
        case ContextSwitched(to=to, reason=reason):
            return f"switched to context {code(to)}", (Text(reason),)
        case ContextCleared(reason=reason):
            return "context cleared", (Text(reason),)
        case ContextRecalled(id=id, mode=mode, text=text):
            return f"context {code(id)} recalled for reference ({mode})", (Text(text),)
        case Compacted(first=first, last=last, summary=summary, trigger=trigger):
            return f"compacted #{first} to #{last} to a summary{_if(', trigger ', trigger)}", (Text(summary),)
        case CompactionReverted(seq=seq, reason=reason):
            return f"compaction #{seq} reverted", (Text(reason),)
        case CheckpointSet(name=name):
            return f"checkpoint {code(name)}", ()
        case Rewound(to=to, reason=reason):
            return f"rewound to #{to}", (Text(reason),)
        case ChatStarted(key=key, title=title):
            return f"chat{_if(' ', key)} started{_if(': ', title)}", ()
        case Forked(parent=parent, at=at):
            return f"forked from {code(parent)} at #{at}", ()
    return None


def _of_runs(event: Event) -> tuple[str, tuple[Part, ...]] | None:
    match event:
        case SkillActivated(name=name, text=text):
            return f"skill {code(name)} activated", (Text(text),)
        case SkillDeactivated(name=name):
            return f"skill {code(name)} deactivated", ()
        case Injected(role=role, parts=parts, source=source):
            return f"injected as {role}{_if(', from ', source)}", parts
        case ModelReturned(error=error) if error:
            return "model failed", (Text(error),)
        case RunFinished(outcome=outcome, error=error) if outcome != "done":
            return f"run ended: {outcome}", (Text(error),)
        case SendRequested(send=send, parts=parts):
            return f"to be sent to the user, {code(send)}", parts
        case SendConfirmed(send=send):
            return f"sent to the user, {code(send)}", ()
        case SendFailed(send=send, error=error):
            return f"not sent to the user, {code(send)}", (Text(error),)
        case Redacted(seqs=seqs, reason=reason):
            return f"erased: {', '.join(f'#{seq}' for seq in seqs) or 'nothing'}", (Text(reason),)
        case Lost(note=note):
            return "lost: what was here could not be read", (Text(note),)
        case Unknown(name=name):
            return f"{code(name)}, of a newer version", ()
    return None


def _if(label: str, name: str) -> str:
    return label + code(name) if name.strip() else ""


# --- what it is made of ----------------------------------------------------------------------------------


def _parts(parts: Iterable[Part], *, fenced: bool = False) -> Iterator[str]:
    before: Part | None = None
    for part in parts:
        match part:
            case Text(text=text) if text.strip():
                if isinstance(before, Reasoning):
                    yield "*answer*"
                yield fence(text) if fenced else quote(text)
            case Reasoning(text=text, redacted=redacted):
                hidden = redacted or not text.strip()
                yield "*reasoning, not shown by the provider*" if hidden else "*reasoning*"
                yield from _parts((Text(text),))
            case File():
                yield f"*{_described(part)}*"
            case Data(name=name, data=data):
                yield f"*data {code(name)}*"
                yield _json(data)
        before = part


def _described(file: File) -> str:
    # What follows the comma of a data URL is its bytes.
    where = file.url.partition(",")[0] if file.url.lower().startswith("data:") else file.url
    size = f", {len(file.data)} bytes" if file.data else ""
    return f"file{_if(' ', file.name)}, {code(file.media_type)}{size}{_if(', at ', where)}"


def _json(value: Json) -> str:
    text = json_text(value)
    line = msgspec.json.format(text, indent=0)
    return fence(line if len(line) <= 100 else msgspec.json.format(text, indent=2), "json")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def _stamp(entry: Entry) -> str:
    moment = _EPOCH + timedelta(milliseconds=min(max(entry.ts, _FIRST), _LAST))
    erased = "" if entry.was is None else " · erased"
    return f"{erased} · {moment.isoformat(' ', 'seconds')[:19]} UTC · #{entry.seq}"
