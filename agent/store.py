"""Store: many chats in one place.

async with Store("./chats") as store:               # or Store.memory()
    chat = await store.chat("telegram-chat-42")     # nothing on disk until the first event
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from agent.chat import Chat
from agent.opening import open_view
from eventlog import Durability, FileStorage, Log, MemoryStorage, Storage
from projections import STANDARD, Outline, Projection, outline


class Listed(msgspec.Struct, frozen=True):
    """A chat as a list shows it."""

    key: str
    outline: Outline


class Store:
    """``projections``: your own, folded in every chat next to the standard ones."""

    def __init__(
        self,
        place: Path | str | Storage,
        *,
        projections: Sequence[Projection[Any]] = (),
        durability: Durability = "full",
        read_only: bool = False,
    ) -> None:
        if isinstance(place, Path | str):
            place = FileStorage(place, durability=durability, read_only=read_only)
        self.log = Log(place)
        self._projections = (*STANDARD, *projections)
        self._later: set[asyncio.Task[None]] = set()  # snapshots that are being taken

    @classmethod
    def memory(cls, *, projections: Sequence[Projection[Any]] = ()) -> Self:
        """For tests and scratch work: gone when the process ends."""
        return cls(MemoryStorage(), projections=projections)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await asyncio.gather(*self._later)
        await self.log.storage.close()

    async def chat(self, key: str) -> Chat:
        """The chat of this key, as it is now. There need not be one yet."""
        opened = await open_view(self.log, key, projections=self._projections)
        return Chat(self.log, key, opened, self._later)

    async def chats(self) -> AsyncIterator[Listed]:
        """All chats, by key. Of a long one only its newest snapshot and its end are read."""
        async for key in self.log.chats():
            opened = await open_view(self.log, key, projections=self._projections)
            yield Listed(key, opened.view[outline])

    async def delete(self, key: str) -> None:
        await self.log.delete(key)
