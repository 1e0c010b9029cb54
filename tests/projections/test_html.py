"""A chat as a page: whatever was said, the page has no tags but ours, fetches nothing, and says all of it."""

import base64
import re
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    CheckpointSet,
    ContextSwitched,
    Data,
    Entry,
    Event,
    File,
    Forked,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Part,
    Reasoning,
    Redacted,
    Rewound,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.projections.documents.describe import REDACTED_EXPORT
from chatfold.projections.documents.html import MOST, POLICY, STYLE, to_html, visible
from chatfold.testing.strategies import VOCABULARY, events, events_of
from tests.support.histories import NOON, assistant, compacted, entries, erased, user

TAGS = {
    "html": {"lang"},
    "head": set(),
    "meta": {"charset", "http-equiv", "content", "name"},
    "title": set(),
    "style": set(),
    "body": set(),
    "header": set(),
    "h1": {"dir"},
    "h2": set(),
    "main": set(),
    "article": {"id", "class"},
    "div": {"id", "class", "dir"},
    "p": {"class"},
    "details": set(),
    "summary": {"class"},
    "time": {"datetime"},
    "a": {"href", "class", "rel"},
    "bdi": set(),
    "i": set(),
    "img": {"alt", "src"},
    "footer": set(),
    "nav": {"id", "aria-label"},
    "ol": set(),
    "li": {"class"},
}
VOID = {"meta", "img"}


