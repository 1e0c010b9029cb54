"""Padding: the room at the end of a segment that is synced again and again, and what must hold while it is there."""

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatfold.eventlog.files
from chatfold.eventlog import DiskFull, FileStorage, Log, Noted, check, scan
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.segment_writer import _BUSY, _PADDED, _PADDING
from tests.support.disk.faulty_disk import SmallDisk

SEGMENT = 1 << 17
FROM, MOST = SEGMENT // _PADDED, SEGMENT // _PADDING
TEXT = "x" * 100


def opened(root: Path, disk: Disk | None = None) -> Log:
    return Log(FileStorage(root, disk=disk, segment_bytes=SEGMENT))


def last_segment(root: Path, chat: str = "chat") -> Path:
    return max((root / "chats" / chat).glob("*.jsonl"))


def padding(root: Path) -> int:
    """Bytes of it. Whatever is before it are lines."""
    data = last_segment(root).read_bytes()
    lines = data.rstrip(b"\n") + b"\n"
    assert b"\n\n" not in lines
    return len(data) - len(lines)


async def say(log: Log, names: Sequence[object], durability: str = "full", text: str = TEXT) -> None:
    for name in names:
        await log.append("chat", Noted(str(name), text), durability=durability)  # type: ignore[arg-type]


async def pad(log: Log, root: Path) -> list[str]:
    """Append until there is padding. What was said."""
    said: list[str] = []
    while not said or not padding(root):
        said.append(str(len(said)))
        await say(log, said[-1:])
    return said


def said_in(root: Path) -> list[str]:
    return [entry.event.name for entry in scan(root / "chats" / "chat") if isinstance(entry.event, Noted)]


# --- where padding must be thought of --------------------------------------------------------------------

SIZES = {
    "cache": "a cache has no padding",
    "check": "how many bytes are torn",
    "continuity": "the ends of a full segment, which has none",
    "disk": "all of a small file, and how a file looks",
    "listing": "how a segment looks, with its times: within room, only these change",
    "log_end": "is there anything after the lines? Then it is read and judged",
    "offsets": "of a full segment",
    "reader": "is there much to read? And the end of a full segment",
    "recovery": "what follows the lines, to be judged",
    "seal": "the end of a full segment; of another, no seal stands there",
    "segment_writer": "how much room there is",
}
"""Who looks at the size of a file, and why that is not the end of the log."""


def test_nobody_takes_the_size_of_a_segment_for_the_end_of_the_log() -> None:
    files = Path(chatfold.eventlog.files.__file__).parent
    found = {path.stem for path in files.glob("*.py") if "st_size" in path.read_text()}
    assert found == SIZES.keys(), "say above why padding does no harm there"


# --- who pads, how much, and until when ------------------------------------------------------------------


async def test_a_short_chat_is_as_long_as_its_lines(root: Path) -> None:
    async with opened(root) as log:
        for number in range(50):
            await log.append("chat", Noted(str(number)))
            size = last_segment(root).stat().st_size
            if size >= FROM:
                break
            assert not padding(root)
        assert number > _BUSY


async def test_a_chat_that_is_synced_again_and_again_has_room_at_its_end(root: Path) -> None:
    async with opened(root) as log:
        said = await pad(log, root)
        sizes = set()
        for number in range(200):
            said.append(f"more {number}")
            await say(log, said[-1:])
            sizes.add(last_segment(root).stat().st_size)
            assert padding(root) <= MOST
        assert len(sizes) < 60
        assert said_in(root) == said
        assert check(root / "chats" / "chat").problems == []
    assert not padding(root)
    assert said_in(root) == said


@pytest.mark.parametrize("durability", ["normal", "off"])
async def test_what_is_not_synced_with_each_append_is_not_padded(root: Path, durability: str) -> None:
    async with opened(root) as log:
        for start in range(0, 50, 10):
            await say(log, range(start, start + 10), durability)
            assert not padding(root)


async def test_who_has_just_begun_does_not_pad(root: Path) -> None:
    for number in range(12):
        async with opened(root) as log:
            await say(log, [f"{number}.{more}" for more in range(_BUSY)])
            assert not padding(root)


async def test_a_seal_stands_where_the_lines_end(root: Path) -> None:
    async with opened(root) as log:
        said = await pad(log, root)
        while len(list((root / "chats" / "chat").glob("*.jsonl"))) < 3:
            said.append(str(len(said)))
            await say(log, said[-1:], text=TEXT * 50)
        for path in sorted((root / "chats" / "chat").glob("*.jsonl"))[:-1]:
            data = path.read_bytes()
            assert b"\n\n" not in data
            assert data.splitlines()[-1].startswith(b'{"seal":')
        assert said_in(root) == said
        assert check(root / "chats" / "chat").problems == []


