"""tracing: where a text came into the model's sight, what took it out, and where it is now: "why did it forget X?"

The text is looked for in the log itself, the stays come from what ``contexts`` keeps, and read are only the entries
that hold the text and the events that moved it. So it costs a look through the bytes, not a fold of the history.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from chatfold.agent import Moment
from chatfold.eventlog import (
    Compacted,
    Entry,
    Event,
    Injected,
    MessageAdded,
    NoSuchPoint,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.search_text import normal, strings, terms, text_of
from chatfold.projections import Contexts, contexts
from chatfold.projections.context import Context
from chatfold.projections.contexts import window
from chatfold.projections.history import History
from chatfold.projections.lifetimes import Stay, stays, summary_stays
from chatfold.projections.spans import Spans, includes, spans
from chatfold.projections.text import one_line
from chatfold.projections.tokens import of_event
from chatfold.replay.inspect.entries import kind_name
from chatfold.replay.inspect.items import PREVIEW
from chatfold.replay.inspect.points import names, number_controls, request_number

_ENTRY = re.compile(r"e(\d{1,15})")
_WORDS = 1000  # of a text are looked for in a summary

Where: TypeAlias = Literal["active", "compacted", "archived", "rewound", "erased", "recorded", "away"]
"""active: the model sees it. compacted: behind the summary of a compaction of the active context. archived: in a context
on the shelf, also if it is behind a summary there. rewound: in no context, since the chat went back. erased: its text is gone.
recorded: of a kind that no model is shown. away: in a context, but not shown: a result without its call, for one."""


class Left(msgspec.Struct, frozen=True):
    """What took it out of sight. ``survived``: how much of the text's words the summary has, 0 … 1; None without one."""

    seq: int
    turn: int
    cause: str  # compacted, opened, switched, cleared, rewound, reverted
    number: int  # as in c2, s3
    trigger: str = ""
    reason: str = ""
    to: str = ""  # the context that became active
    title: str = ""  # its title
    summary: str = ""  # whole
    survived: float | None = None


class Visit(msgspec.Struct, frozen=True):
    """One stay in the model's sight. ``left`` None: it is still there.

    ``requests``: the numbers of the first and the last request that carried it, as in ``m3``; None if none did.
    """

    entered: int
    turn: int
    left: Left | None = None
    requests: tuple[int, int] | None = None


class Now(msgspec.Struct, frozen=True):
    """Where it is at the moment asked about. ``address``: where to look at it as it was, such as ``chat@c2^``."""

    where: Where
    address: str
    context: str = ""  # the context it is in
    title: str = ""  # that context's
    number: int = 0  # of the compaction it is behind, as in c2
    seq: int = 0  # of that compaction, or of the rewind


class Trace(msgspec.Struct, frozen=True):
    """One entry that holds the text. ``kind``: its event's, such as message_added; ``text``: a line around the place."""

    seq: int
    ts: int
    turn: int
    kind: str
    role: str  # of a message; of a call its tool's name, of a result tool; else empty
    text: str
    visits: tuple[Visit, ...]
    now: Now


class Traces(msgspec.Struct, frozen=True):
    """``exact``: these hold the very text. If nothing does, they hold its words, in any case and order."""

    query: str
    exact: bool
    total: int  # how many there are; ``traces`` are the first of them
    traces: tuple[Trace, ...]


async def trace(moment: Moment, text: str, *, limit: int = 20) -> Traces:
    """Each entry up to the moment that holds the text, oldest first; ``e5120`` is the entry of that seq.

    Raises ``NoSuchPoint`` for an entry that is not there, ``ValueError`` for a text in which there is nothing to look for.
    """
    now = await moment.now()
    if found := _ENTRY.fullmatch(text):
        seq = int(found[1])
        if not 0 < seq <= now.seq:
            raise NoSuchPoint(
                f"there is no entry {seq}, the chat ends at {now.seq}", chat=now.key, seq=now.seq
            )
        return Traces(text, True, 1, tuple(await _trace_entries(now, [seq], None)))
    seqs = [seq for seq in await now.log.grep(now.key, text) if seq <= now.seq]
    if seqs:
        return Traces(text, True, len(seqs), tuple(await _trace_entries(now, seqs[:limit], text)))
    try:
        hits = await now.search(text, limit=limit, everything=True)
    except ValueError:  # nothing but punctuation, which is found letter by letter or not at all
        hits = []
    previews = {hit.seq: hit.preview for hit in hits}
    traces = await _trace_entries(now, list(previews), text)
    told = {one.seq: msgspec.structs.replace(one, text=previews[one.seq]) for one in traces}
    return Traces(text, False, len(hits), tuple(told[hit.seq] for hit in hits))


