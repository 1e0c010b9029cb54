"""items: what the model sees at a moment, as a list a person can read: one item a message, in the model's order.

Nothing here is safe for a terminal: the texts are the users', the models' and the tools' own, on one line each.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from chatfold.agent import Moment
from chatfold.eventlog import Data, Event, File, Part, Reasoning, Text, Unknown
from chatfold.projections import Contexts, IndexRow, Message, Tokens, contexts
from chatfold.projections.contexts import Control
from chatfold.projections.cutting import tokens_of
from chatfold.projections.prompt import RECALLED, SUMMARY
from chatfold.projections.shapes.values import json_text
from chatfold.projections.text import one_line
from chatfold.projections.tokens import Counter, estimate
from chatfold.replay.inspect.points import SWITCHES

PREVIEW = 160
_SUMMARY_LINES, _RECALLED_LINES = SUMMARY.count("\n"), RECALLED.count("\n")  # of the labels: ``kind`` says it

Kind: TypeAlias = Literal[
    "system", "user", "assistant", "calls", "result", "summary", "injected", "recalled", "internal", "late"
]
KINDS: tuple[Kind, ...] = (
    "system",
    "user",
    "assistant",
    "calls",
    "result",
    "summary",
    "injected",
    "recalled",
    "internal",
    "late",
)
"""In the order in which a list of totals shows them."""


class Item(msgspec.Struct, frozen=True):
    """One message. ``seq``: the entry it is known by, 0 for results of which none was recorded; ``seqs``: all of its entries."""

    seq: int
    seqs: tuple[int, ...]
    kind: Kind
    role: str
    tokens: int
    text: str  # its beginning, on one line


class InForce(msgspec.Struct, frozen=True):
    """A compaction whose summary the model sees. ``number``: as in ``c2``."""

    number: int
    seq: int
    first: int
    last: int


class Inspected(msgspec.Struct, frozen=True):
    """The active context of a chat at a moment, and what is archived there."""

    chat: str
    seq: int
    turn: int
    id: str
    title: str
    items: tuple[Item, ...]
    tokens: Tokens
    by_kind: dict[Kind, int]  # tokens; only the kinds that are there
    compactions: tuple[InForce, ...]
    archive: tuple[IndexRow, ...]  # last left first
    shelved: int  # contexts on the shelf, with those that are not listed


async def context_of(
    moment: Moment, context_id: str | None = None, *, rows: int | None = 20, count: Counter = estimate
) -> Inspected:
    """What the model sees of the active context, or would see of another; ``rows``: the most of the archive."""
    now = await moment.now()
    state = now[contexts]
    items = items_of(await now.messages(context=context_id), count)
    id = context_id or state.active.id  # noqa: A001
    context = state.active if id == state.active.id else state.shelf[id]
    numbers = numbered(state)
    return Inspected(
        now.key,
        now.seq,
        state.turn_at(now.seq),
        id,
        context.title,
        items,
        Tokens(sum(item.tokens for item in items), count is estimate),
        by_kind(items),
        tuple(InForce(numbers[top.seq][1], top.seq, top.first, top.last) for top in now.window(id).summaries),
        tuple(await now.contexts(rows)),
        len(state.shelf),
    )


def items_of(messages: Iterable[Message], count: Counter = estimate) -> tuple[Item, ...]:
    return tuple(item_of(message, count) for message in messages)


def item_of(message: Message, count: Counter = estimate) -> Item:
    seq = message.seqs[0] if message.seqs else 0
    return Item(
        seq, message.seqs, kind_of(message), message.role, tokens_of(message, count), preview(message)
    )


def by_kind(items: Iterable[Item]) -> dict[Kind, int]:
    """The tokens of each kind that is there, in the order of ``KINDS``."""
    totals = dict.fromkeys(KINDS, 0)
    for item in items:
        totals[item.kind] += item.tokens
    return {kind: tokens for kind, tokens in totals.items() if tokens}


def kind_of(message: Message) -> Kind:
    if message.results:
        return "result"
    if message.calls:
        return "calls"
    if message.kind != "said":
        return message.kind
    return "system" if message.is_system else "assistant" if message.role == "assistant" else "user"


def preview(message: Message, most: int = PREVIEW) -> str:
    """What it says, on one line."""
    said = [_part(part) for part in message.parts]
    said += [
        f"{call.name}({json_text(call.args) if call.args is not None else ''})" for call in message.calls
    ]
    for result in message.results:
        said.append(f"{result.name}{' failed' if result.failed else ''}:")
        said += map(_part, result.parts)
    text = " ".join(filter(None, said))
    label = {"summary": _SUMMARY_LINES, "recalled": _RECALLED_LINES}.get(message.kind, 0)
    return one_line(text.split("\n", label)[-1], most)


def _part(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case Reasoning(text=text):
            return f"[thinking: {text}]" if text else "[thinking]"
        case File(media_type=kind, name=name):
            return f"[file {name or kind}]"
        case Data(name=name, data=data):
            return f"[{name}: {json_text(data)}]"


def numbered(state: Contexts) -> dict[int, tuple[Control, int]]:
    """Each context event by its seq, with its number among those of its sort: ``c2`` is the second compaction of the
    log, ``s3`` the third time that another context became the active one, or should have."""
    counts: dict[str, int] = {}
    found: dict[int, tuple[Control, int]] = {}
    for control in state.controls:
        sort = "switch" if control.kind in SWITCHES else control.kind
        counts[sort] = counts.get(sort, 0) + 1
        found[control.seq] = control, counts[sort]
    return found


def kind_name(event: Event) -> str:
    """What the event is called on disk: ``message_added``."""
    return event.name if isinstance(event, Unknown) else str(type(event).__struct_config__.tag)
