"""News of chats: a hint after each commit, and a look every second, in case that a hint was lost.

A hint is a NOTIFY of its own, never part of an append: inside one it would make all commits of the database wait for each other.
Hints of 10 ms share one. A lost one costs a second; nothing else depends on them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg
from xxhash import xxh3_64_hexdigest

from chatfold.eventlog.postgres.server import Retries, Server

LOOK = 1.0
ALL = b""  # no chat has this key: news of any chat
_NO_CHAT = b"\xff"  # no chat's key begins with it: it is not UTF-8
_TOGETHER = 0.01
_MOST = 400  # names in a hint, which has less than 8000 bytes
_TELL = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%b, %b)"
"""A hint commits as an append does, and need not wait for the disk, nor make an append wait for it."""


def answer_key(key: bytes) -> bytes:
    """What news of the answer that is coming in a chat are told under: who follows the chat has nothing of them."""
    return _NO_CHAT + key


def _name(key: bytes) -> str:
    return ("~" if key.startswith(_NO_CHAT) else "") + xxh3_64_hexdigest(key)


class News:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._channel = f"chatfold_{xxh3_64_hexdigest(server.place.schema.encode())}"
        self._changed: dict[str, asyncio.Event] = {}
        self._users: dict[str, int] = {}
        self._told: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()

    def tell(self, keys: list[bytes]) -> None:
        """Says, soon, that these have changed."""
        names = [*map(_name, keys)]
        self._wake(names)
        self._told.update(names)
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        try:
            while self._told:
                names, self._told = [*self._told], set()
                for start in range(0, len(names), _MOST):
                    payload = ",".join(names[start : start + _MOST])
                    with suppress(Exception):  # a hint: whoever waits will look
                        await self._server.rows(_TELL, (self._channel, payload))
                await asyncio.sleep(_TOGETHER)
        finally:
            self._telling = None

    @asynccontextmanager
    async def watch(self, key: bytes) -> AsyncIterator[asyncio.Event]:
        """Inside, the event is set when there was a hint of this chat."""
        await self._listen()
        name = _name(key)
        self._users[name] = self._users.get(name, 0) + 1
        try:
            yield self._changed.setdefault(name, asyncio.Event())
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name]
                self._changed.pop(name, None)

    async def _listen(self) -> None:
        if self._server.place.pooler == "transaction":
            return  # no hint would come: there is the look
        if self._listening is None:
            self._listening = asyncio.create_task(self._hear())
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK):
                await self._is_listening.wait()

    async def _hear(self) -> None:
        """On a connection of its own, a new one whenever it is lost."""
        while True:
            retries = Retries(3600)
            with suppress(psycopg.Error, OSError):
                async with await self._server.connect() as connection:
                    await connection.execute(f"LISTEN {self._channel}".encode())
                    self._is_listening.set()
                    self._wake([*self._changed])
                    async for hint in connection.notifies():
                        self._wake(hint.payload.split(","))
            self._is_listening.clear()
            await retries.wait()

    def _wake(self, names: list[str]) -> None:
        if not all(name.startswith("~") for name in names):
            names = [*names, _name(ALL)]
        for name in names:
            if event := self._changed.pop(name, None):
                event.set()

    async def close(self) -> None:
        if self._telling is not None:
            await asyncio.wait([self._telling])
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
