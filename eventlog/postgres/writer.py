"""Appends of one process: what waits is numbered and sent together, a transaction at a time, on one connection.

One that comes alone is one statement. Several share a transaction: those of one chat a statement, those of several chats a
pipeline, in the order of their parts, so that two processes never wait for each other. A write that found its chat changed does
nothing and harms nobody; it is numbered anew while the row of its part is locked, so it cannot lose twice.

When the connection is lost, nobody knows what was committed. The very same statements are sent again: one that does nothing now
either has its token there, or was never done and can never be.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.types.numeric import Int4, Int8
from xxhash import xxh3_64_intdigest

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.errors import ChatDeleted, ChatfoldError, DurabilityUnknown, Unavailable
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.postgres.schema import Connection
from chatfold.eventlog.postgres.server import Retries, Server, is_lost, to_chatfold_error
from chatfold.eventlog.postgres.statements import (
    BLOBS,
    IS_WRITTEN,
    KNOWN,
    LOCK,
    STATE,
    State,
    Write,
    append_statement,
    signed,
    unsigned,
)
from chatfold.eventlog.postgres.turn import Turn, Waiting

Cursor = psycopg.AsyncCursor[tuple[Any, ...]]
_STATES = 4096  # chats whose rows are remembered
_CONTENDED = 1.0  # seconds for which a chat that another process wrote to is locked before it is numbered


def encode_key(chat: str) -> bytes:
    return chat.encode("utf-8", "surrogatepass")


def part_of(key: bytes, parts: int) -> int:
    return xxh3_64_intdigest(key) % parts


class Writer:
    """``tell`` is called with the keys of what was written."""

    def __init__(self, server: Server, clock: Callable[[], int], tell: Callable[[list[bytes]], None]) -> None:
        self._server = server
        self._clock = clock
        self._tell = tell
        self._waiting: dict[str, list[Waiting]] = {}
        self._states: OrderedDict[bytes, State] = OrderedDict()
        self._lost: dict[bytes, float] = {}  # when another process was quicker, by the loop's clock
        self._connection: Connection | None = None
        self._warning = ""  # of the server, about what is being sent
        self._task: asyncio.Task[None] | None = None

    async def append(self, request: AppendRequest) -> list[Entry]:
        answer: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(request.chat, []).append(Waiting(request, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await answer

    async def close(self) -> None:
        """What was asked for before is done."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._connection is not None:
            await self._connection.close()

    # --- rounds --------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        group: list[Waiting] = []
        try:
            while self._waiting:
                turns = self._take_turns()
                group = [one for turn in turns for one in turn.waiting]
                await self._finish(turns)
        except BaseException as error:
            _fail([*group, *(one for some in self._waiting.values() for one in some)], error)
            self._waiting.clear()
            if not isinstance(error, Exception):
                raise
        finally:
            self._task = None

    def _take_turns(self) -> list[Turn]:
        taken, self._waiting = self._waiting, {}
        turns: list[Turn] = []
        for chat, waiting in taken.items():
            key = encode_key(chat)
            turns.append(Turn(part_of(key, self._server.parts), key, waiting, self._states.get(key)))
        return sorted(turns, key=lambda turn: (turn.part, turn.key))

    async def _finish(self, turns: list[Turn]) -> None:
        """All that these wait for, answered."""
        try:
            retries, is_locked = Retries(self._server.patience), self._are_contended(turns)
            while turns:
                try:
                    await self._round(turns, is_locked=is_locked)
                except psycopg.Error as error:
                    if not is_lost(error) or not await retries.wait():
                        raise
                turns, is_locked = [turn for turn in turns if turn.waiting], True
        except psycopg.Error as error:
            await self._give_up(turns, error)
        except ChatfoldError as error:
            _fail([one for turn in turns for one in turn.waiting], error)

    async def _give_up(self, turns: list[Turn], error: psycopg.Error) -> None:
        if len(turns) > 1 and not is_lost(error):
            for turn in turns:  # one of them made all fail: each alone
                await self._finish([turn])
            return
        for turn in turns:
            self._states.pop(turn.key, None)
            for one in turn.waiting:
                _fail([one], to_chatfold_error(error, self._server.place.shown, one.request.chat))

    async def _round(self, turns: list[Turn], *, is_locked: bool) -> None:
        connection = await self._connect()
        self._warning = ""
        async with self._server.bounded(connection):
            await self._settle(connection, [turn for turn in turns if turn.numbered])
            turns = [turn for turn in turns if turn.waiting]
            if is_locked and turns:
                for turn in turns:
                    turn.forget()
                async with (
                    connection.pipeline(),
                    connection.transaction(),
                ):  # two round trips: a look, and the rest
                    parts = sorted({turn.part for turn in turns})
                    await connection.execute(self._server.sql(LOCK), ([*map(Int4, parts)],), binary=True)
                    cursors = await self._write(connection, turns)
            else:
                cursors = await self._write(connection, turns)
        for turn, cursor in zip(turns, cursors, strict=True):
            self._conclude(turn, is_written=cursor is None or cursor.rowcount > 0)

    def _are_contended(self, turns: list[Turn]) -> bool:
        """Did another process write to one of these a moment ago? Then what we know of it is of no use."""
        now = asyncio.get_running_loop().time()
        return any(now - self._lost.get(turn.key, -_CONTENDED) < _CONTENDED for turn in turns)

    def _mark_contended(self, key: bytes) -> None:
        if len(self._lost) > _STATES:
            self._lost.clear()
        self._lost[key] = asyncio.get_running_loop().time()

    async def _settle(self, connection: Connection, turns: list[Turn]) -> None:
        """Those that were sent on a connection that was lost: sent again, or found, or to be numbered anew."""
        for turn in turns:
            assert turn.numbered is not None
            write = turn.numbered.write
            if write is None:
                continue
            [cursor] = await self._send(connection, [write])
            count = cursor.rowcount
            if not count:
                values = [Int8(write.before.id), Int8(write.before.head.seq + 1), Int8(write.token)]
                sql = self._server.sql(IS_WRITTEN)
                cursor = await connection.execute(sql, [*values, Int8(write.before.id)], binary=True)
                row = await cursor.fetchone()
                assert row is not None
                count, is_there = int(row[0]), bool(row[1])
                if not count and not is_there and not write.is_new:
                    self._states.pop(turn.key, None)
                    message = "the chat was deleted while it was written to"
                    _fail(turn.waiting, ChatDeleted(message, chat=turn.waiting[0].request.chat))
                    turn.waiting = []
                    continue
            self._conclude(turn, is_written=count > 0)

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = await self._server.connect()
            self._connection.add_notice_handler(self._take_notice)
        return self._connection

    def _take_notice(self, notice: psycopg.errors.Diagnostic) -> None:
        """A commit whose wait for a standby somebody ended is answered as one that succeeded, but for a warning."""
        if notice.severity_nonlocalized == "WARNING":
            self._warning = notice.message_primary or "the server warned"

    # --- looking, numbering, sending -----------------------------------------------------------------------

    async def _write(self, connection: Connection, turns: Sequence[Turn]) -> list[Cursor | None]:
        """Numbers and sends; each cursor knows, in the end, how many lines were written. None: there was nothing to write."""
        now = self._clock()
        missing = [turn for turn in turns if not turn.numbered]
        while missing:
            if asking := [turn for turn in missing if turn.wanted]:
                await self._look(connection, asking)
            for turn in missing:
                if turn.wanted is None:
                    turn.number(now)
            missing = [turn for turn in missing if not turn.numbered]
        writes = [turn.numbered.write for turn in turns if turn.numbered and turn.numbered.write]
        cursors = iter(await self._send(connection, writes))
        return [next(cursors) if turn.numbered and turn.numbered.write else None for turn in turns]

    async def _look(self, connection: Connection, turns: list[Turn]) -> None:
        """The state first: if it is the same when the lines are written, so is what was seen after it."""
        asked: list[tuple[Cursor, ...]] = []
        async with connection.pipeline():
            for turn in turns:
                wanted = turn.wanted
                assert wanted is not None
                cursors = [await self._ask(connection, STATE, turn.key)]
                fingerprints, seqs = [
                    [*map(Int8, map(signed, wanted.fingerprints))],
                    [*map(Int8, wanted.seqs)],
                ]
                if fingerprints or seqs:
                    cursors.append(await self._ask(connection, KNOWN, turn.key, fingerprints, seqs))
                if wanted.digests:
                    cursors.append(await self._ask(connection, BLOBS, turn.key, [*wanted.digests]))
                asked.append(tuple(cursors))
        for turn, (first, *others) in zip(turns, asked, strict=True):
            row = await first.fetchone()
            for cursor in others:
                _learn(turn, await cursor.fetchall())
            turn.take(_state(row) if row else None)

    async def _ask(self, connection: Connection, text: str, *values: object) -> Cursor:
        cursor = connection.cursor(binary=True)
        await cursor.execute(self._server.sql(text), values)
        return cursor

    async def _send(self, connection: Connection, writes: Sequence[Write | None]) -> list[Cursor]:
        cursors = [connection.cursor() for _ in writes]
        if len(writes) == 1 and writes[0] is not None:
            text, values = append_statement(writes[0])
            await cursors[0].execute(self._server.sql(text), values)
        elif writes:
            async with connection.pipeline():
                for cursor, write in zip(cursors, writes, strict=True):
                    assert write is not None
                    text, values = append_statement(write)
                    await cursor.execute(self._server.sql(text), values)
        return cursors

    # --- answering -----------------------------------------------------------------------------------------

    def _conclude(self, turn: Turn, *, is_written: bool) -> None:
        done = turn.numbered
        assert done is not None
        if not is_written:
            turn.forget()
            self._states.pop(turn.key, None)
            self._mark_contended(turn.key)
            return
        state, known = turn.state, self._states.get(turn.key)
        if turn.is_fresh and known is not None and known != state:
            self._mark_contended(turn.key)
        if write := done.write:
            state = State(write.before.id, write.head, write.before.erased, write.lease, write.before.is_fork)
            self._tell([turn.key])
        if state is not None:
            self._states[turn.key] = state
            self._states.move_to_end(turn.key)
            if len(self._states) > _STATES:
                self._states.popitem(last=False)
        for one, answer in done.answers:
            outcome = self._doubt(one) if self._warning and done.write else answer
            if one.answer.done():
                continue  # whoever waited was cancelled
            if isinstance(outcome, ChatfoldError):
                one.answer.set_exception(outcome)
            else:
                one.answer.set_result(outcome)
        turn.waiting = turn.waiting[len(done.answers) :]
        turn.state = state
        turn.forget()

    def _doubt(self, one: Waiting) -> ChatfoldError:
        return DurabilityUnknown(f"it was committed, but: {self._warning}", chat=one.request.chat)


def _state(row: Sequence[object]) -> State:
    chat_id, seq, link, erased, lease, is_fork = row
    assert isinstance(chat_id, int)
    return State(chat_id, Head(int(str(seq)), str(link)), int(str(erased)), str(lease), bool(is_fork))


def _learn(turn: Turn, rows: Sequence[Sequence[object]]) -> None:
    """Rows of KNOWN or of BLOBS."""
    known, wanted = turn.known, turn.wanted
    assert wanted is not None
    for row in rows:
        if len(row) == 2:
            known.blobs[str(row[0])] = bytes(row[1])  # type: ignore[call-overload]
        elif row[0] is None:
            known.lines[int(str(row[1]))] = bytes(row[2])  # type: ignore[call-overload]
        else:
            fingerprint = unsigned(int(str(row[0])))
            known.seqs[fingerprint] = sorted({*known.seqs.get(fingerprint, ()), int(str(row[1]))})


def _fail(waiting: Sequence[Waiting], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        error = Unavailable("the event loop ended before it was known what became of this append")
    for one in waiting:
        with suppress(asyncio.InvalidStateError):
            one.answer.set_exception(error)
