"""From items to the entries of a chat: only what is not there yet, and nothing twice.

An imported entry has the key ``<format>:<key of the item>``; entries without such a key are somebody else's, and stay where
they are. Items go on where the imported entries end. Where they part, the tool has rewritten its file: the chat
goes back to there, and what the file says now follows.

Appends are not waited for: whoever writes calls ``flush`` at the end. What a power cut takes is imported again.

A session that began as a copy of another becomes a fork of that one's chat, at the end of what both have in common.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec
from xxhash import xxh3_64_intdigest

from chatfold.eventlog import (
    ChatExists,
    ChatStarted,
    Compacted,
    Conflict,
    ContextOpened,
    ContextSwitched,
    Event,
    File,
    Head,
    InvalidEvent,
    Log,
    Noted,
    Rewound,
)
from chatfold.eventlog.codec import MAX_NAME, encode_event
from chatfold.importers.items import Item

BATCH = 256  # items in one append
_BATCH_BYTES = 4 << 20
_ANY = 0  # a fingerprint that any event has
_TITLE = "title-"  # of an entry with a title that is not in the items
_REWRITTEN = "rewritten"  # the key of the entry that goes back, after the format's name

SeqOf: TypeAlias = Callable[[int], int]
"""Where the item of a place is in the chat."""


class ChatWriter:
    """``await open()``, then any number of times ``await write(items)``."""

    def __init__(self, log: Log, chat: str, tool: str) -> None:
        self.chat = chat
        self.written = 0  # entries
        self._log = log
        self._prefix = f"{tool}:"
        self._head = Head()
        self._seqs = array("Q")  # of the items that are taken, by their place
        self._waiting: list[
            tuple[int, str, int]
        ] = []  # of entries that no item was compared with: seq, key, fingerprint
        self._waits = 0  # the first of these
        self._used: set[str] = set()  # keys of entries that were gone back behind
        self._rewrites = 0
        self._titles: set[str] = set()
        self._time: int | None = None  # of the newest entry: what has none of its own was said then

    @property
    def exists(self) -> bool:
        return self._head.seq > 0

    async def open(self) -> "ChatWriter":
        self._head = await self._log.head(self.chat)
        self._seqs, self._waiting, self._waits, self._used, self._rewrites = array("Q"), [], 0, set(), 0
        async for entry in self._log.read(self.chat):
            if entry.key is None or not entry.key.startswith(self._prefix):
                continue
            key = entry.key.removeprefix(self._prefix)
            self._time = entry.said_at or self._time
            if key.startswith(_TITLE):
                self._titles.add(key)
            elif key.startswith(_REWRITTEN) and isinstance(entry.event, Rewound):
                self._go_back(entry.event.to)
            else:
                erased = entry.was is not None
                self._waiting.append((entry.seq, key, _ANY if erased else _fingerprint(entry.event)))
        return self

    def _go_back(self, to: int) -> None:
        self._rewrites += 1
        while self._waiting and self._waiting[-1][0] > to:
            self._used.add(self._waiting.pop()[1])

    async def begin_as_fork(self, parent: "ChatWriter", items: Iterator[Item]) -> None:
        """Makes the chat a fork of ``parent`` as far as the items are the same."""
        if at := parent.count_shared(items):
            with suppress(ChatExists):
                await self._log.fork(parent.chat, self.chat, parent.seq_at(at))

    def take_shared(self, parent: "ChatWriter", items: Iterator[Item]) -> None:
        """The same, but nothing is written. ``parent`` may be a chat that would come in."""
        if at := parent.count_shared(items):
            self._waiting = parent.first(at)
            self._head = Head(parent.seq_at(at) + 1)  # the fork has an entry of its own

    def count_shared(self, items: Iterator[Item]) -> int:
        """How many of the first items are in this chat. None, if it is only the chat's beginning."""
        at = 0
        for item in items:
            if not self.matches(item, at):
                break
            at += 1
        return at if at > 1 else 0

    def matches(self, item: Item, at: int) -> bool:
        """Is this the item that stands at this place, from 0, of a chat just opened?"""
        if at >= len(self._waiting):
            return False
        _, key, fingerprint = self._waiting[at]
        return key == _key_of(item) and _is_same(fingerprint, self._resolved(item.event, self.seq_at))

    def first(self, count: int) -> list[tuple[int, str, int]]:
        return self._waiting[:count]

    def seq_at(self, place: int) -> int:
        return self._waiting[place - 1][0] if 0 < place <= len(self._waiting) else 0

    # --- writing -----------------------------------------------------------------------------------------

    async def write(self, items: Sequence[Item]) -> int:
        """How many of them were new."""
        new = self._new(items)
        before = self.written
        for batch in _batches(new):
            await self._append(batch)
        return self.written - before

    async def give_title(self, title: str) -> int:
        """How many entries that takes: none if the chat has the title."""
        if not self.count_title(title):
            return 0
        key = _title_key(title)
        [entry] = await self._log.append(
            self.chat, ChatStarted("", title), keys=[self._prefix + key], said_at=[self._time]
        )
        self._titles.add(key)
        if entry.seq > self._head.seq:
            self._head = Head(entry.seq, entry.link)
        self.written += 1
        return 1

    def count_title(self, title: str) -> int:
        """The same, but nothing is written."""
        return int(bool(title) and _title_key(title) not in self._titles)

    def count_new(self, items: Sequence[Item]) -> int:
        """How many of them ``write`` would write. They are taken as if it had."""
        new = self._new(items)
        for number, item in enumerate(new, self._head.seq + 1):
            if not item.key.startswith(_REWRITTEN):
                fingerprint = _fingerprint(self._resolved(item.event, self._seq_of))
                self._waiting.append((number, _key_of(item), fingerprint))
                self._seqs.append(number)
        self._waits = len(self._seqs)
        self._head = Head(self._head.seq + len(new))
        return len(new)

    def _new(self, items: Sequence[Item]) -> list[Item]:
        """Takes the items that are in the chat; gives the others."""
        for at, item in enumerate(items):
            if self._waits >= len(self._waiting):
                return list(items[at:])
            seq, key, fingerprint = self._waiting[self._waits]
            own = _key_of(item)
            same = key == own or key.startswith(own + "~")
            if not same or not _is_same(fingerprint, self._resolved(item.event, self._seq_of)):
                return [self._rewind(), *items[at:]]
            self._waits += 1
            self._seqs.append(seq)
        return []

    def _rewind(self) -> Item:
        self._used.update(key for _, key, _ in self._waiting[self._waits :])
        del self._waiting[self._waits :]
        self._rewrites += 1
        to = self._seqs[-1] if self._seqs else 0
        return Item(Rewound(to, "the file was rewritten"), f"{_REWRITTEN}-{self._rewrites}")

    async def _append(self, batch: list[Item]) -> None:
        taken = len(self._seqs)
        events: list[Event] = []
        times: list[int | None] = []
        for number, item in enumerate(batch, self._head.seq + 1):
            going_back = item.key.startswith(_REWRITTEN)
            self._time = item.said_at or self._time
            times.append(self._time)
            events.append(item.event if going_back else self._resolved(item.event, self._seq_of))
            if not going_back:
                self._seqs.append(number)
        try:
            entries = await self._log.append(
                self.chat,
                *events,
                after=self._head.seq,
                known=self._head,
                run=batch[0].run,
                durability="off",
                keys=[self._prefix + self._free(item) for item in batch],
                said_at=times,
            )
        except InvalidEvent as error:
            del self._seqs[taken:]
            if len(batch) > 1:
                for item in batch:
                    await self._append([item])
                return
            if isinstance(batch[0].event, Noted):
                raise
            note = Noted("unreadable", {"why": str(error), "event": type(batch[0].event).__name__})
            await self._append([msgspec.structs.replace(batch[0], event=note)])
            return
        except Conflict:  # somebody else writes here, too
            del self._seqs[taken:]
            self._head = await self._log.head(self.chat)
            await self._append(batch)
            return
        self._head = Head(entries[-1].seq, entries[-1].link)
        self.written += len(entries)

    def _free(self, item: Item) -> str:
        """The item's key, or one like it, if that stands for what the file once said."""
        key = free = _key_of(item)
        number = 1
        while free in self._used:
            number += 1
            free = f"{key}~{number}"
        return free

    def _seq_of(self, place: int) -> int:
        return self._seqs[place - 1] if 0 < place <= len(self._seqs) else 0

    @staticmethod
    def _resolved(event: Event, seq_of: SeqOf) -> Event:
        match event:
            case Compacted(first=first, last=last):
                return msgspec.structs.replace(event, first=seq_of(first), last=seq_of(last))
            case Rewound(to=to):
                return msgspec.structs.replace(event, to=seq_of(to))
            case ContextOpened(carry=carry) | ContextSwitched(carry=carry) if carry:
                return msgspec.structs.replace(event, carry=tuple(map(seq_of, carry)))
            case Noted(ref=ref) if ref:
                return msgspec.structs.replace(event, ref=seq_of(ref))
        return event


def _title_key(title: str) -> str:
    return f"{_TITLE}{xxh3_64_intdigest(title.encode('utf-8', 'replace')):x}"


def _key_of(item: Item) -> str:
    """Short enough for a key, whatever a tool calls an id."""
    key = item.key or "-"
    return (
        key
        if len(key) <= MAX_NAME - 100
        else f"{key[:200]}-{xxh3_64_intdigest(key.encode('utf-8', 'replace')):x}"
    )


def _fingerprint(event: Event) -> int:
    try:
        return xxh3_64_intdigest(encode_event(event).raw)
    except InvalidEvent:
        return _ANY


def _is_same(fingerprint: int, event: Event) -> bool:
    """What was erased, or could not be written as it is, cannot be compared: its key stands for it."""
    return _ANY in (fingerprint, own := _fingerprint(event)) or fingerprint == own


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Each of one run, and not too large."""
    batch: list[Item] = []
    size = 0
    for item in items:
        if batch and (item.run != batch[0].run or len(batch) >= BATCH or size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += _size(item.event)
    if batch:
        yield batch


def _size(event: Event) -> int:
    parts = getattr(event, "parts", ())
    return sum(len(part.data) if isinstance(part, File) else len(getattr(part, "text", "")) for part in parts)
