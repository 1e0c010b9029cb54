"""Ids, expected heads and repeated texts: the rules by which an append gets its place, on every storage."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from chatfold.eventlog import (
    ChatDeleted,
    ChatfoldError,
    Conflict,
    Entry,
    FileStorage,
    Forked,
    Head,
    IdConflict,
    InvalidEvent,
    Log,
    MemoryStorage,
    MessageAdded,
    Noted,
    Redacted,
    Text,
    ToolCalled,
    Unknown,
)
from chatfold.eventlog.codec import decode
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.testing.strategies import LARGE_TEXT
from tests.support.clock import TickingClock

Reopen: TypeAlias = Callable[..., Awaitable[Log]]


@pytest.fixture(params=["memory", "files"])
async def any_log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Log]:
    clock = TickingClock()
    files = request.param == "files"
    storage = FileStorage(tmp_path, clock=clock, segment_bytes=2000) if files else MemoryStorage(clock=clock)
    async with Log(storage) as log:
        yield log


@pytest.fixture
async def reopen(tmp_path: Path) -> AsyncIterator[Reopen]:
    """Closes the store, perhaps loses its caches, and opens it again."""
    logs: list[Log] = []

    async def open_again(*, caches: bool = True) -> Log:
        for log in logs:
            await log.storage.close()
        if not caches:
            forget_caches(tmp_path)
        logs.append(Log(FileStorage(tmp_path, segment_bytes=2000)))
        return logs[-1]

    yield open_again
    await logs[-1].storage.close()


def forget_caches(root: Path) -> None:
    for cache in root.glob("chats/*/cache"):
        shutil.rmtree(cache)


def lines_of(folder: Path) -> list[bytes]:
    """As they stand on disk, headers and seals left out."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return [line for line in lines if line.startswith(b'{"seq":')]


async def entries_of(log: Log, chat: str) -> list[Entry]:
    return [entry async for entry in log.read(chat)]


# --- ids -------------------------------------------------------------------------------------------------


async def test_an_id_is_looked_up_before_the_expected_head(any_log: Log) -> None:
    first = await any_log.append("chat", Noted("n", 1), after=0, id="x")
    await any_log.append("chat", Noted("n", 2))
    assert await any_log.append("chat", Noted("n", 1), after=0, id="x") == first
    assert await any_log.append("chat", Noted("n", 1), after=77, id="x") == first
    assert (await any_log.head("chat")).seq == 2


async def test_a_retry_returns_the_whole_batch(any_log: Log) -> None:
    batch = (Noted("n", 1), MessageAdded("user", (Text("long " * 300),)), Noted("n", 3))
    first = await any_log.append("chat", *batch, id="x", run="r")
    assert await any_log.append("chat", *batch, id="x") == first
    assert await any_log.append("chat", *batch, id="x", run="another") == first
    assert [entry.event for entry in first] == list(batch)


@pytest.mark.parametrize(
    "other",
    [
        (Noted("n", 2),),
        (Noted("n", 1), Noted("n", 1)),
        (Noted("n", 1.0),),
        (Noted("n", True),),
        (ToolCalled("n", "1"),),
    ],
)
async def test_an_id_with_other_content_is_a_conflict_and_writes_nothing(
    any_log: Log, other: tuple[Noted]
) -> None:
    await any_log.append("chat", Noted("n", 1), id="x")
    with pytest.raises(IdConflict):
        await any_log.append("chat", *other, id="x")
    with pytest.raises(IdConflict):
        await any_log.append("chat", *other, id="x", after=1)
    assert (await any_log.head("chat")).seq == 1


async def test_half_a_batch_by_the_same_id_is_a_conflict(any_log: Log) -> None:
    await any_log.append("chat", Noted("a"), Noted("b"), id="x")
    for part in ((Noted("a"),), (Noted("a"), Noted("b"), Noted("c"))):
        with pytest.raises(IdConflict):
            await any_log.append("chat", *part, id="x")


async def test_an_id_holds_for_one_chat_only(any_log: Log) -> None:
    for chat in ("one", "two"):
        [entry] = await any_log.append(chat, Noted(chat), id="x")
        assert entry.event == Noted(chat)


