"""From events to lines: the one place where an entry gets its seq. Pure, and shared by every storage.

A storage calls ``build_batch`` while nobody else can append to the chat. The order of the checks is part of the
contract: a retry succeeds even though the log has moved on, so the id comes first, then the keys, then ``after``.
"""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias

import msgspec
from msgspec.structs import force_setattr
from xxhash import xxh3_64_intdigest

from chatfold.eventlog.codec import (
    MAX_NAME,
    EncodedEvent,
    decode,
    extract_event,
    find_reference,
    is_name,
    replace_with_reference,
    resolve_line,
)
from chatfold.eventlog.errors import ChatDeleted, Conflict, CorruptLog, IdConflict, InvalidEvent
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.line import (
    DECODE_ERRORS,
    SYNCED,
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

Clock: TypeAlias = Callable[[], int]
"""Epoch milliseconds. ``ts`` is for people: it orders nothing, and may jump as the clock does."""


def now() -> int:
    return time.time_ns() // 1_000_000


class AppendRequest(msgspec.Struct, frozen=True, gc=False):
    """What a caller asks for: these events, all or none, as one batch."""

    chat: str
    events: tuple[EncodedEvent, ...]
    after: int | None = None
    id: str | None = None
    run: str | None = None
    expected_head: Head = Head()  # of the chat that is meant: another one of the same key has another there
    lease: str = (
        ""  # the epoch of the lease that this is done under; compared by the storage, if it gives epochs
    )

    # What follows from the others:
    size: int = 0  # bytes of the events
    has_keys: bool = False
    has_names: bool = False  # an id or keys, which hold over the whole history
    has_texts: bool = False  # long ones, which may repeat earlier ones
    has_blobs: bool = False  # contents that are kept in files of their own

    def __post_init__(self) -> None:
        if not self.events:
            raise InvalidEvent("an append needs at least one event", chat=self.chat)
        if self.id is not None and not is_name(self.id):
            raise InvalidEvent(f"id must be a string of 1 to {MAX_NAME} characters", chat=self.chat)
        if self.run is not None and not is_name(self.run):
            raise InvalidEvent(f"run must be a string of 1 to {MAX_NAME} characters", chat=self.chat)
        size, has_keys, has_texts, has_blobs = 0, False, False, False
        for event in self.events:
            size += len(event.raw)
            if event.texts:
                has_texts = True
            if event.key is not None:
                has_keys = True
            if event.blobs:
                has_blobs = True
        force_setattr(self, "size", size)
        force_setattr(self, "has_keys", has_keys)
        force_setattr(self, "has_names", has_keys or self.id is not None)
        force_setattr(self, "has_texts", has_texts)
        force_setattr(self, "has_blobs", has_blobs)


class BatchHistory(Protocol):
    """What numbering needs to know of the lines before, the ones just numbered included.

    ``is_tracking``: may any of the lines that are numbered now be asked for? If not, only those that have fingerprints are.
    """

    is_tracking: bool

    def find(self, fingerprint: int) -> Sequence[int]:
        """Seqs that may hold this fingerprint. May propose too many, never too few of an id's or a key's."""

    def line(self, seq: int) -> bytes:
        """The line as it was written."""

    def link(self, seq: int) -> str:
        """What the line after that one says of it."""

    def blob(self, digest: str) -> bytes: ...

    def add(self, seq: int, line: bytes, fingerprints: list[int]) -> None:
        """Takes every line just numbered, or those with fingerprints: a later one may ask for it."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    entries: list[Entry]  # one for each event of the request, in its order
    lines: list[bytes]  # to be written; empty if everything was known
    head: Head
    events: Sequence[EncodedEvent] = ()  # those of ``lines``


def build_batch(request: AppendRequest, head: Head, synced: int, now: int, history: BatchHistory) -> Batch:
    if request.expected_head.seq and request.expected_head != head:
        _verify_expected_head(request, head, history)
    if request.id is not None:
        earlier = _find_retry(request, request.id, head, history)
        if earlier:
            return Batch(earlier, [], head)
    if request.has_keys:
        return _build_keyed(request, head, synced, now, history)
    if request.after is not None:
        _verify_after(request, head)
    return _number(request, request.events, head, synced, now, history)


def _build_keyed(request: AppendRequest, head: Head, synced: int, now: int, history: BatchHistory) -> Batch:
    """Writes only what no key stands for yet."""
    known = _find_keys(request, head, history)
    new = _select_new(request.events, known)
    if not new:
        return Batch(_in_order(request.events, known, []), [], head)
    _verify_after(request, head)
    made = _number(request, new, head, synced, now, history)
    return Batch(_in_order(request.events, known, made.entries), made.lines, made.head, new)


def _verify_after(request: AppendRequest, head: Head) -> None:
    if request.after is not None and request.after != head.seq:
        raise Conflict(request.after, head.seq, chat=request.chat)


def _number(
    request: AppendRequest,
    events: Sequence[EncodedEvent],
    head: Head,
    synced: int,
    now: int,
    history: BatchHistory,
) -> Batch:
    """The lines of these events, after ``head``."""
    entries: list[Entry] = []
    lines: list[bytes] = []
    seq, link, prev, run = head.seq, head.link, head.link.encode(), request.run
    name: str | None = request.id  # the first entry has it, and what is durable
    durable: int | None = synced
    prefix, is_tracking = format_prefix(now, run, name), history.is_tracking
    places = _cached_batch_fields(size) if (size := len(events)) <= _USUAL else _batch_fields(size)
    for event, (batch, place) in zip(events, places, strict=True):
        seq += 1
        key, said_at, names = event.key, event.said_at, prefix
        if key is not None or said_at is not None:
            said_at = said_at if said_at != now else None
            names = format_prefix(now, run, name, key, said_at)
        raw, fingerprints = _shorten(event, history) if event.texts else (event.raw, [])
        if name is not None:
            fingerprints.append(id_fingerprint(name))
        if key is not None:
            fingerprints.append(key_fingerprint(key))
        line = build_line(seq, names, raw, place if durable is None else place + SYNCED % durable, prev)
        if fingerprints or is_tracking:
            history.add(seq, line, fingerprints)
        before, prev = link, line[-18:-2]
        link = prev.decode()
        entries.append(
            Entry(seq, now, event.event, run, name, batch, durable, None, before, link, key, said_at)
        )
        lines.append(line)
        if durable is not None:
            name, durable, prefix = None, None, format_prefix(now, run, None)
    return Batch(entries, lines, Head(seq, link), events)


def _shorten(event: EncodedEvent, history: BatchHistory) -> tuple[bytes, list[int]]:
    """The event's JSON with references to repeated texts, and the fingerprints of its other ones."""
    fingerprints = list(map(text_fingerprint, event.texts))
    proposed = list(map(history.find, fingerprints))
    if not any(proposed):
        return event.raw, fingerprints
    return _replace_repeats(event, fingerprints, proposed, history)


def _batch_fields(size: int) -> list[tuple[str | None, bytes]]:
    """What each entry of a batch says of its place there, and the same as it stands in its line."""
    if size == 1:
        return [(None, b"")]
    return [
        (batch, format_fields(batch, None)) for batch in (f"{index}/{size}" for index in range(1, size + 1))
    ]


_cached_batch_fields = lru_cache(maxsize=None)(_batch_fields)


def _verify_expected_head(request: AppendRequest, head: Head, history: BatchHistory) -> None:
    """Other writers may have appended since, but the entry that the caller knew last must be there."""
    known = request.expected_head
    if known.seq > head.seq or history.link(known.seq) != known.link:
        raise ChatDeleted("the chat was deleted, or another took its place", chat=request.chat, seq=known.seq)


def text_fingerprint(text: str) -> int:
    return xxh3_64_intdigest(text.encode())


def id_fingerprint(name: str) -> int:
    return xxh3_64_intdigest(b"id:" + name.encode("utf-8", "surrogatepass"))


def key_fingerprint(key: str) -> int:
    return xxh3_64_intdigest(b"key:" + key.encode("utf-8", "surrogatepass"))


def fingerprints_of(line: bytes) -> list[int]:
    """Of a whole line: its long strings', its id's and its key's.

    A forged event may not decode. Then it counts as one without long strings: to miss a repeated text costs only room. An
    id or a key must never be missed.
    """
    try:
        fields = decode_raw_fields(line)
        texts = collect_long_strings(fields["event"])
        name, key = unescape(fields.get("id")), unescape(fields.get("key"))
    except (CorruptLog, InvalidEvent, *DECODE_ERRORS):
        entry = decode(line)
        texts, name, key = [], entry.id, entry.key
    found = [text_fingerprint(text) for text in texts]
    if isinstance(name, str):
        found.append(id_fingerprint(name))
    if isinstance(key, str):
        found.append(key_fingerprint(key))
    return found


# --- what was written before ------------------------------------------------------------------------------


def _find_retry(request: AppendRequest, name: str, head: Head, history: BatchHistory) -> list[Entry]:
    """The entries this id was first used for, in the order of the request; none if the id is new."""
    for seq in history.find(id_fingerprint(name)):
        if not 0 < seq <= head.seq:  # a forged or stale cache
            continue
        line = history.line(seq)
        _verify_successor(seq, line, head, history)
        if decode(resolve_line(line, history.line, history.blob)).id != name:
            continue
        lines = _read_batch(seq, head, history)
        entries = [decode(resolve_line(line, history.line, history.blob)) for line in lines]
        if _holds(lines, request.events, history):
            return entries
        # Some keys may have been known when the batch was written: then it holds the rest.
        known = _find_keys(request, head, history) if request.has_keys else {}
        before = {key: entry for key, entry in known.items() if not seq <= entry.seq < seq + len(lines)}
        rest = _select_new(request.events, before)
        if not _holds(lines, rest, history):
            raise _id_conflict(request, name, seq)
        return _in_order(request.events, before, entries)
    return []


def _id_conflict(request: AppendRequest, name: str, seq: int) -> IdConflict:
    return IdConflict(f"id {name!r} was used for other content", chat=request.chat, seq=seq)


def _holds(lines: list[bytes], events: Sequence[EncodedEvent], history: BatchHistory) -> bool:
    """Are these the lines of these events? An erased entry cannot be compared any more; its id still stands for it."""
    if len(lines) != len(events):
        return False
    if any(parse_fields(line).was for line in lines):
        return True
    return [extract_event(resolve_line(line, history.line)) for line in lines] == [one.raw for one in events]


def _find_keys(request: AppendRequest, head: Head, history: BatchHistory) -> dict[str, Entry]:
    """The entries that the keys of the request stand for already."""
    known: dict[str, Entry] = {}
    raws: dict[str, bytes] = {}
    for event in request.events:
        if event.key is None:
            continue
        if raws.setdefault(event.key, event.raw) != event.raw:
            raise IdConflict(f"key {event.key!r} stands for two contents in one append", chat=request.chat)
        if event.key not in known:
            entry = _find_key(request, event, event.key, head, history)
            if entry is not None:
                known[event.key] = entry
    return known


def _find_key(
    request: AppendRequest, event: EncodedEvent, key: str, head: Head, history: BatchHistory
) -> Entry | None:
    for seq in history.find(key_fingerprint(key)):
        if not 0 < seq <= head.seq:  # a forged or stale cache
            continue
        line = history.line(seq)
        _verify_successor(seq, line, head, history)
        entry = decode(resolve_line(line, history.line, history.blob))
        if entry.key != key:
            continue
        # An erased entry cannot be compared any more; its key still stands for it.
        if entry.was is None and extract_event(resolve_line(line, history.line)) != event.raw:
            raise IdConflict(f"key {key!r} was used for other content", chat=request.chat, seq=seq)
        return entry
    return None


def _select_new(events: Sequence[EncodedEvent], known: dict[str, Entry]) -> list[EncodedEvent]:
    """The events that have to be written, each key once."""
    new: list[EncodedEvent] = []
    keys = set(known)
    for event in events:
        if event.key is None:
            new.append(event)
        elif event.key not in keys:
            keys.add(event.key)
            new.append(event)
    return new


def _in_order(events: Sequence[EncodedEvent], known: dict[str, Entry], new: list[Entry]) -> list[Entry]:
    """An entry for each event: the known one of its key, or the one of ``new`` that was made of it."""
    by_key = dict(known)
    rest = iter(new)
    entries: list[Entry] = []
    for event in events:
        entry = by_key.get(event.key) if event.key is not None else None
        if entry is None:
            entry = next(rest)
            if event.key is not None:
                by_key[event.key] = entry
        entries.append(entry)
    return entries


def _verify_successor(seq: int, line: bytes, head: Head, history: BatchHistory) -> None:
    """Raises CorruptLog unless the next line follows this one: a line of another chat may stand in its place."""
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


def _replace_repeats(
    draft: EncodedEvent, fingerprints: list[int], proposed: list[Sequence[int]], history: BatchHistory
) -> tuple[bytes, list[int]]:
    """The event's JSON with every long string that an earlier line holds replaced by a reference to it, and the others' fingerprints.

    ``proposed``: for each of them, the seqs of the lines that may hold it.
    """
    raw, new = draft.raw, []
    for text, fingerprint, seqs in zip(draft.texts, fingerprints, proposed, strict=True):
        for seq in seqs:
            try:
                found = find_reference(seq, history.line(seq), text)
            except (CorruptLog, OSError):
                continue  # damage elsewhere must not prevent an append
            if found:
                raw = replace_with_reference(raw, *found)
                break
        else:
            new.append(fingerprint)
    return raw, new
