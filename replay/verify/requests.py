"""What a model was sent, made again from the log alone, and proved by the fingerprint that was recorded with the call.

The messages are folded from the entries before the call. What else was sent, the system text, the tools and the model's
settings, is kept as notes. For the models that chatfold has, ``payload`` is then known, without a client or a key.
Another model's request is not provable from the log alone, unless its ``payload`` is given; that is told, and no failure.
Nor is one that prompt rules of another number made, unless today's make the same.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from chatfold.agent import Moment
from chatfold.agent.models import HIDDEN, Request, ScriptedModel, ToolSpec, fingerprint, scripted_payload
from chatfold.agent.models.anthropic import AnthropicModel, anthropic_payload
from chatfold.agent.models.openai import OpenAIModel, openai_payload
from chatfold.agent.request import event_mark
from chatfold.agent.views import open_view
from chatfold.eventlog import Entry, Event, Json, ModelCalled, NoSuchPoint, Noted
from chatfold.eventlog.search_text import OURS
from chatfold.eventlog.values import make_converter
from chatfold.projections import Message, usage
from chatfold.projections.prompt import build
from chatfold.projections.shapes import PROMPT_RULES
from chatfold.replay.inspect.points import request, request_number

Payload: TypeAlias = Callable[[Request], dict[str, Any]]
Notes: TypeAlias = dict[str, Json]
"""What was sent besides the messages, by the ids ``system:…``, ``tools:…`` and ``settings:…``."""


class Sent(msgspec.Struct, frozen=True):
    """One request. ``proved``: is it exactly what was sent? None: the log alone cannot tell."""

    chat: str
    seq: int
    number: int  # of the model call, the first being 1
    model: str
    provider: str
    recorded: str
    rebuilt: str | None = None
    payload: dict[str, Any] | None = None
    proved: bool | None = None
    why: str = ""  # there is no payload, or it is not what was sent


async def rebuild_request(
    chat: Moment, number: int | None = None, *, seq: int | None = None, payload: Payload | None = None
) -> Sent:
    """The request of the model call of this number, counted from the end if it is negative; or of the entry ``seq``.

    Reads what it is made of, not the history.
    """
    now = await chat.now()
    if seq is None:
        total = now[usage].called
        number = total + 1 + number if number is not None and number < 0 else number or 0
        if not 1 <= number <= total:
            raise NoSuchPoint(f"there is no model call {number}; there are {total}", chat=now.key)
        seq, _ = await request(now, number)
    [entry] = await now.log.last(now.key, 1, seq)
    if not isinstance(event := entry.event, ModelCalled):
        raise NoSuchPoint("this entry is no model call", chat=now.key, seq=seq)
    opened = await open_view(now.log, now.key, at=seq - 1, projections=now.view.projections)
    before = Moment(now.log, now.key, opened)
    notes = await _notes(before, event)
    return await rebuild(entry, event, number or await request_number(now, seq), before, notes, payload)


async def _notes(before: Moment, event: ModelCalled) -> Notes:
    """From where the call says that they are."""
    noted = event.params.get("noted")
    seqs = {seq for seq in noted.values() if isinstance(seq, int)} if isinstance(noted, dict) else set()
    notes: Notes = {}
    for entry in await before.read(tuple((seq, seq) for seq in sorted(seqs) if 0 < seq <= before.seq)):
        note(notes, entry)
    return notes


def note(notes: Notes, entry: Entry) -> None:
    """Keeps what an entry says of what was sent."""
    name = entry.key or entry.id
    if isinstance(entry.event, Noted) and entry.event.name.startswith(OURS) and name:
        notes[name] = entry.event.data


async def rebuild(
    entry: Entry,
    event: ModelCalled,
    number: int,
    before: Moment,
    notes: Mapping[str, Json],
    payload: Payload | None = None,
) -> Sent:
    """``before``: the chat right before the call."""
    told = Sent(before.key, entry.seq, number, event.model, event.provider, event.request)
    if entry.was:
        return msgspec.structs.replace(told, why="what was recorded of the call was erased")
    request = request_of(event, await _messages(before, event.rules), notes)
    make = payload or payload_for(event, notes)
    if request is None or make is None:
        why = "the system text or the tools are not in the log" if request is None else _unknown(event)
        return msgspec.structs.replace(told, why=why)
    made = make(request)
    mark = fingerprint(made)
    proved: bool | None = mark == event.request
    why = ""
    if not proved and any(seen.was for seen in await before.read(before.window().entries)):
        proved, why = None, "some of what the model saw was erased since"
    elif not proved and event.rules != PROMPT_RULES:
        proved, why = None, f"not provable: made by prompt rules {event.rules}"
    return msgspec.structs.replace(told, rebuilt=mark, payload=made, proved=proved, why=why)


async def _messages(before: Moment, rules: int) -> tuple[Message, ...]:
    """As the prompt rules of that number make them, as far as they are known."""
    if rules == PROMPT_RULES:
        return await before.messages()
    part = before.window()
    return build(part, await before.read(part.entries), rules=rules).messages


_to_offered = make_converter(tuple[ToolSpec, ...])


def request_of(
    event: ModelCalled, messages: tuple[Message, ...], notes: Mapping[str, Json]
) -> Request | None:
    """None: the log does not say what was sent besides the messages."""
    system, tools = (notes.get(f"{name}:{event.params.get(name)}") for name in ("system", "tools"))
    if not isinstance(system, str) or not isinstance(tools, list):
        return None
    try:
        return Request(system, messages, _to_offered(tools))
    except msgspec.ValidationError:
        return None


def payload_for(event: ModelCalled, notes: Mapping[str, Json]) -> Payload | None:
    """The code that made the payload of this call; None if we do not have it, or not all that it looked at."""
    mark = event.params.get("settings")
    settings = {} if mark is None else notes.get(f"settings:{mark}")
    if "payload" in event.params or not isinstance(settings, dict) or HIDDEN in settings.values():
        return None
    match event.provider:
        case ScriptedModel.provider:
            return scripted_payload
        case OpenAIModel.provider:
            return lambda request: openai_payload(request, event.model, settings)
        case AnthropicModel.provider if {"max_tokens", "cache"} <= settings.keys():
            return lambda request: anthropic_payload(request, event.model, settings)
    return None


def _unknown(event: ModelCalled) -> str:
    if "payload" in event.params or not event.provider:
        return "the request was made by code that only the agent has: give the agent"
    return f"how {event.provider!r} was set up is not in the log: give the agent"


def changed_entry(event: ModelCalled, entry_of: Mapping[int, Event]) -> int:
    """The first of the entries that came into this request anew and that is not what it was then; 0 if there is none."""
    seen = event.params.get("seen")
    for seq, mark in seen.items() if isinstance(seen, dict) else ():
        found = entry_of.get(int(seq)) if seq.isdecimal() else None
        if found is not None and event_mark(found) != mark:
            return int(seq)
    return 0
