"""Statements sent together on one connection, and what came of them: libpq in pipeline mode, driven by the event loop.

An append is so short that a cursor of the driver costs more than the statement. Here a statement is prepared when it is first
sent, its values are sent binary, and the socket is watched as long as the connection lives.
"""

import asyncio
import re
import struct
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import psycopg
from psycopg import abc, pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int4, Int8

from chatfold.eventlog.postgres.schema import Connection

Statement = tuple[bytes, Sequence[object]]
"""SQL with a ``%b`` for each value: an Int4, an Int8, a str, bytes, or a list of one of these."""
_TEXT, _BINARY = 0, 1
_pack_size = struct.Struct(">i").pack
_pack_array = struct.Struct(">5i").pack
_KINDS: dict[type, tuple[int, int, Callable[[Any], bytes]]] = {
    Int4: (23, 1007, struct.Struct(">i").pack),
    Int8: (20, 1016, struct.Struct(">q").pack),
    str: (25, 1009, str.encode),
    bytes: (17, 1001, bytes),
}
"""The server's number of a type, the one of an array of it, and how a value is packed."""


class Answer:
    """Of one statement."""

    def __init__(self, result: PGresult, adapting: abc.Transformer) -> None:
        self._result = result
        self._adapting = adapting

    @property
    def count(self) -> int:
        """How many rows were written, or are there."""
        return self._result.command_tuples or 0

    def rows(self) -> list[tuple[Any, ...]]:
        self._adapting.set_pgresult(self._result, set_loaders=True, format=pq.Format.BINARY)
        return self._adapting.load_rows(0, self._result.ntuples, tuple)


class Wire:
    """Takes the connection over. ``prepares``: may a statement be there when the next transaction begins?"""

    def __init__(self, connection: Connection, *, prepares: bool) -> None:
        self.connection = connection
        self._prepares = prepares
        self._loop = asyncio.get_running_loop()
        self._driver = connection.pgconn
        self._driver.enter_pipeline_mode()
        self._socket = self._driver.socket
        self._adapting: abc.Transformer = Transformer(connection)
        self._texts: dict[bytes, bytes] = {}  # as libpq wants them
        self._names: dict[bytes, bytes] = {}  # of those that are prepared
        self._numbers = count()
        self._results: list[PGresult] = []
        self._expected = 0
        self._waiting: asyncio.Future[None] | None = None
        self._error: psycopg.Error | None = None  # why the connection is of no use any more
        self.is_closed = False
        self._loop.add_reader(self._socket, self._read)

    async def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._loop.remove_reader(self._socket)
            await self.connection.close()

    async def run(self, statements: Sequence[Statement], *, commits: bool = True) -> list[Answer]:
        """All of them are one transaction with those that were run before and did not commit. One that fails undoes all."""
        try:
            made = self._send(statements, commits=commits)
            results = await self._receive()
            failure = _first_failure(results)
            if failure is not None and not commits:
                self._driver.pipeline_sync()
                self._expected = 1
                await self._receive()
        except BaseException:  # it is lost, or what comes now would be taken for what is asked next
            await self.close()
            raise
        if failure is not None:
            raise failure
        for text, name in made.items():
            self._names[text] = name
        answers = [one for one in results if one.status != pq.ExecStatus.PIPELINE_SYNC][len(made) :]
        return [Answer(one, self._adapting) for one in answers]

    # --- sending -------------------------------------------------------------------------------------------

    def _send(self, statements: Sequence[Statement], *, commits: bool) -> dict[bytes, bytes]:
        """Gives the names of those that are prepared by this."""
        driver, made = self._driver, dict[bytes, bytes]()
        packed = [(text, *_pack_all(values)) for text, values in statements]
        if self._prepares:
            for text, oids, _, _ in packed:
                if text not in self._names and text not in made:
                    made[text] = b"s%d" % next(self._numbers)
                    driver.send_prepare(made[text], self._text(text), oids)
        for text, oids, data, formats in packed:
            if self._prepares:
                driver.send_query_prepared(self._names.get(text) or made[text], data, formats, _BINARY)
            else:
                driver.send_query_params(self._text(text), data, oids, formats, _BINARY)
        if commits:
            driver.pipeline_sync()
        else:
            driver.send_flush_request()
        self._expected = len(made) + len(packed) + commits
        return made

    def _text(self, text: bytes) -> bytes:
        found = self._texts.get(text)
        if found is None:
            numbers = count(1)
            found = self._texts[text] = re.sub(rb"%b", lambda _: b"$%d" % next(numbers), text)
        return found

    # --- receiving -----------------------------------------------------------------------------------------

    async def _receive(self) -> list[PGresult]:
        while self._error is None and self._driver.flush():
            self._loop.add_writer(self._socket, self._wake)
            try:
                await self._wait()
            finally:
                self._loop.remove_writer(self._socket)
        while len(self._results) < self._expected and self._error is None:
            await self._wait()
        results, self._results, self._expected = self._results, [], 0
        if self._error is not None:
            raise _first_failure(results) or self._error
        return results

    async def _wait(self) -> None:
        self._waiting = self._loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _read(self) -> None:
        driver = self._driver
        try:
            driver.consume_input()
            while len(self._results) < self._expected and not driver.is_busy():
                if (result := driver.get_result()) is not None:  # none stands between two statements
                    self._results.append(result)
        except psycopg.Error as error:
            self._error = error
            self._loop.remove_reader(self._socket)
        if self._error is not None or len(self._results) >= self._expected:
            self._wake()


def _first_failure(results: Sequence[PGresult]) -> psycopg.Error | None:
    failed = next((one for one in results if one.status == pq.ExecStatus.FATAL_ERROR), None)
    return None if failed is None else error_from_result(failed)


# --- values ----------------------------------------------------------------------------------------------


def _pack_all(values: Sequence[object]) -> tuple[list[int], list[abc.Buffer | None], list[int]]:
    """(their types, their bytes, the formats of these)"""
    oids: list[int] = []
    data: list[abc.Buffer | None] = []
    formats: list[int] = []
    for value in values:
        if type(value) is list:
            oid, packed, form = _pack_list(value)
        else:
            oid, _, pack = _KINDS[type(value)]
            packed, form = pack(value), _BINARY
        oids.append(oid)
        data.append(packed)
        formats.append(form)
    return oids, data, formats


def _pack_list(values: list[object]) -> tuple[int, bytes, int]:
    if not values:
        return 0, b"{}", _TEXT  # of whatever type the statement says
    of, oid, pack = _KINDS[type(values[0])]
    parts = [_pack_array(1, 0, of, len(values), 1)]
    for value in values:
        data = pack(value)
        parts += (_pack_size(len(data)), data)
    return oid, b"".join(parts), _BINARY
