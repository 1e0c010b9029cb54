"""PostgreSQL behind PgBouncer, which pools transactions: the whole contract, with fewer connections than storages."""

import asyncio
import atexit
import functools
from contextlib import aclosing

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

from chatfold.agent import Store
from chatfold.eventlog import InvalidPlace, Log, Noted, ReadOnly
from chatfold.eventlog.postgres.place import parse_address
from chatfold.eventlog.postgres.storage import PostgresStorage
from chatfold.testing.conformance import agreement, stories
from chatfold.testing.telling import is_whole
from tests.postgres.backend import Postgres
from tests.support.pgbouncer import Bouncer, reason_not
from tests.support.postgres import shared_cluster
from tests.support.profile import searched

pytestmark = pytest.mark.skipif(bool(reason_not()), reason=reason_not())


@functools.cache
def shared_bouncer() -> Bouncer:
    bouncer = Bouncer(shared_cluster(), connections=8)
    atexit.register(bouncer.stop)
    return bouncer


def pooled_address() -> str:
    schema = shared_cluster().address().partition("?")[2]
    return f"{shared_bouncer().dsn}?{schema}&pooler=transaction"


class Pooled(Postgres):
    races = ("threads",)

    def place(self) -> str:
        schema = self.address.partition("?")[2]
        return f"{shared_bouncer().dsn}?{schema}&pooler=transaction"


TestPooledPostgresAgreesWithMemory = agreement(Pooled, "full", search=searched(1 / 10))
TestStoriesOfPooledPostgres = stories(Pooled)


async def test_more_storages_than_server_processes_lose_nothing_and_write_nothing_twice() -> None:
    address, count, turns = pooled_address(), 24, 40
    logs = [Log(PostgresStorage(address)) for _ in range(count)]

    async def write(number: int) -> None:
        for turn in range(turns):
            await logs[number].append(f"chat {turn % 5}", Noted(f"{number}-{turn}"), id=f"{number}-{turn}")

    async with asyncio.timeout(120):
        await asyncio.gather(*map(write, range(count)))
        names: list[str] = []
        for chat in range(5):
            entries = [entry async for entry in logs[0].read(f"chat {chat}")]
            assert is_whole(entries)
            names += [entry.event.name for entry in entries if isinstance(entry.event, Noted)]
        await asyncio.gather(*(log.storage.close() for log in logs))
    assert sorted(names) == sorted(f"{number}-{turn}" for number in range(count) for turn in range(turns))


async def test_a_follower_behind_the_pooler_looks_every_second() -> None:
    address = pooled_address()
    async with Log(PostgresStorage(address)) as log, Log(PostgresStorage(address)) as other:
        await log.append("a", Noted("one"))
        async with aclosing(other.follow("a")) as entries, asyncio.timeout(20):
            for number in range(3):
                if number:
                    await log.append("a", Noted("more"))
                assert (await anext(entries)).seq == number + 1


async def test_a_pooler_that_nobody_told_of_is_refused_before_anything_is_done() -> None:
    address = pooled_address().replace("&pooler=transaction", "")
    async with Store(address) as store:
        with pytest.raises(InvalidPlace, match="pooler=transaction"):
            await store.chat("a")
    schema = parse_address(address).schema
    assert not shared_cluster().execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'")


async def test_a_pooler_that_is_killed_and_comes_back_loses_nothing() -> None:
    bouncer = Bouncer(shared_cluster(), connections=4)
    schema = shared_cluster().address().partition("?")[2]
    acknowledged: dict[int, str] = {}
    is_over = False

    async def write(log: Log, number: int) -> None:
        turn = 0
        while not is_over:
            text = f"{number}-{turn}"
            [entry] = await log.append("a", Noted(text))  # without an id: the token tells what was done
            acknowledged[entry.seq] = text
            turn += 1

    try:
        async with (
            Log(PostgresStorage(f"{bouncer.dsn}?{schema}&pooler=transaction")) as log,
            asyncio.timeout(120),
        ):
            await log.append("a", Noted("first"))
            async with asyncio.TaskGroup() as group:
                for number in range(4):
                    group.create_task(write(log, number))
                for _ in range(5):
                    before = len(acknowledged)
                    while len(acknowledged) < before + 50:  # noqa: ASYNC110 (it is looked at once in a while)
                        await asyncio.sleep(0.01)
                    bouncer.kill()
                    await asyncio.to_thread(bouncer.start)
                is_over = True
            entries = [entry async for entry in log.read("a")]
        assert is_whole(entries)
        names = [entry.event.name for entry in entries if isinstance(entry.event, Noted)]
        assert len({*names}) == len(names)
        assert {seq: names[seq - 1] for seq in acknowledged} == acknowledged
    finally:
        bouncer.stop()


async def test_a_reader_behind_the_pooler_changes_nothing() -> None:
    address = pooled_address()
    async with Store(address) as store:
        await (await store.chat("a")).user("hello")
    counts = await asyncio.to_thread(_changes, address)
    async with Store(PostgresStorage(address, read_only=True)) as store:
        assert [one.key async for one in store.chats()] == ["a"]
        assert len(await (await store.chat("a")).messages("openai")) == 1
        with pytest.raises(ReadOnly):
            await store.log.append("a", Noted("no"))
    assert await asyncio.to_thread(_changes, address) == counts


def _changes(address: str) -> list[tuple[object, ...]]:
    """Every row of the schema, with the transaction that wrote it."""
    schema = parse_address(address).schema
    return [
        row
        for table in ("part", "chat", "line", "print", "blob", "snapshot", "listing", "answer", "piece")
        for row in shared_cluster().execute(f"SELECT '{table}', xmin::text, t::text FROM {schema}.{table} t")
    ]
