"""``python -m benchmarks [setup | suite …] [--quick]``"""

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.environment import setup
from benchmarks.machine import HERE, file_system, scratch
from benchmarks.measure import Row, progress, table, write_results
from benchmarks.peers import OURS
from benchmarks.picture import pictures

SUITES = ("eventlog", "projections", "growth", "replay", "side_by_side", "properties", "faults")
"""A suite is a module of this package with ``rows(folder, quick) -> Iterator[Row]``. What measures nothing comes last."""
BY_NAME = ("soak", "postgres", "adapters", "view", "imports")
"""Run only if asked for: the first takes an hour, the second needs a server, the third the peers."""
_RESULTS = HERE / "results"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures; see benchmarks/__init__.py and docs/benchmarks.md.",
    )
    names = f"setup, or some of {', '.join(SUITES)}; default: all of them. And: {', '.join(BY_NAME)}"
    parser.add_argument("suites", nargs="*", metavar="suite", help=names)
    parser.add_argument(
        "--quick", action="store_true", help="all suites in two minutes, without the large sizes"
    )
    parser.add_argument("--seconds", type=float, help="how long properties searches, or the soak lasts")
    parser.add_argument(
        "--newer", metavar="PYTHON", help="setup: a Python of 3.12 or newer, for the peer that needs it"
    )
    arguments = parser.parse_args()
    if arguments.suites == ["setup"]:
        missing = setup(arguments.newer)
        sys.exit(f"not installed: {', '.join(missing)}" if missing else 0)
    unknown = [name for name in arguments.suites if name not in (*SUITES, *BY_NAME)]
    if unknown:
        parser.error(
            f"no such suite: {', '.join(unknown)}; there are: {', '.join((*SUITES, *BY_NAME))}; and setup, by itself"
        )
    if arguments.seconds is not None and arguments.seconds <= 0:
        parser.error("--seconds: more than none")
    sys.exit(_all(arguments.suites or SUITES, quick=arguments.quick, seconds=arguments.seconds))


def _all(names: Sequence[str], *, quick: bool, seconds: float | None) -> int:
    """One suite after the other; one that breaks off keeps no other from running, and is the exit status."""
    results = _RESULTS / "quick" if quick else _RESULTS  # a short run replaces no long one
    try:
        _try_writing(results)
    except OSError as error:
        sys.exit(f"the results cannot be written: {error}")
    failed = []
    for name in dict.fromkeys(names):
        given = {"seconds": seconds} if name in ("properties", "soak") and seconds else {}
        try:
            run(name, results, quick=quick, **given)
        except KeyboardInterrupt:
            sys.exit(f"\nstopped: of {name} nothing was written")
        except Exception:  # noqa: BLE001 (whatever it is, it is told, and hours of others are not lost)
            traceback.print_exc()
            failed.append(name)
    if failed:
        print(f"broken off, nothing written: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _try_writing(folder: Path) -> None:
    """Before hours are spent on what could not be kept."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def run(name: str, results: Path, *, quick: bool, **given: float) -> None:
    rows: list[Row] = []
    suite = import_module(f"benchmarks.{name}")
    with scratch() as folder:
        if file_system(folder) in ("tmpfs", "ramfs"):
            progress("the repository is in memory, not on a disk: durable rows mean nothing here")
        for row in suite.rows(folder, quick=quick, **given):
            rows.append(row)
            figure = row.note if row.value is None else f"{row.value:.4g} {row.unit}"
            progress(f"{row.name}: {figure}" + (f", {row.against}" if row.against else ""))
    progress("")
    print(table(_shown(rows)))
    path = results / f"{name}.jsonl"
    write_results(path, name, rows, quick=quick, **getattr(suite, "MORE", {}))
    for title, svg in pictures(rows, OURS).items():
        (results / f"{title}.svg").write_text(svg)
    missed = sum(row.met is False for row in rows)
    judged = sum(row.met is not None for row in rows)
    print(f"\n{missed} of {judged} targets missed; written to {path}")


def _shown(rows: Sequence[Row]) -> list[Row]:
    """Of the points of a curve only the last and those with a target: the others are in the picture."""
    last = {(row.picture, row.against): row.size for row in rows if row.picture}
    return [
        row for row in rows if not row.picture or row.target or row.size == last[row.picture, row.against]
    ]


if __name__ == "__main__":
    main()
