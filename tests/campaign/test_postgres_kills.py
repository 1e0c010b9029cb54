"""A client that is killed after any statement of any operation: it was done, or nothing of it was, and it can be done again."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

import psycopg
from psycopg.pq.abc import PGresult

from chatfold.eventlog import ChatExists, Log, Noted
from chatfold.eventlog.postgres.storage import PostgresStorage
from chatfold.eventlog.postgres.wire import Wire
from chatfold.testing.strategies import LARGE_TEXT, LONG_TEXTS
from chatfold.testing.telling import said
from tests.support.postgres import shared_cluster


async def _import(log: Log) -> None:
    with suppress(ChatExists):
        await log.storage.import_chat("new", log.storage.export("fork"))


async def _fork(log: Log) -> None:
    with suppress(ChatExists):
        await log.fork("a", "new", 3)


OPERATIONS: dict[str, Callable[[Log], Awaitable[object]]] = {
    "begin": lambda log: log.append("new", said(LONG_TEXTS[0]), id="mine"),
    "append": lambda log: log.append("a", said(LONG_TEXTS[0]), said(LARGE_TEXT), Noted("more"), id="mine"),
    "fork": _fork,
    "redact": lambda log: log.storage.redact("a", [1]),
    "delete": lambda log: log.delete("a"),
    "import": _import,
}


async def _prepare(log: Log) -> None:
    """Two chats that share lines, references and a blob."""
    await log.append("a", said(LONG_TEXTS[0]), said(LARGE_TEXT), said(LONG_TEXTS[0]), Noted("end"))
    await log.fork("a", "fork", 3)


async def _all(log: Log) -> dict[str, bytes]:
    """Every chat with all its lines and blobs, verified."""
    return {key: b"".join([data async for data in log.storage.export(key)]) async for key in log.chats()}


def _do(address: str, *works: Callable[[Log], Awaitable[Any]]) -> list[Any]:
    async def run() -> list[Any]:
        async with Log(PostgresStorage(address, clock=lambda: 1)) as log:
            return [await work(log) for work in works]

    return asyncio.run(run())


def _is_killed(address: str, operation: Callable[[Log], Awaitable[object]], nth: int) -> bool:
    """After its ``nth`` statement, unless it has fewer."""
    pid = os.fork()
    if not pid:
        with suppress(BaseException):
            _die_after(nth)
            _do(address, operation)
            os._exit(0)
        os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def _die_after(nth: int) -> None:
    left = nth

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def mortal(execute: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def executed(*args: Any, **options: Any) -> Any:
            found = await execute(*args, **options)
            count()
            return found

        return executed

    for name in ("execute", "executemany"):
        setattr(psycopg.AsyncCursor, name, mortal(getattr(psycopg.AsyncCursor, name)))
    receive = Wire._receive

    async def received(wire: Wire) -> list[PGresult]:
        """An append is sent, and then it is answered."""
        wire._driver.flush()
        count()
        found = await receive(wire)
        count()
        return found

    Wire._receive = received  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_after_any_statement_an_operation_was_done_or_was_not(name: str) -> None:
    operation = OPERATIONS[name]
    _, before, _, done = _do(shared_cluster().address(), _prepare, _all, operation, _all)
    assert before != done
    for nth in count(1):
        address = shared_cluster().address()
        _do(address, _prepare)
        killed = _is_killed(address, operation, nth)
        shared_cluster().wait_for_clients_to_end()
        [left] = _do(address, _all)
        assert left in (before, done), f"killed after statement {nth}"
        assert _do(address, operation, _all)[1] == done
        if not killed:
            break
    assert left == done
    assert nth > 2
