"""What the simulated disk has found, each as small as it gets; and what a kill, then a power cut must not do together."""

import errno
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from chatfold.eventlog import (
    ChatDeleted,
    ChatfoldError,
    Durability,
    DurabilityUnknown,
    Entry,
    FileStorage,
    Log,
    Noted,
    check,
    repair,
)
from chatfold.eventlog.files.chat_dir import NOTE, chat_path
from chatfold.eventlog.files.disk import is_temp_name
from chatfold.eventlog.files.held_log import POISON_FILE
from chatfold.eventlog.files.segment import segment_name
from tests.support.disk.faulty_disk import CHANGING, READING
from tests.support.disk.simulated_disk import Fault, SimulatedDisk
from tests.support.judges.talk import STORY, short
from tests.support.simulation.simulated_verbs import abandon, still
from tests.support.simulation.simulated_world import ROOT, files_of, folders_of, read

SECRET = "swordfish"
SAYS = Noted("said", {"text": SECRET})
LARGE = Noted("large", {"text": "too large for a line " * 52_000})
LONG_NAME = "d" * 250
Work = Callable[[Log], Coroutine[Any, Any, Any]]


@asynccontextmanager
async def opened(disk: SimulatedDisk, segment_bytes: int = 600) -> AsyncIterator[Log]:
    """Abandoned in the end, as by a kill."""
    storage = still(FileStorage(ROOT, disk=disk, segment_bytes=segment_bytes))
    try:
        yield Log(storage)
    finally:
        await abandon(storage)
        disk.revive()


async def killed(disk: SimulatedDisk, dying: FileStorage, nth: int, work: Work) -> Fault:
    """At its ``nth`` change to the disk, while others go on."""
    fault = disk.fault = Fault(nth, kinds=frozenset(CHANGING))
    with suppress(ChatfoldError, OSError):
        await work(Log(dying))
    await abandon(dying)
    disk.fault = None
    return fault


def new_disk(seed: int = 0) -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(seed))
    disk.make_folder(ROOT.parent)
    disk.sync_folder(ROOT.parent.parent)
    return disk


def chats_of(disk: SimulatedDisk) -> dict[str, list[Entry]]:
    return {chat: read(disk, path) for chat, path in folders_of(disk)}


async def prepare(log: Log) -> None:
    for number in range(3):
        await log.append("chat", *short(f"p{number}"), id=f"p{number}")
    await log.append("chat", SAYS, id="secret")


async def append(log: Log) -> None:
    await log.append("chat", *short("a", 2), id="a")


async def append_large(log: Log) -> None:
    await log.append("chat", LARGE, id="large")


async def create(log: Log) -> None:
    await log.append("new", *short("n"), id="n")


async def fork(log: Log) -> None:
    await log.fork("chat", "new", 2)


async def redact(log: Log) -> None:
    await log.redact("chat", 4)


# --- killed, taken over by another writer, then the power is cut ---------------------------------------------


async def mend(log: Log) -> None:
    assert isinstance(log.storage, FileStorage)
    repair(chat_path(ROOT, "chat"), disk=log.storage._disk)


async def nothing(_log: Log) -> None:
    pass


async def prepare_damaged(log: Log) -> None:
    """The last segment has been vouched for, so it is not torn."""
    await prepare(log)
    await log.storage.close()
    assert isinstance(log.storage, FileStorage)
    disk, folder = log.storage._disk, chat_path(ROOT, "chat")
    fd = disk.open_update(folder / max(name for name in disk.names(folder) if name.endswith(".jsonl")))
    disk.pwrite(fd, b"?", disk.fstat(fd).st_size - 40)
    disk.sync(fd)
    disk.close(fd)


@pytest.mark.parametrize(
    ("before", "work"),
    [
        *(
            (before, work)
            for before in (prepare, nothing)
            for work in (append, append_large, create, fork, redact)
        ),
        (prepare_damaged, mend),
    ],
)
@pytest.mark.parametrize("was_open", [True, False])
@pytest.mark.parametrize("segment_bytes", [600, 100_000])
async def test_what_is_acknowledged_after_a_kill_survives_a_power_cut(
    before: Work, work: Work, was_open: bool, segment_bytes: int
) -> None:
    """A name that somebody gave, and was killed before it was durable, is made so by whoever counts on it next.

    ``was_open``: for that one the store was, so that it does not look for what others left undone.
    """
    nth, fault = 0, Fault(1)
    while nth == 0 or fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk, segment_bytes) as log:
            await before(log)
            await log.storage.close()  # leaves a witness
        dying, other = (still(FileStorage(ROOT, disk=disk, segment_bytes=segment_bytes)) for _ in range(2))
        if was_open:
            await Log(other).append("another", *short("other"))
        fault = await killed(disk, dying, nth, work)
        if work is not redact:  # again would be durable
            with suppress(ChatfoldError):
                await work(Log(other))
        for chat in ("chat", "new"):
            await Log(other).append(chat, *short("after"), id="after")
        await abandon(other)
        disk.revive()
        chats = chats_of(disk)
        assert chats_of(disk.crash("nothing")) == chats, f"killed at change {nth}"


