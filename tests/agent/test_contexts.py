"""Contexts: lines of thought inside a chat, opened, left, taken up again and recalled; none of them ever lost."""

import asyncio
from typing import Any

import pytest

from chatfold.agent import Chat, NoSuchContext, Policy, Store, assistant, user
from chatfold.eventlog import ContextRecalled, Text, ToolCalled, ToolReturned
from chatfold.projections import contexts
from chatfold.projections.labels import RECALLED
from tests.support.chats import a_chat, a_store, block, roles, texts, turns  # noqa: F401

# --- a new one -------------------------------------------------------------------------------------------


async def test_a_new_context_begins_with_the_question_being_asked(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.user("and the docs?")
    await chat.new_context(title="docs build")
    assert await texts(chat) == ["and the docs?"]
    [row] = await chat.contexts()
    assert (row.context_id, row.message_count, row.summary_preview) == ("main", 4, "answer 1")


async def test_the_question_goes_along_as_the_very_entry_it_is(chat: Chat) -> None:
    await turns(chat, 1)
    asked = [await chat.user(text) for text in ("  first,\r\n", "\u2028second \ud800")]
    await chat.new_context()
    assert [(m.seqs, m.parts) for m in await chat.messages()] == [
        ((entry.seq,), entry.event.parts) for entry in asked if hasattr(entry.event, "parts")
    ]


async def test_the_question_goes_along_even_if_the_model_said_something_before_it_called_the_tool(
    chat: Chat,
) -> None:
    await turns(chat, 1)
    await chat.user("something else")
    await chat.assistant("Let me start over.")
    call = await chat.tool_call("chat_context_new")
    await chat.new_context()
    await chat.record(call.result("done"))
    assert "something else" in await texts(chat)
    assert (await roles(chat))[0] == "user"


async def test_the_question_goes_along_from_the_middle_of_a_run_with_several_steps(chat: Chat) -> None:
    await turns(chat, 1)
    await chat.user("something else")
    await chat.record(assistant("Let me look."), *block("c1"))
    call = await chat.tool_call("chat_context_new")
    await chat.new_context()
    await chat.record(call.result("done"))
    assert (await texts(chat))[0] == "something else"


async def test_a_tool_that_opens_a_context_finds_its_own_call_there(chat: Chat) -> None:
    await chat.user("start over")
    call = await chat.tool_call("chat_context_new")
    await chat.new_context()
    await chat.record(call.result("done"))
    assert await roles(chat) == ["user", "assistant", "tool"]


async def test_a_context_opened_among_parallel_calls_leaves_every_call_with_its_result(chat: Chat) -> None:
    await chat.user("do three things")
    await chat.record(*(ToolCalled(call, "read") for call in ("c1", "c2", "c3")))
    await chat.record(ToolReturned("c1", (Text("one"),)))
    await chat.new_context()
    await chat.record(ToolReturned("c3", (Text("three"),)), ToolReturned("c2", (Text("two"),)))
    assert await texts(chat) == ["do three things", "…", "two", "three"]
    assert [m.results[0].seq for m in await chat.messages(context="main") if m.results] == [5]


async def test_what_is_archived_ends_with_an_answer_without_open_calls_or_the_question(chat: Chat) -> None:
    await turns(chat, 1)
    await chat.user("unanswered")
    await chat.record(ToolCalled("c1", "read"))
    await chat.new_context()
    assert [(m.role, m.seqs) for m in await chat.messages(context="main")] == [
        ("user", (1,)),
        ("assistant", (2,)),
    ]
    [row] = await chat.contexts()
    assert (row.checkpoint, row.message_count) == (2, 2)


async def test_contexts_of_nothing_are_not_listed(chat: Chat) -> None:
    await chat.new_context("on an empty chat")
    await chat.new_context("and again")
    await turns(chat, 1)
    await chat.new_context("one")
    await chat.new_context("two in a row")
    assert [row.title for row in await chat.contexts()] == ["and again"]


async def test_contexts_opened_at_once_are_all_there(store: Store) -> None:
    chats = [await store.chat("chat") for _ in range(3)]
    await turns(chats[0], 1)
    opened = await asyncio.gather(*(chat.new_context(f"of {n}") for n, chat in enumerate(chats)))
    state = (await chats[0].refresh())[contexts]
    assert {*opened, "main"} == {state.active.id, *state.shelf}


async def test_a_row_tells_when_why_and_what(chat: Chat) -> None:
    await chat.new_context("the plan")
    await turns(chat, 1)
    here = chat[contexts].active.id
    await chat.new_context("next", "a mess")
    [row] = await chat.contexts()
    assert (row.context_id, row.title, row.reason, row.summary_preview) == (
        here,
        "the plan",
        "a mess",
        "answer 0",
    )
    entries = [entry async for entry in chat.entries()]
    assert (row.created_at, row.archived_at) == (entries[0].ts, entries[-1].ts)


async def test_a_list_is_as_long_as_asked_and_last_left_first(chat: Chat) -> None:
    for number in range(25):
        await chat.new_context(f"{number}")
        await turns(chat, 1)
    assert [row.title for row in await chat.contexts(2)] == ["23", "22"]
    assert len(await chat.contexts()) == 20
    assert len(await chat.contexts(limit=None)) == 24


# --- loading switches ------------------------------------------------------------------------------------


async def test_there_and_back_again_loses_nothing_and_doubles_nothing(chat: Chat) -> None:
    await turns(chat, 1)
    there = await chat.new_context("there")
    await turns(chat, 1)
    assert await chat.load_context(context_id="main") == "main"
    await chat.assistant("more")
    assert await chat.load_context("there") == there
    assert await chat.load_context("answer") == "main"
    assert await texts(chat) == ["question 0", "answer 0", "more"]
    assert [row.context_id for row in await chat.contexts()] == [there]


async def test_a_context_taken_up_added_to_and_left_comes_back_with_what_was_added(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 1)
    there = await chat.new_context()
    await turns(chat, 1)
    for number in range(3):
        await chat.load_context(context_id="main")
        await chat.record(user(f"again {number}"), assistant("yes"))
        await chat.load_context(context_id=there)
    chat = await store.chat("chat")
    await chat.load_context(context_id="main")
    assert (await texts(chat))[2::2] == ["again 0", "again 1", "again 2"]


async def test_loading_takes_the_question_along_and_shows_no_label(chat: Chat) -> None:
    await turns(chat, 1)
    await chat.new_context()
    await chat.record(user("what else"), assistant("nothing"), user("back to the first plan"))
    await chat.load_context(context_id="main")
    assert await texts(chat) == ["question 0", "answer 0", "back to the first plan"]


@pytest.mark.parametrize("unknown", ["", "../etc", "main/../main", "MAIN", "ctx_0000000000000000"])
async def test_loading_an_id_that_is_not_here_changes_nothing(store: Store, unknown: str) -> None:
    chat, other = await store.chat("chat"), await store.chat("other")
    await turns(chat, 1)
    elsewhere = await other.new_context("elsewhere")
    for nowhere in (unknown, elsewhere):
        with pytest.raises(NoSuchContext, match=r"chat\.contexts\(\) shows what there is"):
            await chat.load_context(context_id=nowhere)
        with pytest.raises(NoSuchContext):
            await chat.recall(nowhere)
    assert (chat.seq, await chat.contexts()) == (2, [])


async def test_loading_what_is_not_found_or_already_here_changes_nothing(chat: Chat) -> None:
    await turns(chat, 1)
    with pytest.raises(NoSuchContext):
        await chat.load_context("nothing like it")
    for nothing in ("?!", ""):
        with pytest.raises(ValueError, match="nothing to search for"):
            await chat.load_context(nothing)
    with pytest.raises(ValueError, match="Give a query or a context_id"):
        await chat.load_context()
    assert await chat.load_context(context_id="main") == "main"
    assert (chat.seq, await chat.contexts()) == (2, [])


async def test_an_id_is_enough_and_counts_before_a_query(chat: Chat) -> None:
    await turns(chat, 1)
    there = await chat.new_context("there")
    await turns(chat, 1)
    await chat.new_context("here")
    assert await chat.load_context("there", context_id="main") == "main"
    assert chat[contexts].active.id == "main"
    assert await chat.load_context("there") == there


# --- clearing --------------------------------------------------------------------------------------------


async def test_clearing_can_be_taken_back(chat: Chat) -> None:
    await turns(chat, 1)
    await chat.clear_context("a mess")
    assert await texts(chat) == []
    await chat.load_context("question")
    assert await texts(chat) == ["question 0", "answer 0"]


async def test_clearing_keeps_the_question_being_asked(chat: Chat) -> None:
    await turns(chat, 1)
    await chat.user("what now")
    here = await chat.clear_context("a mess")
    assert (await texts(chat), chat[contexts].active.id) == (["what now"], here)
    [row] = await chat.contexts()
    assert (row.context_id, row.reason) == ("main", "a mess")


# --- recalling shows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["summary", "recent", "full"])
async def test_recalling_shows_a_context_for_reference_only_and_does_not_switch(
    chat: Chat, mode: Any
) -> None:
    await turns(chat, 1)
    here = await chat.new_context()
    await chat.recall("main", mode)
    assert chat[contexts].active.id == here
    [text] = await texts(chat)
    assert text.startswith(
        "From an archived context, for reference only; it may not fit the current question:\n"
    )
    assert text.endswith(f"- contextId: main\n- mode: {mode}\nuser: question 0\nassistant: answer 0")
    assert await roles(chat) == ["user"]


async def test_recalling_in_no_known_mode_changes_nothing(chat: Chat) -> None:
    await turns(chat, 1)
    await chat.new_context()
    mode: Any = "everything"
    with pytest.raises(ValueError, match="mode is summary, recent or full"):
        await chat.recall("main", mode)
    assert chat.seq == 3


def recalled_text(entry: Any) -> str:
    assert isinstance(entry.event, ContextRecalled)
    return entry.event.text


async def test_the_summary_of_a_context_is_its_newest_one_and_the_rest_its_messages(chat: Chat) -> None:
    await turns(chat, 20)
    await chat.compact(Policy(keep=30), summarise=lambda _: "in short")
    await chat.new_context()
    summary, recent, full = [
        recalled_text(await chat.recall("main", m)) for m in ("summary", "recent", "full")
    ]
    assert summary.endswith("in short")
    assert len(recent.splitlines()) == 12
    assert recent.startswith("user: question 14\n")
    assert "in short" in full
    assert full.endswith(recent)
    assert len(full.splitlines()) >= 31


async def test_of_a_long_context_the_newest_is_recalled_and_it_is_said_that_something_is_missing(
    chat: Chat,
) -> None:
    for number in range(30):
        await chat.record(user(f"{number} " + "long " * 200), assistant("ok"))
    await chat.new_context()
    text = recalled_text(await chat.recall("main", "full"))
    assert text.startswith("…\n")
    assert text.endswith("assistant: ok")
    assert "user: 29 long" in text
    assert len(text) < 12_100


@pytest.mark.parametrize("mode", ["summary", "recent", "full"])
async def test_recalling_a_context_that_ended_with_tools_tells_what_was_said_in_it(
    chat: Chat, mode: Any
) -> None:
    await chat.record(user("count the files"), assistant("I will."))
    for number in range(20):
        await chat.record(*block(f"c{number}", f"{number} files"))
    await chat.new_context()
    text = recalled_text(await chat.recall("main", mode))
    assert "count the files" in text
    assert "19 files" in text


async def test_every_recall_is_labelled_and_no_switch_is(chat: Chat) -> None:
    await turns(chat, 1)
    there = await chat.new_context()
    await turns(chat, 1)
    await chat.recall("main")
    await chat.recall("main", "full")
    label = RECALLED.partition("{")[0]
    assert [text.startswith(label) for text in await texts(chat)] == [False, False, True, True]
    await chat.load_context(context_id="main")
    assert not any("for reference only" in text for text in await texts(chat))
    await chat.load_context(context_id=there)
    assert len(await texts(chat)) == 4


async def test_an_archived_context_without_a_title_goes_by_its_first_question(chat: Chat) -> None:
    await chat.inject("Metres are meant.")
    await chat.user("Why does  the\nlexer drop newlines?")
    await chat.assistant("Because of strip().")
    await chat.new_context("docs build")
    await chat.user("How are the docs built?")
    await chat.assistant("By make.")
    await chat.new_context()
    assert [row.title for row in await chat.contexts()] == ["docs build", "Why does the lexer drop newlines?"]
    await chat.load_context("lexer drop")
    assert [row.title for row in await chat.contexts()] == ["docs build"]


async def test_a_context_is_renamed_wherever_it_is_and_found_by_its_new_title(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 1)
    await chat.rename_context("main", "first steps")
    assert chat[contexts].active.title == "first steps"
    await chat.new_context("docs")
    await turns(chat, 1)
    await chat.new_context()
    await chat.rename_context("docs", "the build of the docs")
    await chat.rename_context("main", "the lexer")
    for seen in (chat, await store.chat("chat")):
        assert [row.title for row in await seen.contexts()] == ["the build of the docs", "the lexer"]
    before = await chat.at(chat.seq - 1)
    assert [row.title for row in await before.contexts()] == ["the build of the docs", "first steps"]
    assert await chat.load_context("the lexer") == "main"
    with pytest.raises(NoSuchContext):
        await chat.rename_context("nothing like it", "x")
