"""A small log cut at every byte and flipped at every bit: what was written comes back, or an error.

Never a wrong value, and never an acknowledged entry missing without an error. Everything here reads with
``scan`` and ``LogReader``, so that tens of thousands of broken logs take seconds.
"""

import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatfold.eventlog import (
    CorruptLog,
    Entry,
    FileStorage,
    Log,
    MessageAdded,
    NewerFormat,
    Noted,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
    check,
    scan,
)
from chatfold.eventlog.codec import decode, parse_references
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.line import decode_raw_fields, parse_seq
from chatfold.testing.strategies import LARGE_TEXT, same
from tests.support.clock import TickingClock

Files = dict[str, bytes]


class BrokenLog:
    """A chat's folder in memory, written out with one file broken, and read."""

    def __init__(self, root: Path, chat: Path) -> None:
        self.path = root / chat.name
        self.files: Files = {
            str(path.relative_to(chat)): path.read_bytes()
            for path in sorted(chat.rglob("*"))
            if path.is_file()
        }
        shutil.copytree(chat, self.path)
        self.entries = list(scan(self.path))
        ends = [entry.seq for entry in self.entries if entry.batch is None or _is_last(entry.batch)]
        self.commits = {0, *ends}

    def write(self, name: str, content: bytes) -> None:
        (self.path / name).write_bytes(content)

    def named(self, *suffixes: str) -> list[str]:
        return [name for name in self.files if name.endswith(suffixes)]

    @property
    def segments(self) -> list[str]:
        return self.named(".jsonl")

    def read(self) -> list[Entry] | None:
        """What a reader gets: None if it gets an error."""
        try:
            return list(scan(self.path))
        except (CorruptLog, NewerFormat):
            return None

    def read_back(self) -> list[Entry] | None:
        folder = LogReader(self.path, "chat", Disk())
        try:
            pages = [page.lines() for page in folder.pages_back()]
            return [decode(folder.resolve_line(line)) for page in reversed(pages) for line in page]
        except (CorruptLog, NewerFormat):
            return None

    def is_prefix(self, found: list[Entry], durable: int) -> bool:
        """At a batch's end, with everything that was durable, and nothing altered."""
        if len(found) == len(self.entries):
            return same(found, self.entries)
        return durable <= len(found) in self.commits and same(found, self.entries[: len(found)])


def _is_last(batch: str) -> bool:
    index, _, size = batch.partition("/")
    return index == size


@pytest.fixture
def scratch() -> Iterator[Path]:
    """In memory where there is such a place: these tests write tens of thousands of files."""
    shared = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=[0, 70], ids=["as it is", "padded"])
async def broken(scratch: Path, request: pytest.FixtureRequest) -> BrokenLog:
    """Three segments, all synced: batches, a reference across segments, odd values, ids, a tombstone; perhaps padding."""
    async with Log(FileStorage(scratch / "store", clock=TickingClock(), segment_bytes=1300)) as log:
        said = MessageAdded("user", (Text("a long text " * 86),))
        await log.append("chat", RunStarted("a"), said, id="first")
        for number in range(2):
            called = ToolCalled(f"c{number}", "t", {"x": [math.nan, b"\0", "\x7f"]})
            await log.append("chat", called, ToolReturned(f"c{number}", (Text("ok"),)), Noted("n", number))
        await log.append("chat", said, id="again")
        for number in range(3):
            await log.append("chat", Noted("漢字", number), run="r")
        await log.redact("chat", 4)
    with max((scratch / "store").rglob("*.jsonl")).open("ab") as file:
        file.write(b"\n" * request.param)
    made = BrokenLog(scratch / "broken", scratch / "store" / "chats" / "chat")
    assert len(made.segments) == 3
    assert any(parse_references(line)[0] for name in made.segments for line in made.files[name].split(b"\n"))
    assert any(entry.was for entry in made.entries)
    return made


def test_a_segment_cut_at_any_byte_is_read_whole_or_is_an_error(broken: BrokenLog) -> None:
    for name in broken.segments:
        for size in range(len(broken.files[name])):
            broken.write(name, broken.files[name][:size])
            for found in (broken.read(), broken.read_back()):
                assert found is None or same(found, broken.entries), (name, size)
        broken.write(name, broken.files[name])
    assert same(broken.read_back(), broken.entries)


@pytest.mark.campaign
def test_without_the_witness_a_cut_segment_is_a_prefix_or_an_error(broken: BrokenLog) -> None:
    (broken.path / "head").unlink()
    shorter = 0
    for name in broken.segments:
        for size in range(len(broken.files[name])):
            broken.write(name, broken.files[name][:size])
            found = broken.read()
            assert found is None or broken.is_prefix(found, 0), (name, size)
            shorter += found is not None and len(found) < len(broken.entries)
        broken.write(name, broken.files[name])
    assert shorter > 0  # a cut tail that nobody vouches for is what a crash leaves


@pytest.mark.parametrize(
    "bit", [pytest.param(bit, marks=() if bit == 0 else pytest.mark.campaign) for bit in range(8)]
)
def test_a_segment_with_any_bit_flipped_is_read_whole_or_is_an_error(broken: BrokenLog, bit: int) -> None:
    for name in broken.segments:
        for place in range(len(broken.files[name])):
            broken.write(name, _flipped(broken.files[name], place, bit))
            found = broken.read()
            assert found is None or same(found, broken.entries), (name, place)
        broken.write(name, broken.files[name])


