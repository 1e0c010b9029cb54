"""Search against a model that reads every text; and an index that is torn, flipped, shared, cleared and out of date."""

import errno
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import search, search_blocks, search_text
from chatfold.eventlog.events import (
    Compacted,
    ContextOpened,
    ContextRecalled,
    Data,
    Entry,
    Event,
    File,
    Head,
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
    scrub,
)
from chatfold.eventlog.files import search_files
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.search_files import StoredSearchIndex, share_search
from chatfold.eventlog.search import SearchHit, SearchIndex
from chatfold.testing.strategies import events

ROOT = Path(__file__).parent.parent.parent
ALL = 10_000


def entry(seq: int, event: Event | str) -> Entry:
    event = MessageAdded("user", (Text(event),)) if isinstance(event, str) else event
    return Entry(seq, 0, event, prev=f"{seq - 1:016x}", sum=f"{seq:016x}")


def entries(*said: Event | str) -> list[Entry]:
    return [entry(seq, one) for seq, one in enumerate(said, 1)]


def reader(log: list[Entry]) -> Callable[[int], Entry | None]:
    return lambda seq: log[seq - 1] if seq <= len(log) else None


def index_of(log: Sequence[Entry]) -> SearchIndex:
    index = SearchIndex()
    index.add(log)
    return index


def stored(log: Sequence[Entry], path: Path) -> StoredSearchIndex:
    index = StoredSearchIndex(path)
    index.add(log)
    return index


def seqs(index: SearchIndex, log: list[Entry], query: str, **more: object) -> list[int]:
    return [hit.seq for hit in index.find(query, reader(log), limit=ALL, **more)]  # type: ignore[arg-type]


def found(query: str, *said: Event | str) -> list[int]:
    log = entries(*said)
    return seqs(index_of(log), log, query)


@contextmanager
def small_blocks(size: int = 4) -> Iterator[None]:
    """So that a few entries make several blocks, and every one of them is worth a file."""
    with (
        patch.object(search_blocks, "_FULL", size),
        patch.object(search_blocks, "_MISSES", 1),
        patch.object(search_files, "_WORTH", 1),
    ):
        yield


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
        SearchIndex().find(query, lambda _seq: None)
    except ValueError:
        return False
    return True


def expected(log: list[str], literals: list[str]) -> set[int]:
    return {seq for seq, text in enumerate(log, 1) if all(literal in plain(text) for literal in literals)}


@given(many_texts, texts)
def test_an_entry_is_found_if_and_only_if_its_text_has_every_word(said: list[str], query: str) -> None:
    query = query.replace('"', " ").replace("\uff02", " ")
    log = entries(*said)
    with small_blocks():
        index = index_of(log)
        if is_searchable(query):
            assert set(seqs(index, log, query)) == expected(said, plain(query).split())


@given(many_texts, st.data())
def test_every_piece_of_a_text_is_found_in_quotes(said: list[str], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(said)) if said else ""
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    piece = plain(text[start:end])
    log = entries(*said)
    with small_blocks():
        index = index_of(log)
        if '"' not in piece and piece.strip() and is_searchable(f'"{piece}"'):
            assert set(seqs(index, log, f'"{piece}"')) == expected(said, [plain(piece)])


@given(st.lists(events(), max_size=10), texts)
def test_no_event_is_too_odd_to_be_added_and_searched(said: list[Event], query: str) -> None:
    log = entries(*said)
    with small_blocks():
        index = index_of(log)
        assert index.head == (Head(len(log), log[-1].sum) if log else Head())
        if is_searchable(query):
            for hit in index.find(query, reader(log)):
                assert len(hit.preview) <= 160


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


def test_huge_texts_make_smaller_blocks() -> None:
    with patch.object(search_blocks, "_LARGE", 10):
        log = entries(*(f"text number {number}" for number in range(5)))
        index = index_of(log)
        assert [len(block) for block in index._blocks] == [1] * 5
        assert seqs(index, log, "number 3") == [4]


