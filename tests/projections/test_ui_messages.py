"""UIMessages of the AI SDK out of a log and into one: nothing is lost on either way.

The grammar below is that of ``packages/ai/src/ui/validate-ui-messages.ts`` in https://github.com/vercel/ai, as of
ai@5.0.244 and ai@6.0.264, and somewhat wider: parts and fields of versions to come. Ids of messages are unique, as
``ui-messages.ts`` says that they are.
"""

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatfold.eventlog import (
    Compacted,
    CompactionReverted,
    Data,
    Entry,
    Event,
    File,
    MessageAdded,
    Part,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.erasure import scrub
from chatfold.eventlog.values import validate_event
from chatfold.projections.shapes.ui import from_ui, to_ui
from chatfold.testing.strategies import events, mappings
from tests.support.oracles.rules import check_ui_messages

Object = dict[str, Any]


def entries(some: list[Event], runs: list[str | None] | None = None) -> list[Entry]:
    runs = runs or [None]
    return [
        Entry(seq, 1_000 + seq, event, run=runs[seq * len(runs) // (len(some) + 1)])
        for seq, event in enumerate(some, 1)
    ]


def exact(value: Any) -> str:
    """1, 1.0 and true are three values; the order of keys is none."""
    return json.dumps(msgspec.to_builtins(value), sort_keys=True, allow_nan=False)


# --- the grammar of the SDK ------------------------------------------------------------------------------

texts = st.sampled_from(("", "a", "tool-x", "日本 🎈", "\0\u2028")) | st.text(max_size=8)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)
STATES = st.sampled_from(("streaming", "done"))
provider_metadata = st.dictionaries(
    st.sampled_from(("anthropic", "openai", "google", "chatfold")) | texts,
    st.fixed_dictionaries(
        {},
        optional={
            "signature": texts,
            "redactedData": texts,
            "itemId": texts | st.none(),
            "reasoningEncryptedContent": st.none() | texts,
            "thoughtSignature": texts,
            "model": texts,
            "provider": texts,
            "cache": values,
        },
    ),
    max_size=2,
)
METADATA = {"providerMetadata": provider_metadata}
CALL_METADATA = {"callProviderMetadata": provider_metadata}
RESULT_METADATA = {**CALL_METADATA, "resultProviderMetadata": provider_metadata}
TOOL = {"providerExecuted": st.booleans(), "title": texts, "toolMetadata": objects}
URLS = st.sampled_from(
    (
        "https://example.com/a.png",
        "data:image/png;base64,AAEC",
        "data:image/png;base64,AAEC=",  # not what an encoder writes
        "data:image/png;base64,",
        "data:;base64,AAEC",
        "data:text/plain,hi",
        "blob:1",
        "/uploads/1",
    )
)
MEDIA_TYPES = st.sampled_from(("image/png", "text/plain", "audio/webm;codecs=opus", "image/*", ""))


def fields(required: Object, optional: Object) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries(
        {
            key: value if isinstance(value, st.SearchStrategy) else st.just(value)
            for key, value in required.items()
        },
        optional=optional,
    )


def approvals(**approved: Any) -> st.SearchStrategy[Object]:
    reason = {"reason": texts} if approved else {}
    return fields({"id": texts, **approved}, {**reason, "signature": texts, "isAutomatic": st.booleans()})


GIVEN = {"input": values}
CONTENT = fields(
    {
        "type": "content",
        "value": st.lists(
            fields({"type": "text", "text": texts}, {"state": STATES})
            | fields({"type": st.sampled_from(("data-json", "data-x"))}, {"data": values})
            | objects,
            max_size=3,
        ),
    },
    {"more": values},
)
INVOCATIONS = [
    fields({"state": "input-streaming"}, {**GIVEN, **CALL_METADATA, **TOOL}),
    fields({"state": "input-available"}, {**GIVEN, **CALL_METADATA, **TOOL}),
    fields({"state": "approval-requested", "approval": approvals(), **GIVEN}, {**CALL_METADATA, **TOOL}),
    fields(
        {"state": "approval-responded", "approval": approvals(approved=st.booleans()), **GIVEN},
        {**CALL_METADATA, **TOOL},
    ),
    fields(
        {"state": "output-available", **GIVEN},
        {
            "output": values | texts | CONTENT,
            "preliminary": st.booleans(),
            "approval": approvals(approved=True),
            **RESULT_METADATA,
            **TOOL,
        },
    ),
    fields(
        {"state": "output-error", "errorText": texts},
        {**GIVEN, "rawInput": values, "approval": approvals(approved=True), **RESULT_METADATA, **TOOL},
    ),
    fields(
        {"state": "output-denied", "approval": approvals(approved=False), **GIVEN}, {**CALL_METADATA, **TOOL}
    ),
    fields({"state": "not-yet-invented"}, {**GIVEN, **TOOL}),
]


@st.composite
def tool_parts(draw: st.DrawFn) -> Object:
    invocation = draw(st.one_of(INVOCATIONS))
    name = draw(st.sampled_from(("read", "", "a-b")) | texts)
    kind = {"type": "dynamic-tool", "toolName": name} if draw(st.booleans()) else {"type": f"tool-{name}"}
    return {**kind, "toolCallId": draw(st.sampled_from(("c1", "c2", "call", "")) | texts), **invocation}


step_starts = st.just({"type": "step-start"}) | fields({"type": "step-start"}, {"more": values})
other_parts = st.one_of(
    fields({"type": "text", "text": texts}, {"state": STATES, **METADATA}),
    fields({"type": "text", "text": texts}, {}),
    fields({"type": "reasoning", "text": texts}, {"id": texts, "state": STATES, **METADATA}),
    fields({"type": "source-url", "sourceId": texts, "url": URLS}, {"title": texts, **METADATA}),
    fields(
        {"type": "source-document", "sourceId": texts, "mediaType": MEDIA_TYPES, "title": texts}, METADATA
    ),
    fields({"type": "file", "mediaType": MEDIA_TYPES, "url": URLS}, {"filename": texts, **METADATA}),
    fields({"type": texts.map("data-{}".format) | st.just("data-ui")}, {"data": values, "id": texts}),
    fields({"type": st.sampled_from(("custom", "reasoning-file", "ui", ""))}, {"kind": texts, "url": URLS}),
)
parts = st.lists(
    st.sampled_from((other_parts, tool_parts(), tool_parts(), step_starts)).flatmap(lambda kind: kind),
    max_size=8,
)
forged = fields({}, {"ui": fields({}, {"message": fields({"id": texts}, {}), "before": st.just([])})})
noted = fields({}, {"meta": objects | texts | forged, "result": objects | forged, "output": values | CONTENT})
metadatas = values | fields(
    {},
    {
        "ts": numbers,
        "chatKey": texts,
        "kind": st.sampled_from(("normal", "summary")),
        "origin": st.sampled_from(("exec", "internal", "audit")) | values,
        "role": st.sampled_from(("developer", "user")),
        "userId": values,
        "ui": values,
        "chatfold": st.dictionaries(st.sampled_from("0123"), noted | values, max_size=3) | values,
    },
)
messages = fields(
    {
        "id": texts,
        "role": st.sampled_from(("user", "assistant", "assistant", "assistant", "system")),
        "parts": parts,
    },
    {"metadata": metadatas, "createdAt": values},
)
ui_lists = st.lists(messages, max_size=5, unique_by=lambda message: message["id"])


def forging(*notes: Object) -> list[Object]:
    """An assistant's message whose metadata says what ours would say, but for the wrong reasons."""
    chatfold = {str(at): {"meta": note} for at, note in enumerate(notes)}
    spoken = [{"type": "text", "text": "a"} for _ in notes]
    return [{"id": "a", "role": "assistant", "metadata": {"chatfold": chatfold}, "parts": spoken}]


@example(forging({"more": 1}, {"more": 2}))
@example(forging({}, {"ui": {"message": {"id": "b"}}}))
@given(ui_lists)
def test_what_was_imported_is_exported_as_it_was(given_messages: list[Object]) -> None:
    imported = from_ui(given_messages)
    for event in imported:
        validate_event(event, [])  # a log takes it
    called = [event.call for event in imported if isinstance(event, ToolCalled)]
    returned = [event.call for event in imported if isinstance(event, ToolReturned)]
    assert len(set(called)) == len(called)
    assert len(set(returned)) == len(set(called) & set(returned)) == len(returned)
    assert exact(to_ui(entries(imported), chat_key="k", audit=True)) == exact(given_messages)


# --- histories of our own --------------------------------------------------------------------------------

names = st.sampled_from(("read", "x-y", "日本")) | st.text(min_size=1, max_size=5)
metas: st.SearchStrategy[Object] = st.just({}) | st.dictionaries(
    st.sampled_from(("userId", "chatId", "self", "entry", "ts", "kind", "origin", "chatfold")),
    values,
    max_size=3,
)
said = st.builds(Text, texts)
files = st.builds(File, st.just("image/png"), st.binary(min_size=1, max_size=5), texts) | st.builds(
    File, st.just("text/plain"), st.just(b""), texts, st.just("https://example.com/a")
)
datas = st.builds(Data, names | st.just("json") | st.just("ui"), values | CONTENT)
providers = st.sampled_from(("", "anthropic", "openai", "azure", "google", "other"))
reasonings = st.builds(Reasoning, texts, providers, texts, texts, texts)


def some(*kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Part, ...]]:
    return st.lists(st.one_of(kinds), min_size=1, max_size=3).map(tuple)


origins: st.SearchStrategy[Any] = st.sampled_from(("exec", "internal", "audit"))
of_users = st.builds(MessageAdded, st.just("user"), some(said, files, datas), origins, metas)
of_system = st.builds(MessageAdded, st.sampled_from(("system", "developer")), some(said), origins, metas)
of_assistant = st.builds(
    MessageAdded, st.just("assistant"), some(said, reasonings, files, datas), origins, metas
)
speech = st.builds(
    MessageAdded, st.just("assistant"), some(said, reasonings, files, datas), st.just("exec"), metas
)
result_parts = some(said) | some(said, datas, files, reasonings) | st.just(())


@st.composite
def steps(draw: st.DrawFn, number: int) -> list[Event]:
    """What one model call said and called, then results in the order of the calls."""
    done: list[Event] = []
    for at in range(draw(st.integers(1, 4))):
        call = st.builds(ToolCalled, st.just(f"{number}.{at}"), names, values, metas)
        done.append(draw(speech | call))
    for event in list(done):
        if isinstance(event, ToolCalled) and draw(st.integers(0, 5)):
            result = st.builds(ToolReturned, st.just(event.call), result_parts, st.booleans(), metas)
            done.append(draw(result))
    return done


@st.composite
def canonical(draw: st.DrawFn) -> list[Entry]:
    """Complete steps and whole messages; a run begins with either."""
    history: list[Entry] = []
    for number in range(draw(st.integers(0, 5))):
        alone = st.builds(lambda event: [event], of_users | of_system | of_assistant)
        run = draw(st.sampled_from((None, "r1", "r2")))
        for event in draw(steps(number) | alone):
            history.append(Entry(len(history) + 1, 1_000, event, run=run))
    return history


def without_ui(event: Any) -> Event:
    plain: Event = msgspec.structs.replace(
        event, meta={key: value for key, value in event.meta.items() if key != "ui"}
    )
    return plain


some_runs = st.lists(st.none() | st.sampled_from(("r1", "r2")), max_size=3)


@given(canonical())
def test_what_was_exported_is_imported_as_the_same_events(history: list[Entry]) -> None:
    exported = to_ui(history, chat_key="k", audit=True)
    imported = [without_ui(event) for event in from_ui(exported)]
    assert exact(imported) == exact([entry.event for entry in history])


call_ids = st.sampled_from(("c1", "c2", "", "\ud800"))
junk = st.dictionaries(
    st.sampled_from(("message", "before", "parts")),
    st.none()
    | st.lists(st.none() | fields({"type": st.sampled_from(("text", 1))}, {}), max_size=2)
    | st.dictionaries(
        st.sampled_from(("id", "0", "set", "cut", "metadata")),
        st.none() | mappings | fields({"set": mappings, "cut": st.lists(texts)}, {}) | texts,
    ),
)
wild_metas = mappings | st.builds(lambda ui: {"ui": ui}, junk)
dense = st.one_of(
    events(),
    of_users,
    of_assistant,
    st.builds(ToolCalled, call_ids, names, values, metas),
    st.builds(ToolReturned, call_ids, result_parts, st.booleans(), metas),
    st.builds(Compacted, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), texts),
    st.builds(CompactionReverted, st.integers(0, 9)),
)
histories = st.lists(dense, max_size=12)


