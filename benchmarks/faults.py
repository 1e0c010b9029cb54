"""The fault campaign: how often what was broken, and what it did to the promises. ``docs/faults.md`` says what is broken and how.

Each part is a module of ``tests/campaign``: ``python -m tests.campaign`` runs it. It is cut into shares, as many of which are run at a
time as there are cores, each in a process of its own and with a seed of its own; what they count is added up. A violation is a
promise that was broken, and a bug; its row names the seed, or the place, by which it is seen again.

A long run that is broken off goes on where it was: what a share told is kept, and is true as long as nothing changes of the engine
and of what breaks it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
from xxhash import xxh3_64

from benchmarks.machine import HERE, Crew, Said
from benchmarks.measure import Row, absent, at_least, at_most, limited, progress

SEED = 8
_APART = 1_000_000  # a share's seed: this times the campaign's, and the number of what is before it
_MEMORY, _ROOM = Path("/dev/shm"), 4 << 30
_KEPT = HERE / ".faults"
_SOURCES = ("eventlog", "projections", "agent", "tests")


class Part(msgspec.Struct, frozen=True):
    """``few`` and ``many``: the number that the module is given, in shares of so many at most."""

    module: str
    name: str
    few: int
    many: int
    share: int
    goals: dict[
        str, int
    ]  # what of it is counted, by its name there, and how often it has to be in a long run
    never: tuple[str, ...] = ()  # and of this, as of violations, there may be none


PARTS = (
    Part("simulated", "simulated disk", 20, 25_000, 1_000, {"steps": 1_000_000}),
    Part(
        "simulated_operations", "simulated disk, every call fails", 1, 18, 1, {"failures": 5_000},
        ("manners of operations not gone through",),
    ),
    Part(
        "failing", "real disk, every call fails", 1, 18, 1, {"failures": 5_000},
        ("manners of operations not gone through",),
    ),
    Part("kills", "kills at random", 20, 10_000, 1_000, {"kills": 10_000}, ("lost",)),
    Part("syscalls", "kills at every system call", 1, 12, 2, {"kills": 500}, ("lost",)),
    Part("power", "power cuts", 4, 1_200, 200, {"cuts with full": 1_000}, ("lost",)),
    Part("writeback", "real failed syncs", 1, 20, 10, {"failures": 20}, ("lost", "acknowledged after a failed sync")),
    Part(
        "corruption", "damage at rest", 200, 100_000, 0, {"flips": 100_000, "truncations": 8_000},
        ("wrong values", "bits of the small log not flipped", "bytes of the small log not cut at"),
    ),
    Part("exchanges", "whole files exchanged", 20, 2_000, 500, {"exchanges": 2_000}, ("wrong reads",)),
    Part("concurrency", "processes side by side", 1, 200, 50, {"rounds": 200}),
    Part("fuzzing", "hostile input", 100, 200_000, 50_000, {"inputs": 200_000}),
)  # fmt: skip


class Told(msgspec.Struct):
    """What a share says of itself: ``tests.support.figures.Figures``."""

    tried: int = 0
    violations: int = 0
    first: str = ""
    counted: dict[str, int] = {}
    reason: str = ""

    def add(self, other: "Told") -> None:
        self.tried += other.tried
        self.violations += other.violations
        self.first = self.first or other.first
        self.reason = self.reason or other.reason
        for what, number in other.counted.items():
            self.counted[what] = self.counted.get(what, 0) + number


def rows(folder: Path, *, quick: bool, seed: int = SEED) -> Iterator[Row]:
    kept = folder / "kept" if quick else _KEPT / _sources()
    kept.mkdir(parents=True, exist_ok=True)
    with _place(folder) as place, Crew() as crew:
        waiting = {
            part.module: [
                crew.start(
                    partial(share, part, some, seed * _APART + first, place / f"{part.module}-{first}", kept)
                )
                for first, some in _cut(part, part.few if quick else part.many)
            ]
            for part in sorted(
                PARTS, key=lambda part: part.share
            )  # the longest are not what is left in the end
        }
        for part in PARTS:
            told = Told()
            for one in waiting[part.module]:
                told.add(one.result())
            yield from told_as_rows(part, told, quick=quick, seed=seed)
    shutil.rmtree(kept)


def _sources() -> str:
    """Another word whenever what is run is something else."""
    digest = xxh3_64()
    for name in _SOURCES:
        for path in sorted((HERE.parent / name).rglob("*.py")):
            digest.update(f"{path.relative_to(HERE.parent)}\n{path.read_text()}\n".encode())
    return digest.hexdigest()


def _cut(part: Part, number: int) -> Iterator[tuple[int, int]]:
    """(how much is before it, how much it is) of each share."""
    size = part.share or number
    for first in range(0, number, size):
        yield first, min(size, number - first)


def share(part: Part, number: int, seed: int, folder: Path, kept: Path, said: Said) -> Told:
    """``kept``: the folder of what shares told, those of a run that was broken off as well."""
    it, file = f"{part.name}, {number:,} from seed {seed} on", kept / f"{part.module}-{number}-{seed}"
    with suppress(FileNotFoundError):
        told = msgspec.json.decode(file.read_bytes(), type=Told)
        progress(f"{it}: told by the run that was broken off")
        return told
    folder.mkdir()
    command = [sys.executable, "-m", "tests.campaign", part.module, number, seed, folder]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    start = time.monotonic()
    try:
        told = msgspec.json.decode(said(command, environment), type=Told)
    except subprocess.CalledProcessError as error:
        return Told(violations=1, first=f"seed {seed}: ended with {error.returncode}")
    took = f"{time.monotonic() - start:.0f} s"
    progress(f"{it}: {told.reason or f'{told.tried:,} in {took}, {told.violations} violations'}")
    if not told.violations:  # else it is looked at, and what was found stays there
        draft = file.with_suffix(".draft")  # it may be broken off in the middle of this, too
        draft.write_bytes(msgspec.json.encode(told))
        draft.replace(file)
        shutil.rmtree(folder)
    return told


def told_as_rows(part: Part, told: Told, *, quick: bool, seed: int = SEED) -> Iterator[Row]:
    if told.reason:
        yield absent(part.name, "", f"cannot be done here: {told.reason}")
        return
    by = f"seed {seed}"
    for what, least in part.goals.items():
        yield limited(
            f"{part.name}: {what}",
            what,
            [told.counted.get(what, told.tried)],
            by,
            None if quick else at_least(least),
        )
    for what, number in sorted(told.counted.items()):
        if what not in (*part.goals, *part.never):
            yield limited(f"{part.name}: {what}", "", [number], by)
    for what in part.never:
        none = None if quick else at_most(0)  # a short run leaves things out
        yield limited(f"{part.name}: {what}", "", [told.counted.get(what, 0)], "none allowed", none)
    against = told.first[:400] or "none allowed"
    yield limited(f"{part.name}: violations", "violations", [told.violations], against, at_most(0))


@contextmanager
def _place(folder: Path) -> Iterator[Path]:
    """In memory, if there is room: what a kill leaves, or a power cut of a disk that is a file, does not depend on what is below,
    and the syncs of a real disk would take most of the time."""
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ROOM:
        yield folder
        return
    place = Path(tempfile.mkdtemp(prefix="chatfold-faults-", dir=_MEMORY))
    try:
        yield place
    except BaseException:
        shutil.rmtree(place)
        raise
    if any(place.iterdir()):
        progress(f"what was found is in {place}")
    else:
        place.rmdir()
