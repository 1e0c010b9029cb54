"""The long search runs the machines of this test suite, and counts what they do."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks import properties
from benchmarks.machine import in_new_process
from benchmarks.properties import MACHINES, Searched

TOP = Path(__file__).parents[2]


@pytest.mark.parametrize("what", ["tests.eventlog.test_storage_agreement:TestFilesAgreeWithMemory", "kills"])
def test_a_search_counts_what_it_did_and_finds_nothing(tmp_path: Path, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.properties_child", what, "0.01", "60", str(tmp_path)],
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


@pytest.mark.smoke
def test_every_machine_is_there() -> None:
    for machine in MACHINES.values():
        module, _, case = machine.partition(":")
        path = TOP / f"{module.replace('.', '/')}.py"
        assert case in path.read_text()


def test_what_does_not_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):  # nobody writes there
        in_new_process("eventlog_child", "follow", tmp_path / "store", "chat", 1, limit=1)


def test_a_search_that_does_not_end_is_a_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "_PATIENCE", 0)
    rows = list(properties.rows(tmp_path, quick=True))
    told = [row for row in rows if row.name.endswith(": violations")]
    assert len(told) == len(MACHINES) + 1
    assert all(row.value == 1 and row.met is False and "did not end" in row.against for row in told)
