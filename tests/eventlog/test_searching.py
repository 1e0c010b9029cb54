"""A chat is searched as it is now: whatever was appended, forked, erased or deleted; newest first, and no further than asked."""

import asyncio
import os
import tempfile
import threading
from pathlib import Path
from unittest import mock

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
    Storage,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.search import Query, parse_exact, parse_words
from chatfold.testing.strategies import same
from tests.eventlog.test_grepping import histories


def say(text: str) -> MessageAdded:
    return MessageAdded("user", (Text(text),))


@pytest.fixture(params=["files", "memory"])
def storage(request: pytest.FixtureRequest, root: Path) -> Storage:
    return FileStorage(root, segment_bytes=2000) if request.param == "files" else MemoryStorage()


async def found(log: Log, query: str, chat: str = "chat") -> list[int]:
    return sorted(hit.seq for hit in await log.search(chat, query))


async def test_everything_that_was_said_is_found_by_words_and_parts_of_words(storage: Storage) -> None:
    async with Log(storage) as log:
        await log.append("chat", say("Why does the lexer drop newlines?"))
        await log.append("chat", ToolCalled("c1", "read_file", {"path": "lexer.py"}))
        await log.append("chat", ToolReturned("c1", (Text("return text.split()"),)), say("部署脚本在哪里"))
        assert await found(log, "LEXER") == [1, 2]
        assert await found(log, "exer") == [1, 2]
        assert await found(log, "split") == [3]
        assert await found(log, "脚本") == [4]
        assert await found(log, "lexer newlines") == [1]
        assert await found(log, "nothing of this") == []


async def test_what_comes_later_is_found_too(storage: Storage) -> None:
    async with Log(storage) as log:
        for number in range(30):
            await log.append("chat", say(f"number {number}"))
            assert (await log.search("chat", f"number {number}", limit=1))[0].seq == number + 1


async def test_the_newest_come_first_and_a_limit_takes_these(storage: Storage) -> None:
    async with Log(storage) as log:
        for number in range(120):
            await log.append("chat", say(f"{'needle ' * (number % 5)} {number} {'hay ' * 20}"))
        newest = [seq for seq in range(120, 0, -1) if (seq - 1) % 5]
        for limit in (0, 1, 5, 90, 1000):
            assert [hit.seq for hit in await log.search("chat", "needle", limit=limit)] == newest[:limit]


async def test_what_was_erased_is_not_found_any_more(storage: Storage) -> None:
    async with Log(storage) as log:
        await log.append("chat", say("the password is swordfish"), say("and the other one, too"))
        assert await found(log, "swordfish") == [1]
        await log.redact("chat", 1)
        assert await found(log, "swordfish") == []
        assert await found(log, "other") == [2]


async def test_a_fork_finds_what_it_inherited_and_what_it_says_itself(storage: Storage) -> None:
    async with Log(storage) as log:
        await log.append("chat", *(say(f"inherited {number}") for number in range(20)))
        assert len(await found(log, "inherited")) == 20
        await log.fork("chat", "fork", 10)
        await log.append("fork", say("inherited nothing"))
        await log.append("chat", say("of the parent alone"))
        assert await found(log, "inherited", "fork") == [*range(1, 11), 12]
        assert await found(log, "alone", "fork") == []


async def test_a_chat_that_took_the_place_of_another_is_searched_alone(storage: Storage) -> None:
    async with Log(storage) as log:
        await log.append("chat", say("of the old one"))
        assert await found(log, "old") == [1]
        await log.delete("chat")
        assert await found(log, "old") == []
        await log.append("chat", say("of the new one"), say("and more"))
        assert (await found(log, "old"), await found(log, "new")) == ([], [1])


async def test_spans_can_be_left_out(storage: Storage) -> None:
    async with Log(storage) as log:
        await log.append("chat", *(say(f"word {number}") for number in range(9)))
        hits = await log.search("chat", "word", without=((2, 4), (6, 8)))
        assert sorted(hit.seq for hit in hits) == [1, 5, 9]


async def test_a_query_without_words_says_so(storage: Storage) -> None:
    async with Log(storage) as log:
        await log.append("chat", say("words"))
        for query in ("", "  ", "?!"):
            with pytest.raises(ValueError, match="nothing to search for"):
                await log.search("chat", query)


async def test_a_read_only_store_is_searched_without_a_trace(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        await log.append("chat", say("a needle"))
    before = sorted(root.rglob("*"))  # noqa: ASYNC240
    async with Log(FileStorage(root, read_only=True)) as log:
        assert await found(log, "needle") == [1]
    assert sorted(root.rglob("*")) == before  # noqa: ASYNC240


def queries(text: str) -> list[Query]:
    found = [parse_exact(text)]
    for words in (text, text.swapcase(), f'"{text}"', f"{text} e"):
        try:
            found.append(parse_words(words))
        except ValueError:
            continue
    return found


@given(histories(), st.integers(0, 30), st.booleans(), st.sampled_from((16, 500, 1 << 18)), st.data())
def test_the_bytes_answer_as_a_look_at_every_entry_does(
    given_history: tuple[list[tuple[Event, ...]], str], at: int, erase: bool, piece: int, data: st.DataObject
) -> None:
    history, text = given_history
    without = data.draw(st.lists(st.tuples(st.integers(-1, 12), st.integers(-1, 12)), max_size=2))

    async def check(root: Path, storage: FileStorage) -> None:
        async with Log(storage) as log:
            for batch in history:
                await log.append("chat", *batch)
            seq = 1 + at % (await log.head("chat")).seq
            await log.fork("chat", "fork", seq)
            if erase:
                await log.redact("fork", seq)
        torn = max((root / "chats" / "chat").glob("*.jsonl"))  # an append that did not finish
        torn.write_bytes(torn.read_bytes() + b'{"seq":99,"ts":0,"event":{"type":"noted","name":"eeee')
        async with FileStorage(root, read_only=True) as storage:
            for chat in ("chat", "fork", "none"):
                for query in queries(text):
                    law = [entry async for entry in Storage.search(storage, chat, query, without)]
                    quick = [entry async for entry in storage.search(chat, query, without)]
                    assert list(map(same, quick, law)) == [True] * len(law) == [True] * len(quick)

    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch("chatfold.eventlog.files.segment.PAGE", piece),
    ):
        asyncio.run(check(Path(root), FileStorage(root, segment_bytes=2000, durability="off")))


