"""The state machines of the test suite, for as long as there is time: what they did, and what they found.

Each machine, and each operation that is killed, has a process of its own: ``properties_child``. A violation is a failure that the search
found, and a bug; the tests find the same with ``HYPOTHESIS_PROFILE=long``. A crash is a process that dies in the middle: simulated by the
machines (what was not synced is lost, or a part of it), real in the kills. A search that does not come to its end is a violation, too, and
says on stderr where it stands.
"""

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from math import ceil
from pathlib import Path
from subprocess import CalledProcessError, TimeoutExpired

import msgspec

from benchmarks.environment import python_of
from benchmarks.machine import Crew, Said, environment
from benchmarks.measure import Row, absent, at_most, limited, progress

MACHINES = {
    "chats, every verb, against a naive model": "tests.agent.test_chat_machine:TestChats",
    "files against memory, with crashes": "tests.eventlog.test_storage_agreement:TestFilesAgreeWithMemory",
    "files write the bytes of memory": "tests.eventlog.test_storage_agreement:TestFilesWriteTheSameBytesAsMemory",
    "opening with any snapshots": "tests.agent.test_views:TestOpening",
    "the list of chats": "tests.agent.test_chat_list:TestLists",
}
KILLS = "kills before every change to the disk"
_COUNTED = {"examples": "examples", "operations": "operations", "crashes": "crashes injected"}
_PATIENCE = 180  # seconds that the last example may take; then it is not slow, it waits for ever


class Searched(msgspec.Struct):
    examples: int = 0
    operations: int = 0
    crashes: int = 0
    violations: int = 0
    first: str = ""  # of the violations


def rows(folder: Path, *, quick: bool, seconds: float | None = None) -> Iterator[Row]:
    seconds = seconds or (3 if quick else 300)
    machines, cores = {**MACHINES, KILLS: "kills"}, os.cpu_count() or 1
    share = seconds / ceil(len(machines) / cores)
    progress(f"{len(machines)} machines, {cores} at a time, each for {share:.3g} s")
    with Crew() as crew:
        searching = {
            name: crew.start(partial(_searched, one, share, folder)) for name, one in machines.items()
        }
        yield from _told(searching, share)


def _told(searching: dict[str, Future[Searched]], share: float) -> Iterator[Row]:
    for name, one in searching.items():
        try:
            found = one.result()
        except (OSError, CalledProcessError) as error:
            yield absent(name, "", f"could not be run: {error}")
            continue
        for field, what in _COUNTED.items():
            yield limited(f"{name}: {what}", what, [getattr(found, field)], f"{share:.3g} s")
        against = found.first[:200] or "none allowed"
        yield limited(f"{name}: violations", "violations", [found.violations], against, at_most(0))


@contextmanager
def _place(folder: Path) -> Iterator[Path]:
    """In memory if there is such a place: a process that dies takes nothing along that it has written, wherever that is."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else folder) as place:
        yield Path(place)


def _searched(machine: str, seconds: float, folder: Path, said: Said) -> Searched:
    command = [python_of("chatfold"), "-m", "benchmarks.properties_child", machine, seconds, _PATIENCE]
    try:
        with _place(folder) as place:
            found = said([*command, place], environment(), seconds + 2 * _PATIENCE)
    except TimeoutExpired:
        return Searched(violations=1, first=f"did not end within {_PATIENCE} s after its time was up")
    return msgspec.json.decode(found, type=Searched)