@pytest.mark.parametrize("name", ["x", "\x7f", "\x7f007f", "\ud800", "\0", "日本", "n" * 1024, '"\\'])
@pytest.mark.parametrize("caches", [True, False])
async def test_an_id_of_any_characters_holds_after_reopening(reopen: Reopen, name: str, caches: bool) -> None:
    log = await reopen()
    [first] = await log.append("chat", Noted("n"), id=name)
    log = await reopen(caches=caches)
    assert await log.append("chat", Noted("n"), id=name) == [first]
    with pytest.raises(IdConflict):
        await log.append("chat", Noted("other"), id=name)


async def test_ids_hold_over_many_segments_reopenings_and_lost_caches(reopen: Reopen) -> None:
    log = await reopen()
    for number in range(60):
        await log.append(
            "chat", Noted("n", number), Noted("filling " * 20), id=f"id {number}", durability="off"
        )
        if number in (20, 40):
            log = await reopen(caches=number == 20)
    for caches in (True, False):
        log = await reopen(caches=caches)
        for number in range(60):
            [first, _] = await log.append(
                "chat", Noted("n", number), Noted("filling " * 20), id=f"id {number}"
            )
            assert (first.seq, first.id) == (2 * number + 1, f"id {number}")
    assert (await log.head("chat")).seq == 120


async def test_a_fork_knows_the_ids_of_its_parent(any_log: Log) -> None:
    first = await any_log.append("chat", Noted("n"), id="\x7f")
    await any_log.append("chat", Noted("later"), id="later")
    await any_log.fork("chat", "fork", at=1)
    assert await any_log.append("fork", Noted("n"), id="\x7f") == first
    [later] = await any_log.append("fork", Noted("later"), id="later")
    assert later.seq == 3


@pytest.mark.parametrize("at", [1, 2])
async def test_a_fork_inside_a_batch_does_not_take_its_half_for_the_whole(any_log: Log, at: int) -> None:
    """The child has the id and not all of the content: that is neither the same append nor a new one."""
    batch = (Noted("a"), Noted("b"), Noted("c"))
    await any_log.append("chat", *batch, id="x")
    await any_log.fork("chat", "fork", at)
    for _ in range(3):
        with pytest.raises(IdConflict):
            await any_log.append("fork", *batch, id="x")
        await any_log.append("fork", Noted("more"))
    assert (await entries_of(any_log, "fork"))[at].event == Forked("chat", at)


async def test_a_retry_of_an_erased_append_returns_what_is_left(any_log: Log) -> None:
    await any_log.append("chat", MessageAdded("user", (Text("secret"),)), id="x")
    await any_log.redact("chat", 1)
    [again] = await any_log.append("chat", MessageAdded("user", (Text("secret"),)), id="x")
    assert again.was is not None
    assert again.event == MessageAdded("user", (Text("[redacted]"),))
    assert [entry.event for entry in await entries_of(any_log, "chat")][1:] == [Redacted((1,))]


async def test_a_retry_finds_what_was_kept_in_a_blob(any_log: Log) -> None:
    event = MessageAdded("user", (Text(LARGE_TEXT),))
    first = await any_log.append("chat", event, id="x")
    assert await any_log.append("chat", event, id="x") == first
    assert first[0].event == event


# --- the expected head -----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [-1, 0, 1, 3, 2**70])
async def test_a_wrong_expected_head_is_a_conflict_with_both_numbers(any_log: Log, after: int) -> None:
    await any_log.append("chat", Noted("a"), Noted("b"), after=0)
    with pytest.raises(Conflict) as caught:
        await any_log.append("chat", Noted("c"), after=after)
    assert (caught.value.expected, caught.value.actual, caught.value.chat) == (after, 2, "chat")
    assert (await any_log.append("chat", Noted("c"), after=2))[0].seq == 3


async def test_a_conflict_on_a_chat_that_is_not_there_makes_none(any_log: Log) -> None:
    with pytest.raises(Conflict):
        await any_log.append("chat", Noted("a"), after=5)
    assert [key async for key in any_log.chats()] == []