words = st.lists(
    st.sampled_from(("hay", "needle", "\uff4e\uff45edle", "ne\u0301edle", "Ⓝeedle", "…", "。", "n\x7f")),
    max_size=3,
)


async def write(root: Path, texts: list[list[str]]) -> None:
    """Always the same store, except for the texts."""
    with mock.patch("os.urandom", lambda size: b"0" * size):
        async with Log(FileStorage(root, segment_bytes=400, durability="off", clock=lambda: 0)) as log:
            for said in texts:
                await log.append("chat", say(" ".join(said)), say("hay" * 99))


def put(new: bytes, old: Path, how: str) -> None:
    if how == "in place":
        old.write_bytes(new)
        return
    if how == "deleted":
        old.unlink()
    other = old.with_suffix(".new")
    other.write_bytes(new)
    os.utime(other, ns=(0, 0))  # as a copy that keeps the times
    other.replace(old)


@given(
    st.lists(words, min_size=4, max_size=4), st.data(), st.sampled_from(("in place", "deleted", "by another"))
)
def test_what_is_known_of_segments_changes_no_answer_when_they_change(
    before: list[list[str]], data: st.DataObject, how: str
) -> None:
    """The segments become those of another history, as of a backup; or the chat is erased, or deleted and written again."""
    after = [
        data.draw(st.permutations(said)) if data.draw(st.booleans()) else data.draw(words) for said in before
    ]
    erased = data.draw(st.sets(st.integers(1, 8), max_size=2))
    queries = [parse_words("needle"), parse_words("…edle hay"), parse_exact("needle"), parse_exact("\x7f")]

    async def agree(warm: FileStorage, root: Path) -> None:
        async with FileStorage(root, read_only=True) as fresh:
            for query in queries:
                law = [entry async for entry in Storage.search(fresh, "chat", query)]
                assert list(map(same, [entry async for entry in warm.search("chat", query)], law)) == [
                    True
                ] * len(law)

    async def check(root: Path, other: Path) -> None:
        await write(root, before)
        await write(other, after)
        async with FileStorage(root) as warm:
            await agree(warm, root)
            assert warm._oddities._known
            for new in (other / "chats" / "chat").glob("*.jsonl"):
                put(new.read_bytes(), root / "chats" / "chat" / new.name, how)
            await agree(warm, root)
            if erased:
                await warm.redact("chat", erased)
                await agree(warm, root)
            await warm.delete("chat")
            await write(root, before)
            await agree(warm, root)

    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as other:
        asyncio.run(check(Path(root), Path(other)))


@pytest.mark.parametrize("segment_bytes", [2000, 1 << 20])
async def test_a_hit_that_damage_hides_is_told(root: Path, segment_bytes: int) -> None:
    async with Log(FileStorage(root, segment_bytes=segment_bytes)) as log:
        for number in range(40):
            await log.append("chat", say("needle" if number == 3 else f"hay {number} {'hay ' * 40}"))
    oldest = root / "chats" / "chat" / "0000000000000001.jsonl"
    oldest.write_bytes(oldest.read_bytes().replace(b"needle", b"needlf"))
    async with Log(FileStorage(root, read_only=True)) as log:
        with pytest.raises(CorruptLog, match="does not verify"):
            await log.search("chat", "needle")


async def test_a_search_that_has_enough_reads_no_more(root: Path) -> None:
    async with Log(FileStorage(root, segment_bytes=2000)) as log:
        for number in range(40):
            await log.append("chat", say(f"needle {number} {'hay ' * 40}"))
    oldest = root / "chats" / "chat" / "0000000000000001.jsonl"
    oldest.write_bytes(oldest.read_bytes().replace(b"needle 0", b"needle O"))
    async with Log(FileStorage(root, read_only=True)) as log:
        assert [hit.seq for hit in await log.search("chat", "needle", limit=3)] == [40, 39, 38]
        with pytest.raises(CorruptLog, match="does not verify"):
            await log.search("chat", "needle", limit=40)


class Held(Disk):
    """One chat's log is read only when it is let go."""

    def __init__(self) -> None:
        self.reading = threading.Event()
        self.let_go = threading.Event()
        self.waited = True

    def open_read(self, path: Path) -> int:
        if path.suffix == ".jsonl" and path.parent.name == "long":
            self.reading.set()
            self.waited &= self.let_go.wait(5)
        return super().open_read(path)


async def test_a_search_does_not_wait_for_the_first_one_of_another_chat(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        for chat in ("long", "short"):
            await log.append(chat, say("a word"))
    disk = Held()
    async with Log(FileStorage(root, disk=disk)) as log:
        long = asyncio.create_task(log.search("long", "word"))
        await asyncio.to_thread(disk.reading.wait, 10)
        assert len(await log.search("short", "word")) == 1
        disk.let_go.set()
        assert len(await long) == 1
        assert disk.waited
