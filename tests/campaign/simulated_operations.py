"""Every operation of ``operations`` on the simulated disk, let down at every call: by a power cut, or by an error.

A store is made on the real disk and loaded; what is left in the end is saved there, and judged as ever.
"""

import asyncio
import errno
import random
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from chatfold.eventlog import ChatfoldError, FileStorage, Log
from chatfold.eventlog.files.disk import Disk, read_file
from tests.support.disk.faulty_disk import CHANGING, READING, WRITING
from tests.support.disk.simulated_disk import Fault, SimulatedDisk
from tests.support.disk.simulated_files import SimulatedFile
from tests.support.disk.simulated_tree import SimulatedFolder
from tests.support.disk.threadless import run_here
from tests.support.figures import Figures, owe, share
from tests.support.judges.talk import short
from tests.support.processes.operations import OPERATIONS, judge, opened
from tests.support.simulation.simulated_verbs import abandon, still

HOW: dict[str, dict[str, Any]] = {
    "power cut": {},
    "EIO": {"code": errno.EIO},
    "EIO for ever": {"code": errno.EIO, "forever": True},
    "ENOSPC": {"code": errno.ENOSPC},
    "ENOSPC for ever": {"code": errno.ENOSPC, "forever": True},
    "short writes, then ENOSPC": {"code": errno.ENOSPC, "kinds": frozenset(WRITING), "short": 0.5},
    "a look": {"code": errno.EIO, "kinds": frozenset(READING)},
}
NOT_DONE = "manners of operations not gone through"


def campaign(number: int, seed: int, folder: Path) -> Figures:
    """``number``: of operations; see ``share``. Each is let down at every call, in every manner."""
    figures = Figures()
    owe(figures, NOT_DONE, len(OPERATIONS) * len(HOW), seed)
    for operation in share(OPERATIONS, number, seed):
        place = folder / operation
        place.mkdir(parents=True)
        trial = Trial(operation, place)
        for how in HOW:
            everywhere(trial, how, seed, figures)
            figures.count(NOT_DONE, -1)
        shutil.rmtree(place)
    return figures


def everywhere(trial: "Trial", how: str, seed: int, figures: Figures, step: int = 1) -> int:
    """At the first call, the next, and so on until the operation gets through: how many there were."""
    given = {"kinds": frozenset(CHANGING), **HOW[how]}
    short = given.pop("short", 0.0)
    for nth in count(1, step):
        fault = Fault(nth, **given)
        figures.tried += 1
        figures.count(how)
        try:
            trial.fails(fault, seed * 1000 + nth, short)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a violation, and is reported)
            figures.violated(f"{trial.operation}, {how} at call {nth}, seed {seed}", error)
        if not fault.struck:
            return nth
        figures.count("failures")
    raise AssertionError


def load(disk: SimulatedDisk, real: Path, path: Path) -> None:
    """What is in the real folder is in the simulated one then, and durable."""
    _make(disk, path)
    known: dict[int, Path] = {}
    for one in sorted(real.rglob("*")):
        target = path / one.relative_to(real)
        if one.is_dir():
            disk.make_folder(target)
        elif one.stat().st_ino in known:
            disk.link(known[one.stat().st_ino], target)
        else:
            known[one.stat().st_ino] = target
            fd = disk.create(target)
            disk.write(fd, read_file(Disk(), one))
            disk.sync(fd)
            disk.close(fd)
        disk.sync_folder(target.parent)


def _make(disk: SimulatedDisk, path: Path) -> None:
    for folder in (*reversed(path.parents[:-1]), path):
        disk.make_folder(folder)
        disk.sync_folder(folder.parent)


def save(disk: SimulatedDisk, path: Path, real: Path) -> None:
    _save(disk.tree.folder(path), real, {})


def _save(folder: SimulatedFolder, real: Path, known: dict[SimulatedFile, Path]) -> None:
    real.mkdir(mode=0o700)
    for name, node in folder.entries.items():
        if isinstance(node, SimulatedFolder):
            _save(node, real / name, known)
        elif node in known:
            (real / name).hardlink_to(known[node])
        else:
            known[node] = real / name
            (real / name).touch(0o600)
            (real / name).write_bytes(node.content)


class Trial:
    """One operation, on copies of one store."""

    def __init__(self, operation: str, folder: Path) -> None:
        self.operation = operation
        self.root = folder / "store"
        self._template = folder / "template"
        asyncio.run(OPERATIONS[operation][0](self._template))
        self._loaded = SimulatedDisk(random.Random())
        load(self._loaded, self._template, self.root)

    def fails(self, fault: Fault, seed: int, short: float = 0.0) -> None:
        """Whether or not the fault comes about, the store is as it must be. ``short``: see ``SimulatedDisk``."""
        durable = self._loaded.crash("nothing")  # all of it
        disk = SimulatedDisk(random.Random(seed), short=short, tree=durable.tree)
        disk.calls, disk.changes = durable.calls, durable.changes
        disk.fault = fault
        told: list[str] = []
        run_here(_attempt(self.root, disk, self.operation, told))
        disk.revive()
        if not fault.code or disk.chance.random() < 0.5:
            disk = disk.crash()
        for _ in range(disk.chance.choice([0, 0, 1, 2])):  # and again during recovery
            disk.fault = Fault(disk.chance.randint(1, 30))
            run_here(_recover(self.root, disk))
            disk.revive()
            disk = disk.crash()
        save(disk, self.root, self.root)
        try:
            judge(self.operation, self.root, told)
        finally:
            shutil.rmtree(self.root)


async def _attempt(root: Path, disk: SimulatedDisk, operation: str, told: list[str]) -> None:
    log = opened(root, disk)
    still(_files(log), threads=False)
    try:
        await OPERATIONS[operation][1](log, told.append)
    except (ChatfoldError, OSError):
        if disk.fault is None or not disk.fault.struck:
            raise  # nothing was in its way, so that it shows nothing
    await abandon(_files(log))


async def _recover(root: Path, disk: SimulatedDisk) -> None:
    """A writer comes along, and does not get far."""
    log = opened(root, disk)
    still(_files(log), threads=False)
    with suppress(ChatfoldError, OSError):
        async for chat in log.chats():
            await log.append(chat, *short("after"), id="after")
    await abandon(_files(log))


def _files(log: Log) -> FileStorage:
    assert isinstance(log.storage, FileStorage)
    return log.storage
