"""Store: many chats in one place.

async with Store("./chats") as store:               # or Store.memory(), or Store("postgresql://host/db?schema=bots")
    chat = await store.chat("telegram-chat-42")     # nothing on disk until the first event
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

from chatfold.agent.chat import Chat
from chatfold.agent.exporting import read_chunks
from chatfold.agent.listing import Listed, list_chats
from chatfold.agent.opening import Later, open_view
from chatfold.eventlog import ChatfoldError, Durability, Log, MemoryStorage, Storage, storage_of
from chatfold.eventlog.storage import Change
from chatfold.projections import STANDARD, Projection


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
            place = storage_of(place, durability=durability, read_only=read_only)
        self.log = Log(place)
        self._projections = (*STANDARD, *projections)
        self._later: Later = set()  # snapshots that are being taken

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
        opened = await open_view(self.log, key, projections=self._projections, later=self._later)
        return Chat(self.log, key, opened, self._later)

    def chats(self, prefix: str = "", *, where: Mapping[str, str] | None = None) -> AsyncIterator[Listed]:
        """The chats: titles, counts, last activity. Of those that did not change since the last time nothing is read.

        ``prefix``: of the key. ``where``: words that a chat must have, as ``{"user": "u7"}``: those of ``ChatStarted.meta``.
        A chat that cannot be read is listed with its error, unless words are asked for.
        """
        return list_chats(self.log, self._projections, prefix, where)

    def follow(self, since: str = "") -> AsyncGenerator[Change]:
        """The chats that change, in any process, each at least once after its last change. ``since``: the ``mark`` of a change, to go
        on after it; without it, all chats come first.
        """
        return self.log.follow_chats(since)

    async def delete(self, key: str) -> None:
        """The whole chat, for good. Its forks stay."""
        await self.log.delete(key)

    async def import_(self, source: Path | str | Chat, key: str) -> Chat:
        """An exported chat, from a file or from any other store, as the chat of this key: entry for entry the same."""
        try:
            async with aclosing(_pieces(source)) as pieces:  # what is refused half-way leaves no file open
                await self.log.storage.import_chat(key, pieces)
        except ChatfoldError as error:
            error.chat = error.chat or key
            error.path = error.path or (None if isinstance(source, Chat) else Path(source))
            raise
        return await self.chat(key)


def _pieces(source: Path | str | Chat) -> AsyncGenerator[bytes]:
    return source.exported() if isinstance(source, Chat) else read_chunks(source)
