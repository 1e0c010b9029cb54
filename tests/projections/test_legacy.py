"""The shapes of older stores, held against models that were written from the documents that describe them."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from chatfold.eventlog import (
    CheckpointSet,
    Compacted,
    CompactionReverted,
    ContextOpened,
    ContextRecalled,
    Data,
    Entry,
    Event,
    File,
    Injected,
    MessageAdded,
    ModelCalled,
    Noted,
    Part,
    Reasoning,
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
from chatfold.projections import Contexts, Window, contexts, fold, start
from chatfold.projections.archive import archive_rows, preview_seqs, shelved_contexts
from chatfold.projections.documents.transcript import transcript
from chatfold.projections.history import of_entries
from chatfold.projections.prompt import build
from chatfold.projections.shapes.legacy import (
    active_lines,
    archive_file,
    index_file,
    legacy_lines,
)
from chatfold.projections.spans import includes
from chatfold.testing.strategies import events
from tests.support.histories import assistant, compacted, entries, talks, user
from tests.support.oracles.naive_contexts import Model

Object: TypeAlias = dict[str, Any]
RUNS = (None, "r1", "r2")

SYSTEM = MessageAdded("system", (Text("You are..."),))


def told(*pairs: tuple[str | None, Event]) -> list[Entry]:
    made = entries(event for _, event in pairs)
    return [replace(entry, run=run) for entry, (run, _) in zip(made, pairs, strict=True)]


def in_run(*some: Event) -> list[Entry]:
    return told(*(("r", event) for event in some))


def folded(history: list[Entry]) -> Contexts:
    return fold(start((contexts,)), history)[contexts]


def strict(value: Any) -> Any:
    """The value after a way through JSON as its standard says, and through UTF-8."""
    return json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False).encode())


def told_in_runs(some: st.SearchStrategy[Event]) -> st.SearchStrategy[list[Entry]]:
    pairs = st.tuples(st.sampled_from(RUNS), some)
    return st.one_of(st.lists(pairs, max_size=6), st.lists(pairs, min_size=25, max_size=40)).map(
        lambda chosen: told(*chosen)
    )


_texts = st.sampled_from(("", " ", "yes", "no\n", "\ud800", "日本語"))
_parts = st.lists(
    st.one_of(_texts.map(Text), st.just(Data("chart")), st.just(Reasoning("hm"))), max_size=2
).map(tuple)
_sends = st.sampled_from(("s1", "s2"))
_talking: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        MessageAdded,
        st.sampled_from(("user", "assistant", "assistant", "system")),
        _parts,
        st.sampled_from(("exec", "exec", "internal", "audit")),
    ),
    st.builds(SendRequested, _sends, _parts),
    st.builds(SendConfirmed, _sends),
    st.builds(SendFailed, _sends),
    st.just(ToolReturned("c", (Text("tool output"),))),
)


# --- the transcript --------------------------------------------------------------------------------------


def text_of(parts: tuple[Part, ...]) -> str:
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(texts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def confirmed(history: list[Entry]) -> list[tuple[Entry, Entry]]:
    """Each confirmation with the request it answers: the last one before it that was not confirmed in between."""
    found: list[tuple[Entry, Entry]] = []
    for entry in history:
        if isinstance(entry.event, SendConfirmed):
            about = [
                one
                for one in history[: entry.seq - 1]
                if isinstance(one.event, SendRequested | SendConfirmed) and one.event.send == entry.event.send
            ]
            if about and isinstance(about[-1].event, SendRequested):
                found.append((about[-1], entry))
    return found


@given(told_in_runs(_talking))
def test_a_transcript_has_a_row_for_each_message_and_each_confirmed_send(history: list[Entry]) -> None:
    rows = transcript(history)
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
    assert [
        (row["seq"], row["role"], row["origin"], row["text"]) for row in rows if row["via"] == "message"
    ] == [
        (entry.seq, entry.event.role, entry.event.origin, text_of(entry.event.parts))
        for entry in history
        if isinstance(entry.event, MessageAdded)
    ]
    assert [(row["seq"], row["ts"], row["text"]) for row in rows if row["via"] == "send"] == [
        (entry.seq, entry.ts, text_of(asked.event.parts))
        for asked, entry in confirmed(history)
        if isinstance(asked.event, SendRequested)
    ]


def test_a_transcript_row_says_who_said_what_when_and_how() -> None:
    meta = {"messageId": "991", "score": float("nan")}
    question = MessageAdded("user", (Text("why?"), File("image/png", b"123", "a.png")), meta=meta)
    answer = SendRequested("s", (Text("because"),), {"chat": 7})
    history = told((None, question), ("r", answer), ("r", SendConfirmed("s", {"messageId": "992"})))
    assert transcript(history) == [
        {
            "seq": 1,
            "ts": history[0].ts,
            "role": "user",
            "origin": "exec",
            "text": "why?\n[file a.png: image/png, 3 bytes]",
            "via": "message",
            "meta": {"messageId": "991", "score": None},
        },
        {
            "seq": 3,
            "ts": history[2].ts,
            "role": "assistant",
            "origin": "exec",
            "text": "because",
            "run": "r",
            "via": "send",
            "meta": {"chat": 7, "messageId": "992"},
        },
    ]


@pytest.mark.parametrize(
    ("after", "texts"),
    [
        ([], []),
        ([SendFailed("s", "blocked")], []),
        ([SendConfirmed("s")], ["hello"]),
        ([SendConfirmed("s"), SendConfirmed("s")], ["hello"]),
        ([SendConfirmed("s"), SendFailed("s")], ["hello"]),
        ([SendFailed("s"), SendConfirmed("s")], ["hello"]),
        ([SendRequested("s", (Text("hello!"),)), SendConfirmed("s")], ["hello!"]),
        ([SendConfirmed("another")], []),
    ],
)
def test_what_was_confirmed_is_in_the_transcript_once_and_what_failed_is_not(
    after: list[Event], texts: list[str]
) -> None:
    rows = transcript(in_run(SendRequested("s", (Text("hello"),)), *after))
    assert [row["text"] for row in rows] == texts


# --- working contexts ------------------------------------------------------------------------------------


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of ``active.jsonl``."""

    v: Literal[1]
    ts: int
    role: Literal["user", "assistant"]
    content: str