async def test_a_fork_of_a_padded_chat_has_no_padding(root: Path) -> None:
    async with opened(root) as log:
        said = await pad(log, root)
        while last_segment(root).stat().st_size < SEGMENT // 8:
            said.append(str(len(said)))
            await say(log, said[-1:], text=TEXT * 10)
        await log.fork("chat", "early", 5)
        await log.fork("chat", "late")
        for fork in ("early", "late"):
            assert b"\n\n" not in last_segment(root, fork).read_bytes()
            assert check(root / "chats" / fork).problems == []
        await say(log, ["after"])
        assert said_in(root) == [*said, "after"]


async def test_an_erasure_in_a_padded_chat(root: Path) -> None:
    async with opened(root) as log:
        said = await pad(log, root)
        await log.redact("chat", 2)
        await say(log, ["after"])
        assert (await log.last("chat", 1))[0].event == Noted("after", TEXT)
        assert [entry.seq for entry in scan(root / "chats" / "chat")] == list(range(1, len(said) + 3))
    assert check(root / "chats" / "chat").problems == []


# --- several writers -----------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    who=st.lists(st.integers(0, 2), min_size=20, max_size=60),
    lengths=st.lists(st.sampled_from([1, 100, MOST - 200, 2 * MOST]), min_size=60, max_size=60),
    closed=st.sets(st.integers(0, 59), max_size=3),
)
def test_several_writers_of_a_padded_chat(
    tmp_path_factory: pytest.TempPathFactory, who: list[int], lengths: list[int], closed: set[int]
) -> None:
    """Each has its own idea of where the log ends, and none overwrites what another has said."""
    root = tmp_path_factory.mktemp("padded") / "store"

    async def run() -> None:
        logs = [opened(root) for _ in range(3)]
        for number in range(8):
            await say(logs[0], [f"before {number}"], text=TEXT)
        for number, one in enumerate(who):
            if number in closed:
                await logs[one].storage.close()
                logs[one] = opened(root)
            await say(logs[one], [number], text="y" * lengths[number])
            follower = LogReader(root / "chats" / "chat", "chat", Disk())
            assert follower.tail().position.seq == 9 + number
        for log in logs:
            await log.storage.close()

    asyncio.run(run())
    assert said_in(root) == [*(f"before {number}" for number in range(8)), *map(str, range(len(who)))]
    assert check(root / "chats" / "chat").problems == []


async def test_padding_that_a_killed_writer_left_is_used_and_goes_at_the_end(root: Path) -> None:
    killed = opened(root)
    said = await pad(killed, root)
    before, size = padding(root), last_segment(root).stat().st_size
    assert before > 300
    async with opened(root) as log:
        await say(log, ["short"], text="")
        assert 0 < padding(root) < before
        assert last_segment(root).stat().st_size == size
        assert said_in(root) == [*said, "short"]
    assert not padding(root)
    await killed.storage.close()
    assert said_in(root) == [*said, "short"]


async def test_a_writer_that_knows_an_older_end_overwrites_nothing(root: Path) -> None:
    """The file has the size that it knows, and its last line is where it was. What follows it tells."""
    async with opened(root) as one, opened(root) as two:
        said = await pad(one, root)
        size = last_segment(root).stat().st_size
        await say(two, ["two"], text="")
        assert last_segment(root).stat().st_size == size
        await say(one, ["one"], text="")
        assert said_in(root) == [*said, "two", "one"]


async def test_a_group_larger_than_the_room_is_written_whole(root: Path) -> None:
    async with opened(root) as log:
        said = await pad(log, root)
        for number in range(3):
            names = [f"{number}.{one}" for one in range(40)]
            said += names
            await asyncio.gather(*(say(log, [name]) for name in names))
        assert sorted(said_in(root)) == sorted(said)
        assert check(root / "chats" / "chat").problems == []


# --- what a disk does ------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 1, 150, 400])
async def test_without_room_what_was_said_stays(root: Path, room: int) -> None:
    """The room that was made is used up; then the disk is full, in the middle of a line or of the padding behind it."""
    disk = SmallDisk(1 << 40)
    async with opened(root, disk) as log:
        said = await pad(log, root)
        disk.room = room
        full = 0
        while full < 3:
            name = f"more {len(said)}"
            try:
                await say(log, [name])
            except DiskFull:
                full += 1
            else:
                said.append(name)
            assert said_in(root) == said
        disk.room = 1 << 40
        await say(log, ["after"])
    assert said_in(root) == [*said, "after"]
    assert check(root / "chats" / "chat").problems == []


