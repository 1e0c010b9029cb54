"""chat_history_search: what a model no longer sees is found by anything said in it, and nothing else is."""

from typing import Any

import pytest

from chatfold.agent import Chat, Policy, Store, assistant, system, user
from chatfold.agent.tools.chat import CHAT_TOOLS
from chatfold.eventlog import ToolCalled, ToolReturned
from tests.support.agent_runs import events, ran, returned, step
from tests.support.chats import a_chat, a_store, block, turns  # noqa: F401


def search(query: str, **more: Any) -> Any:
    return step(("chat_history_search", {"query": query, **more}))


async def test_originals_behind_a_summary_are_found_and_what_the_model_sees_is_not(
    store: Store, chat: Chat
) -> None:
    await chat.record(user("the lexer drops newlines"), assistant("strip() does it, in the lexer"))
    await turns(chat, 3)
    await chat.compact(Policy(keep=2), summarise=lambda _: "in short: the lexer")
    await chat.record(user("the lexer once more"), assistant("yes"))
    chat, _ = await ran(store, CHAT_TOOLS, search("LEXER"), question="what about the lexer?")
    [found] = await returned(chat)
    rows = [(row["seq"], row["role"], row["text"]) for row in found["messages"]]
    assert sorted(rows) == [
        (1, "user", "the lexer drops newlines"),
        (2, "assistant", "strip() does it, in the lexer"),
    ]
    assert found["messages"][0]["time"].startswith("2025-02-05T00:00:00")


async def test_calls_and_results_are_found_too_and_long_ones_by_the_place_that_matches(
    store: Store, chat: Chat
) -> None:
    text = "x " * 20_000 + "needle" + " y" * 20_000
    await chat.record(user("look"), *block("c0", text), ToolCalled("c9", "read_file", {"path": "needle.py"}))
    await chat.record(ToolReturned("c9"), assistant("done"))
    await chat.new_context()
    chat, _ = await ran(store, CHAT_TOOLS, search("needle"))
    found = (await returned(chat))[-1]
    assert {row["role"] for row in found["messages"]} == {"tool", "assistant"}
    [long] = [row for row in found["messages"] if row["role"] == "tool"]
    assert "needle" in long["match"]
    assert len(long["text"]) <= 12_000
    assert any(row["text"] == 'called read_file: {"path":"needle.py"}' for row in found["messages"])


async def test_what_was_recorded_only_or_by_the_engine_itself_is_not_for_a_model(
    store: Store, chat: Chat
) -> None:
    await chat.record(user("a needle, overheard", origin="audit"), system("a needle of the embedder"))
    await ran(
        store,
        CHAT_TOOLS,
        search("needle"),
        step(("chat_load_history", {})),
        instructions="Never mind the needle.",
    )
    await chat.refresh()
    await chat.new_context("needle")
    chat, _ = await ran(store, CHAT_TOOLS, search("needle"))
    assert (await returned(chat))[-1]["messages"] == []


@pytest.mark.parametrize(
    "args", [{"query": "?!"}, {"query": ""}, {"query": "x", "limit": 0}, {"query": "x", "limit": 201}]
)
async def test_a_search_for_nothing_or_for_too_much_is_refused(store: Store, args: dict[str, Any]) -> None:
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_history_search", args)))
    assert [event.failed for event in await events(chat, ToolReturned)] == [True]


async def test_as_many_are_found_as_asked_for(store: Store, chat: Chat) -> None:
    await turns(chat, 10)
    await chat.new_context()
    chat, _ = await ran(store, CHAT_TOOLS, search("answer", limit=3))
    assert len((await returned(chat))[0]["messages"]) == 3
