"""outline: what a list of chats shows. lineage: where a chat comes from, and its named points."""

from collections.abc import Mapping
from operator import itemgetter

import msgspec

from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    Entry,
    Forked,
    Json,
    MessageAdded,
)
from chatfold.projections.fold import projection
from chatfold.projections.sorted_map import SortedMap
from chatfold.projections.text import one_line, text_of

_TITLE = 80
_PREVIEW = 120
_WORDS, _WORD = 16, 200


class Outline(msgspec.Struct, frozen=True):
    """Everything that ever happened counts, also what was rewound."""

    title: str = ""  # as given, else the beginning of the first question
    messages: int = 0  # of users and assistants
    turns: int = 0  # questions of users
    created: int = 0  # when, in epoch milliseconds
    active: int = 0  # when anything was last said or done
    role: str = ""  # who spoke last
    preview: str = ""  # the beginning of what was said last
    titled: bool = False  # the title was given as such
    words: dict[str, str] = {}  # by which chats are chosen from a list


@projection(Outline, version=3)
def outline(state: Outline, entry: Entry) -> Outline:
    title, messages, turns, created, _, role, preview, titled, words = msgspec.structs.astuple(state)
    event, ts = entry.event, entry.time
    if type(event) is MessageAdded:
        if event.origin == "exec" and event.role in ("user", "assistant"):
            role, preview = event.role, one_line(text_of(event.parts), _PREVIEW)
            messages += 1
            if role == "user":
                turns += 1
                title = title or one_line(preview, _TITLE)
    elif type(event) is ChatStarted:
        words = _words(words, event.meta)
        if not titled and (given := one_line(event.title, _TITLE)):
            title, titled = given, True
    return Outline(title, messages, turns, created or ts, ts, role, preview, titled, words)


def _words(words: dict[str, str], meta: Mapping[str, Json]) -> dict[str, str]:
    """The strings of ``meta`` that are short, the newest of each name; few, since every row of a list holds them."""
    new = {name: word for name, word in meta.items() if isinstance(word, str) and len(name + word) <= _WORD}
    return dict([*(words | new).items()][:_WORDS]) if new else words


class Fork(msgspec.Struct, frozen=True):
    """From entry ``seq`` on this chat goes its own way; up to ``at`` it is the parent's."""

    seq: int
    parent: str
    at: int


class Lineage(msgspec.Struct, frozen=True):
    key: str = ""
    by_seq: SortedMap[int, Fork] = SortedMap()
    by_name: SortedMap[str, int] = SortedMap()

    @property
    def forks(self) -> tuple[Fork, ...]:
        """The oldest first: a fork of a fork has two."""
        return tuple(fork for _, fork in self.by_seq.items())

    @property
    def checkpoints(self) -> dict[str, int]:
        """Name -> seq; set again, a name moves."""
        return dict(sorted(self.by_name.items(), key=itemgetter(1)))

    @property
    def parent(self) -> Fork | None:
        last = next(reversed(self.by_seq), None)
        return None if last is None else self.by_seq[last]


@projection(Lineage, version=3, on=(ChatStarted, Forked, CheckpointSet))
def lineage(state: Lineage, entry: Entry) -> Lineage:
    match entry.event:
        case ChatStarted(key=key) if key and not state.key:
            return msgspec.structs.replace(state, key=key)
        case Forked(parent=parent, at=at) if 0 <= at < entry.seq:
            return Lineage(state.key, state.by_seq.set(entry.seq, Fork(entry.seq, parent, at)), state.by_name)
        case CheckpointSet(name=name):
            return Lineage(state.key, state.by_seq, state.by_name.set(name, entry.seq))
    return state
