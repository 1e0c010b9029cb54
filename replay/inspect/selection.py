"""Selecting: some entries of a chat, and its turns, without reading more than they need."""

from collections.abc import AsyncIterator, Callable

import msgspec

from chatfold.adapters import NOTES
from chatfold.agent import Moment
from chatfold.eventlog import (
    ChatfoldError,
    Compacted,
    ContextCleared,
    ContextOpened,
    ContextSwitched,
    Entry,
    MessageAdded,
    ModelReturned,
    Noted,
    RunFinished,
    ToolCalled,
)
from chatfold.projections.text import one_line
from chatfold.projections.usage import read_counts
from chatfold.replay.inspect.entries import (
    KIND_NAMES,
    LABELS,
    describe_parts,
    is_failure,
    kind_name,
    label_of,
)
from chatfold.replay.inspect.points import names

Wanted = Callable[[Entry], bool]
Progress = Callable[[int, int | None], None]

_KNOWN = frozenset((*LABELS, *KIND_NAMES))
_BEGINNING = 4000  # characters of a question or an answer


class BadKind(ChatfoldError, ValueError):
    next_step = "Kinds are: " + ", ".join(LABELS)


def parse_kinds(text: str) -> frozenset[str]:
    """``user,call,comp``: labels of a list or names on disk, or the beginning of some. Raises ``BadKind``; nothing is all."""
    found: set[str] = set()
    for word in text.replace(",", " ").lower().split():
        known = word.replace("-", " ").replace("_", " ")
        if exact := {one for one in _KNOWN if one.replace("_", " ") == known}:
            found |= exact
        elif begun := {one for one in _KNOWN if one.replace("_", " ").startswith(known)}:
            found |= begun
        else:
            raise BadKind(f"there is no kind {word!r}")
    return frozenset(found)


def kind_filter(kinds: frozenset[str] = frozenset(), *, errors: bool = False, notes: bool = True) -> Wanted:
    """Is an entry of one of these kinds, if there are any? ``errors``: and has something failed? ``notes``: those of adapters, too."""

    def is_wanted(entry: Entry) -> bool:
        if errors and not is_failure(entry.event):
            return False
        if not notes and isinstance(entry.event, Noted) and entry.event.name in NOTES:
            return False
        return not kinds or kind_name(entry.event) in kinds or label_of(entry.event) in kinds

    return is_wanted


async def select(
    chat: Moment,
    first: int,
    last: int,
    is_wanted: Wanted,
    *,
    most: int = 0,
    text: str = "",
    reverse: bool = False,
    progress: Progress = lambda *_: None,
) -> AsyncIterator[Entry]:
    """After ``first`` up to ``last``; the last ``most`` of them, if that is given; those that hold ``text``."""
    if text:
        seqs = [seq for seq in await chat.log.grep(chat.key, text) if first < seq <= last]
        source = _each(chat, seqs[::-1] if reverse or most else seqs)
    elif reverse or most:
        source = chat.log.read_back(chat.key, last)
    else:
        source = chat.log.read(chat.key, first + 1, last)
    newest: list[Entry] = []
    count = looked = 0
    async for entry in source:
        if entry.seq <= first:
            break
        looked += 1
        progress(looked, last - first)
        if is_wanted(entry):
            count += 1
            if most and not reverse:
                newest.append(entry)
            else:
                yield entry
            if count == most:
                break
    for entry in reversed(newest):
        yield entry


async def _each(chat: Moment, seqs: list[int]) -> AsyncIterator[Entry]:
    for seq in seqs:
        async for entry in chat.log.read(chat.key, seq, seq):
            yield entry


# --- turns -----------------------------------------------------------------------------------------------


class Turn(msgspec.Struct):
    """From a question of the user to the next one. ``size``: what the model said it was given last, 0 if it did not."""

    turn: int
    first: int
    last: int
    ts: int
    question: str
    answer: str = ""
    tools: dict[str, int] = {}
    failures: int = 0
    marks: list[str] = []  # its compactions and context switches, as addresses call them: c2, s3
    size: int = 0
    outcome: str = ""  # of its last run


async def turns(chat: Moment, first: int, last: int) -> AsyncIterator[Turn]:
    """Those that have an entry after ``first`` and up to ``last``, with what of them lies there."""
    known = await chat.history()
    called = names(known)
    now: Turn | None = None
    async for entry in chat.entries(first + 1, last):
        number = known.turn_at(entry.seq)
        if now is None or number != now.turn:
            if now is not None:
                yield now
            now = Turn(number, entry.seq, entry.seq, entry.time, "", tools={}, marks=[])
        _take(now, entry, called.get(entry.seq, ""))
    if now is not None:
        yield now


def _take(turn: Turn, entry: Entry, name: str) -> None:
    turn.last = entry.seq
    turn.failures += is_failure(entry.event)
    match entry.event:
        case MessageAdded(role="user", origin="exec", parts=parts):
            turn.question = one_line(describe_parts(parts, _BEGINNING), _BEGINNING)
        case MessageAdded(role="assistant", origin="exec", parts=parts):
            turn.answer = one_line(describe_parts(parts, _BEGINNING), _BEGINNING)
        case ToolCalled(name=tool):
            turn.tools[tool] = turn.tools.get(tool, 0) + 1
        case ModelReturned(usage=usage):
            turn.size = read_counts(usage, failed=False).input or turn.size
        case RunFinished(outcome=outcome):
            turn.outcome = outcome
        case Compacted() | ContextOpened() | ContextSwitched() | ContextCleared() if name:
            turn.marks.append(name)
