"""Which lines may match a query, told from their bytes: all that do, and as few others as is cheap. No I/O.

What a text holds, the bytes of its line hold, too, for JSON and UTF-8 are written character by character. So the bytes
are searched for a *run* of the query: characters that a line has as they are. Three things could hide a run, and a line
that has one of them may match:

- An escape that this engine would not have written: ``\\u0061`` is an ``a``, too.
- A character that becomes one of the run's when the text is made normal: ``ﬁ``, ``É``, ``①``, a full-width letter.
- A character that may melt with the one before it: ``e`` and U+0301 are ``é``.

Every other character that is not ASCII stays what it is, next to the same neighbours. ASCII becomes lower case.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from unicodedata import combining, normalize

import msgspec

from chatfold.eventlog.codec import DEL_BYTE
from chatfold.eventlog.search import Query
from chatfold.eventlog.values import escape_text

_ASCII = bytes(range(128))
# ASCII is looked for as it is; U+4000 to U+9FFF and U+B000 to U+CFFF, Han and Hangul, stay what they are. Of all others
# the first byte is not usual. The full stop and the comma between Han stay, too, and stand in every Chinese text.
_USUAL_BYTES = bytes([*range(0xC0), *range(0xE4, 0xEA), 0xEB, 0xEC])
_UNUSUAL_E3 = re.compile(rb"\xe3(?!\x80[\x81\x82])")
_MELTING = (
    "\u0300\u0346\u0653\u0656\u093c\u093d\u09be\u09bf\u09d7\u09d8\u0b3e\u0b3f\u0b56\u0b58\u0bbe\u0bbf\u0bd7\u0bd8"
    "\u0c56\u0c57\u0cc2\u0cc3\u0cd5\u0cd7\u0d3e\u0d3f\u0d57\u0d58\u0dca\u0dcb\u0dcf\u0dd0\u0ddf\u0de0\u102e\u102f"
    "\u1161\u1176\u11a8\u11c3\u1b35\u1b36\u3099\u309b\U00011000\U0001d000"
)
"""All characters that Unicode composes with the one before them: the first of a range, the one after it, and so on."""
_NOT_RUN = re.compile('[\0-\x1f"\\\\\x7f\ud800-\udfff]')  # these a line has in other words
_FOREIGN = re.compile(rb"\\u(?!00[01])")  # a control character has no shorter escape
_ANY_UNICODE = re.compile(rb"\\u")
_SLASH = re.compile(rb"\\/")
_UNIT = re.compile(
    rb"\x7f(?!007f|d[89a-f])[0-9a-f]{4}"
)  # any character can be written so, DEL and surrogates have to
_ESCAPED = "\\"  # among odd characters: one is hidden by an escape


class Needle:
    def __init__(self, query: Query) -> None:
        if query.is_exact:
            text = escape_text(query.literals[0])
            self._runs = [msgspec.json.encode(text)[1:-1]]
            self._in_text = text.encode()
            self._chars = frozenset[str]()
        else:
            runs = [run for literal in query.literals for run in _runs(literal)] or [""]
            self._runs = sorted((run.encode() for run in runs), key=len, reverse=True)
            self._in_text = self._runs[0]
            self._chars = frozenset("".join(runs))
        self._folds = not query.is_exact
        self._has_letters = self._folds and any(map(bytes.islower, self._runs))
        self._escapes = [_ANY_UNICODE] if b"\\" in self._runs[0] else []
        if any(b"/" in run for run in self._runs):
            self._escapes.append(_SLASH)
        self._changing: dict[str, bool] = {}

    def starts(self, data: bytes, odd: Collection[str]) -> set[int]:
        """Where the lines start that may match by what they say themselves, not by what they refer to.

        ``odd``: what ``find_oddities`` finds in the data, and maybe more.
        """
        hidden = self._find_hidden(data, odd)
        return {*self._plain(data), *(data.rfind(b"\n", 0, at) + 1 for at in hidden)}

    def may_stand_in(self, line: bytes) -> bool:
        """The longest run only: of a line that others refer to, which have the rest of the query themselves."""
        return self._runs[0] in self._lower(line) or any(
            True for _ in self._find_hidden(line, find_oddities(line))
        )

    def may_stand_in_text(self, content: bytes) -> bool:
        """The same of a text that no JSON is around."""
        return self._in_text in self._lower(content) or any(
            True for _ in self._find_changed(content, find_oddities(content))
        )

    def _plain(self, data: bytes) -> Iterator[int]:
        """Of the lines that have every run; or, if they keep something elsewhere, the longest one."""
        data = self._lower(data)
        longest, *others = self._runs
        at = data.rfind(longest)
        while at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at) + 1 or len(data)
            if all(data.find(run, start, end) >= 0 for run in others) or data.find(DEL_BYTE, start, end) >= 0:
                yield start
            at = data.rfind(longest, 0, start - 1) if start else -1

    def _lower(self, data: bytes) -> bytes:
        return data.lower() if self._has_letters else data

    def _find_hidden(self, data: bytes, odd: Collection[str]) -> Iterator[int]:
        for escape in [_FOREIGN, *self._escapes] if _ESCAPED in odd else self._escapes:
            yield from (found.start() for found in escape.finditer(data))
        yield from self._find_changed(data, odd)

    def _find_changed(self, data: bytes, odd: Collection[str]) -> Iterator[int]:
        """Where characters stand that become others, which may be of the query."""
        at = data.find(DEL_BYTE)  # one byte is found many times as fast as a pattern
        while at >= 0:
            if _UNIT.match(data, at):
                yield at
            at = data.find(DEL_BYTE, at + 1)
        for char in odd if self._folds else ():
            if char != _ESCAPED and self._may_change(char):
                yield from (found.start() for found in re.finditer(re.escape(char.encode()), data))

    def _may_change(self, char: str) -> bool:
        known = self._changing.get(char)
        if known is None:
            becomes = {*normalize("NFKC", char).casefold(), *char.casefold()}
            known = may_melt(char) or (becomes != {char} and not becomes.isdisjoint(self._chars))
            self._changing[char] = known
        return known


def find_oddities(data: bytes) -> set[str]:
    """What may hide a run in the data, whatever the run: its characters but for usual ones, and ``_ESCAPED``.

    The same for every query, so it can be kept.
    """
    odd = {_ESCAPED} if _FOREIGN.search(data) else set[str]()
    left = data.translate(None, _USUAL_BYTES)
    if left.strip(b"\xe3") or (left and _UNUSUAL_E3.search(data)):
        chars = set(data.translate(None, _ASCII).decode("utf-8", "ignore"))
        odd.update(char for char in chars if not "\u3400" <= char <= "\u9fff")
    return odd


def may_melt(char: str) -> bool:
    """Does what becomes of it compose with the character before it?"""
    return bisect_right(_MELTING, normalize("NFKD", char)[0]) % 2 == 1


def _runs(literal: str) -> Iterator[str]:
    """What of it is never written otherwise, nor moved, as a combining mark is behind another one."""
    cut = "".join("\n" if combining(char) else char for char in _NOT_RUN.sub("\n", literal))
    return filter(None, cut.split("\n"))
