"""Replay: a cursor over one recorded chat. Wherever it stands, everything a chat can show is shown as it was there.

    async with replaying("./chats", "lexer-bug") as replay:     # a store, a chat's folder, an export, or a Store
        await replay.seek("c2^")                                # any point of the address grammar
        replay[usage].tokens                                    # any projection, your own included
        await replay.messages("openai")                         # what the model would have been sent
        while await replay.step():                              # entry by entry; step(-1) goes back
            print(replay.seq, await replay.entry())

Nothing is written, no lock is taken, no model and no tool can be reached from here: it only folds. It keeps some of the views
it came by, so that stepping costs what lies between two of them and not the history.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from chatfold.agent import Chat, Moment, Store
from chatfold.agent.views import Opened, fold_on, open_view
from chatfold.eventlog import Entry, Redacted
from chatfold.projections import Projection, View
from chatfold.replay.inspect.address import Point, point
from chatfold.replay.inspect.places import LAST, find_chat, open_place
from chatfold.replay.inspect.points import seq_of
from chatfold.replay.inspect.sizes import Chart, Sizes

_APART = 256  # entries between two views that are kept
_KEPT = 64  # of them
_RECENT = 2048  # entries known with the view, so that messages need no reading


@asynccontextmanager
async def replaying(
    place: Path | str | Store, chat: str = "", *, projections: Sequence[Projection[Any]] = ()
) -> AsyncIterator["Replay"]:
    """``chat``: as in an address; not needed where the place is one chat. The cursor stands at the end."""
    async with open_place(place, projections=projections) as (store, key):
        found = await store.chat(key) if key else await find_chat(store, chat or LAST)
        yield Replay(found)


class Replay(Moment):
    """A moment that moves: a cursor over the entries of a chat, which begins at its end.

    replay = Replay(chat)
    await replay.seek("@t3")        # any point of the address grammar
    await replay.step(-1)
    replay.seq, await replay.messages("openai")
    """

    def __init__(self, chat: Chat) -> None:
        super().__init__(chat.log, chat.key, chat.opened, history=chat.kept_history)
        self.chat = chat  # as it was when the replay began, unless it is refreshed
        self._kept: dict[int, View] = {}
        self._sizes = Sizes()

    async def now(self) -> Moment:
        """What stays when the cursor moves on."""
        return Moment(self.log, self.key, self._opened, history=self.kept_history)

    @property
    def end(self) -> int:
        """The seq of the last entry."""
        return self.chat.seq

    async def entry(self) -> Entry | None:
        """The entry the cursor stands on; None before the first."""
        return (await self.log.last(self.key, 1, self.seq))[0] if self.seq else None

    async def seek(self, to: int | str | Point) -> "Replay":
        """To an entry, by its seq or by any point of the address grammar. Raises ``NoSuchPoint``."""
        if not isinstance(to, int):
            to = await seq_of(self.chat, point(to) if isinstance(to, str) else to)
        elif not 0 <= to <= self.end:
            await self.refresh()  # it may have been written meanwhile
            await seq_of(self.chat, Point("seq", to))  # says what there is instead
        if to != self.seq:
            await self._go(to)
        return self

    async def step(self, by: int = 1) -> bool:
        """So many entries on, or back; False if there was no way to go."""
        to = min(max(self.seq + by, 0), self.end)
        moved = to != self.seq
        await self.seek(to)
        return moved

    async def refresh(self) -> bool:
        """Takes in what was written since; whether there was anything. The cursor stays where it is."""
        before = self.end
        await self.chat.refresh()
        new = self.log.read(self.key, before + 1, self.end)
        if any([isinstance(entry.event, Redacted) async for entry in new]):
            self._kept.clear()  # they may hold what was erased
            self._sizes = Sizes()
            self._opened = await self._open(self.seq)
        return self.end > before

    async def follow(self) -> AsyncIterator[int]:
        """The new end, each time something was written, by any process. The cursor stays where it is."""
        async for _ in self.chat.moments(self.end):
            if await self.refresh():
                yield self.end

    async def chart(self, width: int, *, first: int = 1, last: int | None = None) -> Chart:
        """The size of the context over the chat, or a part of it. What was read for it is kept; only new entries are read again."""
        now = await self.chat.now()
        await self._sizes.read_on(now)
        return self._sizes.chart(await now.history(), width, first=first, last=last)

    async def _go(self, to: int) -> None:
        near = max((seq for seq in (*self._kept, self.seq) if seq <= to), default=-1)
        if near < 0 or to - near > 2 * _APART:
            # Begin a little earlier: who looks at a point often steps back from it.
            start = await self._open(max(0, to - _APART))
            self._keep(start.view, always=True)
        else:
            start = self._opened if near == self.seq else Opened(self._kept[near], [])
        view, recent = start.view, start.recent
        async for page in self.log.pages(self.key, view.seq + 1, to):
            for entry in page:
                view = await fold_on(self.log, self.key, view, (entry,))
                self._keep(view)
            recent = [*recent, *page][-_RECENT:]
        self._opened = Opened(view, recent)
        self._keep(view, always=True)

    async def _open(self, seq: int) -> Opened:
        return await open_view(self.log, self.key, at=seq, projections=self.view.projections)

    def _keep(self, view: View, *, always: bool = False) -> None:
        if always or view.seq % _APART == 0:
            self._kept.pop(view.seq, None)
            self._kept[view.seq] = view
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
