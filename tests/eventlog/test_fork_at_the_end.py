"""A fork at the end of a log: the parent's segment ends there and is shared, unless it is short."""

import errno
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Log, Noted, check, scan
from chatfold.eventlog.files.disk import Disk
from tests.support.disk.faulty_disk import ReadDisk

SEGMENT_BYTES = 1 << 18
SHORT = SEGMENT_BYTES // 32
LINE = "x" * 900


def opened(root: Path, disk: Disk | None = None) -> Log:
    return Log(FileStorage(root, segment_bytes=SEGMENT_BYTES, disk=disk))


async def say(log: Log, chat: str, number: int) -> None:
    for index in range(number):
        await log.append(chat, Noted("said", {"text": f"{index} {LINE}"}), durability="off")


def segments(root: Path, chat: str) -> list[Path]:
    return sorted((root / "chats" / chat).glob("*.jsonl"))


def is_sealed(segment: Path) -> bool:
    return segment.read_bytes().splitlines()[-1].startswith(b'{"seal":')


def said(root: Path, chat: str) -> list[str]:
    assert check(root / "chats" / chat).ok
    return [repr(entry.event) for entry in scan(root / "chats" / chat)]


async def test_everything_is_shared_and_both_go_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        await say(log, "chat", 300)
        await log.fork("chat", "fork")
        mine, theirs = segments(tmp_path, "chat"), segments(tmp_path, "fork")
        assert [path.stat().st_ino for path in mine] == [path.stat().st_ino for path in theirs[:-1]]
        assert is_sealed(mine[-1])
        assert theirs[-1].name == "0000000000000301.jsonl"
        await say(log, "chat", 1)
        await say(log, "fork", 2)
    assert [path.name for path in segments(tmp_path, "chat")] == [path.name for path in theirs]
    assert len(said(tmp_path, "chat")) == 301
    assert said(tmp_path, "fork")[:300] == said(tmp_path, "chat")[:300]
    assert len(said(tmp_path, "fork")) == 303


async def test_a_short_segment_is_copied_and_stays_open(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        await say(log, "chat", SHORT // 2000)
        for number in range(3):
            await log.fork("chat", f"fork{number}")
        [segment] = segments(tmp_path, "chat")
        assert not is_sealed(segment)
        assert segment.stat().st_nlink == 1


async def test_many_forks_at_one_point_end_one_segment(tmp_path: Path) -> None:
    async with opened(tmp_path) as log, opened(tmp_path) as other:
        await say(log, "chat", 50)
        for number in range(4):
            await (log, other)[number % 2].fork("chat", f"fork{number}")
        [segment] = segments(tmp_path, "chat")
        assert segment.stat().st_nlink == 5
        await log.fork("fork0", "grandchild")
    assert said(tmp_path, "grandchild")[:50] == said(tmp_path, "chat")


async def test_writers_and_readers_who_have_the_segment_open_go_on_after_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as log, opened(tmp_path) as other:
        await say(log, "chat", 50)
        await say(other, "chat", 1)
        followed = log.follow("chat", after=50)
        assert (await anext(followed)).seq == 51
        await log.fork("chat", "fork")
        await say(other, "chat", 1)
        await say(log, "chat", 1)
        assert [(await anext(followed)).seq, (await anext(followed)).seq] == [52, 53]
        assert [entry.seq for entry in await log.last("chat", 3)] == [51, 52, 53]
    assert [path.name for path in segments(tmp_path, "chat")] == [
        "0000000000000001.jsonl",
        "0000000000000052.jsonl",
    ]
    assert len(said(tmp_path, "chat")) == 53


async def test_an_entry_of_a_shared_segment_is_erased_in_both(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        await say(log, "chat", 50)
        await log.fork("chat", "fork")
        await log.redact("chat", 7)
    for chat in ("chat", "fork"):
        assert is_sealed(segments(tmp_path, chat)[0])
        assert LINE not in said(tmp_path, chat)[6]


async def test_a_chat_that_ends_in_a_full_segment_is_opened_without_reading_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        await say(log, "chat", 250)
        await log.fork("chat", "fork")
    disk = ReadDisk()
    async with opened(tmp_path, disk) as log:
        assert (await log.head("chat")).seq == 250
    assert disk.read < 20_000


class Unchangeable(Disk):
    """The parent's files may be read, and no more."""

    def open_append(self, path: Path) -> int:
        raise PermissionError(errno.EACCES, "may not be changed", str(path))


async def test_a_parent_that_may_only_be_read_is_copied(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        await say(log, "chat", 50)
    async with opened(tmp_path, Unchangeable()) as log:
        await log.fork("chat", "fork")
    assert not is_sealed(segments(tmp_path, "chat")[0])
    assert len(said(tmp_path, "fork")) == 51


class Full(Disk):
    """There is no room for the seal."""

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if bytes(data[:8]) == b'{"seal":':
            raise OSError(errno.ENOSPC, "no space left")
        return super().write(fd, data)


async def test_without_room_for_the_end_nothing_is_changed(tmp_path: Path) -> None:
    async with opened(tmp_path, Full()) as log:
        await say(log, "chat", 50)
        with pytest.raises(Exception, match="no space left"):
            await log.fork("chat", "fork")
        await say(log, "chat", 1)
    assert not (tmp_path / "chats" / "fork").exists()
    assert len(said(tmp_path, "chat")) == 51


async def test_an_append_never_goes_into_a_file_that_a_fork_shares(tmp_path: Path) -> None:
    """The seal of the shared segment is lost: the parent goes on in a file of its own."""
    async with Log(FileStorage(tmp_path, segment_bytes=1500)) as log:
        for size in (900, 900, 900):
            await log.append("a", Noted("x" * size))
        await log.fork("a", "fork")
    shared = max(path for path in (tmp_path / "chats" / "a").glob("*.jsonl") if path.stat().st_nlink > 1)
    data = shared.read_bytes()
    shared.write_bytes(data[: data.rindex(b'{"seal"')])
    for path in (tmp_path / "chats" / "a").glob("*.jsonl"):
        if path.name > shared.name:
            path.unlink()
    before = shared.stat().st_ino
    async with Log(FileStorage(tmp_path)) as log:
        await log.append("a", Noted("after"))
        assert shared.stat().st_ino != before
        assert b"after" not in (tmp_path / "chats" / "fork" / shared.name).read_bytes()
        entries = [entry async for entry in log.read("fork")]
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
