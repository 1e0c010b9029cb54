"""Request: what a model is sent, and the events that record it, all in one append.

The system text, the tools and the model's settings are no history. They are kept as notes, each once in a chat, found by
its key; so a request can be made again from the log alone, and proved by its fingerprint.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from chatfold.agent.models import Model, Request, ToolSpec, fingerprint, payload_of, settings_of
from chatfold.agent.moment import Moment
from chatfold.eventlog import (
    Compacted,
    ContextRecalled,
    Entry,
    Event,
    Injected,
    Json,
    MessageAdded,
    ModelCalled,
    Noted,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.search_text import OURS
from chatfold.projections.activity import turn
from chatfold.projections.shapes import PROMPT_RULES

SHOWN = (MessageAdded, ToolCalled, ToolReturned, Injected, ContextRecalled, Compacted)
"""What a request is made of."""
PAYLOADS = frozenset(
    {
        "chatfold.agent.models.ScriptedModel.payload",
        "chatfold.agent.models.openai.OpenAIModel.payload",
        "chatfold.agent.models.anthropic.AnthropicModel.payload",
    }
)
"""Of these the provider's name is enough to know which code made a request."""
_MOST_NEW, _NEAR = 64, 512  # entries


class Recorded(msgspec.Struct, frozen=True):
    """A request, and the events that record it, with a key for each note."""

    payload: dict[str, Any]
    events: tuple[Event, ...]
    keys: tuple[str | None, ...]


async def make_request(
    now: Moment, model: Model, system: str, tools: Sequence[ToolSpec], opening: Sequence[Event], run: str
) -> Recorded:
    """The request that follows ``now``, and ``opening``, events that are recorded together with it."""
    first = [Entry(now.seq + at, 0, event, run) for at, event in enumerate(opening, 1)]
    messages = (await now._whole_prompt()).then(first).messages  # noqa: SLF001 (a chat is a moment)
    payload = model.payload(Request(system, messages, tuple(tools)))
    sent: dict[str, Json] = {"system": system, "tools": msgspec.to_builtins(list(tools))}
    if settings := settings_of(model):
        sent["settings"] = msgspec.to_builtins(settings)
    marks = {name: fingerprint({name: data}) for name, data in sent.items()}
    notes: dict[str, Noted] = {}
    seqs: dict[str, int] = {}
    for name, data in sent.items():
        key = f"{name}:{marks[name]}"
        known = await _find(now, key)
        if known is None:
            notes[key] = Noted(f"{OURS}{name}", data)
        seqs[name] = known or now.seq + len(opening) + len(notes)
    params: dict[str, Json] = {**marks, "noted": seqs}
    if (code := payload_of(model)) not in PAYLOADS:
        params["payload"] = code
    if seen := await _new(now, first):
        params["seen"] = seen
    names = tuple(tool.name for tool in tools)
    called = ModelCalled(model.name, fingerprint(payload), params, names, model.provider, PROMPT_RULES)
    events = (*opening, *notes.values(), called)
    return Recorded(payload, events, (*(None for _ in opening), *notes, None))


async def _find(now: Moment, key: str) -> int | None:
    """The seq of a note. Older logs know it by the id of its append."""
    storage = now.log.storage
    known = await storage.find(now.key, key=key)
    known = await storage.find(now.key, id=key) if known is None else known
    return known if known is not None and known <= now.seq else None


async def _new(now: Moment, first: Sequence[Entry]) -> dict[str, Json]:
    """The fingerprints of what came since the last request, by seq: so an entry that is another one later can be named."""
    since = max(now[turn].called + 1, now.seq - _NEAR)
    entries = [*await now.read(((since, now.seq),)), *first]
    shown = [entry for entry in entries if isinstance(entry.event, SHOWN)]
    return {str(entry.seq): event_mark(entry.event) for entry in shown[-_MOST_NEW:]}


def event_mark(event: Event) -> str:
    return fingerprint(msgspec.to_builtins(event))[:16]
