"""What a search index knows of some entries in a row: their words, their runs, and where these are.

While a block grows this is a dict and a list; when it is full, a few long arrays, which are searched as fast as memory
is read, and written to a file as they are. A word is looked for in the vocabulary, one word a line, which is far smaller
than the text. Runs have no vocabulary, for hardly two are alike: they stand in the order of the entries, one a line.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from operator import lt
from typing import TypeAlias

import msgspec
from xxhash import xxh3_128_hexdigest

from chatfold.eventlog.events import Entry
from chatfold.eventlog.line import DECODE_ERRORS, add_checksum, decode_verified
from chatfold.eventlog.search_text import Query, is_talk, terms, text_of

_VERSION = 1
_FULL = 4096  # entries: their places have 16 bits
_LARGE = 1 << 24  # characters: a block of huge texts must still fit in memory
_LONG = 250  # characters: texts that differ by less are of one length
_MISSES = 500  # of a run's first character, before the whole run is looked for

Spans: TypeAlias = Sequence[tuple[int, int]]
Numbers: TypeAlias = "array[int]"
Places: TypeAlias = list[Sequence[int]]
"""Numbers of entries within their block; each list in order, an entry as often as it has the word or run."""


class Words:
    """While the block grows."""

    def __init__(self) -> None:
        self.lists: defaultdict[bytes, list[int]] = defaultdict(list)

    def same(self, word: bytes) -> Places:
        return [self.lists[word]] if word in self.lists else []

    def like(self, part: bytes) -> Places:
        """Of all words that contain it; of itself twice, for a whole word counts as two."""
        return [*(places for word, places in self.lists.items() if part in word), *self.same(part)]

    def freeze(self) -> "FrozenWords":
        words = sorted(self.lists)
        lists = [self.lists[word] for word in words]
        begins = array("I", accumulate(map(len, lists), initial=0))
        # Takes half the time of array("H", chain(…)).
        packed = struct.pack(f"{begins[-1]}H", *chain.from_iterable(lists))
        starts = array("I", accumulate((len(word) + 1 for word in words), initial=0))
        return FrozenWords(b"\n".join(words), starts, begins, array("H", packed))


class FrozenWords:
    """Word number i, in the order of the alphabet, begins at ``starts[i]`` in ``lines``, its places at ``begins[i]``."""

    def __init__(self, lines: bytes, starts: Numbers, begins: Numbers, places: Numbers) -> None:
        self.lines = lines
        self.starts = starts
        self.begins = begins
        self.places = places

    def __len__(self) -> int:
        return len(self.begins) - 1

    def same(self, word: bytes) -> Places:
        index = bisect_left(range(len(self)), word, key=self._word)
        return [self._places(index)] if index < len(self) and self._word(index) == word else []

    def like(self, part: bytes) -> Places:
        found: Places = []
        at = self.lines.find(part)
        while at >= 0:
            index = bisect_right(self.starts, at) - 1
            found.append(self._places(index))
            at = self.lines.find(part, self.starts[index + 1])
        return [*found, *self.same(part)]

    def thaw(self) -> Words:
        words = Words()
        words.lists.update((self._word(index), self._places(index).tolist()) for index in range(len(self)))
        return words

    def _word(self, index: int) -> bytes:
        return self.lines[self.starts[index] : self.starts[index + 1] - 1]

    def _places(self, index: int) -> Numbers:
        return self.places[self.begins[index] : self.begins[index + 1]]


class Runs(list[str]):
    """While the block grows: of each entry the runs, one a line."""

    def like(self, part: str) -> Places:
        found = [place for place, lines in enumerate(self) for _ in range(lines.count(part))]
        return [found] if found else []

    def freeze(self) -> "FrozenRuns":
        return FrozenRuns(
            "\n".join(self), array("I", accumulate((len(lines) + 1 for lines in self), initial=0))
        )


class FrozenRuns:
    """Those of entry number i begin at ``starts[i]`` in ``lines``."""

    def __init__(self, lines: str, starts: Numbers) -> None:
        self.lines = lines
        self.starts = starts

    def like(self, part: str) -> Places:
        found = [bisect_right(self.starts, at) - 1 for at in self._spots(part)]
        return [found] if found else []

    def _spots(self, part: str) -> Iterator[int]:
        """One character is found ten times as fast as two: the first one is looked for, unless it is everywhere."""
        misses = 0
        sought = part[0]
        at = self.lines.find(sought)
        while at >= 0:
            if self.lines.startswith(part, at):
                yield at
                at += len(part)
            else:
                at += 1
                misses += 1
                if misses > _MISSES:
                    sought = part
            at = self.lines.find(sought, at)

    def thaw(self) -> Runs:
        return Runs(self.lines[start : end - 1] for start, end in pairwise(self.starts))


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


_decode_title = msgspec.json.Decoder(_Title).decode


class Block:
    """Entries ``first`` … ``last``. ``before`` and ``link``: what the entry before them and their last one are linked by."""

    def __init__(self, first: int, before: str) -> None:
        self.first = first
        self.before = self.link = before
        self.words: Words | FrozenWords = Words()
        self.runs: Runs | FrozenRuns = Runs()
        self.lengths: Numbers = array("I")  # of the texts
        self.talk = bytearray()  # 1: said by user or assistant
        self.size = 0  # of all texts

    def __len__(self) -> int:
        return len(self.talk)

    @property
    def last(self) -> int:
        return self.first + len(self.talk) - 1

    def is_full(self) -> bool:
        """Depends on nothing but the entries: blocks of the same entries are the same blocks, whoever made them."""
        return len(self.talk) >= _FULL or self.size >= _LARGE

    def add(self, entry: Entry) -> None:
        """The entry after the last one. The block is growing."""
        text = text_of(entry)
        place = len(self.talk)
        words, runs = terms(text)
        assert isinstance(self.words, Words)
        lists = self.words.lists
        for word in words:
            lists[word].append(place)
        assert isinstance(self.runs, Runs)
        self.runs.append("\n".join(runs) if runs else "")
        self.lengths.append(len(text))
        self.size += len(text)
        self.talk.append(is_talk(entry))
        self.link = entry.link

    def _copy(self) -> "Block":
        """All but the words and runs."""
        block = Block(self.first, self.before)
        block.link, block.size = self.link, self.size
        block.lengths, block.talk = self.lengths[:], self.talk[:]
        return block

    def frozen(self) -> "Block":
        """As it is now, to be kept; this one may go on growing."""
        block = self._copy()
        block.words = self.words.freeze() if isinstance(self.words, Words) else self.words
        block.runs = self.runs.freeze() if isinstance(self.runs, Runs) else self.runs
        return block

    def thawed(self) -> "Block":
        """The same, growing."""
        block = self._copy()
        block.words = self.words.thaw() if isinstance(self.words, FrozenWords) else self.words
        block.runs = self.runs.thaw() if isinstance(self.runs, FrozenRuns) else self.runs
        return block

    # --- searching -------------------------------------------------------------------------------------

    def matches(self, query: Query, without: Spans, *, whole: bool) -> list[tuple[float, int]]:
        """(-score, -seq) of the entries with all terms of the query; ``whole``: as whole words, or anyhow."""
        found: list[Places] = []
        for word in query.words:
            found.append(self.words.same(word) if whole else self.words.like(word))
            if not found[-1]:
                return []
        for run in query.runs:
            found.append(self.runs.like(run))
            if not found[-1]:
                return []
        counts = _counts(found)
        hidden = self._hidden(without)
        return [
            (-self._score(place, counts) - whole, -self.first - place)
            for place in counts[-1]
            if not hidden[place]
        ]

    def _score(self, place: int, counts: list[dict[int, int]]) -> float:
        """Between 0 and 1."""
        weight = 1 + self.lengths[place] // _LONG / 4
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
        assert isinstance(words, FrozenWords)
        assert isinstance(runs, FrozenRuns)
        pieces = [
            *(words.lines, words.starts.tobytes(), words.begins.tobytes(), words.places.tobytes()),
            *(runs.lines.encode("utf-16-le"), runs.starts.tobytes()),
            *(self.lengths.tobytes(), bytes(self.talk)),
        ]
        body = b"".join(pieces)
        sizes = [len(piece) for piece in pieces]
        digest = xxh3_128_hexdigest(body)
        title = _Title(_VERSION, sys.byteorder, epoch, self.first, self.before, self.link, sizes, digest)
        return add_checksum(msgspec.json.encode(title)[:-1]) + b"\n" + body


def _counts(found: list[Places]) -> list[dict[int, int]]:
    """For each term how often a place is in its lists. The last one has only the places that all have."""
    counts: list[dict[int, int]] = []
    for lists in sorted(found, key=lambda lists: sum(map(len, lists))):
        left = counts[-1] if counts else None
        if left is None or sum(map(len, lists)) < 20 * len(lists) * len(left):
            count: dict[int, int] = Counter(chain.from_iterable(lists))
            counts.append(count if left is None else {place: count[place] for place in left.keys() & count})
        else:  # few are left: looking for each is quicker than counting all
            every = ((place, sum(_count(list_, place) for list_ in lists)) for place in left)
            counts.append({place: count for place, count in every if count})
    return counts


def _count(places: Sequence[int], place: int) -> int:
    start = bisect_left(places, place)
    return bisect_right(places, place, start) - start


def _are_starts(starts: Numbers, size: int) -> bool:
    """Of lines, one after the other, and of what comes after the last of them; of no lines at all, 0."""
    last = starts[-1] if starts else None
    return (last == size + 1 or (len(starts) == 1 and not size)) and all(map(lt, starts, starts[1:]))


def decode_block(data: bytes, epoch: str, first: int, before: str) -> Block | None:
    """None: not a whole block, or not the one that was asked for."""
    line, _, body = data.partition(b"\n")
    title = decode_verified(line, _decode_title)
    if title is None or (title.search, title.order, title.epoch) != (_VERSION, sys.byteorder, epoch):
        return None
    if (title.first, title.before, title.xxh3) != (first, before, xxh3_128_hexdigest(body)):
        return None
    ends = accumulate(title.sizes)
    pieces = [body[end - size : end] for end, size in zip(ends, title.sizes, strict=True)]
    block = Block(first, before)
    block.link = title.link
    try:
        words = FrozenWords(pieces[0], array("I", pieces[1]), array("I", pieces[2]), array("H", pieces[3]))
        runs = FrozenRuns(pieces[4].decode("utf-16-le"), array("I", pieces[5]))
        block.lengths = array("I", pieces[6])
        block.talk = bytearray(pieces[7])
    except DECODE_ERRORS:
        return None
    # What one of them says of another: whoever searches goes by it.
    count = len(block.talk)
    fits = (len(block.lengths), len(runs.starts), len(words.starts)) == (count, count + 1, len(words.begins))
    if not fits or not count or max(words.places, default=0) >= count:
        return None
    if not (_are_starts(words.starts, len(words.lines)) and _are_starts(runs.starts, len(runs.lines))):
        return None
    block.words, block.runs = words, runs
    block.size = sum(block.lengths)
    return block