# --- queries that mean harm ----------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", " \n\t", "?!", '""', '" "', '"', "-> :: **", "。、", "\0", "\u200d"])
def test_a_query_without_anything_to_look_for_is_refused(query: str) -> None:
    with pytest.raises(ValueError, match="nothing to search for: give a letter"):
        SearchIndex().find(query, lambda _seq: None)


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
    log = entries(f"x {query[:1000]} y", "nothing")
    assert seqs(index_of(log), log, query) in ([1], [])


def test_of_many_words_the_first_24_count() -> None:
    many = " ".join(f"w{number}" for number in range(24))
    assert found(f"{many} missing", many) == [1]
    assert found(f"{many[:-4]} missing", many) == []


def test_a_long_phrase_is_looked_for_by_24_of_its_words() -> None:
    phrase = " ".join(f"w{number}" for number in range(1000))
    assert len(search_text.parse(f'"{phrase}"').words) == 24
    assert found(f'"{phrase}"', phrase, phrase[:-1]) == [1]


def test_a_text_of_combining_marks_takes_no_time() -> None:
    pieces = re.findall("(.)-(.)", search_text._SETTLED, re.DOTALL)
    assert len(pieces) == len(search_text._SETTLED) / 3
    assert not any(map(unicodedata.combining, (chr(c) for a, b in pieces for c in range(ord(a), ord(b) + 1))))
    # normalize() takes minutes for this one.
    assert found("needle", "a" + "\u0301" * 300_000 + "\u0323" * 300_000 + " needle") == [1]


# --- order -----------------------------------------------------------------------------------------------------


def test_whole_words_come_before_parts_of_words() -> None:
    assert found("lex", "lexer lexer lexer lexicon", "one lex " + "in a long text " * 50) == [2, 1]


def test_a_whole_word_counts_more_where_others_are_parts() -> None:
    assert found("go cat", "go category", "goes category") == [1, 2]
    with small_blocks(2):
        assert found("go cat", "go category", "goes category") == [1, 2]


def test_a_common_word_counts_as_often_as_it_is_there_next_to_a_rare_one() -> None:
    common = ["the text"] * 60
    for query in ("rare the", "rar th"):
        assert found(query, "rare: the the the", "rare: the one", *common) == [1, 2]
        with small_blocks(62):
            assert found(query, "rare: the the the", "rare: the one", *common) == [1, 2]


@given(many_texts, texts)
def test_a_full_block_finds_the_same_as_one_that_grows(said: list[str], query: str) -> None:
    log = entries("東東東", *said)
    growing = index_of(log)
    with small_blocks(len(log)):
        full = index_of(log)
    assert (len(growing._blocks), len(full._blocks)) == (0, 1)
    if is_searchable(query):
        assert full.find(query, reader(log)) == growing.find(query, reader(log))
    assert full.find("東東", reader(log)) == growing.find("東東", reader(log))


def test_what_has_the_word_more_often_comes_first() -> None:
    assert found("lexer", "the lexer and lexer", "the parser, a lexer") == [1, 2]
    assert found("東京", "東京と東京の間", "東京と大阪の間") == [1, 2]


def test_what_is_shorter_comes_first() -> None:
    assert found("lexer", "the lexer", "the lexer " + "and more " * 100) == [1, 2]
    assert found("lexer", "the lexer", "the lexer " + "and more") == [2, 1]  # not by much


def test_what_was_said_comes_before_what_tools_returned() -> None:
    said = [Text("the lexer")]
    assert found(
        "lexer", MessageAdded("assistant", tuple(said)), ToolReturned("1", tuple(said)), "the lexer"
    ) == [3, 1, 2]


def test_of_two_alike_the_newer_comes_first() -> None:
    with small_blocks():
        assert found("lexer", *["the lexer"] * 11) == list(range(11, 0, -1))


def test_the_best_come_first_from_whatever_block() -> None:
    with small_blocks():
        assert found("a", "a a a", *["b a b"] * 9, "a a")[:2] == [1, 11]


