"""Ids, keys and long texts are recognised, whatever became of the caches; and nobody waits for a history to be read."""

import asyncio
import errno
import json
import shutil
import threading
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import CorruptLog, DiskFull, Entry, FileStorage, Head, IdConflict, Log, Noted, scan
from chatfold.eventlog.batch import AppendRequest, Batch, fingerprints_of, id_fingerprint, text_fingerprint
from chatfold.eventlog.codec import encode_event
from chatfold.eventlog.files import seen, seen_files, storage
from chatfold.eventlog.files.cache import Cache, begin_erasure_epoch
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.handover import PendingAppend
from chatfold.eventlog.files.open_chat import OpenChat
from chatfold.eventlog.files.queue import CommitQueue
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.seen import HistoryUnread, Seen
from chatfold.eventlog.files.seen_files import SeenFiles, share_seen
from chatfold.eventlog.line import build_entry_line
from tests.eventlog.test_storage_agreement import abandon
from tests.support.disk.faulty_disk import ReadDisk
from tests.support.profile import searched
from tests.support.short_caches import shorten

LONG = "a long text " * 100

# --- files of rows -----------------------------------------------------------------------------------------


class History:
    """The upper halves of the fingerprints of each seq, and files of them: of a log that never was on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uppers: list[int] = []
        self.files = self.open()

    def open(self, disk: Disk | None = None) -> SeenFiles:
        folder, disk = self.folder, disk or Disk()
        files = SeenFiles(Cache(folder, disk), disk, self.link)
        files.load()
        return files

    def link(self, seq: int) -> str | None:
        """Names everything up to ``seq``, as a sum does."""
        return f"{text_fingerprint(str(self.uppers[:seq])):016x}" if 0 < seq <= len(self.uppers) else None

    def say(self, uppers: Iterable[int]) -> None:
        self.uppers += uppers

    def keep(self) -> None:
        """What is not in files goes there, as ``Seen`` does it."""
        for _ in range(3):
            start, link = self.files.end.seq, self.link(len(self.uppers))
            rows = [(upper << 32) | seq for seq, upper in enumerate(self.uppers[start:], start + 1)]
            if link is None or not rows or self.files.add(Head(len(self.uppers), link), rows):
                return
            self.files.load()
        raise AssertionError("nothing is kept")

    def check(self, files: SeenFiles) -> None:
        """Up to where they count, none is missing, and none is made up."""
        for upper in {*self.uppers[:3], *self.uppers[-3:], 0, 1, (1 << 32) - 1}:
            while (found := files.find(upper)) is None:
                files.load()
            assert found == [seq for seq, said in enumerate(self.uppers[: files.end.seq], 1) if said == upper]

    def paths(self) -> list[Path]:
        return sorted(self.folder.glob("cache/*.seen"))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)


WHAT = ["reopen", "crash", "lose", "damage", "cut", "exchange", "erase", "fork", ""]


@searched(3)
@given(
    steps=st.lists(st.tuples(st.integers(1, 40), st.sampled_from(WHAT), st.integers(0, 1 << 20))),
    spread=st.sampled_from([1, 3, 50, 1 << 31]),
)
def test_files_answer_like_a_list(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]], spread: int
) -> None:
    history = History(tmp_path_factory.mktemp("files"))
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        for count, then, place in steps:
            history.say([(count * 7919 + i * i) % spread for i in range(count)])
            history.keep()
            history.check(history.files)
            history = _disturb(history, then, place, tmp_path_factory)
            history.check(history.files)  # also without looking at the files again
            history.files = history.open()
            history.check(history.files)


def _disturb(history: History, how: str, place: int, factory: pytest.TempPathFactory) -> History:
    paths = history.paths()
    path = paths[place % len(paths)]
    if how == "crash":  # others take the place of what it took away
        history.uppers[place % len(history.uppers) :] = [5, 6]
        history.files = history.open()
    elif how == "lose":
        path.unlink()
    elif how == "damage":
        content = bytearray(path.read_bytes())
        content[place % len(content)] ^= 1 << place % 8
        path.write_bytes(content)
    elif how == "cut":
        path.write_bytes(path.read_bytes()[: place % path.stat().st_size])
    elif how == "exchange":
        path.write_bytes(_foreign(history, path, factory).read_bytes())
    elif how == "erase":
        begin_erasure_epoch(Disk(), history.folder)
        assert history.open().end == Head()
    elif how == "fork":
        return _forked(history, 1 + place % len(history.uppers), factory)
    return history


def _foreign(history: History, path: Path, factory: pytest.TempPathFactory) -> Path:
    """The file of the same entries, of another history with files of the same names."""
    other = History(factory.mktemp("other"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen_files, "_is_merged", lambda *_: False)
        for last in [int(path.name[17:33]) for path in history.paths()]:
            if last > len(other.uppers):
                other.say([upper + 1 for upper in history.uppers[len(other.uppers) : last]])
                other.keep()
    return other.folder / "cache" / path.name if path.name in map(_name, other.paths()) else other.paths()[-1]


def _name(path: Path) -> str:
    return path.name


def _forked(history: History, last: int, factory: pytest.TempPathFactory) -> History:
    folder = factory.mktemp("fork")
    (folder / "cache").mkdir()
    if (history.folder / "erased").exists():
        shutil.copy(history.folder / "erased", folder)
    share_seen(Cache(history.folder, Disk()), folder, last)
    fork = History(folder)
    fork.say(history.uppers[:last])
    fork.files = fork.open()
    return fork


@pytest.mark.usefixtures("short")
def test_a_file_of_another_history_between_two_of_ours_is_not_used(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_files, "_is_merged", lambda *_: False)
    history = History(tmp_path_factory.mktemp("ours"))
    for _ in range(3):
        history.say(range(len(history.uppers), len(history.uppers) + 20))
        history.keep()
    _, between, _ = history.paths()
    between.write_bytes(_foreign(history, between, tmp_path_factory).read_bytes())
    assert history.open().end.seq == 20
    history.check(history.open())


@pytest.mark.usefixtures("short")
def test_a_file_counts_up_to_the_last_link_that_the_log_has(tmp_path: Path) -> None:
    """It is written anew with what comes next, without the rows of what is not there any more."""
    history = History(tmp_path)
    for _ in range(8):
        history.say(range(len(history.uppers), len(history.uppers) + 8))
        history.keep()
    assert len(history.paths()) == 1
    history.uppers[50:] = range(1000, 1010)
    history.files = history.open()
    assert history.files.end == Head(48, history.link(48) or "")
    for _ in range(2):
        assert [history.files.find(upper) for upper in (47, 48, 60, 63, 1000)] == [[48], [], [], [], []]
        history.check(history.files)
        history.files = history.open()
    history.keep()
    assert [history.open().find(upper) for upper in (47, 48, 60, 63, 1000)] == [[48], [49], [], [], [51]]
    assert len(history.paths()) == 1


def test_one_fingerprint_may_fill_several_blocks_and_files(tmp_path: Path) -> None:
    history = History(tmp_path)
    for _ in range(4):
        history.say([7] * 3000 + [6, 8])
        history.keep()
    history.check(history.open())


@pytest.mark.usefixtures("short")
def test_a_question_reads_one_block_of_each_file(tmp_path: Path) -> None:
    history = History(tmp_path)
    for start in range(0, 1600, 8):
        history.say([number * 2654435761 % (1 << 32) for number in range(start, start + 8)])
        history.keep()
    assert 2 <= len(history.paths()) <= 10
    disk = ReadDisk()
    files = history.open(disk)
    for seq in range(1, 1600, 97):
        before = disk.read
        assert files.find(history.uppers[seq - 1]) == [seq]
        assert disk.read - before <= 2 * 32 * len(
            history.paths()
        )  # two, where a block begins with the very row


@pytest.mark.usefixtures("short")
def test_a_row_is_written_a_few_times_at_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_files, "_LARGEST", 1 << 20)
    written: list[int] = []
    store = SeenFiles._store

    def counted(files: SeenFiles, span: object, links: object, rows: "array[int]") -> object:
        written.append(len(rows))
        return store(files, span, links, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(SeenFiles, "_store", counted)
    history = History(tmp_path)
    for _ in range(1000):
        history.say(range(len(history.uppers), len(history.uppers) + 8))
        history.keep()
    assert sum(written) < 40 * 8000
    assert len(history.paths()) <= 6


def test_without_room_for_files_rows_stay_in_memory(tmp_path: Path) -> None:
    history = History(tmp_path)
    (tmp_path / "cache").write_bytes(b"")
    for _ in range(3):
        history.say(range(5000))
        history.keep()
        assert not history.files.load()
        history.check(history.files)


# --- a chat ------------------------------------------------------------------------------------------------


def seen_paths(root: Path, chat: str = "chat") -> list[Path]:
    return sorted((root / "chats" / chat).glob("cache/*.seen"))


async def _fill(root: Path, count: int, chat: str = "chat") -> None:
    async with Log(FileStorage(root, durability="off")) as log:
        for start in range(0, count, 500):
            batch = [Noted("n", number) for number in range(start, min(start + 500, count))]
            await log.append(chat, *batch, id=f"id {start}")


async def test_lookups_of_entries_that_a_crash_took_away_do_not_hide_new_ones(tmp_path: Path) -> None:
    """Files are kept without a sync and may reach beyond what is left of the log."""
    store = FileStorage(tmp_path)
    log = Log(store)
    await log.append("chat", Noted("kept"), id="kept")
    for number in range(4200):
        await log.append("chat", Noted("lost", number), id=f"lost {number}", durability="off")
    abandon(store)
    folder = tmp_path / "chats" / "chat"
    assert seen_paths(tmp_path)
    segment = folder / "0000000000000001.jsonl"
    segment.write_bytes(segment.read_bytes()[: json.loads((folder / "head").read_bytes())["end"]])
    async with Log(FileStorage(tmp_path)) as log:
        [first] = await log.append("chat", Noted("new"), id="new")
        assert first.seq == 2
        assert await log.append("chat", Noted("new"), id="new") == [first]
        [again] = await log.append("chat", Noted("lost", 7), id="lost 7")
        assert again.seq == 3
    async with Log(FileStorage(tmp_path)) as log:
        assert await log.append("chat", Noted("new"), id="new") == [first]


async def test_an_id_whose_line_another_was_put_in_place_of_is_not_taken_for_new(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path, segment_bytes=1000)) as log:
        for chat in ("ours", "them"):
            for number in range(40):
                await log.append(
                    chat, Noted("n", f"{chat} {number}"), id=f"{chat} {number}", durability="off"
                )
    ours, theirs = ((tmp_path / f"chats/{chat}/{1:016d}.jsonl") for chat in ("ours", "them"))
    header, _, *rest = ours.read_bytes().split(b"\n")
    ours.write_bytes(b"\n".join((header, theirs.read_bytes().split(b"\n")[1], *rest)))
    async with Log(FileStorage(tmp_path, segment_bytes=1000)) as log:
        with pytest.raises(CorruptLog):
            await log.append("ours", Noted("n", "ours 0"), id="ours 0")


@pytest.mark.parametrize("name", ["plain", "\x7f", "\ud800", "日本"])
def test_what_a_line_says_and_what_was_asked_for_have_one_fingerprint(name: str) -> None:
    text = name * 2000
    line = build_entry_line(
        Entry(1, 0, Noted("n"), id=name, prev="0" * 16), encode_event(Noted("n", text)).raw
    )
    assert id_fingerprint(name) in fingerprints_of(line)
    [written] = encode_event(Noted("n", text)).texts
    assert text_fingerprint(written) in fingerprints_of(line)


@pytest.mark.parametrize("id", ["plain", "\x7f", "\ud800", "日本"])
def test_no_line_with_a_name_or_a_long_text_is_passed_over(id: str) -> None:
    for entry in (
        Entry(1, 0, Noted("n"), id=id, prev="0" * 16),
        Entry(1, 0, Noted("n"), key=id, prev="0" * 16),
    ):
        line = build_entry_line(entry, encode_event(Noted("n")).raw)
        assert seen._may_have_some(line)
        assert seen._may_have_some(line.replace(b'"id"', b'"\\u0069d"').replace(b'"key"', b'"k\\u0065y"'))
    assert seen._may_have_some(
        build_entry_line(Entry(1, 0, Noted("n"), prev="0" * 16), b'"%b"' % (b"x" * 512))
    )


async def test_a_text_that_is_repeated_ever_so_often_is_one_row(tmp_path: Path) -> None:
    """Or each question for it would read as many."""
    async with Log(FileStorage(tmp_path, durability="off")) as log:
        for _ in range(200):
            await log.append("chat", Noted("n", LONG))
        writer = log.storage._queue.chats.get("chat").writer  # type: ignore[attr-defined]
        assert writer.seen.find(text_fingerprint(LONG)) == [1]
    fresh = Seen(LogReader(tmp_path / "chats" / "chat", "chat", Disk()))
    fresh.catch_up()
    assert fresh.find(text_fingerprint(LONG)) == [1]


async def test_a_text_is_repeated_after_another_storage_has_erased_it(tmp_path: Path) -> None:
    """A retry had the line in hand; what is asked for next stands in it no more."""
    async with Log(FileStorage(tmp_path)) as ours, Log(FileStorage(tmp_path)) as other:
        for _ in range(2):
            [first] = await ours.append("chat", Noted("n", LONG), id="one")
        await other.redact("chat", first.seq)
        [again] = await ours.append("chat", Noted("n", LONG))
        assert [entry.event async for entry in other.read("chat", again.seq)] == [Noted("n", LONG)]


async def test_a_request_that_fails_while_it_is_numbered_leaves_nothing_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first text would be found in a line that is never written."""
    find, asked = Seen.find, 0

    def failing(past: Seen, fingerprint: int) -> list[int]:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise HistoryUnread("a block was damaged")
        return find(past, fingerprint)

    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", Noted("n"), id="one")
        await log.storage.flush()
        monkeypatch.setattr(Seen, "find", failing)
        writer = log.storage._queue.chats.get("chat").writer  # type: ignore[attr-defined]
        texts = encode_event(Noted("n", LONG)), encode_event(Noted("n", LONG + "!"))
        failed, written = writer.commit([AppendRequest("chat", texts), AppendRequest("chat", texts[:1])])
        assert isinstance(failed, HistoryUnread)
        assert isinstance(written, Batch)
        assert [entry.seq for entry in written.entries] == [2]
        writer.sync()
    assert [entry.event for entry in scan(tmp_path / "chats" / "chat", 2)] == [Noted("n", LONG)]


