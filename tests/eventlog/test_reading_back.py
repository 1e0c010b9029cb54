"""The last entries are verified and decoded where they stand: what comes out is what reading forwards, line by line, gives."""

import asyncio
from itertools import chain
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
    MemoryStorage,
    MessageAdded,
    Noted,
    Text,
)
from chatfold.eventlog.codec import decode_all
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.scan import open_folder
from chatfold.eventlog.files.segment import PAGE
from chatfold.eventlog.line import count_valid_chain, link_before, parse_prev
from tests.eventlog.test_sealed_reading import LONG, appends, written
from tests.support.profile import searched


def back(folder: LogReader, upto: int | None, count: int) -> list[Entry]:
    pages = [folder.entries(stretch) for stretch in folder.pages_back(upto, count)]
    return list(chain.from_iterable(reversed(pages)))


@given(
    appends,
    st.lists(st.integers(1, 60), max_size=3),
    st.sampled_from([400, 3_000, 100_000]),
    st.integers(1, 60),
    st.integers(0, 60),
)
def test_same_entries(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[list[Event], bool]],
    erased: list[int],
    size: int,
    upto: int,
    count: int,
) -> None:
    folder = open_folder(written(tmp_path_factory.mktemp("store"), history, erased, size))
    expected = [entry for page in folder.line_pages() for entry in decode_all(page, folder.resolve_line)]
    assert repr(back(folder, None, 1 << 62)) == repr(expected)
    assert repr(back(folder, None, count)) == repr(expected[max(0, len(expected) - count) :])
    upto = min(upto, len(expected))
    assert repr(back(folder, upto, count)) == repr(expected[max(0, upto - count) : upto])
    assert [line for page in reversed(list(folder.pages_back())) for line in page.lines()] == [
        line for page in folder.line_pages() for line in page
    ]


@searched(2 / 3)
@given(st.lists(st.sampled_from(LONG), min_size=1, max_size=6), st.data())
def test_what_is_accepted_at_once_is_accepted_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: st.DataObject
) -> None:
    history: list[tuple[list[Event], bool]] = [([Noted("n", {"text": text})], False) for text in texts]
    folder = open_folder(written(tmp_path_factory.mktemp("store"), history, [], 1 << 20))
    lines = [line for page in folder.line_pages() for line in page]
    page = bytearray(b"before\n" + b"\n".join([*lines, b""]))
    starts = [7 + sum(len(line) + 1 for line in lines[:index]) for index in range(len(lines))]
    assert link_before(bytes(page), starts, len(page)) == parse_prev(lines[0])
    for _ in range(20):
        at = data.draw(st.integers(7, len(page) - 2))
        was, page[at] = page[at], data.draw(st.integers(0, 255).filter(lambda byte: byte != 10))
        cut = bytes(page[7:-1]).split(b"\n")
        if len(cut) == len(lines):  # it was no newline that was overwritten
            one_by_one = count_valid_chain(cut, None) == len(cut)
            found = link_before(bytes(page), starts, len(page))
            assert found == (parse_prev(cut[0]) if one_by_one else None)
        page[at] = was


async def test_lines_longer_than_a_page_and_damage_between_pages(root: Path) -> None:
    texts = [f"{number}{'x' * size}" for number, size in enumerate((5, 3 * PAGE, 9, 10 * PAGE, 7, PAGE, 3))]
    async with Log(FileStorage(root)) as log:
        for text in texts:
            await log.append("chat", MessageAdded("user", (Text(text),)))
        for count in range(len(texts) + 2):
            found = [entry.event for entry in await log.last("chat", count)]
            assert found == [MessageAdded("user", (Text(text),)) for text in texts[max(0, 7 - count) :]]
    segment = next((root / "chats/chat").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b'"2xxx', b'"2xyx', 1))
    async with Log(FileStorage(root)) as log:
        assert [entry.seq for entry in await log.last("chat", 4)] == [4, 5, 6, 7]
        with pytest.raises(CorruptLog):
            await log.last("chat", 5)


async def test_storages_agree_on_what_is_last(root: Path) -> None:
    async with Log(FileStorage(root)) as files, Log(MemoryStorage()) as memory:
        for log in (files, memory):
            await log.append("chat", *(Noted(str(number)) for number in range(9)))
        for count in (0, 1, 5, 9, 12):
            for upto in (None, 0, 1, 6, 9, 40):
                found = [
                    [entry.event for entry in await log.last("chat", count, upto)] for log in (files, memory)
                ]
                assert found[0] == found[1], (count, upto)
        assert await files.last("none", 5) == await memory.last("none", 5) == []


class Opens(Disk):
    """Says how many files were opened."""

    opened = 0

    def open_read(self, path: Path) -> int:
        self.opened += 1
        return super().open_read(path)


@pytest.mark.campaign  # it sleeps until a file is old enough
async def test_an_end_that_nobody_touched_is_not_read_again_and_whatever_is_done_to_it_is_seen(
    root: Path,
) -> None:
    async with Log(FileStorage(root)) as writer:
        await writer.append("chat", *(Noted(str(number)) for number in range(9)))
        disk = Opens()
        async with Log(FileStorage(root, disk=disk, read_only=True)) as reader:
            assert (await reader.head("chat")).seq == 9
            disk.opened = 0
            head = await reader.head("chat")
            assert (head.seq, disk.opened) == (9, 0)
            await asyncio.sleep(2.1)
            assert (await reader.head("chat"), disk.opened) == (head, 0)

            await writer.append("chat", Noted("more"))
            assert (await reader.head("chat")).seq == 10
            await asyncio.sleep(2.1)
            await reader.head("chat")
            await writer.redact("chat", 3)
            assert (await reader.head("chat")).seq == 11
            assert (await reader.last("chat", 9))[0].was
            await asyncio.sleep(2.1)
            await reader.head("chat")
            await writer.delete("chat")
            assert (await reader.head("chat")).seq == 0
