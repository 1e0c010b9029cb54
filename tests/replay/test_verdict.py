"""Folded again, a recording comes out as it was recorded; whatever is changed in it is named."""

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chatfold.agent import Chat, Store
from chatfold.agent.views import keep_view
from chatfold.eventlog import (
    CorruptLog,
    Injected,
    MessageAdded,
    ModelCalled,
    Noted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.shapes import PROMPT_RULES
from chatfold.replay.redact import redact_chat
from chatfold.replay.redact_rules import Rules
from chatfold.replay.verify.divergence import Divergence, Verdict, first_change
from chatfold.replay.verify.junit import junit
from chatfold.replay.verify.rehearsal import RedactedRecording, rehearse
from chatfold.replay.verify.requests import rebuild_request
from chatfold.replay.verify.verdict import verdict
from tests.support.debugger.recorded_bot import build, edited, first, talked


async def test_a_recording_that_nobody_touched_holds() -> None:
    chat = await talked(Store.memory())
    seen: list[tuple[int, int]] = []
    found = await verdict(chat, progress=lambda at, end: seen.append((at, end)))
    assert found.ok
    assert (found.proved, found.unprovable) == (found.model_calls, 0)
    assert found.model_calls > 10
    assert (found.turns, found.entries) == (6, chat.seq)
    assert seen[-1] == (chat.seq, chat.seq)


async def test_one_changed_tool_result_is_told_exactly() -> None:
    chat = await talked(Store.memory())
    result = await first(chat, ToolReturned)
    asked = await first(chat, ModelCalled, 2)
    found = (await verdict(await edited(chat, result.seq, parts=(Text("lost"),)))).divergence
    assert found is not None
    assert (found.seq, found.kind, found.field, found.turn, found.call) == (
        asked.seq,
        "model_called",
        "request",
        1,
        2,
    )
    assert found.cause_seq == result.seq
    assert found.cause == f"e{result.seq} tool_returned is not what it was when the model was asked"
    assert isinstance(asked.event, ModelCalled)
    assert found.recorded == asked.event.request != found.new


@pytest.mark.parametrize("kind", [MessageAdded, Injected, ToolCalled])
async def test_so_is_any_other_entry_that_the_model_saw(kind: type) -> None:
    chat = await talked(Store.memory(), "Where is order 7?", "Where is order 8?")
    entry = await first(chat, kind)
    fields = {"args": {"order": 9}} if kind is ToolCalled else {"parts": (Text("another"),)}
    found = (await verdict(await edited(chat, entry.seq, **fields))).divergence
    assert found is not None
    assert found.cause_seq == entry.seq


async def test_a_changed_system_text_is_told_where_it_is_kept() -> None:
    chat = await talked(Store.memory(), "hello")
    note = await first(chat, Noted)
    found = (await verdict(await edited(chat, note.seq, data="Obey."))).divergence
    assert found is not None
    assert (found.seq, found.kind, found.field) == (note.seq, "noted", "data")


async def test_a_changed_fingerprint_is_no_fault_of_the_entries() -> None:
    chat = await talked(Store.memory(), "hello")
    call = await first(chat, ModelCalled)
    found = (await verdict(await edited(chat, call.seq, request="0" * 32))).divergence
    assert found is not None
    assert "the code that makes requests from them is another" in found.cause
    assert found.recorded == "0" * 32


async def test_only_the_entries_that_are_asked_for_are_compared() -> None:
    chat = await talked(Store.memory(), "Where is order 7?", "hello")
    call = await first(chat, ModelCalled, 2)
    other = await edited(chat, call.seq, request="0" * 32)
    assert not (await verdict(other)).ok
    assert (await verdict(other, first=call.seq + 1)).ok
    assert (await verdict(other, last=call.seq - 1)).ok


async def test_a_snapshot_that_is_wrong_is_told_and_a_right_one_counted() -> None:
    store = Store.memory()
    chat = await talked(store, "Where is order 7?", "hello")
    await keep_view(chat.log, chat.key, chat.view)
    assert (await verdict(chat)).snapshots == 1
    wrong = await Store.memory().chat("x")
    await wrong.user("something else")
    await keep_view(chat.log, chat.key, replace(wrong.view, head=chat.view.head))
    found = (await verdict(chat)).divergence
    assert found is not None
    assert (found.kind, found.seq) == ("snapshot", chat.seq)


async def test_a_log_that_is_damaged_is_not_judged(tmp_path: Path) -> None:
    async with Store(tmp_path) as store:
        chat = await talked(store, "hello")
        [segment] = (tmp_path / "chats" / "desk").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b"I can look up", b"I can talk up", 1))
    async with Store(tmp_path, read_only=True) as store:
        with pytest.raises(CorruptLog):
            await verdict(chat.__class__(store.log, "desk", chat._opened, set()))


async def test_what_was_erased_is_counted_as_not_provable() -> None:
    chat = await talked(Store.memory(), "Where is order 7?", "hello")
    await chat.redact((await first(chat, ToolReturned)).seq)
    found = await verdict(chat)
    assert found.ok
    assert found.unprovable > 0
    assert found.proved > 0


# --- as JSON, as JUnit -----------------------------------------------------------------------------------


def test_a_verdict_is_a_value_that_can_be_printed() -> None:
    found = Verdict("c", 3, divergence=Divergence("c", 2, "tool_returned", "parts[0].text", "a", "b", 1, 1))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Verdict) == found
    assert str(found.divergence).splitlines() == [
        "DIVERGED at e2 (t1, model call 1): tool_returned parts[0].text",
        '  recorded  "a"',
        '  new       "b"',
    ]


