"""What numbering asks of a chat on disk: which ids and texts there were, and the lines that hold them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.errors import ChatfoldError
from chatfold.eventlog.files.lookups import Lookups
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.line import link_after

_NEARBY = 5000  # entries: about a segment


class FolderHistory:
    """The lines of a folder, and those that were numbered after them and are not written yet."""

    def __init__(self, folder: LogReader) -> None:
        self._folder = folder
        self._lookups = Lookups(folder.path, folder.disk, self._whole_lines, folder.link)
        self._pending: dict[int, bytes] = {}  # and those of the folder that were asked for meanwhile
        # seq -> link, of the last batches, which the writer keeps: each of many appenders knows another.
        self.batch_ends: dict[int, str] = {}
        self.is_tracking = False
        self._is_current = False  # are the lookups up to date while entries are numbered?

    # --- what ``build_batch`` asks -------------------------------------------------------------------------

    def find(self, fingerprint: int) -> list[int]:
        return self._lookups.find(fingerprint)

    def line(self, seq: int) -> bytes:
        line = self._pending.get(seq)
        if line is None:  # a group of appends often asks for the same one
            line = self._pending[seq] = self._folder.line(seq)
        return line

    def link(self, seq: int) -> str:
        return self.batch_ends.get(seq) or link_after(self.line(seq)).decode()

    def blob(self, digest: str) -> bytes:
        return self._folder.blob(digest)

    def add(self, seq: int, line: bytes, fingerprints: list[int]) -> None:
        self._pending[seq] = line
        if self._is_current:
            self._lookups.add(seq, fingerprints)

    # --- around it ------------------------------------------------------------------------------------

    def prepare(self, requests: Sequence[AppendRequest], head: int) -> None:
        """Knows enough of the history up to ``head`` to number these.

        An id holds over all of it. A repeated text need not be recognised: when the caches were deleted, the
        history is read again bit by bit, about a segment with each append that has a long text.
        """
        if not self.is_prepared(requests, head):
            self._lookups.catch_up(head, at_most=None if _has_ids(requests) else _NEARBY)
        self._is_current = self._lookups.knows(head, ids=False)

    def is_prepared(self, requests: Sequence[AppendRequest], head: int) -> bool:
        """Would ``prepare`` have nothing to read?"""
        ids = _has_ids(requests)
        return self._lookups.knows(head, ids=ids) or not (ids or _has_texts(requests))

    def begin_empty(self) -> None:
        """The chat is being made by us: there is nothing before it to read."""
        self._lookups.begin_empty()

    def mark_written(self, old: int, new: int) -> None:
        """Everything that was numbered after ``old`` is in the folder now, up to ``new``."""
        self._lookups.reach(old, new)
        self._pending.clear()

    def discard_pending(self) -> None:
        """Some of what was numbered will never be written."""
        self.batch_ends.clear()
        self._pending.clear()
        self._lookups.forget_recent()

    @property
    def is_untidy(self) -> bool:
        return self._lookups.is_untidy()

    def tidy(self, *, closing: bool = False) -> None:
        """Keeps the lookups for the next time. Takes a while: not before an answer."""
        with suppress(ChatfoldError, OSError):  # of a chat that may have been deleted
            self._lookups.tidy(closing=closing)

    def _whole_lines(self, first: int) -> Iterator[tuple[int, bytes]]:
        for page in self._folder.line_pages(first):
            for line in page:
                yield first, self._folder.resolve_line(line)
                first += 1


def _has_ids(requests: Sequence[AppendRequest]) -> bool:
    return any(request.has_names for request in requests)


def _has_texts(requests: Sequence[AppendRequest]) -> bool:
    return any(draft.texts for request in requests for draft in request.events)