@given(histories, some_runs, st.booleans())
def test_any_history_is_exported_as_the_sdk_takes_it(
    history: list[Event], runs: list[str | None], audit: bool
) -> None:
    exported = to_ui(entries(history, runs), chat_key="k", audit=audit)
    json.dumps(exported, allow_nan=False).encode()
    for version in (5, 6):
        if exported:
            check_ui_messages(exported, version)
    again = to_ui(entries(from_ui(exported)), audit=True)
    assert exact(again) == exact(exported)


@given(st.lists(dense, max_size=6), st.lists(wild_metas, min_size=6, max_size=6))
def test_nothing_under_ui_can_break_an_export(history: list[Event], wild: list[Object]) -> None:
    wild_history = [
        msgspec.structs.replace(event, meta=meta)
        if isinstance(event, MessageAdded | ToolCalled | ToolReturned)
        else event
        for event, meta in zip(history, wild, strict=False)
    ]
    exported = to_ui(entries(wild_history))
    json.dumps(exported, allow_nan=False).encode()
    assert all(isinstance(part["type"], str) for message in exported for part in message["parts"])


def test_what_is_under_ui_and_not_ours_is_passed_over() -> None:
    ui = {"message": {"id": 1}, "before": [7], "parts": {"0": None, "1": {"set": 1, "cut": []}}}
    event = MessageAdded("assistant", (Data("ui", 5), Text("a")), meta={"ui": ui})
    [message] = to_ui(entries([event]))
    assert message["id"] == "m1"
    assert message["parts"] == [
        {"type": "step-start"},
        {"type": "data-ui", "data": 5},
        {"type": "text", "text": "a"},
    ]