class FullDisk(Disk):
    is_full = False

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no room")
        return super().write(fd, data)


async def test_a_write_without_room_leaves_nothing_for_the_next_one(tmp_path: Path) -> None:
    disk = FullDisk()
    async with Log(FileStorage(tmp_path, disk=disk)) as log:
        await log.append("chat", Noted("n"), id="one")
        disk.is_full = True
        with pytest.raises(DiskFull):
            await log.append("chat", Noted("n", LONG), id="two")
        disk.is_full = False
        [entry] = await log.append("chat", Noted("n", LONG), id="two")
        assert entry.seq == 2
    assert [entry.event for entry in scan(tmp_path / "chats" / "chat", 2)] == [Noted("n", LONG)]


async def test_files_are_written_after_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if what was read for it is enough for one."""
    async with Log(FileStorage(tmp_path)) as log:
        for number in range(40):
            await log.append("chat", Noted("n"), id=f"id {number}", durability="off")
    shutil.rmtree(tmp_path / "chats" / "chat" / "cache", ignore_errors=True)
    done: list[str] = []
    reply, add = CommitQueue._reply, SeenFiles.add

    def replying(queue: CommitQueue, chat: OpenChat, answered: list[PendingAppend]) -> None:
        done.extend(["answered"] * bool(answered))
        reply(queue, chat, answered)

    def adding(files: SeenFiles, end: Head, rows: list[int]) -> bool:
        done.append("kept")
        return add(files, end, rows)

    monkeypatch.setattr(CommitQueue, "_reply", replying)
    monkeypatch.setattr(SeenFiles, "add", adding)
    monkeypatch.setattr(seen, "CUT", 8)
    async with Log(FileStorage(tmp_path)) as log:
        [entry] = await log.append("chat", Noted("new"), id="new")
        assert entry.seq == 41
    assert done[:2] == ["answered", "kept"]


async def test_what_waits_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    async with Log(FileStorage(tmp_path, durability="off")) as log:
        for number in range(300):
            await log.append("chat", Noted("n", number), id=f"id {number}")
        past = log.storage._queue.chats.get("chat").writer.seen  # type: ignore[attr-defined]
        assert len(past._recent) <= 16
        assert len(past.links) <= 20
        assert sum(len(file.blocks) for file in past._files._files) <= 2 * len(past._files._files)
        for number in range(0, 300, 17):
            [entry] = await log.append("chat", Noted("n", number), id=f"id {number}")
            assert entry.seq == number + 1
        assert (await log.head("chat")).seq == 300


async def test_an_append_without_names_or_long_texts_asks_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            called.append(name)
            return call(*args, **kwargs)

        return counting

    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", Noted("n"), id="one")
        for name, call in [*vars(Seen).items()]:
            if callable(call):
                monkeypatch.setattr(Seen, name, counted(name, call))
        await log.append("chat", Noted("n"), Noted("n"))
        assert called == ["mark_written"]


async def test_entries_without_names_are_not_read_again_and_again(tmp_path: Path) -> None:
    """They have no rows, but a file says that they were looked at."""
    await _fill(tmp_path, 20_000)
    past = Seen(LogReader(tmp_path / "chats" / "chat", "chat", Disk()))
    past._load()
    assert past._upto >= 20_000 - 4096 - 2000


# --- without the lock ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("long")
    asyncio.run(_fill(root, 20_000))
    shutil.rmtree(root / "chats" / "chat" / "cache")
    return root


@pytest.fixture
def root(long_chat: Path, tmp_path: Path) -> Path:
    shutil.copytree(long_chat, tmp_path / "store")
    return tmp_path / "store"


class Held:
    """Holds up whoever reads the history, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages = 0
        self.is_held = threading.Event()
        self.go = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._line_pages = LogReader.line_pages
        monkeypatch.setattr(LogReader, "line_pages", self._hold())

    def _hold(self) -> Callable[..., Iterator[list[bytes]]]:
        def line_pages(reader: LogReader, *args: int) -> Iterator[list[bytes]]:
            for page in self._line_pages(reader, *args):
                self.pages += 1
                if self.pages == 3:
                    self.is_held.set()
                    asyncio.run_coroutine_threadsafe(self.go.wait(), self._loop).result(60)
                yield page

        return line_pages