# --- erasing ---------------------------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_an_entry_that_is_not_durable_yet_can_be_erased_and_a_power_cut_leaves_a_store_that_opens() -> (
    None
):
    nth, fault = 0, Fault(1)
    while nth == 0 or fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk, 20_000) as log:
            await log.append("chat", *short("first"), id="first")
            await log.append("chat", SAYS, id="secret", durability="off")
            fault = disk.fault = Fault(nth, kinds=frozenset(CHANGING))
            with suppress(ChatfoldError, OSError):
                await log.redact("chat", 2)
        for manner in ("nothing", "any", "any"):
            after = disk.crash(manner)
            async with opened(after) as log:
                await log.append("chat", *short("after"), id="after")


async def test_a_fork_that_was_killed_does_not_bring_back_what_is_erased_later() -> None:
    nth, fault = 0, Fault(1)
    while nth == 0 or fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk, 20_000) as log:
            await prepare(log)
            fault = disk.fault = Fault(nth, kinds=frozenset(CHANGING))
            with suppress(ChatfoldError, OSError):
                await log.fork("chat", "new")
        async with opened(disk) as log:
            await log.redact("chat", 4)
        for manner in ("nothing", "any", "everything"):
            for path, data in files_of(disk.crash(manner)):
                assert SECRET.encode() not in data, f"killed at change {nth}: {path}"


async def test_a_chat_that_cannot_be_read_is_not_passed_over_when_its_entries_are_erased() -> None:
    """Its key stands in a file: without it nobody knows that it is a fork of the other."""
    nth, fault = 0, Fault(1)
    while nth == 0 or fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk) as log:
            await prepare(log)
            await log.fork("chat", LONG_NAME)
            fault = disk.fault = Fault(nth, errno.EIO, frozenset(READING))
            with suppress(ChatfoldError, OSError):
                await log.redact("chat", 4)
                assert not [path for path, data in files_of(disk) if SECRET.encode() in data], nth


@pytest.mark.parametrize("same", [True, False], ids=["the same storage", "another one"])
async def test_what_is_said_again_while_an_erasure_waits_to_be_finished_refers_to_nothing_erased(
    same: bool,
) -> None:
    nth, fault = 0, Fault(1)
    while nth == 0 or fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk) as log, opened(disk) as other:
            await log.append("chat", Noted("said", {"text": STORY}), id="first")
            await prepare(log)
            await other.append("chat", Noted("said", {"text": STORY}), id="second")
            fault = disk.fault = Fault(nth, errno.ENOSPC, frozenset(CHANGING))
            with suppress(ChatfoldError, OSError):
                await log.redact("chat", 1)
            disk.fault = None
            with suppress(ChatfoldError):
                await (log if same else other).append("chat", Noted("said", {"text": STORY}), id="third")
        async with opened(disk) as log:
            await log.append("chat", *short("after"), id="after")
        found = {entry.id: entry for entry in chats_of(disk)["chat"]}
        assert (found["first"].was is None) == (found["second"].was is None), f"change {nth}"


async def test_the_writer_is_not_misled_by_a_witness_of_before_an_erasure() -> None:
    """The segment is shorter now, and ends in the same entry: the place after it is another."""
    disk = new_disk()
    async with opened(disk, 70_000) as log:
        await log.append("chat", Noted("said", {"text": "x" * 80_000}), SAYS, id="first")
        await log.redact("chat", 2)
        await log.append("chat", *short("after"), id="after")
    assert [entry.id for entry in chats_of(disk.crash("nothing"))["chat"]] == ["first", None, None, "after"]