async def _trace_entries(now: Moment, seqs: list[int], text: str | None) -> list[Trace]:
    """``text`` None: the whole entries are meant."""
    entries = await now.read(tuple((seq, seq) for seq in sorted(seqs)))
    history = await _History.of(now, entries)
    traces: list[Trace] = []
    for entry in entries:
        visits = history.visits(entry, text_of(entry) if text is None else text)
        visits = tuple([await _with_requests(now, visit) for visit in visits])
        turn, kind, role = history.known.turn_at(entry.seq), kind_name(entry.event), _role(entry.event)
        where = await _now(now, history, entry, visits)
        traces.append(Trace(entry.seq, entry.time, turn, kind, role, _line(entry, text), visits, where))
    return traces


async def _with_requests(now: Moment, visit: Visit) -> Visit:
    """With the requests that were made during the visit."""
    before = await request_number(now, visit.entered)
    last = await request_number(now, visit.left.seq if visit.left else now.seq)
    return msgspec.structs.replace(visit, requests=(before + 1, last) if last > before else None)


# --- when it came and went -------------------------------------------------------------------------------


class _History:
    """The stays of some entries, and the events that ended them."""

    def __init__(self, moment: Moment, known: History) -> None:
        self.state = moment[contexts]
        self.known = known
        self.numbers = number_controls(known)
        self.names = names(known)
        self.places = _places(self.state, moment.seq)
        self.stays: dict[int, list[Stay]] = {}
        self.causes: dict[int, Event] = {}

    @classmethod
    async def of(cls, moment: Moment, entries: list[Entry]) -> "_History":
        history = cls(moment, await moment.history())
        asked = spans((entry.seq, entry.seq) for entry in entries)
        said, summaries = stays(history.known, asked), summary_stays(history.known)
        for entry in entries:
            some = summaries if isinstance(entry.event, Compacted) else said
            here = [stay for stay in some if stay.first <= entry.seq <= stay.last]
            history.stays[entry.seq] = here if of_event(entry.event) else []
        wanted = {stay.left for some in history.stays.values() for stay in some if stay.left}
        causes = await moment.read(tuple((seq, seq) for seq in sorted(wanted)))
        history.causes = {entry.seq: entry.event for entry in causes}
        return history

    def visits(self, entry: Entry, text: str) -> tuple[Visit, ...]:
        found = [
            Visit(
                stay.entered or entry.seq,
                self.known.turn_at(stay.entered or entry.seq),
                self.left(stay.left, text) if stay.left else None,
            )
            for stay in self.stays[entry.seq]
        ]
        return tuple(sorted(found, key=lambda visit: visit.entered))

    def left(self, seq: int, text: str) -> Left:
        control, number = self.numbers[seq]
        title = control.title or self.title(control.id)
        left = Left(seq, self.known.turn_at(seq), control.kind, number, to=control.id, title=title)
        match self.causes.get(seq):
            case Compacted(trigger=trigger, summary=summary):
                share = survival(text, summary).share
                return msgspec.structs.replace(left, trigger=trigger, summary=summary, survived=share)
            case event:
                return msgspec.structs.replace(left, reason=getattr(event, "reason", ""))

    def title(self, id: str) -> str:
        known = next((one for one in _all_contexts(self.state) if one.id == id), None) if id else None
        return known.title if known else ""


class Survival(msgspec.Struct, frozen=True):
    """How much of a text's words a summary has: 0 … 1; and which of them."""

    share: float
    words: tuple[str, ...]


