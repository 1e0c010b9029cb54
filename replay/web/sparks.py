"""Sparks: how large the context of a chat was over time, and what else Home shows of it besides its row."""

from bisect import bisect_left

import msgspec

from chatfold.projections import contexts
from chatfold.replay.inspect.sizes import Sizes
from chatfold.replay.web.answers import chat_info
from chatfold.replay.web.columns import KINDS, Flag
from chatfold.replay.web.desk import OpenChat

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
    sizes = Sizes()
    summary = KINDS.index("compacted")
    for kind, cost in zip(columns.kind, columns.tokens, strict=True):
        sizes.add(cost, is_summary=kind == summary)
    chart = sizes.chart(moment[contexts], _BUCKETS)
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
