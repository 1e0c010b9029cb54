"""One test for each thing that may be wrong with what is found on disk, or asked for: its name, its outcome."""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chatfold.eventlog import (
    ChatDeleted,
    ChatfoldError,
    ChatStarted,
    CorruptLog,
    Entry,
    FileStorage,
    InvalidKey,
    Log,
    NewerFormat,
    NoSuchChat,
    Noted,
    ReadOnly,
    Unknown,
    check,
    repair,
    scan,
)
from chatfold.eventlog.errors import ForkedProcess
from chatfold.eventlog.line import add_checksum
from tests.support.damage import broken
from tests.support.damage.broken import ENTRIES, make_healthy, segments
from tests.support.judges.talk import digest_of, entries_of, ids_of, is_clean, short


@pytest.fixture
def healthy(fast_folder: Path) -> Path:
    return make_healthy(fast_folder / "store")


def _read(folder: Path, first: int = 1) -> list[Entry]:
    async def read() -> list[Entry]:
        async with Log(FileStorage(folder.parents[1], read_only=True)) as log:
            return [entry async for entry in log.read(folder.name, first)]

    return asyncio.run(read())


def _append(folder: Path, name: str = "after") -> Entry:
    async def append() -> Entry:
        async with Log(FileStorage(folder.parents[1])) as log:
            return (await log.append(folder.name, *short(name), id=name))[0]

    return asyncio.run(append())


def _exists(folder: Path) -> bool:
    return folder.exists()


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _is_corrupt(folder: Path, breaks: Callable[[Path], None]) -> CorruptLog:
    """Breaks it: every way of reading says so, and changes nothing."""
    breaks(folder)
    before = digest_of(folder)
    assert not check(folder).ok
    with pytest.raises(CorruptLog):
        _read(folder)
    with pytest.raises(CorruptLog) as error:
        list(scan(folder))
    assert digest_of(folder) == before
    return error.value


# --- the lines ----------------------------------------------------------------------------------------------


def test_wrong_checksum(healthy: Path) -> None:
    error = _is_corrupt(healthy, broken.wrong_checksum)
    assert error.path == segments(healthy)[1]
    lines = segments(healthy)[1].read_bytes().splitlines(keepends=True)
    assert error.seq == json.loads(lines[1])["seq"] + 1
    assert error.offset == len(lines[0] + lines[1])


def test_wrong_checksum_of_the_last_line_that_was_durable(healthy: Path) -> None:
    before = segments(healthy)[-1].read_bytes()
    _is_corrupt(healthy, broken.wrong_checksum_of_the_last_line)
    with pytest.raises(CorruptLog):  # it looks like a torn tail, but it was durable: never cut
        _append(healthy)
    assert len(segments(healthy)[-1].read_bytes()) == len(before)


def test_duplicated_line(healthy: Path) -> None:
    _is_corrupt(healthy, broken.duplicated_line)


def test_deleted_line(healthy: Path) -> None:
    _is_corrupt(healthy, broken.deleted_line)


def test_swapped_lines(healthy: Path) -> None:
    _is_corrupt(healthy, broken.swapped_lines)


def test_line_of_another_chat(healthy: Path) -> None:
    _is_corrupt(healthy, broken.line_of_another_chat)


def test_spliced_line(healthy: Path) -> None:
    _is_corrupt(healthy, broken.spliced_line)


def test_two_lines_on_one_line(healthy: Path) -> None:
    _is_corrupt(healthy, broken.two_lines_on_one)


def test_windows_line_endings(healthy: Path) -> None:
    _is_corrupt(healthy, broken.windows_line_endings)
    assert any("line ending" in problem.message for problem in check(healthy).problems)


def test_byte_order_mark(healthy: Path) -> None:
    _is_corrupt(healthy, broken.byte_order_mark)


def test_nul_bytes_in_the_middle(healthy: Path) -> None:
    _is_corrupt(healthy, broken.nul_bytes_in_the_middle)


@pytest.mark.parametrize("size", [1, 300, 4096, 1 << 20])
def test_nul_filled_tail(healthy: Path, size: int) -> None:
    with segments(healthy)[-1].open("ab") as segment:
        segment.write(bytes(size))
    assert len(_read(healthy)) == ENTRIES
    assert check(healthy).ok
    assert _append(healthy).seq == ENTRIES + 1
    assert [path.read_bytes() for path in (healthy / "aside").iterdir()] == [bytes(size)]
    assert is_clean(healthy)


