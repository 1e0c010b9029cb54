"""Lanes: one run at a time in a chat, chats side by side up to a limit, first come, first served.

A run that a tool of another run waits for takes no place of its own: its outer run has one and does nothing meanwhile. Where it
would wait for itself, in a circle of chats, it is refused.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from chatfold.eventlog import ChatfoldError


class WaitsForItself(ChatfoldError):
    next_step = "Use agent.submit(…), which does not wait for the answer"


class Lanes:
    def __init__(self, limit: int) -> None:
        self._places = asyncio.Semaphore(limit)  # wakes in the order of asking
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._waiting: dict[Hashable, int] = {}
        self._standing = 0  # chats that wait for a place
        self._inner: dict[Hashable, list[Hashable]] = {}  # the lanes that the tools of a lane wait for

    @property
    def is_crowded(self) -> bool:
        """Does another chat wait for a place?"""
        return self._standing > 0

    def is_awaited(self, key: Hashable) -> bool:
        """Is anybody in this lane, or waiting for it?"""
        return key in self._waiting

    @asynccontextmanager
    async def of(self, key: Hashable, outer: Hashable | None = None) -> AsyncIterator[None]:
        """Inside, nobody else is in this chat's lane. A lane that nobody is in, or waits for, is forgotten.

        ``outer``: the lane of the run whose tool waits for this one.
        """
        if outer is not None:
            self._inner.setdefault(outer, []).append(key)
        try:
            async with self._turn(key), self._place(needed=outer is None):
                yield
        finally:
            if outer is not None:
                self._inner[outer].remove(key)
                if not self._inner[outer]:
                    del self._inner[outer]

    def check(self, key: Hashable, outer: Hashable) -> None:
        """WaitsForItself if a tool in the lane ``outer`` must not wait for the lane ``key``."""
        seen, waiting = set[Hashable](), [key]
        while waiting:
            lane = waiting.pop()
            if lane == outer:
                raise WaitsForItself("a tool cannot wait for an answer in a chat that waits for the tool")
            if lane not in seen:
                seen.add(lane)
                waiting += self._inner.get(lane, ())

    @asynccontextmanager
    async def _turn(self, key: Hashable) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._locks[key]

    @asynccontextmanager
    async def _place(self, *, needed: bool) -> AsyncIterator[None]:
        if not needed:
            yield
            return
        self._standing += 1
        try:
            await self._places.acquire()
        finally:
            self._standing -= 1
        try:
            yield
        finally:
            self._places.release()