class HalfDisk(Disk):
    """In the middle of writing over padding, it fails."""

    def __init__(self, code: int) -> None:
        self._code = code
        self.is_due = False

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if not self.is_due or not offset:
            return super().pwrite(fd, data, offset)
        self.is_due = False
        super().pwrite(fd, data[: len(data) // 2], offset)
        raise OSError(self._code, os.strerror(self._code))


async def test_half_an_append_over_padding_is_cut_off(root: Path) -> None:
    disk = HalfDisk(errno.ENOSPC)
    async with opened(root, disk) as log:
        said = await pad(log, root)
        disk.is_due = True
        with pytest.raises(DiskFull):
            await say(log, ["half"])
        assert not padding(root)
        await say(log, ["after"])
    assert said_in(root) == [*said, "after"]


async def test_half_an_append_that_a_kill_left_among_padding_is_set_aside(root: Path) -> None:
    killed = opened(root)
    said = await pad(killed, root)
    segment = last_segment(root)
    data, at = segment.read_bytes(), len(segment.read_bytes().rstrip(b"\n")) + 1
    for size in (1, 30, 100):
        half = data[at - 100 : at - 1][:size]
        segment.write_bytes(data[:at] + half + data[at + size :])
        assert said_in(root) == said
        assert {problem.kind for problem in check(root / "chats" / "chat").problems} == {"torn"}
    async with opened(root) as log:
        await say(log, ["after"])
        assert said_in(root) == [*said, "after"]
    assert check(root / "chats" / "chat").problems == []
    [kept] = (root / "chats" / "chat" / "aside").iterdir()
    assert kept.read_bytes().startswith(half)


@pytest.mark.parametrize(("rest", "goes"), [(b"\n" * 5, True), (b"\0" * 40, False)])
def test_newlines_after_a_seal_go_before_the_log_goes_on(tmp_path: Path, rest: bytes, *, goes: bool) -> None:
    """No writer of ours leaves them. The format allows them. What else is there was somebody's: it stays, and is told."""

    async def run() -> None:
        async with opened(tmp_path) as log:
            await say(log, range(90), "off", TEXT * 9)
            await log.fork("chat", "fork")
        [*_, sealed] = sorted((tmp_path / "chats" / "chat").glob("*.jsonl"))
        assert sealed.read_bytes().splitlines()[-1].startswith(b'{"seal":')
        with sealed.open("ab") as file:
            file.write(rest)
        assert (check(tmp_path / "chats" / "chat").problems == []) is goes
        async with opened(tmp_path) as log:
            await say(log, ["after"])

    asyncio.run(run())
    assert said_in(tmp_path)[-1] == "after"
    assert (check(tmp_path / "chats" / "chat").problems == []) is goes


# --- finding a place ------------------------------------------------------------------------------------------


async def test_every_way_of_reading_passes_over_padding(root: Path) -> None:
    async with opened(root) as log:
        said = await pad(log, root)
        async with opened(root) as other:
            for number in range(40):
                said.append(f"more {number}")
                await say(log, said[-1:])
                for reading in (log, other):
                    assert (await reading.head("chat")).seq == len(said)
                    [last] = await reading.last("chat", 1)
                    assert last.event == Noted(said[-1], TEXT)
            assert [entry.event async for entry in other.read("chat")] == [Noted(name, TEXT) for name in said]
            for seq in range(1, len(said) + 1):
                [found] = [entry async for entry in other.read("chat", seq, seq)]
                assert found.event == Noted(said[seq - 1], TEXT)


async def test_the_listing_sees_what_is_written_over_padding(root: Path) -> None:
    """The file keeps its size."""
    async with opened(root) as log, opened(root) as other:
        await pad(log, root)

        async def token() -> str:
            await asyncio.sleep(0.05)  # before that, each look has a token of its own
            [row] = [row async for page in other.storage.chats() for row in page.rows]
            return row.token

        size, tokens = last_segment(root).stat().st_size, set[str]()
        for number in range(4):
            found = await token()
            assert await token() == found
            tokens.add(found)
            await say(log, [number], text="")
            assert last_segment(root).stat().st_size == size
        assert len(tokens) == 4
