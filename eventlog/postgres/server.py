"""The connections of one process to one place, and what becomes of those that are lost.

What only reads, and what can be done twice, is tried again on a new connection until the patience ends; then it is
``Unavailable``. A connection that does not answer is closed, never cancelled: a statement that is cancelled while it waits for
a standby is answered as if it had succeeded.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from chatfold.eventlog.errors import (
    ChatfoldError,
    Closed,
    DiskFull,
    ForkedProcess,
    ReadOnly,
    Unavailable,
)
from chatfold.eventlog.postgres.place import Place
from chatfold.eventlog.postgres.schema import Connection, prepare_schema, statement

_T = TypeVar("_T")
_MOST = 4  # connections at once, besides those of appending and of news
_PAUSE = 0.05, 1.0  # seconds between two attempts: the first, the longest
_LOST = {
    None,  # the driver itself says it: there was no answer
    "25006",  # the server has become a standby
    "40001",
    "40P01",  # serialization, deadlock: rolled back
    "53300",
    "57P01",
    "57P02",
    "57P03",  # it stops, it died, it is starting
}


def is_lost(error: psycopg.Error) -> bool:
    """May the same statement succeed on another connection?"""
    return isinstance(error, psycopg.Error) and (
        error.sqlstate in _LOST or str(error.sqlstate).startswith("08")
    )


def to_chatfold_error(error: psycopg.Error, place: str, chat: str | None = None) -> ChatfoldError:
    """What the server says, in our words where we have some."""
    text = f"{' '.join(str(error).split())} ({place})"  # the driver's has several lines
    if error.sqlstate == "53100":
        return DiskFull(text, chat=chat)
    if error.sqlstate in ("25006", "42501"):
        return ReadOnly(text, chat=chat)
    return Unavailable(text, chat=chat)


class Server:
    def __init__(self, place: Place, *, read_only: bool, patience: float) -> None:
        self.place = place
        self.patience = patience
        self.parts = 0
        self._read_only = read_only
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(_MOST)
        self._opening = asyncio.Lock()
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._statements: dict[str, bytes] = {}
        self.is_closed = False

    # --- connections -------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connects, once, and makes the tables where there are none."""
        self.check_open()
        if self.parts:
            return
        async with self._opening:
            if not self.parts:
                try:
                    async with self._borrow() as connection:
                        self.parts = await prepare_schema(connection, self.place, read_only=self._read_only)
                except psycopg.Error as error:
                    raise to_chatfold_error(error, self.place.shown) from None

    def check_open(self) -> None:
        if os.getpid() != self._process:
            raise ForkedProcess("this storage was opened before os.fork")
        if self.is_closed:
            raise Closed("the storage is closed")
        self._loop = self._loop or asyncio.get_running_loop()
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError(
                "a PostgresStorage belongs to the event loop that used it first: open another one"
            )

    async def connect(self) -> Connection:
        return await AsyncConnection.connect(self.place.conninfo, **self._options())

    def _options(self) -> dict[str, Any]:
        found = {"autocommit": True, "prepare_threshold": 0, **self.place.secrets()}
        if (
            self.place.pooler == "transaction"
        ):  # what belongs to one server process is not there in the next transaction
            found["prepare_threshold"] = None
        elif self._read_only:
            found["options"] = "-c default_transaction_read_only=on"
        if "connect_timeout" not in self.place.conninfo:
            found["connect_timeout"] = max(2, round(min(10, self.patience)))
        return found

    @asynccontextmanager
    async def _borrow(self) -> AsyncIterator[Connection]:
        """One that nobody else uses. It is kept for the next, unless it was lost or left amid something."""
        try:
            async with asyncio.timeout(self.patience):
                await self._free.acquire()
        except TimeoutError:
            raise Unavailable(f"all connections are in use ({self.place.shown})") from None
        connection: Connection | None = None
        try:
            connection = self._idle.pop() if self._idle else await self.connect()
            yield connection
        finally:
            self._free.release()
            if connection is not None:
                if connection.info.transaction_status == TransactionStatus.IDLE and not self.is_closed:
                    self._idle.append(connection)
                else:
                    await connection.close()

    async def _forget_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def close(self) -> None:
        self.is_closed = True
        await self._forget_idle()

    @contextmanager
    def limit_time(self, connection: Connection) -> Iterator[None]:
        """Inside, the connection is cut when the patience ends; whoever waits for it is told so."""
        timer = asyncio.get_running_loop().call_later(self.patience, _cut, connection)
        try:
            yield
        finally:
            timer.cancel()

    # --- statements ----------------------------------------------------------------------------------------

    def sql(self, text: str) -> bytes:
        found = self._statements.get(text)
        if found is None:
            found = self._statements[text] = statement(self.place.schema, text)
        return found

    async def rows(self, text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Of a statement that only reads, or that can be done twice."""

        async def ask(connection: Connection) -> list[tuple[Any, ...]]:
            cursor = await connection.execute(self.sql(text), values, binary=True)
            return await cursor.fetchall() if cursor.description else []

        return await self.retry(ask)

    async def retry(self, work: Callable[[Connection], Awaitable[_T]], chat: str | None = None) -> _T:
        """What the work gives on a connection that is not lost: it may be begun several times."""
        await self.open()
        retries = Retries(self.patience)
        while True:
            try:
                async with self._borrow() as connection:
                    with self.limit_time(connection):
                        return await work(connection)
            except psycopg.Error as error:
                self.check_open()
                await self._forget_idle()  # they are as old as this one
                is_refused = self._read_only and error.sqlstate == "25006"
                if is_refused or not is_lost(error) or not await retries.wait():
                    raise to_chatfold_error(error, self.place.shown, chat) from None


class Retries:
    """``wait`` until the next attempt; False when the patience has ended."""

    def __init__(self, patience: float) -> None:
        self._end = asyncio.get_running_loop().time() + patience
        self._pause = _PAUSE[0]

    async def wait(self) -> bool:
        if asyncio.get_running_loop().time() + self._pause > self._end:
            return False
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, _PAUSE[1])
        return True


def _cut(connection: Connection) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
