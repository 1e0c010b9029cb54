"""A chat as one HTML page, for people to read: the sibling of ``to_markdown``, which tells the same story.

    for piece in html_page(entries, title="lexer"):
        file.write(piece)                   # one entry at a time: a long chat is never held

The page opens from disk and needs nothing else. It has no script, and its policy forbids whatever is not its own style
or a picture within it, so it fetches nothing, even if a text could smuggle markup in: see ``markup`` why none can.
Everything has its anchor, ``#e12``; what tools were asked and answered, reasoning and long texts are folded. The index of
turns and marks comes last, when it is known, and stands at the side. Small pictures of well-known kinds are in the page.
"""

import base64
from collections.abc import Iterable, Iterator
from hashlib import sha256

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
from chatfold.projections.happening import ORIGINS, attached, happened, time_of
from chatfold.projections.markup import link, name, plain, words
from chatfold.projections.text import one_line, text_of
from chatfold.projections.wire import json_text

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

STYLE = """\
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--dim:#666;--user:#0a58ca;--tool:#7a5c00;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--dim:#aaa;--user:#8ab4f8;--tool:#e0c060;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:46rem;font:16px/1.55 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25}
h2{font-size:.85rem;margin:0 0 .4rem;font-weight:600;display:inline}
article{border-left:3px solid var(--line);padding:.2rem 0 .2rem 1rem;margin:1.4rem 0}
article.user{border-color:var(--user)}article.user h2{color:var(--user)}
article.tool{margin:.8rem 0}article.tool h2{color:var(--tool)}
article.failed,.mark.error{border-color:var(--bad)}article.failed h2,.mark.error h2{color:var(--bad)}
.mark{border-left:3px double var(--line);padding:.1rem 0 .1rem 1rem;margin:1rem 0}
.mark h2{font-weight:500;color:var(--dim)}
.mark.compaction,.mark.context{background:var(--soft)}
.words,.code{white-space:pre-wrap;margin:.4rem 0}
.code{font:13px/1.45 ui-monospace,monospace;background:var(--soft);padding:.6rem .8rem;border-radius:.3rem}
time,.at,.rest,.label,footer,header p{color:var(--dim);font-size:.8rem;font-weight:400}
.label,.rest{margin:.4rem 0}
summary{cursor:pointer}
bdi{unicode-bidi:isolate}
i{font:.85em ui-monospace,monospace;background:var(--bad);color:Canvas;border-radius:.2rem;padding:0 .15rem}
img{max-width:100%;max-height:24rem}
:target{outline:2px solid var(--user);outline-offset:.3rem}
nav{border-top:1px solid var(--line);margin-top:3rem;font-size:.85rem}
nav ol{list-style:none;margin:0;padding:0}nav li{padding:.15rem 0}nav a{text-decoration:none}
nav li.turn{padding-top:.4rem}
@media(min-width:78rem){nav{position:fixed;inset:0 auto 0 0;width:15rem;margin:0;padding:1rem;overflow:auto;border:0;
border-right:1px solid var(--line)}}
@media print{nav{display:none}}
"""
POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(sha256(STYLE.encode()).digest()).decode()}'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)


def html_page(entries: Iterable[Entry], title: str = "") -> Iterator[str]:
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
        self._called: dict[str, str] = {}  # what calls without a result are named, by their ids
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
        match entry.event:
            case MessageAdded(role=role, parts=parts, origin=origin):
                if role == "user" and origin == "exec":
                    text = one_line(text_of(parts)[:1000], 80)
                    self._index.append(_row(entry, "turn", f"<bdi>{plain(text) or '(no words)'}</bdi>"))
                yield f'<article id="e{entry.seq}" class="{role}">{_head(entry, f"{role}{ORIGINS[origin]}")}'
                yield from _parts(parts)
                yield "</article>"
            case ToolCalled(call=call, name=tool, args=args):
                self._called[call] = f"{name(tool)}, called in {_at(entry.seq)}"
                yield from _folded(
                    entry, f"tool call: {name(tool)}", [_json(args)] if args is not None else []
                )
            case ToolReturned(call=call, parts=parts, failed=failed):
                what = self._called.pop(call, f"call {name(call)}")
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
    time = time_of(entry.ts)
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
