"""What is looked for in a chat: a pure question that any entry can be asked, and how a hit is shown.

``parse_words`` asks for words: text in which every word of the query occurs, be it as a part of a word; upper and lower
case and full-width forms are alike; ``"…"`` is one word with its spaces. In Chinese, Japanese and Korean any piece is
found, a single character too. Searched are messages, names of attached files, tool calls (name and arguments) and
results, summaries, titles, notes, texts injected and sent; all of them in full. Not reasoning, recalled copies and skills.

``parse_exact`` asks for a text letter by letter, in any string of an event that somebody chose: texts, names, ids,
titles, arguments and the keys in them. Not its type, its role and the like, not bytes.

There is no index. The law of every search is to decode each entry, newest first, and to ask ``Query.matches``. A
storage may pass over whatever cannot match, as ``files.search`` does, and nothing else.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from chatfold.eventlog.events import Entry
from chatfold.eventlog.search_text import excerpt, has_word, holds, normal, text_of

Spans: TypeAlias = Sequence[tuple[int, int]]
"""(first, last) seqs, both included."""


class SearchHit(msgspec.Struct, frozen=True):
    """``preview``: one line around the match, of at most 160 characters."""

    seq: int
    preview: str


class Query(msgspec.Struct, frozen=True):
    """``literals``: all of them are in the normal text of a match; if ``is_exact``, the only one is in one of its strings."""

    literals: tuple[str, ...]
    is_exact: bool = False

    def matches(self, entry: Entry) -> bool:
        if self.is_exact:
            return holds(entry.event, self.literals[0])
        text = normal(text_of(entry))
        return all(literal in text for literal in self.literals)

    def show(self, entry: Entry) -> SearchHit:
        """Of an entry that matches, by its words."""
        text = text_of(entry)
        return SearchHit(entry.seq, excerpt(text, normal(text), max(self.literals, key=len)))


def parse_words(query: str) -> Query:
    """Raises ValueError if there is nothing in it to look for."""
    literals = tuple(dict.fromkeys(_literals(normal(query))))
    if not any(map(has_word, literals)):
        raise ValueError("nothing to search for: give a letter, a digit or a symbol that is not punctuation")
    return Query(literals)


def parse_exact(text: str) -> Query:
    """Raises ValueError for the empty text."""
    if not text:
        raise ValueError("nothing to look for: every text holds the empty one")
    return Query((text,), is_exact=True)


def is_within(seq: int, spans: Spans) -> bool:
    return any(first <= seq <= last for first, last in spans)


def _literals(query: str) -> Iterator[str]:
    """Words, and what stands between two quotes as it is. A quote without a partner separates words."""
    pieces = query.split('"')
    for index, piece in enumerate(pieces):
        if index % 2 == 0 or index == len(pieces) - 1:
            yield from piece.split()
        elif piece.strip():
            yield piece
