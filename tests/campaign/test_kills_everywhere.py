"""Processes that do everything to a store are killed, at random moments and at every system call: the short version."""

from pathlib import Path

import pytest

from tests.support.processes import tracing
from tests.support.processes.children import figures_of


def test_nothing_acknowledged_is_lost_when_processes_are_killed_at_random_moments(fast_folder: Path) -> None:
    figures = figures_of("kills", 60, 1, fast_folder)
    assert not figures.violations, figures.first
    assert figures.tried == 60
    assert figures.counted["entries acknowledged"] > 100


@pytest.mark.skipif(tracing.reason_not() != "", reason=tracing.reason_not())
def test_killed_at_any_system_call_an_operation_leaves_a_whole_store(fast_folder: Path) -> None:
    figures = figures_of("syscalls", 2, 1, fast_folder)  # from the second on
    assert not figures.violations, figures.first
    assert figures.counted["calls, append"] > 30
    assert figures.counted["calls, delete"] > 30
