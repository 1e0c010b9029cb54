"""A run is killed after each single event, resumed, and ends as if nobody had killed it.

Killed, too, in the middle of whatever a tool does out in the world; before a change to the disk; and once more while somebody
goes on with it. No tool is executed twice unless it says that it may be; nothing is sent twice; no message is forgotten.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from chatfold.agent import Store
from chatfold.eventlog import Storage
from tests.support.judges.judging_runs import Ending, judge, judge_closed, judge_left, revive
from tests.support.postgres import shared_cluster
from tests.support.processes.children import started
from tests.support.processes.killed_runs import World, agent_in, in_database, on_disk, storage_in, talk

LONG = "CHATFOLD_LONG" in os.environ


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    with started("killed_runs") as child:
        yield child


@pytest.fixture
def template(fast_folder: Path) -> Path:
    asyncio.run(_prepare(on_disk(fast_folder / "template")))
    return fast_folder / "template"


async def _prepare(storage: Storage) -> None:
    async with Store(storage) as store:
        await talk(store)


def _is_killed(nursery: subprocess.Popen[str], verb: str, place: Path, moment: str, nth: int) -> bool:
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(f"{verb}\t{place}\t{moment}\t{nth}\n")
    nursery.stdin.flush()
    answer = nursery.stdout.readline().strip()
    assert answer in ("killed", "through"), f"{verb} {answer}, with {moment} {nth}"
    return answer == "killed"


async def _gone_on_with(place: Path, known: Ending | None) -> Ending:
    left = await judge_left(place)
    world = World(place)
    async with agent_in(world, storage_in(place)) as agent:
        ending = await judge(agent, world, await revive(agent, left), known)
    judge_closed(place)
    return ending


def _judged(place: Path, known: Ending | None = None) -> Ending:
    try:
        return asyncio.run(_gone_on_with(place, known))
    except Exception as error:
        raise AssertionError(f"killed at {place.name}") from error


@pytest.fixture
def known(template: Path) -> Ending:
    """How it ends if nobody is killed."""
    place = template.parent / "unkilled"
    shutil.copytree(template, place)
    return _judged(place)


def test_killed_after_each_event_and_each_deed_a_run_is_gone_on_with(
    nursery: subprocess.Popen[str], template: Path, known: Ending
) -> None:
    for nth in count(1):
        place = template.parent / f"{nth}"
        shutil.copytree(template, place)
        if not _is_killed(nursery, "begin", place, "event", nth):
            break
        _judged(place, known)
    assert nth > 50
    assert _judged(place, known) == known


def test_killed_once_more_while_it_is_gone_on_with(
    nursery: subprocess.Popen[str], template: Path, known: Ending
) -> None:
    for first in count(1):
        left = template.parent / f"{first}"
        shutil.copytree(template, left)
        if not _is_killed(nursery, "begin", left, "event", first):
            break
        for second in count(1) if LONG else [(1 + first % 7, 8 + first % 29)[first % 2]]:
            place = template.parent / f"{first}, {second}"
            shutil.copytree(left, place)
            killed = _is_killed(nursery, "resume", place, "event", second)
            _judged(place, known)
            shutil.rmtree(place)
            if not killed:
                break


@pytest.mark.parametrize("moment", ["disk", "torn"])
def test_killed_before_a_change_to_the_disk_or_in_a_write_a_run_is_gone_on_with(
    nursery: subprocess.Popen[str], template: Path, known: Ending, moment: str
) -> None:
    kills = 0
    for nth in count(1, 1 if LONG else 7 if moment == "disk" else 4):
        place = template.parent / f"{moment} {nth}"
        shutil.copytree(template, place)
        killed = _is_killed(nursery, "begin", place, moment, nth)
        _judged(place, known)
        if not killed:
            break
        kills += 1
    assert kills > 12


def test_killed_on_a_database_a_run_is_gone_on_with_and_ends_as_in_files(
    nursery: subprocess.Popen[str], fast_folder: Path, known: Ending
) -> None:
    kills = 0
    for nth in count(1, 1 if LONG else 5):
        place = fast_folder / f"database {nth}"
        place.mkdir()
        (place / "database").write_text(shared_cluster().address())
        asyncio.run(_prepare(in_database(place)))
        killed = _is_killed(nursery, "begin", place, "event", nth)
        shared_cluster().wait_for_clients_to_end()
        _judged(place, known)
        if not killed:
            break
        kills += 1
    assert kills > 10
