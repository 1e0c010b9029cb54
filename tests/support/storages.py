"""A place for chats of each kind, opened as often as a test likes: what is above the storage does the same on all of them.

The fixture ``storages`` opens one place again and again. A test takes it as it is, or says where: ``everywhere``, or where chats
outlive who wrote them, ``lasting``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from chatfold.eventlog import FileStorage, MemoryStorage, Storage
from tests.support.clock import TickingClock
from tests.support.postgres import shared_cluster

Opener: TypeAlias = Callable[[], Storage]


def memory(_: Path) -> Opener:
    """All that open it have the same one."""
    storage = MemoryStorage(clock=TickingClock())
    return lambda: storage


def files(root: Path) -> Opener:
    """With segments that roll often."""
    return lambda: FileStorage(root, clock=TickingClock(), segment_bytes=2000, durability="off")


def postgres(_: Path) -> Opener:
    """In a schema that nobody has used. The server is gone when the tests are, and its schemas with it."""
    address = shared_cluster().address()
    from chatfold.eventlog.postgres.storage import PostgresStorage

    return lambda: PostgresStorage(address, clock=TickingClock(), lease_seconds=2)


OPENERS = {"memory": memory, "files": files, "postgres": postgres}
_CAMPAIGN = pytest.param("postgres", marks=pytest.mark.campaign)

everywhere = pytest.mark.parametrize("storages", ["memory", "files", "postgres"], indirect=True)
lasting = pytest.mark.parametrize("storages", ["files", _CAMPAIGN], indirect=True)
# In memory every time; where something is waited for, the disk or a server, in the campaign, of which CI runs ``tests/agent``.
OFTEN = ["memory", pytest.param("files", marks=pytest.mark.campaign), _CAMPAIGN]