# --- the shapes, by example ------------------------------------------------------------------------------


def test_a_turn_with_tools_is_one_message_in_steps() -> None:
    history: list[Event] = [
        MessageAdded("user", (Text("hi"),), meta={"userId": 7}),
        MessageAdded("assistant", (Reasoning("hm", "anthropic", "m-1", "sig"), Text("let me see"))),
        ToolCalled("c1", "read", {"path": "a"}),
        ToolCalled("c2", "list"),
        ToolCalled("c3", "wait"),
        ToolReturned("c2", (Data("json", [1]),)),
        ToolReturned("c1", (Text("no such file"),), failed=True),
        ToolReturned("c1", (Text("again"),)),
        ToolReturned("c9", (Text("whose?"),)),
        MessageAdded("assistant", (Text("done"),)),
    ]
    user, assistant = to_ui(entries(history, ["r1"]), chat_key="tg-1")
    common = {"chatKey": "tg-1", "runId": "r1", "kind": "normal"}
    assert user == {
        "id": "m1",
        "role": "user",
        "metadata": {"ts": 1001, **common, "userId": 7},
        "parts": [{"type": "text", "text": "hi"}],
    }
    signed = {"anthropic": {"signature": "sig"}, "chatfold": {"model": "m-1"}}
    assert assistant == {
        "id": "m2",
        "role": "assistant",
        "metadata": {"ts": 1002, **common},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm", "providerMetadata": signed},
            {"type": "text", "text": "let me see"},
            {
                "type": "tool-read",
                "toolCallId": "c1",
                "state": "output-error",
                "input": {"path": "a"},
                "errorText": "no such file",
            },
            {
                "type": "tool-list",
                "toolCallId": "c2",
                "state": "output-available",
                "input": None,
                "output": [1],
            },
            {"type": "tool-wait", "toolCallId": "c3", "state": "input-available", "input": None},
            {"type": "step-start"},
            {"type": "text", "text": "done"},
        ],
    }


