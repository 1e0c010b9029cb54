"""Columns: a few numbers for each entry of a chat, enough to draw the whole of it and to know what the model saw at any point.

The page filters these arrays and asks for nothing while the cursor moves. They are made in one reading, go on from where they
ended, and are kept in a file of the debugger's own. The file is believed only if the chat still has its last entry, by link, and nothing
was erased since. It holds no text.

What is sent is what ``pack`` gives: for the entries from one on, little-endian, one column after the other:

    ts f64 · tokens u32 · pair u32 · kind u8 · flags u8

``tokens``: what the entry costs in a prompt, 0 if no model is shown it; of a compaction, its summary. ``pair``: what it answers, or what
answers it. ``kind``: an index of ``KINDS``. ``flags``: see ``Flag``.
"""

import os
import sys
from array import array
from collections.abc import Iterable
from enum import IntFlag
from hashlib import sha256
from pathlib import Path

import msgspec
from xxhash import xxh3_128_hexdigest

from chatfold.eventlog import (
    Entry,
    Head,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Redacted,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.search_text import OURS
from chatfold.replay.inspect.entries import is_failure, row
from chatfold.replay.inspect.sizes import cost_of

VERSION = 1
KINDS = (
    "unknown", "system", "developer", "user", "assistant", "tool", "call", "result", "asked", "answered", "injected",
    "recalled", "compacted", "reverted", "opened", "switched", "cleared", "rewound", "checkpoint", "started", "forked",
    "skill on", "skill off", "run", "finished", "sending", "sent", "not sent", "redacted", "lost", "noted",
)  # fmt: skip
"""What a list calls the kinds of events. A new one goes to the end, and raises ``VERSION``."""
_CODES = {name: code for code, name in enumerate(KINDS)}
_TYPES = "dIIBB"
_WAITING = 4096  # calls that are remembered until they are answered


class Flag(IntFlag):
    FAILED = 1
    TURN = 2  # a question of the user: a turn begins
    HIDDEN = 4  # our own notes of what was sent: no row of its own
    INNER = 8  # in the user's role, but not the user's words
    ERASED = 16


class Columns:
    """``head``: the last entry that is in them."""

    def __init__(self) -> None:
        self.head = Head()
        self.ts, self.tokens, self.pair, self.kind, self.flags = (array(code) for code in _TYPES)
        self._calls: dict[str, int] = {}  # by id, those not answered yet
        self._asked: dict[str, int] = {}  # by run

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, entries: Iterable[Entry]) -> bool:
        """The next ones. False: something before them was erased, and all has to be read again."""
        is_whole = True
        for entry in entries:
            self._take(entry)
            is_whole = is_whole and not isinstance(entry.event, Redacted)
        return is_whole

    def _take(self, entry: Entry) -> None:
        event = entry.event
        self.ts.append(entry.time)
        self.tokens.append(cost_of(event))
        self.pair.append(self._find_pair(entry))
        self.kind.append(_CODES.get(row(entry, most=1).what, 0))
        self.flags.append(_flags(entry))
        self.head = Head(entry.seq, entry.link)
        if isinstance(event, ToolCalled | ModelCalled):
            waiting, name = (
                (self._calls, event.call) if isinstance(event, ToolCalled) else (self._asked, entry.run or "")
            )
            waiting.pop(name, None)
            waiting[name] = entry.seq
            if len(waiting) > _WAITING:
                del waiting[next(iter(waiting))]

    def _find_pair(self, entry: Entry) -> int:
        match entry.event:
            case ToolReturned(call=call):
                seq = self._calls.pop(call, 0)
            case ModelReturned():
                seq = self._asked.pop(entry.run or "", 0)
            case _:
                return 0
        if seq:
            self.pair[seq - 1] = entry.seq
        return seq

    def pack(self, first: int = 1, last: int | None = None) -> bytes:
        """Of the entries ``first`` … ``last``."""
        columns = (self.ts, self.tokens, self.pair, self.kind, self.flags)
        return b"".join(_view(column, first - 1, last) for column in columns)

    # --- kept ------------------------------------------------------------------------------------------------

    def dump(self, epoch: str) -> bytes:
        """``epoch``: of the erasures, from before the entries were read."""
        data = self.pack()
        title = _Title(
            VERSION, epoch, self.head, len(self), self._calls, self._asked, xxh3_128_hexdigest(data)
        )
        return b"\n".join((msgspec.json.encode(title), data))

    @classmethod
    def load(cls, data: bytes, epoch: str) -> "Columns | None":
        begin = data.find(b"\n") + 1
        rest = memoryview(data)[begin:]
        try:
            title = _decode_title(data[:begin])
        except ValueError:
            return None
        wanted = VERSION, epoch, xxh3_128_hexdigest(rest)
        if (title.version, title.epoch, title.xxh3) != wanted or title.head.seq != title.count:
            return None
        found = cls()
        at = 0
        for column in (found.ts, found.tokens, found.pair, found.kind, found.flags):
            column.frombytes(rest[at : at + title.count * column.itemsize])
            at += title.count * column.itemsize
            if sys.byteorder == "big":
                column.byteswap()
        found.head, found._calls, found._asked = title.head, title.calls, title.asked
        return found if at == len(rest) else None


class _Title(msgspec.Struct):
    version: int
    epoch: str
    head: Head
    count: int
    calls: dict[str, int]
    asked: dict[str, int]
    xxh3: str


_decode_title = msgspec.json.Decoder(_Title).decode


def _view(column: "array[float] | array[int]", first: int, last: int | None) -> memoryview:
    """A part of it, little-endian, where that can be without a copy."""
    if sys.byteorder == "little":
        return memoryview(column)[first:last]
    part = column[first:last]
    part.byteswap()
    return memoryview(part)


def _flags(entry: Entry) -> int:
    event = entry.event
    flags = Flag.FAILED if is_failure(event) else Flag(0)
    match event:
        case MessageAdded(role="user", origin=origin):
            flags |= Flag.TURN if origin == "exec" else Flag.INNER
        case Noted(name=name) if name.startswith(OURS):
            flags |= Flag.HIDDEN
    return int(flags | (Flag.ERASED if entry.was else Flag(0)))


# --- where they are kept ---------------------------------------------------------------------------------


class Kept:
    """One file a chat, below the user's own cache folder: it is there for a database, too, and for what is only to be read."""

    def __init__(self, place: str) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self._folder = Path(base) / "chatfold" / "view"
        self._place = place

    def load(self, key: str, epoch: str) -> Columns | None:
        try:
            return Columns.load(self._path(key).read_bytes(), epoch)
        except OSError:
            return None

    def store(self, key: str, columns: Columns, epoch: str) -> None:
        """What cannot be written is not needed."""
        path = self._path(key)
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(columns.dump(epoch))
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        name = sha256(f"{self._place}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{name[:40]}.columns"
