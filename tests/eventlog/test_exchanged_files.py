"""Files of one chat in the folder of another: no way of reading takes another chat's text for this one's.

Two chats of one shape, with lines as long, so that every place that a cache remembers fits in both. Whole files change
places in each way a restore or a file system may do it, while a storage is open and knows the chat, and while none is.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    ChatDeleted,
    CorruptLog,
    Entry,
    FileStorage,
    Log,
    MessageAdded,
    Noted,
    Text,
    scan,
)
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.line import parse_seq
from tests.support.clock import TickingClock
from tests.support.profile import searched

ALICE, BOBBY = "alice", "bobby"
LONG, LARGE = 700, 1_100_000
_SEGMENT_BYTES = 1_800


async def _write(root: Path, key: str) -> None:
    """Several segments, references to a text of the first, an id at both ends, a text in a blob."""
    async with Log(FileStorage(root, clock=TickingClock(), segment_bytes=_SEGMENT_BYTES)) as log:
        said = MessageAdded("user", (Text(f"{key}'s secret ".ljust(LONG, key[0])),))
        await log.append(key, said, Noted(key), id="first")
        for number in range(24):
            await log.append(key, Noted(key, f"{number:04d}" * 30))
        await log.append(key, MessageAdded("user", (Text(key[0] * LARGE),)))
        await log.append(key, Noted(key, "after"), id="later")
        for _ in range(2):
            await log.append(key, said)


async def _write_both(root: Path) -> None:
    for key in (ALICE, BOBBY):
        await _write(root, key)
        async with Log(FileStorage(root)) as log:  # the offsets are kept by who reads
            async for _ in log.read(key):
                pass


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("both")
    asyncio.run(_write_both(root))
    alice, bobby = ({path.name for path in (root / "chats" / key).glob("*.jsonl")} for key in (ALICE, BOBBY))
    assert alice == bobby
    assert len(alice) >= 4
    assert len(list((root / "chats" / ALICE / "cache").glob("*.offsets"))) >= 3
    return root


@pytest.fixture(scope="module")
def right(template: Path) -> dict[str, dict[int, int]]:
    return {key: {e.seq: hash(repr(e)) for e in scan(template / "chats" / key)} for key in (ALICE, BOBBY)}


# --- exchanges ----------------------------------------------------------------------------------------------


def _overwrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _make_anew(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def _rename_over(path: Path, data: bytes) -> None:
    other = path.with_name("restored")
    other.write_bytes(data)
    other.replace(path)


WAYS: dict[str, Callable[[Path, bytes], None]] = {
    "overwritten in place": _overwrite,
    "unlinked and made anew": _make_anew,
    "renamed over": _rename_over,
}


def _movable(chat: Path) -> list[str]:
    """Files by their place in the folder, each of which both chats may have."""
    found = [*chat.glob("*.jsonl"), *chat.glob("cache/*.offsets"), *chat.glob("blobs/*"), chat / "head"]
    return sorted(str(path.relative_to(chat)) for path in found)


def _bring(chat: Path, other: Path, name: str, way: Callable[[Path, bytes], None], *, both: bool) -> None:
    ours, theirs = (
        (folder / name).read_bytes() if (folder / name).exists() else None for folder in (chat, other)
    )
    if theirs is not None:
        (chat / name).parent.mkdir(exist_ok=True)
        way(chat / name, theirs)
    if both and ours is not None:
        way(other / name, ours)


# --- every way of reading -----------------------------------------------------------------------------------


async def _entries(log: Log, key: str) -> list[Entry]:
    return [entry async for entry in log.read(key)]


async def _back(log: Log, key: str) -> list[Entry]:
    return [entry async for entry in log.read_back(key)]


async def _singly(log: Log, key: str) -> list[Entry]:
    found: list[Entry] = []
    for seq in range(1, 31):
        with suppress(CorruptLog):
            found += [entry async for entry in log.read(key, seq, seq)]
            found += await log.last(key, 1, seq)
    return found


async def _last(log: Log, key: str) -> list[Entry]:
    return await log.last(key, 2)


async def _found(log: Log, key: str) -> list[Entry]:
    for hit in await log.search(key, "secret"):
        assert hit.seq in (1, 28, 29, 30)
        assert BOBBY not in repr(hit)
    return []


async def _grepped(log: Log, key: str) -> list[Entry]:
    assert await log.grep(key, "bobby") == []
    return []


async def _again(log: Log, key: str) -> list[Entry]:
    """An append with an id that was used gives the entries that have it."""
    said = MessageAdded("user", (Text(f"{key}'s secret ".ljust(LONG, key[0])),))
    found = await log.append(key, said, Noted(key), id="first")
    return [*found, *await log.append(key, Noted(key, "after"), id="later")]


async def _exported(log: Log, key: str) -> list[Entry]:
    exported = b"".join([piece async for piece in log.storage.export(key)])
    assert b"bobby" not in exported
    return []


READS: dict[str, Callable[[Log, str], Awaitable[list[Entry]]]] = {
    "read": _entries,
    "read_back": _back,
    "by seq": _singly,
    "last": _last,
    "search": _found,
    "grep": _grepped,
    "export": _exported,
    "append again": _again,
}


async def _read_every_way(log: Log, chat: Path, right: dict[int, int]) -> None:
    for name, read in READS.items():
        with suppress(CorruptLog, ChatDeleted):
            for entry in await read(log, ALICE):
                assert hash(repr(entry)) == right[entry.seq], (name, entry.seq)
    _read_lines(LogReader(chat, ALICE, Disk()), range(1, 31))
    with suppress(CorruptLog):
        for entry in scan(chat):
            assert hash(repr(entry)) == right[entry.seq]


def _read_lines(reader: LogReader, seqs: range) -> None:
    for seq in seqs:
        with suppress(CorruptLog):
            line = reader.line(seq)
            assert parse_seq(line) == seq
            assert b"bobby" not in line + reader.resolve_line(line)


# --- the law ------------------------------------------------------------------------------------------------


@pytest.fixture
def scratch(template: Path) -> Iterator[Path]:
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


@searched(1 / 4)
@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=6),
    st.sampled_from(sorted(WAYS)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_no_exchange_of_whole_files_makes_another_chats_text_this_ones(
    template: Path,
    right: dict[str, dict[int, int]],
    picked: list[int],
    way: str,
    warm: bool,
    both: bool,
    caches: bool,
) -> None:
    names = _movable(template / "chats" / ALICE)
    own = [name for name in names if name.endswith(".jsonl")]
    moved = {names[one % len(names)] for one in picked}
    if set(own) <= moved:
        moved.remove(own[0])  # all of them: then it is the other chat, wholly
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        root = Path(folder) / "store"
        shutil.copytree(template, root)
        exchange = _exchange(
            root, sorted(moved), WAYS[way], right[ALICE], warm=warm, both=both, caches=caches
        )
        asyncio.run(exchange)


async def _exchange(
    root: Path,
    moved: list[str],
    way: Callable[[Path, bytes], None],
    right: dict[int, int],
    *,
    warm: bool,
    both: bool,
    caches: bool,
) -> None:
    chat, other = (root / "chats" / key for key in (ALICE, BOBBY))
    if not caches:
        shutil.rmtree(chat / "cache")
    async with Log(FileStorage(root)) as log:
        reader = LogReader(chat, ALICE, Disk(), may_write=True)
        if warm:
            await _read_every_way(log, chat, right)
            _read_lines(reader, range(1, 31))
        for name in moved:
            _bring(chat, other, name, way, both=both)
        _read_lines(reader, range(1, 31))
        await _read_every_way(log, chat, right)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
def test_segments_exchanged_from_the_first_or_the_last_one_on(
    template: Path, scratch: Path, right: dict[str, dict[int, int]], way: str, count: int, warm: bool
) -> None:
    """Several side by side agree with each other, and with the witness that came along."""
    names = sorted(path.name for path in (template / "chats" / ALICE).glob("*.jsonl"))
    for index, moved in enumerate((names[:count], [*names[-count:], "head"])):
        root = scratch / str(index)
        shutil.copytree(template, root)
        asyncio.run(_exchange(root, moved, WAYS[way], right[ALICE], warm=warm, both=False, caches=True))


async def test_a_reference_into_an_exchanged_segment_is_damage(template: Path, scratch: Path) -> None:
    """The last entries refer to a text of the first segment, at a place that both chats have."""
    root = scratch / "store"
    shutil.copytree(template, root)
    chat, other = (root / "chats" / key for key in (ALICE, BOBBY))
    async with Log(FileStorage(root)) as log:
        assert "alice" in repr(await log.last(ALICE, 1))
        _bring(chat, other, f"{1:016d}.jsonl", _overwrite, both=True)
        with pytest.raises(CorruptLog):
            await log.last(ALICE, 1)


def test_a_first_segment_of_another_chat_that_is_shorter_is_damage(template: Path, scratch: Path) -> None:
    """Its header says what ours says, and after it entries are missing: nothing links it to the rest."""
    chat = scratch / "chats" / ALICE
    shutil.copytree(template / "chats" / ALICE, chat)

    async def write_shorter() -> None:
        async with Log(FileStorage(scratch / "short", segment_bytes=400)) as log:
            for number in range(6):
                await log.append(BOBBY, Noted(BOBBY, number))

    asyncio.run(write_shorter())
    _overwrite(
        chat / f"{1:016d}.jsonl", (scratch / "short" / "chats" / BOBBY / f"{1:016d}.jsonl").read_bytes()
    )

    async def read(first: int, last: int) -> list[Entry]:
        async with Log(FileStorage(scratch, read_only=True)) as log:
            return [entry async for entry in log.read(ALICE, first, last)]

    with pytest.raises(CorruptLog):
        asyncio.run(read(1, 1))
    with pytest.raises(CorruptLog):
        LogReader(chat, ALICE, Disk()).line(2)


# --- while a writer has the chat open -------------------------------------------------------------------------


async def _exchange_under_writer(root: Path, names: slice, way: str, segment_bytes: int, more: int) -> bool:
    """Is an append acknowledged after the last line that the writer knows gave way to another chat's, ``more`` lines longer?"""
    for key, count in ((ALICE, 15), (BOBBY, 15 + more)):
        async with Log(FileStorage(root, clock=TickingClock(), segment_bytes=segment_bytes)) as log:
            for number in range(count):
                await log.append(key, Noted(key, f"{number:04d}" * 20))
    chat, other = (root / "chats" / key for key in (ALICE, BOBBY))
    async with Log(FileStorage(root, clock=TickingClock(), segment_bytes=segment_bytes)) as log:
        await log.append(ALICE, Noted(ALICE, "opened"))
        await log.append(BOBBY, Noted(BOBBY, "opened"))
        for name in sorted(path.name for path in chat.glob("*.jsonl"))[names]:
            _bring(chat, other, name, WAYS[way], both=False)
        with suppress(CorruptLog):
            await log.append(ALICE, Noted(ALICE, "appended"))
            return True
    return False


