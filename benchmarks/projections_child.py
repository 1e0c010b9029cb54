"""What a new process does: ``python -m benchmarks.projections_child DEED ROOT``, and prints JSON."""

import asyncio
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from benchmarks.projections_store import CHAT
from chatfold.agent.views import open_view, window_entries
from chatfold.eventlog import FileStorage, Log
from chatfold.projections import messages, to_openai


class Opened(msgspec.Struct, frozen=True):
    """The milliseconds of the first and of the second time, and how many messages there were."""

    first: float
    second: float
    messages: int


class Rebuilt(msgspec.Struct, frozen=True):
    """``peak``: the most memory that the whole process had, in bytes."""

    entries: int
    seconds: float
    peak: int


async def open_twice(root: Path) -> Opened:
    first, prompt = await _open(root)
    second, again = await _open(root)
    assert again == prompt
    return Opened(first, second, len(prompt))


async def _open(root: Path) -> tuple[float, list[dict[str, Any]]]:
    """Milliseconds from no store at all to what is sent to the model next."""
    start = perf_counter()
    log = Log(FileStorage(root, read_only=True))
    view = await open_view(log, CHAT)
    entries = await window_entries(log, CHAT, view)
    prompt = to_openai(messages(view.view, entries))
    elapsed = perf_counter() - start
    await log.storage.close()
    return elapsed * 1e3, prompt


async def rebuild(root: Path) -> tuple[int, float]:
    """All standard projections, and the snapshots on the way are written."""
    start = perf_counter()
    log = Log(FileStorage(root))
    view = (await open_view(log, CHAT)).view
    elapsed = perf_counter() - start
    await log.storage.close()
    return view.seq, elapsed


def peak_memory(status: str) -> int:
    """In bytes. ``getrusage`` would not do: what it says includes what the parent had when it made the process."""
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    deed, root = sys.argv[1:]
    match deed:
        case "open":
            print(msgspec.json.encode(asyncio.run(open_twice(Path(root)))).decode())
        case "rebuild":
            rebuilt = asyncio.run(rebuild(Path(root)))
            peak = peak_memory(Path("/proc/self/status").read_text())
            print(msgspec.json.encode(Rebuilt(*rebuilt, peak)).decode())


if __name__ == "__main__":
    main()