def test_another_run_begins_another_message() -> None:
    history: list[Event] = [MessageAdded("assistant", (Text(text),)) for text in "abc"]
    first, second = to_ui(entries(history, ["r1", "r1", "r2", "r2"]))
    assert [part.get("text") for part in first["parts"]] == [None, "a"]
    assert [part.get("text") for part in second["parts"]] == [None, "b", "c"]
    assert (first["metadata"]["runId"], second["metadata"]["runId"]) == ("r1", "r2")


CONTENT_OF = {"type": "content", "value": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ((Text("a"),), "a"),
        ((Data("json", {"a": 1}),), {"a": 1}),
        ((Data("json", None),), None),
        ((Data("json", "a"),), {"type": "content", "value": [{"type": "data-json", "data": "a"}]}),
        ((Text("a"), Text("b")), CONTENT_OF),
        (
            (Data("json", CONTENT_OF),),
            {"type": "content", "value": [{"type": "data-json", "data": CONTENT_OF}]},
        ),
        ((), {"type": "content", "value": []}),
    ],
)
def test_a_result_is_told_from_its_output(result: tuple[Part, ...], output: Any) -> None:
    history: list[Event] = [ToolCalled("c", "read"), ToolReturned("c", result)]
    exported = to_ui(entries(history))
    assert exported[0]["parts"][1]["output"] == output
    assert [without_ui(event) for event in from_ui(exported)] == history


