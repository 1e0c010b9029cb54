"""What a search looks for and how it shows it, against a model that reads every text."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import search_text
from chatfold.eventlog.erasure import scrub
from chatfold.eventlog.events import (
    Compacted,
    ContextOpened,
    ContextRecalled,
    Data,
    Entry,
    Event,
    File,
    Injected,
    MessageAdded,
    Noted,
    Reasoning,
    Redacted,
    SendRequested,
    SkillActivated,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.search import parse_words
from chatfold.testing.strategies import events


def entry(seq: int, event: Event | str) -> Entry:
    event = MessageAdded("user", (Text(event),)) if isinstance(event, str) else event
    return Entry(seq, 0, event, prev=f"{seq - 1:016x}", sum=f"{seq:016x}")


def found(query: str, *said: Event | str) -> list[int]:
    wanted = parse_words(query)
    return [seq for seq, one in enumerate(said, 1) if wanted.matches(entry(seq, one))]


# --- what is found -----------------------------------------------------------------------------------------

_ALPHABET = "abABz_1 .-\n\"'*東京都は한ก\u0301\u0323\u3099éßİ\u017f\uff21\uff46ﬁ①🎈\ud800\u200d、。«\0"
texts = st.text(st.sampled_from(_ALPHABET), max_size=24) | st.text(
    st.characters(exclude_categories=()), max_size=8
)
many_texts = st.lists(texts, max_size=14)


def plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def is_searchable(query: str) -> bool:
    try:
        parse_words(query)
    except ValueError:
        return False
    return True


def expected(log: list[str], literals: list[str]) -> set[int]:
    return {seq for seq, text in enumerate(log, 1) if all(literal in plain(text) for literal in literals)}


@given(many_texts, texts)
def test_an_entry_is_found_if_and_only_if_its_text_has_every_word(said: list[str], query: str) -> None:
    query = query.replace('"', " ").replace("\uff02", " ")
    if is_searchable(query):
        assert set(found(query, *said)) == expected(said, plain(query).split())


@given(many_texts, st.data())
def test_every_piece_of_a_text_is_found_in_quotes(said: list[str], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(said)) if said else ""
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    piece = plain(text[start:end])
    if '"' not in piece and piece.strip() and is_searchable(f'"{piece}"'):
        assert set(found(f'"{piece}"', *said)) == expected(said, [plain(piece)])


@given(st.lists(events(), max_size=10), texts)
def test_no_event_is_too_odd_to_be_searched(said: list[Event], query: str) -> None:
    if is_searchable(query):
        wanted = parse_words(query)
        for one in map(entry, range(1, len(said) + 1), said):
            if wanted.matches(one):
                assert len(wanted.show(one).preview) <= 160


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("exer", "Why does the Lexer drop newlines?"),
        ("LEXER newlines", "newlines and the lexer"),
        ("東京", "私は東京都に住む"),
        ("京", "私は東京都に住む"),
        ("京都", "東京都"),
        ("数据库", "查询数据库\uff0c然后返回"),
        ("데이터", "그 데이터를 보자"),
        ("python", "用Python写的"),
        ("用python写", "用Python写的"),
        ("straße", "STRASSE"),
        ("ÀÉ", "àéî"),
        ("abc123", "\uff21\uff22\uff23\uff11\uff12\uff13"),
        ("ﾃｽﾄ", "テスト"),
        ("cafe\u0301", "un café noir"),
        ("файл", "Открой ФАЙЛЫ"),
        ("read_file", "call read_file(path)"),
        ("lexer.py:12", "at src/lexer.py:12:5"),
        ('"so it is"', "and so it is."),
        ("🎈", "party 🎈🎈"),
        ('unpaired "quote', 'unpaired " quote'),
        ("नमस्ते", "नमस्ते दुनिया"),
    ],
)
def test_found_are(query: str, text: str) -> None:
    assert found(query, "something else", text, "其他") == [2]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("lexers", "the lexer"),
        ("lexer parser", "only the lexer"),
        ('"it so"', "so it is"),
        ("京東", "東京"),
        ("東都", "東京都"),
        ('"a  b"', "a b"),
        ("lexer.py", "lexer py"),
    ],
)
def test_not_found_are(query: str, text: str) -> None:
    assert found(query, text) == []


_W = (Text("needle"),)


@pytest.mark.parametrize(
    "event",
    [
        MessageAdded("assistant", _W),
        MessageAdded("user", (Text("before"), *_W, File("text/plain", b"", "other.txt"))),
        MessageAdded("user", (File("text/plain", b"", "needle.txt"),)),
        ToolCalled("1", "needle"),
        ToolCalled("1", "search", {"deep": [{"er": "in needles"}]}),
        ToolReturned("1", _W, failed=True),
        Compacted(1, 2, 2, "summary: needle"),
        ContextOpened("c", "needle"),
        Injected("system", "f", _W),
        SendRequested("s", _W),
        Noted("note", ["needle"]),
        Noted("note", "needle"),
        ToolReturned("c", (Data("json", {"stdout": "needle"}),)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_said_and_done_is_searched(event: Event) -> None:
    assert found("needle", event) == [1]


@pytest.mark.parametrize(
    "event",
    [
        MessageAdded("assistant", (Reasoning("needle"), Data("needle", "needle"))),
        ToolCalled("needle", "search", {"needle": 1}),
        ContextRecalled("needle", "full", "needle"),
        SkillActivated("needle", "f", "needle"),
        Redacted((1,), "needle"),
        Noted("chatfold.system", "needle"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_thoughts_copies_and_names_of_things_are_not(event: Event) -> None:
    assert found("needle", event) == []


def test_a_huge_result_is_searched_to_its_end() -> None:
    assert found("needle", ToolReturned("1", (Text("hay " * 200_000 + "needle"),))) == [1]


# --- queries that mean harm ----------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", " \n\t", "?!", '""', '" "', '"', "-> :: **", "。、", "\0", "\u200d"])
def test_a_query_without_anything_to_look_for_is_refused(query: str) -> None:
    with pytest.raises(ValueError, match="nothing to search for: give a letter"):
        parse_words(query)


@pytest.mark.parametrize(
    "query",
    [
        "a AND b",
        "NEAR(a b)",
        "col:a",
        "a*",
        '"a" OR "b',
        "(a|b)+$",
        "[a",
        "a\\",
        "a\0b",
        "\ud800a",
        "%a_",
        "'; DROP TABLE a; --",
        "a " * 500_000,
        "a" * 1_000_000,
        '"' + "a b " * 250_000 + '"',
        "a.b-" * 250_000,
        "東京" * 500_000,
        "a\u0301\u0323" * 300_000,
        "a" + "\u0301" * 300_000 + "\u0323" * 300_000,
    ],
    ids=lambda query: query[:12].encode("unicode_escape").decode(),
)
def test_no_query_is_more_than_text(query: str) -> None:
    assert found(query, f"x {query[:1000]} y", "nothing") in ([1], [])


def test_all_of_many_words_must_be_there() -> None:
    many = " ".join(f"w{number}" for number in range(1000))
    assert found(f"{many} missing", many) == []
    assert found(many, many, many[:-4]) == [1]


def test_a_text_of_combining_marks_takes_no_time() -> None:
    chars = filter(search_text._is_settled, map(chr, range(sys.maxunicode + 1)))
    assert not any(map(unicodedata.combining, chars))
    # normalize() takes minutes for this one.
    assert found("needle", "a" + "\u0301" * 300_000 + "\u0323" * 300_000 + " needle") == [1]


@pytest.mark.parametrize("before", [0, 1, 254, 255, 256, 700])
@pytest.mark.parametrize("marks", [255, 256, 511])
def test_as_many_marks_in_a_row_are_found_wherever_they_stand(before: int, marks: int) -> None:
    text = "a" * before + "\u0301" * marks + "b" + "\u0301" * 200
    assert search_text._has_many_marks(text) == (marks >= 256)


# --- previews ----------------------------------------------------------------------------------------------------


def preview(query: str, text: str) -> str:
    wanted, one = parse_words(query), entry(1, text)
    assert wanted.matches(one)
    return wanted.show(one).preview


def test_a_preview_shows_the_match_as_it_was_written() -> None:
    assert preview("lexer", "Why does the\n\tLEXER drop newlines?") == "Why does the LEXER drop newlines?"


@pytest.mark.parametrize("before", ["", "word " * 400, "字" * 3000, "ﬁé①" * 700, "e\u0301 " * 500, "İ" * 999])
@pytest.mark.parametrize("after", ["", " word" * 400, "字" * 3000])
def test_a_preview_is_a_short_line_around_the_match(before: str, after: str) -> None:
    line = preview("needle", f"{before} Needle {after}")
    assert "Needle" in line
    assert len(line) <= 160
    assert line.isprintable()
    assert (line[0] == "…") == (before != "")
    assert (line[-1] == "…") == (after != "")


def test_a_preview_prefers_the_word_on_its_own() -> None:
    assert "and so on" in preview("so", "sofa " * 40 + "and so on " + "and on " * 40)


@given(texts, st.text(st.characters(exclude_categories=()), max_size=400), texts)
def test_a_preview_is_one_printable_line_of_at_most_160_characters(a: str, middle: str, b: str) -> None:
    line = preview("needle", f"{a}{middle} needle {middle}{b}")
    assert len(line) <= 160
    assert "\n" not in line
    assert "\x1b" not in line
    line.encode()


def test_an_erased_entry_has_no_text() -> None:
    log = [entry(1, "secret"), entry(2, ToolCalled("1", "tool", {"a": "secret"}))]
    log = [Entry(e.seq, 0, scrub(e.event), prev=e.prev, sum="f" * 16, was=e.sum) for e in log]
    for query in ("secret", "redacted", "tool"):
        assert not any(map(parse_words(query).matches, log))
