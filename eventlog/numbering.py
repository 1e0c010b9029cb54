"""From drafts to lines: the one place where an entry gets its seq. Pure, and shared by every storage.

A storage calls ``number`` while nobody else can append to the chat. The order of the checks is part of the
contract: a retry by id succeeds even though the log has moved on, so the id is looked at before ``after``.
"""

from collections.abc import Iterable
from typing import Protocol

import msgspec
from xxhash import xxh3_64_intdigest

from eventlog.errors import ChatDeleted, Conflict, CorruptLog, IdConflict, InvalidEvent
from eventlog.events import Entry, Head
from eventlog.line import (
    Draft,
    decode,
    event_bytes,
    frame,
    link_of,
    marked,
    marks,
    named,
    refer,
    reference,
    resolve,
)

MAX_NAME = 1024
"""Characters in an id or a run."""


class Append(msgspec.Struct, frozen=True, gc=False):
    """What a caller asks for: these drafts, all or none, as one batch."""

    chat: str
    drafts: tuple[Draft, ...]
    after: int | None = None
    id: str | None = None
    run: str | None = None
    known: Head = Head()  # of the chat that is meant: another one of the same key has another there

    def __post_init__(self) -> None:
        if not self.drafts:
            raise InvalidEvent("an append needs at least one event", chat=self.chat)
        for name, value in (("id", self.id), ("run", self.run)):
            if value is not None and not (type(value) is str and 0 < len(value) <= MAX_NAME):
                raise InvalidEvent(f"{name} must be a string of 1 to {MAX_NAME} characters", chat=self.chat)


class History(Protocol):
    """What numbering needs to know of the lines before, the ones just numbered included."""

    def find(self, fingerprint: int) -> Iterable[int]:
        """Seqs that may hold this fingerprint. May propose too many, never too few of an id's."""

    def line(self, seq: int) -> bytes:
        """The line as it was written."""

    def blob(self, digest: str) -> bytes: ...

    def add(self, seq: int, line: bytes, fingerprints: list[int]) -> None:
        """Told of every line just numbered that a later one may ask for."""


class Numbered(msgspec.Struct, frozen=True, gc=False):
    entries: list[Entry]
    lines: list[bytes]  # to be written; empty if the id was known and ``entries`` are the first ones
    head: Head


def number(request: Append, head: Head, synced: int, now: int, history: History) -> Numbered:
    if request.known.seq and request.known != head:
        _check_known(request, head, history)
    if request.id is not None:
        earlier = _earlier(request, request.id, head, history)
        if earlier:
            return Numbered(earlier, [], head)
    if request.after is not None and request.after != head.seq:
        raise Conflict(request.after, head.seq, chat=request.chat)
    entries: list[Entry] = []
    lines: list[bytes] = []
    seq, link, size = head.seq, head.sum, len(request.drafts)
    name: str | None = request.id  # the first entry tells it, and what is durable
    durable: int | None = synced
    names = named(request.run, name)
    for index, draft in enumerate(request.drafts, 1):
        seq += 1
        batch = f"{index}/{size}" if size > 1 else None
        raw = draft.raw
        fingerprints = [text_fingerprint(text) for text in draft.texts]
        if fingerprints:
            raw = _deduplicated(draft, fingerprints, history)
        line = frame(seq, now, names, raw, marked(batch, durable), link.encode())
        if name is not None:
            fingerprints.append(id_fingerprint(name))
        if fingerprints or request.id is not None:
            history.add(seq, line, fingerprints)
        prev, link = link, line[-18:-2].decode()
        entries.append(Entry(seq, now, draft.event, request.run, name, batch, durable, None, prev, link))
        lines.append(line)
        if index == 1 and size > 1:
            name, durable, names = None, None, named(request.run, None)
    return Numbered(entries, lines, Head(seq, link))


def _check_known(request: Append, head: Head, history: History) -> None:
    """Others may have written since; but the entry that was known last must be there."""
    known = request.known
    if known.seq > head.seq or link_of(history.line(known.seq)).decode() != known.sum:
        raise ChatDeleted("the chat was deleted, or another took its place", chat=request.chat, seq=known.seq)


def text_fingerprint(text: str) -> int:
    return xxh3_64_intdigest(text.encode())


def id_fingerprint(name: str) -> int:
    return xxh3_64_intdigest(b"id:" + name.encode("utf-8", "surrogatepass"))


def _earlier(request: Append, name: str, head: Head, history: History) -> list[Entry]:
    """The entries this id was first used for; none if it is new."""
    for seq in history.find(id_fingerprint(name)):
        if decode(resolve(history.line(seq), history.line, history.blob)).id != name:
            continue
        lines = _batch(seq, head, history)
        # An erased entry cannot be compared any more; its id still stands for it.
        erased = any(marks(line).was for line in lines) and len(lines) == len(request.drafts)
        if not erased and [event_bytes(resolve(line, history.line)) for line in lines] != [
            d.raw for d in request.drafts
        ]:
            raise IdConflict(f"id {name!r} was used for other content", chat=request.chat, seq=seq)
        return [decode(resolve(line, history.line, history.blob)) for line in lines]
    return []


def _batch(seq: int, head: Head, history: History) -> list[bytes]:
    """The lines of the batch that starts at ``seq``, as many as there are: a fork may have cut it."""
    lines = [history.line(seq)]
    size = marks(lines[0]).size
    while len(lines) < size and seq + len(lines) <= head.seq:
        line = history.line(seq + len(lines))
        if marks(line).index != len(lines) + 1:
            break
        lines.append(line)
    return lines


def _deduplicated(draft: Draft, fingerprints: list[int], history: History) -> bytes:
    """The event's JSON with every long string that an earlier line holds replaced by a reference to it."""
    raw = draft.raw
    for text, fingerprint in zip(draft.texts, fingerprints, strict=True):
        for seq in history.find(fingerprint):
            try:
                found = reference(seq, history.line(seq), text)
            except (CorruptLog, OSError):
                continue  # damage elsewhere must not keep anybody from appending
            if found:
                raw = refer(raw, *found)
                break
    return raw
