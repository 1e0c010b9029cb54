"""Sparks: how large the context of a chat was over time, and what else Home shows of it besides its row."""

import asyncio
from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

from chatfold.projections.history import History
from chatfold.replay.inspect.sizes import Chart, Sizes
from chatfold.replay.web.answers import chat_info
from chatfold.replay.web.columns import KINDS, Flag
from chatfold.replay.web.desk import OpenChat

if TYPE_CHECKING:
    from array import array

_BUCKETS = 64


class Spark(msgspec.Struct, frozen=True):
    """``sizes``: the largest in each of at most 64 parts, in tokens. ``compactions``: in which of the parts, from 0."""

    sizes: list[int]
    now: int
    limit: int
    events: int
    errors: int
    compactions: list[int]
    count: int  # of compactions


async def spark(chat: OpenChat) -> Spark:
    columns = await chat.read_on(seconds=2.0)
    moment = await chat.replay.chat.now()
    kinds, tokens = columns.kind[:], columns.tokens[:]  # as they are now: others may read on meanwhile
    chart = await asyncio.to_thread(_draw, kinds, tokens, await moment.history())
    ends = [bucket.last for bucket in chart.buckets]
    compacted = [mark.seq for mark in chart.marks if mark.kind == "compacted"]
    return Spark(
        [bucket.high for bucket in chart.buckets],
        chart.size,
        chat_info(moment).limit,
        moment.seq,
        sum(1 for flag in columns.flags if flag & Flag.FAILED),
        sorted({bisect_left(ends, seq) for seq in compacted}),
        len(compacted),
    )


def _draw(kinds: "array[int]", tokens: "array[int]", history: History) -> Chart:
    """In a thread: of a million entries it takes a second."""
    sizes, summary = Sizes(), KINDS.index("compacted")
    for kind, cost in zip(kinds, tokens, strict=True):
        sizes.add(cost, is_summary=kind == summary)
    return sizes.chart(history, _BUCKETS)
