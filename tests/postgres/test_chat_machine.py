"""The chat machine on PostgreSQL: whatever is done to a chat there, it shows what it shows in memory and what the naive model shows."""

import asyncio
import shutil
import tempfile

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

from collections.abc import Callable
from pathlib import Path

from chatfold.agent import Store
from chatfold.eventlog import Storage
from chatfold.eventlog.postgres.storage import PostgresStorage
from tests.agent.test_chat_machine import Chats
from tests.support.machines.two_stores import Side
from tests.support.postgres import shared_cluster
from tests.support.profile import searched


class Postgres(Side):
    def __init__(self, clock: Callable[[], int]) -> None:
        self.address = shared_cluster().address()
        self.root = Path(tempfile.mkdtemp())
        super().__init__(clock)

    @property
    def schema(self) -> str:
        return self.address.partition("schema=")[2]

    def storage(self) -> Storage:
        return PostgresStorage(self.address, clock=self.clock)

    def die(self, store: Store, key: str) -> None:
        """Its connections are gone; what was sent is done or not."""
        storage = store.log.storage
        assert isinstance(storage, PostgresStorage)
        closing = asyncio.ensure_future(storage.close())
        store._later.add(closing)  # somebody keeps it until it is done

    def forget_caches(self) -> None:
        shared_cluster().execute(f"DELETE FROM {self.schema}.snapshot; DELETE FROM {self.schema}.listing")

    def remove(self) -> None:
        shutil.rmtree(self.root)
        shared_cluster().execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")


class ChatsInPostgres(Chats):
    first_side = Postgres


TestChatsInPostgres = ChatsInPostgres.TestCase
TestChatsInPostgres.settings = searched(2 / 3)
