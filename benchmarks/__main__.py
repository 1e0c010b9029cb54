"""``python -m benchmarks [suite …] [--quick]``"""

import argparse
import sys
from importlib import import_module

from benchmarks.machine import HERE, file_system, scratch
from benchmarks.measure import progress, table, write_json

SUITES = ("eventlog", "projections", "replay")
"""A suite is a module of this package with ``rows(folder, quick) -> Iterator[Row]``."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measures; see benchmarks/__init__.py."
    )
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"default: all ({', '.join(SUITES)})")
    parser.add_argument("--quick", action="store_true", help="under a minute, without the largest sizes")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.suites if name not in SUITES]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}; there are: {', '.join(SUITES)}")
    for name in arguments.suites or SUITES:
        run(name, quick=arguments.quick)


def run(name: str, *, quick: bool) -> None:
    rows = []
    with scratch() as folder:
        if file_system(folder) in ("tmpfs", "ramfs"):
            progress("the repository is in memory, not on a disk: durable rows mean nothing here")
        for row in import_module(f"benchmarks.{name}").rows(folder, quick=quick):
            rows.append(row)
            progress(f"{row.name}: {row.value:.4g} {row.unit}")
    progress("")
    path = HERE / "results" / f"{name}.json"
    write_json(path, name, rows, quick=quick)
    print(table(rows))
    missed = sum(row.met is False for row in rows)
    print(f"\n{missed} of {sum(row.met is not None for row in rows)} targets missed; written to {path}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped; nothing was written")
