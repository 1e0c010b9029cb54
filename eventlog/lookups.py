"""Fingerprint -> seqs, over the whole history of a chat: what ids were used, what long texts were said.

The newest fingerprints are in a dict; when there are enough of them they become a run: a sorted array of
64-bit rows, the upper half of a row a fingerprint's upper half, the lower half its seq. Runs are files in
``cache/lookups/<first>-<last>``, never changed once written, so that a fork shares them by hard link. A few
runs of one size are merged into one, so a lookup is a handful of bisections at any length of the history.

A cache: rows only propose lines, which the caller compares. A run that is damaged or missing is made again
from the log, and so is the part of the log that no run covers.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from xxhash import xxh3_64_intdigest

from eventlog.disk import Disk, publish, read_file
from eventlog.errors import CorruptLog, InvalidEvent
from eventlog.line import UNREADABLE, checked, decode, decode_loosely, seal_up
from eventlog.numbering import id_fingerprint, text_fingerprint
from eventlog.offsets import CACHE, ensure_cache
from eventlog.values import long_strings, unescape

LOOKUPS = f"{CACHE}/lookups"
_CUT = 4096  # fingerprints in the dict before they become a run
_FAN = 4  # runs of about one size before they are merged
_FULL = 1 << 18  # rows; a run of this size is merged no more
_SEQ = (1 << 32) - 1
_ROW = 8  # bytes
_NAME = re.compile(r"(\d{16})-(\d{16})")


class Run(msgspec.Struct, frozen=True):
    first: int
    last: int
    link: str  # of the last entry: a run of a history that a crash took away names another one
    rows: array  # type: ignore[type-arg]  # array has no runtime parameter in 3.11
    kept: bool = True  # is it in a file?


class _Title(msgspec.Struct):
    """The first line of a run's file."""

    link: str
    xxh3: int


_decode_title = msgspec.json.Decoder(_Title).decode


