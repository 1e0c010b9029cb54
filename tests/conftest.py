"""What all tests share: how long hypothesis searches, what runs when, a clock that tests own, and a store in a scratch folder."""

import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Log
from tests.support import profile
from tests.support.ci import Account
from tests.support.clock import TickingClock
from tests.support.storages import OFTEN, OPENERS, Opener

profile.load()
_CAMPAIGN = Path(__file__).with_name("campaign")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processor-seconds",
        type=float,
        default=0,
        help="fail if a file takes more, outside of the campaign",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Account(config))
    # ``nohup`` and a script's background jobs hand down an ignored SIGINT; the programs that tests start heed it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is in ``tests/campaign`` belongs to the campaign; the quick suite runs what is marked ``smoke``, too."""
    for item in items:
        if item.path.is_relative_to(_CAMPAIGN) and item.get_closest_marker("smoke") is None:
            item.add_marker("campaign")


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


@pytest.fixture(params=OFTEN)
def storages(request: pytest.FixtureRequest, root: Path) -> Opener:
    """Opens one place, again and again."""
    return OPENERS[request.param](root)


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
