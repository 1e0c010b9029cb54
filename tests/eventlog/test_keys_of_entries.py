"""Keys and times of single entries: what was written under a key is not written again, on every storage."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    Conflict,
    Entry,
    FileStorage,
    Head,
    IdConflict,
    InvalidEvent,
    Log,
    MemoryStorage,
    MessageAdded,
    Noted,
    Text,
    check,
)
from chatfold.eventlog.codec import encode_event, extract_event
from chatfold.testing.strategies import LARGE_TEXT
from tests.support.clock import TickingClock


@pytest.fixture(params=["memory", "files"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Log]:
    clock = TickingClock()
    files = request.param == "files"
    storage = FileStorage(tmp_path, clock=clock, segment_bytes=2000) if files else MemoryStorage(clock=clock)
    async with Log(storage) as log:
        yield log


async def entries_of(log: Log, chat: str = "chat") -> list[Entry]:
    return [entry async for entry in log.read(chat)]


def blobs(root: Path) -> list[Path]:
    return [*root.glob("chats/chat/blobs/*")]


A, B, C, D = (Noted("n", letter) for letter in "abcd")


# --- keys ------------------------------------------------------------------------------------------------


async def test_known_and_new_keys_in_one_batch_give_known_entries_and_write_the_new_ones_once(
    log: Log,
) -> None:
    first = await log.append("chat", A, B, keys=("a", "b"))
    second = await log.append("chat", C, B, D, A, keys=("c", "b", "d", "a"))
    assert [entry.seq for entry in second] == [3, 2, 4, 1]
    assert [second[3], second[1]] == first
    assert [entry.batch for entry in (second[0], second[2])] == ["1/2", "2/2"]
    assert [entry.key for entry in await entries_of(log)] == ["a", "b", "c", "d"]
    assert await log.append("chat", C, B, D, A, keys=("c", "b", "d", "a")) == second
    assert (await log.head("chat")).seq == 4


async def test_events_without_a_key_are_written_each_time(log: Log) -> None:
    for _ in range(2):
        await log.append("chat", A, B, keys=(None, "b"))
    assert [(entry.event, entry.key) for entry in await entries_of(log)] == [(A, None), (B, "b"), (A, None)]


async def test_a_key_with_other_content_is_a_conflict_and_writes_nothing(log: Log) -> None:
    await log.append("chat", A, keys=("a",))
    with pytest.raises(IdConflict, match="key 'a' was used for other content") as caught:
        await log.append("chat", B, C, keys=(None, "a"))
    assert caught.value.seq == 1
    assert (await log.head("chat")).seq == 1


async def test_a_key_twice_in_one_append_is_written_once(log: Log) -> None:
    entries = await log.append("chat", A, B, A, keys=("a", None, "a"))
    assert [entry.seq for entry in entries] == [1, 2, 1]
    with pytest.raises(IdConflict, match="two contents in one append"):
        await log.append("chat", C, D, keys=("c", "c"))
    assert (await log.head("chat")).seq == 2


async def test_keys_are_looked_up_before_the_expected_head(log: Log) -> None:
    first = await log.append("chat", A, B, keys=("a", "b"), after=0)
    await log.append("chat", C)
    assert await log.append("chat", A, B, keys=("a", "b"), after=0) == first
    with pytest.raises(Conflict):
        await log.append("chat", A, D, keys=("a", "d"), after=0)
    assert (await log.head("chat")).seq == 3


async def test_a_known_id_gives_its_first_entries_whatever_the_keys(log: Log) -> None:
    first = await log.append("chat", A, B, keys=("a", "b"), id="x")
    assert await log.append("chat", A, B, keys=("c", "d"), id="x") == first
    assert await log.append("chat", A, B, id="x") == first


async def test_a_retry_by_id_of_a_batch_whose_keys_were_partly_known_gives_all_entries_again(
    log: Log,
) -> None:
    await log.append("chat", A, keys=("a",))
    first = await log.append("chat", B, A, C, B, keys=("b", "a", None, "b"), id="x", run="r")
    assert [entry.seq for entry in first] == [2, 1, 3, 2]
    assert await log.append("chat", B, A, C, B, keys=("b", "a", None, "b"), id="x") == first
    with pytest.raises(IdConflict):
        await log.append("chat", B, A, D, B, keys=("b", "a", None, "b"), id="x")
    assert (await log.head("chat")).seq == 3


async def test_ids_and_keys_do_not_meet(log: Log) -> None:
    [one] = await log.append("chat", A, id="x")
    [two] = await log.append("chat", A, keys=("x",))
    assert (one.seq, two.seq) == (1, 2)


async def test_the_key_of_an_erased_entry_still_stands_for_it(log: Log) -> None:
    secret = MessageAdded("user", (Text("secret"),))
    await log.append("chat", secret, B, keys=("a", "b"), said_at=(5, None))
    await log.redact("chat", 1)
    tombstone = (await entries_of(log))[0]
    assert (tombstone.key, tombstone.said_at) == ("a", 5)
    assert tombstone.was
    assert (await log.append("chat", secret, C, keys=("a", "c")))[0] == tombstone
    assert [entry.event for entry in await entries_of(log)][-1] == C


async def test_an_erased_content_is_not_kept_again_for_a_known_key(tmp_path: Path) -> None:
    large = Noted("large", [LARGE_TEXT] * 3)
    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", large, keys=("a",))
        assert blobs(tmp_path)
        await log.redact("chat", 1)
        await log.append("chat", large, A, keys=("a", "b"))
        assert not blobs(tmp_path)


@pytest.mark.parametrize("name", ["x", "\x7f", "\x7f007f", "\ud800", "\0", "日本", "n" * 1024, '"\\'])
@pytest.mark.parametrize("caches", [True, False])
async def test_a_key_of_any_characters_holds_after_reopening(tmp_path: Path, name: str, caches: bool) -> None:
    async with Log(FileStorage(tmp_path, segment_bytes=2000)) as log:
        [first] = await log.append("chat", A, keys=(name,))
        for _ in range(30):
            await log.append("chat", Noted("filling " * 20), durability="off")
    if not caches:
        shutil.rmtree(tmp_path / "chats" / "chat" / "cache", ignore_errors=True)
    async with Log(FileStorage(tmp_path, segment_bytes=2000)) as log:
        assert await log.append("chat", A, keys=(name,)) == [first]
        with pytest.raises(IdConflict):
            await log.append("chat", B, keys=(name,))


async def test_forks_and_exports_keep_keys_and_times(log: Log) -> None:
    first = await log.append("chat", A, B, keys=("a", "b"), said_at=(1, 2))
    await log.fork("chat", "fork")
    await log.storage.import_chat("copy", log.storage.export("chat"))
    for chat in ("fork", "copy"):
        assert (await entries_of(log, chat))[:2] == first
        assert await log.append(chat, B, A, keys=("b", "a")) == first[::-1]


async def test_keys_and_ids_of_one_group_are_known_to_the_next_append_of_it(tmp_path: Path) -> None:
    """Appends that wait together are numbered together: the lines between them must be there to compare with."""
    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", D)
        results = await asyncio.gather(
            *(log.append("chat", A, keys=("a",), id=f"id {n % 3}") for n in range(6)),
            *(log.append("chat", B, durability="off") for _ in range(3)),
            *(log.append("chat", A, C, keys=("a", f"c {n % 2}")) for n in range(6)),
        )
        assert len({entries[0].seq for entries in (*results[:6], *results[9:])}) == 1
        assert len(await entries_of(log)) == 1 + 1 + 3 + 2
    assert check(tmp_path / "chats" / "chat").problems == []


@pytest.mark.parametrize("keys", [("",), ("k" * 1025,), (1,), (b"k",), ("a", "b"), "a"])
async def test_keys_that_are_none_are_refused(log: Log, keys: tuple[str, ...]) -> None:
    with pytest.raises(InvalidEvent):
        await log.append("chat", A, keys=keys)
    assert await log.head("chat") == Head()


async def test_the_longest_names_and_the_largest_event_fit_into_a_line(log: Log) -> None:
    event = Noted("n", "x" * 1_032_000)
    longest = "\0" * 1024
    await log.append("chat", event, id=longest, run=longest, keys=(longest,), said_at=(-(10**18) + 1,))
    await log.storage.import_chat("copy", log.storage.export("chat"))
    [entry] = await entries_of(log, "copy")
    assert (entry.event, entry.key, entry.said_at) == (event, longest, -(10**18) + 1)


# --- said_at ---------------------------------------------------------------------------------------------


async def test_when_it_was_said_is_kept_if_it_was_not_now(log: Log) -> None:
    ts = (await log.append("chat", A))[0].ts
    step = (await log.append("chat", A))[0].ts - ts
    entries = await log.append("chat", A, B, C, said_at=(7, ts + 2 * step, None))
    assert [entry.said_at for entry in entries] == [7, None, None]
    assert (await entries_of(log))[2:] == entries


async def test_said_at_stands_between_ts_and_run() -> None:
    log = Log(MemoryStorage(clock=lambda: 5))
    await log.append("chat", A, id="i", run="r", keys=("k",), said_at=(3,))
    [page] = [page async for page in log.storage.read("chat")]
    [line] = page.lines()
    assert line.startswith(b'{"seq":1,"ts":5,"said_at":3,"run":"r","id":"i","key":"k","event":{"type":')
    assert extract_event(line) == encode_event(A).raw


@pytest.mark.parametrize("said_at", [(True,), (1.5,), ("1",), (10**18,), (1, 2)])
async def test_times_that_are_none_are_refused(log: Log, said_at: tuple[int, ...]) -> None:
    with pytest.raises(InvalidEvent):
        await log.append("chat", A, said_at=said_at)


# --- a model ---------------------------------------------------------------------------------------------

keyed = st.lists(
    st.tuples(st.sampled_from((None, "a", "b", "c", "\x7f")), st.integers(0, 1)), min_size=1, max_size=4
)


@given(appends=st.lists(keyed, max_size=6))
def test_whatever_is_appended_every_key_is_there_once_with_its_first_content(
    appends: list[list[tuple[str | None, int]]],
) -> None:
    async def run() -> None:
        log = Log(MemoryStorage())
        first: dict[str, int] = {}
        count = 0
        for batch in appends:
            keys = [key for key, _ in batch]
            wanted = dict(first)
            clash = any(key and wanted.setdefault(key, number) != number for key, number in batch)
            try:
                entries = await log.append("chat", *(Noted("n", number) for _, number in batch), keys=keys)
            except IdConflict:
                assert clash
                continue
            assert not clash
            count += sum(key is None for key in keys) + len(wanted) - len(first)
            first = wanted
            assert [(entry.key, entry.event) for entry in entries] == [
                (key, Noted("n", n)) for key, n in batch
            ]
        read = await entries_of(log)
        assert len(read) == count
        assert {entry.key: entry.event for entry in read if entry.key} == {
            key: Noted("n", number) for key, number in first.items()
        }

    asyncio.run(run())
