"""Belonging: what an event answers, and what answers it: a call and its result, a request and its answer, a run's two ends."""

from chatfold.agent import Moment
from chatfold.eventlog import (
    Entry,
    Event,
    ModelCalled,
    ModelReturned,
    RunFinished,
    RunStarted,
    ToolCalled,
    ToolReturned,
)

NEAR = 4096
"""So many entries in either direction are looked at."""

_OPENS: dict[type, type] = {ToolCalled: ToolReturned, ModelCalled: ModelReturned, RunStarted: RunFinished}
_CLOSES = {closes: opens for opens, closes in _OPENS.items()}
_WORDS: dict[type, str] = {
    ToolCalled: "call",
    ToolReturned: "result",
    ModelCalled: "request",
    ModelReturned: "answer",
    RunStarted: "run started",
    RunFinished: "run finished",
}


async def belonging(moment: Moment, entry: Entry) -> dict[str, int]:
    """The seqs of what belongs to an entry, by what they are; empty if there is nothing, or nothing near."""
    event = entry.event
    if after := _OPENS.get(type(event)):
        async for other in moment.entries(entry.seq + 1, entry.seq + NEAR):
            if type(other.event) is after and _same(entry, other):
                return {_WORDS[after]: other.seq}
            if type(other.event) is type(event) and _same(entry, other) and not isinstance(event, ToolCalled):
                break  # it was asked again: the first was never answered
    elif before := _CLOSES.get(type(event)):
        async for other in moment.log.read_back(moment.key, entry.seq - 1):
            if other.seq < entry.seq - NEAR:
                break
            if type(other.event) is before and _same(entry, other):
                return {_WORDS[before]: other.seq}
    return {}


def _same(one: Entry, other: Entry) -> bool:
    return _call(one.event) == _call(other.event) if _call(one.event) is not None else one.run == other.run


def _call(event: Event) -> str | None:
    return event.call if isinstance(event, ToolCalled | ToolReturned) else None
