"""Offsets: with them, without them, or with lies in them, lines are found at the same places."""

import shutil
from pathlib import Path

import msgspec
import pytest

from chatfold.eventlog import FileStorage, Log, Noted, scan
from chatfold.eventlog.codec import decode
from chatfold.eventlog.files import offsets
from chatfold.eventlog.files.cache import Cache
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.line import parse_seq


@pytest.fixture
async def chat(tmp_path: Path) -> Path:
    """A few hundred entries in many segments, their indexes kept."""
    async with Log(FileStorage(tmp_path / "store", segment_bytes=6000)) as log:
        for number in range(60):
            batch = [Noted("n", number * 5 + i) for i in range(5)]
            await log.append("chat", *batch, durability="off")
    path = tmp_path / "store" / "chats" / "chat"
    assert len(indexes(path)) >= 5
    return path


def indexes(chat: Path) -> list[Path]:
    return sorted(chat.glob("cache/*.offsets"))


def reads_right(chat: Path) -> bool:
    """Each line by its seq, from a folder that knows nothing yet; and spans from the middle."""
    folder = LogReader(chat, "chat", Disk(), may_write=True)
    singly = [decode(folder.line(seq)).event for seq in range(300, 0, -1)]
    span = [parse_seq(line) for page in folder.line_pages(117, 203) for line in page]
    back = [parse_seq(page.last_line()) for page in LogReader(chat, "chat", Disk()).pages_back(203)]
    return singly == [Noted("n", seq - 1) for seq in range(300, 0, -1)] and (
        span == list(range(117, 204)) and back[0] == 203
    )


def starts_of(chat: Path, index: Path) -> list[int]:
    found = Cache(chat, Disk()).load(index.name, offsets._KIND)
    assert found is not None
    return offsets._decode(found.payload).starts


def rewrite(chat: Path, index: Path, starts: list[int]) -> None:
    """An index that verifies, and lies."""
    cache = Cache(chat, Disk())
    found = cache.load(index.name, offsets._KIND)
    assert found is not None
    payload = msgspec.msgpack.encode((offsets._decode(found.payload).bytes, starts))
    assert cache.store(index.name, offsets._KIND, found.span, payload, "")


def test_a_missing_index_is_made_again(chat: Path) -> None:
    before = indexes(chat)
    shutil.rmtree(chat / "cache")
    assert reads_right(chat)
    assert indexes(chat) == before


def test_a_reader_that_may_not_write_makes_no_index(chat: Path) -> None:
    shutil.rmtree(chat / "cache")
    assert [entry.seq for entry in scan(chat, 117, 203)] == list(range(117, 204))
    assert not (chat / "cache").exists()


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"{}", b'{"bytes":1}'])
def test_a_damaged_index_is_made_again(chat: Path, damage: bytes) -> None:
    before = {index: starts_of(chat, index) for index in indexes(chat)}
    for index in indexes(chat):
        index.write_bytes(damage)
    assert reads_right(chat)
    assert {index: starts_of(chat, index) for index in indexes(chat)} == before


def test_an_index_says_which_entries_it_is_of(chat: Path) -> None:
    reader = LogReader(chat, "chat", Disk())
    for index in indexes(chat):
        found = Cache(chat, Disk()).load(index.name, offsets._KIND)
        assert found is not None
        span = found.span
        assert span.first == int(index.stem)
        assert (span.prev, span.link) == (reader.link(span.first - 1) or "0" * 16, reader.link(span.seq))


async def test_an_index_has_an_anchor_for_every_eighth_line(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path, segment_bytes=20_000)) as log:
        for number in range(300):
            await log.append("chat", Noted("n", number), durability="off")
    index = indexes(tmp_path / "chats" / "chat")[0]
    lines = (tmp_path / "chats" / "chat" / f"{1:016d}.jsonl").read_bytes()
    starts = starts_of(tmp_path / "chats" / "chat", index)
    assert [parse_seq(lines[start:].partition(b"\n")[0]) for start in starts[:3]] == [1, 9, 17]


def test_an_index_cut_or_flipped_anywhere_changes_no_answer(chat: Path) -> None:
    index = indexes(chat)[1]
    first, content = int(index.stem), index.read_bytes()
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        for wrong in (bytes(flipped), content[:place]):
            index.write_bytes(wrong)
            assert parse_seq(LogReader(chat, "chat", Disk()).line(first + 20)) == first + 20


def test_an_index_serves_a_copy_of_its_chat(chat: Path) -> None:
    """Whoever restores a backup does not pay for the indexes once more."""
    copy = chat.with_name("copy")
    shutil.copytree(chat, copy)
    before = {index: index.stat().st_ino for index in indexes(copy)}
    assert reads_right(copy)
    assert {index: index.stat().st_ino for index in indexes(copy)} == before


def test_an_index_of_another_file_is_not_used(chat: Path) -> None:
    """The segment was written anew, as erasure does: lines at other places."""
    for segment in sorted(chat.glob("*.jsonl")):
        copy = segment.with_suffix(".copy")
        copy.write_bytes(segment.read_bytes())
        copy.replace(segment)
    for index in indexes(chat):
        rewrite(chat, index, [start + 7 for start in starts_of(chat, index)])
    assert reads_right(chat)


@pytest.mark.parametrize(
    "lie",
    [
        [],
        [0] * 99,
        [10**9] * 99,
        [-1] * 99,
        [300] * 99,
    ],
)
def test_an_index_that_lies_is_found_out(chat: Path, lie: list[int]) -> None:
    for index in indexes(chat):
        rewrite(chat, index, lie)
    assert reads_right(chat)


def test_an_index_that_leads_to_the_line_of_another_seq_is_found_out(chat: Path) -> None:
    for index in indexes(chat):
        starts = starts_of(chat, index)
        rewrite(chat, index, [*starts[1:], starts[0]])
    assert reads_right(chat)
