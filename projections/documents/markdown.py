"""A chat as a Markdown document, for people to read.

    for piece in to_markdown(entries, title="lexer"):
        file.write(piece)                   # one entry at a time: a long chat is never held

The whole log in its order, as it happened: also what was compacted, cleared or rewound later. Messages, calls and
results have a heading each; what else happened is a line in italics, with its text, if it has one, below. Everything
bears its seq. Left out is what says nothing to a reader: that a run or a model was started or ended well, tokens and
parameters, meta, ids of runs, the bytes of files, which entries a context took along.

Texts are anybody's, and nothing that was said can look like something that happened. Words are quoted line by line.
Arguments, results and data are fenced blocks, names are code. HTML, images and definitions of links are shown as they
were typed: opening the document runs and fetches nothing; code within quoted words shows its escapes.

Any text is text in it and nothing else: a quote, a fenced block, a name within a line. Whatever it says, it can
neither end what it stands in nor begin anything else. What cannot be seen, or turns the direction of writing, is U+FFFD;
every kind of line break is a plain one. What ``quote`` and ``fence`` return does not end in a line break and wants an
empty line after it: a quote goes on to the next one.
"""

import re
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
from chatfold.projections.documents.describe import ORIGINS, attached, happened, time_of
from chatfold.projections.shapes.values import json_text, replace_surrogates
from chatfold.projections.text import Waiting, one_line


def to_markdown(entries: Iterable[Entry], title: str = "") -> Iterator[str]:
    """The pieces of the document, in order."""
    document = Document(title)
    yield document.begin()
    for entry in entries:
        yield document.of(entry)


class Document:
    """The same for entries that come one after the other: ``begin``, then ``of`` each, then ``end``."""

    def __init__(self, title: str = "") -> None:
        self._title = title
        self._called: Waiting[str] = Waiting()  # what calls are named

    def begin(self) -> str:
        return f"# {code(self._title)}\n\n" if self._title.strip() else ""

    def end(self) -> str:
        return ""

    def of(self, entry: Entry) -> str:
        return "".join(f"{block}\n\n" for block in self._blocks(entry))

    def _blocks(self, entry: Entry) -> Iterator[str]:
        self._called.close_at(entry.event)
        match entry.event:
            case MessageAdded(role=role, parts=parts, origin=origin):
                yield f"### {role}{ORIGINS[origin]}{_stamp(entry)}"
                yield from _parts(parts)
            case ToolCalled(call=call, name=name, args=args):
                self._called.call(call, f"{code(name)}, called in #{entry.seq}")
                yield f"### tool call: {code(name)}{_stamp(entry)}"
                if args is not None:
                    yield _json(args)
            case ToolReturned(call=call, parts=parts, failed=failed):
                what = self._called.answer(call) or f"call {code(call)}"
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
    return f"{erased} · {time_of(entry.time)} UTC · {_at(entry.seq)}"


def _at(seq: int) -> str:
    return f"#{seq}"


# --- any text as Markdown ---------------------------------------------------------------------------------

_ESCAPES = (
    (re.compile(r"<(?=[a-zA-Z/!?])"), "&lt;"),
    (re.compile(r"!\["), r"!\\["),
    # What links and footnotes lead to can be defined anywhere, by what opens a line, a list item or a quote. Last: an
    # escaped bracket may be part of its name.
    (re.compile(r"^([^a-zA-Z\n\[\\]*\[(?:[^\[\]\\]|\\.)++\]):", re.MULTILINE | re.DOTALL), r"\1\\:"),
)


def quote(text: str) -> str:
    """Each line behind a mark. Markdown in it is shown as such, but for HTML, images and definitions."""
    text = _safe(text).strip("\n")
    for pattern, escaped in _ESCAPES:
        text = pattern.sub(escaped, text)
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


def fence(text: str, language: str = "") -> str:
    """A block of code between marks that are longer than any within."""
    text = _safe(text).removesuffix("\n")
    marks = "`" * max(3, _ticks(text) + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def code(name: str) -> str:
    """The beginning of a name, on one line."""
    name = one_line(_safe(name), 200)
    marks = "`" * (_ticks(name) + 1)
    pad = " " if name.startswith("`") or name.endswith("`") else ""
    return f"{marks}{pad}{name}{pad}{marks}" if name else "(empty)"


def _ticks(text: str) -> int:
    """The length of the longest run of them."""
    return max(map(len, re.findall("`+", text)), default=0)


_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_HIDDEN = re.compile("[\0-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _safe(text: str) -> str:
    return _HIDDEN.sub("\ufffd", _BREAKS.sub("\n", replace_surrogates(text)))
