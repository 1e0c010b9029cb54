"""What can be found, and by what: the text of an entry, its terms, an excerpt. Pure functions.

A character is a separator, a letter of a script that puts no spaces between words (Chinese, Japanese, Korean,
Thai …), or any other letter, digit or symbol; what it is depends on nothing around it. A term is as many of one kind
in a row as there are: a *word* (``lexer``, ``read_file``) or a *run* (``東京都庁``). So whatever is in a text is, cut
at its separators, in the text's terms: every part of it within one of them.
"""

import re
import string
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unicodedata import combining, normalize

import msgspec

from chatfold.eventlog.events import (
    Compacted,
    ContextOpened,
    Data,
    Entry,
    Event,
    File,
    Injected,
    Json,
    MessageAdded,
    Noted,
    Part,
    SendRequested,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
    defaults_of,
)

PREVIEW = 160  # characters
OURS = "chatfold."
"""Notes of such a name are the agent's own, what a model was told besides the conversation: nobody said it."""


# --- the text of an entry --------------------------------------------------------------------------------


def text_of(entry: Entry) -> str:
    """What was said or done in it, each piece on a line of its own; nothing of an entry that was redacted."""
    pieces = _PIECES.get(type(entry.event))
    if pieces is None or entry.was is not None:
        return ""
    return pieces(entry.event)


def _text_of_parts(event: Any) -> str:
    parts: tuple[Part, ...] = event.parts
    if len(parts) == 1 and type(parts[0]) is Text:
        return parts[0].text
    return "\n".join(_strings_of(parts))


def _strings_of(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, File) and part.name:
            yield part.name


def _text_of_result(event: Any) -> str:
    data = [text for part in event.parts if isinstance(part, Data) for text in _strings_in(part.data)]
    return "\n".join([_text_of_parts(event), *data]) if data else _text_of_parts(event)


def _text_of_call(event: Any) -> str:
    return "\n".join([event.name, *_strings_in(event.args)])


def _text_of_note(event: Any) -> str:
    return "" if event.name.startswith(OURS) else "\n".join(_strings_in(event.data))


