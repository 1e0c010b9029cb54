"""Kills an operation right before its first change to the disk, its second, and so on until it gets through.

    dying OPERATION FOLDER     leaves FOLDER/<n>/store as the n-th kill left it, and FOLDER/<n>/told

Then the same once more, halfway through its first write, its second, and so on.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from faults.children import ready, tell
from faults.faulty_disk import DyingDisk
from faults.operations import OPERATIONS, opened


def main(operation: str, folder: Path) -> None:
    prepare, _ = OPERATIONS[operation]
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
            killed = _dies(operation, place, DyingDisk(nth, torn=torn))
            kills += killed
    tell(kills)


def _dies(operation: str, place: Path, disk: DyingDisk) -> bool:
    pid = os.fork()
    if not pid:
        asyncio.run(_run(operation, place, disk))
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


async def _run(operation: str, place: Path, disk: DyingDisk) -> None:
    _, run = OPERATIONS[operation]

    def told(word: str) -> None:
        with (place / "told").open("a") as file:
            file.write(f"{word}\n")

    async with opened(place / "store", disk) as log:
        await run(log, told)


if __name__ == "__main__":
    ready()
    main(sys.argv[1], Path(sys.argv[2]))
