"""An export is the chat: from any storage, into any storage, cut into any pieces; all of it or nothing."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    ChatfoldError,
    Event,
    IdConflict,
    Log,
    MemoryStorage,
    NoSuchPoint,
    Noted,
    Storage,
    Text,
    ToolReturned,
    check,
)
from chatfold.eventlog.codec import parse_references
from chatfold.testing.strategies import LONG_TEXTS, batches, names, same_entries
from tests.support.exporting import LARGE, TINY, adopt, exported, opened, pieces, read, scratch, traces
from tests.support.profile import searched

DIRECTIONS = [(source, target) for source in ("files", "memory") for target in ("files", "memory")]
seqs = st.integers(0, 12)


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch() as path:
        yield path


# --- what comes out is the same chat ------------------------------------------------------------------------


class Appended:
    """A step of a history; ``repr`` stays short."""

    def __init__(self, events: tuple[Event, ...], run: str | None, id: str | None) -> None:
        self.events, self.run, self.id = events, run, id

    async def __call__(self, log: Log, chat: str) -> str:
        await log.append(chat, *self.events, run=self.run, id=self.id)
        return chat


class Cut:
    """The history goes on in a fork."""

    def __init__(self, at: int) -> None:
        self.at = at

    async def __call__(self, log: Log, chat: str) -> str:
        await log.fork(chat, chat + "+", self.at)
        return chat + "+"


class Erased:
    def __init__(self, seqs: list[int]) -> None:
        self.seqs = seqs

    async def __call__(self, log: Log, chat: str) -> str:
        await log.redact(chat, *self.seqs)
        return chat


Step = Appended | Cut | Erased
maybe_names = st.none() | names()
appends = st.builds(Appended, batches(), maybe_names, maybe_names)
repeats = st.builds(lambda text: Appended((Noted("again", text),), None, None), st.sampled_from(LONG_TEXTS))
large = st.just(Appended((LARGE, Noted("with it")), None, "large"))
steps = st.lists(
    st.one_of(appends, appends, repeats, large, st.builds(Cut, seqs), st.builds(Erased, st.lists(seqs, max_size=2))),
    max_size=7,
)  # fmt: skip


async def lived(log: Log, history: list[Step], chat: str = "chat") -> str:
    """The chat in which the history ends. Steps that are not possible there are refused."""
    for step in history:
        with suppress(IdConflict, NoSuchPoint):
            chat = await step(log, chat)
    return chat


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
@searched(1 / 4)
@given(before=steps, after=steps, cuts=st.lists(st.floats(0, 1), max_size=4))
def test_an_adopted_chat_is_the_same_and_goes_on_the_same(
    source: str, target: str, before: list[Step], after: list[Step], cuts: list[float]
) -> None:
    async def law(one: Log, other: Log) -> None:
        await one.append("chat", Noted("first"), id="first")
        chat = await lived(one, before)
        data = await exported(one.storage, chat)
        await adopt(other.storage, chat, data, [round(cut * len(data)) for cut in cuts])
        assert await other.head(chat) == await one.head(chat)
        assert same_entries(await read(one, chat), await read(other, chat), sums=True)
        assert await exported(other.storage, chat) == data
        # What was said and which ids were used is known: whatever comes next is written in the same bytes.
        for relative in [key async for key in one.chats() if key != chat]:
            await one.delete(relative)  # erasing would spread to it
        ends = [await lived(log, [*before, *after], chat) for log in (one, other)]
        assert ends[0] == ends[1]
        assert await exported(one.storage, ends[0]) == await exported(other.storage, ends[0])

    async def run() -> None:
        with scratch() as here, scratch() as there:
            async with opened(source, here) as one, opened(target, there) as other:
                await law(one, other)
            for folder in there.glob("chats/*"):
                assert check(folder).problems == []

    asyncio.run(run())


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
async def test_ids_and_texts_from_before_the_export_are_known_after_it(
    root: Path, source: str, target: str
) -> None:
    result = ToolReturned("c", (Text(LONG_TEXTS[0]),))
    async with opened(source, root / "one") as one, opened(target, root / "two") as two:
        first = await one.append("chat", result, Noted("n"), id="tg-1")
        await adopt(two.storage, "copy", await exported(one.storage, "chat"))
        assert await two.append("copy", result, Noted("n"), id="tg-1") == first
        with pytest.raises(IdConflict):
            await two.append("copy", Noted("other"), id="tg-1")
        [again] = await two.append("copy", result)
        assert again.event == result
        last = (await exported(two.storage, "copy")).split(b"\n")[-3]
        assert parse_references(last)[0] == {1}


async def test_an_export_may_be_cut_into_any_pieces(root: Path) -> None:
    storage = MemoryStorage()
    for cut in range(len(TINY)):
        await adopt(storage, f"at {cut}", TINY, [cut])
    await adopt(storage, "byte by byte", TINY, range(len(TINY)))
    async with opened("files", root) as log:
        await adopt(log.storage, "byte by byte", TINY, range(len(TINY)))
        assert await exported(log.storage, "byte by byte") == TINY
    assert {await exported(storage, chat) async for chat in Log(storage).chats()} == {TINY}


async def test_a_long_line_in_tiny_pieces_takes_no_longer_than_it_must(root: Path) -> None:
    async with opened("memory", root) as log:
        await log.append("chat", LARGE)
        data = await exported(log.storage, "chat")
        await asyncio.wait_for(adopt(log.storage, "copy", data, range(0, len(data), 7)), 20)


async def test_a_reference_to_an_earlier_segment_is_followed(root: Path) -> None:
    async with opened("memory", root) as source, opened("files", root) as target:
        for number in range(20):
            await source.append("chat", Noted("n", [number, LONG_TEXTS[number % 2], "x" * 400]))
        await adopt(target.storage, "chat", await exported(source.storage, "chat"))
        assert same_entries(await read(source, "chat"), await read(target, "chat"), sums=True)
        assert len(await target.storage.segment_boundaries("chat")) > 2


async def test_segments_are_cut_anew_and_no_batch_is_cut(root: Path) -> None:
    async with opened("memory", root) as source, opened("files", root) as target:
        for number in range(20):
            await source.append("chat", *(Noted("n", [number, "x" * 90]) for _ in range(7)))
        await adopt(target.storage, "chat", await exported(source.storage, "chat"))
        starts = [int(path.stem) for path in sorted((root / "chats" / "chat").glob("*.jsonl"))]
        assert len(starts) > 5
        assert all(start % 7 == 1 for start in starts)


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_what_is_erased_in_a_chat_is_erased_in_its_copy_too(root: Path, kind: str) -> None:
    async with opened(kind, root) as log:
        await log.append("chat", Noted("n", "swordfish"), LARGE)
        await log.storage.import_chat("copy", log.storage.export("chat"))
        await log.append("copy", Noted("n", "swordfish"))  # it is not the same entry
        assert await log.redact("chat", 1, 2) == {"chat": [1, 2], "copy": [1, 2]}
        assert [entry.was is not None for entry in await read(log, "copy")] == [True, True, False, False]


# --- cut short, or changed on the way ------------------------------------------------------------------------


async def refused(storage: Storage, data: bytes) -> ChatfoldError:
    with pytest.raises(ChatfoldError) as caught:
        await storage.import_chat("chat", pieces(data))
    return caught.value


def line_start(data: bytes, place: int) -> int:
    return data.rfind(b"\n", 0, place) + 1


async def test_an_export_cut_at_any_byte_is_refused_where_it_ends(root: Path) -> None:
    async with opened("files", root) as log, opened("memory", root) as memory:
        for size in range(len(TINY)):
            for storage in (log.storage, memory.storage):
                assert (await refused(storage, TINY[:size])).offset == line_start(TINY, size)
            assert not traces(root)
        await adopt(log.storage, "chat", TINY)


async def test_an_export_with_any_bit_flipped_is_refused_at_that_line(root: Path) -> None:
    async with opened("files", root) as log, opened("memory", root) as memory:
        for place in range(len(TINY)):
            for bit in range(8):
                wrong = bytearray(TINY)
                wrong[place] ^= 1 << bit
                error = await refused(memory.storage, bytes(wrong))
                assert error.offset == line_start(TINY, place), (place, bit)
            assert (await refused(log.storage, bytes(wrong))).offset == line_start(TINY, place)
            assert not traces(root)


@pytest.mark.campaign
async def test_a_large_export_that_is_cut_or_changed_is_refused_and_leaves_nothing(root: Path) -> None:
    async with opened("memory", root) as source, opened("files", root) as target:
        for number in range(9):
            await source.append("chat", LARGE, Noted("n", number))
        await source.redact("chat", 4)
        data = await exported(source.storage, "chat")
        for place in range(0, len(data), len(data) // 23):
            wrong = bytes([data[place] ^ 1])
            for broken in (data[:place], data[:place] + wrong + data[place + 1 :]):
                assert (await refused(target.storage, broken)).offset is not None
                assert not traces(root)
        await adopt(target.storage, "chat", data)


async def test_a_source_that_fails_halfway_leaves_nothing(root: Path) -> None:
    async def broken() -> Any:
        yield TINY[:200]
        raise ConnectionResetError

    for kind in ("files", "memory"):
        async with opened(kind, root) as log:
            with pytest.raises(ConnectionResetError):
                await log.storage.import_chat("chat", broken())
            assert [chat async for chat in log.chats()] == []
            assert not traces(root)
