"""A chat as one HTML page, for people to read: the sibling of ``markdown``, which tells the same story.

    for piece in to_html(entries, title="lexer"):
        file.write(piece)                   # one entry at a time: a long chat is never held

The page opens from disk and needs nothing else. It has no script, and its policy forbids whatever is not its own style
or a picture within it, so it fetches nothing, even if a text could smuggle markup in: see below why none can.
Everything has its anchor, ``#e12``; what tools were asked and answered, reasoning and long texts are folded. The index of
turns and marks comes last, when it is known, and stands at the side. Small pictures of well-known kinds are in the page.

Any text is text in it and nothing else. Whatever it says, it can neither end what it stands in nor begin anything
else. What cannot be seen, or turns the direction of writing, is shown as the escape of its code point, as a terminal
shows it; lone surrogates, too. Of a text of any size no more than ``MOST`` characters are shown, and how many are left
out is said.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from html import escape
from importlib.resources import files

import msgspec

from chatfold.eventlog import (
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
    SendFailed,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.search_text import OURS
from chatfold.projections.documents.describe import ORIGINS, attached, happened, time_of
from chatfold.projections.shapes.values import is_web, json_text
from chatfold.projections.text import Waiting, one_line, text_of

_PICTURE = 1 << 18  # bytes
_PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
_MARKS: dict[type[Event], tuple[str, str]] = {
    Compacted: ("compaction", "◆"),
    CompactionReverted: ("compaction", "◇"),
    ContextOpened: ("context", "⇄"),
    ContextSwitched: ("context", "⇄"),
    ContextCleared: ("context", "⇄"),
    ContextRecalled: ("context", "⇠"),
    Rewound: ("rewind", "↶"),
    Forked: ("fork", "⑂"),
    CheckpointSet: ("checkpoint", "⚑"),
    ModelReturned: ("error", "✗"),
    RunFinished: ("error", "✗"),
    SendFailed: ("error", "✗"),
    Lost: ("error", "✗"),
    Redacted: ("redaction", "▒"),
    Noted: ("redaction", "▒"),  # of the notes that are told so, only that of a redacted export
}

STYLE = files(__package__).joinpath("html.css").read_text("utf-8")
POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(sha256(STYLE.encode()).digest()).decode()}'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)


def to_html(entries: Iterable[Entry], title: str = "") -> Iterator[str]:
    """The pieces of the page, in order."""
    page = Page(title)
    yield page.begin()
    for entry in entries:
        yield page.of(entry)
    yield page.end()


class Page:
    """The same for entries that come one after the other: ``begin``, then ``of`` each, then ``end``."""

    def __init__(self, title: str = "") -> None:
        self._title = one_line(title, 200) or "A chat"
        self._called: Waiting[str] = Waiting()  # what calls are named
        self._index: list[str] = []
        self._shown = 0

    def begin(self) -> str:
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{_title(self._title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f'<header><h1 dir="auto">{plain(self._title)}</h1>'
            '<p>Everything that happened, in its order; times are UTC. <a href="#turns">Turns</a></p></header>\n<main>\n'
        )

    def of(self, entry: Entry) -> str:
        piece = "".join(self._pieces(entry))
        self._shown += bool(piece)
        return piece and f"{piece}\n"

    def end(self) -> str:
        index = "\n".join(self._index)
        return (
            f"</main>\n<footer><p>{self._shown:,} entries are shown. Written by chatfold.</p></footer>\n"
            f'<nav id="turns" aria-label="Turns"><ol>\n{index}\n</ol></nav>\n</body>\n</html>\n'
        )

    def _pieces(self, entry: Entry) -> Iterator[str]:
        self._called.close_at(entry.event)
        match entry.event:
            case MessageAdded(role=role, parts=parts, origin=origin):
                if role == "user" and origin == "exec":
                    text = one_line(text_of(parts)[:1000], 80)
                    self._index.append(_row(entry, "turn", f"<bdi>{plain(text) or '(no words)'}</bdi>"))
                yield f'<article id="e{entry.seq}" class="{role}">{_head(entry, f"{role}{ORIGINS[origin]}")}'
                yield from _parts(parts)
                yield "</article>"
            case ToolCalled(call=call, name=tool, args=args):
                self._called.call(call, f"{name(tool)}, called in {_at(entry.seq)}")
                yield from _folded(
                    entry, f"tool call: {name(tool)}", [_json(args)] if args is not None else []
                )
            case ToolReturned(call=call, parts=parts, failed=failed):
                what = self._called.answer(call) or f"call {name(call)}"
                head = f"{'✗ ' if failed else ''}tool result: {what}{' · failed' if failed else ''}"
                yield from _folded(entry, head, _parts(parts, kind="code"), failed=failed)
            case Noted(name=note, data=data, ref=ref) if not note.startswith(OURS):
                head = f"note {name(note)}{f' on {_at(ref)}' if ref else ''}"
                yield from _mark(entry, "note", head, [] if data is None else [_json(data)])
            case event if told := happened(event, name, _at):
                kind, glyph = _MARKS.get(type(event), ("other", "·"))
                if kind != "other":
                    self._index.append(_row(entry, kind, f"{glyph} {_unlinked(event)}"))
                yield from _mark(entry, kind, f"{glyph} {told[0]}", _parts(told[1]))


# --- what stands around it -------------------------------------------------------------------------------


def _head(entry: Entry, what: str) -> str:
    erased = "" if entry.was is None else " · ▒ erased"
    time = time_of(entry.time)
    return (
        f'<h2>{what}{erased}</h2> <time datetime="{time.replace(" ", "T")}Z">{time}</time> '
        f'<a class="at" href="#e{entry.seq}">#{entry.seq}</a>'
    )


def _folded(entry: Entry, what: str, body: Iterable[str], *, failed: bool = False) -> Iterator[str]:
    inner = "".join(body)
    yield f'<article id="e{entry.seq}" class="tool{" failed" if failed else ""}">'
    yield (
        f"<details><summary>{_head(entry, what)}</summary>{inner}</details>" if inner else _head(entry, what)
    )
    yield "</article>"


def _mark(entry: Entry, kind: str, what: str, body: Iterable[str]) -> Iterator[str]:
    yield f'<div id="e{entry.seq}" class="mark {kind}">{_head(entry, what)}'
    yield from body
    yield "</div>"


def _row(entry: Entry, kind: str, what: str) -> str:
    return f'<li class="{kind}"><a href="#e{entry.seq}">{what}</a></li>'


def _unlinked(event: Event) -> str:
    """What happened, for the index, where a link cannot hold another."""
    told = happened(event, name, lambda seq: f"#{seq}")
    return told[0] if told else ""


def _at(seq: int) -> str:
    return f'<a href="#e{seq}">#{seq}</a>'


def _title(text: str) -> str:
    """There is no markup within a title."""
    return plain(text).replace("<i>", "").replace("</i>", "")


# --- what it is made of ----------------------------------------------------------------------------------


def _parts(parts: Iterable[Part], *, kind: str = "words") -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text=text) if text.strip():
                yield words(text, kind)
            case Reasoning(text=text, redacted=redacted):
                hidden = redacted or not text.strip()
                label = "reasoning, not shown by the provider" if hidden else "reasoning"
                told = "".join(_parts((Text(text),)))
                yield (
                    f'<details><summary class="label">{label}</summary>{told}</details>'
                    if told
                    else _label(label)
                )
            case File():
                yield _label(_described(part)) + _picture(part)
            case Data(name=label, data=data):
                yield _label(f"data {name(label)}") + _json(data)


def _label(text: str) -> str:
    return f'<p class="label">{text}</p>'


def _described(file: File) -> str:
    if not file.url or file.url.lower().startswith("data:"):
        return attached(file, name)
    return f"{attached(msgspec.structs.replace(file, url=''), name)}, at {link(file.url)}"


def _picture(file: File) -> str:
    kind = file.media_type.strip().lower()
    start = _PICTURES.get(kind)
    if start is None or not file.data.startswith(start) or len(file.data) > _PICTURE:
        return ""
    return f'<img alt="" src="data:{kind};base64,{base64.b64encode(file.data).decode()}">'


def _json(value: Json) -> str:
    text = json_text(value)
    line = msgspec.json.format(text, indent=0)
    return words(line if len(line) <= 100 else msgspec.json.format(text, indent=2), "code")


# --- any text as HTML -------------------------------------------------------------------------------------

MOST = 1 << 16
"""Characters of one text that are shown."""
_FOLDED = 4000  # characters, or lines, from which a text is folded
_LINES = 60

# Control characters but tabs and line breaks; soft hyphens, zero-width spaces, what steers the direction of writing,
# fillers that look like nothing, tags, surrogates and what is no character. Joiners stay: emoji and Persian need them.
_HIDDEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]+"
)


def visible(text: str) -> str:
    """The text with escapes for what cannot be seen. Not HTML yet."""
    return _HIDDEN.sub(lambda found: _escapes(found[0]), text.replace("\r\n", "\n"))


def _escapes(hidden: str) -> str:
    return hidden.encode("unicode_escape").decode()


def plain(text: str) -> str:
    """All of it, escaped; what cannot be seen is set apart from what only looks like its escape."""
    pieces: list[str] = []
    at = 0
    text = text.replace("\r\n", "\n")
    for found in _HIDDEN.finditer(text):
        pieces += escape(text[at : found.start()]), f"<i>{_escapes(found[0])}</i>"
        at = found.end()
    return "".join((*pieces, escape(text[at:])))


def name(text: str) -> str:
    """The beginning of a name, on one line."""
    return f"<bdi>{plain(one_line(text[:MOST], 200)) or '(empty)'}</bdi>"


def words(text: str, kind: str = "words") -> str:
    """A block; one that is long is folded, behind its beginning."""
    shown = text[:MOST].strip("\n")
    block = f'<div class="{kind}" dir="auto">{plain(shown)}</div>{_rest(len(text) - MOST)}'
    if len(shown) <= _FOLDED and shown.count("\n") <= _LINES:
        return block
    label = f"{plain(one_line(shown, 120))} · {len(text):,} characters"
    return f"<details><summary><bdi>{label}</bdi></summary>{block}</details>"


def _rest(left: int) -> str:
    if left <= 0:
        return ""
    return f'<p class="rest">{left:,} more characters are not shown here. The JSONL export has them.</p>'


def link(url: str) -> str:
    """To what is on the web; anything else is only named."""
    if not is_web(url) or len(url) > 2000:
        return name(url)
    return f'<a href="{escape(url)}" rel="noopener noreferrer nofollow">{name(url)}</a>'
