"""The tools for contexts, through real runs: the question goes along, every call keeps its result, refusals change nothing."""

from typing import Any

import msgspec
import pytest

from chatfold.agent import Chat, Store, assistant, user
from chatfold.agent.run_context import NotRunning, inject_assistant_once
from chatfold.agent.tools import Tool, tool
from chatfold.agent.tools.chat import CHAT_TOOLS
from chatfold.eventlog import (
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Text,
    ToolReturned,
)
from chatfold.projections import contexts
from chatfold.projections.labels import RECALLED
from tests.support.agent_runs import Steps, agent, events, ran, returned, seen, step
from tests.support.chats import a_chat, a_store, turns  # noqa: F401

CONTROLS = (ContextOpened, ContextSwitched, ContextCleared, ContextRecalled)
LABEL = RECALLED.partition("{")[0]


@tool
async def read(path: str) -> str:
    """A file."""
    return f"what is in {path}"


def named(name: str) -> Tool:
    [found] = [one for one in CHAT_TOOLS if one.name == name]
    return found


def test_each_tool_tells_the_model_what_it_is_for_and_what_its_arguments_are() -> None:
    assert [one.name for one in CHAT_TOOLS] == [
        *(
            "chat_send",
            "chat_context_new",
            "chat_context_load",
            "chat_context_list",
            "chat_context_clear_active",
        ),
        *("chat_context_recall", "chat_history_search", "chat_load_history", "agent_load_context"),
    ]
    assert all(one.description for one in CHAT_TOOLS)
    limit = named("chat_context_list").schema["properties"]["limit"]
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 200, 20)
    assert set(named("chat_context_load").schema["properties"]) == {"query", "contextId", "mode"}


@pytest.mark.parametrize("one", CHAT_TOOLS, ids=lambda one: one.name)
async def test_outside_of_a_run_there_is_nothing_to_do_and_it_is_said(one: Tool) -> None:
    needed = dict.fromkeys(one.schema.get("required", ()), "x")
    with pytest.raises(NotRunning, match="there is no run here"):
        await one.call(needed)


# --- a new one -------------------------------------------------------------------------------------------


async def test_a_new_context_leaves_the_model_with_the_question_and_its_own_call(
    chat: Chat, store: Store
) -> None:
    await turns(chat, 2)
    chat, model = await ran(
        store,
        CHAT_TOOLS,
        step(("chat_context_new", {"title": "docs", "reason": "a mess"})),
        question=" now\r\nthis ",
    )
    before, after = model.payloads
    assert len(seen(before)) == 5
    assert seen(after) == [("user", " now\r\nthis ")]
    assert [m["role"] for m in after["messages"] if m["calls"] or m["results"]] == ["assistant", "tool"]
    [new] = await returned(chat)
    assert (new["success"], new["title"], new["messageCount"]) == (True, "docs", 1)
    assert new["contextId"] == chat[contexts].active.id
    archived = {
        "contextId": "main",
        "title": "question 0",
        "messageCount": 4,
        "reason": "a mess",
        "summaryPreview": "answer 1",
    }
    assert {name: new["archived"][name] for name in archived} == archived
    assert new["archived"]["archivedAt"] >= new["archived"]["createdAt"] > 0


async def test_a_new_context_in_an_empty_chat_archives_nothing(store: Store) -> None:
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_context_new", {})), step(("chat_context_new", {})))
    assert [new["archived"] for new in await returned(chat)] == [None, None]
    assert await chat.contexts() == []


async def test_a_context_opened_among_parallel_calls_leaves_each_call_with_its_result(
    store: Store, chat: Chat
) -> None:
    await turns(chat, 1)
    calls = step(("read", {"path": "a"}), ("chat_context_new", {}), ("read", {"path": "b"}))
    chat, model = await ran(store, [*CHAT_TOOLS, read], calls)
    [made, answered] = [m for m in model.payloads[1]["messages"] if m["calls"] or m["results"]]
    assert {call["seq"] for call in made["calls"]} == {result["call"] for result in answered["results"]}
    assert all(result["seq"] for result in answered["results"])
    assert "chat_context_new" in {call["name"] for call in made["calls"]}
    assert ("user", "now this") in seen(model.payloads[1])


