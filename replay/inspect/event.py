"""event: one entry, with what belongs to it and what it changed in the model's sight."""

import msgspec

from chatfold.agent import Chat
from chatfold.eventlog import Entry, NoSuchPoint
from chatfold.replay.inspect.diff import compare
from chatfold.replay.inspect.entries import Row, kind_name, row
from chatfold.replay.inspect.pairs import pair_of
from chatfold.replay.inspect.points import names


class EventView(msgspec.Struct, frozen=True):
    """``belongs``: the seqs of what answers it, or of what it answers."""

    chat: str
    turn: int
    name: str  # in addresses: c2, s3
    kind: str
    entry: Entry
    belongs: dict[str, int]
    left: tuple[int, ...]  # the items that the model no longer sees after it
    added: tuple[int, ...]
    tokens_before: int
    tokens_after: int
    context: str

    @property
    def row(self) -> Row:
        return row(self.entry, self.turn, self.name, most=1)


async def event_of(chat: Chat, seq: int) -> EventView:
    """Raises ``NoSuchPoint`` before the first entry."""
    if not seq:
        raise NoSuchPoint("before the first entry there is nothing to show", chat=chat.key)
    [entry] = await chat.log.last(chat.key, 1, seq)
    change = await compare(await chat.at(seq - 1), await chat.at(seq))
    known = await chat.history()
    return EventView(
        chat.key,
        known.turn_at(entry.seq),
        names(known).get(entry.seq, ""),
        kind_name(entry.event),
        entry,
        await pair_of(chat, entry),
        tuple(item.seq for item in change.left),
        tuple(item.seq for item in change.added),
        change.before.tokens.count,
        change.after.tokens.count,
        change.after.context,
    )
