"""Contexts as lists of seqs, as their rules say and in the most obvious way: nothing shared, everything counted anew.

The state after every entry is kept, so that ``rewound`` takes an earlier one as it was.
"""

from dataclasses import dataclass, field
from typing import Any

from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextSwitched,
    Entry,
    Event,
    MessageAdded,
    Rewound,
    Text,
)


@dataclass(frozen=True)
class Mark:
    """A compaction: the entry that made it, and what it hides."""

    seq: int
    first: int
    last: int

    def covers(self, other: "Mark") -> bool:
        return self.first <= other.first and other.last <= self.last


@dataclass
class Thought:
    """One context."""

    id: str
    opened: int = 0
    created: int = 0
    title: str = ""
    archived: int = 0
    reason: str = ""
    items: list[int] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)  # in force, swallowed ones included
    carried: set[int] = field(default_factory=set)  # in, and not compacted since

    def copy(self) -> "Thought":
        own = {"items": list(self.items), "marks": list(self.marks), "carried": set(self.carried)}
        return Thought(**{**vars(self), **own})

    @property
    def visible(self) -> list[int]:
        covered = {seq for seq in self.items for m in self.marks if m.first <= seq <= m.last}
        return [seq for seq in sorted(self.items) if seq in self.carried or seq not in covered]

    @property
    def summaries(self) -> list[Mark]:
        """Without those that a later one has swallowed, in the order of what they hide."""
        shown = [
            mark
            for index, mark in enumerate(self.marks)
            if not any(later.covers(mark) for later in self.marks[index + 1 :])
        ]
        return sorted(shown, key=lambda mark: (mark.first, mark.seq))


@dataclass
class State:
    active: Thought
    shelf: list[Thought]  # last left last

    def copy(self) -> "State":
        return State(self.active.copy(), [thought.copy() for thought in self.shelf])

    @property
    def all(self) -> list[Thought]:
        return [*self.shelf, self.active]

    def find(self, id: str) -> Thought | None:
        return next((thought for thought in self.all if thought.id == id), None)


class Model:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.states: list[State] = [State(Thought("main"), [])]

    @property
    def now(self) -> State:
        return self.states[-1]

    def add(self, entry: Entry) -> None:
        if entry.seq == 1:
            self.states[0].active.created = entry.ts
        self.entries.append(entry)
        state = self._changed(self.now.copy(), entry)
        state.active.items.append(entry.seq)  # whatever it is, it belongs to where it has led
        self.states.append(state)

    def _changed(self, state: State, entry: Entry) -> State:
        match entry.event:
            case ChatStarted(title=title) if state.active.id == "main" and not state.active.title:
                state.active.title = short(title, 200)
            case ContextOpened(id=id, title=title) if state.find(id) is None:
                new = Thought(id, entry.seq, entry.ts, short(title, 200))
                self._leave(state, new, entry)
            case ContextCleared():
                id = f"main-{entry.seq}"  # noqa: A001
                while state.find(id):
                    id += "-"  # noqa: A001
                self._leave(state, Thought(id, entry.seq, entry.ts), entry)
            case ContextOpened(id=id) | ContextSwitched(to=id):
                there = state.find(id)
                if there is not None and there is not state.active:
                    self._leave(state, there, entry)
            case Compacted(first=first, last=last):
                self._compact(state.active, Mark(entry.seq, max(first, 1), min(last, entry.seq - 1)))
            case CompactionReverted(seq=seq):
                for thought in state.all:
                    thought.marks = [mark for mark in thought.marks if mark.seq != seq]
            case Rewound(to=to) if 0 <= to < entry.seq:
                return self.states[to].copy()
        return state

    def _leave(self, state: State, to: Thought, entry: Entry) -> None:
        event = entry.event
        assert isinstance(event, ContextOpened | ContextSwitched | ContextCleared)
        carried = {seq for seq in event.carry if 0 < seq < entry.seq}
        left = state.active
        left.archived, left.reason = entry.ts, short(event.reason, 200)
        left.items = [seq for seq in left.items if seq not in carried]
        to.archived, to.reason = 0, ""
        to.items = sorted({*to.items, *carried})
        left.carried -= carried
        to.carried |= carried
        state.shelf = [*(thought for thought in state.shelf if thought is not to), left]
        state.active = to

    def _compact(self, active: Thought, new: Mark) -> None:
        swallows = new.first <= new.last and any(new.covers(mark) for mark in active.summaries)
        if swallows or any(new.first <= seq <= new.last for seq in active.visible):
            active.marks.append(new)
            active.carried -= set(range(new.first, new.last + 1))

    # --- what is asked of it -------------------------------------------------------------------------------

    def event(self, seq: int) -> Event:
        return self.entries[seq - 1].event

    def messages(self, thought: Thought, *roles: str) -> list[int]:
        return [
            seq
            for seq in sorted(thought.items)
            if isinstance(event := self.event(seq), MessageAdded)
            and event.role in roles
            and event.origin != "audit"
        ]

    def checkpoint(self, thought: Thought) -> int:
        return max(self.messages(thought, "assistant"), default=0)

    def count(self, thought: Thought) -> int:
        return len(self.messages(thought, "user", "assistant"))

    def index(self) -> list[dict[str, Any]]:
        """The rows of the archive, as JSON has them."""
        return [
            {
                "contextId": thought.id,
                "title": thought.title or self._question(thought),
                "createdAt": thought.created,
                "archivedAt": thought.archived,
                "messageCount": self.count(thought),
                "reason": thought.reason,
                "checkpoint": self.checkpoint(thought),
                "summaryPreview": self._preview(thought),
            }
            for thought in reversed(self.now.shelf)
            if self.count(thought)
        ]

    def _question(self, thought: Thought) -> str:
        asked = [
            seq for seq in self.messages(thought, "user") if getattr(self.event(seq), "origin", "") == "exec"
        ]
        return self._words(asked[0] if asked else 0)

    def _preview(self, thought: Thought) -> str:
        return self._words(max((mark.seq for mark in thought.summaries), default=self.checkpoint(thought)))

    def _words(self, seq: int) -> str:
        match self.event(seq) if seq else None:
            case Compacted(summary=text):
                return short(" ".join(text.split()), 120)
            case MessageAdded(parts=parts):
                words = [part.text for part in parts if isinstance(part, Text)]
                return short(" ".join("\n".join(words).split()), 120)
        return ""


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