class Lookups:
    """``entries(first)``: the lines from seq ``first`` on, whole. ``link(seq)``: of a line; None if there is none."""

    def __init__(
        self,
        folder: Path,
        disk: Disk,
        entries: Callable[[int], Iterable[tuple[int, bytes]]],
        link: Callable[[int], str | None],
    ) -> None:
        self._folder = folder / LOOKUPS
        self._disk = disk
        self._entries = entries
        self._link = link
        self._recent: dict[int, list[int]] = {}
        self._runs: list[Run] = []
        self._next = 1  # the first seq that no run covers
        self._seen = 0  # everything up to this seq is here, in runs or recent
        self._loaded = False

    def find(self, fingerprint: int) -> list[int]:
        """Seqs that may have this fingerprint, the earliest first. Knows what ``catch_up`` and ``add`` told it."""
        upper = fingerprint >> 32
        found: list[int] = []
        for run in self._runs:
            index = bisect_left(run.rows, upper << 32)
            while index < len(run.rows) and run.rows[index] >> 32 == upper:
                found.append(run.rows[index] & _SEQ)
                index += 1
        found += self._recent.get(upper, ())
        return found

    def add(self, seq: int, fingerprints: Iterable[int]) -> None:
        """Of an entry after the last one we know. ``reach`` says when there are no more of them."""
        for fingerprint in fingerprints:
            self._recent.setdefault(fingerprint >> 32, []).append(seq)

    def reach(self, old: int, new: int) -> None:
        """The entries after ``old`` up to ``new`` are written, and were added if they have fingerprints."""
        if self._loaded and self._seen == old:
            self._seen = new

    def behind(self, head: int) -> int:
        """By how many entries. All of them before the first ``catch_up``."""
        return head - self._seen

    def is_due(self) -> bool:
        return len(self._recent) >= _CUT

    def forget_recent(self) -> None:
        """Some that were added are not written after all: what is recent has to be read again."""
        self._seen = self._next - 1
        self._recent.clear()

    def catch_up(self, head: int, at_most: int | None = None) -> None:
        """Reads what others appended, or what came before we were asked: all of it, or the next ``at_most``."""
        if not self._loaded:
            self._load()
        stop = head if at_most is None else min(head, self._seen + at_most)
        if self._seen < stop:
            for seq, line in self._entries(self._seen + 1):
                self.add(seq, fingerprints_of(line))
                self._seen = seq
                self.cut()
                if seq >= stop:
                    break

    def cut(self, *, force: bool = False) -> None:
        """Turns the recent fingerprints into a run, if they are many. Takes time: not before an answer."""
        if self._seen < self._next or not (self._recent if force else self.is_due()):
            return
        rows = sorted((upper << 32) | seq for upper, seqs in self._recent.items() for seq in seqs)
        self._runs.append(
            Run(self._next, self._seen, self._link(self._seen) or "", array("Q", rows), kept=False)
        )
        self._recent.clear()
        self._next = self._seen + 1
        self._merge()
        self._keep()

    def erase(self, left: dict[int, list[int]]) -> None:
        """No row says any more what was in these entries: only the fingerprints ``left`` of each."""
        if not self._loaded:
            self._load()
        for index, run in enumerate(self._runs):
            here = [seq for seq in left if run.first <= seq <= run.last]
            if here:
                rows = [row for row in run.rows if row & _SEQ not in left]
                rows += [(fingerprint >> 32 << 32) | seq for seq in here for fingerprint in left[seq]]
                self._runs[index] = Run(run.first, run.last, run.link, array("Q", sorted(rows)), kept=False)
        self.forget_recent()
        self._keep()

    # --- runs ----------------------------------------------------------------------------------------

    def _merge(self) -> None:
        while len(self._runs) >= _FAN:
            some = self._runs[-_FAN:]
            largest = max(len(run.rows) for run in some)
            if largest > _FULL // _FAN or largest > _FAN * max(len(some[-1].rows), _CUT):
                return
            rows = array("Q", sorted(row for run in some for row in run.rows))
            self._runs[-_FAN:] = [Run(some[0].first, some[-1].last, some[-1].link, rows, kept=False)]
            for run in some:
                with suppress(OSError):
                    self._disk.unlink(self._path(run))

    def _keep(self) -> None:
        with suppress(OSError):  # a cache that cannot be written is not needed
            ensure_cache(self._disk, self._folder.parent.parent)
            with suppress(FileExistsError):
                self._disk.make_folder(self._folder)
            for index, run in enumerate(self._runs):
                if not run.kept:
                    body = run.rows.tobytes()
                    title = seal_up(msgspec.json.encode(_Title(run.link, xxh3_64_intdigest(body)))[:-1])
                    publish(self._disk, self._path(run), title + b"\n" + body, durable=False)
                    self._runs[index] = Run(run.first, run.last, run.link, run.rows)

    def _path(self, run: Run) -> Path:
        return self._folder / f"{run.first:016d}-{run.last:016d}"

    def _load(self) -> None:
        """Takes the runs that cover the history from its start without a gap."""
        self._loaded = True
        ranges: list[tuple[int, int]] = []
        with suppress(OSError):
            for name in self._disk.names(self._folder):
                match = _NAME.fullmatch(name)
                if match:
                    ranges.append((int(match[1]), -int(match[2])))
        for first, minus_last in sorted(ranges):  # of two that start together, the longer is the merged one
            run = self._read(first, -minus_last) if first == self._next else None
            if run is not None:
                self._runs.append(run)
                self._next = run.last + 1
        self._seen = self._next - 1

    def _read(self, first: int, last: int) -> Run | None:
        try:
            line, _, body = read_file(self._disk, self._path(Run(first, last, "", array("Q")))).partition(
                b"\n"
            )
        except OSError:
            return None
        title = checked(line, _decode_title)
        if (
            title is None
            or len(body) % _ROW
            or title.xxh3 != xxh3_64_intdigest(body)
            or title.link != self._link(last)
        ):
            return None
        run = Run(first, last, title.link, array("Q"))
        run.rows.frombytes(body)
        return run


def fingerprints_of(line: bytes) -> list[int]:
    """Of a whole line: its long strings', and its id's.

    An event that somebody made up may be one that nobody can take apart. Then it has no long strings: that a text is
    recognised saves room, no more. But whether an id was used is asked of every entry.
    """
    try:
        fields = decode_loosely(line)
        texts, name = long_strings(fields["event"]), unescape(fields.get("id"))
    except (CorruptLog, InvalidEvent, *UNREADABLE):
        texts, name = [], decode(line).id
    found = [text_fingerprint(text) for text in texts]
    if isinstance(name, str):
        found.append(id_fingerprint(name))
    return found
