"""A log that can only become what was recorded: whatever a run appends is compared with what it appended then.

``Recording`` is the storage of a rehearsal. What the run itself writes is compared, field by field, and then appended as it
was recorded, with its time. What others wrote in between, and what came of tools, is put where it was: a run that decides
about the chat is told of a conflict, as it was then. What answers for the model, the tools and chance asks here what is next.

Where the run does something else, there are three possibilities. It was cancelled there, or its process failed: then its
end is taken as recorded. It was killed there and gone on with, or saw a message at another moment: then it is begun
again, once, from what the log has. Or it is another run: that is the divergence, and nothing is appended after it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NoReturn

from chatfold.agent.run_context import DRAWN
from chatfold.eventlog import (
    Compacted,
    Conflict,
    Entry,
    Event,
    Injected,
    MemoryStorage,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    RunFinished,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.codec import encode_named
from chatfold.eventlog.search_text import OURS
from chatfold.eventlog.storage import Durability
from chatfold.projections.labels import RUNTIME
from chatfold.replay.verify.divergence import Divergence

Why = Literal["", "again", "ended", "diverged"]
Compare = Callable[[Sequence[Entry], Sequence[Event]], Awaitable[Divergence | None]]
"""What is not the same in what was recorded and what a run wants to append."""


_PATIENCE = 1000  # turns of the event loop


class Halted(BaseException):
    """The run is not to go on. No ``Exception``: neither a run nor a user's code is to catch it."""