async def test_the_question_goes_along_although_the_model_has_said_something_first(
    store: Store, chat: Chat
) -> None:
    await turns(chat, 1)
    said = msgspec.structs.replace(step(("chat_context_new", {})), parts=(Text("Let me start over."),))
    _, model = await ran(store, CHAT_TOOLS, said)
    assert ("user", "now this") in seen(model.payloads[1])
    assert "question 0" not in str(seen(model.payloads[1]))


async def test_what_was_shown_once_may_be_shown_again_in_another_context(store: Store) -> None:
    @tool
    async def tell() -> str:
        """The rules."""
        return str(await inject_assistant_once("the rules", fingerprint="rules"))

    again = step(("tell", {}))
    chat, _ = await ran(
        store, [*CHAT_TOOLS, tell], again, again, step(("chat_context_new", {})), again, again
    )
    assert [text for text in await returned(chat) if isinstance(text, str)] == [
        "None",
        "duplicate",
        "None",
        "duplicate",
    ]


async def test_what_is_archived_ends_with_the_last_answer(store: Store, chat: Chat) -> None:
    await turns(chat, 1)
    chat, _ = await ran(store, [*CHAT_TOOLS, read], step(("read", {"path": "a"}), ("chat_context_new", {})))
    assert [message.role for message in await chat.messages(context="main")][:2] == ["user", "assistant"]
    assert "now this" not in str(await chat.messages(context="main"))
    assert (await returned(chat))[-1]["archived"]["checkpoint"] == 2


# --- taking one up again ---------------------------------------------------------------------------------


async def two_contexts(chat: Chat) -> str:
    await chat.record(user("why does the lexer drop newlines?"), assistant("Because of strip()."))
    there = await chat.new_context("docs build")
    await chat.record(user("and the docs?"), assistant("They are built by make."))
    return there


async def test_loading_goes_on_in_that_context_at_once_and_without_a_label(store: Store, chat: Chat) -> None:
    there = await two_contexts(chat)
    chat, model = await ran(store, CHAT_TOOLS, step(("chat_context_load", {"query": "LEXER newlines"})))
    lexer = [("user", "why does the lexer drop newlines?"), ("assistant", "Because of strip().")]
    assert seen(model.payloads[1]) == [*lexer, ("user", "now this")]
    [loaded] = await returned(chat)
    assert (loaded["contextId"], loaded["archived"]["contextId"]) == ("main", there)
    assert LABEL not in str(model.payloads)


@pytest.mark.parametrize("query", ["", None])
async def test_an_id_is_enough(store: Store, chat: Chat, query: str | None) -> None:
    await two_contexts(chat)
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_context_load", {"query": query, "contextId": "main"})))
    assert chat[contexts].active.id == "main"


async def test_a_chinese_phrase_from_the_middle_of_a_long_context_finds_it(store: Store, chat: Chat) -> None:
    await chat.record(user("x " * 500 + "跨轮上下文保持" + " y" * 500), assistant("好"))
    await chat.new_context("other")
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_context_load", {"query": "上下文"})))
    assert chat[contexts].active.id == "main"


@pytest.mark.parametrize(
    "args",
    [
        {"contextId": "ctx_0000000000000000"},
        {"contextId": "../main"},
        {"contextId": "main/../main"},
        {"query": "nothing like it"},
        {"query": "?!"},
        {"query": "x" * 2001},
        {},
    ],
)
async def test_what_cannot_be_loaded_changes_nothing_and_the_model_is_told(
    store: Store, chat: Chat, args: Any
) -> None:
    there = await two_contexts(chat)
    chat, model = await ran(store, CHAT_TOOLS, step(("chat_context_load", args)))
    [refused] = await events(chat, ToolReturned)
    assert refused.failed
    assert chat[contexts].active.id == there
    assert len(await events(chat, *CONTROLS)) == 1
    assert ("user", "and the docs?") in seen(model.payloads[1])


