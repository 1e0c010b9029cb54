"""A chat is searched as it is now: whatever was appended, forked, erased, deleted, or done to the index."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
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


@given(damage=st.sampled_from(("delete", "truncate", "flip")), at=st.floats(0, 1, exclude_max=True))
async def test_a_damaged_index_is_made_again(
    tmp_path_factory: pytest.TempPathFactory, damage: str, at: float
) -> None:
    root = tmp_path_factory.mktemp("store")
    async with Log(FileStorage(root, durability="off")) as log:
        await log.append("chat", *(say(f"needle {number}") for number in range(40)))
        assert len(await log.search("chat", "needle", limit=100)) == 40
    for path in root.glob("chats/chat/cache/search*"):
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[int(at * len(content))] ^= 1
        path.write_bytes(content if damage == "flip" else content[: int(at * len(content))])
    if damage == "delete":
        shutil.rmtree(root / "chats/chat/cache")
    async with Log(FileStorage(root)) as log:
        assert len(await log.search("chat", "needle", limit=100)) == 40


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
