"""Answers: what the page asks about one chat, as values."""

import asyncio
from typing import Any, cast, get_args

import msgspec

from chatfold.agent import Moment
from chatfold.agent.moment import Shape
from chatfold.eventlog import Compacted, Entry, Lost, ModelCalled, ModelReturned
from chatfold.projections import Message, lineage, outline, usage
from chatfold.projections.activity import turn
from chatfold.projections.history import History
from chatfold.projections.lifetimes import stays, summary_stays
from chatfold.projections.prompt import first_difference
from chatfold.projections.usage import read_counts
from chatfold.replay.inspect.entries import describe_parts, kind_name, row
from chatfold.replay.inspect.items import item_of
from chatfold.replay.inspect.matching import comparable
from chatfold.replay.inspect.pairs import pair_of
from chatfold.replay.inspect.points import number_controls
from chatfold.replay.inspect.serial import json_lines, json_text
from chatfold.replay.web.limits import limit_of

CAP = 1 << 16  # characters of a text, unless all of it is asked for


class ChatInfo(msgspec.Struct, frozen=True):
    """A chat as it is at its end, ``link`` naming all of it. ``limit``: of the model asked last, in tokens; 0: not known."""

    key: str
    title: str
    end: int
    link: str
    is_running: bool
    model: str
    limit: int
    parent: str
    at: int  # up to there the chat is its parent's


class ControlMark(msgspec.Struct, frozen=True):
    """A context event. ``name``: as in addresses. ``id``: of the context that is active after it. ``first``, ``last``: of a compaction."""

    seq: int
    kind: str
    name: str
    id: str
    title: str
    first: int
    last: int


class Sight(msgspec.Struct, frozen=True):
    """When what was in the model's sight. A stay is ``(first, last, entered, left)``: see ``projections.lifetimes.Stay``."""

    seq: int
    stays: list[tuple[int, int, int, int]]
    summaries: list[tuple[int, int, int, int]]
    controls: list[ControlMark]
    checkpoints: dict[str, int]


def chat_info(moment: Moment) -> ChatInfo:
    asked = moment[usage]
    model = next(iter(asked.asked.values()), "") or next(reversed(asked.models), "")
    origin = moment[lineage].parent
    return ChatInfo(
        moment.key,
        moment[outline].title,
        moment.seq,
        moment.view.head.link,
        bool(moment[turn].run),
        model,
        limit_of(model),
        origin.parent if origin else "",
        origin.at if origin else 0,
    )


async def sight(moment: Moment) -> Sight:
    """On a thread: a long chat has many."""
    known = await moment.history()
    return await asyncio.to_thread(_sight, moment, known)


def _sight(moment: Moment, known: History) -> Sight:
    letters = {"compacted": "c", "opened": "s", "switched": "s", "cleared": "s"}
    marks = []
    for seq, (control, number) in number_controls(known).items():
        letter = letters.get(control.kind)
        name = f"{letter}{number}" if letter else ""
        marks.append(
            ControlMark(seq, control.kind, name, control.id, control.title, control.first, control.last)
        )
    return Sight(
        moment.seq,
        [(one.first, one.last, one.entered, one.left) for one in stays(known)],
        [(one.first, one.last, one.entered, one.left) for one in summary_stays(known)],
        marks,
        moment[lineage].checkpoints,
    )


# --- one event -------------------------------------------------------------------------------------------


class Body(msgspec.Struct, frozen=True):
    """A text, or its beginning: it has ``size`` characters."""

    text: str
    size: int


class EventAnswer(msgspec.Struct, frozen=True):
    """``belongs``: the seqs of what answers it, or of what it answers. ``said``: its text; ``json``: the event; ``line``: as on disk."""

    seq: int
    ts: int
    kind: str
    what: str
    head: str
    is_failed: bool
    said: Body
    json: Body
    line: Body
    facts: dict[str, str]
    belongs: dict[str, int]


async def event_at(moment: Moment, seq: int, *, whole: bool = False) -> EventAnswer:
    [entry] = await moment.log.last(moment.key, 1, seq)
    most = None if whole else CAP
    line, belongs = _body(await _line(moment, seq), most), await pair_of(moment, entry)
    return msgspec.structs.replace(event_of(entry, most), line=line, belongs=belongs)


def event_of(entry: Entry, most: int | None = CAP) -> EventAnswer:
    """What is known of it without looking at others."""
    one = row(entry)
    facts = {
        "run": entry.run,
        "id": entry.id,
        "batch": entry.batch,
        "sum": entry.sum,
        "prev": entry.prev,
        "erased": entry.was,
    }
    return EventAnswer(
        entry.seq,
        entry.time,
        kind_name(entry.event),
        one.what,
        getattr(entry.event, "name", ""),
        one.failed,
        _body(_read_text(entry, one.text), most),
        _body(json_lines(msgspec.to_builtins(entry.event, enc_hook=str)), most),
        Body("", 0),
        {name: value for name, value in facts.items() if value},
        {},
    )


def _read_text(entry: Entry, told: str) -> str:
    event = entry.event
    parts = getattr(event, "parts", None)
    if parts is not None:
        return describe_parts(parts)
    match event:
        case Compacted(summary=summary):
            return summary
        case Lost():
            return told
    return getattr(event, "text", "") or ""


async def _line(moment: Moment, seq: int) -> str:
    async for page in moment.log.storage.read(moment.key, seq, seq):
        for line in page.lines():
            return bytes(line).decode("utf-8", "backslashreplace")
    return ""