async def test_the_context_of_another_chat_is_refused(store: Store, chat: Chat) -> None:
    elsewhere = await two_contexts(await store.chat("other"))
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_context_load", {"contextId": elsewhere})))
    [refused] = await returned(chat)
    assert (
        refused["error"]
        == f"there is no context {elsewhere!r}; chat_context_list tells which contexts there are"
    )


async def test_loading_the_active_context_does_nothing(store: Store, chat: Chat) -> None:
    there = await two_contexts(chat)
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_context_load", {"contextId": there})))
    assert await returned(chat) == [{"success": True, "contextId": there, "changed": False}]
    assert len(await events(chat, *CONTROLS)) == 1


async def test_there_and_back_again_in_one_run_keeps_both_and_doubles_none(store: Store, chat: Chat) -> None:
    there = await two_contexts(chat)
    steps = [step(("chat_context_load", {"contextId": name})) for name in ("main", there, "main")]
    chat, model = await ran(store, CHAT_TOOLS, *steps, step(("chat_context_list", {})))
    listed = (await returned(chat))[-1]
    assert (listed["active"], [row["contextId"] for row in listed["contexts"]]) == ("main", [there])
    assert [text for role, text in seen(model.payloads[-1]) if role == "user"] == [
        "why does the lexer drop newlines?",
        "now this",
    ]


# --- listing, clearing, recalling ------------------------------------------------------------------------


async def test_a_list_has_a_row_a_context_as_long_as_asked(store: Store, chat: Chat) -> None:
    for number in range(5):
        await chat.new_context(f"{number}")
        await turns(chat, 1)
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_context_list", {"limit": 2})))
    [listed] = await returned(chat)
    assert [row["title"] for row in listed["contexts"]] == ["3", "2"]
    names = {"contextId", "title", "createdAt", "archivedAt", "messageCount", "summaryPreview"}
    assert all(names <= set(row) for row in listed["contexts"])


async def test_clearing_keeps_the_question_and_can_be_taken_back(store: Store, chat: Chat) -> None:
    await turns(chat, 1)
    back = step(("chat_context_load", {"query": "answer"}))
    chat, model = await ran(store, CHAT_TOOLS, step(("chat_context_clear_active", {})), back)
    assert seen(model.payloads[1]) == [("user", "now this")]
    assert seen(model.payloads[2]) == [
        ("user", "question 0"),
        ("assistant", "answer 0"),
        ("user", "now this"),
    ]


@pytest.mark.parametrize("name", ["chat_context_recall", "chat_context_load"])
@pytest.mark.parametrize("mode", ["summary", "recent", "full"])
async def test_recalling_shows_a_labelled_copy_and_stays_where_it_is(
    store: Store, chat: Chat, mode: str, name: str
) -> None:
    there = await two_contexts(chat)
    chat, model = await ran(store, CHAT_TOOLS, step((name, {"contextId": "main", "mode": mode})))
    [(role, text)] = [one for one in seen(model.payloads[1]) if "strip()" in one[1]]
    assert (role, text.startswith(LABEL), chat[contexts].active.id) == ("user", True, there)


@pytest.mark.parametrize("args", [{"contextId": "nowhere"}, {"contextId": "main", "mode": "all"}])
async def test_what_cannot_be_recalled_changes_nothing(store: Store, chat: Chat, args: Any) -> None:
    await two_contexts(chat)
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_context_recall", args)))
    assert await events(chat, ContextRecalled) == []
    assert [event.failed for event in await events(chat, ToolReturned)] == [True]


async def test_the_active_context_is_not_recalled_into_itself(store: Store, chat: Chat) -> None:
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_context_recall", {"contextId": "main"})))
    assert await events(chat, ContextRecalled) == []


async def test_what_a_person_is_told_of_these_tools_is_no_json(store: Store, chat: Chat) -> None:
    await two_contexts(chat)
    steps = Steps()
    made, _ = agent(store, [step(("chat_context_list", {})), "done"], CHAT_TOOLS, on_step=steps)
    await made.run("now this", chat="chat")
    [told] = steps.of("step_finish")
    assert told.startswith("chat_context_list done: active: ctx_")
    assert not set('{}["') & set(told)
