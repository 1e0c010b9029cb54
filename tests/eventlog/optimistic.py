"""A storage of several clients of one place, as a database has them: it numbers first, and then compares and sets."""

import asyncio
from collections.abc import Awaitable, Callable

from chatfold.eventlog import Durability, Entry, LeaseLost, MemoryStorage, Storage
from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.keys import folder_name
from chatfold.eventlog.memory import _Chat
from chatfold.testing.conformance import Backend


class Optimistic(MemoryStorage):
    between: Callable[[], Awaitable[object]] | None = None
    """What happens once, when an append was numbered and is not written yet."""

    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:
        folder_name(request.chat)
        self._check_open(request.chat)
        while True:
            chat = self._chats.get(request.chat) or _Chat()
            if request.lease and request.lease != chat.lease:
                raise LeaseLost("the lease has passed", chat=request.chat)
            before = self.state(request.chat)
            batch = self._number(request, chat)
            await self._pause()
            if self.state(request.chat) == before:
                self._write(request, batch, self._chats.get(request.chat) or chat)
                return batch.entries

    def state(self, key: str) -> object:
        """What an append compares."""
        chat = self._chats.get(key)
        return (chat.head, chat.erasures, chat.lease) if chat else None

    async def _pause(self) -> None:
        between, self.between = self.between, None
        if between:
            await between()
        else:
            await asyncio.sleep(0)


def place_of(kind: type[Optimistic]) -> type[Backend]:
    class Place(Backend):
        can_interrupt = True

        def __init__(self) -> None:
            self.chats = kind()._chats

        def open(self, clock: Callable[[], int]) -> Storage:
            storage = kind(clock=clock)
            storage._chats = self.chats
            return storage

        def interrupt(self, storage: Storage, work: Callable[[], Awaitable[object]]) -> None:
            assert isinstance(storage, Optimistic)
            storage.between = work

    return Place
