"""What others may do to a chat while somebody reads, searches, exports, checks, forks or erases it: it is never called damaged.

At every look that is taken at its folder, one after the other, somebody who has waited for its lock deletes it; or
deletes it, and another chat of the same key, which ends earlier, is there at once; or erases entries of each segment,
so that lines stand elsewhere: earlier, or, where a word was shorter than its tombstone, later; or appends a segment.
"""

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable, Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chatfold.agent import Store
from chatfold.agent import views as views_of_agents
from chatfold.eventlog import (
    ChatDeleted,
    FileStorage,
    Log,
    MemoryStorage,
    NoSuchChat,
    NoSuchPoint,
    Noted,
    check,
    scan,
)
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.redact import redact_chats
from tests.support.damage.broken import ENTRIES, make_healthy, segments

_SEGMENT_BYTES = 1_500
_MORE = 12
_MANY = 2_000  # looks; none of these takes as many
Meanwhile = Callable[[Path], None]


class Interrupted(Disk):
    """Something else happens at the ``nth`` look at a chat's folder, or at the first one after it at which the lock is free."""

    def __init__(self, chat: Path, nth: int, meanwhile: Meanwhile) -> None:
        self._chat = chat
        self._left = nth
        self._meanwhile = meanwhile
        self.is_done = False

    def open_read(self, path: Path) -> int:
        self._look(path)
        return super().open_read(path)

    def stat(self, path: Path | str) -> Any:
        self._look(Path(path))
        return super().stat(path)

    def names(self, path: Path) -> list[str]:
        self._look(path)
        return super().names(path)

    def _look(self, path: Path) -> None:
        if self.is_done or not path.is_relative_to(self._chat):
            return
        self._left -= 1
        if self._left > 0:
            return
        with (self._chat / "lock").open() as lock:
            self.is_done = self.try_lock(lock.fileno())
        if self.is_done:
            self._meanwhile(self._chat)


def deleted(chat: Path) -> None:
    shutil.rmtree(chat)


def replaced(chat: Path) -> None:
    """By ``heir``, which see."""
    shutil.rmtree(chat)
    shutil.copytree(chat.parents[2] / "elsewhere/chats/twin", chat)


def shortened(chat: Path) -> None:
    _erase(chat, range(4, ENTRIES, 2))


def lengthened(chat: Path) -> None:
    _erase(chat, range(3, ENTRIES, 2))


def _erase(chat: Path, seqs: Collection[int]) -> None:
    redact_chats(
        chat.parents[1], chat.name, seqs, {chat.name: LogReader(chat, chat.name, Disk())}, [chat.name]
    )


def grown(chat: Path) -> None:
    async def append() -> None:
        async with Log(FileStorage(chat.parents[1], segment_bytes=_SEGMENT_BYTES)) as log:
            for number in range(_MORE):
                await log.append(chat.name, Noted("n", f"more{number} " * 9))

    thread = threading.Thread(target=lambda: asyncio.run(append()))
    thread.start()
    thread.join()


@pytest.fixture
async def healthy(fast_folder: Path) -> Path:
    """Long words at even numbers, short ones at odd numbers."""
    root = fast_folder / "store"
    async with Log(FileStorage(root, segment_bytes=_SEGMENT_BYTES)) as log:
        for seq in range(1, ENTRIES + 1):
            await log.append("chat", Noted("n", None if seq % 2 else f"number{seq} " * 9))
    return root / "chats" / "chat"


@pytest.fixture
def heir(fast_folder: Path) -> None:
    """What takes a chat's place."""
    folder = make_healthy(fast_folder / "elsewhere", "twin")
    shutil.rmtree(folder / "cache")
    for path in (*segments(folder)[2:], folder / "head"):
        path.unlink()


async def reading(log: Log) -> object:
    found = [entry async for entry in log.read("chat")]
    back = [entry async for entry in log.read_back("chat")][::-1]
    some = [entry async for entry in log.read("chat", 8, 15)]
    last = await log.last("chat", 12)
    await log.head("chat")
    middle = await log.last("chat", 5, 14)
    for entries in (found, back, some, last, middle):
        assert all(entry.prev == before.link for before, entry in pairwise(entries))
    return len(found), len(back), len(some), len(last), len(middle)


