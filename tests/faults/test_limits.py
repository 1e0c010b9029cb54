"""Out of descriptors, threads, memory, inodes, quota: said in time, nothing half, and it goes on when there is some again."""

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from chatfold.eventlog import DiskFull, DurabilityUnknown, FileStorage, Log, ReadOnly
from chatfold.eventlog.files.chat_dir import CHATS
from tests.support.disk.faulty_disk import FailingDisk, SmallDisk
from tests.support.judges.talk import ids_of, is_clean, short
from tests.support.processes.children import ENVIRONMENT
from tests.support.processes.operations import opened, prepare


async def _append(log: Log, *names: str) -> None:
    for name in names:
        await log.append("chat", *short(name, 2), id=name)


def _run(program: str) -> str:
    """In a process of its own, whose limits are its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        check=False,
        env={**ENVIRONMENT, "MALLOC_ARENA_MAX": "1"},  # an arena takes 64 MB of addresses, and of no memory
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# --- descriptors --------------------------------------------------------------------------------------------


@contextmanager
def _descriptors(left: int) -> Iterator[None]:
    """So many can still be opened."""
    taken: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, soft), hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(left):
            os.close(taken.pop())
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_descriptors_it_says_so_and_goes_on_with_some(fast_folder: Path) -> None:
    names: list[str] = []
    refused: list[int | None] = []
    storage = FileStorage(fast_folder, segment_bytes=600)
    async with Log(storage) as log:
        await _append(log, "a", "b")  # everything it needs is imported, and its threads are there
        await log.fork("chat", "fork", 1)
        storage._files.forget()  # some segments stay open for reading
        before = _open_now()
        for left in range(6):
            for name in (f"{left}.{number}" for number in range(4)):
                names.append(name)
                with _descriptors(left):
                    try:
                        await _append(log, name)
                    except OSError as error:
                        refused.append(error.errno)
                await _append(log, name)  # whatever became of it
            with _descriptors(left), suppress(OSError):
                await log.fork("chat", f"fork{left}", 3)
        storage._files.forget()
        assert _open_now() <= before + 1  # the segment may be another one
    assert set(refused) == {errno.EMFILE}
    assert ids_of(fast_folder / "chats" / "chat") == ["a", "b", *names]
    assert is_clean(fast_folder / "chats" / "chat")


def _open_now() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# --- threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["full", "normal"])
@pytest.mark.parametrize("warm", [False, True])
def test_without_threads_it_is_slower_and_nothing_else(
    fast_folder: Path, durability: str, *, warm: bool
) -> None:
    fast_folder.chmod(0o777)  # root is not counted: it becomes somebody who is
    program = f"""
import asyncio, concurrent.futures.thread, os, resource
from chatfold.eventlog import FileStorage, Log
from tests.support.judges.talk import short
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
async def append(log, *names):
    for name in names:
        await log.append("chat", *short(name), id=name)
async def main():
    async with asyncio.timeout(20), Log(FileStorage({str(fast_folder / "store")!r}, durability={durability!r})) as log:
        if {warm}:
            await append(log, "a", "b")
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
        await append(log, "a", "b", "c")
        await asyncio.gather(*(append(log, f"d{{n}}") for n in range(5)))
        await log.flush()
        resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
        await append(log, "e")
        resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))  # the loop has a thread of its own to end
asyncio.run(main())
"""
    _run(program)
    names = ids_of(fast_folder / "store" / "chats" / "chat")
    assert names == ["a", "b", "c", "d0", "d1", "d2", "d3", "d4", "e"]


# --- memory -------------------------------------------------------------------------------------------------

_LIMITED = """
import asyncio, pathlib, resource
from chatfold.eventlog import FileStorage, Log, Noted, scan
from tests.support.judges.talk import short
def limit(room):
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
"""


def test_an_event_too_large_for_the_memory_leaves_no_byte(fast_folder: Path) -> None:
    """A MemoryError, or the end of the process: msgspec does not survive that its buffer cannot grow."""
    program = f"""{_LIMITED}
async def main():
    async with Log(FileStorage({str(fast_folder)!r})) as log:
        for name in ("a", "b"):
            await log.append("chat", *short(name), id=name)
        text = "x" * 30_000_000
        limit(20_000_000)
        await log.append("chat", Noted("large", text), id="large")
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, env=ENVIRONMENT, timeout=60, stderr=subprocess.DEVNULL
    )
    assert done.returncode in (1, -signal.SIGSEGV)
    folder = fast_folder / "chats" / "chat"
    assert ids_of(folder) == ["a", "b"]
    assert is_clean(folder)
    asyncio.run(_goes_on(fast_folder))
    assert ids_of(folder) == ["a", "b", "c"]


async def _goes_on(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        await _append(log, "c")


@pytest.mark.campaign
def test_a_log_is_read_in_less_memory_than_it_has_bytes(fast_folder: Path) -> None:
    """90 MB in segments of 8, in 60 MB: forwards, backwards, checked by nobody but the reader."""
    program = f"""{_LIMITED}
body = "0123456789abcdef" * 6_000
async def main():
    async with Log(FileStorage({str(fast_folder)!r}, durability="off")) as log:
        for number in range(900):
            await log.append("chat", Noted("n", [number, str(number) + body]))
        async for _ in log.read("chat", 800):  # by now there are all the threads there will be
            pass
        limit(60_000_000)
        assert [e.event.data[0] async for e in log.read("chat")] == list(range(900))
        assert [e.event.data[0] async for e in log.read_back("chat")] == list(reversed(range(900)))
        assert sum(1 for _ in scan({str(fast_folder / CHATS / "chat")!r})) == 900
asyncio.run(main())
"""
    _run(program)
    assert sum(path.stat().st_size for path in fast_folder.rglob("*.jsonl")) > 80_000_000


# --- the file system says no --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EFBIG, DiskFull),
        (errno.EROFS, ReadOnly),
        (errno.EPERM, ReadOnly),
        (errno.EACCES, ReadOnly),
        (errno.ESTALE, OSError),
        (errno.ENODEV, OSError),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else "",
)
async def test_what_the_system_says_has_a_name_and_changes_nothing(
    fast_folder: Path, code: int, error: type[Exception]
) -> None:
    """When it opens files, and when it makes them."""
    await prepare(fast_folder)
    before = _segments(fast_folder)
    for kind, chat in (("open_update", "chat"), ("open_append", "chat"), ("create", "new")):
        disk = FailingDisk(1, code, kinds=[kind], forever=True)
        async with opened(fast_folder, disk) as log:
            with pytest.raises(error):
                await log.append(chat, *short("x"), id="x")
            disk.healed = True
            assert (await log.head(chat)).seq == (9 if chat == "chat" else 0)
        assert _segments(fast_folder) == before


def _segments(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*.jsonl")}


async def test_no_room_and_no_way_back_poisons(fast_folder: Path) -> None:
    """Half an append was written, and what there is of it cannot be cut off: nothing may follow it."""

    class Stuck(SmallDisk):
        def truncate(self, fd: int, size: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = Stuck(1 << 40)
    log = Log(FileStorage(fast_folder, disk=disk))
    await _append(log, "a", "b")
    disk.room = 100
    for name in ("c", "d"):
        with pytest.raises(DurabilityUnknown):
            await _append(log, name)
    with suppress(DurabilityUnknown):
        await log.storage.close()
    async with Log(FileStorage(fast_folder)) as log:
        await _append(log, "c")
    assert ids_of(fast_folder / "chats" / "chat") == ["a", "b", "c"]
    assert is_clean(fast_folder / "chats" / "chat")
