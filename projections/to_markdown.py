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

import msgspec

from chatfold.eventlog import (
    Data,
    Entry,
    File,
    Json,
    MessageAdded,
    Noted,
    Part,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.search_text import OURS
from chatfold.projections.happening import ORIGINS, attached, happened, time_of
from chatfold.projections.quoting import code, fence, quote
from chatfold.projections.wire import json_text


def markdown(entries: Iterable[Entry], title: str = "") -> Iterator[str]:
    """The pieces of the document, in order."""
    document = Document(title)
    yield document.begin()
    for entry in entries:
        yield document.of(entry)


class Document:
    """The same for entries that come one after the other: ``begin``, then ``of`` each, then ``end``."""

    def __init__(self, title: str = "") -> None:
        self._title = title
        self._called: dict[str, str] = {}  # what calls without a result are named, by their ids

    def begin(self) -> str:
        return f"# {code(self._title)}\n\n" if self._title.strip() else ""

    def end(self) -> str:
        return ""

    def of(self, entry: Entry) -> str:
        return "".join(f"{block}\n\n" for block in self._blocks(entry))

    def _blocks(self, entry: Entry) -> Iterator[str]:
        match entry.event:
            case MessageAdded(role=role, parts=parts, origin=origin):
                yield f"### {role}{ORIGINS[origin]}{_stamp(entry)}"
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
            case event if told := happened(event, code, _at):
                yield f"*{told[0]}{_stamp(entry)}*"
                yield from _parts(told[1])


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
                yield f"*{attached(part, code)}*"
            case Data(name=name, data=data):
                yield f"*data {code(name)}*"
                yield _json(data)
        before = part


def _json(value: Json) -> str:
    text = json_text(value)
    line = msgspec.json.format(text, indent=0)
    return fence(line if len(line) <= 100 else msgspec.json.format(text, indent=2), "json")


def _stamp(entry: Entry) -> str:
    erased = "" if entry.was is None else " · erased"
    return f"{erased} · {time_of(entry.ts)} UTC · {_at(entry.seq)}"


def _at(seq: int) -> str:
    return f"#{seq}"