def test_last_line_without_its_newline(healthy: Path) -> None:
    path = segments(healthy)[-1]
    path.write_bytes(path.read_bytes()[:-1])
    with path.with_name("head").open("r+b") as head:
        head.truncate(0)  # nobody vouches for it: a crash may have left it so
    assert _append(healthy).seq == ENTRIES + 1
    assert len(entries_of(healthy)) == ENTRIES + 1


def test_unknown_event_type(healthy: Path) -> None:
    last = list(scan(healthy))[-1]
    raw = b'{"type":"teleported","to":"Mars","nested":{"a":[1,2.50]}}'
    body = b'{"seq":%d,"ts":1,"event":%b,"synced":%d,"prev":"%b"' % (
        ENTRIES + 1,
        raw,
        ENTRIES,
        last.sum.encode(),
    )
    with segments(healthy)[-1].open("ab") as segment:
        segment.write(add_checksum(body) + b"\n")
    assert _read(healthy)[-1].event == Unknown("teleported", raw)
    assert check(healthy).ok
    assert _append(healthy).seq == ENTRIES + 2
    assert raw in segments(healthy)[-1].read_bytes()


# --- the segments -------------------------------------------------------------------------------------------


def test_missing_first_segment(healthy: Path) -> None:
    _is_corrupt(healthy, broken.missing_first_segment)


def test_missing_middle_segment(healthy: Path) -> None:
    _is_corrupt(healthy, broken.missing_middle_segment)


def test_missing_last_segment(healthy: Path) -> None:
    _is_corrupt(healthy, broken.missing_last_segment)
    with pytest.raises(CorruptLog):
        _append(healthy)


def test_swapped_segments(healthy: Path) -> None:
    _is_corrupt(healthy, broken.swapped_segments)


def test_sealed_segment_cut_short(healthy: Path) -> None:
    _is_corrupt(healthy, broken.cut_in_a_sealed_segment)


def test_segment_of_another_chat(healthy: Path) -> None:
    def breaks(folder: Path) -> None:
        other = make_healthy(folder.parents[1] / "elsewhere", "chat")
        shutil.copy(segments(other)[1], segments(folder)[1])

    _is_corrupt(healthy, breaks)


@pytest.mark.parametrize("segment", [0, -1])
def test_newer_format(healthy: Path, segment: int) -> None:
    def newer(lines: list[bytes]) -> list[bytes]:
        fields = json.loads(lines[0])
        head = b'{"chatfold":99,"reader":99,"first":%d,"prev":"%b"' % (
            fields["first"],
            fields["prev"].encode(),
        )
        return [add_checksum(head) + b"\n", *lines[1:]]

    broken.rewrite(segments(healthy)[segment], newer)
    before, content = digest_of(healthy), digest_of(healthy, times=False)
    with pytest.raises(NewerFormat):
        list(scan(healthy))
    with pytest.raises(NewerFormat):
        _read(healthy)
    with pytest.raises(NewerFormat):
        repair(healthy)
    assert digest_of(healthy) == before
    if segment == -1:
        with pytest.raises(NewerFormat):
            _append(healthy)
        assert digest_of(healthy, times=False) == content


def test_foreign_files_in_the_folder(healthy: Path) -> None:
    names = [".DS_Store", "0000000000000001.jsonl~", ".0000000000000001.jsonl.swp", "1.jsonl", "notes.txt"]
    for name in names:
        (healthy / name).write_bytes(b"not a line\n")
    assert len(_read(healthy)) == ENTRIES
    assert _append(healthy).seq == ENTRIES + 1
    report = check(healthy)
    assert report.ok
    listed = {problem.path.name for problem in report.problems if problem.kind == "odd"}
    assert {name for name in names if (healthy / name).exists()} <= listed
    assert (healthy / "notes.txt").exists()
    assert (healthy / "1.jsonl").exists()


# --- the folder goes away -----------------------------------------------------------------------------------


async def test_folder_deleted_under_a_reader(healthy: Path) -> None:
    root = healthy.parents[1]
    async with Log(FileStorage(root, read_only=True)) as log:
        assert (await log.head("chat")).seq == ENTRIES
        shutil.rmtree(healthy)
        with pytest.raises(NoSuchChat):
            list(scan(healthy))
        assert [entry async for entry in log.read("chat")] == []
        assert (await log.head("chat")).seq == 0
        assert not _exists(healthy)


