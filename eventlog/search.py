"""Full-text search in one chat: which entries hold all words of a query, the best first.

What is found: text in which every word of the query occurs, as a part of a word or across words, upper and lower case
and full-width forms alike; ``"…"`` is one word with its spaces. In Chinese, Japanese and Korean any piece is found, a
single character too. Searched are messages, names of attached files, tool calls (name and arguments) and results,
summaries, titles, notes, texts injected and sent; all of them in full. Not reasoning, recalled copies and skills.

How: for each block of ``_BLOCK`` entries the vocabulary, one term a line, and for each term the entries that have it.
Looking for a part of a word is looking for it in the vocabulary, which is far smaller than the text. Blocks begin at
fixed seqs, so it makes no difference in how many calls, or by which process, entries were added.

Order: entries that have every word of the query as a whole word come first; then counts how often the words are in an
entry, for how long it is; of two alike, what user and assistant said, and what is newer. Of more than ``_ENOUGH``
matches only the newest blocks that hold so many compete.

A cache. The index has no texts: it proposes seqs, and ``find`` shows only what the entry, read again, still says. An
entry that was redacted is therefore never found, even by an index that does not know. Each block is a file,
``<path>.<first>-<last>``, written once; damaged or missing, it is made again from the log. ``<path>`` itself names the
epoch. Files of another epoch do not count: so whoever deletes or overwrites that one file, and the others after it,
makes every process start over, and none can bring back what was deleted.
"""

import os
import re
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop
from itertools import accumulate, chain
from pathlib import Path
from typing import AnyStr, Generic, TypeAlias

import msgspec
from xxhash import xxh3_128_hexdigest

from eventlog.disk import Disk, publish, read_at, read_file
from eventlog.events import Entry, Head
from eventlog.line import seal_up, verifies
from eventlog.search_terms import Query, excerpt, is_talk, normal, parse, terms, text_of

_VERSION = 1
_BLOCK = 4096  # entries; a file names them with 16 bits
_ENOUGH = 4000  # matches that compete for the first places
_WORTH = 256  # entries that are worth a file before their block is full
_LONG = 2000  # characters; a text of this length needs two more of a word to count as much as an empty one
_EPOCH = re.compile(rb"[0-9a-f]{32}")
_NAME = re.compile(r"\.(\d{16})-(\d{16})")

Spans: TypeAlias = Sequence[tuple[int, int]]
Numbers: TypeAlias = "array[int]"


class Hit(msgspec.Struct, frozen=True):
    """``preview``: one line around the match, of at most 160 characters. ``score``: above 1, all are whole words."""

    seq: int
    score: float
    preview: str


# --- vocabularies: term -> the entries that have it, by their place in the block, as often as they have it ---


class Growing(defaultdict[AnyStr, list[int]]):
    def __init__(self) -> None:
        super().__init__(list)

    def same(self, term: AnyStr) -> list[int]:
        return self.get(term, [])

    def like(self, term: AnyStr) -> list[int]:
        """Of all terms that contain this one, itself included."""
        return list(chain.from_iterable(places for known, places in self.items() if term in known))


class Frozen(Generic[AnyStr]):
    """``lines``: the terms in order; number i begins at ``starts[i]``, its places at ``begins[i]``."""

    def __init__(self, lines: AnyStr, starts: Numbers, begins: Numbers, places: memoryview) -> None:
        self.lines = lines
        self.starts = starts
        self.begins = begins
        self.places = places

    def __len__(self) -> int:
        return len(self.begins) - 1

    def same(self, term: AnyStr) -> list[int]:
        index = bisect_left(range(len(self)), term, key=self._term)
        return self._places(index) if index < len(self) and self._term(index) == term else []

    def like(self, term: AnyStr) -> list[int]:
        found: list[int] = []
        at = self.lines.find(term)
        while at >= 0:
            index = bisect_right(self.starts, at) - 1
            found += self._places(index)
            at = self.lines.find(term, self.starts[index + 1])
        return found

    def thaw(self) -> Growing[AnyStr]:
        growing: Growing[AnyStr] = Growing()
        growing.update((self._term(index), self._places(index)) for index in range(len(self)))
        return growing

    def _term(self, index: int) -> AnyStr:
        return self.lines[self.starts[index] : self.starts[index + 1] - 1]

    def _places(self, index: int) -> list[int]:
        return self.places[self.begins[index] : self.begins[index + 1]].tolist()


def freeze(growing: Growing[AnyStr], newline: AnyStr) -> Frozen[AnyStr]:
    known = sorted(growing)
    places = [growing[term] for term in known]
    begins = array("I", accumulate(map(len, places), initial=0))
    packed = struct.pack(f"{begins[-1]}H", *chain.from_iterable(places))  # half the time of array("H", …)
    starts = array("I", accumulate((len(term) + 1 for term in known), initial=0))
    return Frozen(newline.join(known), starts, begins, memoryview(packed).cast("H"))