@pytest.fixture
async def held(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Held]:
    holder = Held(monkeypatch)
    yield holder
    holder.go.set()


@pytest.mark.parametrize("where", ["same storage", "another storage"])
async def test_others_append_while_the_history_is_read_for_an_id(root: Path, held: Held, where: str) -> None:
    """The first waits for a history that is not read to its end before others were answered."""
    async with Log(FileStorage(root)) as ours, Log(FileStorage(root)) as theirs:
        other = ours if where == "same storage" else theirs
        known = asyncio.create_task(ours.append("chat", *[Noted("n", n) for n in range(500)], id="id 0"))
        new = asyncio.create_task(ours.append("chat", Noted("new"), id="new"))
        await asyncio.to_thread(held.is_held.wait, 60)
        for number in range(30):
            [entry] = await other.append("chat", Noted("other", number))
            assert entry.seq == 20_001 + number
        assert not known.done()
        assert not new.done()
        held.go.set()
        assert [entry.seq for entry in await known] == [*range(1, 501)]
        [first] = await new
        assert first.seq == 20_031
        assert await theirs.append("chat", Noted("new"), id="new") == [first]
        with pytest.raises(IdConflict):
            await ours.append("chat", Noted("something else"), id="id 19500")
        assert (await ours.head("chat")).seq == 20_031


