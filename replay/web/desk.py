"""The desk: the chats that are being looked at, each with its cursor and its columns. Several pages share them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from chatfold.agent import Chat, Moment, Store
from chatfold.eventlog import ChatDeleted, NoSuchChat
from chatfold.projections import contexts, lineage
from chatfold.replay.inspect.cursor import Replay
from chatfold.replay.web.answers import Sight, sight
from chatfold.replay.web.columns import Columns, Kept

_OPEN = 8  # chats that stay open, the last ones looked at
_STORE_AFTER = 2_000  # entries that are new to a file of columns before it is written again


class OpenChat:
    """One chat. ``columns`` grow by ``read_on``; whoever moves the cursor holds ``lock``."""

    def __init__(self, chat: Chat, kept: Kept) -> None:
        self.key = chat.key
        self.log = chat.log
        self.replay = Replay(chat)
        self.lock = asyncio.Lock()
        self.columns = Columns()
        self._kept = kept
        self._reading = asyncio.Lock()
        self._epoch: str | None = None  # of erasures, when the columns were begun
        self._sight: tuple[Any, Sight] | None = None
        self._stored = 0

    @property
    def end(self) -> int:
        return self.replay.end

    async def refresh(self) -> int:
        """Takes in what was written since; gives where the chat ends."""
        async with self.lock:
            await self.replay.refresh()
            return self.replay.end

    @asynccontextmanager
    async def at(self, seq: int) -> AsyncIterator[Moment]:
        """The chat as it was after that entry. Takes in what is new if it is beyond the end we know."""
        async with self.lock:
            if seq > self.replay.end:
                await self.replay.refresh()
            await self.replay.seek(seq)
            yield await self.replay.now()

    async def sight(self) -> Sight:
        """What was in sight when, made again if it changed: what is only appended is in sight as the page knows it."""
        now = await self.replay.chat.now()
        known = (
            now[contexts].changed,
            now[lineage].checkpoints,
            await self.log.storage.erasure_epoch(self.key),
        )
        if self._sight is None or self._sight[0] != known:
            self._sight = known, await sight(now)
        return self._sight[1]

    async def read_on(self, upto: int | None = None, seconds: float = 0.25) -> Columns:
        """Reads into the columns what is not in them, for about so long."""
        async with self._reading:
            if self._epoch is None:
                await self._begin()
            await self._check_erasures()
            end = await self._end(upto)
            loop = asyncio.get_running_loop()
            until = loop.time() + seconds
            if len(self.columns) < end:
                async for page in self.log.pages(self.key, len(self.columns) + 1, end):
                    if not self.columns.take(page):
                        self._epoch = None
                    await asyncio.sleep(0)
                    if loop.time() > until:
                        break
            if (
                self._epoch is not None
                and len(self.columns) - self._stored >= _STORE_AFTER
                and len(self.columns) == end
            ):
                self._stored = len(self.columns)
                await asyncio.to_thread(self._kept.store, self.key, self.columns, self._epoch)
            return self.columns

    async def _end(self, upto: int | None) -> int:
        if upto is not None and upto <= self.end:
            return upto
        return await self.refresh()

    async def _begin(self) -> None:
        self._epoch = await self.log.storage.erasure_epoch(self.key)
        found = await asyncio.to_thread(self._kept.load, self.key, self._epoch)
        if found is not None and await self._is_ours(found):
            self.columns, self._stored = found, len(found)
        else:
            self.columns, self._stored = Columns(), 0

    async def _is_ours(self, found: Columns) -> bool:
        if not 0 < found.head.seq <= self.end:
            return False
        last = await self.log.last(self.key, 1, found.head.seq)
        return bool(last) and last[0].link == found.head.link

    async def _check_erasures(self) -> None:
        epoch = await self.log.storage.erasure_epoch(self.key)
        if epoch != self._epoch:
            self._epoch, self.columns, self._stored = epoch, Columns(), 0


class Desk:
    """``name``: of the store, for people. ``only``: the key of the one chat that there is."""

    def __init__(self, store: Store, place: str, name: str, *, only: str = "") -> None:
        self.store = store
        self.name = name
        self.only = only
        self._kept = Kept(place)
        self._open: dict[str, OpenChat] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    async def chat(self, key: str) -> OpenChat:
        """Raises ``NoSuchChat``."""
        async with self._opening.setdefault(key, asyncio.Lock()):
            found = self._open.pop(key, None)
            if found is None:
                chat = await self.store.chat(key)
                if not chat.seq:
                    raise NoSuchChat("there is no such chat", chat=key)
                found = OpenChat(chat, self._kept)
            self._open[key] = found
        while len(self._open) > _OPEN:
            del self._open[next(iter(self._open))]
        if len(self._opening) > 4 * _OPEN:
            self._opening = {name: lock for name, lock in self._opening.items() if lock.locked()}
        return found

    def forget(self, key: str) -> None:
        """It was deleted, or another chat took its place."""
        self._open.pop(key, None)


GONE = (ChatDeleted, NoSuchChat)