_LAST, _ALL = slice(-1, None), slice(None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("segment_bytes", [1_500, 1 << 20], ids=["several", "one"])
@pytest.mark.parametrize("names", [_LAST, _ALL], ids=["last", "all"])
async def test_a_writer_appends_nothing_after_an_exchange(
    scratch: Path, names: slice, way: str, segment_bytes: int, more: int
) -> None:
    """Also if a segment was overwritten with as many bytes, or the other chat's log is longer and its chain whole."""
    assert not await _exchange_under_writer(scratch, names, way, segment_bytes, more)


async def test_an_erasure_under_an_open_storage_is_no_exchange(template: Path, scratch: Path) -> None:
    """It puts other files in place, with the same ends."""
    root = scratch / "store"
    shutil.copytree(template, root)
    async with Log(FileStorage(root)) as log, Log(FileStorage(root)) as other:
        before = [entry.link for entry in await _entries(log, ALICE)]
        await other.redact(ALICE, 2, 6, 14)
        assert [entry.link for entry in await _entries(log, ALICE)][: len(before)] == before
        assert len(await _again(log, ALICE)) == 3


async def test_a_line_of_another_chat_is_not_the_last_one_read_back(tmp_path: Path) -> None:
    """One line inside of a segment, as long as ours, where the place of the line after it is known."""
    for key in (ALICE, BOBBY):
        async with Log(FileStorage(tmp_path, clock=TickingClock(), segment_bytes=6_000)) as log:
            for number in range(40):
                await log.append(key, Noted(key, f"{number:04d}" * 20))
            async for _ in log.read(key):  # the places of lines are kept
                pass
    ours, theirs = (min((tmp_path / "chats" / key).glob("*.jsonl")) for key in (ALICE, BOBBY))
    lines, others = (path.read_bytes().splitlines(keepends=True) for path in (ours, theirs))
    assert len(lines[8]) == len(others[8])  # entry 8; the place of entry 9 is kept
    lines[8] = others[8]
    ours.write_bytes(b"".join(lines))
    async with Log(FileStorage(tmp_path, read_only=True)) as log:
        with pytest.raises(CorruptLog) as caught:
            await log.last(ALICE, 1, upto=8)
    assert caught.value.path == ours


class SyncingDisk(Disk):
    """Knows how often the bytes of a file were made durable."""

    syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


@pytest.mark.parametrize("key", [ALICE, BOBBY])
async def test_a_watermark_of_another_chat_calls_nothing_durable(tmp_path: Path, key: str) -> None:
    """A retry of an append that was never synced syncs it, whatever ``head`` says."""
    for chat in (ALICE, BOBBY):
        storage = FileStorage(tmp_path, clock=TickingClock())
        await Log(storage).append(chat, Noted(chat))
        await Log(storage).append(
            chat, Noted(chat, "again"), id="x", durability="full" if chat is BOBBY else "off"
        )
        await asyncio.sleep(0.4 if chat is BOBBY else 0)  # the watermark follows
        await asyncio.to_thread(storage._queue.stop)
        storage.close_files()  # as a kill does: nothing is synced
    head = (tmp_path / "chats" / key / "head").read_bytes()
    (tmp_path / "chats" / ALICE / "head").write_bytes(head)
    disk = SyncingDisk()
    async with Log(FileStorage(tmp_path, disk=disk)) as log:
        await log.append(ALICE, Noted(ALICE, "again"), id="x")
        assert disk.syncs == 1