async def searching(log: Log) -> object:
    found = await log.grep("chat", "number2 ")
    return found, [hit.seq for hit in await log.search("chat", '"number2 "')]


async def exporting(log: Log) -> object:
    async with Log(MemoryStorage()) as copy:
        await copy.storage.import_chat("chat", log.storage.export("chat"))
        return (await copy.head("chat")).seq


async def forking(log: Log) -> object:
    return (await log.fork("chat", "child", 20)).seq


async def erasing(log: Log) -> object:
    return await log.redact("chat", 1)


async def appending(log: Log) -> object:
    [entry] = await log.append("chat", Noted("n", "x" * 600), id="said once")
    [again] = await log.append("chat", Noted("n", "x" * 600), id="said once")
    return entry.seq, again.seq


async def opening(log: Log) -> object:
    async with Store(log.storage) as store:  # which waits for the snapshot
        chat = await store.chat("chat")
        return chat.seq, len(await chat.messages("openai"))


async def checking(log: Log) -> object:
    assert isinstance(log.storage, FileStorage)
    return check(log.storage._root / "chats" / "chat", disk=log.storage._disk).problems


UNTOUCHED: dict[Callable[[Log], Awaitable[object]], object] = {
    reading: (ENTRIES, ENTRIES, 8, 12, 5),
    searching: ([2], [2]),
    exporting: ENTRIES,
    forking: 21,
    opening: (ENTRIES, 0),
    appending: (ENTRIES + 1, ENTRIES + 1),
    checking: [],
    erasing: {"chat": [1]},
}
MEANWHILES = pytest.mark.parametrize(
    "meanwhile", [deleted, replaced, shortened, lengthened, grown], ids=lambda one: one.__name__
)


@MEANWHILES
@pytest.mark.parametrize("do", UNTOUCHED, ids=lambda do: do.__name__)
@pytest.mark.usefixtures("heir")
async def test_it_is_gone_or_as_it_was(
    fast_folder: Path,
    healthy: Path,
    do: Callable[[Log], Awaitable[object]],
    meanwhile: Meanwhile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views_of_agents, "_WORTH", 8)  # so that a snapshot is kept
    outcomes: list[object] = []
    for nth in range(1, _MANY):
        root = fast_folder / str(nth)
        shutil.copytree(healthy, root / "chats" / "chat")
        disk = Interrupted(root / "chats" / "chat", nth, meanwhile)
        async with Log(FileStorage(root, disk=disk)) as log:
            try:
                outcomes.append(await do(log))
            except (ChatDeleted, NoSuchChat, NoSuchPoint) as error:
                outcomes.append(type(error))
        shutil.rmtree(root)
        if not disk.is_done:
            break
        assert _before_it_grew(outcomes[-1]) == str(UNTOUCHED[do]) or meanwhile in (deleted, replaced)
    assert outcomes[-1] == UNTOUCHED[do]
    assert len(outcomes) > 3
    assert any(outcome != UNTOUCHED[do] for outcome in outcomes) or meanwhile not in (deleted, replaced)


def _before_it_grew(outcome: object) -> str:
    """An outcome with the numbers of the chat as it was."""
    said = str(outcome)
    for more in range(2):  # entries, and one that is appended
        said = said.replace(str(ENTRIES + _MORE + more), str(ENTRIES + more))
    return said


@MEANWHILES
@pytest.mark.usefixtures("heir")
async def test_an_erasure_goes_well_whatever_happens_to_a_fork(
    fast_folder: Path, healthy: Path, meanwhile: Meanwhile
) -> None:
    async with Log(FileStorage(healthy.parents[1])) as log:
        await log.fork("chat", "fork")
    for nth in range(1, _MANY):
        root = fast_folder / str(nth)
        shutil.copytree(fast_folder / "store", root)
        fork = root / "chats" / "fork"
        disk = Interrupted(fork, nth, meanwhile)
        async with Log(FileStorage(root, disk=disk)) as log:
            assert (await log.redact("chat", 7))["chat"] == [7]
        assert list(scan(root / "chats" / "chat"))[6].was
        assert meanwhile in (deleted, replaced) or list(scan(fork))[6].was
        if not disk.is_done:
            break
        shutil.rmtree(root)
    assert list(scan(fork))[6].was
    assert nth > ENTRIES
