"""Redacted exports: what was to be left out is nowhere in them, and what is left is still a chat."""

import json
import re
from collections.abc import AsyncIterator
from html import escape
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Moment, Store, masking
from chatfold.agent.exporting import Form
from chatfold.eventlog import (
    ChatStarted,
    ContextOpened,
    Data,
    Entry,
    Event,
    File,
    Injected,
    MessageAdded,
    ModelCalled,
    NoSuchChat,
    Noted,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.projections.documents.describe import REDACTED_EXPORT
from chatfold.replay.redact import Redaction, Report, export, redact_chat
from chatfold.replay.redact_rules import BadRule, Rules, may_hold_secrets
from chatfold.replay.verbs.files import export_page
from chatfold.testing.strategies import events
from tests.support.debugger.pages import unpack

FORMS: tuple[Form, ...] = get_args(Form)


async def chat_of(*some: Event, key: str = "chat", **how: Any) -> Moment:
    chat = await Store.memory().chat(key)
    for event in some:
        await chat.record(event, **how)
    return chat


async def bytes_of(moment: Moment, rules: Rules, form: Form) -> bytes:
    return b"".join([piece async for piece in (await redact_chat(moment, rules)).export_bytes(form)])


async def page_of(moment: Moment, rules: Rules) -> bytes:
    pieces = export_page(moment, await redact_chat(moment, rules), 1)
    return unpack(b"".join([piece async for piece in pieces]).decode()).encode()


def shown(rules: list[str], *some: Event) -> list[Event]:
    """The events after the rules."""
    redaction = Redaction(Rules.parse(rules))
    return [redaction.of(Entry(seq, 0, event)).event for seq, event in enumerate(some, 1)]


def applied(rule: str, text: str) -> str:
    return Rules.parse([rule]).apply(text, {})


# --- the law ---------------------------------------------------------------------------------------------

# It begins with what no structure has; then comes what JSON, HTML, Markdown and our own masks write in another way.
literals = st.text('Жé🎈"\\<&\nu0[]redact█•\ud800', max_size=4).map("Ж".__add__)


def escaped(literal: str) -> str:
    return json.dumps(literal)[1:-1]


def told(value: Any, draw: st.DrawFn, literal: str) -> Any:
    """The same, with the literal in any of its strings, names of mappings included."""
    match value:
        case str():
            inner = draw(st.sampled_from(("", "", literal, literal * 2, f"a{escaped(literal)}b")))
            return value + inner + draw(st.sampled_from(("", "Щ", "[", "]")))
        case dict():
            items = [(told(key, draw, literal), told(item, draw, literal)) for key, item in value.items()]
            return dict(items)
        case list():
            return [told(item, draw, literal) for item in value]
        case tuple():
            return tuple(told(item, draw, literal) for item in value)
        case File(media_type=kind, data=data):
            text = draw(st.sampled_from((b"", literal.encode("utf-8", "surrogatepass"))))
            return File(draw(st.sampled_from((kind, "text/plain", "application/json"))), data + text, literal)
        case Unknown():
            return Unknown("x", msgspec.json.encode({"type": "x", "words": literal.replace("\ud800", "")}))
        case msgspec.Struct():
            fields = [(field.name, field.type) for field in msgspec.structs.fields(value)]
            free = {
                name: getattr(value, name) for name, kind in fields if get_args(kind)[:1] not in _LITERALS
            }
            keep = {name: one for name, one in free.items() if not _is_counts(value, name)}
            return msgspec.structs.replace(value, **{n: told(one, draw, literal) for n, one in keep.items()})
    return value


_LITERALS = {("user",), ("exec",), ("summary",), ("done",)}


def _is_counts(value: msgspec.Struct, name: str) -> bool:
    return name in ("usage", "tokens") and isinstance(getattr(value, name), dict)


@st.composite
def chats(draw: st.DrawFn) -> tuple[str, list[Event]]:
    literal = draw(literals)
    return literal, [told(event, draw, literal) for event in draw(st.lists(events(), min_size=1, max_size=6))]


@given(chats())
async def test_a_literal_is_nowhere_in_any_form(chat: tuple[str, list[Event]]) -> None:
    literal, some = chat
    moment = await chat_of(*some, key=f"key {literal}", run=f"run {literal}")
    rules = Rules.parse(["secrets", f"text:{literal}", "paths"])
    ways = {literal, escaped(literal), json.dumps(literal, ensure_ascii=False)[1:-1], escape(literal)}
    for data in (await page_of(moment, rules), *[await bytes_of(moment, rules, form) for form in FORMS]):
        for way in ways:
            assert way.encode("utf-8", "surrogatepass") not in data


@given(chats(), st.sampled_from((["emails"], ["secrets", "re:[a-e]"], ["text:Ж", "phones"])))
async def test_a_redacted_log_is_a_chat_that_opens_with_the_same_entries_and_the_note(
    chat: tuple[str, list[Event]], given_rules: list[str]
) -> None:
    moment = await chat_of(*chat[1], run="r")
    rules = Rules.parse(given_rules)
    data = await bytes_of(moment, rules, "jsonl")
    store = Store.memory()
    await store.log.storage.import_chat("copy", _one(data))
    copy = await store.chat("copy")
    old = [entry async for entry in moment.entries()]
    *new, note = [entry async for entry in copy.entries()]
    assert [(entry.seq, entry.ts) for entry in new] == [(entry.seq, entry.ts) for entry in old]
    assert note.event == Noted(REDACTED_EXPORT, note.event.data)  # type: ignore[union-attr]
    assert note.event.data["rules"] == rules.labels
    for shape in ("neutral", "openai", "openai-responses", "anthropic"):
        await copy.messages(shape)
    again = b"".join([piece async for piece in copy.export_bytes("jsonl")])
    assert again == data


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


@given(st.lists(events(), min_size=1, max_size=5))
async def test_what_no_rule_finds_stays_as_it_is(some: list[Event]) -> None:
    redaction = Redaction(Rules.parse(["text:\U0001f9ff no such text \U0001f9ff"]))
    entries = [Entry(seq, 0, event, run="r", id="i") for seq, event in enumerate(some, 1)]
    assert all(redaction.of(entry) is entry for entry in entries)
    assert redaction.report.count == 0


# --- what is found ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "text", "left"),
    [
        ("secrets", "export API_TOKEN=abc123 && run", "export API_TOKEN=••• && run"),
        ("emails", "ask bob.smith+x@mail.example.org, or a@b", "ask [redacted], or a@b"),
        ("emails", "jürgen@müller.de.", "[redacted]."),
        ("phones", "call +49 (170) 123-4567 or 555-123-4567", "call [redacted] or [redacted]"),
        ("phones", "on 2025-02-05 at 10.0.0.1, 1738713600000", "on 2025-02-05 at 10.0.0.1, 1738713600000"),
        ("paths", "/home/alice/x.py, /Users/bob", "/home/[redacted]/x.py, /Users/[redacted]"),
        ("paths", r"C:\Users\John Smith\a d:\\users", r"C:\Users\[redacted]\a d:\\users"),
        ("paths", r'"C:\\Users\\bob\\a"', r'"C:\\Users\\[redacted]\\a"'),
        ("text:Ann", "Ann, Anna, ANN", "[redacted], [redacted]a, ANN"),
        ("text:Müller", r"M\u00FCller M\\u00fcller", "[redacted] [redacted]"),
        ('text:a"b', r"a\"b a\\\"b", "[redacted] [redacted]"),
        ("text:a[", "aa[[", "a█████["),
        ("text:red", "bored, red, [redacted]", "bo█████, █████, [█████acted]"),
        ("text:🎈", r"\ud83c\udf88", "[redacted]"),
        (r"re:(?i)acme-\d+", "ACME-12, acme-x", "[redacted], acme-x"),
        (r"re:\b|x", "a x", "a [redacted]"),
    ],
)
def test_what_a_rule_finds_in_a_text(rule: str, text: str, left: str) -> None:
    assert applied(rule, text) == left