async def test_a_conflict_at_the_end_of_a_full_segment_leaves_everything_readable(any_log: Log) -> None:
    """The next segment is begun and gets no entry."""
    await any_log.append("chat", *[Noted("filling " * 20, number) for number in range(20)])
    with pytest.raises(Conflict):
        await any_log.append("chat", Noted("n"), after=5)
    assert [entry.seq for entry in await any_log.last("chat", 3)] == [18, 19, 20]
    assert [entry.seq async for entry in any_log.read_back("chat")] == list(range(20, 0, -1))


async def test_an_append_of_nothing_is_refused(any_log: Log) -> None:
    with pytest.raises(InvalidEvent):
        await any_log.append("chat")


async def test_a_deleted_chat_starts_anew_with_its_next_append(any_log: Log) -> None:
    for number in range(2):
        await any_log.append("chat", Noted("old", number), id=f"old {number}")
    await any_log.delete("chat")
    assert (await any_log.head("chat")).seq == 0
    [entry] = await any_log.append("chat", Noted("new"), id="old 0", after=0)
    assert (entry.seq, entry.event) == (1, Noted("new"))


async def test_a_storage_closes_after_a_chat_it_wrote_was_deleted(any_log: Log) -> None:
    for number in range(2):
        await any_log.append("chat", Noted("old", number), id=f"old {number}")
    await any_log.delete("chat")
    await any_log.storage.close()


async def test_reading_back_from_before_the_first_entry_is_reading_nothing(any_log: Log) -> None:
    for number in range(40):
        await any_log.append("chat", Noted("filling " * 20, number))
    assert [entry async for entry in any_log.read_back("chat", 0)] == []
    assert [entry async for entry in any_log.read("chat", 1, 0)] == []


# --- repeated texts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "deduplicated"), [(511, False), (512, True), (5000, True)])
async def test_a_text_is_deduplicated_from_one_kibibyte_on(
    log: Log, root: Path, size: int, deduplicated: bool
) -> None:
    for _ in range(2):
        await log.append("chat", Noted("n", "x" * size))
    _, second = lines_of(root / "chats" / "chat")
    assert (b"x" * size not in second) is deduplicated
    assert [entry.event for entry in await entries_of(log, "chat")] == [Noted("n", "x" * size)] * 2


async def test_a_text_is_found_again_after_reopening_in_another_segment(
    reopen: Reopen, tmp_path: Path
) -> None:
    for caches in (True, True, False):
        log = await reopen(caches=caches)
        await log.append("chat", Noted("n", "said before " * 200), Noted("filling " * 100))
    lines = lines_of(tmp_path / "chats" / "chat")
    assert [b"said before" in line for line in lines] == [True, *[False] * 5]
    events = [entry.event for entry in await entries_of(log, "chat")]
    assert events == [Noted("n", "said before " * 200), Noted("filling " * 100)] * 3


async def test_erasing_a_text_erases_every_entry_that_refers_to_it(any_log: Log) -> None:
    for _ in range(3):
        await any_log.append("chat", MessageAdded("user", (Text("secret " * 300),)))
    assert await any_log.redact("chat", 2) == {"chat": [1, 2, 3]}
    assert all("secret" not in str(entry.event) for entry in await entries_of(any_log, "chat"))


async def test_a_text_that_looks_like_json_between_texts_does_not_stand_in_the_way_of_erasure(
    any_log: Log,
) -> None:
    trap = ":[" + "1," * 600
    await any_log.append("chat", Noted(trap))
    await any_log.append("chat", ToolCalled("c", "t", {"a": trap, "b": [1] * 600 + ["x"]}))
    assert 2 in (await any_log.redact("chat", 2))["chat"]
    assert (await entries_of(any_log, "chat"))[1].was is not None


@pytest.mark.parametrize("depth", [100, 127, 128])
async def test_a_deeply_nested_value_does_not_stand_in_the_way_of_ids(reopen: Reopen, depth: int) -> None:
    log = await reopen()
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    await log.append("chat", MessageAdded("user", (Text("t"),), meta={}), Noted("n", value))
    log = await reopen(caches=False)
    [first] = await log.append("chat", Noted("x" * 2000), id="x")
    assert await log.append("chat", Noted("x" * 2000), id="x") == [first]