@pytest.mark.parametrize("verb", ["fork", "delete"])
async def test_a_fork_or_a_deletion_that_failed_does_not_keep_what_the_same_storage_erases_later(
    verb: str,
) -> None:
    """The disk fails for a while, so that nobody can clean up either."""
    nth, left = 0, 0
    fault = Fault(0, struck="yes")
    while fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk) as log:
            await prepare(log)
            await log.fork("chat", "twin")
            fault = disk.fault = Fault(nth, errno.EIO, frozenset(CHANGING), forever=True)
            with suppress(ChatfoldError, OSError):
                await (log.fork("chat", "branch") if verb == "fork" else log.delete("twin"))
            disk.fault = None
            left += any(part[:1] == "." or part == "trash" for path in _saying(disk) for part in path.parts)
            await log.redact("chat", 4)
            assert not _saying(disk), f"change {nth}: {_saying(disk)}"
        for after in (disk.crash("nothing"), disk.crash("any")):
            assert not _saying(after), f"change {nth}: {_saying(after)}"
    assert left


@pytest.mark.parametrize("was_open", [False, True])
async def test_what_a_dead_writer_was_publishing_does_not_come_back_after_an_erasure(was_open: bool) -> None:
    """It holds what was erased since. That it was removed must survive a power cut, as the erasure does."""
    nth, found = 0, 0
    fault = Fault(0, struck="yes")
    while fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk, 100_000) as other:
            dying = still(FileStorage(ROOT, disk=disk, segment_bytes=100_000))
            await prepare(Log(dying))
            if was_open:
                await other.append("chat", *short("other"), id="other")
            fault = await killed(disk, dying, nth, lambda log: log.redact("chat", 1))
            found += any(is_temp_name(path.name) for path in _saying(disk))
            await other.redact("chat", 4)
        for after in (disk, disk.crash("nothing"), disk.crash("any")):
            assert not _saying(after), f"change {nth}: {_saying(after)}"
    assert found


def _saying(disk: SimulatedDisk) -> list[Path]:
    return [path for path, data in files_of(disk) if SECRET.encode() in data]


async def test_a_seal_that_was_not_durable_when_its_writer_was_killed_is_before_the_log_goes_on() -> None:
    nth = 0
    fault = Fault(0, struck="yes")
    while fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk) as log:
            await prepare(log)
            fault = disk.fault = Fault(nth, kinds=frozenset(CHANGING))
            with suppress(ChatfoldError, OSError):
                for number in range(4):
                    await log.append("chat", *short(f"r{number}", 2), id=f"r{number}")
        async with opened(disk) as log:
            await log.append("chat", *short("after"), id="after")
        for manner in ("nothing", *["any"] * 10):
            report = check(chat_path(ROOT, "chat"), disk=disk.crash(manner))
            assert report.ok, f"change {nth}, {manner}: {report.problems}"


@pytest.mark.parametrize("marked", [True, False])
async def test_a_sync_of_another_process_that_failed_in_a_new_segment_is_not_passed_over(
    marked: bool,
) -> None:
    """Whoever opens a file after that is not told by the kernel. Without a mark, the disk failed for everything meanwhile."""
    nth, refused = 0, 0
    fault = Fault(0, struck="yes")
    while fault.struck:
        nth += 1
        disk = new_disk(nth)
        async with opened(disk) as log, opened(disk) as other:
            await prepare(log)
            await other.append("chat", *short("other"), id="other")
            kinds = frozenset({"sync"} if marked else CHANGING)
            fault = disk.fault = Fault(nth, errno.EIO, kinds, forever=not marked)
            with suppress(ChatfoldError, OSError):
                for number in range(4):
                    await log.append("chat", *short(f"r{number}", 2), id=f"r{number}")
            disk.fault = None
            try:
                await (other if marked else log).append("chat", *short("after"), id="after")
            except (DurabilityUnknown, OSError):  # the second from a tail that could not be cut
                refused += 1
        async with opened(disk) as log:
            await log.append("chat", *short("after"), id="after")
        for manner in ("nothing", *["any"] * 5):
            after = disk.crash(manner)
            assert [entry.id for entry in chats_of(after)["chat"]].count("after") == 1, f"sync {nth}"
            report = check(chat_path(ROOT, "chat"), disk=after)
            assert report.ok, f"sync {nth}: {report.problems}"
    assert refused


