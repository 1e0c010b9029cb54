"""What all tests share: how long hypothesis searches, a clock that tests own, and a store in a scratch folder.

``HYPOTHESIS_PROFILE=long`` searches longer and anew each time; the default is quick and always the same.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from chatfold.eventlog import FileStorage, Log
from tests.support.clock import TickingClock

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


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory if there is such a place: for thousands of small stores whose syncs need not be real."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="chatfold-", dir=memory))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
