"""Chats as agents leave them: the workload's turns as runs, in many contexts, compacted now and then.

A turn is a run with one call of the model. A context ends after about a thousand entries: the next question opens a
new one and goes along or, now and then, takes up an old one for a while. All but the last messages of a context are
compacted every few hundred entries, and once more at the end, so that the model sees ``WINDOW`` messages.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from benchmarks.measure import progress
from benchmarks.workload import turns
from chatfold.agent.views import open_view
from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    ContextOpened,
    ContextSwitched,
    Event,
    FileStorage,
    Log,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.contexts import MAIN

CHAT = "chat"
WINDOW = 50  # messages that the model sees in the end, the summary one of them
SHOWN = (MessageAdded, ToolCalled, ToolReturned)
"""What becomes a message."""

_CONTEXT = 980  # entries of a context before it is left
_VISIT = 300  # entries in one that was taken up again
_COMPACT = 400  # entries between two compactions
_SETTLED = 300  # entries before the end there is no new context any more
_GROUP = 128  # appends in one go
_TOOLS = tuple(f"tool_{number}" for number in range(12))


class Built(NamedTuple):
    """``entries``: about as many as were ``asked`` for; ``payload``: the bytes of the events' JSON."""

    asked: int
    entries: int
    messages: int
    payload: int


class Turn(NamedTuple):
    events: list[Event]
    run: str | None


def history(seed: int, entries: int, after: int = 0) -> Iterator[Turn]:
    """A chat of at least ``entries``, the last turn whole; ``after``: the seq before its first."""
    return _History(seed, entries, after).turns()


class _History:
    def __init__(self, seed: int, entries: int, after: int) -> None:
        self.random = Random(seed)
        self.said = turns(seed)
        self.summaries = turns(seed + 1_000)
        self.seq = after
        self.end = after + entries - 1  # the last compaction comes after it
        self.shown: deque[int] = deque(maxlen=WINDOW - 1)  # the seqs of the last messages
        self.context = MAIN
        self.firsts = {MAIN: after + 1}  # where each context begins
        self.leave = after + _CONTEXT
        self.compact = after + _COMPACT

    def turns(self) -> Iterator[Turn]:
        number = 0
        while self.seq < self.end:
            number += 1
            events = list(self.turn(next(self.said)))
            if number == 1:
                events.insert(0, ChatStarted(CHAT, "A long talk"))
            self.count(events)
            if self.seq >= self.compact and self.seq < self.end:
                events.append(self.compaction())
                self.seq += 1
            yield Turn(events, f"run-{number}")
        yield Turn([self.compaction()], None)

    def turn(self, said: list[Event]) -> Iterator[Event]:
        question, *rest = said
        yield question
        yield RunStarted("main")
        if self.seq >= self.leave and self.seq < self.end - _SETTLED:
            yield self.move(question)
        request = f"{self.random.getrandbits(64):016x}"
        yield ModelCalled("a-model-4-large", request, {"temperature": 0.2}, _TOOLS, "a-provider")
        yield from rest
        tokens = self.random.randint(4_000, 90_000)
        usage = {"input_tokens": tokens, "output_tokens": tokens // 40, "cached_tokens": tokens // 2}
        yield ModelReturned(usage, "stop")
        yield RunFinished("done")

    def move(self, question: Event) -> Event:
        """To a new context or, one time in twenty, to an old one. The question, the next entry, goes along."""
        carry = (self.seq + 1,)
        if self.context != MAIN and self.random.random() < 0.05:
            self.context = self.random.choice([one for one in self.firsts if one != self.context])
            self.leave, self.compact = self.seq + _VISIT, self.seq + _COMPACT
            return ContextSwitched(self.context, carry, "asked about it again")
        self.context = f"ctx-{self.random.getrandbits(48):012x}"
        self.firsts[self.context] = self.seq + 1
        self.leave, self.compact = self.seq + _CONTEXT, self.seq + _COMPACT
        return ContextOpened(self.context, text_of(question)[:40], "another topic", carry)

    def compaction(self) -> Event:
        """Hides all of the context but its last messages."""
        first, last = self.firsts[self.context], self.shown[0] - 1
        summary = "\n".join(text_of(turn[-1]) for turn in islice(self.summaries, 2))
        self.compact = self.seq + _COMPACT
        return Compacted(first, last, last - first + 1, summary, "tokens")

    def count(self, events: list[Event]) -> None:
        for event in events:
            self.seq += 1
            if isinstance(event, SHOWN):
                self.shown.append(self.seq)


def text_of(event: Event) -> str:
    """Of a message of the workload, which has one text."""
    assert isinstance(event, MessageAdded)
    (part,) = event.parts
    assert isinstance(part, Text)
    return part.text


async def build(root: Path, seed: int, entries: int) -> Built:
    """The history as the chat of a store of its own, opened once, so that its caches are what a user's are."""
    encode = msgspec.json.Encoder().encode
    stream = history(seed, entries)
    done = messages = payload = 0
    async with Log(FileStorage(root, durability="off")) as log:
        while group := list(islice(stream, _GROUP)):
            await asyncio.gather(*(log.append(CHAT, *turn.events, run=turn.run) for turn in group))
            events = [event for turn in group for event in turn.events]
            done += len(events)
            messages += sum(isinstance(event, SHOWN) for event in events)
            payload += sum(len(encode(event)) for event in events)
            progress(f"  building: {done:,} of {entries:,} entries")
        opened = await open_view(log, CHAT)
        assert opened.view.seq == done
    return Built(entries, done, messages, payload)
