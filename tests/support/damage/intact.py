"""Chats that are about to be damaged: what is in them, and the means to damage their files and to put them back.

Files are changed in place and restored, never copied: a hundred thousand damaged logs then cost only their reading, and
caches, which name the inodes they belong to, stay those of these files.
"""

import asyncio
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from chatfold.agent import Policy, Store, assistant, user
from chatfold.agent.views import keep_view
from chatfold.eventlog import Entry, FileStorage, Head, Noted, Text, ToolCalled, ToolReturned, scan
from chatfold.eventlog.line import parse_fields
from tests.support.clock import TickingClock
from tests.support.judges.talk import batches
from tests.support.listing import settle

LARGE_TEXT = "a text too large for a line " * 40_000
SAID_AGAIN = "a long text " * 86  # 1 KiB: the second time it is written as a reference


class Intact:
    """A chat as it was written, and everything that may be read of it."""

    def __init__(self, root: Path, key: str = "chat") -> None:
        self.root = root
        self.folder = root / "chats" / key
        self.files = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
        self.segments = [
            path for path in self.files if path.suffix == ".jsonl" and path.parent == self.folder
        ]
        self.caches = [path for path in self.files if path.parent.name == "cache"]
        self.blobs = [path for path in self.files if path.parent.name == "blobs"]
        self.head_file = self.folder / "head"
        self.entries: list[Entry] = list(scan(self.folder))
        self.reprs = list(map(repr, self.entries))  # NaN equals NaN there, and -0.0 is not 0.0
        ends = [batch[-1].seq for batch in batches(self.entries)]
        self.commits = {0, *ends}
        self.messages = asyncio.run(self._messages())
        lines = {
            line: parse_fields(line).synced or 0
            for path in self.segments
            for line in _entry_lines(self.files[path])
        }
        self._synced = lines

    async def _messages(self) -> dict[int, Any]:
        """What a model is sent after each commit."""
        async with Store(self.root, read_only=True) as store:
            [self.listed] = [one async for one in store.chats()]
            chat = await store.chat(self.folder.name)
            last = sorted(self.commits)[-30:] if len(self.commits) > 100 else sorted(self.commits - {0})
            return {seq: await (await chat.at(seq)).messages("openai") for seq in last}

    def first_by_id(self) -> list[Entry]:
        """What the first append that had an id has left, if it can be asked for again."""
        for batch in batches(self.entries):
            if batch[0].id and not any(entry.was for entry in batch):
                return batch
        return []

    def heads(self) -> dict[int, Head]:
        return {0: Head(), **{entry.seq: Head(entry.seq, entry.link) for entry in self.entries}}

    def durable(self) -> int:
        """The highest seq that what is left on disk still calls durable: nothing up to there may be missing in silence.

        Found without the engine: an intact ``head``, the lines that stand there as they were, the newest segment's name.
        """
        if self.head_file.exists() and self.head_file.read_bytes() == self.files[self.head_file]:
            return len(self.entries)
        present = [path for path in self.segments if path.exists()]
        left = [self._synced.get(line, 0) for path in present for line in path.read_bytes().split(b"\n")]
        return max([0, *left, *(int(path.stem) - 1 for path in present[-1:])])

    # --- damage, and back ------------------------------------------------------------------------------------

    @contextmanager
    def flipped(self, path: Path, bit: int) -> Iterator[None]:
        """The bits of a file are counted from its first byte's lowest."""
        place = bit // 8
        right = self.files[path][place : place + 1]
        fd = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(fd, bytes([right[0] ^ 1 << bit % 8]), place)
            yield
        finally:
            os.pwrite(fd, right, place)
            os.close(fd)

    @contextmanager
    def replaced(self, path: Path, content: bytes) -> Iterator[None]:
        """It has other bytes, or was not there at all."""
        right = self.files.get(path)
        try:
            path.write_bytes(content)
            path.chmod(0o600)
            yield
        finally:
            if right is None:
                path.unlink()
            else:
                path.write_bytes(right)

    @contextmanager
    def missing(self, path: Path) -> Iterator[None]:
        """The inode stays: other files name it."""
        aside = self.root.parent / f"missing-{path.name}"
        path.rename(aside)
        try:
            yield
        finally:
            aside.rename(path)

    @contextmanager
    def all_replaced(self, contents: dict[Path, bytes | None]) -> Iterator[None]:
        """None: the file is missing."""
        with ExitStack() as stack:
            for path, content in contents.items():
                stack.enter_context(self.missing(path) if content is None else self.replaced(path, content))
            yield


