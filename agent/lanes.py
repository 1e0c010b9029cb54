"""Lanes: one run at a time in a chat, chats side by side up to a limit, first come, first served."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Lanes:
    def __init__(self, limit: int) -> None:
        self._places = asyncio.Semaphore(limit)  # wakes in the order of asking
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._waiting: dict[Hashable, int] = {}
        self._standing = 0  # chats that wait for a place

    @property
    def is_crowded(self) -> bool:
        """Does another chat wait for a place?"""
        return self._standing > 0

    def is_awaited(self, key: Hashable) -> bool:
        """Is anybody in this lane, or waiting for it?"""
        return key in self._waiting

    @asynccontextmanager
    async def of(self, key: Hashable) -> AsyncIterator[None]:
        """Inside, nobody else is in this chat's lane. A lane that nobody is in, or waits for, is forgotten."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            async with lock:
                self._standing += 1
                try:
                    await self._places.acquire()
                finally:
                    self._standing -= 1
                try:
                    yield
                finally:
                    self._places.release()
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._locks[key]
