"""The long search runs the machines of this test suite, and counts what they do."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.properties import MACHINES, Searched

TOP = Path(__file__).parents[2]


@pytest.mark.parametrize("what", ["test_storage_agreement:TestFilesAgreeWithMemory", "kills"])
def test_a_search_counts_what_it_did_and_finds_nothing(tmp_path: Path, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.properties_child", what, "0.01", str(tmp_path)],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=100,
    )
    found = msgspec.json.decode(done.stdout, type=Searched)
    assert found.examples
    assert found.operations > found.examples
    assert (found.violations, found.first) == (0, "")


def test_every_machine_is_there() -> None:
    for machine in MACHINES.values():
        module, _, case = machine.partition(":")
        (path,) = (TOP / "tests").rglob(f"{module}.py")
        assert case in path.read_text()