def survival(text: str, summary: str) -> Survival:
    """Each word counts once, and may be a part of a word in the summary.

    In Chinese, Japanese and Korean two characters next to each other are a word.
    """
    words, runs = terms(text)
    pairs = [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]
    wanted = list(dict.fromkeys([*words, *(pair.encode() for pair in pairs)]))[:_WORDS]
    there = normal(summary).encode("utf-8", "surrogatepass")
    found = tuple(word.decode(errors="replace") for word in wanted if word in there)
    return Survival(len(found) / len(wanted) if wanted else 0.0, found)


# --- where it is now -------------------------------------------------------------------------------------


async def _now(moment: Moment, history: _History, entry: Entry, visits: tuple[Visit, ...]) -> Now:
    here = f"{moment.key}@{entry.seq}"
    if entry.was is not None:
        return Now("erased", here)
    if not of_event(entry.event):
        return Now("recorded", here)
    state = history.state
    last = next((visit.left.seq for visit in reversed(visits) if visit.left), 0)
    before = f"{history.names[last]}^" if last in history.names else f"{last - 1}"
    address = f"{moment.key}@{before}" if last else here
    found = _place(history.places, entry)
    if found is None:
        rewinds = (
            c.seq for c in history.known.controls if c.kind == "rewound" and c.last < entry.seq < c.seq
        )
        rewind = max(rewinds, default=0)
        return Now("rewound" if rewind else "away", address, seq=rewind)
    context, behind = found
    number = history.numbers[behind][1] if behind else 0
    if context.id == state.active.id and not behind:
        is_shown = await _is_shown(moment, entry)
        return Now("active" if is_shown else "away", f"{moment.key}@{moment.seq}", context.id, context.title)
    where: Where = "compacted" if context.id == state.active.id else "archived"
    return Now(where, address, context.id, context.title, number, behind)


class _Place(NamedTuple):
    """A context, what of it a model sees there, and all that is in it."""

    context: Context
    shown: Spans
    whole: Spans


def _places(state: Contexts, head: int) -> list[_Place]:
    return [
        _Place(one, window(state, head, one.id).spans, state.spans(one.id, head))
        for one in _all_contexts(state)
    ]


def _place(places: list[_Place], entry: Entry) -> tuple[Context, int] | None:
    """The context an entry is in, and the compaction there that hides it, or 0; None if it is in no context."""
    seq = entry.seq
    for context, shown, whole in places:
        if isinstance(entry.event, Compacted):
            mine = next((one for one in context.compactions if one.seq == seq), None)
            if mine is not None and mine not in context.tops:
                covers = (
                    top.seq for top in context.tops if top.first <= mine.first and mine.last <= top.last
                )
                return context, max(covers, default=0)
            if mine is not None:
                return context, 0
        elif includes(shown, seq):
            return context, 0
        elif includes(whole, seq):
            return context, max((top.seq for top in context.tops if top.first <= seq <= top.last), default=0)
    return None


def _all_contexts(state: Contexts) -> Iterable[Context]:
    yield state.active
    for name in reversed(state.shelf):
        yield state.shelf[name]


async def _is_shown(moment: Moment, entry: Entry) -> bool:
    """What is in the window is shown, but for a result without its call and what was injected before."""
    if not isinstance(entry.event, ToolReturned | Injected):
        return True
    return any(entry.seq in message.seqs for message in await moment.messages())


# --- the entry itself ------------------------------------------------------------------------------------


def _role(event: Event) -> str:
    match event:
        case MessageAdded(role=role) | Injected(role=role):
            return role
        case ToolCalled(name=name):
            return name
        case ToolReturned():
            return "tool"
    return ""


def _line(entry: Entry, text: str | None) -> str:
    """The line of it that holds the text, or its beginning."""
    if text is None:
        return one_line(text_of(entry), PREVIEW)
    string = next((one for one in strings(entry.event) if text in one), "")
    at = string.find(text)
    start = max(0, min(at - PREVIEW // 3, len(string) - PREVIEW))
    return ("…" if start else "") + one_line(string[start:], PREVIEW - bool(start))
