"""Every operation of ``operations`` on a real disk of which the k-th call fails, for every k: once, or from there on.

Each kind of call for itself, too. After each failure the store is judged: it is whole, and the next writer goes on.
"""

import asyncio
import errno
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from chatfold.eventlog import ChatfoldError
from tests.support.disk.faulty_disk import CHANGING, READING, FailingDisk
from tests.support.figures import Figures, owe, share
from tests.support.processes.operations import OPERATIONS, judge, opened

HOW: dict[str, dict[str, Any]] = {
    "a change fails once: EIO": {"kinds": CHANGING},
    "a change fails once: ENOSPC": {"kinds": CHANGING, "code": errno.ENOSPC},
    "a look fails once": {"kinds": READING},
    "everything fails from there on": {"forever": True},
    "changes fail from there on: ENOSPC": {"kinds": CHANGING, "code": errno.ENOSPC, "forever": True},
    **{f"{kind} fails from there on": {"kinds": [kind], "forever": True} for kind in CHANGING},
}


NOT_DONE = "manners of operations not gone through"


class Failure(NamedTuple):
    """``error``: what the judge says of what it left, if anything."""

    where: str
    error: Exception | None


def everywhere(folder: Path, operation: str, *, step: int = 1, **how: Any) -> Iterator[Failure]:
    """Fails the first call, the next, and so on until the operation gets through."""
    template, root = folder / "template", folder / "store"
    asyncio.run(OPERATIONS[operation][0](template))
    for nth in count(1, step):
        shutil.copytree(template, root)
        disk = FailingDisk(nth, **how)
        told = asyncio.run(_attempt(root, disk, operation))
        error = _judged(operation, root, told) if disk.failed else None
        shutil.rmtree(root)
        if not disk.failed:
            break
        yield Failure(f"{operation}, call {nth}, {disk.failed[0]}, {how}; told {told}", error)
    shutil.rmtree(template)


def _judged(operation: str, root: Path, told: list[str]) -> Exception | None:
    try:
        judge(operation, root, told)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a violation, and is reported)
        return error
    return None


async def _attempt(root: Path, disk: FailingDisk, operation: str) -> list[str]:
    """What the operation told before it raised, if it did; it raises nothing but what it may."""
    told: list[str] = []
    log = opened(root, disk)
    try:
        await OPERATIONS[operation][1](log, told.append)
    except (ChatfoldError, OSError):
        if not disk.failed:
            raise  # nothing was in its way, so that it shows nothing
    with suppress(ChatfoldError, OSError):
        await log.storage.close()
    await asyncio.to_thread(log.storage._queue.stop)  # type: ignore[attr-defined]
    return told


def campaign(number: int, seed: int, folder: Path) -> Figures:
    """``number``: of operations; see ``share``. There is nothing random here."""
    figures = Figures()
    owe(figures, NOT_DONE, len(OPERATIONS) * len(HOW), seed)
    for operation in share(OPERATIONS, number, seed):
        for how, given in HOW.items():
            place = folder / "place"
            place.mkdir(parents=True)
            for where, error in everywhere(place, operation, **given):
                figures.tried += 1
                figures.count("failures")
                figures.count("once" if "once" in how else "from there on")
                if error is not None:
                    figures.violated(where, error)
            figures.count(NOT_DONE, -1)
            shutil.rmtree(place)
    return figures