class Archive(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """``archive/<contextId>.json``: the same messages, and what became of them."""

    v: Literal[1]
    context_id: str
    title: str
    created_at: int
    status: Literal["archived"]
    archived_at: int
    archive_reason: str
    messages: list[Line]
    summary: str | None = None


class Item(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    context_id: str
    title: str
    created_at: int
    archived_at: int
    message_count: int
    summary_preview: str


class Index(msgspec.Struct, forbid_unknown_fields=True):
    """``index.json``."""

    v: Literal[1]
    items: list[Item]


def answer_of(history: list[Entry], run: str) -> tuple[int, str] | None:
    """Where a run said what it is remembered by."""
    sent = [
        (entry.seq, text_of(asked.event.parts))
        for asked, entry in confirmed(history)
        if isinstance(asked.event, SendRequested) and run == (asked.run or entry.run)
    ]
    said = [
        (entry.seq, text_of(event.parts))
        for entry in history
        if entry.run == run and isinstance(event := entry.event, MessageAdded)
        if (event.role, event.origin) == ("assistant", "exec")
    ]
    worded = [one for one in sent if one[1].strip()] or [one for one in said if one[1].strip()]
    return worded[-1] if worded else None


def remembered(history: list[Entry]) -> list[tuple[int, str, str]]:
    found = []
    for entry in history:
        match entry.event:
            case MessageAdded(role="user", origin="exec" | "internal", parts=parts):
                found.append((entry.seq, "user", text_of(parts)))
            case MessageAdded(role="assistant", origin=origin, parts=parts):
                if origin == "internal" or (origin == "exec" and entry.run is None):
                    found.append((entry.seq, "assistant", text_of(parts)))
    answers = [answer_of(history, run) for run in RUNS if run]
    return sorted(found + [(one[0], "assistant", one[1]) for one in answers if one])


@given(told_in_runs(_talking))
def test_a_context_remembers_users_and_one_answer_a_run(history: list[Entry]) -> None:
    lines = active_lines(history)
    assert lines == [
        {"v": 1, "ts": history[seq - 1].ts, "role": role, "content": text}
        for seq, role, text in remembered(history)
    ]
    msgspec.convert(strict(lines), list[Line])


_OWN = assistant("the model's own words")
_SENT = (SendRequested("s1", (Text("sent"),)), SendConfirmed("s1"))
_SENT_LATER = (SendRequested("s2", (Text("sent later"),)), SendConfirmed("s2"))
_NOT_SENT = (SendRequested("s3", (Text("not sent"),)), SendFailed("s3"))


@pytest.mark.parametrize(
    ("run", "answers"),
    [
        ([_OWN], ["the model's own words"]),
        (
            [assistant("let me look"), ToolCalled("c", "read"), ToolReturned("c"), _OWN],
            ["the model's own words"],
        ),
        ([*_SENT, _OWN], ["sent"]),
        ([_OWN, *_SENT], ["sent"]),
        ([*_SENT, *_SENT_LATER, _OWN], ["sent later"]),
        ([*_SENT, *_NOT_SENT, _OWN], ["sent"]),
        ([*_NOT_SENT, _OWN], ["the model's own words"]),
        ([_OWN, MessageAdded("assistant", (Reasoning("hm"),))], ["the model's own words"]),
        ([ToolCalled("c", "read")], []),
    ],
    ids=[
        "sends nothing",
        "says several things",
        "sends",
        "sends at last",
        "sends twice",
        "fails to send again",
        "fails to send",
        "ends without words",
        "dies",
    ],
)
def test_a_run_is_remembered_by_what_it_last_sent(run: list[Event], answers: list[str]) -> None:
    lines = active_lines(in_run(user("why?"), RunStarted(), *run, RunFinished("done")))
    assert [(line["role"], line["content"]) for line in lines] == [
        ("user", "why?"),
        *(("assistant", text) for text in answers),
    ]


def test_what_is_said_outside_of_any_run_is_remembered_and_what_is_sent_there_is_not() -> None:
    history = entries([assistant("good morning"), *_SENT, assistant(""), user("who is there?")])
    assert [line["content"] for line in active_lines(history)] == ["good morning", "", "who is there?"]


def test_a_send_belongs_to_the_run_that_asked_for_it_whoever_confirms_it() -> None:
    history = told(("r", _OWN), ("r", _SENT[0]), (None, _SENT[1]))
    assert [line["content"] for line in active_lines(history)] == ["sent"]


def test_the_lines_of_the_document_are_made_from_a_turn() -> None:
    asked, said = told((None, user("...")), ("r", assistant("...")))
    lines = active_lines([replace(asked, ts=1738713600000), replace(said, ts=1738713610000)])
    assert [json.dumps(line, separators=(",", ":")) for line in lines] == [
        '{"v":1,"ts":1738713600000,"role":"user","content":"..."}',
        '{"v":1,"ts":1738713610000,"role":"assistant","content":"..."}',
    ]


@given(st.lists(st.lists(_talking, max_size=6), max_size=5))
def test_turns_that_follow_only_add_lines(turns: list[list[Event]]) -> None:
    pairs = [(f"run-{number}", event) for number, turn in enumerate(turns) for event in turn]
    history = told(*pairs)
    lines = active_lines(history)
    for number in range(len(turns)):
        before = sum(map(len, turns[:number]))
        own = {event.send for _, event in pairs[:before] if isinstance(event, SendRequested)}
        if not any(isinstance(event, SendConfirmed) and event.send in own for _, event in pairs[before:]):
            earlier = active_lines(history[:before])
            assert lines[: len(earlier)] == earlier


def archive_of(history: list[Entry]) -> tuple[Object, list[Object]]:
    """The index and the files of everything on the shelf."""
    state = folded(history)
    known = of_entries(history)
    shelf = shelved_contexts(state, known)
    wanted = preview_seqs(known, shelf)
    rows = archive_rows(known, shelf, [entry for entry in history if entry.seq in wanted])
    return index_file(rows), [archive_file(context, history) for context in shelf]


def test_a_context_that_was_left_is_a_file_and_a_row() -> None:
    history = told(
        (None, user("why?")),
        ("r", assistant("because")),
        (None, user("and now something else")),
        ("r2", ContextOpened("c_2", "something else", "completed", carry=(3,))),
    )
    line = {"v": 1, "role": "user", "content": "why?", "ts": history[0].ts}
    answer = {"v": 1, "role": "assistant", "content": "because", "ts": history[1].ts}
    times = {"createdAt": history[0].ts, "archivedAt": history[3].ts}
    file = {"v": 1, "contextId": "main", "title": "", "status": "archived", "archiveReason": "completed"}
    item = {"contextId": "main", "title": "why?", "messageCount": 2, "summaryPreview": "because"}
    assert archive_of(history) == (
        {"v": 1, "items": [item | times]},
        [file | times | {"messages": [line, answer]}],
    )


def test_the_newest_summary_of_a_context_is_in_its_file() -> None:
    some: list[Event] = [
        user("a"),
        assistant("b"),
        compacted(1, 1, "first"),
        compacted(2, 2, "then"),
        ContextOpened("c_2"),
    ]
    rows, [file] = archive_of(entries(some))
    assert file["summary"] == rows["items"][0]["summaryPreview"] == "then"
    assert [line["content"] for line in file["messages"]] == ["a", "b"]


@given(talks())
def test_every_shelf_is_a_folder_of_such_files(some: list[Event]) -> None:
    history = entries(some)
    rows, files = archive_of(history)
    items = msgspec.convert(strict(rows), Index).items
    read = [msgspec.convert(strict(file), Archive) for file in files]
    assert [item.context_id for item in items] == [file.context_id for file in read]
    assert [item.message_count for item in items] == [len(file.messages) for file in read]  # none is in a run
    shelf = folded(history).shelf
    for file in files:
        own = [entry for entry in history if includes(shelf[file["contextId"]].spans, entry.seq)]
        assert file["messages"] == active_lines(own)


# --- one file a conversation -----------------------------------------------------------------------------

Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class MessageEntry(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="msg"):
    id: str
    ts: Moment
    role: Literal["system", "user", "assistant", "tool", "developer"]
    content: Any
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_calls: list[Object] | None = None
    is_error: bool = False
    is_meta: bool = False
    compacted: bool = False


class EventEntry(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="evt"):
    id: str
    ts: Moment
    event: str
    data: Object
    ref_msg_id: str | None = None


def read(rows: list[Object]) -> list[MessageEntry | EventEntry]:
    """As a program that knows the document would read the file."""
    lines = [json.dumps(row, allow_nan=False, ensure_ascii=False).encode() for row in rows]
    return [msgspec.json.decode(line, type=MessageEntry | EventEntry) for line in lines]


def messages_of(rows: list[Object]) -> list[MessageEntry]:
    return [row for row in read(rows) if isinstance(row, MessageEntry)]


CONVERSATION = (
    (0, SYSTEM),
    (1, user("帮我创建PPT")),
    (2, ToolCalled("tc001", "Skill", {"skill": "pptx"})),
    (2, SkillActivated("pptx")),
    (3, ToolReturned("tc001", (Text("loaded"),))),
    (3, MessageAdded("user", (Text("<skill-prompt>..."),), "internal")),
    (60, compacted(1, 6, "...")),
)
# The document has three dots for the calls, goes on to m010, and marks what is compacted by saying it a second time.
LINES = r"""
{"id":"m001","ts":"2026-01-28T10:00:00Z","type":"msg","role":"system","content":"You are...","compacted":true}
{"id":"m002","ts":"2026-01-28T10:00:01Z","type":"msg","role":"user","content":"帮我创建PPT","compacted":true}
{"id":"m003","ts":"2026-01-28T10:00:02Z","type":"msg","role":"assistant","content":null,"tool_calls":[{"id":"tc001","type":"function","function":{"name":"Skill","arguments":"{\"skill\":\"pptx\"}"}}],"compacted":true}
{"id":"e001","ts":"2026-01-28T10:00:02Z","type":"evt","event":"skill_activated","data":{"skill":"pptx"}}
{"id":"m004","ts":"2026-01-28T10:00:03Z","type":"msg","role":"tool","tool_call_id":"tc001","tool_name":"Skill","content":"loaded","compacted":true}
{"id":"m005","ts":"2026-01-28T10:00:03Z","type":"msg","role":"user","content":"<skill-prompt>...","is_meta":true,"compacted":true}
{"id":"e002","ts":"2026-01-28T10:01:00Z","type":"evt","event":"compaction","data":{"from":"m001","to":"m005","summary":"m006"}}
{"id":"m006","ts":"2026-01-28T10:01:00Z","type":"msg","role":"user","content":"[Summary] ..."}
"""


def test_the_conversation_of_the_document_has_the_lines_of_the_document() -> None:
    start = 1769594400000  # 2026-01-28T10:00:00Z
    made = entries(event for _, event in CONVERSATION)
    history = [replace(made[at], ts=start + 1000 * second) for at, (second, _) in enumerate(CONVERSATION)]
    assert legacy_lines(history) == [json.loads(line) for line in LINES.strip().split("\n")]


@given(st.lists(events(), max_size=12).map(entries))
def test_any_events_are_lines_that_the_document_allows(history: list[Entry]) -> None:
    rows = legacy_lines(history)
    assert strict(rows) == rows
    for letter, kind in (("m", MessageEntry), ("e", EventEntry)):
        ids = [row.id for row in read(rows) if isinstance(row, kind)]
        assert ids == [f"{letter}{number:03}" for number in range(1, len(ids) + 1)]
    calls = [call for row in messages_of(rows) for call in row.tool_calls or []]
    assert len(calls) == sum(isinstance(entry.event, ToolCalled) for entry in history)
    assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)


@given(st.lists(events(), max_size=12).map(entries))
def test_any_events_have_the_other_shapes_too(history: list[Entry]) -> None:
    rows = transcript(history)
    assert strict(rows) == rows
    assert [row["seq"] for row in rows if row["via"] == "message"] == [
        entry.seq for entry in history if isinstance(entry.event, MessageAdded)
    ]
    msgspec.convert(strict(active_lines(history)), list[Line])


def test_the_counters_go_on_past_999() -> None:
    history = entries([user(), CheckpointSet("here")] * 1001)
    assert [row["id"] for row in legacy_lines(history)[-4:]] == ["m1000", "e1000", "m1001", "e1001"]


@pytest.mark.parametrize(
    ("ts", "text"),
    [
        (1769594400000, "2026-01-28T10:00:00Z"),
        (1769594400120, "2026-01-28T10:00:00.120Z"),
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (10**30, "9999-12-31T23:59:59.999Z"),
        (-(10**30), "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_in_utc_and_keep_their_milliseconds(ts: int, text: str) -> None:
    [row] = legacy_lines([replace(entry, ts=ts) for entry in entries([user()])])
    assert row["ts"] == text
    if abs(ts) < 10**15:
        assert messages_of([row])[0].ts == datetime.fromtimestamp(ts // 1000, UTC).replace(
            microsecond=ts % 1000 * 1000
        )


@pytest.mark.parametrize(
    ("event", "role", "content", "flags"),
    [
        (MessageAdded("developer", (Text("be brief"),)), "developer", "be brief", ()),
        (MessageAdded("assistant", ()), "assistant", None, ()),
        (MessageAdded("user", (Text("a skill"),), "internal"), "user", "a skill", ("is_meta",)),
        (Injected("system", "f", (Text("a memory"),)), "user", "a memory", ("is_meta",)),
        (Injected("assistant", "f", (Text("a recap"),)), "assistant", "a recap", ("is_meta",)),
        (ToolReturned("c", (Text("no such file"),), failed=True), "tool", "no such file", ("is_error",)),
        (
            MessageAdded("user", (Text("look"), File("image/png", b"123"))),
            "user",
            [{"type": "text", "text": "look"}, {"type": "file", "media_type": "image/png", "data": "MTIz"}],
            (),
        ),
    ],
)
def test_a_message_is_a_line_with_its_flags(
    event: Event, role: str, content: Any, flags: tuple[str, ...]
) -> None:
    [row] = messages_of(legacy_lines(entries([event])))
    assert (row.role, row.content) == (role, content)
    assert {name for name in ("is_meta", "is_error", "compacted") if getattr(row, name)} == set(flags)


@pytest.mark.parametrize(
    ("event", "name", "data"),
    [
        (CheckpointSet("before the fix"), "checkpoint_set", {"name": "before the fix"}),
        (SkillActivated("pdf", "f1"), "skill_activated", {"skill": "pdf", "fingerprint": "f1"}),
        (SkillDeactivated("pdf"), "skill_deactivated", {"skill": "pdf"}),
        (
            ContextOpened("c", "a title", carry=(1,)),
            "context_opened",
            {"id": "c", "title": "a title", "carry": [1]},
        ),
        (Unknown("later", b'{"type":"later","n":1}'), "later", {"n": 1}),
        (Unknown("later", b"[1]"), "later", {"raw": "WzFd"}),
        (Unknown("later", b'{"n":1e999}'), "later", {"raw": "eyJuIjoxZTk5OX0="}),
        (
            MessageAdded("user", (Text("for the record"),), "audit"),
            "message_added",
            {"role": "user", "parts": [{"type": "text", "text": "for the record"}], "origin": "audit"},
        ),
    ],
)
def test_anything_else_is_an_event_with_its_fields(event: Event, name: str, data: Object) -> None:
    [row] = read(legacy_lines(entries([event])))
    assert isinstance(row, EventEntry)
    assert (row.event, row.data, row.ref_msg_id) == (name, data, None)


def test_a_note_refers_to_the_message_it_is_about() -> None:
    some: list[Event] = [
        SYSTEM,
        assistant(),
        ToolCalled("c", "read"),
        *(Noted("liked", ref=seq) for seq in (2, 3, 4, 99)),
    ]
    rows = read(legacy_lines(entries(some)))
    assert [row.ref_msg_id for row in rows if isinstance(row, EventEntry)] == ["m002", "m002", None, None]


_ids = st.sampled_from("abc")
_steps: st.SearchStrategy[Event] = st.one_of(
    st.builds(ToolCalled, _ids, st.just("read")),
    st.builds(ToolReturned, _ids),
    st.builds(
        MessageAdded,
        st.sampled_from(("assistant", "user", "system")),
        st.just((Text("so"),)),
        st.sampled_from(("exec", "internal", "audit")),
    ),
    st.sampled_from((ModelCalled("m", "f"), ContextRecalled("c"), Noted("n"))),
)


@given(told_in_runs(_steps))
def test_calls_are_put_together_as_the_model_is_shown_them(history: list[Entry]) -> None:
    shown = [
        [call.id for call in message.calls]
        for message in build(Window(((1, len(history)),), ()), history).messages
        if message.calls
    ]
    written = [
        [call["id"] for call in row.tool_calls]
        for row in messages_of(legacy_lines(history))
        if row.tool_calls
    ]
    assert written == shown


def is_hidden(model: Model, seq: int) -> bool:
    if isinstance(model.event(seq), Compacted):
        return not any(mark.seq == seq for thought in model.now.all for mark in thought.summaries)
    there = [thought for thought in model.now.all if seq in thought.items]
    return bool(there) and not any(seq in thought.visible for thought in there)


@given(talks().map(lambda some: entries(event for event in some if not isinstance(event, ToolCalled))))
@example(entries([user(), assistant(), compacted(1, 1), compacted(1, 2), CompactionReverted(4)]))
@example(entries([user(), ContextOpened("b"), user(), compacted(1, 3)]))
def test_a_message_is_marked_while_a_compaction_hides_it(history: list[Entry]) -> None:
    model = Model()
    for entry in history:
        model.add(entry)
    shown = (MessageAdded, ToolReturned, Compacted)
    told_of = [entry for entry in history if isinstance(entry.event, shown)]
    seqs = [entry.seq for entry in told_of if getattr(entry.event, "origin", "") != "audit"]
    rows = messages_of(legacy_lines(history, folded(history)))
    assert [row.compacted for row in rows] == [is_hidden(model, seq) for seq in seqs]
    assert legacy_lines(history) == legacy_lines(history, folded(history))


def test_one_context_of_a_log_is_marked_by_the_state_of_the_whole() -> None:
    history = entries([user("a"), assistant("b"), compacted(1, 1), ContextOpened("c_2"), user("c")])
    state = folded(history)
    own = [entry for entry in history if includes(state.shelf["main"].spans, entry.seq)]
    rows = messages_of(legacy_lines(own, state))
    assert [(row.content, row.compacted) for row in rows] == [
        ("a", True),
        ("b", False),
        ("[Summary] in short", False),
    ]


def test_a_compaction_names_the_first_and_the_last_message_of_its_range() -> None:
    some: list[Event] = [
        assistant(),
        ToolCalled("a", "x"),
        user(),
        ToolCalled("b", "x"),
        ToolReturned("a"),
        compacted(2, 4),
    ]
    rows = read(legacy_lines(entries([*some, compacted(99, 100)])))
    assert [row.data for row in rows if isinstance(row, EventEntry)] == [
        {"from": "m001", "to": "m002", "summary": "m004"},
        {"from": None, "to": None, "summary": "m005"},
    ]