def _entry_lines(segment: bytes) -> list[bytes]:
    return [line for line in segment.split(b"\n") if line.startswith(b'{"seq":')]


# --- the chats -----------------------------------------------------------------------------------------------


def _store(root: Path, segment_bytes: int) -> Store:
    return Store(FileStorage(root, clock=TickingClock(), segment_bytes=segment_bytes))


def _pad(root: Path, size: int) -> None:
    """As a writer leaves it that was killed."""
    with max((root / "chats" / "chat").glob("*.jsonl")).open("ab") as segment:
        segment.write(b"\n" * size)


def small(root: Path, *, said: str = "", padding: int = 0) -> Intact:
    """Three segments, all synced: batches, a reference across segments, odd values, ids, a tombstone."""

    async def write() -> None:
        async with _store(root, 1300) as store:
            chat = await store.chat("chat")
            await chat.record(user(f"why? {said}"), user(SAID_AGAIN), id="first")
            for number in range(2):
                called = ToolCalled(f"c{number}", "t", {"x": [math.nan, b"\0", "\x7f", said]})
                await chat.record(called, ToolReturned(f"c{number}", (Text("ok"),)), Noted("n", number))
            await chat.record(user(SAID_AGAIN), id="again")
            for number in range(3):
                await chat.record(assistant(f"漢字 {number} {said}"), run="r")
            await chat.redact(4)

    asyncio.run(write())
    _pad(root, padding)
    made = Intact(root)
    assert len(made.segments) == 3
    return made


def large(root: Path, segment_bytes: int = 150_000, *, padding: int = 0) -> Intact:
    """A few hundred kilobytes in several segments: pages end inside of them."""

    async def write() -> None:
        async with _store(root, segment_bytes) as store:
            chat = await store.chat("chat")
            for number in range(100):
                asked, answered = (
                    f"question {number} " + "?" * (number % 50),
                    f"answer {number} " * (number * 7 % 300),
                )
                await chat.record(
                    user(asked), assistant(answered), Noted("n", [number, asked]), id=f"i{number}"
                )

    asyncio.run(write())
    _pad(root, padding)
    return Intact(root)


def cached(root: Path) -> Intact:
    """With every cache there is, filled."""

    async def write() -> None:
        async with _store(root, 20_000) as store:
            chat = await store.chat("chat")
            for number in range(300):
                await chat.record(
                    user(f"question {number} of the lexer"), assistant(f"answer {number}"), id=f"i{number}"
                )
            await chat.compact(Policy(keep=8, budget=None))
            await chat.user("and now?")
            await keep_view(chat.log, chat.key, chat.view)
        async with _store(root, 20_000) as store:
            assert await store.log.search("chat", "lexer")
            await settle()
            assert [one async for one in store.chats()]

    asyncio.run(write())
    made = Intact(root)
    kinds = {
        path.parent.name if path.parent.name != "cache" else path.name.strip("-.0123456789")
        for path in made.caches
    }
    assert kinds == {"seen", "listing", "offsets", "chapter", "newest.snapshot", "snapshot"}
    return made


def bulky(root: Path) -> Intact:
    """With a blob."""

    async def write() -> None:
        async with _store(root, 20_000) as store:
            chat = await store.chat("chat")
            await chat.record(user(LARGE_TEXT), assistant("that was long"), id="large")
            await chat.user("and now?")

    asyncio.run(write())
    made = Intact(root)
    assert made.blobs
    return made
