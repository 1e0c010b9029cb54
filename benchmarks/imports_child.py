"""An import in a process of its own: ``python -m benchmarks.imports_child FOLDER STORE``. Answers ``benchmarks.imports.Figures``."""

import asyncio
import resource
import sys
from pathlib import Path
from time import perf_counter

import msgspec

from chatfold import Store
from chatfold.importers import import_paths
from chatfold.importers.ledger import ledger_path


async def main(source: Path, place: Path) -> None:
    before = _peak()
    began, entries = perf_counter(), 0
    async with Store(place) as store:
        async for report in import_paths(store, [source], ledger=ledger_path(place)):
            entries += report.new
            if report.problems:
                raise ValueError(str(report.problems[0]))
    figures = {"seconds": perf_counter() - began, "entries": entries, "peak": _peak() - before}
    sys.stdout.buffer.write(msgspec.json.encode(figures))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
