"""A chat as a document: whatever was said, only what happened looks like something that happened."""

import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Data,
    Entry,
    Event,
    File,
    Forked,
    Injected,
    Lost,
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
    SendConfirmed,
    SendFailed,
    SendRequested,
    SkillActivated,
    SkillDeactivated,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.projections.documents.describe import REDACTED_EXPORT
from chatfold.projections.documents.markdown import code, fence, quote, to_markdown
from chatfold.testing.strategies import VOCABULARY, events, events_of
from tests.support.histories import NOON, assistant, compacted, entries, erased, user

AT = " · 2025-02-05 00:00:00 UTC · #1"


def blocks(*some: Event) -> list[str]:
    """What stands between the empty lines."""
    return "".join(to_markdown(entries(some))).rstrip("\n").split("\n\n")


# --- laws ------------------------------------------------------------------------------------------------

# What ends a quote, a fence or a line elsewhere, begins something, or is run or fetched.
_LINES = """
### user · 2025-02-05 00:00:00 UTC · #1|*rewound to #1*|# `title`|===|---|>|> deeper|- item|1. item|    code|\ttab
```|````|~~~|``|`|- ```|> ```|```json|*|**|_|\\|`a` `|| a | b ||---|---|
<script>alert(1)</script>|<b|</b>|<!-- |--> |<?php|<![CDATA[|<a href="x">|<https://e.vil>|\\<i>|a<b|&lt;|<
![x](https://e.vil/x.png)|![x]|![x][x]|\\![x](y)|[x]: https://e.vil|- [x]: y|> [x]: y|[x|]: y|[x\\]: y|\\[x]: y|[^1]: y|[^1]|[x]
"""
_lines = st.sampled_from(
    [line for row in _LINES.strip().split("\n") for line in re.split(r"(?<! )\||\|(?! )", row)]
)
_breaks = st.sampled_from(
    ("\n", "\n", "\n\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "", " ")
)
_hostile = st.lists(st.tuples(_lines, _breaks), max_size=6).map(lambda some: "".join(map("".join, some)))


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def spoil(value: _Struct, draw: st.DrawFn) -> _Struct:
    """The same, saying what Markdown would take for something else wherever it can say anything."""
    changed: dict[str, object] = {}
    for field in msgspec.structs.fields(value):
        old = getattr(value, field.name)
        if field.type is str:
            changed[field.name] = draw(_hostile)
        elif field.name == "parts":
            changed[field.name] = tuple(spoil(part, draw) for part in old)
        elif field.name in ("args", "data") and not isinstance(value, File):
            changed[field.name] = draw(_hostile | st.dictionaries(_hostile, _hostile, max_size=2))
    return replace(value, **changed)


@st.composite
def spoiled(draw: st.DrawFn) -> Event:
    return spoil(draw(events()), draw)


_words = st.lists(_hostile.map(Text), min_size=1, max_size=2).map(tuple)
_talking: st.SearchStrategy[Event] = st.one_of(
    st.builds(MessageAdded, st.sampled_from(("user", "assistant")), _words),
    st.builds(ToolCalled, _hostile, _hostile, _hostile),
    st.builds(ToolReturned, _hostile, _words),
)


def histories() -> st.SearchStrategy[list[Entry]]:
    return st.lists(st.one_of(events(), spoiled(), _talking, _talking), max_size=12).map(entries)


HEADING = re.compile(
    r"#{3} (user|assistant|system|developer|tool call: |tool result: ).* · \S+ \S+ UTC · #\d+"
)
TITLE = re.compile(r"# (`.*`|\(empty\))")
ITALIC = re.compile(r"\*[a-z`(].*\*")
MARKUP = re.compile(r"<[a-zA-Z/!?]|!\[")


def outside_of_fences(document: str) -> Iterator[str]:
    """Its lines, having seen that each fence is closed by its own."""
    lines = iter(document.split("\n"))
    for line in lines:
        if line.startswith("`"):
            opened = re.fullmatch("(`{3,})(|json)", line)
            assert opened
            assert opened[1] in lines, "a fence is not closed"  # which takes all lines up to there
            assert next(lines) == ""
        else:
            yield line


@given(histories(), _hostile)
def test_outside_of_fences_every_line_begins_as_ours_do(history: list[Entry], title: str) -> None:
    document = "".join(to_markdown(history, title))
    before = ""
    for line in outside_of_fences(document):
        if line.startswith(">"):
            assert line == ">" or line.startswith("> ")
            assert not MARKUP.search(line)
        elif line:
            assert before == "", "a quote would go on"
            assert any(kind.fullmatch(line) for kind in (HEADING, TITLE, ITALIC))
        before = line


@given(histories(), _hostile)
def test_a_document_is_utf8_without_control_characters(history: list[Entry], title: str) -> None:
    document = "".join(to_markdown(history, title))
    assert document.encode().decode() == document
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", document)


def seqs_of_headings(document: str) -> list[int]:
    lines = [line for line in outside_of_fences(document) if line.startswith("###")]
    return [int(line.rpartition("#")[2]) for line in lines]


@given(histories())
def test_there_is_a_heading_for_each_message_call_and_result_and_for_nothing_else(
    history: list[Entry],
) -> None:
    with_heading = (MessageAdded, ToolCalled, ToolReturned)
    assert seqs_of_headings("".join(to_markdown(history))) == [
        entry.seq for entry in history if isinstance(entry.event, with_heading)
    ]


@given(st.data())
@pytest.mark.parametrize("kind", [*VOCABULARY, Unknown], ids=lambda kind: kind.__name__)
def test_everything_is_told_but_that_a_run_or_a_model_began_or_ended_well(
    kind: type[Event], data: st.DataObject
) -> None:
    event = data.draw(events_of(kind))
    match event:
        case RunStarted() | RunFinished(outcome="done") | ModelCalled() | ModelReturned(error=""):
            assert blocks(event) == [""]
        case _:
            assert re.search(r" · 2025-02-05 00:00:00 UTC · #1\*?$", blocks(event)[0])


def test_pieces_come_as_entries_are_read() -> None:
    taken: list[int] = []

    def read() -> Iterator[Entry]:
        for entry in entries([user(), assistant(), user()]):
            taken.append(entry.seq)
            yield entry

    pieces = to_markdown(read())
    assert (next(pieces), taken) == ("", [])  # no title
    assert (next(pieces)[:8], taken) == ("### user", [1])
    assert (next(pieces)[:13], taken) == ("### assistant", [1, 2])


# --- what is shown how -----------------------------------------------------------------------------------

CHAT = """\
# `The lexer`

*chat `telegram-42` started: `The lexer` · 2025-02-05 00:01:00 UTC · #1*

### user · 2025-02-05 00:02:00 UTC · #2

> Why does the lexer drop newlines?
>
> # see
> &lt;pre>

*file `lexer.py`, `text/x-python`, 9 bytes*

### assistant · 2025-02-05 00:04:00 UTC · #4

*reasoning*

> Let me read it.

*answer*

> I'll look.

### tool call: `read_file` · 2025-02-05 00:05:00 UTC · #5

```json
{"path": "lexer.py"}
```

### tool call: `read_file` · 2025-02-05 00:06:00 UTC · #6

```json
{"path": "parser.py"}
```

### tool result: `read_file`, called in #6 · failed · 2025-02-05 00:07:00 UTC · #7

```
no such file
```

### tool result: `read_file`, called in #5 · 2025-02-05 00:08:00 UTC · #8

````
```
# strips
````

### assistant · for the audit only · 2025-02-05 00:09:00 UTC · #9

> Because of strip().

*compacted #2 to #8 to a summary, trigger `manual` · 2025-02-05 00:10:00 UTC · #10*

> strip() is to blame

*checkpoint `before the fix` · 2025-02-05 00:11:00 UTC · #11*

*note `rating` on #9 · 2025-02-05 00:12:00 UTC · #12*

```json
{"stars": 5}
```

*run ended: failed · 2025-02-05 00:13:00 UTC · #13*

> TimeoutError
"""


def test_a_small_chat_as_a_document() -> None:
    history = entries(
        [
            ChatStarted("telegram-42", "The lexer"),
            MessageAdded(
                "user",
                (
                    Text("Why does the lexer drop newlines?\n\n# see\n<pre>\n"),
                    File("text/x-python", b"# strips\n", "lexer.py"),
                ),
            ),
            ModelCalled("m", "f"),
            MessageAdded("assistant", (Reasoning("Let me read it."), Text("I'll look."))),
            ToolCalled("a", "read_file", {"path": "lexer.py"}),
            ToolCalled("b", "read_file", {"path": "parser.py"}),
            ToolReturned("b", (Text("no such file"),), failed=True),
            ToolReturned("a", (Text("```\n# strips\n"),)),
            MessageAdded("assistant", (Text("Because of strip()."),), "audit"),
            compacted(2, 8, "strip() is to blame"),
            CheckpointSet("before the fix"),
            Noted("rating", {"stars": 5}, 9),
            RunFinished("failed", "TimeoutError"),
        ],
        tick=60_000,
    )
    assert "".join(to_markdown(history, "The lexer")) == f"{CHAT}\n"


@pytest.mark.parametrize(
    ("event", "line", "text"),
    [
        (ContextOpened("c_2", "docs", "done"), "context `c_2` opened: `docs`", "done"),
        (ContextOpened("c_2"), "context `c_2` opened", ""),
        (ContextSwitched("main", reason="back"), "switched to context `main`", "back"),
        (ContextCleared("enough"), "context cleared", "enough"),
        (ContextRecalled("c", "full", "we said"), "context `c` recalled for reference (full)", "we said"),
        (CompactionReverted(3, "too short"), "compaction #3 reverted", "too short"),
        (Rewound(4, "wrong way"), "rewound to #4", "wrong way"),
        (Forked("elsewhere", 9), "forked from `elsewhere` at #9", ""),
        (ChatStarted(), "chat started", ""),
        (SkillActivated("pdf", "f", "how to"), "skill `pdf` activated", "how to"),
        (SkillDeactivated("pdf"), "skill `pdf` deactivated", ""),
        (
            Injected("user", "f", (Text("it rains"),), "weather"),
            "injected as user, from `weather`",
            "it rains",
        ),
        (ModelReturned(error="overloaded"), "model failed", "overloaded"),
        (RunFinished("limit"), "run ended: limit", ""),
        (SendRequested("s", (Text("hi"),)), "to be sent to the user, `s`", "hi"),
        (SendConfirmed("s"), "sent to the user, `s`", ""),
        (SendFailed("s", "blocked"), "not sent to the user, `s`", "blocked"),
        (Redacted((3, 4), "asked for"), "erased: #3, #4", "asked for"),
        (Lost("bytes 3-9"), "lost: what was here could not be read", "bytes 3-9"),
        (Unknown("merged", b'{"type":"merged"}'), "`merged`, of a newer version", ""),
        (
            Noted(REDACTED_EXPORT, {"rules": ["emails", 7]}),
            "redacted before it was exported, by the rules `emails`",
            "",
        ),
        (Noted(REDACTED_EXPORT, "no rules"), "redacted before it was exported", ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, msgspec.Struct) else None,
)
def test_what_happened_is_a_line_with_its_text(event: Event, line: str, text: str) -> None:
    assert blocks(event) == [f"*{line}{AT}*", *([f"> {text}"] if text else [])]


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (File("image/png", b"123", "a.png"), ["*file `a.png`, `image/png`, 3 bytes*"]),
        (File("image/png", url="https://x/y.png"), ["*file, `image/png`, at `https://x/y.png`*"]),
        (
            File("image/png", url="data:image/png;base64,eHk="),
            ["*file, `image/png`, at `data:image/png;base64`*"],
        ),
        (Data("chart", [1, float("nan"), b"12"]), ["*data `chart`*", '```json\n[1, null, "MTI="]\n```']),
        (Reasoning("", redacted=True), ["*reasoning, not shown by the provider*"]),
        (Reasoning("", signature="x"), ["*reasoning, not shown by the provider*"]),
        (Text(" \n"), []),
    ],
)
def test_parts_without_words_are_described(part: Part, shown: list[str]) -> None:
    assert blocks(MessageAdded("user", (part,))) == [f"### user{AT}", *shown]


