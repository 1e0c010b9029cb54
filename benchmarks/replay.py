"""The debugger: whole commands, each a new process, on a long chat next to a short one; and how long they take to start.

Everything a user waits for is in these figures: the interpreter, the imports, the reading, the printing.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.machine import HERE, environment
from benchmarks.measure import QUICK_ROUNDS, Row, at_most, compared, interleave, progress
from benchmarks.projections_store import CHAT, build, history, text_of

_FEW = 1_000
_SEED = 8
_IMPORT = "python -c 'import msgspec, click, asyncio'"


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    rounds = QUICK_ROUNDS if quick else 15
    many = 5_000 if quick else 100_000
    small, large = folder / "small", folder / "large"
    for root, entries in ((small, _FEW), (large, many)):
        progress(f"building a chat of {entries:,} entries")
        asyncio.run(build(root, _SEED, entries))
    yield from _starting(small, rounds, quick=quick)
    said = text_of(next(history(_SEED, _FEW)).events[1])[:60]
    here, there = f"{many:,} entries", f"{_FEW:,} entries"
    for name, arguments, target in (
        ("log -n 20", ("log", CHAT, "-n", "20"), 2),
        ("context", ("context", CHAT), 2),
        ("messages", ("messages", CHAT), 2),
        ("why, of the first question", ("why", CHAT, said), 2),
        ("show, in the middle", ("show", f"{CHAT}@{_FEW // 2}"), None),
        ("diff of a compaction", ("diff", f"{CHAT}@c1^..c1", "--stat"), None),
        ("step, to the first line", ("step", CHAT), None),
        ("stats, which reads everything", ("stats", CHAT), None),
    ):
        if quick and not target:
            continue
        cases = {here: partial(_command, large, *arguments), there: partial(_command, small, *arguments)}
        samples = interleave(rounds, cases, warm_up=not quick)
        yield compared(f"{name}, {here}", "ms", samples, here, there, at_most(target) if target else None)


def _starting(small: Path, rounds: int, *, quick: bool) -> Iterator[Row]:
    cases = {
        "ls": partial(_command, small, "ls"),
        "log -n 20": partial(_command, small, "log", CHAT, "-n", "20"),
        _IMPORT: partial(_timed, [sys.executable, "-c", "import msgspec, click, asyncio"]),
    }
    samples = interleave(rounds if quick else 2 * rounds, cases)
    for name in ("ls", "log -n 20"):
        yield compared(
            f"{name}, {_FEW:,} entries, from start to end", "ms", samples, name, _IMPORT, at_most(2)
        )


def _command(root: Path, *arguments: str) -> float:
    """As the installed command does it."""
    program = "from chatfold.replay.cli import main; main()"
    return _timed([sys.executable, "-c", program, *arguments, "--store", str(root)])


def _timed(command: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=HERE.parent,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    spent = time.perf_counter() - began
    assert not done.returncode, done.stderr.decode()
    return spent * 1e3
