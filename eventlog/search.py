"""Full-text search in one chat: which entries hold all words of a query, the best first.

What is found: text in which every word of the query occurs, be it as a part of a word; upper and lower case and
full-width forms are alike; ``"…"`` is one word with its spaces. In Chinese, Japanese and Korean any piece is found, a
single character too. Searched are messages, names of attached files, tool calls (name and arguments) and results,
summaries, titles, notes, texts injected and sent; all of them in full. Not reasoning, recalled copies and skills.

Order: first the entries that have every word of the query as a word of its own, then those with parts of words; in both
what has the words more often and is shorter; of two alike, what user and assistant said; then the newer. If there are
more matches than ``_ENOUGH``, only those of the newest blocks that hold so many compete.

A cache, made of blocks: see ``search_blocks``. The index only proposes seqs, and ``find`` shows what the entry, read
again, still says: so an entry that was redacted is not found, even by an index that does not know.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop

import msgspec

from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.search_blocks import Block, Spans
from chatfold.eventlog.search_text import Query, excerpt, normal, parse, text_of

_ENOUGH = (2000, 500)  # matches that compete for the first places: with whole words, with parts of words


class SearchHit(msgspec.Struct, frozen=True):
    """``preview``: one line around the match, of at most 160 characters. ``score``: above 1, all are whole words."""

    seq: int
    score: float
    preview: str


class SearchIndex:
    """Of one chat, in memory. For one thread at a time."""

    def __init__(self) -> None:
        self.clear()

    @property
    def head(self) -> Head:
        """Up to where it is complete."""
        return Head(self._tail.last, self._tail.link)

    def add(self, entries: Sequence[Entry]) -> bool:
        """Entries after ``head``, in order. Those that are there already are skipped; a gap ends it.

        False if they are not all in it: somebody made us start over.
        """
        for entry in entries:
            if entry.seq > self._tail.last + 1:
                break  # we had to start over since the caller asked for the head
            if entry.seq == self._tail.last + 1:
                self._tail.add(entry)
                if self._tail.is_full():
                    self._finish_block()
        return not entries or self._tail.last >= entries[-1].seq

    def find(
        self, query: str, read: Callable[[int], Entry | None], *, limit: int = 20, without: Spans = ()
    ) -> list[SearchHit]:
        """The best first, at most ``limit``; none within a span (first, last) of ``without``.

        ``read`` gives the entry as the log has it now. Raises ValueError if there is nothing in the query to look for.
        """
        wanted = parse(query)
        found: list[SearchHit] = []
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
        """Starts over."""
        self._blocks: list[Block] = []
        self._tail = Block(1, Head().link)

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

    def _finish_block(self) -> None:
        self._take(self._tail.frozen())

    def _take(self, block: Block) -> None:
        self._blocks.append(block)
        self._tail = Block(block.last + 1, block.link)


def search(
    index: SearchIndex,
    link: Callable[[int], str | None],
    pages: Callable[[int], Iterable[list[Entry]]],
    read: Callable[[int], Entry | None],
    query: str,
    limit: int,
    without: Sequence[tuple[int, int]],
) -> list[SearchHit]:
    """The index, brought up to the end of the log, proposes; the log has the last word.

    ``link``, ``pages`` from a seq on and ``read`` are the log's. One thread at a time for an index.
    """
    while not _caught_up(index, link, pages):
        pass  # somebody erased something meanwhile, and with it what the index knew
    return index.find(query, read, limit=limit, without=tuple(without))


def _caught_up(
    index: SearchIndex, link: Callable[[int], str | None], pages: Callable[[int], Iterable[list[Entry]]]
) -> bool:
    head = index.head
    if head != Head() and link(head.seq) != head.link:
        index.clear()  # of another history
        head = Head()
    return all(index.add(page) for page in pages(head.seq + 1))


def _hits(entry: Entry | None, score: float, query: Query) -> list[SearchHit]:
    """One, if the entry is what the index thinks it is."""
    text = text_of(entry) if entry is not None else ""
    folded = normal(text)
    if entry is None or not query.matches(folded):
        return []
    return [SearchHit(entry.seq, score, excerpt(text, folded, query))]