# --- blocks ----------------------------------------------------------------------------------------------


class _Title(msgspec.Struct):
    """The first line of a block's file. ``sizes``: of what follows it, in bytes."""

    search: int
    order: str
    epoch: str
    first: int
    before: str
    link: str
    sizes: list[int]
    xxh3: str


class Block:
    """Entries ``first`` … ``last``. ``before`` and ``link``: what the entry before them and their last one are linked by."""

    def __init__(self, first: int, before: str) -> None:
        self.first = first
        self.before = self.link = before
        self.words: Growing[bytes] | Frozen[bytes] = Growing()
        self.runs: Growing[str] | Frozen[str] = Growing()
        self.lengths: Numbers = array("I")  # of the texts
        self.talk = bytearray()  # 1: said by user or assistant

    @property
    def last(self) -> int:
        return self.first + len(self.talk) - 1

    def add(self, entry: Entry) -> None:
        """The entry after the last one. The block is growing."""
        text = text_of(entry)
        place = len(self.talk)
        words, runs = terms(text)
        known = self.words
        assert isinstance(known, Growing)
        for word in words:
            known[word].append(place)
        if runs:
            assert isinstance(self.runs, Growing)
            for run in runs:
                self.runs[run].append(place)
        self.lengths.append(len(text))
        self.talk.append(is_talk(entry))
        self.link = entry.link

    def frozen(self) -> "Block":
        block = Block(self.first, self.before)
        block.link, block.lengths, block.talk = self.link, self.lengths[:], self.talk[:]
        block.words = freeze(self.words, b"\n") if isinstance(self.words, Growing) else self.words
        block.runs = freeze(self.runs, "\n") if isinstance(self.runs, Growing) else self.runs
        return block

    def thawed(self) -> "Block":
        block = Block(self.first, self.before)
        block.link, block.lengths, block.talk = self.link, self.lengths, self.talk
        block.words = self.words.thaw() if isinstance(self.words, Frozen) else self.words
        block.runs = self.runs.thaw() if isinstance(self.runs, Frozen) else self.runs
        return block

    # --- searching -------------------------------------------------------------------------------------

    def matches(self, query: Query, without: Spans, *, whole: bool) -> list[tuple[float, int]]:
        """(-score, -seq) of the entries with all terms of the query; ``whole``: as whole words, or anyhow."""
        counts: list[Counter[int]] = []
        for word in query.words:
            counts.append(Counter(self.words.same(word)))
            if not whole:
                counts[-1].update(self.words.like(word))
            if not counts[-1]:
                return []
        for run in query.runs:
            counts.append(Counter(self.runs.like(run)))
            if not counts[-1]:
                return []
        places = counts[0].keys()
        for others in counts[1:]:
            places &= others.keys()
        hidden = self._hidden(without)
        return [
            (-self._score(place, counts) - whole, -self.first - place)
            for place in places
            if not hidden[place]
        ]

    def _score(self, place: int, counts: list[Counter[int]]) -> float:
        """Between 0 and 1."""
        weight = 1 + 2 * self.lengths[place] / _LONG
        total = 0.0
        for count in counts:
            total += count[place] / (count[place] + weight)
        return total / len(counts) * (1.0 if self.talk[place] else 0.9)

    def _hidden(self, without: Spans) -> bytearray:
        hidden = bytearray(len(self.talk))
        for first, last in without:
            start, end = max(first - self.first, 0), min(last - self.first + 1, len(hidden))
            if start < end:
                hidden[start:end] = b"\1" * (end - start)
        return hidden

    # --- files -----------------------------------------------------------------------------------------

    def encode(self, epoch: str) -> bytes:
        words, runs = self.words, self.runs
        assert isinstance(words, Frozen)
        assert isinstance(runs, Frozen)
        pieces = [
            *(words.lines, words.starts.tobytes(), words.begins.tobytes(), words.places.tobytes()),
            *(
                runs.lines.encode("utf-16-le"),
                runs.starts.tobytes(),
                runs.begins.tobytes(),
                runs.places.tobytes(),
            ),
            *(self.lengths.tobytes(), bytes(self.talk)),
        ]
        body = b"".join(pieces)
        sizes = [len(piece) for piece in pieces]
        title = _Title(
            _VERSION,
            sys.byteorder,
            epoch,
            self.first,
            self.before,
            self.link,
            sizes,
            xxh3_128_hexdigest(body),
        )
        return seal_up(msgspec.json.encode(title)[:-1]) + b"\n" + body


