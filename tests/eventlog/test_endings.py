"""What follows the valid prefix of a log: nothing, padding, something torn, or the sign that something durable is gone."""

import asyncio
import shutil
from itertools import product
from pathlib import Path

import pytest

from chatfold.eventlog import CorruptLog, Entry, FileStorage, Log, Noted, check, repair, scan
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.recovery import (
    Ending,
    classify_change,
    classify_ending,
    classify_file_ending,
)
from chatfold.eventlog.files.seal import build_sealed_segment
from chatfold.eventlog.files.segment import BIG_PAGE, Position
from chatfold.eventlog.line import MAX_LINE, build_line, header_line, parse_seq, seal_line
from tests.support.clock import TickingClock
from tests.support.judges.talk import is_clean

# --- the rule -----------------------------------------------------------------------------------------------

V = 10


def _line(seq: int, synced: int) -> bytes:
    return build_line(
        seq, b',"ts":1,"event":', b'{"type":"noted","name":"n"}', b',"synced":%d' % synced, b"0" * 16
    )


SEAL = seal_line(5, 100, "0" * 64, b"0" * 16)
RESTS: dict[str, tuple[bytes, Ending]] = {
    "nothing": (b"", Ending.CLEAN),
    "a newline": (b"\n", Ending.PADDED),
    "newlines": (b"\n" * 5000, Ending.PADDED),
    "newlines, then garbage": (b"\n\n\nx", Ending.TORN),
    "garbage, then newlines": (b"x\n\n\n", Ending.TORN),
    "a blank": (b" \n", Ending.TORN),
    "a carriage return": (b"\r\n", Ending.TORN),
    "NULs": (b"\0" * 4096, Ending.TORN),
    "half a line": (_line(11, V)[:-9], Ending.TORN),
    "a line without its newline": (_line(11, V), Ending.TORN),
    "newlines, then a line": (b"\n\n" + _line(11, V) + b"\n", Ending.TORN),
    "a line that says all before it is durable": (b"\0\0" + _line(11, V) + b"\n", Ending.TORN),
    "a line that says more is durable": (b"\0\0" + _line(12, V + 1) + b"\n", Ending.DAMAGED),
    "such a line behind newlines": (b"\n\n" + _line(12, V + 1), Ending.DAMAGED),
    "such a line spliced onto another": (_line(11, V)[:30] + _line(12, V + 1) + b"\n", Ending.DAMAGED),
    "such a line with a flipped bit": (_line(12, V + 1).replace(b"noted", b"notee"), Ending.TORN),
    "a seal": (b"x\n" + SEAL + b"\n", Ending.DAMAGED),
    "half a seal": (SEAL[:-1], Ending.TORN),
    "a header": (header_line(Head(40, "0" * 16)), Ending.TORN),
}


@pytest.mark.parametrize("name", RESTS)
@pytest.mark.parametrize("durable", [0, V - 1, V, V + 1, 10**17])
def test_the_rest_and_the_witnesses_decide(name: str, durable: int) -> None:
    rest, expected = RESTS[name]
    if durable > V:
        expected = Ending.DAMAGED
    assert classify_ending(V, rest, durable) is expected


@pytest.mark.campaign  # the windows are of 8 MiB
@pytest.mark.parametrize("name", RESTS)
def test_a_rest_larger_than_memory_is_classified_as_it_is_whole(tmp_path: Path, name: str) -> None:
    """It is read in windows: of NULs and newlines before it, and wherever it falls on a border."""
    rest, expected = RESTS[name]
    prefix = Position(V, b"0" * 16, 7)
    disk, path = Disk(), tmp_path / "segment"
    for size in (0, 8 * MAX_LINE - 20, 9 * MAX_LINE):
        path.write_bytes(b"prefix\n" + b"\n" * size + rest)
        fd = disk.open_read(path)
        whole = max(expected, Ending.PADDED) if size else expected
        assert classify_file_ending(disk, fd, prefix, V) is whole
        assert classify_file_ending(disk, fd, prefix, V + 1) is Ending.DAMAGED
        disk.close(fd)


def test_what_became_of_the_end_a_writer_knew() -> None:
    one, other = b"1" * 16, b"2" * 16
    for seq, link, durable in product((8, 9, 10, 11), (one, other), (0, 8, 9, 10)):
        found = classify_change(Position(10, one, 0), Position(seq, link, 0), durable)
        goes_on = seq > 10 or (seq == 10 and link == one)
        was_promised = durable > seq or durable == 10
        expected = Ending.CLEAN if goes_on else Ending.DAMAGED if was_promised else Ending.TORN
        assert found is expected, (seq, link, durable)


# --- padded files -------------------------------------------------------------------------------------------

PADDING = 20


def _write(root: Path, segment_bytes: int) -> Path:
    async def write() -> None:
        async with Log(FileStorage(root, clock=TickingClock(), segment_bytes=segment_bytes)) as log:
            for number in range(8):
                await log.append("chat", Noted("n", number), Noted("n", "x" * 50), id=f"i{number}")

    asyncio.run(write())
    return root / "chats" / "chat"


