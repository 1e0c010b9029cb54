"""Points: from what an address says to the entry that is meant, and back.

Turns, compactions, switches and requests are counted over the whole log, from 1, those that were rewound included: a
number never means something else later. A compaction of a range that cannot be is none. Nothing here reads more than a bounded piece of the log.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from chatfold.agent import Chat, Moment
from chatfold.eventlog import ModelCalled, NoSuchPoint
from chatfold.projections import lineage
from chatfold.projections.contexts import Control
from chatfold.projections.history import CALLED, History
from chatfold.replay.inspect.address import HEAD, Address, Point

COMPACTIONS = frozenset(("compacted",))
SWITCHES = frozenset(("opened", "switched", "cleared"))


async def seq_of(chat: Chat, point: Point, now: datetime | None = None) -> int:
    """The seq of the entry that is meant; 0 is before the first. Raises ``NoSuchPoint``."""
    seq = await _seq_of(chat, point, now or datetime.now(UTC)) - point.earlier
    if seq < 0:
        raise _nowhere(chat, f"{point} is before the beginning")
    return seq


async def range_of(chat: Chat, address: Address, now: datetime | None = None) -> tuple[int, int]:
    """The seqs of both ends; of an address without a point, the whole chat."""
    last = await seq_of(chat, address.last or HEAD, now)
    first = await seq_of(chat, address.first, now) if address.first else 0
    if address.is_range and first > last:
        raise _nowhere(chat, f"{address.first} (entry {first}) comes after {address.last} (entry {last})")
    return first, last


async def _seq_of(chat: Chat, point: Point, now: datetime) -> int:
    known = await chat.history()
    match point.kind:
        case "seq":
            return _check_number(chat, point.number, chat.seq, "entry")
        case "head":
            return chat.seq - point.number
        case "turn":
            return _turn(chat, known, point)
        case "compaction":
            return _nth(chat, list(controls(known, COMPACTIONS)), point, "compaction")
        case "switch":
            return _nth(chat, list(controls(known, SWITCHES)), point, "context switch")
        case "call":
            total = known.count(CALLED, chat.seq)
            number = total + 1 - point.number if point.backwards else point.number
            _check_number(chat, number, total, "request to a model", least=1)
            return known.find(CALLED, number)
        case "time" | "ago":
            return await chat.seq_of(point.time(now), as_said=True)  # as the times that are shown
        case "label":
            return _label(chat, point.name)


def _turn(chat: Moment, known: History, point: Point) -> int:
    total = known.turn_at(chat.seq)
    number = total - point.number if point.backwards else point.number
    _check_number(chat, number, total, "turn", least=int(point.start))
    if point.start:
        return known.asked_at(number)
    following = known.asked_at(number + 1)
    return following - 1 if following else chat.seq


def _nth(chat: Moment, seqs: list[int], point: Point, what: str) -> int:
    number = len(seqs) + 1 - point.number if point.backwards else point.number
    _check_number(chat, number, len(seqs), what, least=1)
    return seqs[number - 1]


def _check_number(chat: Moment, number: int, total: int, what: str, *, least: int = 0) -> int:
    if not least <= number <= total:
        there = f"the chat has {total}" if total else "the chat has none"
        raise _nowhere(chat, f"there is no {what} {number}: {there}")
    return number


def _label(chat: Moment, name: str) -> int:
    known = chat[lineage].checkpoints
    if name not in known:
        from difflib import get_close_matches  # noqa: PLC0415 (only after a typing error)

        near = get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise _nowhere(chat, f"there is no checkpoint {name!r}{hint}")
    return known[name]


def _nowhere(chat: Moment, message: str) -> NoSuchPoint:
    return NoSuchPoint(message, chat=chat.key, seq=chat.seq)


# --- and back --------------------------------------------------------------------------------------------


def controls(known: History, kinds: frozenset[str]) -> Iterator[int]:
    return (control.seq for control in known.controls if control.kind in kinds)


def names(known: History) -> dict[int, str]:
    """What the compactions and switches of a chat are called: seq -> ``c2``."""
    found: dict[int, str] = {}
    for letter, kinds in (("c", COMPACTIONS), ("s", SWITCHES)):
        found |= {seq: f"{letter}{number}" for number, seq in enumerate(controls(known, kinds), 1)}
    return found


def number_controls(known: History) -> dict[int, tuple[Control, int]]:
    """Each context event by its seq, with its number among those of its sort: ``c2`` is the second compaction of the
    log, ``s3`` the third time that another context became the active one, or should have."""
    counts: dict[str, int] = {}
    found: dict[int, tuple[Control, int]] = {}
    for control in known.controls:
        sort = "switch" if control.kind in SWITCHES else control.kind
        counts[sort] = counts.get(sort, 0) + 1
        found[control.seq] = control, counts[sort]
    return found


async def request(chat: Moment, number: int) -> tuple[int, ModelCalled]:
    """The seq and the event of the request of this number, which there is."""
    seq = (await chat.history()).find(CALLED, number)
    [entry] = await chat.read(((seq, seq),))
    assert isinstance(entry.event, ModelCalled)
    return seq, entry.event


async def request_number(chat: Moment, seq: int) -> int:
    """How many requests there are up to entry ``seq``."""
    return (await chat.history()).count(CALLED, seq)
