"""Where an id, a key or a long text of a chat was seen before: fingerprint -> seqs, over the whole history.

The newest fingerprints are in a dict; when there are enough of them, they go to ``seen_files``, after the answer. What no file
covers is read from the log, and so is everything after a file is found damaged. Rows only propose lines; ``batch`` compares.

An id and a key must be recognised. If much is to be read for that, ``HistoryUnread`` says so before anything is written, and the
history is read without the chat's lock; see ``FileStorage.append``. A text that is not recognised is only written again.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from chatfold.eventlog.batch import fingerprints_of, id_fingerprint, key_fingerprint
from chatfold.eventlog.codec import decode
from chatfold.eventlog.errors import ChatfoldError, CorruptLog
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.seen_files import CUT, SeenFiles
from chatfold.eventlog.line import link_after
from chatfold.eventlog.values import LONG

_FAR = 4096  # entries that go to a file, however few fingerprints they have
_NEARBY = 1024  # entries that are read while an append waits
_MORE = 4 * _NEARBY  # that are read after the answer, for texts
_FEW = 64  # entries that are read sooner than they are kept in a file


class HistoryUnread(ChatfoldError):
    """Nothing was written: to recognise an id or a key, much of the history has to be read first."""


class Seen:
    """What the chat of a ``reader`` has said before. Serves one thread at a time. Nothing is read before the first question.

    ``line_of``: a line of the log, if there is a quicker way than the reader's.
    """

    def __init__(self, reader: LogReader, line_of: Callable[[int], bytes] | None = None) -> None:
        self.reader = reader
        self._line_of = line_of or reader.line
        self.is_tracking = False  # are all lines added that are numbered now?
        self.has_work = False  # for ``tidy``
        # seq -> link, of the last batches, which the writer keeps: each of many appenders knows another.
        self.links: dict[int, str] = {}
        self.reads_all = False  # the next time, however much it is
        self._files = SeenFiles(reader.cache, reader.disk, reader.link)
        self._is_loaded = False
        self._recent: dict[int, list[int]] = {}  # of the entries after those in files
        self._covered = 0  # the last one in files
        self._upto, self._link = 0, Head().link  # the last one that is known
        # What was numbered and is not written yet, and lines of the log that were asked for meanwhile.
        self._pending: dict[int, bytes] = {}
        self._new: dict[int, list[int]] = {}
        self._asked: dict[int, bytes] = {}

    # --- what ``build_batch`` asks -------------------------------------------------------------------------

    def find(self, fingerprint: int) -> list[int]:
        """Seqs that may have this fingerprint, the earliest first."""
        upper = fingerprint >> 32
        found = self._files.find(upper)
        if found is None:
            self._load()
            raise HistoryUnread("a cache was damaged, or is gone")
        if recent := self._recent.get(upper):
            found += recent
        if new := self._new.get(upper):
            found += new
        return found

    def line(self, seq: int) -> bytes:
        line = self._pending.get(seq) or self._asked.get(seq)
        if line is None:  # a group of appends often asks for the same one
            line = self._asked[seq] = self._line_of(seq)
        return line

    def link(self, seq: int) -> str:
        line = self._pending.get(seq)
        return line[-18:-2].decode() if line else self.links.get(seq) or link_after(self.line(seq)).decode()

    def blob(self, digest: str) -> bytes:
        return self.reader.blob(digest)

    def add(self, seq: int, line: bytes, fingerprints: Iterable[int]) -> None:
        self._pending[seq] = line
        for fingerprint in fingerprints:
            self._new.setdefault(fingerprint >> 32, []).append(seq)

    # --- around it ------------------------------------------------------------------------------------------

    def begin_empty(self) -> None:
        """The chat is being made by us: there is nothing before it to read."""
        self._is_loaded = True

    def is_known(self, head: int) -> bool:
        """Is there nothing to read up to ``head``?"""
        return self._upto == head

    def prepare(self, head: int) -> None:
        """Read up to ``head`` if that is near. Else ids get ``HistoryUnread``, and texts are looked up in what is known."""
        self._asked.clear()  # an erasure may have come since
        if self._upto == head:
            return
        if not self._is_loaded or head - self._upto > _NEARBY:
            self._load()
        if head - self._upto <= _NEARBY or self.reads_all:
            self._read(head, keeping=self.reads_all)
            self.reads_all = False
        self.has_work = self._upto != head or self._is_full()

    def check_known(self, head: int) -> None:
        if self._upto != head:
            self.has_work = False  # the caller reads all of it
            raise HistoryUnread("the history was not read yet")

    def mark_written(self, old: int, seq: int, link: str) -> None:
        """What was numbered after ``old`` is in the log, up to ``seq``. What was not added has no fingerprints."""
        if self._upto == old:
            for upper, seqs in self._new.items():
                self._recent.setdefault(upper, []).extend(seqs)
            self._upto, self._link = seq, link
            if len(self._recent) >= CUT or seq - self._covered >= _FAR:
                self.has_work = True
        self._pending.clear()
        self._new.clear()

    def discard_pending(self, last: int = 0) -> None:
        """What was numbered after seq ``last`` will never be written."""
        self._pending = {seq: line for seq, line in self._pending.items() if seq <= last}
        self._new = {upper: [seq for seq in seqs if seq <= last] for upper, seqs in self._new.items()}

    def tidy(self, *, closing: bool = False) -> None:
        """Keep what is recent in a file, and read a part of what was not known. Takes a while: not before an answer."""
        self.has_work = False
        with suppress(ChatfoldError, OSError):  # of a chat that may have been deleted
            head = self.reader.tail().position.seq
            if self._is_loaded and not closing:
                self._read(min(head, self._upto + _MORE), keeping=True)
            if self._is_full() or (closing and self._upto - self._covered >= _FEW):
                self._cut()

    # --- without the chat's lock ------------------------------------------------------------------------------

    def find_entry(self, *, id: str | None, key: str | None) -> int | None:
        """The seq of the first entry that has the id or the key."""
        while True:
            self.catch_up()
            with suppress(HistoryUnread):  # as often as files are dropped
                return self._find_entry(id, key)

    def _find_entry(self, id: str | None, key: str | None) -> int | None:
        proposed = set[int]()
        if id is not None:
            proposed.update(self.find(id_fingerprint(id)))
        if key is not None:
            proposed.update(self.find(key_fingerprint(key)))
        for seq in sorted(proposed):
            entry = decode(self.reader.resolve_line(self.reader.line(seq)))
            if (id is not None and entry.id == id) or (key is not None and entry.key == key):
                return seq
        return None

    def catch_up(self) -> None:
        """Read all there is now. What is much is kept in files, where the chat's writer finds it."""
        head = self.reader.tail().position.seq
        if self._upto and self.reader.link(self._upto) != self._link:
            self._files.forget()  # another chat took the place
            self._is_loaded = False
        if not self._is_loaded or head - self._upto > _NEARBY:
            self._load()
        self._read(head, keeping=True)
        if self._upto - self._covered >= _NEARBY // 2 and not self._cut():
            self._read(head, keeping=False)

    # --- reading the log --------------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        return len(self._recent) >= CUT or self._upto - self._covered >= _FAR

    def _read(self, stop: int, *, keeping: bool) -> None:
        """``keeping``: what is enough for a file goes to one on the way."""
        while self._upto < stop:
            for page in self.reader.line_pages(self._upto + 1, stop):
                self._add_lines(page)
                if keeping and self._is_full():
                    keeping = self._cut()
                    break  # the place is another one if an erasure came meanwhile
            else:
                return

    def _add_lines(self, lines: list[bytes]) -> None:
        for seq, line in enumerate(lines, self._upto + 1):
            for fingerprint in self._fingerprints(line) if _may_have_some(line) else ():
                self._recent.setdefault(fingerprint >> 32, []).append(seq)
        self._upto, self._link = self._upto + len(lines), link_after(lines[-1]).decode()

    def _fingerprints(self, line: bytes) -> list[int]:
        try:
            return fingerprints_of(line)
        except CorruptLog:  # forged, and cannot be read without what it refers to
            return fingerprints_of(self.reader.resolve_line(line))

    # --- files ------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Take what the files say, and forget what is recent."""
        self._is_loaded = True
        if self._files.load():
            self._recent.clear()
            end = self._files.end
            self._covered, self._upto, self._link = end.seq, end.seq, end.link

    def _cut(self) -> bool:
        """What is recent goes to a file. False: it is forgotten, because the files are not what they were."""
        rows = [(upper << 32) | seq for upper, seqs in self._recent.items() for seq in seqs]
        is_kept = self._files.add(Head(self._upto, self._link), rows)
        if is_kept:
            self._recent.clear()
            self._covered = self._upto
        else:
            self._load()
        return is_kept


def _may_have_some(line: bytes) -> bool:
    """Can it have fingerprints? A reference is to a line that has them."""
    return len(line) >= LONG or b'"id"' in line or b'"key"' in line or b"\\u" in line
