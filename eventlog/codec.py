"""Many lines at once: how a long chat is decoded as fast as its JSON can be.

``line.decode_all`` is the simple way, and a test holds the two to each other.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec

from chatfold.eventlog.events import Entry
from chatfold.eventlog.line import DECODE_ERRORS, decode, decode_all, parse_seq
from chatfold.eventlog.values import DEL

_ESCAPE = DEL.encode()
_decode_entries = msgspec.json.Decoder(Entry).decode_lines


class Page(msgspec.Struct, frozen=True, gc=False):
    """Verified lines, each with its newline, as they stand between two places of some bytes."""

    data: bytes
    start: int
    end: int

    def lines(self) -> list[bytes]:
        return self.data[self.start : self.end - 1].split(b"\n")

    def first_line(self) -> bytes:
        return self.data[self.start : self.data.index(b"\n", self.start)]

    def last_line(self) -> bytes:
        begin = self.data.rfind(b"\n", self.start, self.end - 1) + 1 or self.start
        return self.data[begin : self.end - 1]


def decode_page(stretch: Page, whole: Callable[[bytes], bytes]) -> Iterator[Iterable[Entry]]:
    """What ``decode_all`` makes of the lines, a few at a time.

    All are decoded at once, without cutting them up and as if none kept anything elsewhere; then once more, one by one,
    those that hold an escape.
    """
    data, start, stop = stretch.data, stretch.start, stretch.end
    try:
        entries = _decode_entries(memoryview(data)[start:stop])
    except DECODE_ERRORS:  # an event that we do not know is among them
        entries = []
    first = entries[0].seq if entries else 0
    last = parse_seq(stretch.last_line())
    # As many as there should be, first of all: a seq that somebody made up may be any number.
    if len(entries) != last - first + 1 or [entry.seq for entry in entries] != list(range(first, last + 1)):
        yield decode_all(stretch.lines(), whole)
        return
    done = 0
    while (at := data.find(_ESCAPE, start, stop)) >= 0:
        begin, start = data.rfind(b"\n", start, at) + 1 or start, data.index(b"\n", at) + 1
        line = data[begin : start - 1]
        index = parse_seq(line) - first
        yield entries[done:index]
        yield (decode(whole(line)),)
        done = index + 1
    yield entries[done:]


def decode_lines(lines: list[bytes]) -> list[Entry]:
    """Of lines that are whole: copying them into one piece costs less than looking at each."""
    if not lines:
        return []
    data = b"\n".join([*lines, b""])
    return list(chain.from_iterable(decode_page(Page(data, 0, len(data)), bytes)))
