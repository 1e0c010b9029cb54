"""The summary without a model: it never fails, is never too long, and what it once said it goes on saying."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chatfold.agent import Chat, Policy, assistant, user
from chatfold.agent.summary import Material, summarise_by_rules
from chatfold.eventlog import Data, Entry, Event, File, MessageAdded, Text, ToolCalled, ToolReturned
from chatfold.projections import STANDARD, Message, estimate, fold, messages, start
from chatfold.projections.labels import SUMMARY
from tests.support.chats import a_chat, a_store, block, texts, turns  # noqa: F401
from tests.support.histories import entries

# --- whatever is summed up -------------------------------------------------------------------------------

sentences = st.sampled_from(
    (
        "Please always answer in French. ",
        "We decided to use make because it works! ",
        "todo: write the docs\n",
        "The lexer is slow, since it uses a regex. ",
        "我喜欢简短的回答。",
        "我们决定改用另一种做法\uff01",
        "下一步还需要写文档\uff1f",
        "因为服务器是旧的。",
        "Facts:\n- an odd one\n",
        "- read: 3 times, 1 failed\n",
        "🎈" * 40,
        "\u2028\x85\x1c",
        "\ud800",
    )
)
words = st.lists(sentences | st.text(max_size=30), max_size=8).map("".join)
names = st.sampled_from(("read", "write file", "server:read", "a\nb", "长" * 300, "x: 3 times, 1 failed"))
summaries = st.builds(lambda text: Message("assistant", (1,), (Text(SUMMARY + text),), kind="summary"), words)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Event, Event]:
    return (
        ToolCalled("c", draw(names), {"text": draw(words)}),
        ToolReturned("c", (Text(draw(words)), Data("json", {"a": draw(words)})), draw(st.booleans())),
    )


said = st.builds(
    lambda role, text: (MessageAdded(role, (Text(text), File("image/png", b"png"))),),
    st.sampled_from(("user", "assistant", "system")),
    words,
)


@st.composite
def materials(draw: st.DrawFn) -> tuple[Message, ...]:
    events = [event for group in draw(st.lists(said | blocks(), max_size=8)) for event in group]
    log = entries(events)
    return (*draw(st.lists(summaries, max_size=2)), *messages(fold(start(STANDARD), log), log))


@given(materials(), st.integers(20, 400))
def test_it_never_fails_and_never_says_more_than_it_may(some: tuple[Message, ...], limit: int) -> None:
    summary = summarise_by_rules(Material(some, limit))
    assert summary.strip()
    assert estimate(summary) <= limit


@given(materials(), st.integers(20, 400))
def test_any_count_of_tokens_is_kept_to(some: tuple[Message, ...], limit: int) -> None:
    assert len(summarise_by_rules(Material(some, limit, len))) <= limit


@given(materials())
def test_what_is_summed_up_again_with_nothing_new_says_the_same(some: tuple[Message, ...]) -> None:
    once = summarise_by_rules(Material(some, 100_000))
    assume(not once.endswith("messages without words."))
    again = Message("assistant", (1,), (Text(SUMMARY + once),), kind="summary")
    assert summarise_by_rules(Material((again,), 100_000)) == once


# --- what it says ----------------------------------------------------------------------------------------


async def summary(chat: Chat) -> str:
    await chat.compact(Policy(keep=1))
    return (await texts(chat))[0]


async def test_it_tells_what_can_be_told_by_looking(chat: Chat) -> None:
    await chat.record(user("Please always answer in French."), assistant("We decided to use make."))
    call = await chat.tool_call("read")
    await chat.record(call.result("no", failed=True), user("todo: write the docs"))
    await chat.record(assistant("The lexer is slow."), user("x"))
    text = await summary(chat)
    for section, line in (
        ("Facts", "The lexer is slow."),
        ("Preferences", "Please always answer in French."),
        ("Decisions", "We decided to use make."),
        ("Open items", "todo: write the docs"),
        ("Tools used", "read: 1 times, 1 failed"),
    ):
        assert f"{section}:\n- {line}" in text


async def test_it_tells_the_same_in_chinese(chat: Chat) -> None:
    await chat.record(user("我喜欢简短的回答。"), assistant("我们决定改用另一种做法。服务器是旧的。"))
    await chat.record(assistant("还需要写文档。"), user("好"))
    text = await summary(chat)
    for section, line in (
        ("Facts", "服务器是旧的。"),
        ("Preferences", "我喜欢简短的回答。"),
        ("Decisions", "我们决定改用另一种做法。"),
        ("Open items", "还需要写文档。"),
    ):
        assert f"{section}:\n- {line}" in text


async def test_the_first_facts_are_still_told_after_many_compactions(chat: Chat) -> None:
    await chat.record(user("Please always answer in French."), assistant("The server is old."))
    for number in range(10):
        await chat.record(user(f"question {number}"), assistant(f"Answer {number} is here."))
        await chat.compact(Policy(keep=1))
    text = (await texts(chat))[0]
    assert "- Please always answer in French." in text
    assert "- The server is old." in text
    assert "- Answer 3 is here." in text
    assert text.count("Facts:") == 1


async def test_the_uses_of_a_tool_are_added_up_over_compactions(chat: Chat) -> None:
    for number in range(5):
        await chat.record(
            user(f"question {number}"), *block(f"a{number}"), *block(f"b{number}", name="write")
        )
        await chat.record(assistant("done"))
        await chat.compact(Policy(keep=1))
    text = await summary(chat)
    assert "- read: 4 times, 0 failed" in text
    assert "- write: 4 times, 0 failed" in text


async def test_the_uses_of_a_tool_are_added_up_when_two_summaries_become_one(chat: Chat) -> None:
    await chat.record(user("before"), *block("c0"), assistant("done"), user("the question"))
    for number in range(1, 9):
        await chat.record(*block(f"c{number}", "word " * 200))
    assert len(await chat.compact(Policy(keep=1, budget=900, summary=150))) == 2
    await chat.record(assistant("done"), user("next"))
    assert "- read: 9 times, 0 failed" in await summary(chat)


async def test_a_summary_of_another_kind_is_taken_over_line_by_line(chat: Chat) -> None:
    await turns(chat, 3)
    await chat.compact(Policy(keep=2), summarise=lambda _: "The user is Ada.\n\n- likes tea")
    await turns(chat, 1)
    text = await summary(chat)
    assert "Facts:\n- The user is Ada.\n- likes tea" in text


async def test_what_has_no_words_is_summed_up_too(chat: Chat) -> None:
    await chat.record(user(File("image/png", b"png")), assistant(Data("chart", [1])), user("x"))
    assert (await summary(chat)).strip() != SUMMARY.strip()


# --- what a summariser is given --------------------------------------------------------------------------


def told(*events: Event) -> tuple[Message, ...]:
    log: list[Entry] = entries(events)
    return messages(fold(start(STANDARD), log), log)


def test_the_material_tells_everything_that_was_said_and_a_line_of_each_call_and_result() -> None:
    long = "word " * 400
    args: Any = {"path": "a.py", "text": "x" * 600}
    some = told(
        user(long),
        ToolCalled("c1", "read", args),
        ToolReturned("c1", (Text("line\n" * 300),), failed=True),
        assistant("done"),
    )
    lines = Material(some).text.splitlines()
    assert lines[0] == f"user: {long.strip()}"
    assert lines[1].startswith('assistant called read: {"path":"a.py"')
    assert lines[2].startswith("read failed: line line ")
    assert lines[3] == "assistant: done"
    assert max(map(len, lines[1:])) < 600


@pytest.mark.parametrize("count", [1, 2])
def test_the_material_gives_the_summaries_before_without_their_heading(count: int) -> None:
    before = [
        Message("assistant", (n,), (Text(f"{SUMMARY}number {n}"),), kind="summary") for n in range(count)
    ]
    assert Material((*before, *told(user("hi")))).previous == "\n".join(f"number {n}" for n in range(count))
