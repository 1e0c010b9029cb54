"""matching: which history two moments share, and which message of the one is which of the other."""

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from chatfold.agent import Moment
from chatfold.projections import Message


class Key(NamedTuple):
    """``seq``: the entry that a message begins with; of results, the first call they answer. Or ``said``: what it says."""

    is_answer: bool
    seq: int = 0
    said: str | None = None
    number: int = 0


async def last_shared(before: Moment, after: Moment) -> int:
    """The seq of the last entry that both have: found by halving, since an entry's sum names all that came before it."""
    one, other = await before.now(), await after.now()
    last = min(one.seq, other.seq)
    if one.log is other.log and one.key == other.key:
        return last
    low = 0
    while low < last:
        middle = (low + last + 1) // 2
        if await _link(one, middle) == await _link(other, middle):
            low = middle
        else:
            last = middle - 1
    return low


async def _link(moment: Moment, seq: int) -> str:
    [entry] = await moment.read(((seq, seq),))
    return entry.link


def key_messages(messages: Sequence[Message], shared: int) -> dict[Key, Message]:
    """Each message by what makes it the same on both sides, in order.

    In the shared history that is the entry it begins with; results go by the first call they answer, be they recorded
    or not. Beyond, it is what it says, and how often that was said before.
    """
    found: dict[Key, Message] = {}
    often: Counts[str] = Counts()
    for message in messages:
        is_answer = bool(message.results)
        seq = message.results[0].call if message.results else message.seqs[0]
        if seq <= shared:
            found[Key(is_answer, seq)] = message
        else:
            said = _readable(message)
            often[said] += 1
            found[Key(is_answer, 0, said, often[said])] = message
    return found


def comparable(message: Message) -> str:
    """All that a provider gets of it, as something to compare: without our seqs, and NaN is NaN."""
    return repr(_without_seqs(message))


def _readable(message: Message) -> str:
    """The same as a person reads it: without the ids of calls, too."""
    bare = _without_seqs(message)
    return repr(replace(bare, calls=tuple(replace(call, id="") for call in bare.calls)))


def _without_seqs(message: Message) -> Message:
    return replace(
        message,
        seqs=(),
        calls=tuple(replace(call, seq=0) for call in message.calls),
        results=tuple(replace(result, seq=0, call=0) for result in message.results),
        answers=0,
    )


def out_of_order(places: Sequence[int]) -> set[int]:
    """Those that are not part of the longest rising run: the fewest that must have moved."""
    ends: list[int] = []  # ends[n]: the smallest place that a rising run of n + 1 ends with
    lengths: list[int] = []
    for place in places:
        at = bisect_left(ends, place)
        ends[at : at + 1] = [place]
        lengths.append(at + 1)
    moved: set[int] = set()
    wanted, below = len(ends), 1 << 62
    for place, length in zip(reversed(places), reversed(lengths), strict=True):
        if length == wanted and place < below:
            wanted, below = wanted - 1, place
        else:
            moved.add(place)
    return moved
