"""Questions: what takes the page more than one look at a chat, or at several: differences, why, the tree, the verdict, a search."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from chatfold.agent import Moment
from chatfold.agent.store import Listed
from chatfold.eventlog import ChatfoldError
from chatfold.eventlog.search_text import text_of
from chatfold.projections.history import History
from chatfold.replay.inspect.diff import Comparison, compare
from chatfold.replay.inspect.entries import row
from chatfold.replay.inspect.forks import family
from chatfold.replay.inspect.items import Item
from chatfold.replay.inspect.why import Now, Trace, Traces, survival, trace
from chatfold.replay.verify.divergence import Verdict
from chatfold.replay.web.desk import Desk, OpenChat

_FOLLOWED = 12  # compactions that a summary is followed through


class Difference(msgspec.Struct, frozen=True):
    """``kept_words``: by the seq of an item that left, how much of its words the summary has; only of a single compaction."""

    comparison: Comparison
    kept_words: dict[int, float]


async def difference(before: Moment, after: Moment) -> Difference:
    found = await compare(before, after)
    steps = [step for step in found.steps if step.kind == "compacted"]
    words: dict[int, float] = {}
    if len(steps) == 1 and before.key == after.key:
        texts = await _texts(before, found.left)
        words = {
            item.seq: survival(texts.get(item.seq, ""), steps[0].summary).share
            for item in found.left
            if item.seq
        }
    return Difference(found, words)


async def _texts(moment: Moment, items: tuple[Item, ...]) -> dict[int, str]:
    seqs = sorted({seq for item in items for seq in item.seqs})
    entries = {entry.seq: text_of(entry) for entry in await moment.read(tuple((seq, seq) for seq in seqs))}
    return {item.seq: " ".join(entries.get(seq, "") for seq in item.seqs) for item in items}


class Why(msgspec.Struct, frozen=True):
    """``summaries``: the stays of the compactions that the text is, or was, behind, by their seqs."""

    traces: Traces
    summaries: dict[int, Trace]


async def why(moment: Moment, text: str) -> Why:
    found = await trace(moment, text)
    summaries: dict[int, Trace] = {}
    ahead = [left for one in found.traces for left in _compactions(one)]
    while ahead and len(summaries) < _FOLLOWED:
        seq = ahead.pop(0)
        if seq in summaries:
            continue
        [summaries[seq]] = (await trace(moment, f"e{seq}")).traces
        ahead += _compactions(summaries[seq])
    return Why(found, summaries)


def _compactions(one: Trace) -> list[int]:
    return [visit.left.seq for visit in one.visits if visit.left and visit.left.cause == "compacted"]


# --- the tree --------------------------------------------------------------------------------------------


_DOTS = 80  # of a branch: more would stand on each other


class Branch(msgspec.Struct, frozen=True):
    """``turns``: the numbers and seqs of questions of its own, the first and the last among them. ``compactions``: seqs."""

    key: str
    title: str
    preview: str
    depth: int
    parent: str
    at: int
    end: int
    is_gone: bool
    turns: list[tuple[int, int]]
    compactions: list[int]


async def tree(desk: Desk, key: str) -> list[Branch]:
    listed = {one.key: one async for one in desk.store.chats()}
    found = []
    for one in family(listed.values(), key):
        here = listed.get(one.key)
        moment = None if one.is_gone or here is None or here.error else await desk.store.chat(one.key)
        known = await moment.history() if moment is not None else None
        found.append(
            Branch(
                one.key,
                one.title,
                here.outline.preview if here else "",
                one.depth,
                here.parent.parent if here and here.parent else "",
                one.at,
                moment.seq if moment is not None else one.at,
                one.is_gone,
                _turns(known, one.at) if known is not None else [],
                _spread([c.seq for c in known.controls if c.kind == "compacted" and c.seq > one.at])
                if known is not None
                else [],
            )
        )
    return found


def _turns(known: History, after: int) -> list[tuple[int, int]]:
    numbers = range(known.turn_at(after) + 1, known.turn_at(known.seq) + 1)
    return [(number, seq) for number in _spread(numbers) if (seq := known.asked_at(number)) > after]


def _spread(some: Sequence[int]) -> list[int]:
    """At most so many of them as can be seen apart."""
    count = min(len(some), _DOTS)
    return [some[round(i * (len(some) - 1) / max(1, count - 1))] for i in range(count)]


# --- the verdict -----------------------------------------------------------------------------------------


async def judge(chat: OpenChat, payload: Any = None) -> Verdict:
    from chatfold.replay.verify.verdict import verdict  # noqa: PLC0415 (it knows the providers)

    return await verdict(await chat.replay.chat.now(), payload=payload)


# --- search ----------------------------------------------------------------------------------------------

_HITS = 50  # of a chat
_TRACED = 7  # of these: does the model still see it?


class Hit(msgspec.Struct, frozen=True):
    """``now``: where it is at the end of the chat; None of those further down."""

    seq: int
    what: str
    turn: int
    preview: str
    now: Now | None
    left: str  # the name of what it left by last: c2


class Hits(msgspec.Struct, frozen=True):
    chat: str
    title: str
    hits: list[Hit]
    has_more: bool
    error: str = ""


async def search(desk: Desk, query: str, kinds: frozenset[str], only: str = "") -> AsyncIterator[Hits]:
    """Chat by chat, the newest first; the newest hits of each first. Raises ValueError if there is nothing to look for."""
    listed = [one async for one in desk.store.chats()]
    for one in sorted(listed, key=lambda one: -one.outline.active):
        if only and one.key != only:
            continue
        try:
            found = await _hits(desk, one, query, kinds)
        except (ChatfoldError, OSError) as error:  # one chat that cannot be read hides no other
            found = Hits(one.key, one.outline.title, [], has_more=False, error=str(error))
        if found.hits or found.error:
            yield found


async def _hits(desk: Desk, one: Listed, query: str, kinds: frozenset[str]) -> Hits:
    hits = await desk.store.log.search(one.key, query, limit=_HITS + 1)
    found: list[Hit] = []
    for hit in hits[:_HITS]:
        [entry] = await desk.store.log.last(one.key, 1, hit.seq)
        what = row(entry, most=1).what
        if kinds and what not in kinds:
            continue
        traced = None
        chat = (await desk.chat(one.key)).replay.chat
        if len(found) < _TRACED:
            [traced] = (await trace(chat, f"e{hit.seq}")).traces
        found.append(
            Hit(
                hit.seq,
                what,
                (await chat.history()).turn_at(hit.seq),
                hit.preview,
                traced.now if traced else None,
                _name_leaving(traced),
            )
        )
    return Hits(one.key, one.outline.title, found, has_more=len(hits) > _HITS)


def _name_leaving(traced: Trace | None) -> str:
    for visit in reversed(traced.visits if traced else ()):
        if visit.left is not None:
            letter = {"compacted": "c", "opened": "s", "switched": "s", "cleared": "s"}.get(visit.left.cause)
            return f"{letter}{visit.left.number}" if letter else f"e{visit.left.seq}"
    return ""
