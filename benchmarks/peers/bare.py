"""Limits in the shape of a peer: what is left if everything is taken away but the one thing that has to be done.

``append``: bytes that were made before the clock started are written and synced, in a thread as everywhere else. ``group``: the
same, and all who wait share the next sync, of their chat or, since that is the least there is to do, of all chats. ``replay``:
lines that are in memory already are decoded to typed entries, and nothing is checked.
"""

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from benchmarks.conversation import Message
from benchmarks.workload import event_of, message_of
from chatfold.eventlog import Entry

_SUM = "0123456789abcdef"


def native(message: Message) -> bytes:
    return msgspec.json.encode(Entry(1, 1_738_713_600_000, event_of(message), prev=_SUM, sum=_SUM)) + b"\n"


def plain(entry: Entry) -> Message:
    return message_of(entry.event)


RELAXED = ("append",)


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        assert setting in STORES
        self.place = place
        self.durable = durable
        self.files: dict[str, int] = {}
        self.lines: list[bytes] = []

    def file(self, chat: str) -> int:
        if chat not in self.files:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self.files[chat] = os.open(self.place / chat, flags, 0o600)
        return self.files[chat]

    async def build(self, chat: str, turns: Iterable[list[bytes]]) -> None:
        for turn in turns:
            os.write(self.file(chat), b"".join(turn))

    async def ready(self, chat: str) -> None:
        self.lines = (self.place / chat).read_bytes().splitlines() if (self.place / chat).exists() else []

    async def replay(self, chat: str) -> Iterator[Entry]:
        assert self.lines or not (self.place / chat).exists()
        return map(msgspec.json.Decoder(Entry).decode, self.lines)

    async def close(self) -> None:
        for fd in self.files.values():
            os.close(fd)


class Appending(Store):
    async def append(self, chat: str, items: list[bytes]) -> None:
        await asyncio.to_thread(self._append, self.file(chat), items)

    def _append(self, fd: int, items: list[bytes]) -> None:
        os.write(fd, b"".join(items))
        if self.durable:
            os.fdatasync(fd)


class Grouping(Appending):
    """One write and one sync at a time."""

    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        super().__init__(place, durable=durable, setting=setting)
        self.waiting: list[tuple[list[bytes], asyncio.Future[None]]] = []
        self.writing: asyncio.Task[None] | None = None

    async def append(self, chat: str, items: list[bytes]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((items, done))
        if self.writing is None:
            self.writing = asyncio.create_task(self._write(self.file(chat)))
        await done

    async def _write(self, fd: int) -> None:
        while self.waiting:
            group, self.waiting = self.waiting, []
            await asyncio.to_thread(self._append, fd, [line for items, _ in group for line in items])
            for _, done in group:
                done.set_result(None)
        self.writing = None


STORES = {"append": Appending, "group": Grouping, "replay": Store}