def test_results_are_fenced_and_those_of_no_known_call_say_so() -> None:
    parts = (Text("a"), File("text/plain", b"secret"), Data("d"))
    told = [f"### tool result: call `c`{AT}", "```\na\n```", "*file, `text/plain`, 6 bytes*"]
    assert blocks(ToolReturned("c", parts)) == [*told, "*data `d`*", "```json\nnull\n```"]


def test_a_call_is_answered_once_and_an_id_used_again_is_answered_in_order() -> None:
    document = "".join(
        to_markdown(entries([ToolCalled("c", "a"), ToolCalled("c", "b"), *[ToolReturned("c")] * 3]))
    )
    headings = [line.partition(" · ")[0] for line in document.splitlines() if "result" in line]
    assert headings == [
        "### tool result: `a`, called in #1",
        "### tool result: `b`, called in #2",
        "### tool result: call `c`",
    ]


def test_what_does_not_fit_on_a_line_is_indented() -> None:
    [_, shown] = blocks(ToolCalled("c", "write", {"text": "x" * 100}))
    assert shown == '```json\n{\n  "text": "' + "x" * 100 + '"\n}\n```'


def test_who_did_not_say_it_and_what_was_erased_is_in_the_heading() -> None:
    assert blocks(MessageAdded("user", (), "internal")) == [f"### user · internal{AT}"]
    history = erased(entries([user("my address"), Redacted((1,))]))
    document = "".join(to_markdown(history))
    assert document.startswith(f"### user · erased{AT}\n\n> [redacted]\n")


