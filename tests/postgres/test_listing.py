"""No cache of a chat outlives what was erased or deleted in it. What a list asks for is in ``test_round_trips``."""

import asyncio
from collections.abc import AsyncIterator

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

import psycopg

from chatfold.agent import Store, user
from chatfold.eventlog import Head, Log, Noted
from chatfold.eventlog.postgres.storage import PostgresStorage
from chatfold.eventlog.storage import ChatRow
from chatfold.testing.strategies import LONG_TEXTS
from chatfold.testing.telling import said
from tests.support.postgres import shared_cluster


@pytest.fixture
def address() -> str:
    return shared_cluster().address()


@pytest.fixture
async def log(address: str) -> AsyncIterator[Log]:
    async with Log(PostgresStorage(address)) as log:
        await log.append("chat", said(LONG_TEXTS[0]), Noted("two"))
        yield log


async def row_of(log: Log) -> ChatRow:
    [row] = [row async for page in log.storage.chats("chat") for row in page.rows]
    return row


def count(address: str, table: str) -> object:
    return shared_cluster().execute(f"SELECT count(*) FROM {address.partition('schema=')[2]}.{table}")[0][0]


async def test_a_list_that_may_not_write_is_the_same(address: str) -> None:
    async with Store(address) as store:
        await (await store.chat("a")).record(user("hello"))
        async with Store(address, read_only=True) as reader:
            listed = [one async for one in reader.chats()]
        assert count(address, "listing") == 0
        assert [one async for one in store.chats()] == listed


async def test_an_erasure_and_a_deletion_empty_the_row(log: Log, address: str) -> None:
    before = await row_of(log)
    await log.storage.store_rows({"chat": (before.token, b"the text")})
    assert count(address, "listing") == 1
    await log.storage.redact("chat", [1])
    assert count(address, "listing") == 0
    await log.storage.store_rows({"chat": (before.token, b"the text")})  # read before it was erased
    assert count(address, "listing") == 0
    await log.storage.store_rows({"chat": ((await row_of(log)).token, b"[redacted]")})
    await log.fork("chat", "fork")
    await log.delete("chat")
    assert count(address, "listing") == 0


async def test_no_row_is_stored_while_the_chat_is_being_changed(log: Log, address: str) -> None:
    row = await row_of(log)
    async with await psycopg.AsyncConnection.connect(shared_cluster().dsn) as other, asyncio.timeout(20):
        await other.execute(f"UPDATE {address.partition('schema=')[2]}.chat SET erased = 1".encode())
        await log.storage.store_rows({"chat": (row.token, b"the text")})  # waits for nobody
        assert count(address, "listing") == 0


@pytest.mark.parametrize(
    "cache",
    ["snapshot (chat, slot, seq, link, data) SELECT id, 0, 2, '', ''", "listing SELECT id, '', ''"],
    ids=["snapshot", "listing"],
)
async def test_a_cache_that_is_stored_at_the_moment_of_the_deletion_goes_with_it(
    log: Log, address: str, cache: str
) -> None:
    """Whoever stores one has locked the chat, and so the deletion waits for him before it looks."""
    schema = address.partition("schema=")[2]
    async with await psycopg.AsyncConnection.connect(shared_cluster().dsn) as other, asyncio.timeout(20):
        await other.execute(f"SELECT FROM {schema}.chat FOR SHARE".encode())
        table, rest = cache.split(" ", 1)
        await other.execute(f"INSERT INTO {schema}.{table} {rest} FROM {schema}.chat".encode())
        deleting = asyncio.create_task(log.delete("chat"))
        while not shared_cluster().execute(  # noqa: ASYNC110 (a server sets no event)
            f"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}%'"
        ):
            await asyncio.sleep(0.01)
        await other.commit()
        await deleting
    assert await log.head("chat") == Head()
    assert count(address, table) == 0
