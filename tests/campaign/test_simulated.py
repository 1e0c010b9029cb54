"""The simulated disk is what it says it is; and the campaign on it, cut short: the same programs each time."""

import asyncio
import errno
import random
from pathlib import Path

import pytest

from chatfold.eventlog import Noted
from tests.campaign.simulated import LENGTH, campaign, failure, smallest
from tests.campaign.simulated_operations import HOW, Trial, everywhere
from tests.support.disk.simulated_disk import Fault, PowerOff, SimulatedDisk
from tests.support.figures import Figures
from tests.support.processes.operations import OPERATIONS
from tests.support.simulation.simulated_programs import drawn
from tests.support.simulation.simulated_runs import Run
from tests.support.simulation.simulated_world import Expected, Known, UnderWay, World

A, B = Path("/a"), Path("/b")
PAGE = 4096


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(1))


def put(disk: SimulatedDisk, path: Path, data: bytes, *, durable: bool = True) -> None:
    fd = disk.create(path)
    disk.write(fd, data)
    if durable:
        disk.sync(fd)
        disk.sync_folder(path.parent)
    disk.close(fd)


def content(disk: SimulatedDisk, path: Path) -> bytes:
    fd = disk.open_read(path)
    data = disk.pread(fd, 1 << 20, 0)
    disk.close(fd)
    return data


def add(disk: SimulatedDisk, path: Path, data: bytes) -> int:
    fd = disk.open_append(path)
    disk.write(fd, data)
    return fd


# --- what survives ---------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_what_was_synced_is_there_whatever_happens(disk: SimulatedDisk) -> None:
    put(disk, A, b"x" * 10_000)
    add(disk, A, b"y" * 10_000)
    for _ in range(100):
        assert content(disk.crash(), A)[:10_000] == b"x" * 10_000


@pytest.mark.smoke
def test_what_was_not_synced_is_lost_or_there_in_pages_of_any_order(disk: SimulatedDisk) -> None:
    put(disk, A, b"")
    add(disk, A, b"y" * 3 * PAGE)
    seen = {content(disk.crash("any"), A) for _ in range(300)}
    assert {b"", b"y" * 3 * PAGE, bytes(PAGE) + b"y" * 2 * PAGE} <= seen
    assert any(data.count(b"y") % PAGE > 0 and data.count(b"y") % 512 == 0 for data in seen), "torn in a page"
    assert any(set(data) - set(b"y\0") for data in seen), "what was on the medium before"
    assert content(disk.crash("nothing"), A) == b""
    assert content(disk.crash("everything"), A).strip(b"\0y") == b""


@pytest.mark.smoke
def test_a_name_without_a_sync_of_its_folder_is_lost_with_all_that_was_synced(disk: SimulatedDisk) -> None:
    fd = disk.create(A)
    disk.write(fd, b"x")
    disk.sync(fd)
    assert disk.crash("nothing").names(Path("/")) == []
    assert disk.crash("everything").names(Path("/")) == ["a"]


@pytest.mark.smoke
def test_a_rename_is_undone_unless_its_folder_is_synced(disk: SimulatedDisk) -> None:
    put(disk, A, b"new")
    put(disk, B, b"old")
    disk.rename(A, B)
    assert content(disk.crash("nothing"), B) == b"old"
    assert {content(disk.crash("any"), B) for _ in range(30)} == {b"old", b"new"}
    disk.sync_folder(A.parent)
    assert disk.crash().names(A.parent) == ["b"]
    assert content(disk.crash("nothing"), B) == b"new"


@pytest.mark.smoke
def test_a_file_that_was_removed_is_back_unless_its_folder_is_synced(disk: SimulatedDisk) -> None:
    put(disk, A, b"x")
    disk.unlink(A)
    assert content(disk.crash("nothing"), A) == b"x"
    disk.sync_folder(A.parent)
    assert disk.crash().names(A.parent) == []