async def test_folder_deleted_in_the_middle_of_reading(fast_folder: Path) -> None:
    async with Log(FileStorage(fast_folder, segment_bytes=200_000, durability="off")) as log:
        for number in range(40):
            await log.append("chat", Noted("large", {"text": f"{number}" * 30_000}))
        reading = log.read("chat")
        assert (await anext(reading)).seq == 1
        shutil.rmtree(fast_folder / "chats" / "chat")
        with pytest.raises((ChatDeleted, NoSuchChat)):
            async for _ in reading:
                pass
        assert not _exists(fast_folder / "chats" / "chat")


async def test_folder_deleted_under_a_follower(healthy: Path) -> None:
    async with Log(FileStorage(healthy.parents[1], read_only=True)) as log:
        following = log.follow("chat")
        for _ in range(ENTRIES):
            await anext(following)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0.05)
        shutil.rmtree(healthy)
        with pytest.raises((ChatDeleted, NoSuchChat)):
            await asyncio.wait_for(waiting, 60)
        assert not _exists(healthy)


async def test_folder_deleted_and_made_again_under_a_follower(healthy: Path) -> None:
    root = healthy.parents[1]
    async with Log(FileStorage(root, read_only=True)) as log, Log(FileStorage(root)) as other:
        following = log.follow("chat")
        for _ in range(ENTRIES):
            await anext(following)
        await other.delete("chat")
        await other.append("chat", *(ChatStarted(title=str(n)) for n in range(ENTRIES + 5)))
        with pytest.raises(ChatDeleted):
            await asyncio.wait_for(anext(following), 60)


async def test_folder_deleted_under_a_writer(healthy: Path) -> None:
    async with Log(FileStorage(healthy.parents[1])) as log:
        await log.append("chat", *short("a"), id="a")
        shutil.rmtree(healthy)
        with pytest.raises((ChatDeleted, NoSuchChat)):
            await log.append("chat", *short("b"), id="b")
        assert not _exists(healthy)
        [entry] = await log.append("chat", *short("c"), id="c")  # told once; now it is a new chat
        assert entry.seq == 1


async def test_chat_deleted_by_another_process_under_a_writer(healthy: Path) -> None:
    async with Log(FileStorage(healthy.parents[1])) as log:
        await log.append("chat", *short("a"), id="a")
        async with Log(FileStorage(healthy.parents[1])) as other:
            await other.delete("chat")
        with pytest.raises((ChatDeleted, NoSuchChat)):
            await log.append("chat", *short("b"), id="b")


# --- what may be written ------------------------------------------------------------------------------------


def test_read_only_open_never_writes(healthy: Path) -> None:
    root = healthy.parents[1]
    with segments(healthy)[-1].open("ab") as segment:
        segment.write(b'{"seq":31,"ts"')
    shutil.rmtree(healthy / "cache", ignore_errors=True)
    before = digest_of(root)

    async def look() -> None:
        async with Log(FileStorage(root, read_only=True)) as log:
            assert [key async for key in log.chats()] == ["chat"]
            assert len([e async for e in log.read("chat", 3)]) == ENTRIES - 2
            assert len([e async for e in log.read_back("chat")]) == ENTRIES
            assert (await log.head("chat")).seq == ENTRIES
            assert [e.seq async for e in log.spans("chat", [(5, 6), (1, 2)])] == [5, 6, 1, 2]
            for refused in (
                log.append("chat", Noted("x")),
                log.fork("chat", "new", 3),
                log.redact("chat", 1),
                log.delete("chat"),
            ):
                with pytest.raises(ReadOnly):
                    await refused

    asyncio.run(look())
    assert len(list(scan(healthy))) == ENTRIES
    check(healthy)
    check(healthy, full=False)
    assert digest_of(root) == before


