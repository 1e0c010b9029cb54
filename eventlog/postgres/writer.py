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
from itertools import chain

import psycopg
from psycopg.types.numeric import Int4, Int8
from xxhash import xxh3_64_intdigest

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.errors import ChatDeleted, ChatfoldError, DurabilityUnknown, Unavailable
from chatfold.eventlog.events import Entry, Head
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
    from_bigint,
    to_bigint,
)
from chatfold.eventlog.postgres.turn import Turn, Waiting
from chatfold.eventlog.postgres.wire import Statement, Wire

_STATES = 4096  # chats whose rows are remembered
_PLAN_ONCE = b"SELECT set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false)"
"""Else the server plans every append anew, since it takes an array to have ten values, and planning costs more than the append. A
plan is kept while the tables grow, so it goes by the indexes although they are small yet."""
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
        self._wire: Wire | None = None
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
        if self._wire is not None:
            await self._wire.close()

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
        wire = await self._connect()
        self._warning = ""
        with self._server.limit_time(wire.connection):
            await self._settle(wire, [turn for turn in turns if turn.numbered])
            turns = [turn for turn in turns if turn.waiting]
            counts = await self._write(wire, turns, is_locked=is_locked)
        for turn, count in zip(turns, counts, strict=True):
            self._conclude(turn, is_written=count is None or count > 0)

    def _are_contended(self, turns: list[Turn]) -> bool:
        """Did another process write to one of these a moment ago? Then what we know of it is of no use."""
        now = asyncio.get_running_loop().time()
        return any(now - self._lost.get(turn.key, -_CONTENDED) < _CONTENDED for turn in turns)

    def _mark_contended(self, key: bytes) -> None:
        if len(self._lost) > _STATES:
            self._lost.clear()
        self._lost[key] = asyncio.get_running_loop().time()

    async def _settle(self, wire: Wire, turns: list[Turn]) -> None:
        """Those that were sent on a connection that was lost: sent again, or found, or to be numbered anew."""
        for turn in turns:
            assert turn.numbered is not None
            write = turn.numbered.write
            if write is None:
                continue
            [count] = await self._send(wire, [write])
            if not count:
                values = [Int8(write.before.id), Int8(write.before.head.seq + 1), Int8(write.token)]
                [answer] = await wire.run([self._statement(IS_WRITTEN, *values, Int8(write.before.id))])
                [(is_written, is_there)] = answer.rows()
                count = int(is_written)
                if not count and not is_there and not write.is_new:
                    self._states.pop(turn.key, None)
                    message = "the chat was deleted while it was written to"
                    _fail(turn.waiting, ChatDeleted(message, chat=turn.waiting[0].request.chat))
                    turn.waiting = []
                    continue
            self._conclude(turn, is_written=count > 0)

    async def _connect(self) -> Wire:
        if self._wire is None or self._wire.is_closed:
            connection = await self._server.connect()
            connection.add_notice_handler(self._take_notice)
            prepares = connection.prepare_threshold is not None
            if prepares:
                await connection.execute(_PLAN_ONCE)
            self._wire = Wire(connection, prepares=prepares)
        return self._wire

    def _take_notice(self, notice: psycopg.errors.Diagnostic) -> None:
        """A commit whose wait for a standby somebody ended is answered as one that succeeded, but for a warning."""
        if notice.severity_nonlocalized == "WARNING":
            self._warning = notice.message_primary or "the server warned"

    # --- looking, numbering, sending -----------------------------------------------------------------------

    async def _write(self, wire: Wire, turns: Sequence[Turn], *, is_locked: bool) -> list[int | None]:
        """Numbers and sends; how many lines of each were written. None: there was nothing to write.

        ``is_locked``: with the parts locked before they are looked at, in two round trips.
        """
        if not turns:
            return []
        now, first = self._clock(), list[Statement]()
        if is_locked:
            first = [self._statement(LOCK, [*map(Int4, sorted({turn.part for turn in turns}))])]
            for turn in turns:
                turn.forget()
        missing = [turn for turn in turns if not turn.numbered]
        while missing:
            if asking := [turn for turn in missing if turn.wanted]:
                await self._look(wire, asking, first, commits=not is_locked)
                first = []
            for turn in missing:
                if turn.wanted is None:
                    turn.number(now)
            missing = [turn for turn in missing if not turn.numbered]
        writes = [turn.numbered.write for turn in turns if turn.numbered and turn.numbered.write]
        counts = iter(await self._send(wire, writes) if writes or is_locked else ())
        return [next(counts) if turn.numbered and turn.numbered.write else None for turn in turns]

    async def _look(self, wire: Wire, turns: list[Turn], first: list[Statement], *, commits: bool) -> None:
        """The state first: if it is the same when the lines are written, so is what was seen after it."""
        asked = [self._ask(turn) for turn in turns]
        answers = iter(await wire.run([*first, *chain.from_iterable(asked)], commits=commits))
        for _ in first:
            next(answers)
        for turn, statements in zip(turns, asked, strict=True):
            rows = next(answers).rows()
            for _ in statements[1:]:
                _learn(turn, next(answers).rows())
            turn.take(_state(rows[0]) if rows else None)

    def _ask(self, turn: Turn) -> list[Statement]:
        wanted = turn.wanted
        assert wanted is not None
        statements = [self._statement(STATE, turn.key)]
        fingerprints, seqs = [[*map(Int8, map(to_bigint, wanted.fingerprints))], [*map(Int8, wanted.seqs)]]
        if fingerprints or seqs:
            statements.append(self._statement(KNOWN, turn.key, fingerprints, seqs))
        if wanted.digests:
            statements.append(self._statement(BLOBS, turn.key, [*wanted.digests]))
        return statements

    def _statement(self, text: str, *values: object) -> Statement:
        return self._server.sql(text), values

    async def _send(self, wire: Wire, writes: Sequence[Write]) -> list[int]:
        statements: list[Statement] = []
        for write in writes:
            text, values = append_statement(write)
            statements.append((self._server.sql(text), values))
        return [answer.count for answer in await wire.run(statements)]

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
            fingerprint = from_bigint(int(str(row[0])))
            known.seqs[fingerprint] = sorted({*known.seqs.get(fingerprint, ()), int(str(row[1]))})


def _fail(waiting: Sequence[Waiting], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        error = Unavailable("the event loop ended before it was known what became of this append")
    for one in waiting:
        with suppress(asyncio.InvalidStateError):
            one.answer.set_exception(error)
