"""Break, see that it is broken, get everything out, make it whole, go on."""

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from chatfold.eventlog import (
    ChatfoldError,
    CorruptLog,
    Entry,
    FileStorage,
    Log,
    Lost,
    check,
    repair,
    salvage,
    scan,
)
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.segment import Position
from chatfold.eventlog.files.watermark import format_watermark
from chatfold.eventlog.line import add_checksum, header_line
from tests.support.damage.broken import DAMAGES, ENTRIES, gone_from, lines_of, make_healthy, segments
from tests.support.disk.faulty_disk import CHANGING, FailingDisk
from tests.support.judges.talk import digest_of, entries_of, is_clean, short


@pytest.fixture(params=DAMAGES)
def damage(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def healthy(fast_folder: Path) -> Path:
    return make_healthy(fast_folder / "store")


async def _append(folder: Path) -> Entry:
    async with Log(FileStorage(folder.parents[1])) as log:
        [entry] = await log.append(folder.name, *short("after"), id="after")
        return entry


def test_damage_is_found_and_told_with_its_place(healthy: Path, damage: str) -> None:
    DAMAGES[damage](healthy)
    before = digest_of(healthy)
    report = check(healthy)
    assert not report.ok
    [first, *_] = [problem for problem in report.problems if problem.kind == "damaged"]
    assert first.path.parent == healthy
    assert first.seq is not None
    with pytest.raises(CorruptLog) as found:
        list(scan(healthy))
    assert found.value.path is not None
    assert found.value.seq is not None
    assert digest_of(healthy) == before


def test_repair_keeps_everything_that_verifies_and_says_what_is_lost(healthy: Path, damage: str) -> None:
    before, lines = list(scan(healthy)), lines_of(healthy)
    DAMAGES[damage](healthy)
    files = {path.read_bytes() for path in segments(healthy)}
    gone = gone_from(healthy, lines)
    report = repair(healthy)
    after = entries_of(healthy)
    assert report.lost == gone
    assert [entry.seq for entry in after if isinstance(entry.event, Lost)] == gone
    assert [e for e in after if e.seq not in gone] == [e for e in before if e.seq not in gone]
    now = {path.read_bytes() for path in segments(healthy)}
    assert files - now <= {path.read_bytes() for path in report.kept} <= files


def test_a_repaired_chat_is_clean_and_goes_on(healthy: Path, damage: str) -> None:
    DAMAGES[damage](healthy)
    repair(healthy)
    assert is_clean(healthy)
    assert asyncio.run(_append(healthy)).seq == ENTRIES + 1
    assert len(entries_of(healthy)) == ENTRIES + 1
    assert is_clean(healthy)


def test_salvage_gets_everything_that_verifies_and_touches_nothing(
    healthy: Path, damage: str, fast_folder: Path
) -> None:
    lines = lines_of(healthy)
    DAMAGES[damage](healthy)
    before = digest_of(healthy)
    gone = gone_from(healthy, lines)
    saved_count = salvage(healthy, fast_folder / "out").proven
    assert digest_of(healthy) == before
    saved = (fast_folder / "out" / "salvaged.jsonl").read_bytes().splitlines()
    assert len(saved) == saved_count
    # A line of another chat verifies too: whether it belongs here is not a line's to say.
    kept = [line for line in saved if b"alien" not in line]
    assert sorted(kept) == sorted(line for seq, line in lines.items() if seq not in gone)


def test_repair_of_a_healthy_chat_does_nothing(healthy: Path) -> None:
    before = digest_of(healthy)
    report = repair(healthy)
    assert (report.ok, report.lost, report.kept) == (True, [], [])
    assert digest_of(healthy) == before


def test_repair_leaves_a_torn_tail_to_the_next_writer(healthy: Path) -> None:
    with segments(healthy)[-1].open("ab") as segment:
        segment.write(b'{"seq":31,"ts"')
    before = digest_of(healthy)
    assert repair(healthy).ok
    assert digest_of(healthy) == before
    assert asyncio.run(_append(healthy)).seq == ENTRIES + 1
    assert is_clean(healthy)


def test_repairing_twice_is_repairing_once(healthy: Path, damage: str) -> None:
    DAMAGES[damage](healthy)
    repair(healthy)
    before = digest_of(healthy)
    assert repair(healthy).kept == []
    assert digest_of(healthy) == before


@pytest.mark.campaign
@pytest.mark.parametrize("forever", [False, True], ids=["once", "for ever"])
def test_a_repair_that_failed_half_way_can_be_done_again(
    fast_folder: Path, damage: str, *, forever: bool
) -> None:
    template = make_healthy(fast_folder / "template")
    lines = lines_of(template)
    DAMAGES[damage](template)
    gone = gone_from(template, lines)
    for nth in range(1, 1_000):
        folder = fast_folder / str(nth) / "chats" / "chat"
        shutil.copytree(template, folder)
        disk = FailingDisk(nth, kinds=CHANGING, forever=forever)
        with suppress(OSError, ChatfoldError):
            repair(folder, disk=disk)
        repair(folder)
        assert is_clean(folder)
        assert [entry.seq for entry in entries_of(folder) if isinstance(entry.event, Lost)] == gone
        assert gone_from(folder, lines) == gone
        if not disk.failed:
            assert nth > 5
            return


@pytest.mark.parametrize("what", ["line", "header", "witness"])
def test_a_seq_far_away_that_was_made_up_is_refused_and_changes_nothing(healthy: Path, what: str) -> None:
    """Repair fills holes entry by entry: this one would keep it busy for years."""
    far = 1 << 52
    if what == "line":
        start, *lines = segments(healthy)[0].read_bytes().splitlines(keepends=True)
        made_up = b'{"seq":%d,"ts":1,"event":{"type":"noted","name":"x"},"prev":"0000000000000000"' % far
        segments(healthy)[0].write_bytes(b"".join([start, add_checksum(made_up) + b"\n", *lines]))
    elif what == "header":
        segments(healthy)[1].write_bytes(header_line(Head(far, "0" * 16)) + b"\n")
    else:
        (healthy / "head").write_bytes(format_watermark(1, Position(far, b"0" * 16, 1)))
    before = digest_of(healthy)
    with pytest.raises(CorruptLog, match="too many to repair"):
        repair(healthy)
    assert digest_of(healthy) == before
    assert salvage(healthy, healthy.parent / "salvaged").proven > 0


async def test_the_batch_before_a_seal_is_filled_up(fast_folder: Path) -> None:
    """A seal stands behind whole batches only: a writer would take what follows one for torn, and write after the seal."""
    root = fast_folder / "store"
    async with Log(FileStorage(root, segment_bytes=1)) as log:
        await log.append("chat", *short("one"), *short("two"), *short("three"))
        await log.append("chat", *short("the next segment"))
    folder = root / "chats" / "chat"
    first, second = segments(folder)
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join([*lines[:-2], lines[-1]]))
    second.unlink()
    (folder / "head").unlink()
    assert repair(folder).lost == [3]
    assert check(folder).problems == []
    assert (await _append(folder)).seq == 4
    assert check(folder).problems == []
