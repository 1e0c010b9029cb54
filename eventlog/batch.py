"""From drafts to lines: the one place where an entry gets its seq. Pure, and shared by every storage.

A storage calls ``build_batch`` while nobody else can append to the chat. The order of the checks is part of the
contract: a retry by id succeeds even though the log has moved on, so the id is looked at before ``after``.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import msgspec
from xxhash import xxh3_64_intdigest

from chatfold.eventlog.codec import (
    EncodedEvent,
    decode,
    extract_event,
    find_reference,
    replace_with_reference,
    resolve_line,
)
from chatfold.eventlog.errors import ChatDeleted, Conflict, CorruptLog, IdConflict, InvalidEvent
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.line import (
    DECODE_ERRORS,
    build_line,
    decode_raw_fields,
    format_fields,
    format_prefix,
    link_after,
    parse_fields,
    parse_prev,
)
from chatfold.eventlog.values import collect_long_strings, unescape

_USUAL = 64  # entries in a batch, at most
MAX_NAME = 1024
"""Characters in an id or a run."""


class AppendRequest(msgspec.Struct, frozen=True, gc=False):
    """What a caller asks for: these drafts, all or none, as one batch."""

    chat: str
    events: tuple[EncodedEvent, ...]
    after: int | None = None
    id: str | None = None
    run: str | None = None
    expected_head: Head = Head()  # of the chat that is meant: another one of the same key has another there

    def __post_init__(self) -> None:
        if not self.events:
            raise InvalidEvent("an append needs at least one event", chat=self.chat)
        for name, value in (("id", self.id), ("run", self.run)):
            if value is not None and not (type(value) is str and 0 < len(value) <= MAX_NAME):
                raise InvalidEvent(f"{name} must be a string of 1 to {MAX_NAME} characters", chat=self.chat)


class BatchHistory(Protocol):
    """What numbering needs to know of the lines before, the ones just numbered included."""

    def find(self, fingerprint: int) -> Sequence[int]:
        """Seqs that may hold this fingerprint. May propose too many, never too few of an id's."""

    def line(self, seq: int) -> bytes:
        """The line as it was written."""

    def link(self, seq: int) -> str:
        """What the line after that one says of it."""

    def blob(self, digest: str) -> bytes: ...

    def add(self, seq: int, line: bytes, fingerprints: list[int]) -> None:
        """Told of every line just numbered that a later one may ask for."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    entries: list[Entry]
    lines: list[bytes]  # to be written; empty if the id was known and ``entries`` are the first ones
    head: Head


def build_batch(request: AppendRequest, head: Head, synced: int, now: int, history: BatchHistory) -> Batch:
    if request.expected_head.seq and request.expected_head != head:
        _verify_expected_head(request, head, history)
    if request.id is not None:
        earlier = _find_retry(request, request.id, head, history)
        if earlier:
            return Batch(earlier, [], head)
    if request.after is not None and request.after != head.seq:
        raise Conflict(request.after, head.seq, chat=request.chat)
    entries: list[Entry] = []
    lines: list[bytes] = []
    seq, link, run = head.seq, head.link, request.run
    prev = link.encode()
    name: str | None = request.id  # the first entry tells it, and what is durable
    durable: int | None = synced
    names = format_prefix(now, run, name)
    size = len(request.events)
    places = _cached_batch_fields(size) if size <= _USUAL else _batch_fields(size)
    for draft, (batch, place) in zip(request.events, places, strict=True):
        seq += 1
        raw = draft.raw
        fingerprints: list[int] = []
        if draft.texts:
            fingerprints = [text_fingerprint(text) for text in draft.texts]
            proposed = [history.find(fingerprint) for fingerprint in fingerprints]
            if any(proposed):
                raw = _replace_repeats(draft, proposed, history)
        line = build_line(seq, names, raw, place if durable is None else format_fields(batch, durable), prev)
        if name is not None:
            fingerprints.append(id_fingerprint(name))
        if fingerprints or request.id is not None:
            history.add(seq, line, fingerprints)
        before, prev = link, line[-18:-2]
        link = prev.decode()
        entries.append(Entry(seq, now, draft.event, run, name, batch, durable, None, before, link))
        lines.append(line)
        if durable is not None:
            name, durable, names = None, None, format_prefix(now, run, None)
    return Batch(entries, lines, Head(seq, link))


def _batch_fields(size: int) -> list[tuple[str | None, bytes]]:
    """What each entry of a batch says of its place there, and the same as it stands in its line."""
    if size == 1:
        return [(None, b"")]
    return [
        (batch, format_fields(batch, None)) for batch in (f"{index}/{size}" for index in range(1, size + 1))
    ]


_cached_batch_fields = lru_cache(maxsize=None)(_batch_fields)


def _verify_expected_head(request: AppendRequest, head: Head, history: BatchHistory) -> None:
    """Others may have written since; but the entry that was known last must be there."""
    known = request.expected_head
    if known.seq > head.seq or history.link(known.seq) != known.link:
        raise ChatDeleted("the chat was deleted, or another took its place", chat=request.chat, seq=known.seq)


def text_fingerprint(text: str) -> int:
    return xxh3_64_intdigest(text.encode())


def id_fingerprint(name: str) -> int:
    return xxh3_64_intdigest(b"id:" + name.encode("utf-8", "surrogatepass"))


def fingerprints_of(line: bytes) -> list[int]:
    """Of a whole line: its long strings', and its id's.

    An event that somebody made up may be one that nobody can take apart. Then it has no long strings: that a text is
    recognised saves room, no more. But whether an id was used is asked of every entry.
    """
    try:
        fields = decode_raw_fields(line)
        texts, name = collect_long_strings(fields["event"]), unescape(fields.get("id"))
    except (CorruptLog, InvalidEvent, *DECODE_ERRORS):
        texts, name = [], decode(line).id
    found = [text_fingerprint(text) for text in texts]
    if isinstance(name, str):
        found.append(id_fingerprint(name))
    return found


def _find_retry(request: AppendRequest, name: str, head: Head, history: BatchHistory) -> list[Entry]:
    """The entries this id was first used for; none if it is new."""
    for seq in history.find(id_fingerprint(name)):
        if not 0 < seq <= head.seq:  # a cache that somebody made up
            continue
        line = history.line(seq)
        _verify_successor(seq, line, head, history)
        if decode(resolve_line(line, history.line, history.blob)).id != name:
            continue
        lines = _read_batch(seq, head, history)
        # An erased entry cannot be compared any more; its id still stands for it.
        erased = any(parse_fields(line).was for line in lines) and len(lines) == len(request.events)
        if not erased and [extract_event(resolve_line(line, history.line)) for line in lines] != [
            d.raw for d in request.events
        ]:
            raise IdConflict(f"id {name!r} was used for other content", chat=request.chat, seq=seq)
        return [decode(resolve_line(line, history.line, history.blob)) for line in lines]
    return []


def _verify_successor(seq: int, line: bytes, head: Head, history: BatchHistory) -> None:
    """This is the line that the next one follows, not one of another chat that was put in its place."""
    after = parse_prev(history.line(seq + 1)).decode() if seq < head.seq else head.link
    if link_after(line).decode() != after:
        raise CorruptLog("another line was put in the place of this one", seq=seq)


def _read_batch(seq: int, head: Head, history: BatchHistory) -> list[bytes]:
    """The lines of the batch that starts at ``seq``, as many as there are: a fork may have cut it."""
    lines = [history.line(seq)]
    size = parse_fields(lines[0]).size
    while len(lines) < size and seq + len(lines) <= head.seq:
        line = history.line(seq + len(lines))
        if parse_fields(line).index != len(lines) + 1:
            break
        lines.append(line)
    return lines


def _replace_repeats(draft: EncodedEvent, proposed: list[Sequence[int]], history: BatchHistory) -> bytes:
    """The event's JSON with every long string that an earlier line holds replaced by a reference to it.

    ``proposed``: for each of them, the seqs of the lines that may hold it.
    """
    raw = draft.raw
    for text, seqs in zip(draft.texts, proposed, strict=True):
        for seq in seqs:
            try:
                found = find_reference(seq, history.line(seq), text)
            except (CorruptLog, OSError):
                continue  # damage elsewhere must not keep anybody from appending
            if found:
                raw = replace_with_reference(raw, *found)
                break
    return raw
