"""Histories for the tests of projections: entries as a log gives them, and talks that are dense in context events."""

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest

from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Entry,
    Event,
    Forked,
    Head,
    Lost,
    MessageAdded,
    Noted,
    Redacted,
    Rewound,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.eventlog.erasure import scrub

NOON = 1_738_713_600_000


def user(text: str = "and now?") -> MessageAdded:
    return MessageAdded("user", (Text(text),))


def assistant(text: str = "like this") -> MessageAdded:
    return MessageAdded("assistant", (Text(text),))


def compacted(first: int, last: int, summary: str = "in short") -> Compacted:
    return Compacted(first, last, max(0, last - first + 1), summary)


def entries(
    events: Iterable[Event], *, runs: Iterable[str] = (), tick: int = 1, store: str = ""
) -> list[Entry]:
    """As a log gives them, ``tick`` milliseconds apart. The sums of two stores differ, as those on two disks do."""
    link = Head().link
    made = []
    for seq, (event, run) in enumerate(zip(events, chain(runs, repeat(None)), strict=False), 1):
        line = repr((store, seq, event, run, link)).encode("utf-8", "surrogatepass")
        made.append(Entry(seq, NOON + seq * tick, event, run, prev=link, sum=xxh3_64_hexdigest(line)))
        link = made[-1].link
    return made


def erased(history: Sequence[Entry]) -> list[Entry]:
    """The same history as it is read after all its ``redacted`` entries: tombstones where they point back to."""
    left = list(history)
    for entry in history:
        if isinstance(entry.event, Redacted):
            for seq in set(entry.event.seqs) & set(range(1, entry.seq)):
                old = left[seq - 1]
                sum_ = xxh3_64_hexdigest(f"tombstone of {old.link}".encode())
                left[seq - 1] = replace(old, event=scrub(old.event), was=old.link, sum=sum_)
    return left


# --- talks -----------------------------------------------------------------------------------------------


class Move(NamedTuple):
    """What one event of a talk is made from; seqs are told from where it stands, so that a talk can shrink."""

    kind: str
    back: int = 1  # the distance to an earlier entry, or nonsense: see ``_seq``
    other: int = 1
    id: str = "a"
    text: str = ""
    carry: tuple[int, ...] = ()


def _move(*kinds: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Move]:
    return st.builds(Move, st.sampled_from(kinds), **fields)


_LAST_CLEARED = "the id that the last clearing gave"
_ids = st.sampled_from(("a", "b", "main", "", "main-3", _LAST_CLEARED))
_texts = st.sampled_from(("", "a plan", "words \n and words", "ü" * 201, "long " * 60))
_back = st.one_of(st.integers(1, 4), st.integers(1, 30))
_carry = st.lists(_back, max_size=3).map(tuple)
_spoken = _move("user", "assistant", text=_texts)
_moved = _move("opened", "switched", "cleared", id=_ids, text=_texts, carry=_carry)
_compacted = _move("compacted", "recompacted", back=_back, other=_back, text=_texts)
_undone = _move("reverted", "rewound", "reverted", "rewound", "any reverted", back=_back)
_erased = _move("redacted", "control redacted", back=_back, other=_back)
_others = _move("audit", "internal", "system", "tool", "noise", "unknown", "forked", "lost", back=_back)
_started = _move("started", text=_texts)
_moves = st.one_of(
    *(_spoken,) * 3, *(_moved,) * 3, *(_compacted,) * 3, *(_undone,) * 2, _others, _erased, _started
)


def _seq(at: int, back: int) -> int:
    """Mostly the entry that many before ``at``, else one that is not there."""
    return {25: at, 26: 0, 27: -3, 28: at + 1, 29: 10**30, 30: 1}.get(back, at - back)


def _nth_last(kind: type[Event], back: int, so_far: list[Event]) -> int:
    """The seq of an earlier event of that kind; if there is none, of any."""
    found = [seq for seq, event in enumerate(so_far, 1) if isinstance(event, kind)]
    return found[-1 - back % len(found)] if found else _seq(len(so_far) + 1, back)


def _event(move: Move, so_far: list[Event]) -> Event:
    at = len(so_far) + 1
    seq, other = _seq(at, move.back), _seq(at, move.other)
    carry = tuple(_seq(at, back) for back in move.carry)
    id = move.id  # noqa: A001
    if id == _LAST_CLEARED:
        id = f"main-{_nth_last(ContextCleared, 0, so_far)}"  # noqa: A001
    match move.kind:
        case "user" | "assistant" | "system" as role:
            return MessageAdded(role, (Text(move.text),))
        case "audit" | "internal" as origin:
            return MessageAdded("assistant", (Text(move.text),), origin=origin)
        case "opened":
            return ContextOpened(id, move.text, move.text and f"for {move.text}", carry)
        case "switched":
            return ContextSwitched(id, carry, move.text)
        case "cleared":
            return ContextCleared(move.text, carry)
        case "compacted":
            reverse = move.other % 8 == 0
            first, last = (seq, other) if reverse else (min(seq, other), max(seq, other))
            return compacted(first, last, move.text)
        case "recompacted":
            return _around(so_far, move)
        case "reverted":
            return CompactionReverted(_nth_last(Compacted, move.back, so_far), move.text)
        case "any reverted":
            return CompactionReverted(seq)
        case "rewound":
            return Rewound(seq, move.text)
        case "redacted":
            return Redacted((seq, other, *carry), move.text)
        case "control redacted":
            wanted = (ContextOpened, ContextSwitched, ContextCleared, Compacted)[move.other % 4]
            return Redacted((_nth_last(wanted, move.back, so_far),))
        case "started":
            return ChatStarted(id, move.text)
        case "tool":
            return ToolCalled("c", "read") if move.back % 2 else ToolReturned("c", (Text(move.text),))
        case "noise":
            return (Noted("n", ref=seq), CheckpointSet("here"), ContextRecalled(id))[move.back % 3]
        case "unknown":
            return Unknown("context_merged", b'{"type":"context_merged","to":"a"}')
        case "forked":
            return Forked("elsewhere", seq)
    return Lost(move.text)


def _around(so_far: list[Event], move: Move) -> Event:
    """A range at most an entry away from one that was compacted before: equal, nested or overlapping."""
    at = len(so_far) + 1
    before = so_far[seq - 1] if 0 < (seq := _nth_last(Compacted, move.back, so_far)) < at else None
    first, last = (before.first, before.last) if isinstance(before, Compacted) else (seq, seq)
    return compacted(first + move.back % 3 - 1, last + move.other % 3 - 1, move.text)


def _told(moves: list[Move]) -> list[Event]:
    so_far: list[Event] = []
    for move in moves:
        so_far.append(_event(move, so_far))
    return so_far


@st.composite
def talks(draw: st.DrawFn) -> list[Event]:
    """A number and then so many moves: that is longer than a list is by default, and shrinks far better."""
    return _told([draw(_moves) for _ in range(draw(st.integers(0, 40)))])
