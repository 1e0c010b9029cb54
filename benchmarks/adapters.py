"""Adapters next to the stores that their frameworks bring: today ``OpenAIAgentsSession`` next to ``SQLiteSession``, both durable.

Each job is a process of its own, in the environment of the peers.
"""

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.environment import python_of
from benchmarks.measure import (
    QUICK_ROUNDS,
    Case,
    Row,
    Target,
    absent,
    at_least,
    at_most,
    compared,
    interleave,
    progress,
)

_OURS, _THEIRS = "OpenAIAgentsSession", "SQLiteSession"
_NAMES = {_OURS: "ours", _THEIRS: "sqlite"}
_JOBS: tuple[tuple[str, str, str, Target], ...] = (
    ("append", "add_items of one item of 400 characters", "items/s", at_least(1.2)),
    ("load", "get_items of 2,000, in a session that has loaded before", "ms", at_least(3)),
    ("first", "the same in a new process, without its imports", "ms", at_least(1)),
    ("last", "get_items(20), in a session that has loaded before", "ms", at_least(1)),
)


def rows(folder: Path, quick: bool) -> Iterator[Row]:
    for name in _NAMES.values():
        (folder / name).mkdir()
    sizes = [_run(label, "build", folder) for label in _NAMES]
    if None in sizes:
        yield absent(
            "sessions of the OpenAI Agents SDK", _THEIRS, "not installed: python -m benchmarks setup"
        )
        return
    for job, what, unit, target in _JOBS:
        progress(what)
        cases: dict[str, Case] = {label: partial(_figure, label, job, folder) for label in _NAMES}
        samples = interleave(QUICK_ROUNDS if quick else 9, cases)
        yield compared(what, unit, samples, _OURS, _THEIRS, target, faster=unit == "ms")
    yield _bytes("2,000 items of 400 characters on the disk, while they are open", sizes, at_most(0.5))
    yield _bytes("the same when they are closed", [_run(label, "closed", folder) for label in _NAMES])


def _bytes(what: str, sizes: list[float | None], target: Target | None = None) -> Row:
    values = {label: [size or 0.0] for label, size in zip(_NAMES, sizes, strict=True)}
    return compared(what, "bytes", values, _OURS, _THEIRS, target)


def _figure(label: str, job: str, folder: Path) -> float:
    figure = _run(label, job, folder)
    assert figure is not None
    return figure


_APPENDED = iter(range(1 << 30))


def _run(label: str, job: str, folder: Path) -> float | None:
    """None: the SDK is not installed."""
    name = _NAMES[label]
    place = folder / name
    if job == "append":  # to a chat of its own: the others are read again
        place = folder / f"{name}-{next(_APPENDED)}"
        place.mkdir()
    command = [python_of("adapters"), "-m", "benchmarks.adapters_child", name, job, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "ModuleNotFoundError" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    return float(done.stdout)
