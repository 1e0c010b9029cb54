"""Live: a moment that keeps up with the log, and the two verbs that all others of a chat are made of.

Other processes may write the same chat. Whatever is appended, what they wrote before it is taken in first. Entries are folded when
they are asked for. A verb that decides something decides it about the chat as it is at that very moment, and again if
another writer was quicker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from types import NoneType
from typing import Self
from weakref import WeakMethod

from chatfold.agent.checks import check
from chatfold.agent.kept_history import KeptHistory, keep_chapters
from chatfold.agent.kept_prompt import IdleTimer, KeptPrompt
from chatfold.agent.messages import (
    EVENTS,
    Given,
    events_of,
)
from chatfold.agent.moment import Moment
from chatfold.agent.views import KEEP, MOST, PAUSE_S, Later, Opened, go_on, keep_up, open_view, put_off
from chatfold.eventlog import (
    ChatDeleted,
    Conflict,
    Durability,
    Entry,
    Event,
    Head,
    Log,
    Redacted,
    Rewound,
)


class Live(Moment):
    """The chat at its end, whichever process writes it."""

    def __init__(self, log: Log, key: str, opened: Opened, later: Later) -> None:
        super().__init__(log, key, opened, KeptPrompt(opened), KeptHistory())
        self._kept = opened.snapshot  # where the newest snapshot is, as far as we know
        self._kept_at = 0.0  # when, by the loop's clock
        self._idle = IdleTimer(WeakMethod(self.rest))
        self._head = opened.head
        self._new: list[Entry] = []  # up to the head, not folded yet: nobody has asked
        self._later = later

    # --- recording ---------------------------------------------------------------------------------------

    async def record(
        self,
        *messages: Given,
        after: int | None = None,
        id: str | None = None,
        run: str | None = None,
        keys: Sequence[str | None] = (),
        said_at: datetime | None = None,
        durability: Durability | None = None,
    ) -> list[Entry]:
        """Appends events and messages as one: all of them, durable on return, or none. Gives their entries.

        A message is an event, the dict of a provider, or the object of its SDK. ``after``: only if nothing came after this seq, else
        ``Conflict``. ``id``: recorded once, however often it is said; with other content it is ``IdConflict``. ``keys``: one for each
        event, or None: an event whose key was used before is not recorded again. ``said_at``: when it was said, if that was not now.
        ``durability``: of this append, if it is not the store's. Raises ``InvalidEvent`` for what cannot be recorded.

            await chat.record(reply.choices[0].message, id=reply.id)
        """
        check("after", after, int, NoneType, expected="a seq")
        check("said_at", said_at, datetime, NoneType, expected="a datetime")
        events = messages if all(type(one) in EVENTS for one in messages) else events_of(messages)
        entries = await self.log.append(
            self.key,
            *events,
            after=after,
            id=id,
            run=run,
            keys=keys,
            durability=durability,
            known=self._head,
            said_at=() if said_at is None else [round(said_at.timestamp() * 1000)] * len(events),
        )
        await self._take(entries)
        return entries

    # --- keeping up --------------------------------------------------------------------------------------

    @property
    def opened(self) -> Opened:
        if self._new:
            self._opened, self._new = self._opened.then(*self._new), []
        return self._opened

    @property
    def seq(self) -> int:
        """Of the last entry that is known here, without asking whether others wrote more."""
        return self._head.seq

    async def now(self) -> Moment:
        await self.refresh()
        self._idle.restart()
        return Moment(self.log, self.key, self.opened, self._prompt, self.kept_history)

    async def refresh(self) -> Self:
        """Takes in what others have written since. Whatever is asked of a chat with ``await`` does this first."""
        known = self._head
        head = await self.log.head(self.key)
        if head.seq < known.seq:
            raise ChatDeleted("the chat was deleted", chat=self.key, seq=known.seq)
        if head.seq == known.seq and head.link != known.link:
            raise self._replaced_error()
        if head.seq > self.seq:
            await self._take(await self.log.last(self.key, head.seq - self.seq, head.seq))
        return self

    async def _take(self, entries: list[Entry]) -> None:
        """Takes in these entries, and before them what others wrote in between. Folded is what is asked for."""
        new = entries if entries[0].seq > self.seq else [entry for entry in entries if entry.seq > self.seq]
        while new and new[0].seq > self.seq + 1:
            between = [entry async for entry in self.log.read(self.key, self.seq + 1, new[0].seq - 1)]
            if not between:
                raise ChatDeleted("the chat was deleted", chat=self.key, seq=self.seq)
            # Another task may have taken some of them meanwhile.
            new = [entry for entry in (*between, *new) if entry.seq > self.seq]
        if not new:
            return
        if new[0].prev != self._head.link:
            raise self._replaced_error()
        if any(type(entry.event) is Redacted for entry in new):
            await self._reopen()
            return
        if any(type(entry.event) is Rewound for entry in new):
            before = self._head
            opened = await go_on(self.log, self.key, self.opened, new)
            if self._head != before:  # another task has taken them meanwhile, and more
                await self._take(entries)
                return
            self._opened, self._new = opened, []
        else:
            self._new += new
        self._head = Head(new[-1].seq, new[-1].link)
        behind, now = self.seq - self._kept, asyncio.get_running_loop().time()
        if behind >= MOST or (behind >= KEEP and now - self._kept_at >= PAUSE_S):
            put_off(keep_up(self.log, self.key, self._kept, self.opened), self._later)
            put_off(keep_chapters(self.log, self.key, self._kept, self.opened), self._later)
            self._kept, self._kept_at = self.seq, now
        self._idle.restart()
        if self._prompt.is_due(new[-1]):
            self.keep_window()

    def keep_window(self) -> None:
        """Stores what the model sees, in the background, so that the chat opens faster the next time."""
        self._prompt.put_off(self.log, self.key, self.opened, self._kept, self._later)

    def rest(self) -> None:
        """Stores the window, and lets go of the prompt and of the entries in memory."""
        self.keep_window()
        self._prompt.let_go()
        self.kept_history.let_go()
        self._opened = self.opened.without_entries()

    def _replaced_error(self) -> ChatDeleted:
        return ChatDeleted("another chat of the same key took its place", chat=self.key, seq=self.seq)

    async def _reopen(self) -> None:
        """The history was changed: what was folded before may hold what was erased."""
        opened = await open_view(self.log, self.key, projections=self._opened.projections, later=self._later)
        if opened.seq >= self.seq:  # else another task has opened it since, and knows more
            self._opened, self._kept, self._head, self._new = opened, opened.snapshot, opened.head, []
            self._prompt = KeptPrompt(opened)
            self.kept_history.let_go()

    async def append_if(
        self,
        events: Callable[[Moment], Iterable[Event] | Awaitable[Iterable[Event]]],
        *,
        run: str | None = None,
    ) -> list[Entry]:
        """Appends what ``events`` says about the chat as it is now; it is asked again if another writer was quicker."""
        while True:
            now = await self.now()
            answer = events(now)
            wanted = tuple(await answer if isinstance(answer, Awaitable) else answer)
            if not wanted:
                return []
            try:
                return await self.record(*wanted, after=now.seq, run=run)
            except Conflict:
                continue