def _strings_in(value: Json) -> Iterator[str]:
    """The values, not the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings_in(inner)


def _summary(event: Any) -> str:
    return str(event.summary)


def _title(event: Any) -> str:
    return str(event.title)


_PIECES: dict[type, Callable[[Any], str]] = {
    MessageAdded: _text_of_parts,
    ToolCalled: _text_of_call,
    ToolReturned: _text_of_result,
    Injected: _text_of_parts,
    SendRequested: _text_of_parts,
    Compacted: _summary,
    ContextOpened: _title,
    Noted: _text_of_note,
}


# --- terms -----------------------------------------------------------------------------------------------

_APART = (
    "\x80-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf"  # separators beyond ASCII: what is punctuation in Latin-1,
    "\u2000-\u206f\u3000-\u3004\u3008-\u303f\ufe10-\ufe1f\ufe30-\ufe6f"  # in general, and between CJK
)
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"  # Hangul: has spaces, but particles stick to the words
    "\u2e80-\u2fff\u3005-\u3007\u3040-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han, kana, bopomofo
)
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_FOLD = bytes(  # ASCII separators become spaces; bytes of other characters stay
    byte if byte >= 128 else ord(chr(byte).lower()) if chr(byte) in _WORD else 32 for byte in range(256)
)

# Normalising takes time in the square of how many combining marks follow each other. Of these characters none is one:
# the first of a range, the one after it, and so on. A pattern of them would take 2 ms to compile.
_SETTLED = (
    "\0\u0300\u0370\u0483\u048a\u0530\u05d0\u05eb\u0620\u064b\u0904\u093a\u0e01\u0e38"
    "\u3041\u3097\u30a1\u30fb\u3400\u4dc0\u4e00\ua000\uac00\ud7a4"
)
_MANY = 256


@cache
def _border() -> re.Pattern[str]:
    """Compiled when it is needed, since that takes 2 ms."""
    return re.compile(f"([{_UNSPACED}]+)|[{_APART}]+")


def normal(text: str) -> str:
    """Case folded, compatibility forms such as full-width letters made plain. What is compared is always this."""
    if text.isascii():
        return text.lower()
    return (text if _has_many_marks(text) else normalize("NFKC", text)).casefold()


def _has_many_marks(text: str) -> bool:
    """Are ``_MANY`` characters in a row not settled? One of them stands before a multiple of that number."""
    for at in range(_MANY - 1, len(text), _MANY):
        if not _is_settled(text[at]):
            after, before = text[at + 1 : at + _MANY], text[at + 1 - _MANY : at]
            if 1 + _count_marks(after) + _count_marks(before[::-1]) >= _MANY:
                return True
    return False


def _count_marks(text: str) -> int:
    """How many characters that are not settled it begins with."""
    return next((at for at, char in enumerate(text) if _is_settled(char)), len(text))


def _is_settled(char: str) -> bool:
    return bisect_right(_SETTLED, char) % 2 == 1


def terms(text: str) -> tuple[list[bytes], list[str]]:
    """The words and the runs of a text, as often as they are in it."""
    return _terms_of(normal(text))


def has_word(text: str) -> bool:
    """Is anything in this normal text no separator?"""
    return any(_terms_of(text))


def _terms_of(text: str) -> tuple[list[bytes], list[str]]:
    """Of a normal text. Making it normal again might change it."""
    if text.isascii():
        return text.encode().translate(_FOLD).split(), []
    pieces = _border().split(text)
    words = " ".join(pieces[::2]).encode("utf-8", "surrogatepass").translate(_FOLD).split()
    return words, [run for run in pieces[1::2] if run]


# --- excerpts --------------------------------------------------------------------------------------------

# White space, and what must not be sent to a terminal: controls, overrides of the direction, halves of pairs.
_BLANK = re.compile("[\\s\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
_TRIES = 50
_CHUNK = 512


def excerpt(text: str, folded: str, literal: str) -> str:
    """One line of at most ``PREVIEW`` characters of ``text`` (``folded``: made normal), around the literal."""
    found = _place(folded, literal)
    at = found if len(folded) == len(text) else _origin(text, found)
    start = max(0, min(at - PREVIEW // 3, len(text) - PREVIEW + 2))
    while 0 < start < at and combining(text[start]):
        start += 1
    end = start + 2 * PREVIEW  # white space may take up most of it
    line = ("…" if start else "") + _BLANK.sub(" ", text[start:end]).strip()
    return line if len(line) <= PREVIEW and end >= len(text) else _cut(line)


def _cut(line: str) -> str:
    end = min(PREVIEW - 1, len(line))
    while 0 < end < len(line) and combining(line[end]):
        end -= 1
    return line[:end] + "…"


def _place(folded: str, literal: str) -> int:
    """Where it stands as a word of its own, if that is soon; else where it stands first."""
    first = at = max(0, folded.find(literal))
    for _ in range(_TRIES):
        end = at + len(literal)
        if not folded[max(0, at - 1) : at].isalnum() and not folded[end : end + 1].isalnum():
            return at
        at = folded.find(literal, at + 1)
        if at < 0:
            break
    return first


def _origin(text: str, found: int) -> int:
    """About where in ``text`` that is which is at ``found`` in the normal text."""
    start = 0
    while start < len(text):
        size = len(normal(text[start : start + _CHUNK]))
        if size > found:
            break
        start, found = start + _CHUNK, found - size
    ends = range(start, min(start + _CHUNK, len(text)))
    return start + bisect_left(ends, found, key=lambda end: len(normal(text[start:end])))


# --- exact text --------------------------------------------------------------------------------------------

_FIXED = frozenset(("role", "origin", "mode", "outcome"))  # fields with a few words to choose from


def holds(event: Event, text: str) -> bool:
    """Does one of its strings hold the text?"""
    return not isinstance(event, Unknown) and any(text in string for string in strings(event))


def strings(value: Any) -> Iterator[str]:
    """All strings of an event that somebody chose, in the order of its fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name, default in zip(value.__struct_fields__, defaults_of(value), strict=True):
            said = getattr(value, name)
            if name not in _FIXED and said != default:  # which is not written, either
                yield from strings(said)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from strings(item)
