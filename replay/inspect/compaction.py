"""compaction: one compaction as a card: what left, and how much of each item the summary kept."""

import msgspec

from chatfold.agent import Chat
from chatfold.eventlog import Compacted, Json, NoSuchPoint
from chatfold.replay.inspect.diff import Side, compare
from chatfold.replay.inspect.items import Item, text_of
from chatfold.replay.inspect.points import number_controls
from chatfold.replay.inspect.why import Survival, survival


class Fate(msgspec.Struct, frozen=True):
    """An item that left. ``kept``: how much of its words the summary has, and which."""

    item: Item
    kept: Survival


class Compaction(msgspec.Struct, frozen=True):
    """``left``: people's items first, then those of which least was kept. ``revert``: the code that takes it back."""

    chat: str
    seq: int
    number: int  # as in c2
    trigger: str
    policy: dict[str, Json]
    summary: str
    before: Side
    after: Side
    left: tuple[Fate, ...]
    kept: int  # items that stayed
    prefix: int  # messages at the beginning that are the same
    prefix_tokens: int
    cache: str
    revert: str


async def compaction_of(chat: Chat, seq: int) -> Compaction:
    """Of the compaction that entry ``seq`` is. Raises ``NoSuchPoint``."""
    before, after = await chat.at(seq - 1), await chat.at(seq)
    [entry] = await after.read(((seq, seq),))
    event = entry.event
    if not isinstance(event, Compacted):
        raise NoSuchPoint(f"entry {seq} is no compaction", chat=chat.key, seq=seq)
    found = await compare(before, after)
    texts = {message.seqs: text_of(message) for message in await before.messages()}
    left = [Fate(item, survival(texts[item.seqs], event.summary)) for item in found.left]
    left.sort(key=lambda one: (one.item.kind != "user", one.kept.share))
    return Compaction(
        chat.key,
        seq,
        number_controls(await after.history())[seq][1],
        event.trigger,
        event.policy,
        event.summary,
        found.before,
        found.after,
        tuple(left),
        len(found.kept),
        found.prefix,
        found.prefix_tokens,
        found.cache,
        f"await chat.revert_compaction({seq})",
    )