@pytest.mark.parametrize(
    "text", ["\\" * 200_000, "a." * 100_000 + "@", "+1" * 100_000, "/home/" + "a " * 99_999]
)
@pytest.mark.parametrize("rule", ["secrets", "emails", "phones", "paths", r"text:\"\"x"])
def test_a_text_made_to_be_slow_is_not(rule: str, text: str) -> None:
    assert applied(rule, text)  # what is quadratic takes minutes


@given(st.data())
@pytest.mark.parametrize("pattern", masking._SECRETS, ids=range(len(masking._SECRETS)))
def test_what_would_be_masked_is_not_passed_over(pattern: re.Pattern[str], data: st.DataObject) -> None:
    assert may_hold_secrets(data.draw(st.from_regex(pattern)))


def test_an_entry_is_counted_once_and_another_in_its_place_is_looked_at() -> None:
    redaction = Redaction(Rules.parse(["text:Ann", "emails"]))
    entries = [Entry(seq, 0, Noted("n", text), sum=f"{seq}") for seq, text in enumerate(("Ann", "Bob"), 1)]
    once = [redaction.of(entry) for entry in entries]
    assert [redaction.of(entry) for entry in reversed(entries)] == once[::-1]
    assert redaction.report.lines() == ["emails: nothing", "text 1: 1 in e1"]
    other = redaction.of(Entry(2, 0, Noted("n", "Ann, a@b.org"), sum="other"))
    assert other.event == Noted("n", "[redacted], [redacted]")