async def test_an_unknown_event_is_read_the_same_after_it_was_written(any_log: Log) -> None:
    events = [Unknown("u", b'{"type":"u","deep":%b1%b}' % (b"[" * n, b"]" * n)) for n in (1, 120)]
    events.append(Unknown("u", b'{ "type" : "u" }'))
    for event in events:
        await any_log.append("chat", event)
    await any_log.append("chat", Noted("n"), id="x")
    assert [entry.event for entry in await entries_of(any_log, "chat")] == [*events, Noted("n")]


@pytest.mark.parametrize("raw", [b'{"type":"u"} ', b'{"type":"u"}\t', b'\r{"type":"u"}'])
async def test_an_unknown_event_with_space_around_it_does_not_break_the_chat(
    any_log: Log, raw: bytes
) -> None:
    await any_log.append("chat", Noted("before"))
    try:
        await any_log.append("chat", Unknown("u", raw))
    except ChatfoldError:
        assert (await any_log.head("chat")).seq == 1
        return
    assert [entry.event for entry in await entries_of(any_log, "chat")] == [
        Noted("before"),
        Unknown("u", raw),
    ]


async def test_an_entry_erased_while_it_is_read_is_read_as_erased(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        for name in ("first", "second"):
            await log.append("chat", Noted(name, "the same text " * 100))
        folder = LogReader(root / "chats" / "chat", "chat", Disk())
        before = folder.line(2)
        await log.redact("chat", 1)
        assert decode(folder.resolve_line(before)).event == Noted("second")


async def test_an_erased_call_keeps_the_name_of_its_tool(any_log: Log) -> None:
    """Whatever the tool is called: only a name that was itself kept elsewhere is given up."""
    await any_log.append("chat", ToolCalled("c", "text:ref:tool", {"secret": "swordfish"}))
    await any_log.redact("chat", 1)
    assert (await entries_of(any_log, "chat"))[0].event == ToolCalled("c", "text:ref:tool")


async def test_nothing_refers_to_what_a_tombstone_has_kept(any_log: Log) -> None:
    """A name outlives the erasure of its entry. Whoever says the same words later says them himself, and is read."""
    name = "a name as long as a text " * 40
    await any_log.append("chat", ToolCalled("c1", name, {"path": "secret"}))
    await any_log.redact("chat", 1)
    await any_log.append("chat", MessageAdded("user", (Text(name),)))
    [entry] = await any_log.last("chat", 1)
    assert entry.event == MessageAdded("user", (Text(name),))
    assert [one.seq async for one in any_log.read("chat")] == [1, 2, 3]


async def test_a_chat_that_took_the_place_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    """The new file has the number of the old one, and as many bytes: whoever knew the end of the old one is told."""
    async with Log(FileStorage(tmp_path)) as one, Log(FileStorage(tmp_path)) as other:
        for first, second in (("one", "two"), ("eno", "owt"), ("neo", "tow")):
            await one.append(
                "chat", MessageAdded("user", (Text(first),)), MessageAdded("user", (Text(second),))
            )
            assert await other.head("chat") == await one.head("chat")
            assert [entry async for entry in other.read("chat")] == [
                entry async for entry in one.read("chat")
            ]
            await one.delete("chat")


async def test_where_a_writer_remembers_that_batches_ended_they_did(root: Path) -> None:
    """Whoever else writes, erases, or takes the chat away."""
    storage = FileStorage(root, durability="off", segment_bytes=2000)
    ours, other = Log(storage), Log(FileStorage(root, durability="off", segment_bytes=2000))
    known = Head()
    for number in range(60):
        entries = await ours.append("chat", *[Noted(f"n{number}")] * (number % 3 + 1), known=known)
        known = Head(entries[-1].seq, entries[-1].sum) if number % 2 else known
        if number % 7 == 0:
            await other.append("chat", Noted("in between"))
        if number % 20 == 19:
            await other.redact("chat", number)
        writer = storage._queue.chats.get("chat").writer
        for seq, link in writer.seen.links.items():
            assert link == LogReader(writer.reader.path, "chat", Disk()).link(seq)
        assert writer.seen.links or number == 0
    await other.delete("chat")
    with pytest.raises(ChatDeleted):
        await ours.append("chat", Noted("too late"))
    await ours.append("chat", *[Noted("another")] * known.seq)
    with pytest.raises(ChatDeleted):
        await ours.append("chat", Noted("more"), known=known)
    await storage.close()
    await other.storage.close()
