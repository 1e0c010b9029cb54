"""Making a prompt fit: the newest messages that do, whole tool blocks, and a word about what was left out.

Nothing is cut inside a message. System and developer messages at the beginning stay, and so does the newest message
or tool block, even if it does not fit: then ``fits`` is false.
"""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from chatfold.projections.prompt import Message
from chatfold.projections.shapes.values import json_text
from chatfold.projections.tokens import FRAMING, Counter, Tokens, estimate, of_part


class Cut(msgspec.Struct, frozen=True):
    """``messages`` were kept; of those left out, the entries lie between ``first`` and ``last``."""

    messages: tuple[Message, ...]
    tokens: Tokens
    fits: bool = True
    left_out: int = 0  # messages
    left_out_tokens: Tokens = Tokens(0)
    first: int = 0
    last: int = 0


def cut(
    messages: Sequence[Message],
    *,
    most: int | None = None,
    tokens: int | None = None,
    count: Counter = estimate,
) -> Cut:
    """At most so many messages, or tokens by this ``count``, or both; ``Cut.tokens`` says it is an estimate."""
    sizes = [tokens_of(message, count) for message in messages]
    fixed = sum(1 for _ in takewhile(lambda message: message.is_system, messages))
    start, used = len(messages), sum(sizes[:fixed])

    def fits(first: int, size: int) -> bool:
        return (most is None or fixed + len(messages) - first <= most) and (tokens is None or size <= tokens)

    for first in reversed(_units(messages, fixed)):
        size = used + sum(sizes[first:start])
        if start < len(messages) and not fits(first, size):
            break
        start, used = first, size
    seqs = [seq for message in messages[fixed:start] for seq in message.seqs]
    return Cut(
        (*messages[:fixed], *messages[start:]),
        Tokens(used, count is estimate),
        fits(start, used),
        start - fixed,
        Tokens(sum(sizes[fixed:start]), count is estimate),
        min(seqs, default=0),
        max(seqs, default=0),
    )


def _units(messages: Sequence[Message], fixed: int) -> list[int]:
    """Where something begins that must stay together: a message, or calls and their results."""
    return [index for index in range(fixed, len(messages)) if messages[index].role != "tool"]


def tokens_of(message: Message, count: Counter = estimate) -> int:
    """An estimate is kept with the message: before every call of a model the whole prompt is counted."""
    if count is not estimate:
        return _count(message, count)
    kept: dict[str, int] = vars(message)
    if "estimate" not in kept:
        kept["estimate"] = _count(message, estimate)
    return kept["estimate"]


def _count(message: Message, count: Counter) -> int:
    parts = (*message.parts, *(part for result in message.results for part in result.parts))
    calls = sum(count(call.name) + count(json_text(call.args)) for call in message.calls)
    return FRAMING + calls + sum(of_part(part, count) for part in parts)
