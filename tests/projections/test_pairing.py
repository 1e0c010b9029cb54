"""Which result answers which call, if ids are repeated: every shape says what the prompt says."""

import re
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from chatfold.eventlog import Entry, Event, MessageAdded, ModelCalled, Text, ToolCalled, ToolReturned
from chatfold.projections import from_ui, to_markdown, to_ui
from chatfold.projections.labels import INTERRUPTED
from chatfold.projections.shapes.legacy import legacy_lines
from chatfold.projections.text import text_of
from tests.projections.test_validity import prompted
from tests.support.histories import assistant, entries, user


def history(letters: str) -> list[Entry]:
    """a and b call by the ids that A and B answer; each call has a name, and each result a text, of its own."""
    events: list[Event] = []
    for number, letter in enumerate(letters):
        match letter:
            case "a" | "b":
                events.append(ToolCalled(f"id-{letter}", f"tool{number}"))
            case "A" | "B":
                events.append(ToolReturned(f"id-{letter.lower()}", (Text(f"result {number}"),)))
            case "m":
                events.append(ModelCalled("gpt", ""))
            case "s":
                events.append(assistant())
            case "u":
                events.append(user())
    return entries(events)


def answers(some: Sequence[Entry]) -> dict[str, str]:
    """By the name of the tool, what the prompt says that it returned, late or not."""
    names = {entry.seq: entry.event.name for entry in some if isinstance(entry.event, ToolCalled)}
    found: dict[str, str] = {}
    for message in prompted(some):
        found |= {result.name: text_of(result.parts) for result in message.results if result.seq}
        if message.answers:
            found[names[message.answers]] = text_of(message.parts[1:])
    return found


_letters = st.text(st.sampled_from("aaabAAABmsu"), max_size=9)


@example("aaAA")
@example("aasAA")
@example("asaAA")
@given(_letters)
def test_messages_of_the_ai_sdk_pair_as_the_prompt_does(letters: str) -> None:
    parts = [part for message in to_ui(history(letters)) for part in message["parts"]]
    shown = {
        part["type"].removeprefix("tool-"): part["output"]
        for part in parts
        if part.get("state") == "output-available"
    }
    assert shown == answers(history(letters))


@example("aaAA")
@given(_letters)
def test_documents_pair_as_the_prompt_does(letters: str) -> None:
    expected = answers(history(letters))
    markdown = "".join(to_markdown(history(letters)))
    told = re.findall(r"### tool result: `(\w+)`, called in.*\n\n```\n(result \d+)", markdown)
    assert dict(told) == expected


@given(_letters)
def test_the_lines_of_older_tools_name_the_tool_that_returned(letters: str) -> None:
    rows = legacy_lines(history(letters))
    named = {row.get("tool_name"): row["content"] for row in reversed(rows) if row.get("role") == "tool"}
    assert {name: named[name] for name in answers(history(letters))} == answers(history(letters))


def test_a_call_that_words_follow_in_its_step_keeps_its_result() -> None:
    searched = {
        "type": "tool-search",
        "toolCallId": "c1",
        "state": "output-available",
        "input": {},
        "output": "found",
    }
    for begins in ([{"type": "step-start"}], []):
        for more in ({}, {"providerExecuted": True}):
            parts = [*begins, {**searched, **more}, {"type": "text", "text": "done"}]
            message = {"id": "a1", "role": "assistant", "parts": parts}
            events = from_ui([message])
            prompt = prompted(entries(events))
            assert [m.role for m in prompt] == ["assistant", "tool", "assistant"]
            assert text_of(prompt[1].results[0].parts) == "found" != INTERRUPTED
            assert isinstance(events[-1], MessageAdded)
            assert to_ui(entries(events)) == [message]
