"""Snapshots are kept as they are given, found newest first, and passed over when they are not what they say."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import FileStorage, Head, Log, MessageAdded, Noted, Storage, Text
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.redact import redact_chats
from chatfold.eventlog.files.segment import bisect_line, read_line_before
from tests.support.storages import OPENERS


def say(text: str) -> MessageAdded:
    return MessageAdded("user", (Text(text),))


async def seqs(storage: Storage, last: int | None = None) -> list[int]:
    return [head.seq async for head, _ in storage.load_snapshots("chat", last)]


@pytest.fixture(params=OPENERS)
async def filled(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Log]:
    """A chat of several segments."""
    is_files = request.param == "files"
    storage = FileStorage(tmp_path, segment_bytes=30_000) if is_files else OPENERS[request.param](tmp_path)()
    async with Log(storage) as log:
        for number in range(0, 9_000, 500):
            await log.append("chat", *(Noted(str(number + more)) for more in range(500)), durability="off")
        yield log


async def test_what_is_kept_is_found_as_it_was_given(filled: Log) -> None:
    await filled.storage.store_snapshot("chat", Head(8_990, "a" * 16), b"\0anything\n")
    assert [found async for found in filled.storage.load_snapshots("chat")] == [
        (Head(8_990, "a" * 16), b"\0anything\n")
    ]


async def test_those_at_borders_stay_and_of_the_others_those_apart(filled: Log) -> None:
    borders = list(await filled.storage.segment_boundaries("chat"))[:2]
    for seq in (borders[0], borders[0] + 5, borders[1], borders[1] + 300, 8_990, 8_999):
        await filled.storage.store_snapshot("chat", Head(seq, "a" * 16), b"x")
    stay = [8_990, borders[1] + 300, borders[1], borders[0]]
    assert await seqs(filled.storage) == [8_999, *stay]
    assert await seqs(filled.storage, 8_998) == stay
    assert await seqs(filled.storage, borders[1] - 1) == [borders[0]]
    assert await seqs(filled.storage, borders[0] - 1) == []


async def test_the_larger_they_are_the_further_apart(filled: Log) -> None:
    for seq in (1_000, 1_300, 1_700):
        await filled.storage.store_snapshot("chat", Head(seq, "a" * 16), b"x" * 120_000)
    kept = await seqs(filled.storage)
    assert kept == ([1_700, 1_000] if isinstance(filled.storage, FileStorage) else [1_700, 1_300, 1_000])


async def test_one_in_the_middle_does_not_become_the_newest(filled: Log) -> None:
    for seq in (8_999, 300):
        await filled.storage.store_snapshot("chat", Head(seq, "a" * 16), b"x")
    assert await seqs(filled.storage) == [8_999, 300]
    assert await seqs(filled.storage, 8_999) == [8_999, 300]


async def test_an_erasure_drops_them(filled: Log) -> None:
    await filled.storage.store_snapshot("chat", Head(8_990, "a" * 16), b"what was said")
    await filled.redact("chat", 5)
    assert await seqs(filled.storage) == []


async def test_what_was_read_before_an_erasure_is_not_kept_after_it(filled: Log) -> None:
    before = await filled.storage.erasure_epoch("chat")
    for _ in range(2):  # each erasure is another one
        known = await filled.storage.erasure_epoch("chat")
        await filled.redact("chat", 5)
        for erasures in {before, known}:
            await filled.storage.store_snapshot("chat", Head(8_990, "a" * 16), b"what was said", erasures)
        assert await seqs(filled.storage) == []
    now = await filled.storage.erasure_epoch("chat")
    await filled.storage.store_snapshot("chat", Head(8_990, "a" * 16), b"what is left", now)
    assert await seqs(filled.storage) == [8_990]
    await filled.fork("chat", "fork", 8_990)
    assert await filled.storage.erasure_epoch("fork") == now


class ErasedMeanwhile(Disk):
    """Somebody else erases an entry just before a snapshot is written."""

    def create(self, path: Path) -> int:
        if ".snapshot" in path.name:
            chat = path.parents[1]
            folder = LogReader(chat, "chat", Disk())
            redact_chats(chat.parents[1], "chat", [1], {"chat": folder}, ["chat"])
        return super().create(path)


async def test_one_that_an_erasure_has_not_seen_is_dropped(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", *(say(f"number {number}") for number in range(300)))
    async with Log(FileStorage(tmp_path, disk=ErasedMeanwhile())) as log:
        await log.storage.store_snapshot("chat", Head(300, "a" * 16), b"number 0")
        assert await seqs(log.storage) == []


async def test_a_chat_that_is_gone_keeps_nothing_and_complains_about_nothing(filled: Log) -> None:
    await filled.delete("chat")
    await filled.storage.store_snapshot("chat", Head(8_990, "a" * 16), b"x")
    assert await seqs(filled.storage) == []
    assert [key async for key in filled.chats()] == []


async def test_a_read_only_store_finds_them_and_keeps_none(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", say("hi"))
        await log.storage.store_snapshot("chat", Head(1, "a" * 16), b"first")
    storage = FileStorage(tmp_path, read_only=True)
    await storage.store_snapshot("chat", Head(1, "b" * 16), b"second")
    assert [data async for _, data in storage.load_snapshots("chat")] == [b"first"]


@given(cut=st.integers(0, 200), flip=st.integers(0, 200), bit=st.integers(0, 7))
async def test_a_damaged_one_is_passed_over(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int, bit: int
) -> None:
    root = tmp_path_factory.mktemp("store")
    async with Log(FileStorage(root)) as log:
        await log.append("chat", say("hi"))
        await log.storage.store_snapshot("chat", Head(1, "a" * 16), b"bytes of a view" * 3)
        path = root / "chats/chat/cache/newest.snapshot"
        content = bytearray(path.read_bytes())
        content[flip % len(content)] ^= 1 << bit
        for damaged in (bytes(content), path.read_bytes()[: cut % len(content)]):
            path.write_bytes(damaged)
            assert await seqs(log.storage) == []


# --- finding lines without an index ----------------------------------------------------------------------


def written(path: Path, sizes: list[int]) -> list[int]:
    """A file like a segment, its lines of these sizes; where each starts."""
    starts, content = [], b'{"chatfold":1}\n'
    for seq, size in enumerate(sizes, 1):
        starts.append(len(content))
        content += b'{"seq":%d,"x":"%b"}\n' % (seq, b"{" * size)
    path.write_bytes(content)
    return starts


@given(
    sizes=st.lists(st.sampled_from((0, 1, 100, 5_000, 70_000, 300_000)), min_size=1, max_size=60),
    data=st.data(),
)
def test_a_line_is_found_by_halving_whatever_the_lines_are(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    disk, path = Disk(), tmp_path_factory.mktemp("segment") / "lines"
    starts = written(path, sizes)
    seq = data.draw(st.integers(1, len(sizes)))
    fd = disk.open_read(path)
    found, at = bisect_line(disk, fd, starts[0], path.stat().st_size, 1, seq)
    assert found <= seq
    assert at == starts[found - 1]
    assert starts[seq - 1] - at <= 16_384 or found == seq or max(sizes) >= 5_000
    before = b'{"seq":%d,"x":"%b"}' % (seq - 1, b"{" * sizes[seq - 2])
    assert read_line_before(disk, fd, starts[seq - 1]) == (before if seq > 1 else b"")
    disk.close(fd)
