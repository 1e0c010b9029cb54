"""What all tests share: how long hypothesis searches, a clock that tests own, and a store in a scratch folder.

``HYPOTHESIS_PROFILE=long`` searches longer and anew each time; the default is quick and always the same.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from chatfold.eventlog import FileStorage, Log

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "quick",
    deadline=None,
    derandomize=True,
    max_examples=60,
    stateful_step_count=25,
    suppress_health_check=_SLOW,
)
settings.register_profile(
    "long", deadline=None, max_examples=1500, stateful_step_count=50, suppress_health_check=_SLOW
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """All tests are run on all cores; those that are named, in this process, where one sees what they print."""
    return None if config.args_source is config.ArgsSource.TESTPATHS else 0


class TickingClock:
    """Every call is a millisecond later than the one before."""

    def __init__(self, start: int = 1_738_713_600_000) -> None:
        self.now = start

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the store of ``log`` is."""
    return tmp_path / "store"


@pytest.fixture
async def log(root: Path, clock: TickingClock) -> AsyncIterator[Log]:
    """A store with small segments, so that they roll often."""
    async with Log(FileStorage(root, clock=clock, segment_bytes=2000)) as log:
        yield log
