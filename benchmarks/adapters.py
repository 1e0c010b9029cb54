"""Adapters next to the stores that their frameworks bring, all durable.

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
_SAVERS = {"LangGraphSaver": "ours", "SqliteSaver": "sqlite"}
_GRAPHS: tuple[tuple[str, str, Target | None], ...] = (
    ("200", "200 checkpoints of LangGraph", at_least(1)),
    ("999", "999 checkpoints of LangGraph", at_least(1.5)),
)


def rows(folder: Path, quick: bool) -> Iterator[Row]:
    yield from _sessions(folder, quick)
    yield from _threads(folder, quick)


def _sessions(folder: Path, quick: bool) -> Iterator[Row]:
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


def _threads(folder: Path, quick: bool) -> Iterator[Row]:
    """Each round makes new threads; the last of 999 are read again, and weighed."""
    places: dict[str, Path] = {}
    for number, (job, what, target) in enumerate(_GRAPHS[:1] if quick else _GRAPHS):
        progress(what)

        def took(name: str, job: str = job, number: int = number) -> float:
            places[name] = folder / f"{name}-{number}-{next(_APPENDED)}"
            places[name].mkdir()
            return _ask("langgraph_child", name, job, places[name]) or 0.0

        if took("ours") == 0.0:
            yield absent("threads of LangGraph", "SqliteSaver", "not installed: python -m benchmarks setup")
            return
        cases: dict[str, Case] = {label: partial(took, name) for label, name in _SAVERS.items()}
        samples = interleave(QUICK_ROUNDS if quick else 5, cases)
        yield compared(what, "s", samples, "LangGraphSaver", "SqliteSaver", target, faster=True)
    if not quick:
        first: dict[str, Case] = {
            label: partial(_first, places[name], name) for label, name in _SAVERS.items()
        }
        what = "the state after 999 checkpoints, in a new process, without its imports"
        yield compared(what, "ms", interleave(9, first), "LangGraphSaver", "SqliteSaver", faster=True)
        sizes = {label: [_weigh(places[name])] for label, name in _SAVERS.items()}
        yield compared(
            "999 checkpoints on the disk", "bytes", sizes, "LangGraphSaver", "SqliteSaver", at_most(0.015)
        )


def _first(place: Path, name: str) -> float:
    return _ask("langgraph_child", name, "first", place) or 0.0


def _weigh(place: Path) -> float:
    return float(sum(path.stat().st_size for path in place.rglob("*") if path.is_file()))


def _bytes(what: str, sizes: list[float | None], target: Target | None = None) -> Row:
    values = {label: [size or 0.0] for label, size in zip(_NAMES, sizes, strict=True)}
    return compared(what, "bytes", values, _OURS, _THEIRS, target)


def _figure(label: str, job: str, folder: Path) -> float:
    figure = _run(label, job, folder)
    assert figure is not None
    return figure


_APPENDED = iter(range(1 << 30))


def _run(label: str, job: str, folder: Path) -> float | None:
    name = _NAMES[label]
    place = folder / name
    if job == "append":  # to a chat of its own: the others are read again
        place = folder / f"{name}-{next(_APPENDED)}"
        place.mkdir()
    return _ask("adapters_child", name, job, place)


def _ask(child: str, name: str, job: str, place: Path) -> float | None:
    """What a process of its own answers. None: what it needs is not installed."""
    command = [python_of("adapters"), "-m", f"benchmarks.{child}", name, job, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "ModuleNotFoundError" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    return float(done.stdout)
