"""pairs: what an event answers, and what answers it: a call and its result, a request and its answer, a run's two ends, a send and
what became of it."""

from chatfold.agent import Moment
from chatfold.eventlog import (
    Entry,
    Event,
    ModelCalled,
    ModelReturned,
    RunFinished,
    RunStarted,
    SendConfirmed,
    SendFailed,
    SendRequested,
    ToolCalled,
    ToolReturned,
)

NEAR = 4096
"""So many entries in either direction are looked at."""

_OPENS: dict[type, tuple[type, ...]] = {
    ToolCalled: (ToolReturned,),
    ModelCalled: (ModelReturned,),
    RunStarted: (RunFinished,),
    SendRequested: (SendConfirmed, SendFailed),
}
_CLOSES = {closes: opens for opens, some in _OPENS.items() for closes in some}
_WORDS: dict[type, str] = {
    ToolCalled: "call",
    ToolReturned: "result",
    ModelCalled: "request",
    ModelReturned: "answer",
    RunStarted: "run started",
    RunFinished: "run finished",
    SendRequested: "sending",
    SendConfirmed: "sent",
    SendFailed: "not sent",
}


async def pair_of(moment: Moment, entry: Entry) -> dict[str, int]:
    """The seq of the other half of a pair, by what it is; empty if there is none, or none near."""
    event = entry.event
    if after := _OPENS.get(type(event)):
        async for other in moment.entries(entry.seq + 1, entry.seq + NEAR):
            if isinstance(other.event, after) and _same(entry, other):
                return {_WORDS[type(other.event)]: other.seq}
            if type(other.event) is type(event) and _same(entry, other) and _id(event) is None:
                break  # it was asked again: the first was never answered
    elif before := _CLOSES.get(type(event)):
        async for other in moment.log.read_back(moment.key, entry.seq - 1):
            if other.seq < entry.seq - NEAR:
                break
            if type(other.event) is before and _same(entry, other):
                return {_WORDS[before]: other.seq}
    return {}


def _same(one: Entry, other: Entry) -> bool:
    return _id(one.event) == _id(other.event) if _id(one.event) is not None else one.run == other.run


def _id(event: Event) -> str | None:
    """What both halves have in common besides their run."""
    match event:
        case ToolCalled(call=id) | ToolReturned(call=id):
            return id
        case SendRequested(send=id) | SendConfirmed(send=id) | SendFailed(send=id):
            return id
    return None
