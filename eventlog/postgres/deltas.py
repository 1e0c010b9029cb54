"""Answers that are coming, for all processes: rows of two unlogged tables, gone when the answer stands.

The process that passes the pieces keeps them in memory and writes what is new in one statement at a time: whoever passes a piece
never waits for the server. Its own followers read its memory. Those of other processes read the rows, woken by the same hints as
followers of chats. An answer says until when its process lives; after that it has ended, whatever became of the process.

No append touches these tables, they are in no write-ahead log, and a server that crashes forgets them.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from psycopg.types.numeric import Int8

from chatfold.eventlog.errors import ChatfoldError
from chatfold.eventlog.postgres.news import LOOK, News, answer_key
from chatfold.eventlog.postgres.server import Server
from chatfold.eventlog.postgres.turn import new_id
from chatfold.eventlog.postgres.writer import encode_key

_FORGET = """WITH gone AS (DELETE FROM @answer WHERE key = %b OR until < clock_timestamp() RETURNING id),
    pieces AS (DELETE FROM @piece WHERE answer IN (SELECT id FROM gone))
    SELECT 1"""
_ADD = """WITH a AS (INSERT INTO @answer (key, id, until) VALUES (%b, %b, clock_timestamp() + %b * interval '1 second')
    ON CONFLICT (key) DO UPDATE SET id = excluded.id, until = excluded.until RETURNING id)
    INSERT INTO @piece (answer, number, data)
    SELECT a.id, %b + u.k, u.d FROM a, unnest(%b::bytea[]) WITH ORDINALITY AS u(d, k) ON CONFLICT DO NOTHING"""
_END = """WITH a AS (DELETE FROM @answer WHERE key = %b AND id = %b)
    DELETE FROM @piece WHERE answer = %b"""
_FOLLOW = """SELECT a.id, p.number, p.data FROM @answer a LEFT JOIN @piece p ON p.answer = a.id AND p.number > %b
    WHERE a.key = %b AND a.until > clock_timestamp() ORDER BY p.number LIMIT 1000"""


class Passing:
    """An answer that this process passes on."""

    def __init__(self, server: Server, news: News, chat: str, seconds: float) -> None:
        self.pieces: list[bytes] = []
        self.has_ended = False
        self._server = server
        self._news = news
        self._key = encode_key(chat)
        self._id = Int8(new_id())
        self._seconds = seconds
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._write())

    def add(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self._wake()

    async def end(self) -> None:
        """Returns when no other process finds a piece of it, unless the server does not answer."""
        self.has_ended = True
        self._wake()
        await asyncio.wait([self._task])

    async def follow(self) -> AsyncGenerator[bytes]:
        seen = 0
        while seen < len(self.pieces) or not self.has_ended:
            if seen < len(self.pieces):
                yield self.pieces[seen]
                seen += 1
            else:
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _write(self) -> None:
        """What is new, and again and again that we live. What could not be written is written the next time."""
        time = asyncio.get_running_loop().time
        written, until = 0, 0.0
        while not self.has_ended:
            changed, began = self._changed, time()
            with suppress(ChatfoldError):
                if began >= until:  # others may think that we are dead, and have removed what was there
                    written = 0
                    await self._server.rows(_FORGET, (self._key,))
                pieces = self.pieces[written:]
                await self._server.rows(_ADD, (self._key, self._id, self._seconds, Int8(written), pieces))
                written, until = written + len(pieces), began + self._seconds
                self._news.tell([answer_key(self._key)])
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds / 3):
                    await changed.wait()
        with suppress(ChatfoldError):  # then it passes by itself
            await self._server.rows(_END, (self._key, self._id, self._id))
            self._news.tell([answer_key(self._key)])


class Answers:
    """``seconds``: how long an answer of one who has died seems to be coming."""

    def __init__(self, server: Server, news: News, seconds: float) -> None:
        self._server = server
        self._news = news
        self._seconds = seconds
        self._passing: dict[str, Passing] = {}

    async def pass_delta(self, chat: str, data: bytes) -> None:
        await self._server.open()
        if chat not in self._passing:
            self._passing[chat] = Passing(self._server, self._news, chat, self._seconds)
        self._passing[chat].add(data)

    async def end(self, chat: str) -> None:
        if passing := self._passing.pop(chat, None):
            await passing.end()

    async def follow(self, chat: str) -> AsyncGenerator[bytes]:
        if passing := self._passing.get(chat):
            async for piece in passing.follow():
                yield piece
            return
        key, answer, seen = encode_key(chat), 0, 0
        while True:
            async with self._news.watch(answer_key(key)) as changed:
                rows = await self._server.rows(_FOLLOW, (Int8(seen), key))
                if not rows or rows[0][0] != (answer or rows[0][0]):
                    return
                answer = rows[0][0]
                for _, number, data in rows:
                    if number is not None:
                        yield data
                        seen = number
                if rows[0][1] is None:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK):
                            await changed.wait()

    async def forget(self, chat: str) -> None:
        """What is left of this chat's answers, and of all whose process has died."""
        await self._server.rows(_FORGET, (encode_key(chat),))

    async def close(self) -> None:
        for chat in [*self._passing]:
            await self.end(chat)
