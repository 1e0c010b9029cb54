"""Fingerprint -> seqs, over the whole history of a chat: what ids were used, what long texts were said.

The newest fingerprints are in a dict; when there are enough of them they become a run (see ``runs``). A few
runs of one size are merged into one, so a lookup is a handful of bisections at any length of the history.

A cache: rows only propose lines, which the caller compares. A run that is damaged or missing is made again
from the log, and so is the part of the log that no run covers. An id must be recognised, so all rows are read and verified
for the first one; a text that is not is only written again, so for the first few the files of long runs are bisected.
"""

from array import array
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from chatfold.eventlog.batch import fingerprints_of
from chatfold.eventlog.files.cache import ORIGIN
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.runs import Run, Shelf, new_run, row_of, seq_in, seqs_in

_CUT = 4096  # fingerprints in the dict before they become a run
_FAN = 4  # runs of about one size before they are merged
_FULL = 1 << 18  # rows; a run of this size is merged no more
_OFTEN = 8  # questions: then files were bisected for about as long as it takes to read them


class Lookups:
    """``entries(first)``: the lines from seq ``first`` on, whole. ``link(seq)``: of a line; None if there is none."""

    def __init__(
        self,
        folder: Path,
        disk: Disk,
        entries: Callable[[int], Iterable[tuple[int, bytes]]],
        link: Callable[[int], str | None],
    ) -> None:
        self._shelf = Shelf(folder, disk)
        self._entries = entries
        self._link = link
        self._recent: dict[int, list[int]] = {}
        self._runs: list[Run] = []
        self._next = 1  # the first seq that no run covers
        self._seen = 0  # everything up to this seq is here, in runs or recent
        self._loaded = False
        self._held = True  # are the rows of all runs here?
        self._asked = 0  # how often, while they were not

    def find(self, fingerprint: int) -> list[int]:
        """Seqs that may have this fingerprint, the earliest first. Knows what ``catch_up`` and ``add`` told it."""
        found: list[int] = []
        for run in self._runs:
            found += (
                self._shelf.seqs(run, fingerprint) if run.rows is None else seqs_in(run.rows, fingerprint)
            )
        found += self._recent.get(fingerprint >> 32, ())
        self._asked += not self._held
        return found

    def begin_empty(self) -> None:
        """There are no entries, and so no runs of them."""
        self._loaded = True

    def add(self, seq: int, fingerprints: Iterable[int]) -> None:
        """Of an entry after the last one we know. ``reach`` says when there are no more of them."""
        for fingerprint in fingerprints:
            self._recent.setdefault(fingerprint >> 32, []).append(seq)

    def reach(self, old: int, new: int) -> None:
        """The entries after ``old`` up to ``new`` are written, and were added if they have fingerprints."""
        if self._loaded and self._seen == old:
            self._seen = new

    def knows(self, head: int, *, ids: bool) -> bool:
        """Is there nothing to read for texts, or for ``ids``, up to ``head``?"""
        return self._seen == head and (self._held or not ids)

    def forget_recent(self) -> None:
        """Some that were added are not written after all: what is recent has to be read again."""
        self._seen = self._next - 1
        self._recent.clear()

    def catch_up(self, head: int, at_most: int | None = None) -> None:
        """Reads what others appended, or what came before we were asked: all of it, for an id, or the next ``at_most``."""
        if not self._loaded:
            self._load()
        if at_most is None and not self._held:
            self._hold()
        stop = head if at_most is None else min(head, self._seen + at_most)
        if self._seen < stop:
            for seq, line in self._entries(self._seen + 1):
                self.add(seq, fingerprints_of(line))
                self._seen = seq
                if len(self._recent) >= _CUT:
                    self._cut()
                if seq >= stop:
                    break

    def is_untidy(self) -> bool:
        return len(self._recent) >= _CUT or self._asked >= _OFTEN

    def tidy(self, *, closing: bool) -> None:
        """Keeps what is recent, and holds what is asked for often. Takes time: not before an answer."""
        if closing or len(self._recent) >= _CUT:
            self._cut()
        if self._asked >= _OFTEN and not closing:
            self._hold()

    def erase(self, left: dict[int, list[int]]) -> None:
        """No row says any more what was in these entries: only the fingerprints ``left`` of each."""
        self._load()
        self._hold()
        for index, run in enumerate(self._runs):
            here = [seq for seq in left if run.first <= seq <= run.last]
            if here:
                rows = [row for row in run.rows or () if seq_in(row) not in left]
                rows += [row_of(fingerprint, seq) for seq in here for fingerprint in left[seq]]
                erased = new_run(run.first, run.last, run.before, run.link, rows)
                self._runs[index] = self._shelf.keep(erased)

    # --- runs ----------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Turns the recent fingerprints into a run."""
        link = self._link(self._seen) if self._recent and self._seen >= self._next else None
        if link is None:
            return  # nothing is new, or the log was cut meanwhile
        before = self._runs[-1].link if self._runs else ORIGIN
        rows = [(upper << 32) | seq for upper, seqs in self._recent.items() for seq in seqs]
        self._runs.append(new_run(self._next, self._seen, before, link, rows))
        self._recent.clear()
        self._next = self._seen + 1
        self._merge()
        self._runs = [self._shelf.keep(run) for run in self._runs]

    def _merge(self) -> None:
        while len(self._runs) >= _FAN:
            some = self._runs[-_FAN:]
            first, last, largest = some[0], some[-1], max(run.size for run in some)
            if largest > _FULL // _FAN or largest > _FAN * max(last.size, _CUT):
                return
            rows = [row for run in some for row in self._rows(run) or ()]
            if len(rows) != sum(run.size for run in some):
                return  # one is damaged, and made again by whoever loads the others
            self._runs[-_FAN:] = [new_run(first.first, last.last, first.before, last.link, rows)]
            for run in some:
                self._shelf.remove(run)

    def _load(self) -> None:
        """Takes the runs that cover the history from its start without a gap, but not the rows of long ones.

        Each names the end of the one before, and what the last one names is asked of the log.
        """
        self._loaded = True
        self._runs.clear()
        self._next, link = 1, ORIGIN
        for first, last in self._shelf.bounds():
            run = self._shelf.run(first, last) if first == self._next else None
            if run is not None and run.before == link:
                self._runs.append(run)
                self._next, link = run.last + 1, run.link
        while self._runs and self._link(self._runs[-1].last) != self._runs[-1].link:
            stale = self._runs.pop()
            self._shelf.remove(stale)
            self._next = stale.first
        self._held = all(run.rows is not None for run in self._runs)
        self.forget_recent()

    def _hold(self) -> None:
        """All rows are here, and verified."""
        if not self._read_all():
            self._load()  # others may have merged them meanwhile
            self._read_all()
        self._held, self._asked = True, 0

    def _read_all(self) -> bool:
        """Were they all there? If not, those from the first one on that was not are done without."""
        for index, run in enumerate(self._runs):
            rows = self._rows(run)
            if rows is None:
                del self._runs[index:]
                self._next = run.first
                self.forget_recent()
                return False
            self._runs[index] = msgspec.structs.replace(run, rows=rows)
        return True

    def _rows(self, run: Run) -> array | None:  # type: ignore[type-arg]
        return self._shelf.rows(run) if run.rows is None else run.rows