def decode(data: bytes, epoch: str, first: int, before: str) -> Block | None:
    """None: not a whole block, or not the one that was asked for."""
    line, _, body = data.partition(b"\n")
    try:
        title = msgspec.json.decode(line, type=_Title) if verifies(line) else None
    except msgspec.DecodeError:
        return None
    if title is None or (title.search, title.order, title.epoch) != (_VERSION, sys.byteorder, epoch):
        return None
    if (title.first, title.before, title.xxh3) != (first, before, xxh3_128_hexdigest(body)):
        return None
    block = Block(first, before)
    block.link = title.link
    ends = list(accumulate(title.sizes))
    pieces = [memoryview(body)[end - size : end] for end, size in zip(ends, title.sizes, strict=True)]
    block.words = Frozen(bytes(pieces[0]), _numbers(pieces[1]), _numbers(pieces[2]), _places(pieces[3]))
    block.runs = Frozen(
        str(pieces[4], "utf-16-le"), _numbers(pieces[5]), _numbers(pieces[6]), _places(pieces[7])
    )
    block.lengths = _numbers(pieces[8])
    block.talk = bytearray(pieces[9])
    return block


def _numbers(data: memoryview) -> Numbers:
    numbers = array("I")
    numbers.frombytes(data)
    return numbers


def _places(data: memoryview) -> memoryview:
    return memoryview(bytes(data)).cast("H")


# --- the index -------------------------------------------------------------------------------------------


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

    def add(self, entries: Iterable[Entry]) -> None:
        """Entries after ``head``, in order. Those that are there already are skipped; a gap ends it."""
        self._refresh()
        self._ensure_epoch()
        for entry in entries:
            if entry.seq > self._tail.last + 1:
                break  # we had to start over since the caller asked for the head
            if entry.seq == self._tail.last + 1:
                self._tail.add(entry)
                if len(self._tail.talk) == _BLOCK:
                    self._finish_block()
        if len(self._tail.talk) >= max(_WORTH, 2 * self._kept):
            self._keep(self._tail.frozen())

    def find(
        self, query: str, read: Callable[[int], Entry | None], *, limit: int = 20, without: Spans = ()
    ) -> list[Hit]:
        """The best first, at most ``limit``; none within a span (first, last) of ``without``.

        ``read`` gives the entry as the log has it now. Raises ValueError for a query without a letter or digit.
        """
        wanted = parse(query)
        found: list[Hit] = []
        tried: set[int] = set()
        for wave in self._waves(wanted, without, max(limit, _ENOUGH)):
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
        if len(self._tail.talk) > self._kept:
            self._keep(self._tail.frozen())
        self._start_over()
        self._path = None

    # --- blocks ----------------------------------------------------------------------------------------

    def _waves(self, query: Query, without: Spans, enough: int) -> Iterator[list[tuple[float, int]]]:
        """Matches as long as anybody asks: first the whole words, then all; each time the newest blocks first."""
        for whole in (True, False) if query.words else (True,):
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
        self._keep(block)
        self._load()  # the next ones may be there: only this one was damaged, or another process is ahead

    def _take(self, block: Block) -> None:
        if len(block.talk) == _BLOCK:
            self._blocks.append(block)
            self._tail = Block(block.last + 1, block.link)
            self._kept = 0
        else:
            self._tail = block.thawed()
            self._kept = len(block.talk)

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
            block = decode(read_file(self._disk, path), self._epoch, first, self._tail.before)
            if block is not None and block.last == last:
                return block
            if self._may_write and self._read_epoch() == self._epoch:
                self._disk.unlink(path)
        return None

    def _keep(self, block: Block) -> None:
        if self._path is None or not self._may_write or not self._epoch:
            return
        try:
            publish(self._disk, self._file(block.first, block.last), block.encode(self._epoch), durable=False)
            self._kept = len(block.talk) if block.first == self._tail.first else 0
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
            fd = self._disk.open_read(self._path)
            try:
                data = read_at(self._disk, fd, 0, 33)
            finally:
                self._disk.close(fd)
        except OSError:
            return ""
        return data.decode() if _EPOCH.fullmatch(data) else ""

    def _files(self) -> list[tuple[int, int]]:
        """(first, last) of the blocks' files."""
        if self._path is None:
            return []
        try:
            names = self._disk.names(self._path.parent)
        except OSError:
            return []
        name = self._path.name
        found = (_NAME.fullmatch(other, len(name)) for other in names if other.startswith(name))
        return [(int(match[1]), int(match[2])) for match in found if match]

    def _file(self, first: int, last: int) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.{first:016d}-{last:016d}")

    def _unlink(self, first: int, last: int) -> None:
        with suppress(FileNotFoundError):
            self._disk.unlink(self._file(first, last))


def _hits(entry: Entry | None, score: float, query: Query) -> list[Hit]:
    """One, if the entry is what the index thinks it is."""
    text = text_of(entry) if entry is not None else ""
    folded = normal(text)
    if entry is None or not query.matches(folded):
        return []
    return [Hit(entry.seq, score, excerpt(text, folded, query))]
