"""The bytes of a line never hide a hit: what a query matches, its needle proposes, however the line was written."""

import json
import sys
import unicodedata
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatfold.eventlog.codec import decode
from chatfold.eventlog.line import build_line
from chatfold.eventlog.needle import Needle, find_oddities, may_melt
from chatfold.eventlog.search import Query, parse_exact, parse_words
from chatfold.eventlog.values import escape_text

CHARS = [chr(code) for code in range(128, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
TRICKY = (
    "abABkKsSiI1 .,/\\\"'\n\x1b\x7f\0東京都はが한가ก\u0e48\u05d1\u05b0\u05bcéÉeE\u0301\u0323\u0331\u0308\u0300\u3099ßẞḧϊ\u03b9ΐ\u0345"
    "İ\u017f\u212a\uff21\uff46\uff76\uff9eﬁ①½…\uff0c\u3000\u00a0\u3131\u314f\u1161🎈\ud800\udf88\ufe0f、。«株\u337f"
)
texts = st.text(st.sampled_from(TRICKY), max_size=12) | st.text(st.characters(), max_size=6)


def compact(text: str) -> str:
    return msgspec.json.encode(escape_text(text)).decode()


def as_ascii(text: str) -> str:
    return json.dumps(escape_text(text))


def with_slashes(text: str) -> str:
    return compact(text).replace("/", "\\/")


def as_units(text: str) -> str:
    return compact("".join(f"\x7f{ord(char):04x}" if ord(char) < 1 << 16 else char for char in text)).replace(
        "\x7f007f", "\x7f"
    )


def line_of(seq: int, parts: list[str], write: Callable[[str], str]) -> bytes:
    said = ",".join(f'{{"type":"text","text":{write(part)}}}' for part in parts)
    event = f'{{"type":"message_added","role":"user","parts":[{said}]}}'
    return build_line(seq, b',"ts":0,"event":', event.encode(), b"", b"0" * 16)


def starts(query: Query, data: bytes) -> set[int]:
    return Needle(query).starts(data, find_oddities(data))


def queries_of(text: str) -> list[Query]:
    found: list[Query] = []
    for form in (text, text.upper(), unicodedata.normalize("NFD", text), f'"{text}"'):
        for parse in (parse_words, parse_exact):
            try:
                found.append(parse(form))
            except ValueError:
                continue
    return found


@given(
    st.lists(st.lists(texts, min_size=1, max_size=3), min_size=1, max_size=4),
    texts,
    st.sampled_from((compact, as_ascii, with_slashes, as_units)),
    st.data(),
)
def test_what_matches_is_proposed(
    said: list[list[str]], other: str, write: Callable[[str], str], data: st.DataObject
) -> None:
    lines = [line_of(seq, parts, write) for seq, parts in enumerate(said, 1)]
    text = "\n".join(data.draw(st.sampled_from(said)))
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    for query in (
        *queries_of(text[start:end]),
        *queries_of(f"{text[start:end]} {text[:2]}"),
        *queries_of(other),
    ):
        proposed = starts(query, b"\n".join([*lines, b""]))
        at = 0
        for line in lines:
            if query.matches(decode(line)):
                assert at in proposed
                assert Needle(query).may_stand_in(line)
            at += len(line) + 1


@given(texts, texts)
@example("ḧ\u0331", "h")  # its two marks change places, and what comes of it folds to an h and a mark
@example("\u03ca\u0300", "\u03b9")
@example("\uff76\uff9e", "ガ")
@example("\u3131\u314f", "가")
@example("a\u0323", "a")
@example("\u05d1\u05bc\u05b0", "\u05d1\u05b0")  # its two points change places
def test_what_stands_in_a_text_kept_elsewhere_is_proposed(text: str, part: str) -> None:
    event = line_of(1, [text], compact)
    for query in (*queries_of(text), *queries_of(part)):
        if query.matches(decode(event)):
            assert Needle(query).may_stand_in_text(escape_text(text).encode())


def test_a_line_is_proposed_for_what_it_says_and_not_for_what_others_say() -> None:
    lines = [
        line_of(seq, [text], compact) for seq, text in enumerate(("a Needle", "hay", "\uff4eeedle", "hay"), 1)
    ]
    places = [sum(len(line) + 1 for line in lines[:index]) for index in range(4)]
    data = b"\n".join([*lines, b""])
    assert starts(parse_words("needle"), data) == {places[0], places[2]}
    assert starts(parse_words("needle a"), data) == {places[0], places[2]}
    assert starts(parse_exact("needle"), data) == set()
    assert starts(parse_words("haystack"), data) == set()


def is_settled(char: str) -> bool:
    return unicodedata.normalize("NFKC", char).casefold() == char == char.casefold() and not may_melt(char)


def test_characters_that_are_not_odd_stay_what_they_are() -> None:
    for char in CHARS:
        if not find_oddities(char.encode()):
            assert is_settled(char), hex(ord(char))


def test_every_character_that_composes_with_the_one_before_it_is_known() -> None:
    for char in CHARS:
        parts = unicodedata.normalize("NFD", char)
        if len(parts) > 1 and unicodedata.normalize("NFC", parts) == char:
            assert all(map(may_melt, parts[1:])), hex(ord(char))
        # One that begins with another mark does not bring a composing one along.
        parts = unicodedata.normalize("NFKD", char)
        if unicodedata.combining(parts[0]) and not may_melt(char):
            assert not any(map(may_melt, parts)), hex(ord(char))


@pytest.mark.parametrize("char", ["中", "文", "é", "я", "🎈", "…", "\uff0c"])
def test_a_character_that_has_nothing_to_do_with_the_query_proposes_nothing(char: str) -> None:
    assert starts(parse_words("needle"), line_of(1, [f"hay{char}"], compact) + b"\n") == set()
