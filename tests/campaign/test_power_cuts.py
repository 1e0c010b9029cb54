"""The power goes while a process writes, or what it wrote cannot be kept, on real file systems: the short version."""

from pathlib import Path

import pytest

from tests.support.disk import mounts
from tests.support.processes.children import figures_of


@pytest.mark.skipif(mounts.reason_not() != "", reason=mounts.reason_not())
def test_nothing_acknowledged_is_lost_when_the_power_goes(fast_folder: Path) -> None:
    figures = figures_of("power", 40, 2, fast_folder)
    assert not figures.violations, figures.first
    assert figures.tried == 40
    assert figures.counted["entries acknowledged, full"] > 50


@pytest.mark.skipif(mounts.reason_not() != "", reason=mounts.reason_not())
def test_nothing_is_acknowledged_after_a_sync_that_failed(fast_folder: Path) -> None:
    figures = figures_of("writeback", 2, 1, fast_folder)
    assert not figures.violations, figures.first
    assert figures.counted["refused"] > 2
