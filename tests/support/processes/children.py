"""Starting the processes of these tests: the modules of this folder that have a ``main``."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.support.figures import Figures

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
"""Of a process that imports what we import."""


@contextmanager
def started(module: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """A child that has said ``ready``. Killed at the end, if it is still there."""
    child = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", f"{__package__}.{module}", *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    )
    with child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def figures_of(part: str, number: int, seed: int, folder: Path) -> Figures:
    """What a short campaign counts, in a process of its own, which may fork as it likes."""
    command = [sys.executable, "-m", "tests.campaign", part, str(number), str(seed), str(folder)]
    return msgspec.json.decode(subprocess.check_output(command, env=ENVIRONMENT), type=Figures)


def ready() -> None:
    """In a child: the slow part, importing, is over."""
    tell("ready")


def tell(*words: object) -> None:
    """One line to the parent, in one system call, so that a kill cannot take half of it back."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def told(child: subprocess.Popen[str]) -> list[list[str]]:
    """Everything the child said until it ended."""
    assert child.stdout is not None
    return [line.split() for line in child.stdout]


def next_told(child: subprocess.Popen[str], count: int) -> list[str]:
    """The last words of the next ``count`` lines: the ids of what an ``appending`` child was acknowledged."""
    assert child.stdout is not None
    return [child.stdout.readline().split()[-1] for _ in range(count)]


def go(*children: subprocess.Popen[str]) -> None:
    """Lets children that ``wait_for_go`` start at the same time."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()


def wait_for_go() -> None:
    assert sys.stdin.readline() == "go\n"
