"""What grows with the store or the history is done on threads: other tasks of the loop go on meanwhile."""

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Head, Log, Noted
from chatfold.eventlog.files.disk import Disk
from tests.support.listing import settle, tokens

Verb = Callable[[Log], Awaitable[object]]


class Waiting(Disk):
    """Each call that is waited for lasts until the loop has gone on, or for three seconds."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ticked = threading.Event()
        self.waited = 0
        self.stopped_the_loop = False

    def wait(self) -> None:
        self.waited += 1
        self.begun.set()
        self.stopped_the_loop |= not self.ticked.wait(3)

    async def has_begun(self) -> None:
        while not self.begun.is_set():  # noqa: ASYNC110 (a thread sets no event of a loop)
            await asyncio.sleep(0.001)


class SlowRemoval(Waiting):
    def remove_folder(self, path: Path) -> None:
        self.wait()
        super().remove_folder(path)


async def _going_on(
    disk: Waiting, work: Awaitable[object], meanwhile: Callable[[], Awaitable[object]] | None = None
) -> object:
    """What comes of the work. The loop ticks, and does something else, when the disk has begun."""

    async def tick() -> None:
        await disk.has_begun()
        if meanwhile is not None:
            await meanwhile()
        disk.ticked.set()

    ticking = asyncio.ensure_future(tick())
    try:
        return await work
    finally:
        assert disk.waited
        await ticking
        assert not disk.stopped_the_loop


def _leave_in_trash(root: Path, count: int = 1) -> None:
    """As a delete that was killed."""
    for number in range(count):
        (root / "trash" / f"{number:016x}").mkdir()


async def _lease(log: Log) -> None:
    async with log.storage.lease("chat"):
        pass


async def _import(log: Log) -> None:
    await log.storage.import_chat("new", log.storage.export("chat"))


VERBS: dict[str, Verb] = {
    "append": lambda log: log.append("chat", Noted("more")),
    "fork": lambda log: log.fork("chat", "new", 1),
    "redact": lambda log: log.redact("chat", 1),
    "delete": lambda log: log.delete("chat"),
    "import": _import,
    "lease": _lease,
}


@pytest.fixture
async def filled(root: Path) -> Path:
    async with Log(FileStorage(root)) as log:
        await log.append("chat", Noted("first"))
    return root


@pytest.mark.parametrize("verb", VERBS)
async def test_what_a_kill_left_is_removed_while_the_loop_goes_on(filled: Path, verb: str) -> None:
    _leave_in_trash(filled)
    disk = SlowRemoval()
    async with Log(FileStorage(filled, disk=disk)) as log:
        await _going_on(disk, VERBS[verb](log))
    assert list((filled / "trash").iterdir()) == []


async def test_those_who_come_first_wait_for_one_preparation(filled: Path) -> None:
    _leave_in_trash(filled, 3)
    disk = SlowRemoval()
    async with Log(FileStorage(filled, disk=disk)) as log:
        appends = [log.append(f"chat {number}", Noted("x")) for number in range(20)]
        await _going_on(disk, asyncio.gather(*appends))
    assert disk.waited == 3


async def test_no_append_overtakes_those_that_wait(filled: Path) -> None:
    thread = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(thread)
    async with Log(FileStorage(filled)) as log:
        earlier = [asyncio.create_task(log.append("chat", Noted(name))) for name in ("second", "third")]
        await asyncio.sleep(0)  # they wait
        thread.submit(int).result()  # the work is done, and the loop has not heard of it
        await asyncio.gather(log.append("chat", Noted("fourth")), *earlier)
        names = [entry.event.name async for entry in log.read("chat") if isinstance(entry.event, Noted)]
    assert names == ["first", "second", "third", "fourth"]


async def test_one_who_is_cancelled_does_not_cancel_it_for_the_others(filled: Path) -> None:
    _leave_in_trash(filled)
    disk = SlowRemoval()
    async with Log(FileStorage(filled, disk=disk)) as log:
        first, second = (asyncio.create_task(log.append("chat", Noted("x"))) for _ in range(2))
        await disk.has_begun()
        first.cancel()
        disk.ticked.set()
        [entry] = await second
        assert entry.seq == 2


class Unreadable(Disk):
    def names(self, path: Path) -> list[str]:
        if path.name == "trash":
            raise OSError(errno.EIO, "no medium")
        return super().names(path)


async def test_each_who_waits_is_told_what_went_wrong_and_the_next_tries_again(filled: Path) -> None:
    disk = Unreadable()
    async with Log(FileStorage(filled, disk=disk)) as log:
        found = await asyncio.gather(
            *(log.append("chat", Noted("x")) for _ in range(3)), return_exceptions=True
        )
        assert [str(error) for error in found] == ["[Errno 5] no medium"] * 3
        disk.__class__ = Disk  # type: ignore[assignment]
        assert [entry.seq for entry in await log.append("chat", Noted("x"))] == [2]


class SlowSnapshot(Waiting):
    def create(self, path: Path) -> int:
        if ".snapshot" in path.name:
            self.wait()
        return super().create(path)


async def test_the_head_is_told_while_a_snapshot_is_written(filled: Path) -> None:
    disk = SlowSnapshot()
    async with Log(FileStorage(filled, disk=disk)) as log:
        storing = log.storage.store_snapshot("chat", Head(1, "a" * 16), b"made of one entry")
        await _going_on(disk, storing, lambda: log.head("chat"))
        assert [data async for _, data in log.storage.load_snapshots("chat")] == [b"made of one entry"]


class SlowPath(Waiting):
    """Each look at these files waits, once ``is_slow`` is set."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.wanted = wanted
        self.is_slow = False

    def look(self, path: Path | str) -> None:
        if self.is_slow and self.wanted in str(path):
            self.wait()

    def stat(self, path: Path | str) -> os.stat_result:
        self.look(path)
        return super().stat(path)

    def names(self, path: Path) -> list[str]:
        self.look(f"names of {path}")
        return super().names(path)

    def open_read(self, path: Path) -> int:
        self.look(f"open {path}")
        return super().open_read(path)

    def create(self, path: Path) -> int:
        self.look(f"create {path}")
        return super().create(path)


