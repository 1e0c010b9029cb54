"""The processes of a soak: writers, followers and a reader, of chats that end and are followed by others.

    soaking keeper|follower|reader ROOT      those that live as long as the soak

In each of a few slots there is one chat at a time, called ``s<slot>-<number>``. The board, a file that everybody maps,
says which number that is, and who is writing in which: a chat is ended when nobody is. Told is

    said CHAT ID SEQ      ended CHAT      dropped CHAT      saw CHAT COUNT DIGEST      read
"""

import asyncio
import mmap
import random
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from chatfold.agent import Store
from chatfold.agent.views import keep_view
from chatfold.eventlog import ChatDeleted, Entry, FileStorage, Log, NoSuchChat, Noted
from tests.support.judges.talk import said, short
from tests.support.processes.children import ready, tell
from tests.support.processes.living import Tell

SLOTS = 3
WRITERS = 4
"""The last of them is the keeper, which is never killed."""
SEGMENT_BYTES = 30_000
END = Noted("end")
_PAUSE_S = 0.01
_NUMBER = struct.Struct("i")


class Board:
    def __init__(self, root: Path) -> None:
        path = root.with_name("board")
        if not path.exists():
            path.write_bytes(_NUMBER.pack(1) * SLOTS + bytes(_NUMBER.size * WRITERS))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def _at(self, cell: int) -> int:
        number: int = _NUMBER.unpack_from(self._map, cell * _NUMBER.size)[0]
        return number

    def _put(self, cell: int, number: int) -> None:
        _NUMBER.pack_into(self._map, cell * _NUMBER.size, number)

    def number(self, slot: int) -> int:
        return self._at(slot)

    def chat(self, slot: int) -> str:
        return f"s{slot}-{self._at(slot)}"

    def next(self, slot: int) -> None:
        self._put(slot, self._at(slot) + 1)

    def enter(self, writer: int, slot: int) -> str:
        """The chat of this slot, which does not end until the writer has left. First it says so, then it looks."""
        while True:
            number = self._at(slot)
            self._put(SLOTS + writer, number * SLOTS + slot + 1)
            if self._at(slot) == number:
                return f"s{slot}-{number}"

    def leave(self, writer: int) -> None:
        self._put(SLOTS + writer, 0)

    def is_in_use(self, slot: int, number: int) -> bool:
        return any(self._at(SLOTS + writer) == number * SLOTS + slot + 1 for writer in range(WRITERS))


class Writer:
    """``writer``: its number. ``name``: of this life, so that its ids are its own."""

    def __init__(self, root: Path, writer: int, name: str, told: Tell) -> None:
        self._root = root
        self._board = Board(root)
        self._writer = writer
        self._name = name
        self._tell = told
        self._chance = random.Random(name)
        self._deeds = 0

    async def live(self) -> None:
        async with Store(FileStorage(self._root, segment_bytes=SEGMENT_BYTES)) as self.store:
            while True:
                await self.step()
                await asyncio.sleep(self._chance.uniform(0, _PAUSE_S))

    async def step(self) -> None:
        chat = self._board.enter(self._writer, self._chance.randrange(SLOTS))
        try:
            lot = self._chance.random()
            await (
                self._fork(chat) if lot < 0.01 else self._snapshot(chat) if lot < 0.03 else self._say(chat)
            )
        finally:
            self._board.leave(self._writer)

    async def _say(self, chat: str) -> None:
        self._deeds += 1
        name = f"{self._name}.{self._deeds}"
        events = said(name) if self._deeds % 20 == 0 else short(name, 1 + self._deeds % 3)
        entries = await self.store.log.append(chat, *events, id=name)
        self._tell("said", chat, name, entries[0].seq)

    async def _snapshot(self, chat: str) -> None:
        opened = await self.store.chat(chat)
        await keep_view(opened.log, chat, opened.view)

    async def _fork(self, chat: str) -> None:
        """A fork, which is written in, read and deleted again."""
        end = (await self.store.log.head(chat)).seq
        self._deeds += 1
        fork = f"{chat}-{self._name}-{self._deeds}"
        if end:
            await self.store.log.fork(chat, fork, end)
            await self.store.log.append(fork, *short("f", 3))
            assert len([entry async for entry in self.store.log.read(fork)]) == end + 4
            await self.store.delete(fork)


async def keep(root: Path) -> None:
    """Writes like the others, and ends and deletes chats when it is told to on stdin."""
    keeper = Writer(root, WRITERS - 1, "keeper", tell)
    writing = asyncio.create_task(keeper.live())
    async for verb, chat in _orders():
        if verb == "end":
            await keeper.store.log.append(chat, END)
            tell("ended", chat)
        else:
            forks = [key async for key in keeper.store.log.chats() if key.startswith(f"{chat}-")]
            for key in (chat, *forks):  # a killed writer leaves its fork
                with suppress(NoSuchChat):
                    await keeper.store.delete(key)
            tell("dropped", chat)
        if writing.done():
            break
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing


async def _orders() -> AsyncIterator[tuple[str, str]]:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        verb, chat = line.decode().split()
        yield verb, chat


async def follow(root: Path) -> None:
    """Tells of every chat what it saw of it until its end."""
    async with Log(FileStorage(root, read_only=True)) as log, asyncio.TaskGroup() as slots:
        for slot in range(SLOTS):
            slots.create_task(_follow(log, slot))


async def _follow(log: Log, slot: int) -> None:
    number = 0
    while True:
        number += 1
        chat, seen = f"s{slot}-{number}", sha256()
        async for entry in log.follow(chat):
            seen.update(seen_of(entry))
            if entry.event == END:
                tell("saw", chat, entry.seq, seen.hexdigest())
                break


def seen_of(entry: Entry) -> bytes:
    return f"{entry.seq} {entry.batch} {entry.sum}\n".encode()


async def read(root: Path) -> None:
    """Reads the chats in every way there is, again and again."""
    board, chance = Board(root), random.Random("reader")
    while True:
        async with Store(root, read_only=True) as store:
            for _ in range(20):  # then it closes, and opens again
                chat = board.chat(chance.randrange(SLOTS))
                with suppress(ChatDeleted, NoSuchChat):
                    await _read(store, chat)
                tell("read")
                await asyncio.sleep(0.05)


async def _read(store: Store, chat: str) -> None:
    seqs = [entry.seq async for entry in store.log.read(chat)]
    assert seqs == list(range(1, len(seqs) + 1))
    last = await store.log.last(chat, 50)
    assert (
        [entry.seq for entry in last] == list(range(last[-1].seq - len(last) + 1, last[-1].seq + 1))
        if last
        else True
    )
    opened = await store.chat(chat)
    assert opened.seq >= len(seqs)
    await opened.messages()


if __name__ == "__main__":
    ready()
    asyncio.run({"keeper": keep, "follower": follow, "reader": read}[sys.argv[1]](Path(sys.argv[2])))