def test_read_only_folder(fast_folder: Path) -> None:
    """Of another user: reading works, writing says ReadOnly, nothing changes."""
    folder = make_healthy(fast_folder / "store")
    fast_folder.chmod(0o755)
    for path in (fast_folder / "store").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (fast_folder / "store").chmod(0o755)
    program = f"""
import asyncio, concurrent.futures.thread, os  # all that is imported, while we may still read it
from chatfold.eventlog import FileStorage, Log, Noted, ReadOnly, scan
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
async def main():
    async with Log(FileStorage({str(folder.parents[1])!r})) as log:
        assert len([e async for e in log.read("chat")]) == {ENTRIES}
        try:
            await log.append("chat", Noted("x"))
        except ReadOnly as error:
            print("read-only:", error.chat)
        try:
            await log.append("new", Noted("x"))
        except ReadOnly as error:
            print("read-only:", error.chat)
assert len(list(scan({str(folder)!r}))) == {ENTRIES}
asyncio.run(main())
"""
    if os.getuid() != 0:
        for path in [*(fast_folder / "store").rglob("*"), fast_folder / "store"]:
            path.chmod(0o555 if path.is_dir() else 0o444)
    before = digest_of(folder)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["read-only: chat", "read-only: new"], ran.stderr
    assert digest_of(folder) == before


def test_modes_do_not_depend_on_the_umask(fast_folder: Path) -> None:
    root = fast_folder / "store"
    old = os.umask(0)
    try:
        folder = make_healthy(root)
        _append(folder)
    finally:
        os.umask(old)
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


# --- not a file ---------------------------------------------------------------------------------------------


def _replaced_by_link(path: Path) -> None:
    target = path.parents[2] / f"target-{path.name}"
    path.rename(target)
    path.symlink_to(target)


def test_symlinked_segment_is_refused(healthy: Path) -> None:
    _replaced_by_link(segments(healthy)[-1])
    with pytest.raises((OSError, ChatfoldError)):
        list(scan(healthy))
    with pytest.raises((OSError, ChatfoldError)):
        _append(healthy)
    assert not check(healthy).ok


def test_symlinked_lock_is_refused(healthy: Path) -> None:
    _replaced_by_link(healthy / "lock")
    with pytest.raises((OSError, ChatfoldError)):
        _append(healthy)


def test_symlinked_chat_folder_is_refused(healthy: Path) -> None:
    outside = healthy.parents[2] / "outside"
    healthy.rename(outside)
    healthy.symlink_to(outside)
    before = digest_of(outside)
    with pytest.raises((OSError, ChatfoldError)):
        _append(healthy)
    assert digest_of(outside) == before


@pytest.mark.parametrize("name", ["0000000000000001.jsonl", "lock", "head"])
def test_fifo_instead_of_a_file_does_not_hang(healthy: Path, name: str) -> None:
    (healthy / name).unlink()
    os.mkfifo(healthy / name)
    with _within(20):
        if name.endswith(".jsonl"):
            with pytest.raises((OSError, ChatfoldError)):
                list(scan(healthy))
        else:
            assert len(list(scan(healthy))) == ENTRIES
            with pytest.raises((OSError, ChatfoldError)):
                _append(healthy)


class _TooLong(BaseException):
    """Not an error that a test expects."""


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _TooLong

    old = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


# --- keys ---------------------------------------------------------------------------------------------------

KEYS = [
    "..", ".", "/", "\\", "../../x", "/etc/passwd", "a/b", "\0", "a\0b", "CON", "con", "Con", "nul", "aux.txt", "a.",
    "a ", " ", "a", "A", "x" * 300, "X" * 300, "x" * 10_000, "漢字" * 100, "漢字", "👩‍👩‍👧", "\ud800", "\udcb2x", "é",
    unicodedata.normalize("NFD", "é"), "~", "$(x)", "-rf", "C:\\x", "\n", "=2e", "==", ".new-abc", "\u0131", "I", "ﬁ",
]  # fmt: skip


async def test_any_key_round_trips_and_stays_in_the_folder(fast_folder: Path) -> None:
    root = fast_folder / "store"
    async with Log(FileStorage(root, durability="off")) as log:
        for key in KEYS:
            await log.append(key, ChatStarted(key))
    async with Log(FileStorage(root, read_only=True)) as log:
        assert sorted([key async for key in log.chats()]) == sorted(KEYS)
        for key in KEYS:
            assert [entry.event async for entry in log.read(key)] == [ChatStarted(key)]
    names = _names(root / "chats")
    assert len(names) == len(KEYS) == len({name.casefold() for name in names})
    assert all(len(name) <= 200 and name.isascii() for name in names)
    assert _names(fast_folder) == ["store"]
    assert _names(root) == ["chats", "trash"]


async def test_empty_key_is_invalid(fast_folder: Path) -> None:
    async with Log(FileStorage(fast_folder)) as log:
        with pytest.raises(InvalidKey):
            await log.append("", Noted("x"))
        with pytest.raises(InvalidKey):
            await log.head("")
        assert [key async for key in log.chats()] == []


