"""A life: a process that does, at random, everything that changes a store, and tells each deed before and after it.

    begin NUMBER VERB CHAT …      it is about to happen
    done NUMBER …                 it was acknowledged
    failed …                      it raised: what no life should have to tell

Whoever listens can say at any moment what must be in the store, and what may be: see ``account``.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from chatfold.agent import Chat, Policy, Store, assistant, user
from chatfold.agent.views import keep_view
from chatfold.eventlog import Durability, Event, FileStorage, MessageAdded, Noted
from chatfold.projections import fold, start

Tell = Callable[..., None]
VERBS = {
    "say": 50,
    "burst": 10,
    "pour": 4,
    "snapshot": 7,
    "compact": 6,
    "fork": 6,
    "redact": 5,
    "delete": 4,
    "look": 3,
    "list": 2,
    "reopen": 2,
}
"""How often each is done."""
_SIZES = (40, 40, 300, 300, 3_000, 3_000, 20_000, 200_000)
_POURED = 900_000  # nearly a whole line: it takes so long to write that a kill may well come in the middle
_CHATS = range(3, 8)  # so many there are, more or less


@lru_cache(maxsize=4096)
def spoken(name: str) -> tuple[Event, ...]:
    """The batch with this id: a message, and notes of 40 bytes to 200 kB, rarely one that is too large for a line."""
    chance = random.Random(name)
    say = user if chance.random() < 0.5 else assistant
    if name.endswith("pour"):
        return (Noted(name, chance.randbytes(_POURED // 2).hex()),)
    sizes = [chance.choice(_SIZES) for _ in range(chance.choice([0, 0, 1, 1, 2, 3]))]
    if chance.random() < 0.003:
        sizes.append(1 << 20)
    notes = [
        Noted(name, {"at": at, "body": chance.randbytes(size // 2).hex()}) for at, size in enumerate(sizes)
    ]
    return say(f"{name}: " + chance.randbytes(20).hex()), *notes


class Life:
    """``name``: of this one and nobody else, so that what it says is its own."""

    def __init__(
        self, root: Path, name: str, tell: Tell, durability: Durability = "full", segment_bytes: int = 0
    ) -> None:
        self.chance = random.Random(name)
        self._segment_bytes = segment_bytes or self.chance.choice([1_500, 6_000, 100_000, 400_000])
        self._root = root
        self._name = name
        self._tell = tell
        self._durability = durability
        self._deeds = 0
        self._chats: dict[str, Chat | None] = {}  # None: not opened yet

    async def open(self) -> None:
        storage = FileStorage(self._root, segment_bytes=self._segment_bytes, durability=self._durability)
        self.store = Store(storage)
        self._chats = {key: None async for key in self.store.log.chats()}

    async def live(self) -> NoReturn:
        await self.open()
        while True:
            await self.do(self.chance.choices([*VERBS], [*VERBS.values()])[0])

    async def do(self, verb: str) -> None:
        if verb == "delete" and len(self._chats) <= _CHATS.start:
            verb = "say"
        await getattr(self, f"_{verb}")()

    def _begin(self, *words: object) -> Tell:
        """Tells what is about to happen; to be called when it has happened."""
        self._deeds += 1
        number = f"{self._name}.{self._deeds}"
        self._tell("begin", number, *words)
        return lambda *results: self._tell("done", number, *results)

    async def _any(self, *, new: bool = True) -> Chat:
        """One of the chats; a new one if there are few, unless it has to have something in it."""
        if len(self._chats) < _CHATS.start and (new or not self._chats):
            self._deeds += 1
            key = f"c{self._name}.{self._deeds}"
            chat = await self._opened(key)
            if not new:
                await self._record(chat)
            return chat
        return await self._opened(self.chance.choice(sorted(self._chats)))

    async def _opened(self, key: str) -> Chat:
        chat = self._chats.get(key) or await self.store.chat(key)
        self._chats[key] = chat
        return chat

    async def _record(self, chat: Chat, kind: str = "") -> None:
        name = f"{self._name}.{self._deeds + 1}{kind}"
        words = spoken(name)
        done = self._begin("say", chat.key, name)
        entries = await chat.record(*words, id=name)
        done(entries[0].seq, len(entries))

    # --- the deeds ---------------------------------------------------------------------------------------

    async def _say(self) -> None:
        await self._record(await self._any())

    async def _burst(self) -> None:
        """Several at once: they share a sync."""
        chat = await self._any()
        await asyncio.gather(*(self._record(chat) for _ in range(self.chance.randint(2, 6))))

    async def _pour(self) -> None:
        await self._record(await self._any(), "pour")

    async def _snapshot(self) -> None:
        chat = await self._any(new=False)
        done = self._begin("snapshot", chat.key)
        await keep_view(chat.log, chat.key, (await chat.now()).view)
        done()

    async def _compact(self) -> None:
        await self._any(new=False)
        chat = max([await self._opened(key) for key in sorted(self._chats)], key=lambda chat: chat.seq)
        done = self._begin("compact", chat.key)
        entries = await chat.compact(Policy(keep=2))
        done(entries[0].seq if entries else 0, len(entries))

    async def _fork(self) -> None:
        if len(self._chats) >= _CHATS.stop:
            await self._delete()
        chat = await self._any(new=False)
        new, at = f"f{self._name}.{self._deeds}", self.chance.choice([seq async for seq in _ends(chat)])
        done = self._begin("fork", chat.key, new, at)
        self._chats[new] = await chat.fork(new, at)
        done()

    async def _redact(self) -> None:
        chat = await self._any(new=False)
        said = [
            entry.seq
            async for entry in chat.entries()
            if isinstance(entry.event, MessageAdded) and not entry.was
        ]
        if said:
            seq = self.chance.choice(said)
            done = self._begin("redact", chat.key, seq)
            await chat.redact(seq)
            done()

    async def _delete(self) -> None:
        chat = await self._any(new=False)
        del self._chats[chat.key]
        done = self._begin("delete", chat.key)
        await self.store.delete(chat.key)
        done()

    async def _look(self) -> None:
        """Opened by its snapshots, a chat is what it is when all of it is folded."""
        key = (await self._any(new=False)).key
        done = self._begin("look", key)
        view = (await self.store.chat(key)).view
        entries = [entry async for entry in self.store.log.read(key)]
        whole = fold(start(view.projections), entries)
        assert (view.head, view.states) == (whole.head, whole.states), f"{key} is not the fold of its log"
        done()

    async def _list(self) -> None:
        done = self._begin("list", "-")
        listed = {one.key async for one in self.store.chats() if one.error is None}
        assert listed >= {key for key, chat in self._chats.items() if chat and chat.seq}, (
            "a chat is not listed"
        )
        done()

    async def _reopen(self) -> None:
        done = self._begin("reopen", "-")
        await self.store.close()
        await self.open()
        done()

    async def end(self) -> None:
        """Every chat can be written on, is listed, and is the fold of its log."""
        await self.open()
        for key in list(self._chats):
            await self._record(await self._opened(key))
        await self._list()
        await self._look()
        await self.store.close()


async def _ends(chat: Chat) -> AsyncIterator[int]:
    """Where batches end: whoever judges a log wants whole ones."""
    async for entry in chat.entries():
        index, size = (entry.batch or "1/1").split("/")
        if index == size:
            yield entry.seq