@given(many_texts, texts, st.integers(0, 5))
def test_a_limit_takes_the_first_ones(said: list[str], query: str, limit: int) -> None:
    log = entries(*said)
    with small_blocks():
        index = index_of(log)
        if is_searchable(query):
            every = index.find(query, reader(log), limit=ALL)
            assert index.find(query, reader(log), limit=limit) == every[:limit]


def test_of_very_many_matches_the_newest_compete() -> None:
    log = entries("lexer lexer lexer", *["a lexer"] * 20)
    with small_blocks(), patch.object(search, "_ENOUGH", (8, 8)):
        index = index_of(log)
        assert [hit.seq for hit in index.find("lexer", reader(log), limit=3)] == [21, 20, 19]
        assert [hit.seq for hit in index.find("lexe", reader(log), limit=3)] == [21, 20, 19]
        assert seqs(index, log, "lexer")[0] == 1


def test_a_whole_word_long_ago_comes_before_parts_of_words_today() -> None:
    log = entries("go", *["category"] * 50)
    with small_blocks(), patch.object(search, "_ENOUGH", (1, 1)):
        assert [hit.seq for hit in index_of(log).find("go", reader(log), limit=2)] == [1, 51]


def test_common_words_that_never_meet_are_looked_for_in_all_blocks() -> None:
    log = entries('the phrase "so it is" once', *["it is so"] * 50)
    with small_blocks(), patch.object(search, "_ENOUGH", (1, 1)):
        assert [hit.seq for hit in index_of(log).find('"so it is"', reader(log), limit=2)] == [1]


# --- without ---------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(-3, 25), st.integers(-3, 25)), max_size=4),
)
def test_nothing_is_found_in_spans_that_are_left_out(count: int, spans: list[tuple[int, int]]) -> None:
    log = entries(*["lexer"] * count)
    with small_blocks():
        index = index_of(log)
        left = [seq for seq in range(count, 0, -1) if not any(a <= seq <= b for a, b in spans)]
        assert seqs(index, log, "lexer", without=spans) == left
        assert seqs(index, log, "lexe", without=spans) == left


# --- previews ----------------------------------------------------------------------------------------------------


def preview(query: str, text: str) -> str:
    log = entries(text)
    [hit] = index_of(log).find(query, reader(log))
    return hit.preview


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


# --- erasure -----------------------------------------------------------------------------------------------------


def erased(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, event=scrub(entry.event), was=entry.sum, sum="f" * 16)


def test_what_was_redacted_is_not_found_even_by_an_index_that_does_not_know() -> None:
    log = entries("my secret", "no secrets")
    index = index_of(log)
    log[0] = erased(log[0])
    assert seqs(index, log, "secret") == [2]
    assert seqs(index, log, "my") == []


def test_an_erased_entry_has_no_text_but_is_counted() -> None:
    log = entries("secret", ToolCalled("1", "tool", {"a": "secret"}))
    log = [erased(one) for one in log]
    index = index_of(log)
    assert index.head == Head(2, f"{2:016x}")
    assert [seqs(index, log, query) for query in ("secret", "redacted", "tool")] == [[], [], []]


def test_no_file_says_what_was_said_after_the_index_was_cleared(tmp_path: Path) -> None:
    path = tmp_path / "search"
    log = entries(*["a secret", "秘密"] * 5)
    with small_blocks():
        other = stored(log[:7], path)  # one that goes on
        stored(log, path)
        StoredSearchIndex(path).clear()
        other.add(log[7:])
        other.close()
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"secret" not in content
    assert "秘密".encode("utf-16-le") not in content


@pytest.mark.parametrize("how", ["clear", "delete"])
def test_a_block_that_is_written_while_the_index_is_cleared_does_not_stay(tmp_path: Path, how: str) -> None:
    path = tmp_path / "search"

    class Slow(Disk):
        def rename(self, old: Path, new: Path) -> None:
            if new != path and how == "clear":
                StoredSearchIndex(path).clear()
            elif new != path:
                path.unlink()
            super().rename(old, new)

    with small_blocks():
        index = StoredSearchIndex(path, disk=Slow())
        index.add(entries(*["a secret"] * 5))
        assert index.head == Head()
        assert {file.name for file in tmp_path.iterdir()} <= {"search"}