# --- locks, processes, loops --------------------------------------------------------------------------------


async def test_lock_file_deleted_and_recreated(healthy: Path) -> None:
    root = healthy.parents[1]
    async with Log(FileStorage(root)) as one, Log(FileStorage(root)) as two:
        await one.append("chat", *short("a"), id="a")
        (healthy / "lock").unlink()
        (healthy / "lock").touch(0o600)
        names = ["a"]
        for number in range(10):
            for who, log in (("one", one), ("two", two)):
                name = f"{who}.{number}"
                try:
                    await log.append("chat", *short(name), id=name)
                except ChatDeleted:  # said once to whoever held the old lock
                    await log.append("chat", *short(name), id=name)
                names.append(name)
    assert ids_of(healthy)[ENTRIES:] == names


def test_a_storage_opened_before_fork_is_refused_after_it(fast_folder: Path) -> None:
    program = f"""
import asyncio, os, sys
from chatfold.eventlog import FileStorage, Log, Noted
from chatfold.eventlog.errors import ForkedProcess
log = Log(FileStorage({str(fast_folder)!r}))
async def parent():
    await log.append("chat", Noted("x"))
async def child():
    for work in (log.append("chat", Noted("y")), log.head("chat"), log.delete("chat")):
        try:
            await work
        except ForkedProcess:
            pass
        else:
            os._exit(1)
asyncio.run(parent())
pid = os.fork()
if not pid:
    asyncio.run(child())
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == 0
    assert len(list(scan(fast_folder / "chats" / "chat"))) == 1
    assert issubclass(ForkedProcess, ChatfoldError)


def test_a_forked_child_does_not_keep_the_lock(fast_folder: Path) -> None:
    """The parent dies inside the lock; its child lives on; the next writer does not wait for it."""
    program = f"""
import asyncio, os, signal, time
from chatfold.eventlog import FileStorage, Log, Noted
from chatfold.eventlog.files.disk import Disk
class Forking(Disk):
    appends = 0
    def write(self, fd, data):
        Forking.appends += 1
        if Forking.appends == 5:
            if os.fork() == 0:
                time.sleep(8)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(fd, data)
async def main():
    async with Log(FileStorage({str(fast_folder)!r}, disk=Forking())) as log:
        for _ in range(9):
            await log.append("chat", Noted("x"))
asyncio.run(main())
"""
    died = subprocess.run(
        [sys.executable, "-c", program], check=False, stdout=subprocess.DEVNULL, start_new_session=True
    )
    assert died.returncode == -signal.SIGKILL
    folder = fast_folder / "chats" / "chat"
    with _within(3), (folder / "lock").open() as lock:  # the child may take a moment; it lives for 8 s
        fcntl.flock(lock, fcntl.LOCK_EX)
    before = len(list(scan(folder)))
    assert _append(folder).seq == before + 1


async def test_cancelled_append_leaves_a_valid_log_and_its_retry_is_exact(fast_folder: Path) -> None:
    names = [f"c{number}" for number in range(120)]
    async with Log(FileStorage(fast_folder, segment_bytes=3_000)) as log:
        for number, name in enumerate(names):
            task = asyncio.ensure_future(log.append("chat", *short(name, 2), id=name))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            await asyncio.sleep(0.0005 if number % 3 == 2 else 0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            first = await log.append("chat", *short(name, 2), id=name)
            assert await log.append("chat", *short(name, 2), id=name) == first
    assert ids_of(fast_folder / "chats" / "chat") == names
    assert is_clean(fast_folder / "chats" / "chat")


def test_event_loop_closed_while_an_append_is_in_flight(fast_folder: Path) -> None:
    storage = FileStorage(fast_folder)
    log = Log(storage)

    async def begin() -> None:
        await log.append("chat", *short("a"), id="a")
        for name in ("b", "c"):
            asyncio.ensure_future(log.append("chat", *short(name), id=name))  # noqa: RUF006
            await asyncio.sleep(0)

    asyncio.run(begin())

    async def go_on() -> None:
        await log.append("chat", *short("d"), id="d")
        await storage.close()

    asyncio.run(asyncio.wait_for(go_on(), 20))
    assert ids_of(fast_folder / "chats" / "chat") == ["a", "b", "c", "d"]