def test_a_compaction_is_a_summary_that_names_what_it_hides() -> None:
    history: list[Event] = [
        MessageAdded("user", (Text("a"),)),
        ToolCalled("c1", "read"),
        ToolReturned("c1"),
        MessageAdded("user", (Text("b"),)),
        Compacted(1, 3, 2, "in short"),
    ]
    *_, summary, _ = to_ui(entries(history))
    assert summary == {
        "id": "m5",
        "role": "assistant",
        "metadata": {
            "ts": 1005,
            "kind": "summary",
            "sourceRange": {"fromId": "m1", "toId": "m2", "count": 2},
            "chatfold": {"hides": [0, 0]},
        },
        "parts": [{"type": "text", "text": "in short"}],
    }
    [alone] = to_ui(entries(history)[-1:])
    assert alone["metadata"]["sourceRange"] == {"fromId": "m1", "toId": "m3", "count": 2}


def test_a_summary_stands_where_what_it_hides_stood_until_it_is_reverted() -> None:
    history: list[Event] = [
        MessageAdded("user", (Text("a"),)),
        MessageAdded("assistant", (Text("b"),)),
        MessageAdded("user", (Text("c"),)),
        ToolCalled("c1", "read"),
        ToolReturned("c1"),
        Compacted(1, 2, 2, "in short"),
        MessageAdded("assistant", (Text("the turn goes on"),)),
        CompactionReverted(6),
    ]
    whole = entries(history)
    assert [message["id"] for message in to_ui(whole[:-1])] == ["m1", "m2", "m6", "m3", "m4"]
    assert [message["id"] for message in to_ui(whole[2:-1])] == ["m6", "m3", "m4"]
    assert [message["id"] for message in to_ui(whole)] == ["m1", "m2", "m3", "m4"]


def test_who_said_it_and_for_whom_is_in_the_metadata() -> None:
    history: list[Event] = [
        MessageAdded("developer", (Text("be brief"),)),
        MessageAdded("user", (Text("(a reminder)"),), "internal"),
        MessageAdded("assistant", (Text("sent by mail"),), "audit"),
    ]
    developer, internal = to_ui(entries(history))
    assert (developer["role"], developer["metadata"]["role"]) == ("system", "developer")
    assert internal["metadata"]["origin"] == "internal"
    *_, audit = to_ui(entries(history), audit=True)
    assert audit["metadata"]["origin"] == "audit"


@pytest.mark.parametrize(
    ("part", "metadata"),
    [
        (Reasoning("", "anthropic", "", "data", redacted=True), {"anthropic": {"redactedData": "data"}}),
        (
            Reasoning("why", "openai", "", "sealed", "rs_1"),
            {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "sealed"}},
        ),
        (
            Reasoning("why", "openai", "", "", "rs_1"),
            {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": None}},
        ),
        (
            Reasoning("why", "google", "g", "t"),
            {"google": {"thoughtSignature": "t"}, "chatfold": {"model": "g"}},
        ),
        (Reasoning("why", "anthropic", "m"), {"chatfold": {"model": "m", "provider": "anthropic"}}),
    ],
)
def test_signatures_are_where_the_sdks_providers_look_for_them(part: Reasoning, metadata: Object) -> None:
    history: list[Event] = [MessageAdded("assistant", (part,))]
    exported = to_ui(entries(history))
    assert exported[0]["parts"][1]["providerMetadata"] == metadata
    assert without_ui(from_ui(exported)[0]) == history[0]