def _body(text: str, most: int | None) -> Body:
    return Body(text if most is None else text[:most], len(text))


# --- messages --------------------------------------------------------------------------------------------


class Call(msgspec.Struct, frozen=True):
    name: str
    seq: int
    args: Body


class Result(msgspec.Struct, frozen=True):
    name: str
    seq: int
    call: int
    is_failed: bool
    said: Body


class MessageShown(msgspec.Struct, frozen=True):
    role: str
    kind: str
    seqs: tuple[int, ...]
    tokens: int
    said: Body
    calls: tuple[Call, ...]
    results: tuple[Result, ...]


class Request(msgspec.Struct, frozen=True):
    """What a model was sent at ``seq``, or would be sent next after it (``number`` 0).

    ``proof``: proved, different, unprovable, or next. ``same``: so many messages are those of the request before, of ``same_tokens``;
    ``cached``: what the model reported as read from its cache.
    """

    seq: int
    number: int
    total: int
    model: str
    provider: str
    proof: str
    recorded: str
    rebuilt: str
    why: str
    tools: tuple[str, ...]
    system: Body
    messages: tuple[MessageShown, ...]
    tokens: int
    same: int
    same_tokens: int
    cached: int


async def request_at(
    moment: Moment, before: Moment, previous: Moment | None, entry: Entry | None, cost: Entry | None
) -> Request:
    """``before``: the chat right before the call; ``previous``: right before the one before it; ``cost``: what the model returned."""
    messages = await before.messages()
    tokens = [item_of(one).tokens for one in messages]
    same = 0
    if previous is not None:
        difference = first_difference(
            list(map(comparable, await previous.messages())), list(map(comparable, messages))
        )
        same = len(messages) if difference is None else difference
    number, found = 0, None
    if entry is not None:
        from chatfold.replay.verify.requests import rebuild_request  # noqa: PLC0415 (it knows the providers)

        found = await rebuild_request(moment, seq=entry.seq)
        number = found.number
    payload: Any = found.payload if found is not None and isinstance(found.payload, dict) else {}
    event = entry.event if entry is not None else None
    returned = cost.event if cost is not None else None
    return Request(
        entry.seq if entry is not None else before.seq,
        number,
        moment[usage].called,
        found.model if found else "",
        found.provider if found else "",
        {True: "proved", False: "different", None: "unprovable"}[found.proved] if found else "next",
        found.recorded if found else "",
        (found.rebuilt or "") if found else "",
        found.why if found else "",
        event.tools if isinstance(event, ModelCalled) else (),
        _body(_text_of(payload.get("system") or payload.get("instructions") or ""), CAP),
        tuple(_show_message(one, count) for one, count in zip(messages, tokens, strict=True)),
        sum(tokens),
        same,
        sum(tokens[:same]),
        read_counts(returned.usage, failed=False).cached if isinstance(returned, ModelReturned) else 0,
    )


def _show_message(message: Message, tokens: int) -> MessageShown:
    return MessageShown(
        message.role,
        item_of(message).kind,
        message.seqs,
        tokens,
        _body(describe_parts(message.parts), CAP),
        tuple(
            Call(call.name, call.seq, _body(json_text(msgspec.to_builtins(call.args)), CAP))
            for call in message.calls
        ),
        tuple(
            Result(one.name, one.seq, one.call, one.failed, _body(describe_parts(one.parts), CAP))
            for one in message.results
        ),
    )


def _text_of(system: Any) -> str:
    return system if isinstance(system, str) else json_text(system)


async def request_json(moment: Moment, before: Moment, entry: Entry | None, shape: str) -> str:
    """As a provider takes it. ``shape`` "sent": the whole request as it was made again."""
    if shape == "sent" and entry is not None:
        from chatfold.replay.verify.requests import rebuild_request  # noqa: PLC0415

        found = await rebuild_request(moment, seq=entry.seq)
        if found.payload is not None:
            return json_lines(found.payload)
    if shape not in get_args(Shape) and shape != "sent":
        raise ValueError(f"there is no shape {shape!r}")
    known: Shape = cast("Shape", "neutral" if shape == "sent" else shape)
    made = await before.messages(known)
    return json_lines(msgspec.to_builtins(made, enc_hook=str))


async def answer_to(moment: Moment, entry: Entry | None) -> Entry | None:
    seq = (await pair_of(moment, entry)).get("answer", 0) if entry is not None else 0
    return (await moment.log.last(moment.key, 1, seq))[0] if seq else None


async def around(moment: Moment, seq: int) -> tuple[Entry | None, int]:
    """The request that entry is about: itself, or the one it answers; and the seq of the request before, or 0."""
    [entry] = await moment.log.last(moment.key, 1, seq) if seq else [None]
    if entry is not None and isinstance(entry.event, ModelReturned):
        asked = (await pair_of(moment, entry)).get("request", 0)
        entry = (await moment.log.last(moment.key, 1, asked))[0] if asked else None
    asked_entry = entry if entry is not None and isinstance(entry.event, ModelCalled) else None
    start = asked_entry.seq - 1 if asked_entry is not None else seq
    async for other in moment.log.read_back(moment.key, start):
        if isinstance(other.event, ModelCalled):
            return asked_entry, other.seq
        if other.seq < start - 4096:
            break
    return asked_entry, 0