@pytest.mark.campaign
def test_a_segment_with_any_byte_flipped_is_read_backwards_whole_or_is_an_error(broken: BrokenLog) -> None:
    for name in broken.segments:
        for place in range(len(broken.files[name])):
            broken.write(name, _flipped(broken.files[name], place, place % 8))
            found = broken.read_back()
            assert found is None or same(found, broken.entries), (name, place)
        broken.write(name, broken.files[name])


@pytest.mark.campaign
def test_without_the_witness_a_flipped_bit_leaves_a_prefix_or_an_error(broken: BrokenLog) -> None:
    (broken.path / "head").unlink()
    for name in broken.segments:
        for place in range(len(broken.files[name])):
            broken.write(name, _flipped(broken.files[name], place, place % 8))
            found = broken.read()
            assert found is None or broken.is_prefix(found, 0), (name, place)
        broken.write(name, broken.files[name])


@pytest.mark.campaign
def test_a_damaged_witness_or_offset_index_changes_nothing(broken: BrokenLog) -> None:
    for name in broken.named("head", ".offsets"):
        for place in range(len(broken.files[name])):
            for bit in range(8):
                broken.write(name, _flipped(broken.files[name], place, bit))
                assert same(broken.read(), broken.entries), (name, place, bit)
            broken.write(name, broken.files[name][:place])
            assert same(broken.read_back(), broken.entries), (name, place)
        broken.write(name, broken.files[name])


def test_no_line_exchanged_repeated_or_left_out_goes_unnoticed(broken: BrokenLog) -> None:
    for name in broken.segments:
        lines = broken.files[name].rstrip(b"\n").split(b"\n")
        for index in range(1, len(lines) - 1):
            exchanged = [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]]
            repeated = [*lines[: index + 1], *lines[index:]]
            without = [*lines[:index], *lines[index + 1 :]]
            for wrong in (exchanged, repeated, without):
                broken.write(name, b"\n".join([*wrong, b""]))
                for found in (broken.read(), broken.read_back()):
                    assert found is None or same(found, broken.entries), (name, index)
                assert check(broken.path).problems, (name, index)
        broken.write(name, broken.files[name])


def test_two_segments_exchanged_or_one_missing_are_an_error(broken: BrokenLog) -> None:
    one, two, three = broken.segments
    for first, second in ((one, two), (two, three), (one, three)):
        broken.write(first, broken.files[second])
        broken.write(second, broken.files[first])
        assert (broken.read(), broken.read_back()) == (None, None)
        broken.write(first, broken.files[first])
        broken.write(second, broken.files[second])
    for name in broken.segments:
        (broken.path / name).unlink()
        assert (broken.read(), broken.read_back()) == (None, None)
        broken.write(name, broken.files[name])


@pytest.mark.parametrize("missing", range(3))
async def test_a_missing_segment_is_an_error_even_if_no_line_refers_to_it(
    scratch: Path, missing: int
) -> None:
    async with Log(FileStorage(scratch / "store", segment_bytes=500)) as log:
        for number in range(12):
            await log.append("chat", Noted("n", number))
    broken = BrokenLog(scratch / "broken", scratch / "store" / "chats" / "chat")
    (broken.path / broken.segments[missing]).unlink()
    assert (broken.read(), broken.read_back()) == (None, None)
    assert not check(broken.path).ok


@pytest.mark.campaign
def test_check_sees_every_bit_flipped_in_a_segment(broken: BrokenLog) -> None:
    assert check(broken.path).problems == []
    for name in broken.segments:
        for place in range(0, len(broken.files[name]), 3):
            broken.write(name, _flipped(broken.files[name], place, place % 8))
            assert check(broken.path).problems, (name, place)
        broken.write(name, broken.files[name])


async def test_a_flipped_or_cut_blob_is_an_error(scratch: Path) -> None:
    async with Log(FileStorage(scratch / "store")) as log:
        await log.append("chat", MessageAdded("user", (Text(LARGE_TEXT),)))
    broken = BrokenLog(scratch / "broken", scratch / "store" / "chats" / "chat")
    [name] = [name for name in broken.files if name.startswith("blobs/")]
    content = broken.files[name]
    for place in [*range(0, len(content), 100_003), len(content) - 1]:
        for wrong in (_flipped(content, place, place % 8), content[:place]):
            broken.write(name, wrong)
            assert broken.read() is None
    (broken.path / name).unlink()
    assert broken.read() is None


async def test_a_tail_that_was_never_synced_may_be_cut_at_any_byte(scratch: Path) -> None:
    async with Log(FileStorage(scratch / "store", clock=TickingClock())) as log:
        for number in range(9):
            await log.append("chat", Noted("kept", number), durability="full")
        for number in range(3):
            await log.append("chat", Noted("lost?", number), Noted("with it", number), durability="off")
        broken = BrokenLog(scratch / "broken", scratch / "store" / "chats" / "chat")
    assert {entry.synced for entry in broken.entries if entry.seq > 9} == {9, None}
    name = broken.segments[-1]
    lengths = set()
    for size in range(_end_of(broken.files[name], 9), len(broken.files[name])):
        broken.write(name, broken.files[name][:size])
        found = broken.read()
        assert found is not None
        assert broken.is_prefix(found, durable=9), size
        lengths.add(len(found))
    assert lengths == {9, 11, 13}


def _end_of(segment: bytes, seq: int) -> int:
    """The byte after the line of this seq."""
    end = 0
    for line in segment.splitlines(keepends=True):
        end += len(line)
        if "seq" in decode_raw_fields(line) and parse_seq(line) == seq:
            return end
    raise AssertionError(f"no line {seq}")


def _flipped(content: bytes, place: int, bit: int) -> bytes:
    flipped = bytearray(content)
    flipped[place] ^= 1 << bit
    return bytes(flipped)
