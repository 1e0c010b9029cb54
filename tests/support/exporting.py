"""Exports in and out, and exports that nobody of us wrote: with sums, links and seals that are all valid."""

import base64
import os
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from chatfold.eventlog import (
    CorruptLog,
    Entry,
    File,
    FileStorage,
    Head,
    Log,
    MemoryStorage,
    MessageAdded,
    Storage,
    Text,
)
from chatfold.eventlog.line import add_checksum, header_line, link_after, seal_line
from chatfold.testing.strategies import LARGE_TEXT

START = b"0" * 16
LARGE = MessageAdded("user", (Text(LARGE_TEXT), File("image/png", b"\0\xff" * 600_000)))
DIGEST = sha256(b"hi").hexdigest().encode()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder: in memory, where there is such a place."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as path:
        yield Path(path)


def opened(kind: str, root: Path, **how: Any) -> Log:
    """A storage whose clock stands still: the same appends give the same bytes."""
    if kind == "memory":
        return Log(MemoryStorage(clock=lambda: 1))
    return Log(FileStorage(root, clock=lambda: 1, segment_bytes=2000, **how))


async def read(log: Log, chat: str) -> list[Entry]:
    return [entry async for entry in log.read(chat)]


async def exported(storage: Storage, chat: str) -> bytes:
    return b"".join([piece async for piece in storage.export(chat)])


async def adopt(storage: Storage, chat: str, data: bytes, cuts: Iterable[int] = ()) -> None:
    """The export comes in pieces, cut at these bytes."""
    await storage.import_chat(chat, pieces(data, cuts))


async def pieces(data: bytes, cuts: Iterable[int] = ()) -> AsyncIterator[bytes]:
    for start, end in pairwise([0, *sorted(cuts), len(data)]):
        yield data[start:end]


def traces(root: Path) -> list[Path]:
    """What a refused export left in a store that was empty."""
    return [path for path in root.rglob("*") if path.name not in ("chats", "trash")]


def leftovers(root: Path) -> list[Path]:
    """Of chats that were being made or deleted."""
    return [*root.glob("chats/.*"), *root.glob("trash/*")]


class Line(NamedTuple):
    """An entry to be forged: its event, what stands before it and after it, and what is not as it must be."""

    event: bytes = b'{"type":"noted","name":"n"}'
    names: bytes = b""
    marks: bytes = b""
    seq: int = 0
    prev: bytes = b""


def noted(fields: bytes, **how: Any) -> Line:
    """With more fields than its name."""
    return Line(b'{"type":"noted","name":"n",%b}' % fields, **how)


def entry_line(line: Line, seq: int, link: bytes) -> bytes:
    body = b'{"seq":%d,"ts":1,%b"event":%b%b,"prev":"%b"'
    return add_checksum(body % (line.seq or seq, line.names, line.event, line.marks, line.prev or link))


def blob_line(content: bytes, digest: str | None = None) -> bytes:
    name = (digest or sha256(content).hexdigest()).encode()
    return add_checksum(b'{"blob":"%b","base64":"%b"' % (name, base64.b64encode(content)))


def forged(*items: Line | bytes, first: bytes = header_line(Head())) -> bytes:
    """The export of these entries, and of lines as they are, after the header ``first``."""
    lines, link, seq = [first], START, 0
    for item in items:
        if isinstance(item, Line):
            seq += 1
            lines.append(entry_line(item, seq, link))
            link = _link_of(lines[-1])
        else:
            lines.append(item)
    return closed(lines, seq, link)


def _link_of(line: bytes) -> bytes:
    try:
        return link_after(line)
    except (CorruptLog, ValueError):  # nothing can follow it
        return START


def closed(lines: list[bytes], count: int, link: bytes) -> bytes:
    """The lines, and a seal that vouches for them."""
    data = b"\n".join([*lines, b""])
    return data + seal_line(count, len(data), sha256(data).hexdigest(), link) + b"\n"


TINY = forged(
    blob_line(b"hi"),
    noted(b'"data":"\x7ftext:%b"' % DIGEST, marks=b',"batch":"1/2","synced":0'),
    Line(marks=b',"batch":"2/2","was":"0123456789abcdef"'),
)
"""A blob, a batch, a tombstone."""