@pytest.mark.smoke
def test_between_folders_a_file_has_its_old_name_or_its_new_one_or_both(disk: SimulatedDisk) -> None:
    for folder in (A, B):
        disk.make_folder(folder)
    disk.sync_folder(A.parent)
    put(disk, A / "file", b"x")
    disk.rename(A / "file", B / "file")
    crashed = [disk.crash("any") for _ in range(100)]
    assert {(len(after.names(A)), len(after.names(B))) for after in crashed} == {(1, 0), (0, 1), (1, 1)}
    disk.sync_folder(B)
    assert disk.crash("nothing").names(B) == ["file"]


@pytest.mark.smoke
def test_a_folder_that_was_moved_twice_is_in_one_place(disk: SimulatedDisk) -> None:
    for folder in (A, B, A / "inner"):
        disk.make_folder(folder)
    for folder in (A.parent, A):
        disk.sync_folder(folder)
    disk.rename(A / "inner", A / "renamed")
    disk.rename(A / "renamed", B / "inner")
    seen = {(*after.names(A), *after.names(B)) for after in (disk.crash("any") for _ in range(100))}
    assert seen == {("inner",), ("renamed",)}
    places = {tuple(after.names(B)) for after in (disk.crash("any") for _ in range(100))}
    assert places == {(), ("inner",)}
    disk.sync_folder(B)
    after = disk.crash("nothing")
    assert (after.names(A), after.names(B)) == ([], ["inner"])


@pytest.mark.smoke
def test_a_link_is_the_same_file_after_a_power_cut(disk: SimulatedDisk) -> None:
    put(disk, A, b"x")
    disk.link(A, B)
    disk.sync_folder(A.parent)
    after = disk.crash("nothing")
    assert after.stat(A).st_ino == after.stat(B).st_ino
    assert after.stat(A).st_nlink == 2


@pytest.mark.smoke
def test_the_number_of_a_file_that_is_gone_for_good_is_given_out_again(disk: SimulatedDisk) -> None:
    put(disk, A, b"x")
    number = disk.stat(A).st_ino
    disk.unlink(A)
    put(disk, B, b"x")
    assert disk.stat(B).st_ino != number  # a power cut could have brought the first one back
    disk.unlink(B)
    disk.sync_folder(A.parent)
    put(disk, A, b"x")
    assert disk.stat(A).st_ino <= number + 1


# --- what fails ------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_after_a_failed_sync_the_next_one_succeeds_and_the_pages_are_lost(disk: SimulatedDisk) -> None:
    put(disk, A, b"")
    fd = add(disk, A, b"y" * 8 * PAGE)
    disk.fault = Fault(1, errno.EIO, frozenset({"sync"}))
    with pytest.raises(OSError, match="Input/output"):
        disk.sync(fd)
    disk.sync(fd)
    assert content(disk.crash("everything"), A) != b"y" * 8 * PAGE


@pytest.mark.smoke
def test_every_descriptor_is_told_once_of_a_failed_sync(disk: SimulatedDisk) -> None:
    put(disk, A, b"")
    mine, other = disk.open_append(A), add(disk, A, b"y")
    disk.fault = Fault(1, errno.EIO, frozenset({"sync"}))
    for fd in (mine, other):
        with pytest.raises(OSError, match="Input/output"):
            disk.sync(fd)
    disk.sync(other)
    disk.sync(disk.open_read(A))


@pytest.mark.smoke
def test_a_fault_strikes_at_the_nth_call_once_or_for_ever(disk: SimulatedDisk) -> None:
    for forever in (False, True):
        disk.fault = Fault(2, errno.ENOSPC, forever=forever)
        disk.names(A.parent)
        with pytest.raises(OSError, match="No space"):
            disk.names(A.parent)
        if not forever:
            disk.names(A.parent)
    disk.fault = Fault(1)
    for _ in range(3):
        with pytest.raises(PowerOff):
            disk.names(A.parent)


@pytest.mark.smoke
def test_a_killed_process_leaves_everything_but_its_locks(disk: SimulatedDisk) -> None:
    put(disk, A, b"x", durable=False)
    held = disk.open_update(A)
    disk.lock(held)
    other = disk.open_update(A)
    assert not disk.try_lock(other)
    disk.revive()
    assert disk.try_lock(disk.open_update(A))
    assert content(disk, A) == b"x"


# --- the campaign, cut short -----------------------------------------------------------------------------------


