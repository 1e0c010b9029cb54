"""A sieve: the entries of one chat that are to be seen, found piece by piece and remembered by their seqs.

Looking goes outwards from wherever it began, a bounded piece of the log at a time, so that a search for an error in a
long chat can be told how far it came, and can be stopped. What was looked at once is not read again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from chatfold.eventlog import Entry, Log

PIECE = 1024
"""Entries that are read in one go."""

Tell = Callable[[str], None]
"""Where it is said how far something came."""


def tell_nobody(_: str) -> None: ...


class Sieve:
    def __init__(self, log: Log, key: str, wanted: Callable[[Entry], bool]) -> None:
        self._log = log
        self._key = key
        self._wanted = wanted
        self._low = 1  # looked at: from here …
        self._high = 0  # … to here
        self._seqs: list[int] = []  # what was found there, in order

    async def after(self, seq: int, end: int, tell: Tell = tell_nobody) -> int | None:
        """The next one behind ``seq`` and not behind ``end``."""
        await self._reach(seq, end)
        while True:
            at = bisect_right(self._seqs, seq)
            if at < len(self._seqs):
                return self._seqs[at]
            if self._high >= end:
                return None
            await self._up(end)
            tell(f"looking at e{self._high} of {end} …")

    async def before(self, seq: int, tell: Tell = tell_nobody) -> int | None:
        """The last one before ``seq``."""
        await self._reach(seq - 1, seq - 1)
        while True:
            at = bisect_left(self._seqs, seq)
            if at:
                return self._seqs[at - 1]
            if self._low <= 1:
                return None
            await self._down()
            tell(f"looking at e{self._low} …")

    async def around(self, seq: int, count: int, end: int) -> tuple[list[int], bool]:
        """About ``count`` of them around ``seq``, as far as is known after one more piece; and whether that is all."""
        await self._reach(seq, end)
        half = count // 2
        is_short = len(self._seqs) < count
        after = len(self._seqs) - bisect_left(self._seqs, seq)
        if self._high < end and (is_short or after < count - half):
            await self._up(end)
        if self._low > 1 and (is_short or bisect_left(self._seqs, seq) < half):
            await self._down()
        at = bisect_left(self._seqs, seq)
        first = max(0, min(at - half, len(self._seqs) - count))
        found = self._seqs[first : first + count]
        is_all = len(found) == count or (self._low <= 1 and self._high >= end)
        return found, is_all

    async def _reach(self, seq: int, end: int) -> None:
        """What is known is made to include ``seq``; if that is too far away, it begins anew there."""
        if not self._low - 1 - PIECE <= seq <= self._high + PIECE:
            self._low, self._high, self._seqs = seq + 1, seq, []
        if seq > self._high:
            await self._up(min(seq + PIECE, end))
        elif seq < self._low - 1:
            await self._down()

    async def _up(self, end: int) -> None:
        last = min(self._high + PIECE, end)
        found = [
            one.seq async for one in self._log.read(self._key, self._high + 1, last) if self._wanted(one)
        ]
        self._seqs += found
        self._high = last

    async def _down(self) -> None:
        first = max(1, self._low - PIECE)
        found = [
            one.seq async for one in self._log.read(self._key, first, self._low - 1) if self._wanted(one)
        ]
        self._seqs[:0] = found
        self._low = first
