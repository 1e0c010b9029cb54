"""The pieces of a coming answer reach other storages on the same files, and nothing of them stays."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Log, Noted
from chatfold.eventlog.files import deltas
from chatfold.eventlog.files.disk import Disk

PIECES = [b"", b"\0\xff", *(b"%d" % number * (number % 9) for number in range(500)), b"x" * 3_000_000]


def answer_file(root: Path) -> Path:
    cache = root / "chats" / "a" / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    return cache / "answer"


async def first_of(storage: FileStorage) -> tuple[AsyncGenerator[bytes], bytes]:
    """A follower, and the first piece that it gets, when there is one."""
    async with asyncio.timeout(10):
        while True:
            follower = storage.follow_deltas("a")
            if (piece := await anext(follower, None)) is not None:
                return follower, piece
            await asyncio.sleep(0.01)


async def begin(root: Path, disk: Disk | None = None) -> FileStorage:
    storage = FileStorage(root, disk=disk)
    await Log(storage).append("a", Noted("one"))
    return storage


async def test_another_storage_gets_each_piece_from_the_first_on(tmp_path: Path) -> None:
    async with await begin(tmp_path) as one, FileStorage(tmp_path, read_only=True) as other:
        await one.pass_delta("a", b"The")
        early, piece = await first_of(other)
        assert piece == b"The"
        assert answer_file(tmp_path).stat().st_mode & 0o777 == 0o600
        for number, some in enumerate(PIECES):
            await one.pass_delta("a", some)
            if number % 50 == 0:
                await asyncio.sleep(0.001)
        late = other.follow_deltas("a")
        async with asyncio.timeout(20):
            assert [await anext(early) for _ in PIECES] == PIECES
            assert [await anext(late) for _ in range(len(PIECES) + 1)] == [b"The", *PIECES]
            ends = asyncio.gather(anext(early, None), anext(late, None))
            await one.end_deltas("a")
            assert not answer_file(tmp_path).exists()
            assert [*await ends] == [None, None]
        assert [piece async for piece in other.follow_deltas("a")] == []
        assert [entry.seq async for entry in Log(other).read("a")] == [1]


async def test_an_answer_that_stands_at_once_is_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "_PAUSE_S", 20.0)  # this machine may be slow
    made: list[str] = []

    class Watching(Disk):
        def create(self, path: Path) -> int:
            made.append(path.parent.name)
            return super().create(path)

    async with await begin(tmp_path, Watching()) as storage:
        made.clear()
        await storage.pass_delta("a", b"all of it")
        assert await anext(storage.follow_deltas("a")) == b"all of it"
        await storage.end_deltas("a")
    assert made == []


async def test_an_erasure_takes_the_pieces_along_and_the_answer_goes_on(tmp_path: Path) -> None:
    async with await begin(tmp_path) as one, FileStorage(tmp_path) as other:
        await one.pass_delta("a", b"The")
        follower, _ = await first_of(other)
        await Log(other).redact("a", 1)
        assert not answer_file(tmp_path).exists()
        await one.pass_delta("a", b" answer")
        assert await anext(follower) == b" answer"
        await one.end_deltas("a")
        assert await anext(follower, None) is None


async def test_writers_that_open_the_chat_leave_a_coming_answer_alone(tmp_path: Path) -> None:
    async with await begin(tmp_path) as one, FileStorage(tmp_path) as other:
        await one.pass_delta("a", b"The")
        await first_of(other)
        await Log(other).append("a", Noted("two"))
        assert answer_file(tmp_path).is_file()


@pytest.mark.parametrize("left", [b"", b"\0", b"\0\0\0\3The", b"\xff\xff\xff\xffThe"])
async def test_what_a_killed_process_left_is_no_answer_and_is_replaced(tmp_path: Path, left: bytes) -> None:
    async with await begin(tmp_path) as one, FileStorage(tmp_path) as other:
        answer_file(tmp_path).write_bytes(left)
        assert [piece async for piece in other.follow_deltas("a")] == []
        await one.pass_delta("a", b"new")
        assert (await first_of(other))[1] == b"new"


async def test_what_is_planted_there_is_not_followed(tmp_path: Path) -> None:
    async with await begin(tmp_path) as storage:
        os.mkfifo(answer_file(tmp_path))
        assert [piece async for piece in storage.follow_deltas("a")] == []
        answer_file(tmp_path).unlink()
        (tmp_path / "secret").write_bytes(b"\0\0\0\1x")
        answer_file(tmp_path).symlink_to(tmp_path / "secret")
        assert [piece async for piece in storage.follow_deltas("a")] == []


async def test_a_disk_that_refuses_keeps_the_answer_in_this_process(tmp_path: Path) -> None:
    class Full(Disk):
        def create(self, path: Path) -> int:
            raise OSError(28, "no space left on device")

    async with await begin(tmp_path) as one, FileStorage(tmp_path) as other:
        one._disk = Full()
        await one.pass_delta("a", b"The")
        await asyncio.sleep(0.1)
        await one.pass_delta("a", b" answer")
        assert [piece async for piece in other.follow_deltas("a")] == []
        here = one.follow_deltas("a")
        assert [await anext(here), await anext(here)] == [b"The", b" answer"]
        await one.end_deltas("a")
        assert await anext(here, None) is None


async def test_a_storage_that_is_closed_ends_its_answers(tmp_path: Path) -> None:
    async with FileStorage(tmp_path) as other:
        async with await begin(tmp_path) as one:
            await one.pass_delta("a", b"The")
            follower, _ = await first_of(other)
        assert await anext(follower, None) is None
        assert not answer_file(tmp_path).exists()
