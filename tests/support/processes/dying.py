"""Kills an operation right before its first change to the disk, its second, and so on until it gets through.

    dying OPERATION FOLDER     leaves FOLDER/<n>/store as the n-th kill left it, and FOLDER/<n>/told

Then the same once more, halfway through its first write, its second, and so on. The two that got through say so with a
file FOLDER/<n>/through.
"""

import asyncio
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.support.disk.faulty_disk import DyingDisk
from tests.support.processes.children import ready, tell
from tests.support.processes.operations import OPERATIONS, Prepare, Tell, opened

Dying = Callable[[Path, DyingDisk, Tell], Coroutine[Any, Any, None]]
"""Does it in this store, on this disk, and tells what was acknowledged."""


def kill_everywhere(prepare: Prepare, run: Dying, folder: Path) -> int:
    """How many kills it took."""
    asyncio.run(prepare(folder / "template"))
    kills = 0
    for torn in (False, True):
        nth = 0
        killed = True
        while killed:
            nth += 1
            place = folder / f"{nth}{'-torn' if torn else ''}"
            shutil.copytree(folder / "template", place / "store")
            (place / "told").touch()
            killed = _dies(run, place, DyingDisk(nth, torn=torn))
            kills += killed
    return kills


def _dies(run: Dying, place: Path, disk: DyingDisk) -> bool:
    pid = os.fork()
    if not pid:
        _run(run, place, disk)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or (place / "through").exists(), f"it raised, at {place}"
    return os.WIFSIGNALED(status)


def _run(run: Dying, place: Path, disk: DyingDisk) -> None:
    def told(word: str) -> None:
        with (place / "told").open("a") as file:
            file.write(f"{word}\n")

    try:
        asyncio.run(run(place / "store", disk, told))
        (place / "through").touch()
    except Exception:  # noqa: BLE001 (whoever waits sees that it did not get through)
        traceback.print_exc()
    finally:
        os._exit(0)


def main(operation: str, folder: Path) -> None:
    prepare, run = OPERATIONS[operation]

    async def do(root: Path, disk: DyingDisk, told: Tell) -> None:
        async with opened(root, disk) as log:
            await run(log, told)

    tell(kill_everywhere(prepare, do, folder))


if __name__ == "__main__":
    ready()
    main(sys.argv[1], Path(sys.argv[2]))
