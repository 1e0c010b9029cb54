"""Writers are killed at random moments, and operations before every single change to the disk."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatfold.eventlog import check
from tests.support.judges.talk import entries_of, ids_in
from tests.support.processes.children import started, told
from tests.support.processes.operations import OPERATIONS, judge

ROUNDS = int(os.environ.get("CHATFOLD_KILL_ROUNDS", "40"))
SEED = int(os.environ.get("CHATFOLD_KILL_SEED", "1"))


@pytest.fixture
def nursery() -> Iterator[subprocess.Popen[str]]:
    with started("appending") as child:
        yield child


def _killed(nursery: subprocess.Popen[str], delay: float, *args: object) -> list[list[str]]:
    """What a new writer told before it was killed."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(" ".join(map(str, args)) + "\n")
    nursery.stdin.flush()
    words: list[list[str]] = []
    for line in nursery.stdout:
        match line.split():
            case ["pid", pid]:
                time.sleep(delay)
                os.kill(int(pid), signal.SIGKILL)
            case ["ended"]:
                return words
            case acknowledged:
                words.append(acknowledged)
    raise AssertionError("the nursery ended")


def _torn(folder: Path) -> tuple[Path, int, bytes] | None:
    """(segment, byte, what stands there) of the tail that a kill left, if it left one."""
    for problem in check(folder).problems:
        assert problem.kind != "damaged", problem
        if problem.kind == "torn" and problem.offset is not None:
            return problem.path, problem.offset, problem.path.read_bytes()[problem.offset :]
    return None


def _kept(folder: Path, torn: tuple[Path, int, bytes]) -> bool:
    """Torn bytes are set aside; a line that lacked nothing but its newline gets it and stays."""
    path, offset, rest = torn
    aside = [file.read_bytes() for file in (folder / "aside").glob("torn-*")]
    return rest in aside or path.read_bytes()[offset:].startswith(rest + b"\n")


@pytest.mark.parametrize(
    ("durability", "segment_bytes"), [("full", 1 << 20), ("full", 1 << 17), ("off", 8 << 20), ("off", 2_000)]
)
def test_what_was_acknowledged_survives_any_number_of_kills(
    tmp_path: Path, nursery: subprocess.Popen[str], durability: str, segment_bytes: int
) -> None:
    folder = tmp_path / "chats" / "chat"
    chance = random.Random(f"{SEED} {durability} {segment_bytes}")
    acknowledged: dict[str, int] = {}
    torn = None
    for number in range(ROUNDS):
        words = _killed(
            nursery, chance.uniform(0, 0.06), tmp_path, "chat", f"w{number}", durability, segment_bytes, 10**6
        )
        acknowledged |= {name: int(first) for first, _, name in words}
        if torn is not None and words:
            assert _kept(folder, torn), f"round {number}: torn bytes are gone"
        if folder.exists():
            torn = _torn(folder)
            _holds(folder, acknowledged)
    assert acknowledged, "every writer was killed before its first append: nothing was tested"


def test_a_temporary_file_that_a_kill_left_is_removed_by_the_next_writer(fast_folder: Path) -> None:
    with started("dying", "roll", fast_folder) as child:
        assert told(child)
    left = list(fast_folder.rglob("*.tmp"))
    assert left
    for store in {Path(*path.parts[: len(fast_folder.parts) + 2]) for path in left}:
        judge("roll", store, (store.parent / "told").read_text().split())
    assert not [path for path in left if path.exists()]


def _holds(folder: Path, acknowledged: dict[str, int]) -> None:
    """Every acknowledged append is there once, whole, where it was told to be, and says what it said."""
    entries = entries_of(folder)
    assert acknowledged.keys() <= set(ids_in(entries))
    assert all(entries[first - 1].id == name for name, first in acknowledged.items())


@pytest.mark.parametrize(
    "operation", [pytest.param(one, marks=pytest.mark.smoke if one == "append" else ()) for one in OPERATIONS]
)
def test_killed_before_any_change_to_the_disk_it_leaves_a_whole_store(
    fast_folder: Path, operation: str
) -> None:
    with started("dying", operation, fast_folder) as child:
        [[kills]] = told(child)
    places = sorted(fast_folder.glob("[0-9]*"))
    assert len(places) == int(kills) + 2  # and the two that got through
    for place in places:
        try:
            judge(operation, place / "store", (place / "told").read_text().split())
        except Exception as error:
            raise AssertionError(f"killed at {place.name}") from error
