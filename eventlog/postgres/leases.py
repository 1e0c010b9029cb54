"""Leases: a row says who has a chat, until when, and which epoch that is. An append compares the epoch.

The server's clock decides when a lease has passed. Whoever has one renews it; one who cannot, because the server is gone or because
his own loop stood still, may lose it, and then his appends are refused. A failover takes no lease: the row is replicated.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from chatfold.eventlog.errors import ChatfoldError, NoSuchChat
from chatfold.eventlog.postgres.news import LOOK, News
from chatfold.eventlog.postgres.server import Server
from chatfold.eventlog.postgres.turn import new_id
from chatfold.eventlog.postgres.writer import encode_key

_TAKE = """UPDATE @chat SET lease = %b, lease_until = clock_timestamp() + %b * interval '1 second'
    WHERE key = %b AND (lease IN ('', %b) OR lease_until < clock_timestamp()) RETURNING 1"""
_RENEW = "UPDATE @chat SET lease_until = clock_timestamp() + %b * interval '1 second' WHERE key = %b AND lease = %b RETURNING 1"
_GIVE_BACK = "UPDATE @chat SET lease = '', lease_until = NULL WHERE key = %b AND lease = %b RETURNING 1"
_EXISTS = "SELECT EXISTS (SELECT FROM @chat WHERE key = %b)"


class Leases:
    """``seconds``: how long one who has died keeps the others out."""

    def __init__(self, server: Server, news: News, seconds: float) -> None:
        self._server = server
        self._news = news
        self._seconds = seconds

    @asynccontextmanager
    async def lease(self, chat: str) -> AsyncIterator[str]:
        await self._server.open()
        key, epoch = encode_key(chat), f"{new_id():016x}"
        await self._take(chat, key, epoch)
        renewing = asyncio.create_task(self._renew(key, epoch))
        try:
            yield epoch
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
            with suppress(ChatfoldError):  # then it passes by itself
                if await asyncio.shield(self._server.rows(_GIVE_BACK, (key, epoch))):
                    self._news.tell([key])

    async def _take(self, chat: str, key: bytes, epoch: str) -> None:
        while True:
            async with self._news.watch(key) as changed:
                if await self._server.rows(_TAKE, (epoch, self._seconds, key, epoch)):
                    return
                if not (await self._server.rows(_EXISTS, (key,)))[0][0]:
                    raise NoSuchChat("no such chat", chat=chat)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await changed.wait()

    async def _renew(self, key: bytes, epoch: str) -> None:
        while True:
            await asyncio.sleep(self._seconds / 3)
            with suppress(ChatfoldError):
                if not await self._server.rows(_RENEW, (self._seconds, key, epoch)):
                    return  # another has it: the next append is told
