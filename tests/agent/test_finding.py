"""Which archived context a query finds: title first, then anything said in it, then most of the words."""

import pytest

from chatfold.agent import Chat, NoSuchContext, Policy, assistant, user
from chatfold.eventlog import Text, ToolCalled, ToolReturned
from tests.support.chats import a_chat, a_store  # noqa: F401


async def shelved(chat: Chat, title: str, *said: str) -> str:
    """A context in which this was said, on the shelf."""
    shelved = await chat.new_context(title)
    for text in said or ("hm",):
        await chat.record(user(text), assistant("ok"))
    await chat.new_context("the one we are in")
    return shelved


async def test_a_title_counts_before_anything_that_was_said(chat: Chat) -> None:
    titled = await shelved(chat, "The Docs Build", "hm")
    await shelved(chat, "other", "docs build, docs build, docs build")
    for query in (
        "docs build",
        "BUILD docs",
        "build",
        "docs build?",
        "“docs” build!",
        "\uff24\uff2f\uff23\uff33 build",
    ):
        assert await chat.find_context(query) == titled, query


@pytest.mark.parametrize(
    "query",
    ["部署", "脚本", "部署脚本在哪里", "Where", "WHERE IS", "needle-7", '"is the needle"', "needle haystack"],
)
async def test_anything_in_the_middle_of_a_long_context_is_found(chat: Chat, query: str) -> None:
    hay = "straw " * 3_000
    wanted = await shelved(
        chat, "long", hay, f"{hay} where is the needle-7 in this haystack? 部署脚本在哪里\uff1f {hay}", hay
    )
    await shelved(chat, "later", "nothing of the kind")
    assert await chat.find_context(query) == wanted


async def test_what_a_tool_was_asked_and_returned_is_found(chat: Chat) -> None:
    wanted = await chat.new_context("tools")
    await chat.record(user("look"), ToolCalled("c1", "read", {"path": "lexer.py"}))
    await chat.record(ToolReturned("c1", (Text("def newline(): ..."),)), assistant("done"))
    await shelved(chat, "later")
    assert await chat.find_context("lexer.py") == wanted
    assert await chat.find_context("newline") == wanted


async def test_of_contexts_that_match_alike_the_one_left_last_is_found(chat: Chat) -> None:
    await chat.record(user("the same words"), assistant("ok"))
    await shelved(chat, "other", "the same words")
    await chat.load_context(context_id="main")
    await chat.new_context()
    assert [row.context_id for row in await chat.contexts(1)] == ["main"]
    assert await chat.find_context("same words") == "main"


async def test_of_titles_that_match_alike_the_one_left_last_is_found(chat: Chat) -> None:
    await shelved(chat, "docs build")
    last = await shelved(chat, "docs build")
    assert await chat.find_context("docs build") == last


async def test_the_context_we_are_in_is_never_found(chat: Chat) -> None:
    await shelved(chat, "other", "something else")
    await chat.user("the lexer")
    for query in ("lexer", "the one we are in"):
        with pytest.raises(NoSuchContext, match="no archived context matches"):
            await chat.find_context(query)


async def test_a_search_that_fails_leaves_no_trace(chat: Chat) -> None:
    await shelved(chat, "other", "something else")
    rows, seq = await chat.contexts(), chat.seq
    for _ in range(3):
        with pytest.raises(NoSuchContext):
            await chat.load_context("lexer")
    assert (await chat.contexts(), chat.seq) == (rows, seq)


async def test_words_said_apart_are_found_if_they_are_at_least_half(chat: Chat) -> None:
    wanted = await shelved(chat, "parser work", "the grammar is ambiguous", "use a lookahead")
    await shelved(chat, "other", "the grammar")
    assert await chat.find_context("grammar lookahead parser") == wanted  # one entry has none of this alone
    assert await chat.find_context("grammar lookahead nowhere never") == wanted
    with pytest.raises(NoSuchContext):
        await chat.find_context("lookahead nowhere never")


async def test_a_query_among_punctuation_is_understood(chat: Chat) -> None:
    wanted = await shelved(chat, "other", "the grammar is ambiguous")
    for query in ("grammar?", "(grammar)", "grammar, ambiguous!", "“grammar” …"):
        assert await chat.find_context(query) == wanted, query


async def test_what_is_in_the_summary_of_a_context_is_found(chat: Chat) -> None:
    wanted = await chat.new_context("long")
    for number in range(10):
        await chat.record(user(f"question {number}"), assistant("ok"))
    await chat.compact(Policy(keep=2), summarise=lambda _: "it was all about zebras")
    await shelved(chat, "later")
    assert await chat.find_context("zebras") == wanted
    assert await chat.find_context("question 3") == wanted