async def test_many_ids_wait_for_one_reading(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one thread: the others have work to do."""
    lines, readings = 0, 0
    add_lines, read_history = Seen._add_lines, FileStorage._read_history

    def adding(past: Seen, page: list[bytes]) -> None:
        nonlocal lines
        lines += len(page)
        add_lines(past, page)

    def reading(ours: FileStorage, chat: str) -> None:
        nonlocal readings
        readings += 1
        read_history(ours, chat)

    monkeypatch.setattr(Seen, "_add_lines", adding)
    monkeypatch.setattr(FileStorage, "_read_history", reading)
    async with Log(FileStorage(root)) as log:
        found = await asyncio.gather(
            *(log.append("chat", Noted("n", number), id=f"new {number}") for number in range(32))
        )
        assert sorted(entry.seq for [entry] in found) == [*range(20_001, 20_033)]
        assert await log.storage.find("chat", id="new 7") is not None
    assert lines < 20_000 + 3_000
    assert readings <= 2


async def test_an_id_ends_on_a_chat_that_others_fill(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time that the history was read, there is as much again: at last the lock is kept."""
    rounds = 0
    read_history = FileStorage._read_history

    def outrun(ours: FileStorage, chat: str) -> None:
        nonlocal rounds
        rounds += 1
        read_history(ours, chat)
        asyncio.run(_fill_more(root))

    monkeypatch.setattr(FileStorage, "_read_history", outrun)
    async with Log(FileStorage(root)) as log:
        [entry] = await log.append("chat", Noted("new"), id="new")
        assert rounds == storage._ROUNDS
        assert entry.seq == 20_000 + 2_000 * rounds + 1
        assert await log.append("chat", Noted("new"), id="new") == [entry]


async def _fill_more(root: Path) -> None:
    async with Log(FileStorage(root, durability="off")) as log:
        await log.append("chat", *[Noted("more")] * 2_000)


async def test_a_reading_that_fails_is_told(root: Path) -> None:
    segment = min((root / "chats" / "chat").glob("*.jsonl"))
    content = bytearray(segment.read_bytes())
    content[1000] ^= 1
    segment.write_bytes(content)
    async with Log(FileStorage(root)) as log:
        for _ in range(2):
            with pytest.raises(CorruptLog):
                await log.append("chat", Noted("new"), id="new")


async def test_a_cancelled_append_does_not_keep_others_from_the_history(root: Path, held: Held) -> None:
    async with Log(FileStorage(root)) as log:
        first = asyncio.create_task(log.append("chat", Noted("one"), id="one"))
        second = asyncio.create_task(log.append("chat", Noted("two"), id="two"))
        await asyncio.to_thread(held.is_held.wait, 60)
        first.cancel()
        held.go.set()
        [entry] = await second
        assert entry.seq == 20_001
        assert first.cancelled()


# --- find ----------------------------------------------------------------------------------------------------


async def test_an_entry_is_found_by_its_id_or_key(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        await log.append("chat", Noted("n"), Noted("m"), id="two", durability="off")
        assert await log.storage.find("chat", id="id 500") == 501
        assert await log.storage.find("chat", id="two") == 20_001
        assert await log.storage.find("chat", id="three") is None
        assert await log.storage.find("chat") is None
        assert await log.storage.find("nobody", id="two") is None
        await log.append("chat", Noted("n"), id="three")
        assert await log.storage.find("chat", id="three") == 20_003
        await log.delete("chat")
        assert await log.storage.find("chat", id="two") is None


async def test_a_second_question_reads_the_log_no_more(root: Path) -> None:
    disk = ReadDisk()
    async with Log(FileStorage(root, disk=disk)) as log:
        assert await log.storage.find("chat", id="id 500") == 501
        before = disk.read
        assert await log.storage.find("chat", id="id 19000") == 19_001
        assert disk.read - before < 10_000
    disk = ReadDisk()
    async with Log(FileStorage(root, disk=disk)) as log:  # from files, in a new process
        assert await log.storage.find("chat", id="id 19000") == 19_001
        assert disk.read < 1_000_000


async def test_a_chat_that_took_the_place_of_another_is_asked(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path)) as ours, Log(FileStorage(tmp_path)) as other:
        for name in ("first", "second"):
            for number in range(80):
                await other.append("chat", Noted(name, number), id=f"{name} {number}", durability="off")
            assert await ours.storage.find("chat", id=f"{name} 7") == 8
            await other.delete("chat")
        await other.append("chat", *[Noted("n")] * 200, id="third")
        assert await ours.storage.find("chat", id="second 7") is None
        assert await ours.storage.find("chat", id="third") == 1


async def test_a_store_that_is_only_read_finds_without_files(root: Path) -> None:
    async with Log(FileStorage(root, read_only=True)) as log:
        assert await log.storage.find("chat", id="id 19000") == 19_001
        assert await log.storage.find("chat", id="nothing") is None
    assert not seen_paths(root)


# --- forks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [20_000, 12_345])
async def test_a_fork_reads_little_for_its_first_id(
    root: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Log(FileStorage(root)) as log:
        assert await log.storage.find("chat", id="id 0") == 1
        await log.fork("chat", "fork", at)
    read: list[int] = []
    add_lines = Seen._add_lines

    def counted(past: Seen, lines: list[bytes]) -> None:
        read.append(len(lines))
        add_lines(past, lines)

    monkeypatch.setattr(Seen, "_add_lines", counted)
    async with Log(FileStorage(root)) as log:
        [entry] = await log.append("fork", Noted("new"), id="new")
        assert entry.seq == at + 2
        assert sum(read) <= 4096 + 2 * 2000  # from the last link before that point, on to it
        assert await log.append("fork", *[Noted("n", n) for n in range(500)], id="id 0") == [
            *scan(root / "chats" / "fork", 1, 500)
        ]
        [later] = await log.append("fork", Noted("later"), id="id 19500 is not in this fork")
        assert later.seq == at + 3