@given(
    st.lists(
        st.tuples(st.text(st.characters(), max_size=20), st.text(st.characters(), max_size=20)), max_size=4
    )
)
def test_whatever_a_chat_says_the_file_is_xml(told: list[tuple[str, str]]) -> None:
    verdicts = [Verdict(chat, divergence=Divergence(chat, 1, "noted", text, text)) for chat, text in told]
    root = ET.fromstring(junit([*verdicts, Verdict("fine")], {"broken": ValueError("\x00<&\ud800")}))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == (
        str(len(told) + 2),
        str(len(told)),
        "1",
    )
    cases = root.findall("./testsuite/testcase")
    assert [len(case.findall("failure")) for case in cases] == [*(1 for _ in told), 0, 0]
    assert len(cases[-1].findall("error")) == 1


# --- differences -----------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_two_values_differ_if_and_only_if_a_place_is_told(one: object, other: object) -> None:
    assert first_change(one, one) is None
    same = msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")
    assert (first_change(one, other) is None) == same


def test_half_a_character_is_told_as_an_escape() -> None:
    for one, other in (("\ud800", "x"), ({"a": "\ud800"}, 1), (["\ud800" * 300], "x"), ({"\ud800": 1}, {})):
        found = first_change(one, other)
        assert found is not None
        told = Divergence("c", 1, "noted", found.field, found.recorded, found.new)
        assert msgspec.json.encode(told)
        assert "d800" in str(told)


def test_the_first_place_is_told_and_long_values_are_cut_around_it() -> None:
    found = first_change({"a": [1, {"b": "x\ny\nz"}]}, {"a": [1, {"b": "x\nY\nz"}], "c": 1}, "request")
    assert found is not None
    assert (found.field, found.recorded, found.new) == ("request.a[1].b line 2", "y", "Y")
    found = first_change("." * 5000 + "a" + "." * 5000, "." * 5000 + "b" + "." * 5000)
    assert found is not None
    assert "a" in found.recorded
    assert len(found.recorded) < 250


async def test_what_was_left_out_of_an_export_is_no_divergence(tmp_path: Path) -> None:
    async with Store.memory() as store:
        chat = await talked(store)
        found = await redact_chat(chat, Rules.parse(["text:order"]))
        await found.export(tmp_path / "shared.jsonl")
        shared = await store.import_chat(tmp_path / "shared.jsonl", "shared")
        told = await verdict(shared)
        assert told.ok
        assert (told.proved, told.unprovable) == (0, (await verdict(chat)).proved)
        with pytest.raises(RedactedRecording, match="replay the original"):
            await rehearse(shared, build)


# --- the number of the prompt rules ----------------------------------------------------------------------


async def by_other_rules(**fields: object) -> Chat:
    """A recording whose first request was made by rules that are no longer here."""
    chat = await talked(Store.memory())
    return await edited(chat, (await first(chat, ModelCalled)).seq, rules=PROMPT_RULES + 7, **fields)


async def test_a_model_call_says_which_rules_made_it() -> None:
    asked = await first(await talked(Store.memory()), ModelCalled)
    assert isinstance(asked.event, ModelCalled)
    assert asked.event.rules == PROMPT_RULES
    assert ModelCalled("gpt", "").rules == 1  # of lines without it


async def test_a_request_of_other_rules_is_neither_proof_nor_divergence() -> None:
    chat = await by_other_rules(request="0" * 32)
    found = await verdict(chat)
    assert (found.ok, found.unprovable, found.proved) == (True, 1, found.model_calls - 1)
    assert found.other_rules == (PROMPT_RULES + 7,)
    made = await rebuild_request(chat, 1)
    assert (made.proved, made.why) == (None, f"not provable: made by prompt rules {PROMPT_RULES + 7}")


async def test_a_request_of_other_rules_is_proved_if_ours_make_the_same() -> None:
    found = await verdict(await by_other_rules())
    assert (found.ok, found.unprovable, found.proved, found.other_rules) == (True, 0, found.model_calls, ())


async def test_requests_of_the_rules_before_the_labels_are_proved_by_those(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as then:
        for module in ("agent.request", "projections.prompt"):
            then.setattr(f"chatfold.{module}.PROMPT_RULES", 2)
        chat = await talked(Store.memory())
    asked = await first(chat, ModelCalled)
    assert isinstance(asked.event, ModelCalled)
    assert asked.event.rules == 2
    assert "not the user's words" not in str((await rebuild_request(chat, 1)).payload)
    found = await verdict(chat)
    assert (found.ok, found.proved, found.other_rules) == (True, found.model_calls, ())


async def test_an_entry_that_was_changed_is_named_whatever_rules_made_the_request() -> None:
    chat = await by_other_rules(request="0" * 32)
    said = await first(chat, MessageAdded)
    found = (await verdict(await edited(chat, said.seq, parts=(Text("another question"),)))).divergence
    assert found is not None
    assert found.seq == said.seq


async def test_an_agent_is_rehearsed_against_requests_of_other_rules() -> None:
    chat = await by_other_rules(request="0" * 32)
    found = await rehearse(chat, build)
    assert (found.ok, found.other_rules) == (True, (PROMPT_RULES + 7,))
    assert 0 < found.proved < found.model_calls
