"""history: what happened where, for questions about the past: a byte for each entry, and the events that change contexts.

It grows with the log, so it is in no view and in no snapshot. It is made of chapters, one for each so many entries. A chapter
follows from its own entries, so one that is complete is kept once and stays. ``await chat.history()`` gives the whole.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import msgspec

from chatfold.eventlog import Entry, Event, Head, MessageAdded, ModelCalled, RunStarted
from chatfold.projections.context import Context
from chatfold.projections.contexts import MAIN, Contexts, Control, apply, choose_id, control_of
from chatfold.projections.packing import Unpack, pack
from chatfold.projections.spans import Span, Spans

CHAPTER = 1 << 14
"""How many entries a chapter has."""
_VERSION = 1
ASKED, INTERNAL, ANSWERED, RUN, CALLED, OTHER = b"u", b"i", b"a", b"r", b"m", b"."
"""A question of the user, what is in the user's role and no user has said, an answer; a run begins, a model is called."""
_SAID = (ASKED, INTERNAL, ANSWERED)


class Chapter(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The entries from ``first`` on. ``prev``: the link of the one before. ``began``: when the first was written."""

    first: int = 1
    prev: str = Head().link
    began: int = 0
    kinds: bytes = b""
    controls: tuple[Control, ...] = ()
    version: int = _VERSION

    @property
    def last(self) -> int:
        return self.first + len(self.kinds) - 1

    def then(self, entries: Sequence[Entry]) -> "Chapter":
        """With the next entries, which must follow its last one."""
        if not entries:
            return self
        controls = [control for entry in entries if (control := control_of(entry)) is not None]
        return Chapter(
            self.first,
            self.prev if self.kinds else entries[0].prev,
            self.began if self.kinds else entries[0].time,
            self.kinds + b"".join([_kind_of(entry.event) for entry in entries]),
            (*self.controls, *controls),
        )

    def until(self, last: int) -> "Chapter":
        """Without the entries after ``last``."""
        controls = tuple(control for control in self.controls if control.seq <= last)
        return Chapter(self.first, self.prev, self.began, self.kinds[: last - self.first + 1], controls)

    def dump(self) -> bytes:
        return pack(self)

    @classmethod
    def load(cls, data: bytes) -> "Chapter | None":
        """None if it is none, or of another version."""
        try:
            chapter = _unpack(data)
        except ValueError:
            return None
        return chapter if chapter.version == _VERSION else None


_unpack = Unpack(Chapter)


def _kind_of(event: Event) -> bytes:
    if type(event) is MessageAdded:
        if event.origin == "audit" or event.role not in ("user", "assistant"):
            return OTHER
        if event.role == "assistant":
            return ANSWERED
        return INTERNAL if event.origin == "internal" else ASKED
    if type(event) is RunStarted:
        return RUN
    return CALLED if type(event) is ModelCalled else OTHER


class History:
    """That of the entries up to ``seq``, what was rewound included."""

    def __init__(self, chapters: Sequence[Chapter] = ()) -> None:
        self.chapters = tuple(chapters)

    @property
    def seq(self) -> int:
        return self.chapters[-1].last if self.chapters else 0

    @property
    def began(self) -> int:
        """When the first entry was written; 0 if there is none."""
        return self.chapters[0].began if self.chapters else 0

    @property
    def controls(self) -> Iterator[Control]:
        """All context events, in order."""
        return (control for chapter in self.chapters for control in chapter.controls)

    def until(self, seq: int) -> "History":
        """Without the entries after ``seq``."""
        chapters = [chapter for chapter in self.chapters if chapter.first <= seq]
        return History([*chapters[:-1], *(chapter.until(seq) for chapter in chapters[-1:])])

    def then(self, entries: Sequence[Entry]) -> "History":
        """With the next entries, which must follow."""
        chapters = list(self.chapters)
        while entries:
            if not chapters or len(chapters[-1].kinds) >= CHAPTER:
                chapters.append(Chapter(entries[0].seq))
            room = CHAPTER - len(chapters[-1].kinds)
            chapters[-1] = chapters[-1].then(entries[:room])
            entries = entries[room:]
        return History(chapters)

    # --- messages and turns --------------------------------------------------------------------------------

    def count(self, kind: bytes, upto: int) -> int:
        """How many entries of this kind there are, up to a seq."""
        at = bisect_right(self._firsts, upto) - 1
        if at < 0:
            return 0
        chapter = self.chapters[at]
        before = self._counts(kind)[at - 1] if at else 0
        return before + chapter.kinds.count(kind, 0, upto - chapter.first + 1)

    def find(self, kind: bytes, number: int) -> int:
        """The seq of the entry of this kind that has this number, from 1 on; 0 if there is none."""
        counts = self._counts(kind)
        at = bisect_left(counts, number)
        if number < 1 or at == len(counts):
            return 0
        chapter, left = self.chapters[at], number - (counts[at - 1] if at else 0)
        ends = range(1, len(chapter.kinds) + 1)
        return chapter.first + bisect_left(ends, left, key=lambda end: chapter.kinds.count(kind, 0, end))

    def find_last(self, kind: bytes, upto: int, since: int = 1) -> int:
        """The seq of the newest entry of this kind in this range; 0 if there is none."""
        found = self.find(kind, self.count(kind, upto))
        return found if found >= since else 0

    def messages(self, some: Spans) -> int:
        """How many messages of users and assistants that a model may see these spans hold."""
        return sum(
            self.count(kind, last) - self.count(kind, first - 1) for first, last in some for kind in _SAID
        )

    def messages_back(self, span: Span) -> Iterator[tuple[int, bool]]:
        """Those of a span, the newest first: its seq, and if an assistant has said it."""
        first, last = span
        for chapter in reversed(self.chapters):
            for seq in range(min(last, chapter.last), max(first, chapter.first) - 1, -1):
                kind = chapter.kinds[seq - chapter.first : seq - chapter.first + 1]
                if kind in _SAID:
                    yield seq, kind == ANSWERED

    def last_answer(self, some: Spans) -> int:
        """The seq of the last message of an assistant in these spans; 0 if there is none."""
        found = (self.find_last(ANSWERED, last, first) for first, last in reversed(some))
        return next((seq for seq in found if seq), 0)

    def first_question(self, some: Spans) -> int:
        """The seq of the user's first message in these spans; 0 if there is none."""
        found = ((self.find(ASKED, self.count(ASKED, first - 1) + 1), last) for first, last in some)
        return next((seq for seq, last in found if 0 < seq <= last), 0)

    def turn_at(self, seq: int) -> int:
        """Which turn entry ``seq`` is in: how many questions of the user there are up to it."""
        return self.count(ASKED, seq)

    def asked_at(self, turn: int) -> int:
        """The seq of the question that turn ``turn`` begins with; 0 if there is no such turn."""
        return self.find(ASKED, turn)

    # --- runs ----------------------------------------------------------------------------------------------

    def run_at(self, seq: int) -> int:
        """The seq at which the newest run up to there began; 0 if there is none."""
        return self.find_last(RUN, seq)

    def since_run(self, back: int) -> int:
        """The seq from which on to read for the last so many runs, what was asked before the first included."""
        runs = self.count(RUN, self.seq)
        began = self.find(RUN, max(1, runs - back + 1))
        return (self.find_last(ASKED, began) or began) if back > 0 and began else 1

    # ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _firsts(self) -> list[int]:
        return [chapter.first for chapter in self.chapters]

    def _counts(self, kind: bytes) -> list[int]:
        """How many there are up to the end of each chapter."""
        if kind not in self._known:
            self._known[kind] = list(accumulate(chapter.kinds.count(kind) for chapter in self.chapters))
        return self._known[kind]

    @cached_property
    def _known(self) -> dict[bytes, list[int]]:
        return {}


def changes(history: History) -> Iterator[tuple[Control, Contexts, Contexts]]:
    """Every context event with the state before and after it, in order."""
    now = Contexts(active=Context(MAIN, created=history.began))
    seqs, states = [0], [now]
    for control in history.controls:
        before = now
        if control.kind == "rewound":
            now = states[bisect_right(seqs, control.last) - 1]
        control = choose_id(now, control)  # noqa: PLW2901 (the same, with the id of what it opens)
        now = apply(now, control)
        seqs.append(control.seq)
        states.append(now)
        yield control, before, now


def of_entries(entries: Iterable[Entry]) -> History:
    """Of a whole log that is in memory."""
    return History().then([*entries])