class Recording(MemoryStorage):
    """``entries``: all that was recorded, of which those before ``at`` have been appended."""

    def __init__(self, key: str, entries: Sequence[Entry], compare: Compare) -> None:
        super().__init__(clock=lambda: self._ts)
        self.key = key
        self.entries = entries
        self.at = 0
        self.run = ""  # the one that is rehearsed
        self.halted: Why = ""
        self.divergence: Divergence | None = None
        self.calls = 0  # of models
        self.finished = False
        self._compare = compare
        self._ts = 0
        self._ends = {entry.run: at for at, entry in enumerate(entries, 1) if entry.run is not None}
        self._end = 0  # after the last entry of the run
        self._begun_again = -1  # where that was last
        self._in_flight: list[str] = []  # tool calls without a result
        self._ids: dict[str, list[Entry]] = {}

    # --- the run that is rehearsed -----------------------------------------------------------------------

    def begin(self, run: str, key: str) -> None:
        """From here on, what is appended to the chat of this key is the run's."""
        if self.key in self._chats:
            self._chats[key] = self._chats[self.key]
        self.key, self.run, self._end, self.finished = key, run, self._ends[run], False
        self._in_flight = []

    def go_on(self) -> None:
        self.halted = ""

    def next(self) -> Entry | None:
        """What the run itself wrote next; None if it wrote nothing more."""
        at = self._next()
        return None if at is None else self.entries[at]

    def batch(self) -> Sequence[Entry]:
        """The same, with what it wrote together with it."""
        at = self._next()
        return () if at is None else self.entries[at : self._batch_end(at)]

    def ends_with(self, entry: Entry) -> bool:
        """Did the run end with this entry, or with what was written together with it?"""
        return isinstance(self.entries[self._batch_end(entry.seq - 1) - 1].event, RunFinished)

    def coming(self) -> Sequence[Entry]:
        """What the run will have written, with all that others did."""
        return self.entries[self.at : self._end]

    def _next(self) -> int | None:
        return next((at for at in range(self.at, self._end) if self._is_own(at)), None)

    def _is_own(self, at: int) -> bool:
        """Did the run write this entry, and not a tool or a callback, which are not there now?"""
        entry = self.entries[at]
        match entry.event:
            case Noted(name=name) if entry.run is None:
                return name.startswith(OURS)
            case Compacted(trigger=trigger):
                return entry.run is None and trigger != "manual"
            case _ if entry.run != self.run:
                return False
            case RunStarted() | ModelCalled() | ModelReturned() | ToolReturned() | RunFinished():
                return True
            case MessageAdded() | ToolCalled():
                return self._is_answer(at)
            case Injected(source=source):
                return source == RUNTIME
            case Noted(name=name) if name.startswith(OURS):
                return True
            case Noted(name=name):
                drawn = name.startswith(DRAWN) and not self._in_flight
                return drawn or name == "compaction_failed"
        return False

    def _is_answer(self, at: int) -> bool:
        """Does it stand in one batch with the return of a model?"""
        index = int((self.entries[at].batch or "1/1").partition("/")[0])
        return index > 1 and isinstance(self.entries[at - index + 1].event, ModelReturned)

    def _batch_end(self, at: int) -> int:
        index, _, size = (self.entries[at].batch or "1/1").partition("/")
        return min(at + int(size) - int(index) + 1, len(self.entries))

    # --- appending ---------------------------------------------------------------------------------------

    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:
        if request.chat != self.key:
            return await super().append(request, durability)
        if self.halted:
            raise Halted
        if request.id is not None and request.id in self._ids:
            return self._ids[request.id]
        wanted = [draft.event for draft in request.events]
        at = await self._turn(wanted)
        await self._insert(at)
        if request.after not in (None, at):
            raise Conflict(request.after or 0, at, chat=request.chat)
        recorded = self.entries[at : self._batch_end(at)]
        if _is_begun_apart(recorded, wanted):
            recorded = recorded[: len(wanted)]
        if request.after is not None and await self._is_recorded_in_pieces(recorded, wanted):
            await self._insert(at + len(recorded))
            raise Conflict(at, self.at, chat=request.chat)
        is_cut = (self.entries[at].batch or "").endswith(f"/{len(wanted)}") and len(recorded) < len(wanted)
        if found := await self._compare(recorded, wanted[: len(recorded)] if is_cut else wanted):
            await self.differs(found)
        if is_cut:  # by a fork
            await self.end_as_recorded()
        return await self._insert(at + len(recorded))

    async def _is_recorded_in_pieces(self, recorded: Sequence[Entry], wanted: Sequence[Event]) -> bool:
        """Older runs recorded one after the other what is one append today: is this the first of it?"""
        same = zip(recorded, wanted, strict=False)
        return len(recorded) < len(wanted) and all(type(entry.event) is type(event) for entry, event in same)

    async def _turn(self, wanted: Sequence[Event]) -> int:
        """Where this stands in the recording. Tools ran side by side: their results come in the order they came then."""
        while True:
            at = self._next()
            if at is None:
                self.halt("ended")
            match wanted[0], self.entries[at].event:
                case ToolReturned(call=call), ToolReturned(call=first) if first != call:
                    if not self.is_in_flight(first) or not await self.wait_for_append():
                        return at
                case _:
                    return at

    def is_in_flight(self, call: str) -> bool:
        return call in self._in_flight

    async def wait_for_append(self) -> bool:
        """Waits until something was appended; False if nothing is about to be: in a rehearsal nothing takes any time."""
        at = self.at
        for _ in range(_PATIENCE):
            await asyncio.sleep(0)
            if self.halted:
                raise Halted
            if self.at != at:
                return True
        return False

    async def differs(self, found: Divergence) -> NoReturn:
        """The run does something else than it did then."""
        match self.batch():
            case [*before, Entry(event=RunFinished(outcome="cancelled" | "failed" as how))]:
                if how == "cancelled" or before:  # from outside, or with tools that never came back
                    await self.end_as_recorded()
        self.miss(found)

    def miss(self, found: Divergence) -> NoReturn:
        at = self._next()
        if at is not None and at != self._begun_again:
            self._begun_again, self.divergence = at, found
            self.halt("again")
        self.divergence = self.divergence if at == self._begun_again else found
        self.halt("diverged")

    async def end_as_recorded(self) -> NoReturn:
        await self._insert(self._end)
        self.halt("ended")

    def halt(self, why: Why) -> NoReturn:
        self.halted = self.halted or why
        raise Halted

    async def pass_over(self) -> int:
        """Takes the rest of the run as it was recorded; gives how many requests to models are in it."""
        before = self.calls
        await self._insert(self._end)
        return self.calls - before

    async def others(self) -> None:
        """Puts in what stands next, which no run that is rehearsed has written."""
        await self._insert(self._batch_end(self.at))

    async def _insert(self, stop: int) -> list[Entry]:
        """Appends the entries before ``stop`` as they were recorded; gives those of the last batch."""
        done: list[Entry] = []
        while self.at < stop:
            batch = self.entries[self.at : min(self._batch_end(self.at), stop)]
            self._ts = batch[0].ts
            events = tuple(encode_named(entry.event, entry.key, entry.said_at) for entry in batch)
            done = await super().append(AppendRequest(self.key, events, None, batch[0].id, batch[0].run))
            if batch[0].id is not None:
                self._ids[batch[0].id] = done
            for entry in batch:
                self._count(entry)
            self.at += len(batch)
        return done

    def _count(self, entry: Entry) -> None:
        match entry.event:
            case ModelCalled():
                self.calls += 1
                self._in_flight = []
            case ToolCalled(call=call) if entry.run == self.run:
                self._in_flight.append(call)
            case ToolReturned(call=call) if call in self._in_flight:
                self._in_flight.remove(call)
            case RunFinished() if entry.run == self.run:
                self.finished = True


def _is_begun_apart(recorded: Sequence[Entry], wanted: Sequence[Event]) -> bool:
    """Does the run record now, before the request, what it recorded together with the request then?"""
    return (
        len(wanted) < len(recorded)
        and isinstance(recorded[-1].event, ModelCalled)
        and all(isinstance(event, RunStarted | Injected) for event in wanted)
    )