def test_secrets_are_known_by_the_names_of_their_values() -> None:
    args = {"password": "hunter2", "pin": 3, "token": ["a", 7], "max_tokens": 5, "api_key": "$KEY"}
    [call] = shown(["secrets"], ToolCalled("c", "t", args))
    assert call == ToolCalled(
        "c", "t", {"password": "•••", "pin": 3, "token": ["•••", "•••"], "max_tokens": 5, "api_key": "$KEY"}
    )


def test_names_numbers_bytes_and_text_files_are_looked_at() -> None:
    args = {"Ann": [12345, 1.5, True, None], "AnnX": b"Ann", "other": b"\xff"}
    file = File("text/csv", "Ann;é\xff".encode() + b"\xff", "Ann.csv")
    picture = File("image/png", b"Ann")
    [call, said] = shown(
        ["text:Ann", "text:12345"], ToolCalled("c", "t", args), MessageAdded("user", (file, picture))
    )
    assert call == ToolCalled(
        "c",
        "t",
        {"[redacted]": ["[redacted]", 1.5, True, None], "[redacted]X": b"[redacted]", "other": b"\xff"},
    )
    csv = File("text/csv", "[redacted];é\xff".encode() + b"\xff", "[redacted].csv")
    assert said == MessageAdded("user", (csv, picture))


def test_names_of_mappings_that_become_one_stay_two() -> None:
    [note] = shown(["re:[ab]"], Noted("n", {"a": 1, "b": 2, "[redacted]": 3}))
    assert isinstance(note, Noted)
    assert list(note.data.values()) == [1, 2, 3]
    assert len(note.data) == 3


def test_different_ids_stay_different_and_equal_ones_equal() -> None:
    calls = [ToolCalled(f"call_{n}", "t") for n in range(60)]
    results = [ToolReturned(f"call_{n}") for n in range(60)]
    left: list[Any] = shown([r"re:call_\d+"], *calls, *results)
    ids = [event.call for event in left]
    assert ids[:60] == ids[60:]
    assert len(set(ids)) == 60
    assert ids[:3] == ["[redacted]", "[redacted][redacted]A", "[redacted][redacted]B"]


def test_what_was_computed_from_what_is_gone_goes_too() -> None:
    some: list[Event] = [
        ModelCalled("m", "f1"),
        MessageAdded("assistant", (Reasoning("Ann", signature="s"), Reasoning("x", signature="s"))),
        Injected("user", "hash", (Text("Ann"),)),
        Injected("user", "other", (Text("x"),)),
        ModelCalled("m", "f2"),
    ]
    assert shown(["text:Ann"], *some) == [
        some[0],
        MessageAdded("assistant", (Reasoning("[redacted]"), Reasoning("x", signature="s"))),
        Injected("user", "[redacted]", (Text("[redacted]"),)),
        some[3],
        ModelCalled("m", "[redacted]"),
    ]


def test_what_is_not_of_our_vocabulary_is_looked_at_and_stays_unknown() -> None:
    known_shape = Unknown("merged", b'{"type":"merged","to":["Ann",{"Ann":1}],"\x7f007f":"\x7fd800"}')
    [left] = shown(["text:Ann"], known_shape)
    assert left == Unknown(
        "merged", b'{"type":"merged","to":["[redacted]",{"[redacted]":1}],"\x7f007f":"\x7fd800"}'
    )