async def _list(log: Log) -> None:
    assert await tokens(log.storage)


async def _store_rows(log: Log) -> None:
    await log.storage.store_rows({"chat": ((await tokens(log.storage))["chat"], b"a row")})


async def _load_a_large_snapshot(log: Log) -> None:
    assert len([data async for _, data in log.storage.load_snapshots("chat")]) == 1


async def _load_an_earlier_snapshot(log: Log) -> None:
    assert len([data async for _, data in log.storage.load_snapshots("chat", 1)]) == 1


async def _segment_boundaries(log: Log) -> None:
    assert await log.storage.segment_boundaries("chat") == []


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        (_list, "chats/chat"),
        (_list, "names of"),
        (_store_rows, "/cache/.listing"),
        (_load_a_large_snapshot, "/cache/newest.snapshot"),
        (_load_an_earlier_snapshot, "names of"),
        (_segment_boundaries, "names of"),
    ],
)
async def test_what_grows_is_looked_at_while_the_loop_goes_on(filled: Path, verb: Verb, path: str) -> None:
    disk = SlowPath("open " + str(filled / "chats/chat/cache/newest") if "newest" in path else path)
    async with Log(FileStorage(filled, disk=disk)) as log:
        await log.storage.store_snapshot("chat", await log.head("chat"), b"large " * 20_000)
        await settle()
        disk.is_slow = True
        await _going_on(disk, verb(log))
        disk.is_slow = False


# --- a reader's first look ----------------------------------------------------------------------------------


class SlowSegments(Waiting):
    """Waits where a segment is opened; knows which threads did."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()
        self.ticked.set()

    def open_read(self, path: Path) -> int:
        if path.suffix == ".jsonl":
            self.threads.add(threading.get_ident())
            self.wait()
        return super().open_read(path)


async def _read(log: Log) -> None:
    async for _ in log.read("chat", 1, 1):
        break


async def _read_back(log: Log) -> None:
    async for _ in log.read_back("chat"):
        break


LOOKS: dict[str, Verb] = {
    "head": lambda log: log.head("chat"),
    "last": lambda log: log.last("chat", 1),
    "read": _read,
    "read back": _read_back,
}


async def _write(root: Path, count: int, size: int, segment_bytes: int) -> None:
    async with Log(FileStorage(root, segment_bytes=segment_bytes)) as log:
        for number in range(count):
            text = f"{number:05d}" * (size // 5)  # each another one: none is written as a reference
            await log.append("chat", Noted("more", text), durability="off")


SHAPES = {"many segments": (20, 300, 500), "a long open segment": (20, 30_000, 1 << 20)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("verb", LOOKS)
async def test_a_long_log_is_first_looked_at_while_the_loop_goes_on(
    root: Path, verb: str, shape: str
) -> None:
    await _write(root, *SHAPES[shape])
    for witness in root.glob("chats/*/head"):  # noqa: ASYNC240
        witness.unlink()  # it names the last line, and then there is nothing to look for
    disk = SlowSegments()
    disk.ticked.clear()
    async with Log(FileStorage(root, disk=disk)) as log:
        await _going_on(disk, LOOKS[verb](log))


@pytest.mark.parametrize("verb", LOOKS)
async def test_what_others_wrote_meanwhile_is_found_while_the_loop_goes_on(root: Path, verb: str) -> None:
    disk = SlowSegments()
    async with Log(FileStorage(root)) as writer, Log(FileStorage(root, disk=disk)) as log:
        await writer.append("chat", Noted("first"))
        assert (await log.head("chat")).seq == 1
        for number in range(40):
            await writer.append("chat", Noted("more", f"{number:05d}" * 8_000), durability="off")
        log.storage._files.close()  # type: ignore[attr-defined]  # it opens the segment again
        disk.begun.clear()
        disk.ticked.clear()
        await _going_on(disk, LOOKS[verb](log))
        assert (await log.head("chat")).seq == 41


@pytest.mark.parametrize("verb", LOOKS)
async def test_a_short_log_is_looked_at_without_a_thread(filled: Path, verb: str) -> None:
    disk = SlowSegments()
    async with Log(FileStorage(filled, disk=disk)) as log:
        await LOOKS[verb](log)
        assert disk.threads == {threading.get_ident()}
