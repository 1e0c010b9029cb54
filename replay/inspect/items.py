"""items: what the model sees at a moment, as a list a person can read: one item a message, in the model's order.

Nothing here is safe for a terminal: the texts are the users', the models' and the tools' own, on one line each.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from chatfold.projections import Message
from chatfold.projections.cutting import tokens_of
from chatfold.projections.labels import RECALLED, SUMMARY
from chatfold.projections.shapes.values import json_text
from chatfold.projections.text import one_line
from chatfold.projections.tokens import Counter, estimate
from chatfold.replay.inspect.entries import describe_parts

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


def items_of(messages: Iterable[Message], count: Counter = estimate) -> tuple[Item, ...]:
    return tuple(item_of(message, count) for message in messages)


def item_of(message: Message, count: Counter = estimate) -> Item:
    """Made once of a message: a prompt that goes on keeps its messages."""
    kept: dict[object, Item] = vars(message).setdefault("items", {})
    if count not in kept:
        seq = message.seqs[0] if message.seqs else 0
        tokens = tokens_of(message, count)
        kept[count] = Item(seq, message.seqs, kind_of(message), message.role, tokens, preview(message))
    return kept[count]


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
    if message.kind == "runtime":
        return "injected"
    if message.kind != "said":
        return message.kind
    return "system" if message.is_system else "assistant" if message.role == "assistant" else "user"


def preview(message: Message, most: int = PREVIEW) -> str:
    """What it says, on one line."""
    return one_line(text_of(message, 4 * most, is_labelled=False), most)


def text_of(message: Message, most: int = 1 << 62, *, is_labelled: bool = True) -> str:
    """All that it says, all that it calls and was answered, part by part; of each part the first ``most`` characters.

    ``is_labelled`` False: without the label that tells the model what a summary or a recalled context is.
    """
    said = [describe_parts(message.parts, most)] if message.parts else []
    said += [
        f"→ {call.name} {json_text(call.args) if call.args is not None else ''}"[:most].rstrip()
        for call in message.calls
    ]
    for result in message.results:
        failed = " failed" if result.failed else ""
        said.append(f"← {result.name}{failed}: {describe_parts(result.parts, most)}")
    labels = {"summary": _SUMMARY_LINES, "recalled": _RECALLED_LINES, "injected": 1, "runtime": 1}
    label = labels.get(message.kind, 0)
    text = "\n".join(filter(None, said))
    return text if is_labelled else text.split("\n", label)[-1]