# --- files -------------------------------------------------------------------------------------------------------

LOG = entries(*(f"entry number {number} 東京{number} {'lexer ' * (number % 5)}" for number in range(1, 40)))
QUERIES = ("lexer", "exe", "東京1", "number 7", '"entry number 3"', "missing")


def answers(index: SearchIndex) -> list[list[SearchHit]]:
    return [index.find(query, reader(LOG), limit=ALL) for query in QUERIES]


def catch_up(index: SearchIndex, log: list[Entry] = LOG) -> None:
    index.add(log[index.head.seq :])


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), max_size=12), st.integers(1, 9))
def test_it_makes_no_difference_how_entries_were_added(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool, bool]], size: int
) -> None:
    path = tmp_path_factory.mktemp("cache") / "search"
    with small_blocks(size):
        index = StoredSearchIndex(path)
        for count, reopened, closed in steps:
            start = index.head.seq
            index.add(LOG[max(0, start - 2) : start + count])
            assert index.head.seq >= min(start + count, len(LOG))
            if closed:
                index.close()
            if closed or reopened:
                index = StoredSearchIndex(path)
        catch_up(index)
        assert answers(index) == answers(index_of(LOG))
        assert index.head == Head(len(LOG), LOG[-1].sum)


def test_a_closed_index_is_all_there_when_it_is_opened(tmp_path: Path) -> None:
    index = stored(LOG[:5], tmp_path / "search")
    index.close()
    assert StoredSearchIndex(tmp_path / "search").head == Head(5, LOG[4].sum)


def test_a_growing_block_is_kept_before_it_is_full(tmp_path: Path) -> None:
    with patch.object(search_files, "_WORTH", 5):
        stored(LOG[:5], tmp_path / "search")
        assert StoredSearchIndex(tmp_path / "search").head.seq == 5
        stored(LOG, tmp_path / "search")
        assert StoredSearchIndex(tmp_path / "search").head.seq == 5
        stored([*LOG, entry(40, "")], tmp_path / "search")
    assert StoredSearchIndex(tmp_path / "search").head.seq == 40
    assert len(list(tmp_path.iterdir())) == 2


def test_all_files_are_in_the_folder_and_begin_with_the_name(tmp_path: Path) -> None:
    with small_blocks():
        stored(LOG, tmp_path / "cache" / "search.db").close()
    names = [path.name for path in (tmp_path / "cache").iterdir() if path.is_file()]
    assert len(names) == 11
    assert all(name.startswith("search.db") for name in names)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("search.txt", "searches", "search.1-2", "other.0000000000000001-0000000000000004"):
        (tmp_path / name).write_bytes(b"mine")
    with small_blocks():
        index = stored(LOG, tmp_path / "search")
        index.clear()
    assert sum(path.read_bytes() == b"mine" for path in tmp_path.iterdir()) == 4


def test_entries_that_are_there_are_skipped_and_a_gap_ends_it() -> None:
    index = index_of(LOG[:5])
    index.add(LOG[2:6])
    assert index.head == Head(6, LOG[5].sum)
    index.add(LOG[7:])
    assert index.head == Head(6, LOG[5].sum)
    index.add([])
    assert answers(index) == answers(index_of(LOG[:6]))


def damaged(tmp_path: Path, damage: Callable[[Path], object], name: str) -> None:
    with small_blocks():
        stored(LOG, tmp_path / "search").close()
        [path] = [path for path in tmp_path.iterdir() if path.name.endswith(name)]
        damage(path)
        index = StoredSearchIndex(tmp_path / "search")
        catch_up(index)
        assert answers(index) == answers(index_of(LOG))
        index.close()
        index = StoredSearchIndex(tmp_path / "search")
        assert index.head.seq == len(LOG)
        assert answers(index) == answers(index_of(LOG))