async def test_an_erasure_that_was_cut_short_does_not_reach_another_chat_of_the_same_key() -> None:
    """The chat was deleted meanwhile by somebody who had the store open, and another one was begun; it has a fork, too."""
    nth, notes = 0, 0
    fault = Fault(0, struck="yes")
    while fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk) as other:
            dying = still(FileStorage(ROOT, disk=disk, segment_bytes=600))
            await prepare(Log(dying))
            await other.append("chat", *short("other"), id="other")
            fault = await killed(disk, dying, nth, lambda log: log.redact("chat", 1))
            notes += any(name.startswith(NOTE) for name in disk.names(ROOT))
            await other.delete("chat")
            with suppress(ChatDeleted):
                await other.append("chat", *short("told"))
            await other.append("chat", *short("new", 2), id="new")
            await other.fork("chat", "twin", 1)
        async with opened(disk) as log:
            await log.append("chat", *short("after"), id="after")
        for chat, log_of in chats_of(disk).items():
            assert not any(entry.was for entry in log_of), f"change {nth}: {chat}"
        assert not any(name.startswith(NOTE) for name in disk.names(ROOT))
    assert notes


@pytest.mark.parametrize("mended", [True, False], ids=["set aside", "still in the segment"])
async def test_what_is_erased_is_not_left_in_a_torn_tail_of_a_chat_that_has_lost_it(mended: bool) -> None:
    """It was in the log when a copy was made of it, and was not durable."""
    nth, fault = 0, Fault(0, struck="yes")
    while fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk, 20_000) as log:
            await log.append("chat", *short("first"), id="first")
            await log.append("chat", SAYS, id="secret", durability="off")
            await log.storage.import_chat("copy", log.storage.export("chat"))
        _tear(disk, chat_path(ROOT, "chat") / segment_name(1))
        async with opened(disk, 20_000) as log:
            if mended:
                await log.append("chat", *short("second"), id="second")
            assert any("chat" in path.parts for path in _saying(disk))
            fault = disk.fault = Fault(nth, kinds=frozenset(CHANGING))
            with suppress(ChatfoldError, OSError):
                await log.redact("copy", 2)
        async with opened(disk, 20_000) as log:
            for chat in ("chat", "copy"):
                await log.append(chat, *short("after"), id="after")
            if not chats_of(disk)["copy"][1].was:  # killed before it had begun
                await log.redact("copy", 2)
        kept = ["first", "second", "after"] if mended else ["first", "after"]
        for after in (disk, disk.crash("nothing"), disk.crash("any")):
            assert not _saying(after), f"change {nth}: {_saying(after)}"
            assert [entry.id for entry in chats_of(after)["chat"]] == kept, f"change {nth}"


def _tear(disk: SimulatedDisk, path: Path) -> None:
    """What a power cut may do to a line that was not synced."""
    fd = disk.open_append(path)
    disk.truncate(fd, disk.fstat(fd).st_size - 8)
    disk.sync(fd)
    disk.close(fd)


async def test_an_erasure_that_was_cut_short_does_not_reach_another_entry_of_the_same_seq() -> None:
    """The one that was to be erased was never on the medium, and nobody could know: the disk had failed for a while, for
    everything. Whoever read the medium next went on without it."""
    nth, notes = 0, 0
    fault = Fault(0, struck="yes")
    while fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk, 100_000) as other:
            dying = still(FileStorage(ROOT, disk=disk, segment_bytes=100_000))
            await Log(dying).append("chat", *short("first"), id="first")
            await other.append("another", *short("other"))  # it has seen to what others left
            await Log(dying).append("chat", SAYS, id="lost", durability="off")
            disk.fault = Fault(1, errno.EIO, frozenset(CHANGING), forever=True)
            with pytest.raises(ChatfoldError):
                await Log(dying).flush()
            fault = await killed(disk, dying, nth, lambda log: log.redact("chat", 2))
            note = any(name.startswith(NOTE) for name in disk.names(ROOT))
            await other.append("chat", *short("instead"), id="instead")
            instead = next(entry for entry in chats_of(disk)["chat"] if entry.id == "instead")
            notes += note and instead.seq == 2
        async with opened(disk) as log:
            await log.append("chat", *short("after"), id="after")
        assert instead in chats_of(disk)["chat"], f"change {nth}"
        assert not any(name.startswith(NOTE) for name in disk.names(ROOT))
    assert notes


# --- the rest --------------------------------------------------------------------------------------------------


