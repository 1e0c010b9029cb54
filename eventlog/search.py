"""Full-text search in one chat: which entries hold all words of a query, the best first.

What is found: text in which every word of the query occurs, be it as a part of a word; upper and lower case and
full-width forms are alike; ``"…"`` is one word with its spaces. In Chinese, Japanese and Korean any piece is found, a
single character too. Searched are messages, names of attached files, tool calls (name and arguments) and results,
summaries, titles, notes, texts injected and sent; all of them in full. Not reasoning, recalled copies and skills.

Order: first the entries that have every word of the query as a word of its own, then those with parts of words; in both
what has the words more often and is shorter; of two alike, what user and assistant said; then the newer. If there are
more matches than ``_ENOUGH``, only those of the newest blocks that hold so many compete.

A cache, made of blocks: see ``search_blocks``. The index only proposes seqs, and ``find`` shows what the entry, read
again, still says: so an entry that was redacted is not found, even by an index that does not know. Each block is a file,
``<path>.<first>-<last>``, written once; if it is damaged or missing, it is made again from the log.

``<path>`` itself names the epoch, and files of another epoch do not count. Whoever overwrites or deletes it, and then
the other files, makes all processes start over; what one of them still writes for the old epoch, it removes again.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop
from pathlib import Path

import msgspec

from chatfold.eventlog.disk import Disk, opened, publish, read_at, read_file
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.search_blocks import Block, Spans, decode_block
from chatfold.eventlog.search_terms import Query, excerpt, normal, parse, text_of

_ENOUGH = (2000, 500)  # matches that compete for the first places: with whole words, with parts of words
_WORTH = 512  # entries are worth a file before their block is full; next time it takes 8 times as many
SEARCH = "search"
_EPOCH = re.compile(rb"[0-9a-f]{32}")
_NAME = re.compile(r"\.(\d{16})-(\d{16})")


class Hit(msgspec.Struct, frozen=True):
    """``preview``: one line around the match, of at most 160 characters. ``score``: above 1, all are whole words."""

    seq: int
    score: float
    preview: str


class SearchIndex:
    """Of one chat, in memory or in files. For one thread at a time; any number of processes may use the files."""

    def __init__(self, path: Path | None, *, disk: Disk | None = None, may_write: bool = True) -> None:
        self._path = path  # None from the moment on at which it could not be written
        self._disk = disk or Disk()
        self._may_write = may_write
        self._epoch = ""  # that of the files, when we last looked
        self._start_over()
        self._refresh()

    @property
    def head(self) -> Head:
        """Up to where it is complete. Smaller than before, if somebody started over; larger, if somebody added."""
        self._refresh()
        return Head(self._tail.last, self._tail.link)

    def add(self, entries: Sequence[Entry]) -> bool:
        """Entries after ``head``, in order. Those that are there already are skipped; a gap ends it.

        False if they are not all in it: somebody made us start over.
        """
        self._refresh()
        self._ensure_epoch()
        for entry in entries:
            if entry.seq > self._tail.last + 1:
                break  # we had to start over since the caller asked for the head
            if entry.seq == self._tail.last + 1:
                self._tail.add(entry)
                if self._tail.is_full():
                    self._finish_block()
        if len(self._tail) >= max(_WORTH, 8 * self._kept) and self._keeps():
            self._keep(self._tail.frozen())
        return not entries or self._tail.last >= entries[-1].seq

    def find(
        self, query: str, read: Callable[[int], Entry | None], *, limit: int = 20, without: Spans = ()
    ) -> list[Hit]:
        """The best first, at most ``limit``; none within a span (first, last) of ``without``.

        ``read`` gives the entry as the log has it now. Raises ValueError if there is nothing in the query to look for.
        """
        wanted = parse(query)
        found: list[Hit] = []
        tried: set[int] = set()
        for wave in self._waves(wanted, without, limit):
            heapify(wave)
            while wave and len(found) < limit:
                minus_score, minus_seq = heappop(wave)
                if -minus_seq not in tried:
                    tried.add(-minus_seq)
                    found += _hits(read(-minus_seq), -minus_score, wanted)
            if len(found) >= limit:
                break
        return sorted(found, key=lambda hit: (-hit.score, -hit.seq))

    def clear(self) -> None:
        """Starts over, and makes every other process start over."""
        self._start_over()
        self._epoch = ""
        if self._may_write:
            self._ensure_epoch()
        else:
            self._path = None  # or we would read the same files again

    def close(self) -> None:
        """Keeps what is not in a file yet. The index is empty then."""
        if len(self._tail) > self._kept and self._keeps():
            self._keep(self._tail.frozen())
        self._start_over()
        self._path = None

    # --- blocks ----------------------------------------------------------------------------------------

    def _waves(self, query: Query, without: Spans, limit: int) -> Iterator[list[tuple[float, int]]]:
        """Matches as long as anybody asks: first the whole words, then all; each time the newest blocks first."""
        for whole in (True, False) if query.words else (True,):
            enough = max(limit, _ENOUGH[not whole])
            wave: list[tuple[float, int]] = []
            for block in (self._tail, *reversed(self._blocks)):
                wave += block.matches(query, without, whole=whole)
                if len(wave) >= enough:
                    yield wave
                    wave = []
            yield wave

    def _start_over(self) -> None:
        self._blocks: list[Block] = []
        self._tail = Block(1, Head().sum)
        self._kept = 0  # so many entries of the tail are in a file

    def _finish_block(self) -> None:
        block = self._tail.frozen()
        self._take(block)
        if self._keeps():
            self._keep(block)
        self._load()  # the next ones may be there: only this one was damaged, or another process is ahead

    def _take(self, block: Block) -> None:
        if block.is_full():
            self._blocks.append(block)
            self._tail = Block(block.last + 1, block.link)
            self._kept = 0
        else:
            self._tail = block.thawed()
            self._kept = len(block)

    # --- files -----------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Takes over what other processes did."""
        epoch = self._read_epoch()
        if self._path is not None and epoch != self._epoch:
            self._start_over()
            self._epoch = epoch
        self._load()

    def _load(self) -> None:
        for first, last in sorted(self._files(), key=lambda file: (file[0], -file[1])):
            if self._epoch and first == self._tail.first and last > self._tail.last:
                block = self._read(first, last)
                if block is not None:
                    self._take(block)

    def _read(self, first: int, last: int) -> Block | None:
        path = self._file(first, last)
        with suppress(OSError):
            block = decode_block(read_file(self._disk, path), self._epoch, first, self._tail.before)
            if block is not None and block.last == last:
                return block
            if self._may_write and self._read_epoch() == self._epoch:
                self._disk.unlink(path)
        return None

    def _keeps(self) -> bool:
        return self._path is not None and self._may_write and self._epoch != ""

    def _keep(self, block: Block) -> None:
        try:
            publish(self._disk, self._file(block.first, block.last), block.encode(self._epoch), durable=False)
            self._kept = len(block) if block.first == self._tail.first else 0
            for first, last in self._files():
                if first == block.first and last < block.last:
                    self._unlink(first, last)
            if self._read_epoch() != self._epoch:  # looked at last: a file of ours must not outlive its epoch
                self._unlink(block.first, block.last)
                self._refresh()
        except OSError:
            self._path = None  # from now on in memory

    def _ensure_epoch(self) -> None:
        """Begins a new epoch if there is none; the files of all others go."""
        if self._path is None or self._epoch or not self._may_write:
            return
        epoch = os.urandom(16).hex()
        try:
            with suppress(FileExistsError):
                self._disk.make_folder(self._path.parent)
            publish(self._disk, self._path, epoch.encode(), durable=False)
            for first, last in self._files():
                self._unlink(first, last)
            self._epoch = epoch
        except OSError:
            self._path = None

    def _read_epoch(self) -> str:
        """Empty if there is none."""
        if self._path is None:
            return ""
        try:
            with opened(self._disk, self._path) as fd:
                data = read_at(self._disk, fd, 0, 33)
        except OSError:
            return ""
        return data.decode() if _EPOCH.fullmatch(data) else ""

    def _files(self) -> list[tuple[int, int]]:
        return [] if self._path is None else _files(self._disk, self._path)

    def _file(self, first: int, last: int) -> Path:
        assert self._path is not None
        return _file(self._path, first, last)

    def _unlink(self, first: int, last: int) -> None:
        with suppress(FileNotFoundError):
            self._disk.unlink(self._file(first, last))


def share_search(disk: Disk, old: Path, new: Path, last: int) -> None:
    """The blocks of at most seq ``last`` go along with a fork. ``old``, ``new``: the paths given to ``SearchIndex``."""
    with suppress(FileNotFoundError):
        disk.link(old, new)
        for first, end in _files(disk, old):
            if end <= last:
                disk.link(_file(old, first, end), _file(new, first, end))


def _files(disk: Disk, path: Path) -> list[tuple[int, int]]:
    """(first, last) of the blocks that have a file."""
    try:
        names = disk.names(path.parent)
    except OSError:
        return []
    found = (_NAME.fullmatch(name, len(path.name)) for name in names if name.startswith(path.name))
    return [(int(match[1]), int(match[2])) for match in found if match]


def _file(path: Path, first: int, last: int) -> Path:
    return path.with_name(f"{path.name}.{first:016d}-{last:016d}")


def _hits(entry: Entry | None, score: float, query: Query) -> list[Hit]:
    """One, if the entry is what the index thinks it is."""
    text = text_of(entry) if entry is not None else ""
    folded = normal(text)
    if entry is None or not query.matches(folded):
        return []
    return [Hit(entry.seq, score, excerpt(text, folded, query))]
