"""A transcript: what anybody said, the whole log, for audits.

    transcript(entries)

What was sent to the user is known from ``send_confirmed``. A request that failed, or was never confirmed, was not
said; a confirmation that answers no request of these entries, or one confirmed before, says nothing new.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from chatfold.eventlog import (
    Entry,
    File,
    Json,
    MessageAdded,
    Origin,
    Part,
    Role,
    SendConfirmed,
    SendRequested,
    Text,
)
from chatfold.projections.shapes.values import file_label, replace_surrogates, to_json_value

Object: TypeAlias = dict[str, Any]


class Said(NamedTuple):
    """A message, or a send that was confirmed: then ``seq`` and ``ts`` are those of the confirmation."""

    seq: int
    ts: int
    run: str | None
    role: Role
    origin: Origin
    parts: tuple[Part, ...]
    meta: dict[str, Json]
    via: Literal["message", "send"]


def said_by(entries: Iterable[Entry]) -> Iterator[Said]:
    asked: dict[str, tuple[SendRequested, str | None]] = {}
    for entry in entries:
        match entry.event:
            case MessageAdded(role, parts, origin, meta):
                yield Said(entry.seq, entry.time, entry.run, role, origin, parts, meta, "message")
            case SendRequested(send=send) as request:
                asked[send] = request, entry.run
            case SendConfirmed(send=send, meta=meta) if send in asked:
                request, run = asked.pop(send)
                run = entry.run if run is None else run
                meta = {**request.meta, **meta}
                yield Said(entry.seq, entry.time, run, "assistant", "exec", request.parts, meta, "send")


def words_said(parts: Iterable[Part]) -> str:
    """Texts exactly as they were said, files by their description."""
    return "\n".join(
        replace_surrogates(part.text) if isinstance(part, Text) else file_label(part)
        for part in parts
        if isinstance(part, Text | File)
    )


def transcript(entries: Iterable[Entry]) -> list[Object]:
    """One row a message, of every role and origin, and one a confirmed send (``via`` tells which it is)."""
    return [
        {
            "seq": said.seq,
            "ts": said.ts,
            "role": said.role,
            "origin": said.origin,
            "text": words_said(said.parts),
        }
        | ({} if said.run is None else {"run": replace_surrogates(said.run)})
        | {"via": said.via, "meta": to_json_value(said.meta)}
        for said in said_by(entries)
    ]
