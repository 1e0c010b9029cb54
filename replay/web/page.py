"""The page as one file: to send, to attach to a report, to keep. It opens from disk and asks for nothing.

    async for piece in page_of(moment): file.write(piece)

It has the same components as ``chatfold view``. What these would ask a server for stands in blocks, packed; a block is unpacked when it is
looked at. The policy allows the script and the style that are in it, by their hashes, and nothing else; no block can end the one it stands in.

What is to be left out must be left out before. With ``first``, nothing that was said before that entry is in it, nor in a difference, a
title or a name; how large the context was, is. Requests, and what only another chat has, are not in it: the command has them.
"""

import asyncio
import gzip
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from html import escape
from typing import Any

import msgspec

from chatfold.agent import Moment
from chatfold.eventlog import Entry
from chatfold.replay.inspect.serial import json_object
from chatfold.replay.web.answers import Body, chat_info, event_of, sight
from chatfold.replay.web.bundle import bundle, styles
from chatfold.replay.web.columns import KINDS, Columns
from chatfold.replay.web.lines import line
from chatfold.replay.web.questions import Difference, difference

_TOGETHER = 128  # entries in a block
_DIFFERENCES = 200  # compactions that have a card


async def page_of(moment: Moment, *, first: int = 1, last: int | None = None) -> AsyncIterator[bytes]:
    """The pieces, in order. Of the entries ``first`` … ``last``."""
    now = moment if last is None or last >= moment.seq else await _at(moment, last)
    info = chat_info(now)
    if first > 1:
        info = msgspec.structs.replace(info, title="", parent="", at=0)
    yield (await asyncio.to_thread(_head, info.title or info.key)).encode("utf-8", "backslashreplace")
    yield _block("store", {"name": "", "only": now.key, "writes": False, "kinds": KINDS})
    yield _block("chat", {"chat": info})
    yield _block("sight", {"sight": _hide_names(await sight(now), first)})
    yield _block("tree", {"tree": []})
    columns = Columns()
    async for page in _pages(now):
        columns.take(page)
        said = [entry for entry in page if entry.seq >= first]
        number = (page[0].seq - 1) // _TOGETHER
        if said:
            yield _block(f"entries/{number}", {str(entry.seq): _describe(entry) for entry in said})
    yield _raw("columns", columns.pack())
    yield _block("compactions", await _differences(now, first))
    yield b"</body>\n</html>\n"


async def _at(moment: Moment, seq: int) -> Moment:
    from chatfold.agent.views import open_view  # noqa: PLC0415

    return Moment(
        moment.log,
        moment.key,
        await open_view(moment.log, moment.key, at=seq, projections=moment.view.projections),
    )


async def _pages(moment: Moment) -> AsyncIterator[list[Entry]]:
    """Of as many entries as a block has."""
    waiting: list[Entry] = []
    async for page in moment.log.pages(moment.key, 1, moment.seq):
        waiting += page
        while len(waiting) >= _TOGETHER:
            yield waiting[:_TOGETHER]
            del waiting[:_TOGETHER]
    if waiting:
        yield waiting


def _hide_names(told: Any, first: int) -> Any:
    """Without the names that were given before."""
    if first <= 1:
        return told
    controls = [one if one.seq >= first else msgspec.structs.replace(one, title="") for one in told.controls]
    named = {name: seq for name, seq in told.checkpoints.items() if seq >= first}
    return msgspec.structs.replace(told, controls=controls, checkpoints=named)


def _describe(entry: Entry) -> dict[str, Any]:
    """Its line and its event, side by side: what both have is packed once."""
    event, nothing = event_of(entry), Body("", 0)
    short = msgspec.structs.replace(event, line=nothing, json=nothing if event.said.text else event.json)
    return {"line": line(entry), "event": short}


async def _differences(now: Moment, first: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    seqs = [one.seq for one in (await now.history()).controls if one.kind == "compacted" and one.seq >= first]
    for seq in seqs[-_DIFFERENCES:]:
        before, after = await _at(now, seq - 1), await _at(now, seq)
        found[str(seq)] = {"difference": _card(await difference(before, after), first)}
    return found


def _card(told: Difference, first: int) -> Difference:
    """What the card of a compaction shows, without what was said before; the texts of what left stand in its lines."""
    left = tuple(msgspec.structs.replace(item, text="") for item in told.comparison.left if item.seq >= first)
    steps = tuple(one for one in told.comparison.steps if one.seq >= first)
    archive = msgspec.structs.replace(told.comparison.archive, added=(), removed=(), changed=())
    return Difference(
        msgspec.structs.replace(
            told.comparison,
            left=left,
            kept=(),
            added=(),
            changed=(),
            moved=(),
            steps=steps,
            undone=(),
            archive=archive,
        ),
        {seq: share for seq, share in told.kept_words.items() if seq >= first},
    )


# --- how it is written -----------------------------------------------------------------------------------


def _head(title: str) -> str:
    script, style = bundle(), styles()
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="dark light">\n'
        f"<title>{escape(title)} · chatfold</title>\n<style>{style}</style>\n</head>\n"
        f'<body><div id="page"></div>\n<script type="module">{script}</script>\n'
    )


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _block(name: str, value: Any) -> bytes:
    return _raw(name, json_object(value).encode("utf-8", "backslashreplace"))


def _raw(name: str, data: bytes) -> bytes:
    packed = b64encode(gzip.compress(data, 9, mtime=0))
    return b'<script type="application/gzip" data-name="' + name.encode() + b'">' + packed + b"</script>\n"