async def test_what_a_torn_line_refers_to_may_be_missing_without_anything_being_damaged() -> None:
    torn = 0
    for seed in range(60):
        disk = new_disk(seed)
        async with opened(disk, 100_000) as log:
            await log.append("chat", *short("first"), id="first")
            for _ in range(4):
                text = disk.chance.randbytes(2_000).hex()
                await log.append(
                    "chat", Noted("said", {"text": text + STORY, "again": STORY}), durability="off"
                )
        report = check(chat_path(ROOT, "chat"), disk=disk.crash("any"))
        torn += any(problem.kind == "torn" for problem in report.problems)
        assert report.ok, f"seed {seed}: {report.problems}"
    assert torn > 5


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_a_failed_sync_that_could_leave_no_mark_is_not_counted_on(code: int) -> None:
    """The disk fails for a while, for everything; then it works again, and the pages it lost seem to be there."""
    for seed in range(40):
        disk = new_disk(seed)
        async with opened(disk, 100_000) as log:
            await log.append("chat", *short("first"), id="first")
            pages = Noted("said", {"text": "x" * 20_000})
            await log.append("chat", pages, id="lost", durability="off")
            disk.fault = Fault(1, code, forever=True)
            with pytest.raises(ChatfoldError):
                await log.flush()
        async with opened(disk) as log:
            await log.append("chat", *short("after"), id="after")
        found = [entry.id for entry in chats_of(disk.crash("nothing"))["chat"] if entry.id]
        assert found in (["first", "after"], ["first", "lost", "after"])


async def test_a_look_that_fails_before_a_segment_is_sealed_is_not_taken_for_a_failed_sync() -> None:
    nth, unwritten = 0, 0
    fault = Fault(0, struck="yes")
    while fault.struck:
        nth += 1
        disk = new_disk()
        async with opened(disk) as log:
            await log.append("chat", *short("first"), id="first")
            await log.append("chat", *short("full", 5), id="full")
            before = _segments(disk)
            fault = disk.fault = Fault(nth, errno.EIO, frozenset(READING))
            with suppress(ChatfoldError, OSError):
                await log.append("chat", *short("next"), id="next")
            disk.fault = None
            if fault.struck and _segments(disk) == before:
                unwritten += 1
                assert POISON_FILE not in disk.names(chat_path(ROOT, "chat")), f"call {nth}"
                await log.append("chat", *short("after"), id="after")
    assert unwritten > 3


def _segments(disk: SimulatedDisk) -> dict[Path, bytes]:
    return {path: data for path, data in files_of(disk) if path.suffix == ".jsonl"}


@pytest.mark.parametrize("durability", ["full", "off"])
async def test_who_has_the_segment_open_in_which_a_sync_failed_writes_no_more_in_it(
    durability: Durability,
) -> None:
    """The medium may have lost just what came after the end that the other one knows: for it, nothing has changed."""
    went_on = 0
    for seed in range(20):
        disk = new_disk(seed)
        first, second, other = (still(FileStorage(ROOT, disk=disk, segment_bytes=100_000)) for _ in range(3))
        await Log(first).append("chat", *short("first"), id="first")
        await Log(other).append("chat", *short("second"), durability=durability)
        disk.fault = Fault(1, errno.EIO, frozenset({"sync"}))
        with pytest.raises(DurabilityUnknown):
            await Log(first).append("chat", *short("lost"))
        await Log(second).append("chat", *short("third"), id="third")
        try:
            await Log(other).append("chat", *short("fourth"), id="fourth")
            went_on += 1
        except DurabilityUnknown:
            pass
        for storage in (first, second, other):
            await abandon(storage)
        disk.revive()
        assert check(chat_path(ROOT, "chat"), disk=disk).ok
        assert {"first", "third"} <= {entry.id for entry in chats_of(disk)["chat"]}
    assert went_on


async def test_who_is_told_of_a_failed_sync_while_it_mends_a_torn_tail_is_not_sure_of_anything() -> None:
    told = 0
    for seed in range(20):
        disk = new_disk(seed)
        first, other = (still(FileStorage(ROOT, disk=disk, segment_bytes=100_000)) for _ in range(2))
        await Log(first).append("chat", *short("first"), id="first")
        await Log(other).append("chat", *short("second"), id="second")
        disk.fault = Fault(1, errno.ENOSPC, frozenset({"sync"}))
        with pytest.raises(DurabilityUnknown):
            await Log(first).append("chat", Noted("said", {"text": "x" * 20_000}))
        try:
            await Log(other).append("chat", *short("third"))
        except DurabilityUnknown:
            told += 1
        for storage in (first, other):
            await abandon(storage)
        disk.revive()
        assert check(chat_path(ROOT, "chat"), disk=disk).ok
    assert told