def test_what_json_cannot_hold_is_replaced() -> None:
    history: list[Event] = [
        MessageAdded("user", (Text("half \ud800"), File("image/png", b"\0\1", "a.png"))),
        ToolCalled("c1", "read", {"nan": math.nan, "bytes": b"hi", "\ud800": math.inf}),
    ]
    user, assistant = to_ui(entries(history))
    assert user["parts"] == [
        {"type": "text", "text": "half \ufffd"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAE=", "filename": "a.png"},
    ]
    assert assistant["parts"][1]["input"] == {"nan": None, "bytes": "aGk=", "\ufffd": None}


def test_what_the_sdk_would_refuse_is_left_out_or_described() -> None:
    history: list[Event] = [
        MessageAdded("user", ()),
        MessageAdded("system", (Text("be brief"), Data("x", 1))),
        MessageAdded("user", (File("image/png", name="lost.png"), File("text/plain; charset=utf-8", b"hi"))),
    ]
    system, user = to_ui(entries(history))
    assert system["parts"] == [{"type": "text", "text": "be brief"}]
    assert user["parts"] == [
        {"type": "text", "text": "[file lost.png: image/png]"},
        {"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,aGk="},
    ]


def test_a_message_of_the_sdk_becomes_events_that_say_what_it_says() -> None:
    stored: Object = {
        "id": "msg-1",
        "role": "assistant",
        "metadata": {"model": "m", "ts": 5},
        "parts": [
            {"type": "step-start"},
            {"type": "text", "text": "I look.", "state": "done"},
            {"type": "source-url", "sourceId": "s", "url": "https://example.com"},
            {
                "type": "tool-read",
                "toolCallId": "c1",
                "state": "output-available",
                "input": {"path": "a"},
                "output": {"lines": 2},
            },
            {
                "type": "dynamic-tool",
                "toolName": "rm",
                "toolCallId": "c2",
                "state": "output-denied",
                "input": {},
                "approval": {"id": "a", "approved": False, "reason": "no!"},
            },
            {"type": "tool-read", "toolCallId": "c3", "state": "input-streaming", "input": {"pa": ""}},
            {"type": "step-start"},
            {"type": "text", "text": "Two lines.", "state": "done"},
        ],
    }
    first, *rest = from_ui([stored])
    assert without_ui(first) == MessageAdded(
        "assistant", (Text("I look."), Data("ui", stored["parts"][2])), meta={"model": "m"}
    )
    assert [without_ui(event) for event in rest] == [
        ToolCalled("c1", "read", {"path": "a"}),
        ToolCalled("c2", "rm", {}),
        ToolReturned("c1", (Data("json", {"lines": 2}),)),
        ToolReturned("c2", (Text("no!"),), failed=True),
        MessageAdded("assistant", (Data("ui", stored["parts"][5]),)),
        MessageAdded("assistant", (Text("Two lines."),)),
    ]
    metas = [msgspec.to_builtins(event).get("meta") for event in rest]
    assert metas[0] is metas[2] is None
    assert metas[-1] == {
        "ui": {"parts": {"0": {"set": {"state": "done"}, "cut": []}}, "before": [{"type": "step-start"}]}
    }
    assert to_ui(entries([first, *rest])) == [stored]


def test_a_preliminary_output_is_no_result() -> None:
    part = {"type": "tool-x", "toolCallId": "c", "state": "output-available", "input": 1, "output": 2}
    stored = [
        {"id": "a", "role": "assistant", "parts": [{"type": "step-start"}, {**part, "preliminary": True}]}
    ]
    imported = from_ui(stored)
    assert [type(event) for event in imported] == [ToolCalled]
    assert to_ui(entries(imported)) == stored
    imported.append(ToolReturned("c", (Data("json", 3),)))
    assert to_ui(entries(imported))[0]["parts"][1] == {**part, "output": 3}


def test_an_output_that_only_looks_like_ours_is_a_value() -> None:
    foreign = {"type": "content", "value": [{"type": "image-data", "data": "AAEC"}]}
    part = {"type": "tool-x", "toolCallId": "c", "state": "output-available", "input": 1, "output": foreign}
    _, result = from_ui([{"id": "a", "role": "assistant", "parts": [part]}])
    assert without_ui(result) == ToolReturned("c", (Data("json", foreign),))


@pytest.mark.parametrize(
    "approval", [{"id": "a"}, {"id": "a", "approved": True}, {"id": "a", "approved": False}]
)
@pytest.mark.parametrize("failed", [True, False])
def test_a_call_that_was_imported_can_be_answered_here(approval: Object, failed: bool) -> None:
    state = "approval-responded" if "approved" in approval else "approval-requested"
    part = {
        "type": "tool-rm",
        "toolCallId": "c",
        "state": state,
        "input": {},
        "approval": approval,
    }
    imported = from_ui([{"id": "x", "role": "assistant", "parts": [part]}])
    answer: list[Event] = [
        ToolReturned("c", (Text("ok"),), failed),
        MessageAdded("assistant", (Text("so"),)),
    ]
    [message] = to_ui(entries(imported + answer))
    check_ui_messages([message], 6)
    assert [one["type"] for one in message["parts"]] == ["tool-rm", "step-start", "text"]
    assert ("approval" in message["parts"][0]) == (approval.get("approved") is True)


@pytest.mark.parametrize(("erased", "gone"), [(0, "SAID"), (1, "ASKED"), (2, "TOLD")])
def test_an_erased_event_takes_along_what_an_import_kept_of_it(erased: int, gone: str) -> None:
    source = {"type": "source-url", "sourceId": "s", "url": "https://SAID"}
    failed = {
        "state": "output-error",
        "rawInput": "ASKED",
        "errorText": "TOLD",
        "resultProviderMetadata": {"TOLD": {}},
    }
    tool = {"type": "tool-x", "toolCallId": "c", **failed}
    imported = from_ui([{"id": "a", "role": "assistant", "parts": [source, tool]}])
    imported[erased] = scrub(imported[erased])
    exported = exact(to_ui(entries(imported)))
    assert [word for word in ("SAID", "ASKED", "TOLD") if word not in exported] == [gone]


def test_ids_are_unique_even_if_they_were_not() -> None:
    text = {"role": "user", "parts": [{"type": "text", "text": ""}]}
    twice = from_ui([{"id": "m3", **text}, {"id": "m3", **text}])
    exported = to_ui(entries([*twice, MessageAdded("user", (Text(""),))]))
    assert [message["id"] for message in exported] == ["m3", "m3-2", "m3-3"]


GOOD = {"id": "a", "role": "user", "parts": []}
TOOL_PART = {"type": "tool-x", "toolCallId": "c", "state": "output-error"}


@pytest.mark.parametrize(
    ("given_messages", "complaint"),
    [
        (None, "messages: expected a list of UIMessages, got None"),
        ("[]", "messages: expected a list of UIMessages, got '[]'"),
        ({"id": "a"}, "messages: expected a list of UIMessages, got dict"),
        ([GOOD, "b"], "messages[1]: expected an object, got 'b'"),
        ([{"role": "user", "parts": []}], "messages[0].id: expected a string, got None"),
        ([{"id": 1, "role": "user", "parts": []}], "messages[0].id: expected a string, got int"),
        ([{"id": "a", "parts": []}], "messages[0].role: expected 'system', 'user' or 'assistant', got None"),
        (
            [{**GOOD, "role": "tool"}],
            "messages[0].role: expected 'system', 'user' or 'assistant', got 'tool'",
        ),
        ([{"id": "a", "role": "user", "content": "v4"}], "messages[0].parts: expected a list, got None"),
        ([{**GOOD, "parts": {}}], "messages[0].parts: expected a list, got dict"),
        ([GOOD, {**GOOD, "parts": [1]}], "messages[1].parts[0]: expected an object, got int"),
        ([{**GOOD, "parts": [{}]}], "messages[0].parts[0].type: expected a string, got None"),
        ([{**GOOD, "parts": [{"type": "text"}]}], "messages[0].parts[0].text: expected a string, got None"),
        (
            [{**GOOD, "parts": [{"type": "file", "mediaType": "a/b", "url": b""}]}],
            "messages[0].parts[0].url: expected a string, got bytes",
        ),
        (
            [{"id": "a", "role": "assistant", "parts": [{"type": "step-start"}, TOOL_PART]}],
            "messages[0].parts[1].errorText: expected a string, got None",
        ),
        (
            [
                {
                    "id": "a",
                    "role": "assistant",
                    "parts": [{"type": "dynamic-tool", "toolCallId": "c", "state": ""}],
                }
            ],
            "messages[0].parts[0].toolName: expected a string, got None",
        ),
    ],
)
def test_what_is_not_a_list_of_messages_is_refused(given_messages: Any, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        from_ui(given_messages)
    assert str(caught.value) == complaint
