"""grep finds exactly the entries that hold a text, however it was written: escaped, as a reference, in a blob."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    CorruptLog,
    Event,
    FileStorage,
    Log,
    MemoryStorage,
    MessageAdded,
    Noted,
    Storage,
    Text,
    ToolReturned,
    Unknown,
)
from chatfold.testing.strategies import LARGE_TEXT, LONG_TEXTS, batches


def say(text: str) -> MessageAdded:
    return MessageAdded("user", (Text(text),))


def strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Unknown():
            return
        case msgspec.Struct():
            for field in msgspec.structs.fields(value):
                if "Literal" not in str(field.type) and getattr(value, field.name) != field.default:
                    yield from strings(getattr(value, field.name))
        case dict():
            yield from (string for pair in value.items() for one in pair for string in strings(one))
        case list() | tuple():
            yield from (string for one in value for string in strings(one))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[Event, ...]], str]:
    """A history, and a piece of one of its texts; or a text that need not be in it."""
    history = draw(st.lists(batches(), min_size=1, max_size=6))
    if draw(st.booleans()):  # said again: written as a reference
        again = draw(st.sampled_from(LONG_TEXTS))
        history += [(say(again),), (Noted("n", {again: [again, 1.5]}),)]
    texts = [text for batch in history for event in batch for text in strings(event) if text]
    whole = draw(st.sampled_from(texts) if texts else st.text(min_size=1))
    start = draw(st.integers(0, len(whole) - 1))
    piece = whole[start : start + draw(st.integers(1, 40))]
    return history, draw(st.sampled_from((piece, piece, piece, whole, "seq", "text", "user", "n", "u00")))


@given(histories(), st.integers(0, 30), st.booleans(), st.sampled_from((16, 500, 1 << 18)))
def test_grep_is_what_a_look_at_every_entry_gives(
    given_history: tuple[list[tuple[Event, ...]], str], at: int, erase: bool, piece: int
) -> None:
    history, text = given_history

    async def check(storage: Storage) -> None:
        async with Log(storage) as log:
            for batch in history:
                await log.append("chat", *batch)
            seq = 1 + at % (await log.head("chat")).seq
            await log.fork("chat", "fork", seq)
            if erase:
                await log.redact("fork", seq)
            for chat in ("chat", "fork"):
                naive = [
                    entry.seq
                    async for entry in log.read(chat)
                    if any(text in string for string in strings(entry.event))
                ]
                assert await log.grep(chat, text) == naive

    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch("chatfold.eventlog.files.segment.PAGE", piece),
    ):
        asyncio.run(check(FileStorage(Path(root), segment_bytes=2000, durability="off")))
    asyncio.run(check(MemoryStorage()))


@pytest.fixture(params=["files", "memory"])
def storage(request: pytest.FixtureRequest, root: Path) -> Storage:
    return FileStorage(root, segment_bytes=2000) if request.param == "files" else MemoryStorage()


async def test_a_text_is_found_where_it_was_said_again_and_where_it_is_kept_in_a_file_of_its_own(
    storage: Storage,
) -> None:
    long = "said twice. " * 100 + "the needle\n\x7f\ud800 it is"
    async with Log(storage) as log:
        await log.append("chat", say(long))
        await log.append("chat", *(say(f"filler {number} " * 20) for number in range(20)))
        await log.append("chat", ToolReturned("c", (Text(long),)))
        await log.append("chat", say(LARGE_TEXT + "the needle\n\x7f\ud800 it is" + LARGE_TEXT))
        assert await log.grep("chat", "needle\n\x7f\ud800 it") == [1, 22, 23]
        assert await log.grep("chat", "needle\n\x7f\ud800  it") == []
        assert await log.grep("chat", "filler 7") == [9]
        assert await log.grep("elsewhere", "needle") == []


async def test_names_of_fields_types_roles_and_the_envelope_are_not_what_was_said(storage: Storage) -> None:
    async with Log(storage) as log:
        await log.append("chat", say("hello\nnumber"), id="an-id", run="a-run")
        await log.append("chat", Noted("event", {"role": "a user"}))
        for text in ("seq", "message_added", "an-id", "a-run", "text", "parts", "nn", "chatfold", '"'):
            assert await log.grep("chat", text) == [], text
        assert await log.grep("chat", "user") == [2]
        assert await log.grep("chat", "role") == [2]
        assert await log.grep("chat", "event") == [2]
        assert await log.grep("chat", "o\nn") == [1]


async def test_what_was_erased_is_not_found_and_nothing_is_not_looked_for(storage: Storage) -> None:
    async with Log(storage) as log:
        await log.append("chat", say("the password is swordfish"), say("and the other one, too"))
        await log.fork("chat", "fork")
        await log.redact("chat", 1)
        assert await log.grep("chat", "swordfish") == []
        assert await log.grep("fork", "swordfish") == []
        assert await log.grep("fork", "other") == [2]
        with pytest.raises(ValueError, match="nothing to look for"):
            await log.grep("chat", "")


async def test_a_damaged_line_is_told_whether_it_seems_to_hold_it_or_not(root: Path) -> None:
    async with Log(FileStorage(root, segment_bytes=2000)) as log:
        for number in range(40):
            await log.append("chat", say(f"number {number} of many"))
    segment = min((root / "chats" / "chat").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b"number 3 of", b"number 3 or"))
    async with Log(FileStorage(root, read_only=True)) as log:
        for text in ("number 4 of", "3 or"):
            with pytest.raises(CorruptLog, match="does not verify") as caught:
                await log.grep("chat", text)
            assert caught.value.path == segment
