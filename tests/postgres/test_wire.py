"""Statements sent together: what goes in comes out, one that fails undoes all, and a connection in doubt is not used again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

import psycopg
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.numeric import Int4, Int8

from chatfold.eventlog.postgres.wire import Wire
from tests.support.postgres import shared_cluster

_TABLE = b"CREATE TEMP TABLE t (n bigint PRIMARY KEY)"
_INSERT = b"INSERT INTO t (n) VALUES (%b)"
_ALL = b"SELECT n FROM t ORDER BY n"


@asynccontextmanager
async def wire_of(*, prepares: bool = True) -> AsyncIterator[Wire]:
    wire = Wire(
        await psycopg.AsyncConnection.connect(shared_cluster().dsn, autocommit=True), prepares=prepares
    )
    try:
        yield wire
    finally:
        await wire.close()


def _int(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@settings(max_examples=30)
@given(_int(32), _int(64), _TEXTS, st.binary(), st.lists(_int(64)), st.lists(_TEXTS), st.lists(st.binary()))
def test_values_come_back_as_they_were_sent(
    small: int, large: int, text: str, data: bytes, numbers: list[int], texts: list[str], chunks: list[bytes]
) -> None:
    sent = Int4(small), Int8(large), text, data, [*map(Int8, numbers)], texts, chunks
    echo = b"SELECT %b, %b, %b, %b, %b::bigint[], %b::text[], %b::bytea[]"

    async def run() -> None:
        for prepares in (True, False):
            async with wire_of(prepares=prepares) as wire:
                answers = await wire.run([(echo, sent), (echo, sent)])
                assert [answer.rows() for answer in answers] == [[sent]] * 2

    asyncio.run(run())


async def test_more_than_a_socket_holds_goes_both_ways() -> None:
    data = bytes(range(256)) * (1 << 14)
    async with wire_of() as wire, asyncio.timeout(60):
        answers = await wire.run([(b"SELECT %b", (data,))] * 8)
        assert [answer.rows() for answer in answers] == [[(data,)]] * 8


async def test_one_that_fails_undoes_all_of_its_transaction_and_no_more() -> None:
    async with wire_of() as wire:
        await wire.run([(_TABLE, ())])
        [answer] = await wire.run([(_INSERT, (Int8(1),))])
        assert answer.count == 1
        await wire.run([(_INSERT, (Int8(2),))], commits=False)
        for commits in (True, False):
            with pytest.raises(psycopg.errors.UniqueViolation):
                await wire.run(
                    [(_INSERT, (Int8(3),)), (_INSERT, (Int8(1),)), (_INSERT, (Int8(4),))], commits=commits
                )
            [answer] = await wire.run([(_ALL, ())])
            assert answer.rows() == [(1,)]
            await wire.run([(_INSERT, (Int8(5),))], commits=False)
        await wire.run([])
        [answer] = await wire.run([(_ALL, ())])
        assert answer.rows() == [(1,), (5,)]


async def test_a_wire_whose_user_is_cancelled_is_closed() -> None:
    async with wire_of() as wire:
        waiting = asyncio.create_task(wire.run([(b"SELECT pg_sleep(60)", ())]))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert wire.is_closed


@pytest.mark.parametrize("is_busy", [True, False])
async def test_a_wire_whose_server_is_gone_says_so_and_is_closed(is_busy: bool) -> None:
    async with wire_of() as wire:
        [answer] = await wire.run([(b"SELECT pg_backend_pid()", ())])
        end = f"SELECT pg_terminate_backend({answer.rows()[0][0]})"
        waiting = asyncio.create_task(wire.run([(b"SELECT pg_sleep(60)", ())])) if is_busy else None
        await asyncio.sleep(0.05)
        await asyncio.to_thread(shared_cluster().execute, end)
        await asyncio.sleep(0.05)
        with pytest.raises(psycopg.OperationalError):
            await (waiting or wire.run([(b"SELECT 1", ())]))
        assert wire.is_closed
