"""Full segments are verified at once and decoded a page at a time: what comes out is what reading line by line gives."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    CorruptLog,
    Entry,
    Event,
    FileStorage,
    Log,
    MessageAdded,
    Noted,
    Text,
    Unknown,
    check,
    scan,
)
from chatfold.eventlog.codec import Page, decode, decode_all, decode_page
from chatfold.eventlog.files.disk import Disk, read_at
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.scan import open_folder
from chatfold.eventlog.files.seal import SegmentDigest, build_sealed_segment, read_if_sealed
from chatfold.eventlog.files.segment import BIG_PAGE, PageEnd, read_page
from chatfold.eventlog.line import parse_seal
from tests.support.clock import TickingClock

LONG = [letter * size for letter, size in zip("abcdef", (512, 600, 3_000, 20_000, 700, 513), strict=True)]

texts = st.one_of(
    st.text(max_size=40), st.sampled_from(LONG), st.sampled_from(["\x7f", "a\x7fref:1:2:3", "\ud800", "\n"])
)
events = st.one_of(
    st.builds(lambda text: MessageAdded("user", (Text(text),)), texts),
    st.builds(
        lambda text, value: Noted("n", {"text": text, "value": value}),
        texts,
        st.floats() | st.binary(max_size=9),
    ),
    st.just(Unknown("of_later", b'{"type":"of_later","x":[1,2]}')),
)
appends = st.lists(
    st.tuples(st.lists(events, min_size=1, max_size=4), st.booleans()), min_size=1, max_size=25
)


def written(
    root: Path, history: list[tuple[list[Event], bool]], erased: list[int], segment_bytes: int
) -> Path:
    async def write() -> None:
        async with Log(FileStorage(root, durability="off", segment_bytes=segment_bytes)) as log:
            end = 0
            for batch, named in history:
                id = f"i{end}" if named else None  # noqa: A001
                end = (await log.append("c", *batch, id=id))[-1].seq
            for seq in erased:
                if seq <= end:
                    await log.redact("c", seq)

    asyncio.run(write())
    return root / "chats" / "c"


def by_lines(folder: LogReader) -> list[Entry]:
    """Each line by itself: the way that is simple."""
    entries: list[Entry] = []
    for first in folder.segments():
        with folder.open_segment(first) as fd:
            at, stop = folder.read_header_at(first, fd), PageEnd.MORE
            while stop is PageEnd.MORE:
                page = read_page(folder.disk, fd, at)
                if page.stop is PageEnd.BAD and not page.lines:
                    raise CorruptLog("a line does not verify", offset=at.offset, seq=at.seq + 1)
                entries += [decode(folder.resolve_line(line)) for line in page.lines]
                at, stop = page.at, page.stop if page.stop is not PageEnd.BAD else PageEnd.MORE
    return entries


def told(read: Callable[[], list[Entry]]) -> object:
    try:
        return repr(read())  # a NaN is not equal to itself
    except CorruptLog as error:
        return error.offset, error.seq


@given(appends, st.lists(st.integers(1, 60), max_size=3), st.sampled_from([400, 3_000, 100_000]))
def test_same_entries(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[list[Event], bool]],
    erased: list[int],
    size: int,
) -> None:
    path = written(tmp_path_factory.mktemp("store"), history, erased, size)
    expected = by_lines(open_folder(path))
    assert repr(list(scan(path))) == repr(expected)
    assert [line for page in open_folder(path).line_pages(size=BIG_PAGE) for line in page] == [
        line for page in open_folder(path).line_pages() for line in page
    ]
    middle = len(expected) // 2 + 1
    assert repr(list(scan(path, middle))) == repr(expected[middle - 1 :])
    assert repr(list(scan(path, 1, middle))) == repr(expected[:middle])
    assert check(path).ok


@given(st.lists(events, min_size=1, max_size=30))
def test_page_decoded_at_once(tmp_path_factory: pytest.TempPathFactory, history: list[Event]) -> None:
    path = written(tmp_path_factory.mktemp("store"), [([event], False) for event in history], [], 1 << 20)
    folder = open_folder(path)
    lines = [line for page in folder.line_pages() for line in page]
    page = b"\n".join([*lines, b""])
    entries = decode_page(Page(b"before\n" + page + b"after\n", 7, 7 + len(page)), folder.resolve_line)
    assert repr(entries) == repr(list(decode_all(lines, folder.resolve_line)))


@pytest.fixture
def full(tmp_path: Path) -> Path:
    history: list[tuple[list[Event], bool]] = [
        ([MessageAdded("user", (Text(f"{number} {LONG[number % 5]}"),))], True) for number in range(12)
    ]
    return written(tmp_path, [*history, ([Noted("n", LONG[2]), Noted("n", LONG[2])], False)], [], 6_000)


def read_whole(path: Path, first: int) -> object:
    folder = open_folder(path)
    with folder.open_segment(first) as fd:
        return read_if_sealed(folder.disk, fd, folder.read_header_at(first, fd).seq, 1 << 62)


def test_full_segments_are_read_whole(full: Path) -> None:
    firsts = open_folder(full).segments()
    assert len(firsts) > 2
    assert [read_whole(full, first) is not None for first in firsts] == [True] * (len(firsts) - 1) + [False]


def test_every_flipped_bit_is_told_as_line_by_line(full: Path) -> None:
    folder = open_folder(full)
    segment = folder.segment_path(folder.segments()[1])
    data = segment.read_bytes()
    for at in [*range(0, len(data), 97), *range(len(data) - 260, len(data))]:
        segment.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        result = told(lambda: list(scan(full)))
        seal_starts = data.rfind(b"\n", 0, -1) + 1
        if at < seal_starts:
            assert isinstance(result, tuple), at
        assert result == told(lambda: by_lines(open_folder(full))) or at >= seal_starts, at
    segment.write_bytes(data)
    assert isinstance(told(lambda: list(scan(full))), str)


def test_swapped_segment_is_noticed_between_pages(full: Path) -> None:
    entries = scan(full)
    next(entries)

    async def redact() -> None:
        async with Log(FileStorage(full.parent.parent)) as log:
            await log.redact("c", 9)

    asyncio.run(redact())
    assert "[redacted]" in repr(next(entry for entry in entries if entry.seq == 9))


def test_damage_before_the_seal_is_not_vouched_for(tmp_path: Path) -> None:
    """A bit that flipped in the open segment: it is sealed, but not as verified, and found when it is read."""

    async def write() -> None:
        async with Log(FileStorage(tmp_path, durability="off", segment_bytes=6_000)) as log:
            await log.append("c", Noted("n", "z" * 300))
            await log.append("c", Noted("n", "y" * 400))
            segment = tmp_path / "chats" / "c" / "0000000000000001.jsonl"
            data = segment.read_bytes()
            with segment.open("r+b") as file:  # the same file: what a failing disk does
                file.write(data.replace(b"zzz", b"zzx", 1))
            for _ in range(25):
                await log.append("c", Noted("n", "x" * 400))

    asyncio.run(write())
    path = tmp_path / "chats" / "c"
    last = (path / "0000000000000001.jsonl").read_bytes().splitlines()[-1]
    assert last.startswith(b'{"seal":')
    assert parse_seal(last).xxh3 is None
    with pytest.raises(CorruptLog) as caught:
        list(scan(path))
    assert caught.value.seq == 1
    assert not check(path).ok


def test_rewritten_damage_is_not_vouched_for(full: Path) -> None:
    """Whoever writes a segment anew, to erase something, passes damage on as it is, for readers to find."""
    folder = open_folder(full)
    lines = folder.segment_path(1).read_bytes().splitlines()[:-1]
    assert parse_seal(build_sealed_segment(lines).splitlines()[-1]).xxh3 is not None
    lines[1] = lines[1].replace(b"aaa", b"aab", 1)
    assert parse_seal(build_sealed_segment(lines).splitlines()[-1]).xxh3 is None


@given(st.lists(st.integers(1, 3_000), max_size=20))
def test_sum_does_not_depend_on_the_steps(steps: list[int]) -> None:
    data = _SEGMENT.rpartition(b'{"seal":')[0]
    whole, tally = SegmentDigest(), SegmentDigest()
    whole.add(data)
    for step in steps:
        tally.add(data[tally.bytes : tally.bytes + step])
    tally.add(data[tally.bytes :])
    prev = _SEGMENT[-44:-28]
    assert tally.seal(3, prev) == whole.seal(3, prev)


def _segment() -> bytes:
    from chatfold.eventlog.codec import encode_event
    from chatfold.eventlog.events import Head
    from chatfold.eventlog.line import build_entry_line, header_line, link_after

    lines, link = [header_line(Head())], Head().link
    for seq in range(1, 4):
        event = Noted("n", "x" * 900)
        lines.append(build_entry_line(Entry(seq, 1, event, prev=link), encode_event(event).raw))
        link = link_after(lines[-1]).decode()
    return build_sealed_segment(lines)


_SEGMENT = _segment()


def test_size_is_bounded(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatfold.eventlog.files.seal._MOST", 100)
    assert read_whole(full, 1) is None
    assert isinstance(told(lambda: list(scan(full))), str)
    assert read_at(Disk(), Disk().open_read(full / "0000000000000001.jsonl"), 0, 1) == b"{"


async def test_what_several_made_is_verified_and_vouched_for(tmp_path: Path) -> None:
    async with (
        Log(FileStorage(tmp_path, segment_bytes=3_000)) as one,
        Log(FileStorage(tmp_path, segment_bytes=3_000)) as other,
    ):
        for number in range(60):
            await (one if number % 3 else other).append("chat", Noted("n", f"{number} " + "x" * 200))
    folder = open_folder(tmp_path / "chats" / "chat")
    *full, _ = folder.segments()
    assert len(full) > 3
    for first in full:
        assert parse_seal(folder.segment_path(first).read_bytes().splitlines()[-1]).xxh3 is not None
    assert [entry.seq for entry in scan(folder.path)] == list(range(1, 61))


def _long(tmp_path: Path, key: str) -> LogReader:
    """A full segment of a megabyte, and one that is not full."""
    root = tmp_path / key

    async def write() -> None:
        clock = TickingClock()
        async with Log(FileStorage(root, clock=clock, durability="off", segment_bytes=1 << 20)) as log:
            for number in range(50):
                await log.append("c", Noted(key, f"{key}{number:04d}" * 3_000))

    asyncio.run(write())
    folder = open_folder(root / "chats" / "c")
    assert len(folder.segments()) == 2
    return folder


def test_a_full_segment_is_read_on_from_its_middle(tmp_path: Path) -> None:
    folder = _long(tmp_path, "ours")
    lines = [line for page in folder.pages() for line in page.lines()]
    assert [decode(line) for line in lines] == by_lines(folder)
    assert max(page.end - page.start for page in folder.pages()) > BIG_PAGE  # not line by line


@pytest.mark.parametrize("count", [1, 2])
def test_a_segment_of_another_chat_is_not_read_on(tmp_path: Path, count: int) -> None:
    """It was overwritten after some pages, with as many bytes: its seal and its lines verify."""
    folder, other = _long(tmp_path, "ours"), _long(tmp_path, "them")
    ours, theirs = (one.segment_path(1) for one in (folder, other))
    assert ours.stat().st_size == theirs.stat().st_size
    pages = folder.pages()
    read = [next(pages) for _ in range(count)]
    ours.write_bytes(theirs.read_bytes())
    with pytest.raises(CorruptLog):
        read.extend(pages)
    assert not any(b"them" in line for page in read for line in page.lines())