@pytest.fixture(params=[1, 3], ids=["one segment", "several"])
def chat(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = _write(tmp_path / "store", 1 << 20 if request.param == 1 else 900)
    assert (len(list(path.glob("*.jsonl"))) == 1) == (request.param == 1)
    return path


def _last_segment(chat: Path) -> Path:
    return max(chat.glob("*.jsonl"))


async def _read_all(log: Log) -> dict[str, list[Entry]]:
    """Every entry, in each way of reading."""
    forward = [entry async for entry in log.read("chat")]
    back = [entry async for entry in log.read_back("chat")]
    singly = [entry for seq in range(1, 17) async for entry in log.read("chat", seq, seq)]
    last = [(await log.last("chat", 1, seq))[0] for seq in range(1, 17)]
    assert (await log.head("chat")).seq == 16
    assert len(await log.grep("chat", "xxx")) == 8
    return {
        "forward": forward,
        "back": back[::-1],
        "singly": singly,
        "last": last,
        "some": await log.last("chat", 16),
    }


def _read_lines(chat: Path) -> list[int]:
    reader = LogReader(chat, "chat", Disk())
    assert reader.tail().position.seq == 16
    return [parse_seq(reader.line(seq)) for seq in range(16, 0, -1)]


@pytest.mark.parametrize(
    "has_witness",
    [pytest.param(True, id="witness"), pytest.param(False, id="no witness", marks=pytest.mark.campaign)],
)
async def test_padding_of_any_length_reads_as_if_it_were_not_there(chat: Path, has_witness: bool) -> None:
    """Read by a storage that is open while the padding goes byte by byte, by a new one each time, and by folder."""
    if not has_witness:
        (chat / "head").unlink()
    segment, right = _last_segment(chat), list(scan(chat))
    content = segment.read_bytes()
    async with Log(FileStorage(chat.parents[1], read_only=True)) as opened:
        for size in (*range(PADDING, -1, -1), 70_000):
            segment.write_bytes(content + b"\n" * size)
            async with Log(FileStorage(chat.parents[1], read_only=True)) as log:
                for found in (*(await _read_all(log)).values(), *(await _read_all(opened)).values()):
                    assert found == right, size
            assert list(scan(chat)) == right
            assert _read_lines(chat) == list(range(16, 0, -1))
    assert segment.read_bytes() == content + b"\n" * 70_000


@pytest.mark.parametrize("size", [1, 2, 19, 20, pytest.param(600_000, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "new"])
async def test_a_writer_cuts_padding_off_and_sets_nothing_aside(chat: Path, size: int, is_open: bool) -> None:
    segment = _last_segment(chat)
    before = segment.read_bytes()
    async with Log(FileStorage(chat.parents[1])) as log:
        if is_open:
            await log.append("chat", Noted("n", 7), Noted("n", "x" * 50), id="i7")
        with segment.open("ab") as file:
            file.write(b"\n" * size)
        [entry] = await log.append("chat", Noted("after"))
    assert entry.seq == 17
    assert len(list(scan(chat))) == 17
    assert not (chat / "aside").exists()
    lines = _last_segment(chat).read_bytes()
    assert b"\n\n" not in lines
    assert lines.startswith(before) or _last_segment(chat) != segment
    assert is_clean(chat)


@pytest.mark.parametrize("size", [1, 19, pytest.param(600_000, marks=pytest.mark.campaign)])
async def test_padding_is_no_problem_and_no_verb_takes_it_for_torn(chat: Path, size: int) -> None:
    segment = _last_segment(chat)
    with segment.open("ab") as file:
        file.write(b"\n" * size)
    padded, inode = segment.read_bytes(), segment.stat().st_ino
    for full in (True, False):
        assert check(chat, full=full).problems == []
    first = chat / f"{1:016d}.jsonl"
    async with Log(FileStorage(chat.parents[1])) as log:
        await log.storage.redact("chat", [1])
    assert (segment.stat().st_ino == inode) == (segment != first)  # an erasure writes only what it erases in
    if segment != first:
        first.write_bytes(first.read_bytes().replace(b"xxx", b"yyy", 1))
        assert [path.name.split("-")[1] for path in repair(chat).kept] == [first.name]
        assert segment.read_bytes() == padded
        assert check(chat).problems == []


def test_newlines_between_two_segments_are_damage_that_repair_takes_away(tmp_path: Path) -> None:
    chat = _write(tmp_path / "store", 900)
    first = chat / f"{1:016d}.jsonl"
    before = first.read_bytes()
    first.write_bytes(before + b"\n" * 19)
    assert {problem.kind for problem in check(chat).problems} == {"damaged"}
    assert repair(chat).lost == []
    assert first.read_bytes() == before
    assert check(chat).problems == []


def test_padding_hides_no_damage(chat: Path) -> None:
    """An acknowledged line that gave way to newlines is missed, by the witness or by the lines that are left."""
    segment = _last_segment(chat)
    content = segment.read_bytes()
    for cut in range(content.rindex(b'{"seq"') + 1, len(content) - 1):
        segment.write_bytes(content[:cut] + b"\n" * PADDING)
        with pytest.raises(CorruptLog):
            list(scan(chat))
        with pytest.raises(CorruptLog):
            LogReader(chat, "chat", Disk()).tail()
    assert not check(chat).ok


async def test_a_line_behind_newlines_is_torn(chat: Path, tmp_path: Path) -> None:
    """The pages of an unsynced write reach the medium in any order: it was promised to nobody, and it is set aside."""
    segment, right = _last_segment(chat), list(scan(chat))
    torn = b"\n" * 30 + _line(18, 16) + b"\n" * 3
    copy = tmp_path / "copy"
    shutil.copytree(chat, copy)
    (copy / segment.name).write_bytes(segment.read_bytes() + torn)
    assert list(scan(copy)) == right
    segment.write_bytes(segment.read_bytes() + torn)
    async with Log(FileStorage(chat.parents[1])) as log:
        assert (await log.append("chat", Noted("after")))[0].seq == 17
    assert [path.read_bytes() for path in (chat / "aside").iterdir()] == [torn]


# --- looking twice ------------------------------------------------------------------------------------------


class GoingOnDisk(Disk):
    """After the next read of a page, a writer goes on: it writes, and its witness says so."""

    def __init__(self) -> None:
        self.written: dict[Path, bytes] = {}

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        while self.written and size >= BIG_PAGE:
            path, content = self.written.popitem()
            path.write_bytes(content)
        return data


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_a_writer_that_goes_on_between_two_reads_is_no_damage(tmp_path: Path, is_warm: bool) -> None:
    """The bytes show half an append among newlines, and a witness that is read later calls it durable."""
    chat = _write(tmp_path / "store", 1 << 20)
    segment, head, padding = _last_segment(chat), chat / "head", b"\n" * 3000
    content, witness = segment.read_bytes(), head.read_bytes()
    head.unlink()
    lines = content.splitlines(keepends=True)
    disk = GoingOnDisk()
    reader = LogReader(chat, "chat", disk)
    segment.write_bytes(b"".join(lines[:-4]) + padding)
    if is_warm:
        assert reader.tail().position.seq == 12
    segment.write_bytes(b"".join(lines[:-4]) + lines[-4][:40] + padding)
    disk.written = {segment: content + padding, head: witness}
    assert reader.tail().position.seq == (16 if is_warm else 12)
    assert not disk.written
    assert reader.tail().position.seq == 16


class OvertakingDisk(Disk):
    """What reads a page is overtaken by a writer: it misses a line, and finds the next one. Each time it is another line."""

    def __init__(self, missed: list[int]) -> None:
        self.missed = missed

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        if size < BIG_PAGE or not self.missed:
            return data
        lines = data.splitlines(keepends=True)
        index = self.missed.pop(0)
        lines[index] = b"\n" * len(lines[index])
        return b"".join(lines)


@pytest.mark.parametrize(
    ("missed", "is_damage"), [([3, 5, 7, 9], False), ([3, 5, 5, 5], True), ([5] * 4, True)]
)
def test_damage_is_what_two_looks_find_in_one_place(
    tmp_path: Path, missed: list[int], is_damage: bool
) -> None:
    chat = _write(tmp_path / "store", 1 << 20)
    (chat / "head").unlink()
    reader = LogReader(chat, "chat", OvertakingDisk(missed))
    if is_damage:
        with pytest.raises(CorruptLog):
            reader.tail()
    else:
        assert reader.tail().position.seq == 16


async def test_a_seal_after_half_a_batch_is_damage(tmp_path: Path) -> None:
    """A seal vouches for all before it. To go on in the next segment would make two segments that do not fit."""
    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", Noted("one"))
        await log.append("chat", Noted("two"), Noted("three"))
    chat = tmp_path / "chats" / "chat"
    [segment] = chat.glob("*.jsonl")
    segment.write_bytes(build_sealed_segment(segment.read_bytes().splitlines()[:-1]))
    (chat / "head").unlink()
    before = segment.read_bytes()
    async with Log(FileStorage(tmp_path)) as log:
        for work in (log.append("chat", Noted("more")), log.head("chat"), log.last("chat", 1)):
            with pytest.raises(CorruptLog, match="a seal follows a batch that is not whole"):
                await work
    assert [path.read_bytes() for path in chat.glob("*.jsonl")] == [before]
    assert repair(chat).lost == [3]
    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", Noted("more"))
        names = [type(entry.event).__name__ async for entry in log.read("chat")]
    assert names == ["Noted", "Noted", "Lost", "Noted"]
