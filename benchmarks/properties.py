"""The state machines of the test suite, for as long as there is time: what they did, and what they found.

Each machine, and each operation that is killed, has a process of its own: ``properties_child``. A violation is a failure that the search
found, and a bug; the tests find the same with ``HYPOTHESIS_PROFILE=long``. A crash is a process that dies in the middle: simulated by the
machines (what was not synced is lost, or a part of it), real in the kills.
"""

from collections.abc import Iterator
from pathlib import Path
from subprocess import CalledProcessError

import msgspec

from benchmarks.environment import python_of
from benchmarks.machine import in_new_process
from benchmarks.measure import Row, absent, at_most, limited, progress

MACHINES = {
    "chats, every verb, against a naive model": "test_chat_machine:TestChats",
    "files against memory, with crashes": "test_storage_agreement:TestFilesAgreeWithMemory",
    "files write the bytes of memory": "test_storage_agreement:TestFilesWriteTheSameBytesAsMemory",
    "opening with any snapshots": "test_opening:TestOpening",
    "the list of chats": "test_chat_list:TestLists",
}
KILLS = "kills before every change to the disk"


class Searched(msgspec.Struct):
    examples: int = 0
    operations: int = 0
    crashes: int = 0
    violations: int = 0
    first: str = ""  # of the violations


def rows(folder: Path, *, quick: bool, seconds: float | None = None) -> Iterator[Row]:
    seconds = seconds or (3 if quick else 300)
    share = seconds / (len(MACHINES) + 1)
    for name, machine in {**MACHINES, KILLS: "kills"}.items():
        progress(f"{name}, for {share:.0f} s")
        try:
            said = in_new_process("properties_child", machine, share, folder, python=python_of("chatfold"))
        except (OSError, CalledProcessError) as error:
            yield absent(name, "", f"could not be run: {error}")
            continue
        found = msgspec.json.decode(said, type=Searched)
        for what in ("examples", "operations", "crashes"):
            yield limited(f"{name}: {what}", what, [getattr(found, what)], f"{share:.0f} s")
        against = found.first[:200] or "none allowed"
        yield limited(f"{name}: violations", "violations", [found.violations], against, at_most(0))
