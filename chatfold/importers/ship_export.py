"""A chat as a .ship folder: every file that documents 000, 002, 003 and 004 describe, so that a tool of each generation finds its own.

    chats/<chat>/history.jsonl, memory/agent-context/<chat>.jsonl               what was said; what each run did
    chat/<chat>/conversations/history.jsonl, contexts/…, memory/Primary.md      the same; the contexts; what the system said
    chat/<chat>/messages/history.jsonl, meta.json, archive/…                    UIMessages: what the model sees; all others

The last of these holds all that was said and done, and ``meta.json`` says so: an import of this folder reads that alone.
"""

import asyncio
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from chatfold.agent import Moment
from chatfold.agent.exporting import encode_lines
from chatfold.eventlog import Entry, MessageAdded
from chatfold.projections import contexts, to_ui
from chatfold.projections.contexts import window
from chatfold.projections.documents.transcript import transcript
from chatfold.projections.runs import run_digests
from chatfold.projections.shapes.legacy import active_lines, archive_file, index_file
from chatfold.projections.shapes.values import to_json_value
from chatfold.projections.spans import includes
from chatfold.projections.text import text_of

WHOLE = "chatfold"  # the source that ``meta.json`` names, if the messages are all there are
_LONGEST = 200  # bytes of a file's name
_ROLES = ("user", "assistant", "system")

Object = dict[str, Any]


async def export_ship(moment: Moment, folder: Path) -> None:
    """Writes ``folder``, which is there when it is complete. ValueError if something is there already."""
    await asyncio.to_thread(_verify_free, folder)
    files = await ship_files(moment)
    await asyncio.to_thread(_write, folder, files)


def _verify_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already: name a new folder")


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{os.urandom(8).hex()}.tmp")
    try:
        for name, data in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_bytes(data)
            path.chmod(0o600)
        if folder.is_dir():
            folder.rmdir()
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


async def ship_files(moment: Moment) -> dict[str, bytes]:
    """What each file holds, by its path in the folder."""
    now = await moment.now()
    entries = [entry async for entry in now.entries()]
    name = file_name(now.key)
    said = encode_lines([*_transcript(entries, now.key)])
    files = {
        f"chats/{name}/history.jsonl": said,
        f"memory/agent-context/{name}.jsonl": encode_lines([*_runs(entries)]),
        f"chat/{name}/conversations/history.jsonl": said,
    }
    files |= {f"chat/{name}/{path}": data for path, data in (await _contexts(now, entries)).items()}
    files |= {f"chat/{name}/messages/{path}": data for path, data in (await _messages(now, entries)).items()}
    return files


def file_name(key: str) -> str:
    """As ``encodeURIComponent`` writes it; a name that means another folder is spelled out."""
    name = quote(key, safe="!~*'()-_.", errors="surrogatepass")
    if set(name) == {"."}:
        name = name.replace(".", "%2E")
    if len(name) > _LONGEST:
        raise ValueError(f"the key of this chat is too long for the name of a folder: {len(name)} bytes")
    return name


# --- transcripts and contexts --------------------------------------------------------------------------------


def _transcript(entries: Iterable[Entry], key: str) -> Iterator[Object]:
    for row in transcript(entries):
        if row["role"] in _ROLES and row["origin"] != "audit":
            line = {"v": 1, "ts": row["ts"], "channel": "api", "chatId": key, "chatKey": key}
            yield to_json_value(
                {**line, "role": row["role"], "text": row["text"], "meta": {"via": row["via"]}}
            )


def _runs(entries: list[Entry]) -> Iterator[Object]:
    times = {entry.seq: entry.time for entry in entries}
    for run in run_digests(entries):
        calls = [
            {"tool": call.tool, "success": call.success, **({"error": call.error} if call.error else {})}
            for call in run.tool_calls
        ]
        previews = {"userPreview": run.user_preview, "outputPreview": run.output_preview}
        yield to_json_value(
            {
                "v": 1,
                "ts": times.get(run.started, 0),
                "requestId": run.request_id,
                **previews,
                "toolCalls": calls,
            }
        )


async def _contexts(now: Moment, entries: list[Entry]) -> dict[str, bytes]:
    state = now[contexts]
    own = state.spans(state.active.id, now.seq)
    files = {
        "contexts/active.jsonl": encode_lines(
            active_lines(entry for entry in entries if includes(own, entry.seq))
        )
    }
    for context in state.shelf.values():
        files[f"contexts/archive/{file_name(context.id)}.json"] = _json(archive_file(context, entries))
    files["contexts/index.json"] = _json(index_file(await now.contexts()))
    told = [
        e.event
        for e in entries
        if isinstance(e.event, MessageAdded) and e.event.role in ("system", "developer")
    ]
    if text := "\n\n".join(text_of(event.parts) for event in told):
        files["memory/Primary.md"] = (text + "\n").encode("utf-8", "replace")
    return files


# --- UIMessages --------------------------------------------------------------------------------------------


async def _messages(now: Moment, entries: list[Entry]) -> dict[str, bytes]:
    """What the model sees is the history; what a summary stands for is in the archive of that summary, all else in another."""
    everything = {message["id"]: message for message in to_ui(entries, chat_key=now.key)}
    state = now[contexts]
    shown = window(state, now.seq)
    by_seq = {entry.seq: entry for entry in entries}
    summaries = [f"m{top.seq}" for top in state.active.tops]
    visible = {*_ids(entry for entry in entries if includes(shown.spans, entry.seq)), *summaries}
    archives: dict[str, tuple[int, list[Object]]] = {}
    kept = set(visible)
    for top in state.active.tops:
        ids = [
            one
            for one in _ids(e for e in entries if top.first <= e.seq <= top.last)
            if one in everything and one not in kept
        ]
        kept.update(ids)
        at = by_seq[top.seq].time
        archives[f"{at}-{top.first}_{top.last}"] = at, [everything[one] for one in ids]
    if rest := [message for one, message in everything.items() if one not in kept]:
        archives["0-others"] = 0, rest
    last = max((at for at, _ in archives.values()), default=0)
    meta = {"v": 1, "chatKey": now.key, "source": WHOLE, "updatedAt": last, "seq": now.seq}
    files = {
        "history.jsonl": encode_lines([m for one, m in everything.items() if one in visible]),
        "meta.json": _json(meta),
    }
    for name, (at, messages) in archives.items():
        archive = {"v": 1, "chatKey": now.key, "archivedAt": at, "messages": messages}
        files[f"archive/{name}.json"] = _json(archive)
    return files


def _ids(entries: Iterable[Entry]) -> list[str]:
    return [message["id"] for message in to_ui(entries)]


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(to_json_value(value)), indent=2) + b"\n"