# --- rules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("passwords", "no such rule: 'passwords'"),
        ("", "no such rule"),
        ("text:", "text: without a text"),
        ("re:(", "not a regular expression: '\\('"),
        ("re:x*", "matches even the empty text"),
        ("re:", "matches even the empty text"),
    ],
)
def test_a_rule_that_is_none_is_refused(rule: str, why: str) -> None:
    with pytest.raises(BadRule, match=why) as refused:
        Rules.parse(["secrets", rule])
    assert "text:LITERAL" in str(refused.value)


@pytest.mark.parametrize("pattern", [r"(?:\w++\s?)*x", r"[a-z]+\d+", r"(?>a+)+b", r"(?:\d{1,3}\.){3}\d{1,3}"])
def test_other_patterns_are_taken(pattern: str) -> None:
    assert Rules.parse([f"re:{pattern}"])


def test_rules_come_from_files_and_their_labels_do_not_say_what_is_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("# who\n\ntext:Ann Lee\nemails\nre:ACME\\d\n", "utf-8")
    rules = Rules.parse(["text:Bob", f"@{file}", "emails"])
    assert rules.labels == ["emails", "re 1", "text 1", "text 2"]
    file.write_text("@other")
    with pytest.raises(BadRule, match="within another"):
        Rules.parse([f"@{file}"])
    file.write_bytes(b"\xff")
    with pytest.raises(BadRule, match="not UTF-8"):
        Rules.parse([f"@{file}"])
    with pytest.raises(FileNotFoundError):
        Rules.parse([f"@{tmp_path / 'none'}"])
    assert not Rules.parse([])


# --- exports ---------------------------------------------------------------------------------------------


async def a_chat() -> Moment:
    return await chat_of(
        ChatStarted("Ann-7", "Ann's chat"),
        MessageAdded("user", (Text("I am Ann, ann@example.org, Ann"),)),
        ContextOpened("c", "for Ann"),
        MessageAdded("user", (Text("and now?"), Data("d", {"by": "Ann"}))),
    )


async def test_a_report_says_which_rule_found_how_much_where(tmp_path: Path) -> None:
    report = await export(
        await a_chat(), tmp_path / "a.md", "markdown", Rules.parse(["text:Ann", "emails", "paths"])
    )
    assert report.lines() == ["emails: 1 in e2", "paths: nothing", "text 1: 6 in e1, e2, e3, e4"]
    document = (tmp_path / "a.md").read_text("utf-8")
    assert document.startswith("# `[redacted]'s chat`")
    assert "redacted before it was exported, by the rules `emails`" in document
    many = Redaction(Rules.parse(["text:x"]))
    for seq in range(1, 16):
        many.of(Entry(seq, 0, Noted("x")))
    assert many.report.lines()[0].endswith("e11, e12 and 3 more")


async def test_the_note_says_what_was_done_but_nothing_of_what_is_gone(tmp_path: Path) -> None:
    rules = Rules.parse(["text:Ann", "re:example"])
    await export(await a_chat(), tmp_path / "a.jsonl", "jsonl", rules)
    copy = await Store.memory().import_chat(tmp_path / "a.jsonl", "copy")
    [*_, last] = [entry async for entry in copy.entries()]
    assert last.event == Noted(
        REDACTED_EXPORT, {"rules": ["re 1", "text 1"], "entries": 4, "replaced": 7, "first": 1}
    )
    assert b"Ann" not in (tmp_path / "a.jsonl").read_bytes()


async def test_without_rules_the_export_is_the_chat_itself(tmp_path: Path) -> None:
    chat = await a_chat()
    assert await export(chat, tmp_path / "a.jsonl", "jsonl", Rules.parse([])) == Report(())
    copy = await Store.memory().import_chat(tmp_path / "a.jsonl", "copy")
    assert copy.view.fingerprint == chat.view.fingerprint


async def test_an_earlier_moment_is_exported_up_to_there() -> None:
    chat: Any = await a_chat()
    data = await bytes_of(await chat.at(2), Rules.parse(["emails"]), "jsonl")
    store = Store.memory()
    await store.log.storage.import_chat("copy", _one(data))
    assert (await store.chat("copy")).seq == 3


async def test_what_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(NoSuchChat):
        await export(await chat_of(), tmp_path / "a.jsonl", "jsonl", Rules.parse(["emails"]))
    with pytest.raises(ValueError, match="no such form"):
        await export(await a_chat(), tmp_path / "a", "xml", Rules.parse(["emails"]))  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240
