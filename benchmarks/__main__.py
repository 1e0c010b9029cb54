"""``python -m benchmarks [setup | suite …] [--quick]``"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from benchmarks.environment import setup
from benchmarks.machine import HERE, file_system, scratch
from benchmarks.measure import Row, progress, table, write_json
from benchmarks.peers import OURS
from benchmarks.picture import pictures

SUITES = ("eventlog", "projections", "replay", "side_by_side", "properties")
"""A suite is a module of this package with ``rows(folder, quick) -> Iterator[Row]``."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures; see benchmarks/__init__.py and docs/benchmarks.md.",
    )
    names = f"setup, or some of {', '.join(SUITES)}; default: all of them"
    parser.add_argument("suites", nargs="*", metavar="suite", help=names)
    parser.add_argument(
        "--quick", action="store_true", help="all suites in two minutes, without the large sizes"
    )
    parser.add_argument("--seconds", type=float, help="how long properties searches")
    parser.add_argument(
        "--newer", metavar="PYTHON", help="setup: a Python of 3.12 or newer, for the peer that needs it"
    )
    arguments = parser.parse_args()
    if arguments.suites == ["setup"]:
        missing = setup(arguments.newer)
        sys.exit(f"not installed: {', '.join(missing)}" if missing else 0)
    unknown = [name for name in arguments.suites if name not in SUITES]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}; there are: {', '.join(SUITES)}")
    for name in arguments.suites or SUITES:
        given = {"seconds": arguments.seconds} if name == "properties" and arguments.seconds else {}
        run(name, quick=arguments.quick, **given)


def run(name: str, *, quick: bool, **given: float) -> None:
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
    results = HERE / "results"
    write_json(results / f"{name}.json", name, rows, quick=quick, **getattr(suite, "MORE", {}))
    for title, svg in pictures(rows, OURS).items():
        (results / f"{title}.svg").write_text(svg)
    print(table(_shown(rows)))
    missed = sum(row.met is False for row in rows)
    judged = sum(row.met is not None for row in rows)
    print(f"\n{missed} of {judged} targets missed; written to {results / name}.json")


def _shown(rows: Sequence[Row]) -> list[Row]:
    """Of the points of a curve only the last and those with a target: the others are in the picture."""
    last = {(row.picture, row.against): row.size for row in rows if row.picture}
    return [
        row for row in rows if not row.picture or row.target or row.size == last[row.picture, row.against]
    ]


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped; nothing was written")
