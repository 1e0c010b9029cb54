"""A few rounds of ``concurrency`` on every run; and a checker that finds what it must find."""

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from chatfold.eventlog import FileStorage, Log
from tests.campaign.concurrency import Checker
from tests.support.figures import Figures
from tests.support.judges.talk import short

_TOP = Path(__file__).parents[2]


def test_a_crowd_that_is_killed_and_started_again_makes_one_log(fast_folder: Path) -> None:
    """In a process of its own, which may fork: this one may have threads."""
    environment = {"PYTHONPATH": str(_TOP), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.campaign", "concurrency", "4", "5", str(fast_folder)],
        env=environment,
        capture_output=True,
        check=True,
        timeout=120,
    )
    figures = msgspec.json.decode(done.stdout, type=Figures)
    assert (figures.violations, figures.first) == (0, "")
    assert figures.counted["kills"] >= 4 * 3
    assert min(figures.counted[what] for what in ("acknowledged", "entries seen", "processes")) > 0


class SlowlySeen(threading.Event):
    """Whoever has waited in vain goes on only after it was set."""

    def wait(self, timeout: float | None = None) -> bool:
        seen = super().wait(timeout)
        super().wait()
        time.sleep(0.05)  # now what is said next was said, too
        return seen


async def test_closing_never_waits_for_somebody_who_has_missed_it(fast_folder: Path) -> None:
    storage = FileStorage(fast_folder)
    storage._queue._is_closed = SlowlySeen()
    for name in ("a", "b"):
        await Log(storage).append("chat", *short(name))
    await asyncio.sleep(0.4)  # the thread that writes the witness has looked whether it is over
    async with asyncio.timeout(60):
        await storage.close()


# --- the checker --------------------------------------------------------------------------------------------


@pytest.fixture
async def place(fast_folder: Path) -> Path:
    """A round of one writer, one racer and one follower, as they would tell it."""
    (fast_folder / "told").mkdir()
    async with Log(FileStorage(fast_folder / "store")) as log:
        entries = [(await log.append("chat", *short(f"write0.{n}"), id=f"write0.{n}"))[0] for n in range(5)]
    acks = [f"ack {entry.seq} {entry.link} {entry.prev} {entry.id}" for entry in entries]
    seen = [f"saw {entry.seq} {entry.link}" for entry in entries]
    told = {"write0": acks, "race1": ["won 1 2"], "follow2": ["follows", *seen]}
    for name, lines in told.items():
        (fast_folder / "told" / name).write_text("\n".join(["life 0", *lines, "finished", ""]))
    return fast_folder


LIES: dict[str, tuple[str, str, str]] = {
    "an acknowledged entry is not there": ("write0", "ack 3 ", "ack 9 "),
    "another stands in its place": ("write0", "ack 3 ", "ack 4 "),
    "nobody was told of an append": ("write0", "write0.2", "-"),
    "two won the same race": ("race1", "won 1 2", "won 1 2\nwon 1 2"),
    "a winner stands elsewhere": ("race1", "won 1 2", "won 1 3"),
    "a follower missed one": ("follow2", "saw 2 ", "skipped "),
    "a process failed": ("follow2", "finished", "error ValueError no"),
    "a process hangs": ("follow2", "finished", "life 1"),
    "what was erased is still there": ("write0", "finished", "redacted 1 write0.0\nfinished"),
}


@pytest.mark.smoke
def test_the_checker_has_nothing_against_the_truth(place: Path) -> None:
    Checker(place, Figures()).check()


@pytest.mark.smoke
@pytest.mark.parametrize("lie", LIES)
def test_the_checker_finds(place: Path, lie: str) -> None:
    name, old, new = LIES[lie]
    told = place / "told" / name
    said = told.read_text()
    assert old in said
    told.write_text(said.replace(old, new))
    with pytest.raises(AssertionError):
        Checker(place, Figures()).check()