FILES = ("search", "-0000000000000004", "-0000000000000020", "-0000000000000039")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_a_torn_file_is_made_anew(tmp_path: Path, name: str, share: float) -> None:
    damaged(
        tmp_path, lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)]), name
    )


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" * 100, b'{"search":1}\n', b"\n\n", b"a" * 32])
def test_a_foreign_file_is_made_anew(tmp_path: Path, name: str, content: bytes) -> None:
    damaged(tmp_path, lambda path: path.write_bytes(content), name)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_made_anew(tmp_path: Path, name: str) -> None:
    damaged(tmp_path, Path.unlink, name)


@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_a_flipped_bit_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, name: str, where: float, bit: int
) -> None:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(where * len(data))] ^= 1 << bit
        path.write_bytes(data)

    damaged(tmp_path_factory.mktemp("cache"), flip, name)


def test_only_the_damaged_block_is_made_anew(tmp_path: Path) -> None:
    with small_blocks():
        stored(LOG, tmp_path / "search").close()
        (tmp_path / "search.0000000000000009-0000000000000012").unlink()
        index = StoredSearchIndex(tmp_path / "search")
        assert index.head.seq == 8
        index.add(LOG[8:12])
        assert index._tail.last == len(LOG)


def test_a_file_under_the_name_of_another_is_not_believed(tmp_path: Path) -> None:
    with small_blocks():
        stored(LOG, tmp_path / "search").close()
        block = tmp_path / "search.0000000000000001-0000000000000004"
        for name in ("search.0000000000000001-0000000000000008", "search.0000000000000005-0000000000000008"):
            (tmp_path / name).write_bytes(block.read_bytes())
        assert StoredSearchIndex(tmp_path / "search").head.seq == 4
        assert not (tmp_path / "search.0000000000000001-0000000000000008").exists()


def test_a_block_of_another_history_is_not_believed(tmp_path: Path) -> None:
    other = [msgspec.structs.replace(one, sum="f" * 16) for one in LOG]
    with small_blocks():
        stored(LOG, tmp_path / "search")
        share_search(Disk(), tmp_path / "search", tmp_path / "other", 0)
        stored(other, tmp_path / "other")
        block = "0000000000000005-0000000000000008"
        (tmp_path / f"search.{block}").write_bytes((tmp_path / f"other.{block}").read_bytes())
        assert StoredSearchIndex(tmp_path / "search").head.seq == 4


@pytest.mark.parametrize("there", [b"", b"file", b"folder"])
def test_what_cannot_be_written_is_kept_in_memory(tmp_path: Path, there: bytes) -> None:
    class Full(Disk):
        def write(self, fd: int, data: bytes | memoryview) -> int:
            raise OSError(errno.ENOSPC, "no space left on device")

    path = tmp_path / "cache" / "search"
    if there == b"file":
        (tmp_path / "cache").write_bytes(b"not a folder")
    elif there == b"folder":
        path.mkdir(parents=True)
    with small_blocks():
        index = StoredSearchIndex(path, disk=None if there else Full())
        index.add(LOG)
        assert answers(index) == answers(index_of(LOG))
        index.clear()
        assert index.head == Head()
        index.add(LOG)
        assert index.head.seq == len(LOG)
        index.close()


def test_a_disk_that_fills_up_takes_nothing_away(tmp_path: Path) -> None:
    class Filling(Disk):
        room = 5

        def write(self, fd: int, data: bytes | memoryview) -> int:
            self.room -= 1
            if self.room < 0:
                raise OSError(errno.ENOSPC, "no space left on device")
            return super().write(fd, data)

    with small_blocks():
        index = StoredSearchIndex(tmp_path / "search", disk=Filling())
        index.add(LOG)
        assert answers(index) == answers(index_of(LOG))
        index.close()
        again = StoredSearchIndex(tmp_path / "search")
        assert again.head.seq == 16
        catch_up(again)
        assert answers(again) == answers(index_of(LOG))


def test_who_may_not_write_reads_and_writes_nothing(tmp_path: Path) -> None:
    with small_blocks():
        stored(LOG[:20], tmp_path / "search").close()
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        (tmp_path / "search.0000000000000013-0000000000000016").write_bytes(b"damage")
        before[tmp_path / "search.0000000000000013-0000000000000016"] = b"damage"
        index = StoredSearchIndex(tmp_path / "search", may_write=False)
        assert index.head.seq == 12
        catch_up(index)
        assert answers(index) == answers(index_of(LOG))
        index.clear()
        assert index.head == Head()
        catch_up(index)
        assert answers(index) == answers(index_of(LOG))
        index.close()
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