def test_whatever_is_interrupted_at_any_point_loses_nothing_that_was_promised(tmp_path: Path) -> None:
    figures = campaign(30, 1, tmp_path)
    assert not figures.violations, figures.first
    assert figures.tried > 300
    assert figures.counted["recoveries interrupted"] > 50
    assert figures.counted["disk operations"] > 100_000


@pytest.mark.smoke
@pytest.mark.parametrize(
    "seed",
    [
        8000068,
        8000086,
        8000149,
        8002276,
        8000401,
        8000526,
        8000557,
        8000606,
        8000828,
        8009977,
        8010331,
        8010741,
        8014398,
        8016009,
        8022605,
        8024012,
        9000018,
    ],
)
def test_programs_that_found_something_once(seed: int) -> None:
    assert asyncio.run(failure(drawn(seed, LENGTH), Figures())) is None


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_let_down_at_some_calls_leaves_a_whole_store(
    fast_folder: Path, operation: str
) -> None:
    figures = Figures()
    trial = Trial(operation, fast_folder)
    for how in HOW:
        everywhere(trial, how, seed=1, figures=figures, step=31 if "blob" in operation else 13)
    assert not figures.violations, figures.first


@pytest.mark.smoke
def test_an_erasure_that_is_half_done_is_found_out_unless_another_one_did_that_half() -> None:
    said = [Known(Noted("said", number), link=f"link {number}") for number in range(3)]
    world = World()
    world.chats["chat"] = Expected(said)
    world.erasing = [
        UnderWay("redact", "chat", links=frozenset({"link 0", "link 1"})),
        UnderWay("redact", "gone", links=frozenset({"x"})),
    ]
    world._asked_for = {"link 0", "link 1"}
    said[0].erased = True
    with pytest.raises(AssertionError, match="half done"):
        world._judge_erasures()
    world.erasing.append(UnderWay("redact", "chat", links=frozenset({"link 0"})))
    world._judge_erasures()
    assert not world.erasing


@pytest.mark.smoke
def test_an_erasure_that_never_began_is_not_half_done_by_one_that_was_acknowledged() -> None:
    said = [Known(Noted("said", number), link=f"link {number}") for number in range(3)]
    world = World()
    world.chats["chat"] = Expected(said)
    asked = UnderWay("redact", "chat", links=frozenset({"link 0", "link 1"}))
    world.erasing = [asked]
    world.redacted({"chat": [1]})
    world._judge_erasures()
    world.erasing = [asked]
    world._told.clear()
    with pytest.raises(AssertionError, match="half done"):
        world._judge_erasures()


@pytest.mark.smoke
def test_an_entry_in_the_place_of_one_that_was_to_be_erased_is_not_taken_for_it() -> None:
    """The other was not durable, and a power cut took it away before the erasure was finished."""
    said = [Known(Noted("said", number), link=f"link {number}") for number in range(2)]
    world = World()
    world.chats["chat"] = Expected(said)
    world._asked_for = {"link 0", "lost"}
    world.erasing = [UnderWay("redact", "chat", seqs=(1, 2), links=frozenset(world._asked_for))]
    said[0].erased = True
    world._judge_erasures()
    said[1].erased = True
    with pytest.raises(AssertionError, match="nobody wanted"):
        world._judge_erasures()


@pytest.mark.smoke
def test_a_program_makes_the_same_calls_each_time() -> None:
    async def calls() -> tuple[int, int]:
        run = Run(drawn(7, LENGTH), Figures())
        await run.all()
        return run.disk.calls, run.disk.changes

    assert asyncio.run(calls()) == asyncio.run(calls())


@pytest.mark.smoke
def test_a_program_that_fails_is_made_as_small_as_it_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that says it has synced, and has not."""
    monkeypatch.setattr(SimulatedDisk, "sync", lambda disk, fd: disk._change("sync"))

    async def shrink() -> int:
        for seed in range(20):
            if await failure(drawn(seed, LENGTH), Figures()):
                return len((await smallest(drawn(seed, LENGTH))).steps)
        raise AssertionError("nobody noticed")

    assert asyncio.run(shrink()) <= 3
