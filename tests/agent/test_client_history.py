"""A client that sends its whole history each time: what is new is recorded, once, and nothing else is."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Chat, OtherHistory, Policy, Store, assistant, system, user
from chatfold.eventlog import Event, File, Reasoning, Rewound, Text, ToolCalled, ToolReturned
from chatfold.projections import from_anthropic, from_openai, from_ui
from tests.support.chats import a_chat, a_store, roles, texts, turns  # noqa: F401

Object = dict[str, Any]


def result(call: str, text: str) -> ToolReturned:
    return ToolReturned(call, (Text(text),))


async def events(chat: Chat) -> list[Event]:
    return [entry.event async for entry in chat.entries()]


async def received(chat: Chat, *history: Event) -> list[Event]:
    return [entry.event for entry in await chat.merge(history)]


TALK: tuple[Event, ...] = (user("one"), assistant("1"), user("two"), assistant("2"))

# --- going on --------------------------------------------------------------------------------------------


async def test_the_first_history_is_recorded_whole(chat: Chat) -> None:
    history = (system("be brief"), user("hi"), assistant("hello"))
    assert await received(chat, *history) == [*history]


async def test_a_client_that_sends_everything_each_time_writes_only_what_is_new(chat: Chat) -> None:
    for upto in range(1, len(TALK) + 1):
        assert await received(chat, system("be brief"), *TALK[:upto]) == (
            [system("be brief"), TALK[0]] if upto == 1 else [TALK[upto - 1]]
        )
        assert await received(chat, system("be brief"), *TALK[:upto]) == []
    assert await texts(chat) == ["be brief", "one", "1", "two", "2"]


async def test_what_we_answered_ourselves_is_not_written_again(chat: Chat) -> None:
    await received(chat, user("one"))
    await chat.assistant("1\n")
    assert await received(chat, user(" one "), assistant("1"), user("two")) == [user("two")]


async def test_a_client_that_is_behind_changes_nothing(chat: Chat) -> None:
    await chat.record(*TALK)
    for upto in range(len(TALK)):
        assert await received(chat, *TALK[:upto]) == []
    assert chat.seq == 4


async def test_requests_that_arrive_at_once_are_recorded_once(store: Store) -> None:
    chats = [await store.chat("chat") for _ in range(5)]
    done = await asyncio.gather(*(chat.merge(TALK) for chat in chats * 2))
    assert sorted(map(len, done)) == [0] * 9 + [4]
    assert await events(chats[0]) == [*TALK]


async def test_a_client_that_sends_only_its_last_messages_is_followed(chat: Chat) -> None:
    await chat.record(*TALK)
    assert await received(chat, *TALK[2:], user("three")) == [user("three")]
    assert await received(chat, user("three"), assistant("3")) == [assistant("3")]
    assert len(await texts(chat)) == 6


async def test_a_truncated_history_that_begins_with_words_said_before_goes_on_at_the_end(chat: Chat) -> None:
    await chat.record(user("hi"), assistant("hello"), user("hi"), assistant("hello again"))
    assert await received(chat, user("hi"), assistant("hello again"), user("new")) == [user("new")]
    assert await texts(chat) == ["hi", "hello", "hi", "hello again", "new"]


# --- going back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_an_edit_rewinds_to_where_the_histories_part_and_goes_on_from_there(
    chat: Chat, at: int
) -> None:
    await chat.record(*TALK)
    edited = (user if at % 2 == 0 else assistant)("edited")
    new = await received(chat, *TALK[:at], edited, user("and on"))
    assert new == [Rewound(at, "the client went on from here"), edited, user("and on")]
    assert await texts(chat) == [*("one", "1", "two")[:at], "edited", "and on"]
    assert await received(chat, *TALK[:at], edited, user("and on")) == []


async def test_an_edit_and_what_follows_are_recorded_both_or_neither(chat: Chat) -> None:
    await chat.record(*TALK)
    [first, *_, last] = await chat.merge((*TALK[:2], user("edited"), assistant("new")))
    assert (first.batch, last.batch) == ("1/3", "3/3")


async def test_after_an_edit_was_taken_back_the_first_way_is_taken_again(chat: Chat) -> None:
    await chat.record(*TALK)
    await received(chat, *TALK[:2], user("edited"))
    await received(chat, *TALK, user("three"))
    assert await texts(chat) == ["one", "1", "two", "2", "three"]


async def test_an_edit_of_a_question_that_came_from_another_context_stays_in_this_one(chat: Chat) -> None:
    await chat.record(user("one"), assistant("1"))
    await chat.new_context("another")
    await chat.user("two")
    await chat.load_context(context_id="main")
    await chat.assistant("2")
    await received(chat, user("one"), assistant("1"), user("edited"))
    shown = await texts(chat)
    assert shown[:2] == ["one", "1"]
    assert shown[-1] == "edited"


@pytest.mark.parametrize(
    "foreign",
    [
        (user("who are you?"),),
        (assistant("1"), user("one")),
        (user("zero"), *TALK),
        (user("one more"), assistant("1")),
    ],
)
async def test_a_history_of_something_else_is_refused_without_a_trace(
    chat: Chat, foreign: tuple[Event, ...]
) -> None:
    await chat.record(*TALK)
    with pytest.raises(OtherHistory, match="Record it in a chat, or a context, of its own"):
        await received(chat, *foreign)
    assert chat.seq == 4


async def test_a_history_that_says_nothing_changes_nothing(chat: Chat) -> None:
    await chat.record(*TALK)
    for nothing in ((), (system("be brief"),), (user(""), assistant(" "))):
        assert await received(chat, *nothing) == []


# --- contexts and compactions, of which a client knows nothing -------------------------------------------


async def test_what_a_compaction_hides_is_known(chat: Chat) -> None:
    await turns(chat, 10)
    history = await events(chat)
    await chat.compact(Policy(keep=2))
    assert await received(chat, *history, user("next")) == [user("next")]
    assert len(await texts(chat)) == 4


async def test_what_was_cleared_is_not_brought_back_by_a_client_that_still_shows_it(chat: Chat) -> None:
    await chat.record(*TALK)
    await chat.clear_context()
    assert await received(chat, *TALK, user("three")) == [user("three")]
    assert await texts(chat) == ["three"]


async def test_a_client_that_shows_all_contexts_goes_on_in_the_one_we_are_in(chat: Chat) -> None:
    await chat.record(*TALK, user("three"))
    await chat.new_context()
    await chat.assistant("3")
    assert await received(chat, *TALK, user("three"), assistant("3"), user("four")) == [user("four")]
    assert await texts(chat) == ["three", "3", "four"]


async def test_what_was_only_for_the_model_or_the_audit_does_not_stand_in_the_way(chat: Chat) -> None:
    await chat.record(*TALK[:2], user("go on", origin="internal"), assistant("noise", origin="audit"))
    await chat.inject("today is Monday")
    await chat.record(assistant("", Reasoning("hm")), *TALK[2:])
    assert await received(chat, *TALK, user("three")) == [user("three")]


# --- tools -----------------------------------------------------------------------------------------------

WORK: tuple[Event, ...] = (
    user("look"),
    assistant("I look."),
    ToolCalled("c1", "read", {"path": "a"}),
    result("c1", "found"),
    assistant("done"),
)


async def test_a_client_that_never_mentions_tools_is_followed(chat: Chat) -> None:
    await chat.record(*WORK)
    assert await received(chat, user("look"), assistant("I look."), assistant("done"), user("next")) == [
        user("next")
    ]
    assert await roles(chat) == ["user", "assistant", "tool", "assistant", "user"]


async def test_the_result_of_a_tool_on_the_side_of_the_client_is_recorded_once(chat: Chat) -> None:
    await chat.record(*WORK[:3])
    assert await received(chat, *WORK[:4]) == [result("c1", "found")]
    assert await received(chat, *WORK[:4]) == []
    assert await received(chat, *WORK[:3], result("c1", "something else")) == []
    assert await texts(chat) == ["look", "I look.", "found"]


async def test_of_parallel_calls_those_that_are_open_get_the_clients_results(chat: Chat) -> None:
    await chat.record(
        user("look"), *(ToolCalled(call, "read") for call in ("c1", "c2")), result("c1", "ours")
    )
    both = (
        ToolCalled("c1", "read"),
        ToolCalled("c2", "read"),
        result("c1", "theirs"),
        result("c2", "theirs"),
    )
    assert await received(chat, user("look"), *both) == [result("c2", "theirs")]


async def test_a_result_is_recorded_although_somebody_spoke_meanwhile(chat: Chat) -> None:
    await chat.record(*WORK[:3])
    await chat.user("are you there?")
    assert await received(chat, *WORK[:4]) == [result("c1", "found")]
    assert await texts(chat) == ["look", "I look.", "found", "are you there?"]


async def test_a_result_of_a_call_that_is_not_here_is_not_recorded(chat: Chat) -> None:
    await chat.record(*WORK[:2])
    assert await received(chat, *WORK[:2], result("c9", "of nobody"), user("next")) == [user("next")]


async def test_a_call_that_was_only_said_to_be_interrupted_is_still_open(chat: Chat) -> None:
    await chat.record(*WORK[:3])
    sent: list[Object] = await chat.messages("openai")
    assert await chat.merge(from_openai(sent)) == []
    assert len(await chat.open_calls()) == 1


# --- as clients send it ----------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n"
SAID: tuple[Event, ...] = (
    user("what is this?", File("image/png", PNG)),
    assistant("Let me look."),
    ToolCalled("call_1", "zoom", {"factor": 2}),
    ToolReturned("call_1", (Text("a cat"),)),
    assistant("A cat."),
    user("and now?"),
)


async def test_what_was_sent_to_openai_and_comes_back_is_nothing_new(chat: Chat) -> None:
    await chat.record(*SAID)
    sent = await chat.messages("openai")
    assert await chat.merge(from_openai(sent)) == []
    more = [*sent, {"role": "assistant", "content": "Still."}, {"role": "user", "content": "ok"}]
    assert [entry.event for entry in await chat.merge(from_openai(more))] == [
        assistant("Still."),
        user("ok"),
    ]


async def test_what_was_sent_to_anthropic_and_comes_back_is_nothing_new(chat: Chat) -> None:
    await chat.record(*SAID)
    sent = await chat.messages("anthropic", model="m")
    assert await chat.merge(from_anthropic(**sent, model="m")) == []
    sent["messages"] += [{"role": "assistant", "content": "Still."}, {"role": "user", "content": "ok"}]
    assert len(await chat.merge(from_anthropic(**sent, model="m"))) == 2


def of_user(text: str) -> Object:
    return {"id": f"u-{text}", "role": "user", "parts": [{"type": "text", "text": text}]}


async def test_a_client_of_the_ai_sdk_writes_what_is_new_and_the_results_of_its_tools(chat: Chat) -> None:
    asked: Object = {
        "type": "tool-confirm",
        "toolCallId": "t1",
        "state": "input-available",
        "input": {"really": True},
    }
    step: Object = {"id": "a-1", "role": "assistant", "parts": [{"type": "text", "text": "Really?"}, asked]}
    assert len(await chat.merge(from_ui([of_user("delete it")]))) == 1
    await chat.record(assistant("Really?"), ToolCalled("t1", "confirm", {"really": True}))
    assert await chat.merge(from_ui([of_user("delete it"), step])) == []
    answered = {**step, "parts": [step["parts"][0], {**asked, "state": "output-available", "output": "yes"}]}
    [new] = await chat.merge(from_ui([of_user("delete it"), answered]))
    assert isinstance(new.event, ToolReturned)
    await chat.assistant("Deleted.")
    last: Object = {"id": "a-2", "role": "assistant", "parts": [{"type": "text", "text": "Deleted."}]}
    history = [of_user("delete it"), answered, last, of_user("thanks")]
    assert len(await chat.merge(from_ui(history))) == 1
    assert await texts(chat) == ["delete it", "Really?", "yes", "Deleted.", "thanks"]


async def test_another_picture_is_another_message(chat: Chat) -> None:
    await chat.record(user("what is this?", File("image/png", PNG)), assistant("A cat."))
    await received(
        chat, user("what is this?", File("image/png", PNG, "renamed.png")), assistant("A cat."), user("ok")
    )
    assert chat.seq == 3
    with pytest.raises(OtherHistory):
        await received(chat, user("what is this?", File("image/png", PNG + b"!")), assistant("A cat."))


words = st.sampled_from(("a", "b", " a\n"))


@st.composite
def talks(draw: st.DrawFn) -> list[Event]:
    made: list[Event] = []
    for number in range(draw(st.integers(1, 8))):
        match draw(st.sampled_from(("user", "assistant", "tool"))):
            case "user":
                made.append(user(draw(words)))
            case "assistant":
                made.append(assistant(draw(words)))
            case "tool":
                made += [ToolCalled(f"c{number}", "read"), result(f"c{number}", "r")]
    return made


@given(talks(), talks())
def test_a_history_is_refused_or_it_is_nothing_new_the_second_time(
    first: list[Event], then: list[Event]
) -> None:
    async def check() -> None:
        chat = await Store.memory().chat("chat")
        assert await received(chat, *first) == first
        assert await received(chat, *first) == []
        try:
            await received(chat, *then)
        except OtherHistory:
            assert await events(chat) == first
        else:
            assert await received(chat, *then) == []

    asyncio.run(check())