# --- several processes ---------------------------------------------------------------------------------------------


def test_what_another_added_is_taken_over(tmp_path: Path) -> None:
    with small_blocks():
        one, two = StoredSearchIndex(tmp_path / "search"), StoredSearchIndex(tmp_path / "search")
        one.add(LOG[:6])
        two.add(LOG[:6])
        one.add(LOG[6:20])
        assert two.head.seq == 20
        two.add(LOG[18:])
        catch_up(one)
        assert answers(one) == answers(two) == answers(index_of(LOG))


def test_what_another_cleared_is_empty(tmp_path: Path) -> None:
    with small_blocks():
        one, two = stored(LOG, tmp_path / "search"), StoredSearchIndex(tmp_path / "search")
        assert two.head.seq == 39
        one.clear()
        assert two.head == one.head == Head()
        assert [path.name for path in tmp_path.iterdir()] == ["search"]


def test_who_finds_all_files_deleted_starts_over(tmp_path: Path) -> None:
    # This is what an erasure does to the folder.
    with small_blocks():
        index = stored(LOG[:10], tmp_path / "search")
        for path in tmp_path.iterdir():
            path.unlink()
        index.add(LOG[10:])
        assert index.head == Head()
        catch_up(index)
        assert answers(index) == answers(index_of(LOG))


def test_another_history_does_not_mix_with_this_one(tmp_path: Path) -> None:
    other = [msgspec.structs.replace(one, sum=f"{one.seq:016d}"[::-1]) for one in LOG]
    with small_blocks():
        index = stored(LOG, tmp_path / "search")
        index.clear()
        index.add(other)
        index.close()
        assert StoredSearchIndex(tmp_path / "search").head == Head(39, other[-1].sum)


_PROGRAM = """
import sys
from pathlib import Path
from chatfold.eventlog import MessageAdded, Text, search_blocks
from chatfold.eventlog.files import search_files
from chatfold.eventlog.events import Entry

search_blocks._FULL, search_files._WORTH = 16, 1
log = [
    Entry(seq, 0, MessageAdded("user", (Text(f"entry number {seq}"),)), prev=f"{seq - 1:016x}", sum=f"{seq:016x}")
    for seq in range(1, 301)
]
index = search_files.StoredSearchIndex(Path(sys.argv[1]))
while (seq := index.head.seq) < len(log):
    index.add(log[seq : seq + int(sys.argv[2])])
index.close()
"""


def test_processes_that_add_at_once_neither_damage_nor_double_anything(tmp_path: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", _PROGRAM, str(tmp_path / "search"), size], cwd=ROOT)
        for size in ("1", "3", "40")
    ]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    log = entries(*(f"entry number {seq}" for seq in range(1, 301)))
    with small_blocks(16):
        index = StoredSearchIndex(tmp_path / "search")
        assert index.head == Head(300, log[-1].sum)
        assert seqs(index, log, "number 17") == seqs(index_of(log), log, "number 17")
        assert seqs(index, log, "entry") == list(range(300, 0, -1))
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {f"search.{first:016d}-{first + 15:016d}" for first in range(1, 289, 16)}


# --- forks -----------------------------------------------------------------------------------------------------


def test_a_fork_takes_along_what_it_shares(tmp_path: Path) -> None:
    with small_blocks():
        stored(LOG, tmp_path / "search").close()
        share_search(Disk(), tmp_path / "search", tmp_path / "fork", 18)
        fork = StoredSearchIndex(tmp_path / "fork")
        assert fork.head == Head(16, LOG[15].sum)
        fork.clear()
        fork.add(LOG[:17])
        assert StoredSearchIndex(tmp_path / "search").head.seq == 39
        share_search(Disk(), tmp_path / "missing", tmp_path / "none", 18)