class Reader(HTMLParser):
    """Reads a page, and minds every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.texts: list[str] = []
        self.kinds: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, f"a tag that is not ours: {tag}"
        found = dict(attrs)
        assert set(found) <= TAGS[tag]
        assert len(found) == len(attrs)
        if tag == "a":
            assert "a" not in self.open, "a link within a link"
        for name, value in found.items():
            assert value is not None
            self._attribute(tag, name, value, found)
        if tag not in VOID:
            self.open.append(tag)

    def _attribute(self, tag: str, name: str, value: str, found: dict[str, str | None]) -> None:
        if name == "href":
            self.links.append(value)
            if not re.fullmatch(r"#turns|#e-?\d+", value):
                assert re.match(r"https?://[!-~]+\Z", value)
                assert "noreferrer" in (found["rel"] or "")
        elif name == "src":
            assert re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*", value)
            self.pictures.append(value)
        elif name == "id":
            self.ids.append(value)
        elif name == "class":
            assert re.fullmatch(r"[a-z ]+", value)
            self.kinds.append(value)
        elif tag != "meta":
            assert re.fullmatch(r"[A-Za-z0-9 :-]*", value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def handle_pi(self, data: str) -> None:
        raise AssertionError("an instruction")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError("a declaration")


def read(history: list[Entry], title: str = "") -> Reader:
    reader = Reader()
    reader.feed("".join(to_html(history, title)))
    reader.close()
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    return reader


def text_of(*some: Event) -> str:
    return "".join(read(entries(some)).texts)


# --- laws ------------------------------------------------------------------------------------------------

_PIECES = """
<script>alert(1)</script>|</script|</style>|</title>|</div>|</details>|</article>|</bdi>|<b|<!--|-->|<![CDATA[|]]>|<?x
"|'|" onclick="x|' style='x|&|&lt;|&#x3c;|&#0;|&amp|<img src=https://e.vil>|<a href=javascript:x>|javascript:alert(1)
https://e.vil/?a=1&b="2"|http://e.vil|https://e.vil/'><script>|data:text/html,<b>|//e.vil|<base href=x>|<svg onload=x>
"""
_pieces = st.sampled_from([piece for row in _PIECES.strip().split("\n") for piece in row.split("|")])
_odd = st.sampled_from(
    ("\0", "\x1b[31m", "\r", "\r\n", "\n", "\t", "\u202e", "\u2066", "\ud800", "\ufeff", "\U000e0041", "é")
)
_hostile = st.lists(_pieces | _odd | st.text(max_size=5), max_size=6).map("".join)
_parts: st.SearchStrategy[Part] = st.one_of(
    _hostile.map(Text),
    _hostile.map(Reasoning),
    st.builds(File, _hostile | st.just("image/png"), st.binary(max_size=9), _hostile, _hostile),
    st.builds(Data, _hostile, _hostile | st.dictionaries(_hostile, _hostile, max_size=2)),
)
_some = st.lists(_parts, max_size=3).map(tuple)
_talking: st.SearchStrategy[Event] = st.one_of(
    st.builds(MessageAdded, st.sampled_from(("user", "assistant")), _some),
    st.builds(ToolCalled, _hostile, _hostile, _hostile),
    st.builds(ToolReturned, _hostile, _some, st.booleans()),
    st.builds(
        Noted, _hostile | st.just(REDACTED_EXPORT), st.fixed_dictionaries({"rules": st.lists(_hostile)})
    ),
    st.builds(ContextSwitched, _hostile, reason=_hostile),
    st.builds(CheckpointSet, _hostile),
)


def histories() -> st.SearchStrategy[list[Entry]]:
    return st.lists(st.one_of(events(), _talking, _talking), max_size=10).map(entries)


@given(histories(), _hostile)
def test_a_page_has_only_our_tags_and_attributes_and_nothing_is_fetched(
    history: list[Entry], title: str
) -> None:
    page = "".join(to_html(history, title))
    assert page.encode().decode() == page
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", page)
    reader = read(history, title)
    seqs = [int(anchor[1:]) for anchor in reader.ids if anchor != "turns"]
    assert seqs == sorted(seqs)


@given(histories())
def test_what_users_and_assistants_said_is_there(history: list[Entry]) -> None:
    shown = "".join(read(history).texts)
    for entry in history:
        if isinstance(entry.event, MessageAdded):
            for part in entry.event.parts:
                if isinstance(part, Text | Reasoning) and part.text.strip():
                    assert visible(part.text[:MOST].strip("\n")) in shown


@given(st.data())
@pytest.mark.parametrize("kind", [*VOCABULARY, Unknown], ids=lambda kind: kind.__name__)
def test_everything_is_told_but_that_a_run_or_a_model_began_or_ended_well(
    kind: type[Event], data: st.DataObject
) -> None:
    event = data.draw(events_of(kind))
    told = "e1" in read(entries([event])).ids
    match event:
        case RunStarted() | RunFinished(outcome="done") | ModelCalled() | ModelReturned(error=""):
            assert not told
        case Noted(name=name) if name.startswith("chatfold."):
            pass
        case _:
            assert told


# --- the page --------------------------------------------------------------------------------------------


def test_the_policy_allows_the_one_style_and_nothing_else() -> None:
    page = "".join(to_html([]))
    [style] = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    assert style == STYLE
    assert POLICY.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:;")
    assert page.index(POLICY) < page.index("<style>")
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_the_index_leads_to_turns_and_marks() -> None:
    history = entries(
        [
            user("Why?"),
            assistant(),
            compacted(1, 2),
            Rewound(1),
            Forked("parent", 2),
            CheckpointSet("here"),
            ContextSwitched("main"),
            RunFinished("failed", "TimeoutError"),
            Redacted((2,)),
            user("And now?"),
        ]
    )
    page = "".join(to_html(history))
    nav = page[page.index("<nav") :]
    assert re.findall(r'<li class="(\w+)"><a href="#e(\d+)">', nav) == [
        ("turn", "1"),
        ("compaction", "3"),
        ("rewind", "4"),
        ("fork", "5"),
        ("checkpoint", "6"),
        ("context", "7"),
        ("error", "8"),
        ("redaction", "9"),
        ("turn", "10"),
    ]
    assert "10 entries are shown" in page


def test_pieces_come_as_entries_are_read() -> None:
    taken: list[int] = []

    def reading() -> Iterator[Entry]:
        for entry in entries([user(), assistant()]):
            taken.append(entry.seq)
            yield entry

    pieces = to_html(reading())
    assert (next(pieces)[:15], taken) == ("<!DOCTYPE html>", [])
    assert (next(pieces)[:16], taken) == ('<article id="e1"', [1])
    assert (next(pieces)[:16], taken) == ('<article id="e2"', [1, 2])


def test_calls_results_and_reasoning_are_folded() -> None:
    history = entries(
        [
            ToolCalled("c", "read", {"path": "a.py"}),
            ToolReturned("c", (Text("no such file"),), failed=True),
            MessageAdded("assistant", (Reasoning("hm"), Text("so"))),
        ]
    )
    page = "".join(to_html(history))
    assert page.count("<details>") == 3
    assert '<article id="e2" class="tool failed">' in page
    assert "".join(read(history).texts).count("read, called in #1") == 1


def test_what_is_too_large_is_cut_and_says_so() -> None:
    history = entries([ToolReturned("c", (Text("x" * (MOST + 50_000_000)),))])
    page = "".join(to_html(history))
    assert len(page) < 2 * MOST
    assert "50,000,000 more characters are not shown here. The JSONL export has them." in page
    assert "x" * MOST in page


def test_what_cannot_be_seen_is_set_apart_from_what_only_looks_like_it() -> None:
    page = "".join(to_html(entries([user("a\u202eb \\u202e \ud800\x1b[2J\r\n\u200d")])))
    assert "a<i>\\u202e</i>b \\u202e <i>\\ud800\\x1b</i>[2J\n\u200d" in page


@pytest.mark.parametrize(
    ("file", "links", "pictures"),
    [
        (File("image/png", b"\x89PNG\r\n\x1a\n1"), 0, 1),
        (File(" IMAGE/PNG", b"\x89PNG\r\n\x1a\n1"), 0, 1),
        (File("image/png", b"<svg>"), 0, 0),
        (File("image/png", b"\x89PNG\r\n\x1a\n" + bytes(1 << 18)), 0, 0),
        (File("image/svg+xml", b"<svg onload=x>"), 0, 0),
        (File("image/png", url="https://e.vil/x.png"), 1, 0),
        (File("image/png", url='https://e.vil/"onclick="x'), 1, 0),
        (File("image/png", url="https://e.vil/'><script>"), 1, 0),
        (File("image/png", url="data:image/png;base64,iVBORw0KGgo="), 0, 0),
        (File("image/png", url="javascript:alert(1)"), 0, 0),
        (File("image/png", url="file:///etc/passwd"), 0, 0),
        (File('image/png" onload="x', b"\x89PNG\r\n\x1a\n"), 0, 0),
    ],
)
def test_files_are_described_and_only_small_known_pictures_shown(
    file: File, links: int, pictures: int
) -> None:
    reader = read(entries([MessageAdded("user", (file,))]))
    assert len([link for link in reader.links if not link.startswith("#")]) == links
    assert len(reader.pictures) == pictures
    assert "file, " in "".join(reader.texts)


def test_an_erased_entry_and_a_redacted_export_say_so() -> None:
    history = erased(entries([user("my address"), Redacted((1,))]))
    assert "user · ▒ erased" in "".join(read(history).texts)
    note = Noted(REDACTED_EXPORT, {"rules": ["emails", "text 1"]})
    assert "▒ redacted before it was exported, by the rules emails, text 1" in text_of(note)
    assert "chatfold" not in text_of(Noted("chatfold.tools", {"a": 1})).replace("Written by chatfold", "")


@pytest.mark.parametrize("text", ["<" * 200_000, "\0" * 200_000, "\u202ea" * 100_000, "\n" * 200_000])
def test_a_text_made_to_be_large_stays_small(text: str) -> None:
    assert len("".join(to_html([Entry(1, NOON, user(text))]))) < 30 * MOST
