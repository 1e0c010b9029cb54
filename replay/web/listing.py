"""Listing: the chats as Home shows them, and how large the context of one was over time."""

from itertools import accumulate

import msgspec

from chatfold.agent import Store
from chatfold.projections import Contexts, contexts
from chatfold.projections.contexts import changes, window
from chatfold.replay.web.answers import chat_info
from chatfold.replay.web.columns import KINDS, Columns, Flag
from chatfold.replay.web.desk import OpenChat

_BUCKETS = 64


class HomeChat(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    title: str = ""
    preview: str = ""
    turns: int = 0
    active: int = 0
    parent: str = ""
    at: int = 0
    is_open: bool = False
    error: str = ""


async def listing(store: Store) -> list[HomeChat]:
    """The last active first."""
    found = []
    async for one in store.chats():
        told = one.outline
        if one.error is not None:
            found.append(HomeChat(one.key, error=str(one.error)))
            continue
        parent, at = (one.parent.parent, one.parent.at) if one.parent else ("", 0)
        found.append(HomeChat(one.key, told.title, told.preview, told.turns, told.active, parent, at, one.is_open))
    return sorted(found, key=lambda one: -one.active)


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
    await chat.refresh()
    moment = chat.replay.chat
    end = min(len(columns), moment.seq)
    sizes, compacted = sizes_of(moment[contexts], columns, end)
    parts = min(_BUCKETS, end) or 1
    tops = [max(sizes[1 + i * end // parts : 1 + (i + 1) * end // parts], default=0) for i in range(parts)] if end else []
    return Spark(
        tops,
        sizes[-1],
        chat_info(moment).limit,
        moment.seq,
        sum(1 for flag in columns.flags if flag & Flag.FAILED),
        sorted({(seq - 1) * parts // end for seq in compacted}) if end else [],
        len(compacted),
    )


def sizes_of(state: Contexts, columns: Columns, end: int) -> tuple[list[int], list[int]]:
    """The size after each entry, from 0 on, and where compactions were: between two context events a window only grows."""
    summaries = {seq: columns.tokens[seq - 1] for seq in _of_kind(columns, "compacted", end)}
    sums = [0, *accumulate(0 if seq in summaries else columns.tokens[seq - 1] for seq in range(1, end + 1))]
    sizes = [0]
    compacted = []
    for control, _, after in changes(state):
        if control.seq > end:
            break
        _grow(sizes, sums, control.seq - 1)
        seen = window(after, control.seq)
        size = sum(sums[last] - sums[first - 1] for first, last in seen.spans)
        sizes.append(size + sum(summaries.get(top.seq, 0) for top in seen.summaries))
        compacted += [control.seq] if control.kind == "compacted" else []
    _grow(sizes, sums, end)
    return sizes, compacted


def _grow(sizes: list[int], sums: list[int], last: int) -> None:
    at = len(sizes) - 1
    more = sizes[at] - sums[at]
    sizes.extend(total + more for total in sums[at + 1 : last + 1])


def _of_kind(columns: Columns, name: str, end: int) -> list[int]:
    code = KINDS.index(name)
    return [seq for seq, kind in enumerate(columns.kind[:end], 1) if kind == code]