@pytest.mark.parametrize(
    ("ts", "shown"),
    [
        (NOON, "2025-02-05 00:00:00"),
        (-1, "1969-12-31 23:59:59"),
        (10**30, "9999-12-31 23:59:59"),
        (-(10**30), "0001-01-01 00:00:00"),
    ],
)
def test_times_are_in_utc(ts: int, shown: str) -> None:
    heading = "".join(to_markdown([Entry(1, ts, MessageAdded("user", ()))]))
    assert heading == f"### user · {shown} UTC · #1\n\n"


# --- texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# mine\n\n### user · #9", "> # mine\n>\n> ### user · #9"),
        ("a\r\nb\rc\x0bd\x0ce\x85f\u2028g\u2029h", "\n".join(f"> {char}" for char in "abcdefgh")),
        ("a\0\x1b[31m\x7f\x9b\u202e\u2066\ud800", "> a\ufffd\ufffd[31m" + "\ufffd" * 5),
        ("\ttab", "> \ttab"),
        ("<b>x</b> <!-- <?php a < b <3 x<=y", "> &lt;b>x&lt;/b> &lt;!-- &lt;?php a < b <3 x<=y"),
        ("![x](https://e.vil)", "> !\\[x](https://e.vil)"),
        (
            "[x]: https://e.vil\n- [^1]: y\n[a\nb]: z",
            "> [x]\\: https://e.vil\n> - [^1]\\: y\n> [a\n> b]\\: z",
        ),
        ("[x](y)\n- [ ] todo\nfor a in b[1:]:", "> [x](y)\n> - [ ] todo\n> for a in b[1:]:"),
    ],
    ids=["headings", "breaks", "hidden", "tab", "html", "image", "definitions", "what is harmless"],
)
def test_quoted_words_stay_words(text: str, shown: str) -> None:
    assert quote(text) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("read_file", "`read_file`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("``a", "``` ``a ```"),
        ("a\n# b\u2028<c>\t*", "`a # b <c> *`"),
        ("\u202eexe.png", "`\ufffdexe.png`"),
        ("x" * 300, "`" + "x" * 199 + "…`"),
        (" ", "(empty)"),
    ],
)
def test_a_name_is_code_on_one_line(name: str, shown: str) -> None:
    assert code(name) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n", "```\na\n```"),
        ("```\n# a\n```", "````\n```\n# a\n```\n````"),
        ("x `````", "``````\nx `````\n``````"),
        ("<b>\x1b\r\n![x](y)", "```\n<b>\ufffd\n![x](y)\n```"),
    ],
)
def test_a_fence_is_longer_than_any_in_it(text: str, shown: str) -> None:
    assert fence(text) == shown


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, "[a\n" * 70_000, "!" * 200_000, "`\n" * 100_000, "1" * 200_000, "[" + "a" * 200_000],
)
def test_a_text_made_to_be_slow_is_not(text: str) -> None:
    assert all((quote(text), fence(text), code(text)))  # what is quadratic takes minutes
