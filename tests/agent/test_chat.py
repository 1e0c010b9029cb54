"""What an embedder does with a chat: every verb, what it refuses, and what others see of it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import TickingClock

from agent import CannotFit, Chat, NoSuchContext, NoSuchPoint, Store, SummaryFailed
from agent.compaction import IN_MEMORY, Policy
from agent.says import assistant, user
from agent.summary import Material
from eventlog import (
    ChatDeleted,
    Compacted,
    Conflict,
    FileStorage,
    IdConflict,
    MemoryStorage,
    ModelCalled,
    ModelReturned,
    ToolCalled,
)
from projections import contexts, lineage, skills


@pytest.fixture(params=["files", "memory"])
async def store(request: pytest.FixtureRequest, root: Path) -> AsyncIterator[Store]:
    clock = TickingClock()
    files = FileStorage(root, clock=clock, segment_bytes=2000, durability="off")
    async with Store(files if request.param == "files" else MemoryStorage(clock=clock)) as store:
        yield store


@pytest.fixture
async def chat(store: Store) -> Chat:
    return await store.chat("chat")


async def texts(chat: Chat) -> list[str]:
    return [message.get("content", "…") for message in await chat.messages("openai")]


async def turns(chat: Chat, count: int) -> None:
    for number in range(count):
        await chat.record(user(f"question {number}"), assistant(f"answer {number}"))


# --- recording ---------------------------------------------------------------------------------------------


async def test_a_chat_that_was_only_looked_at_leaves_nothing(store: Store) -> None:
    chat = await store.chat("nobody")
    assert (chat.seq, await chat.messages("openai")) == (0, [])
    assert [listed async for listed in store.chats()] == []


async def test_a_call_is_answered_together_with_what_follows_or_not_at_all(chat: Chat) -> None:
    await chat.user("why")
    call = await chat.tool_called("read_file", {"path": "a.py"})
    await chat.record(call.returned("text"), assistant("because"))
    assert [m["role"] for m in await chat.messages("openai")] == ["user", "assistant", "tool", "assistant"]


async def test_a_message_delivered_twice_is_recorded_once_also_after_a_restart(store: Store) -> None:
    first = await (await store.chat("chat")).user("hi", id="tg-991")
    again = await (await store.chat("chat")).user("hi", id="tg-991")
    assert (first.seq, again.seq) == (1, 1)
    with pytest.raises(IdConflict):
        await (await store.chat("chat")).user("something else", id="tg-991")


async def test_after_makes_a_decision_safe(store: Store) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await one.user("first")
    with pytest.raises(Conflict):
        await other.record(user("too late"), after=0)
    assert (await other.refresh()).seq == 1


async def test_what_others_wrote_is_folded_before_what_i_write(store: Store) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await one.user("first")
    await other.user("second")
    assert await texts(other) == ["first", "second"]
    assert one.seq == 1
    assert await texts(one) == ["first", "second"]


async def test_skills_are_kept_by_name(chat: Chat) -> None:
    await chat.activate_skill("pptx", "how to make slides")
    await chat.activate_skill("pdf")
    await chat.deactivate_skill("pdf")
    assert list(chat[skills].active) == ["pptx"]


async def test_a_chat_deleted_under_me_says_so(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.user("hi")
    await store.delete("chat")
    with pytest.raises(ChatDeleted):
        await chat.refresh()
    await (await store.chat("chat")).record(user("another"), assistant("one"))
    with pytest.raises(ChatDeleted):
        await chat.user("to the old one")


# --- contexts ----------------------------------------------------------------------------------------------


async def test_a_new_context_begins_with_the_question_being_asked(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.user("and the docs?")
    await chat.new_context(title="docs build")
    assert await texts(chat) == ["and the docs?"]
    [row] = await chat.list_contexts()
    assert (row.context_id, row.message_count, row.summary_preview) == ("main", 4, "answer 1")


async def test_a_tool_that_opens_a_context_finds_its_own_call_there(chat: Chat) -> None:
    await chat.user("start over")
    call = await chat.tool_called("chat_context_new")
    await chat.new_context()
    await chat.record(call.returned("done"))
    assert [m["role"] for m in await chat.messages("openai")] == ["user", "assistant", "tool"]


async def test_there_and_back_again_loses_nothing_and_doubles_nothing(chat: Chat) -> None:
    await turns(chat, 1)
    there = await chat.new_context("there")
    await turns(chat, 1)
    assert await chat.load_context(context_id="main") == "main"
    await chat.assistant("more")
    assert await chat.load_context("there") == there
    assert await chat.load_context("answer") == "main"
    assert await texts(chat) == ["question 0", "answer 0", "more"]


async def test_loading_what_is_not_there_or_already_here_changes_nothing(chat: Chat) -> None:
    await turns(chat, 1)
    with pytest.raises(NoSuchContext):
        await chat.load_context(context_id="../etc")
    with pytest.raises(NoSuchContext):
        await chat.load_context("nothing like it")
    with pytest.raises(ValueError, match="nothing to search for"):
        await chat.load_context("?!")
    assert await chat.load_context(context_id="main") == "main"
    assert chat.seq == 2


async def test_clearing_can_be_taken_back(chat: Chat) -> None:
    await turns(chat, 1)
    await chat.clear_context("a mess")
    assert await texts(chat) == []
    await chat.load_context("question")
    assert await texts(chat) == ["question 0", "answer 0"]


@pytest.mark.parametrize("mode", ["summary", "recent", "full"])
async def test_recalling_shows_a_context_for_reference_only_and_does_not_switch(
    chat: Chat, mode: Any
) -> None:
    await turns(chat, 1)
    here = await chat.new_context()
    await chat.recall("main", mode)
    assert chat[contexts].active.id == here
    [text] = await texts(chat)
    assert "for reference only" in text
    assert f"- mode: {mode}\nuser: question 0\nassistant: answer 0" in text
    with pytest.raises(NoSuchContext):
        await chat.recall("nobody")


# --- compaction --------------------------------------------------------------------------------------------


def told(material: Material) -> str:
    return f"{len(material.messages)} messages after {material.previous!r}"


async def test_the_older_messages_become_a_summary_and_the_newest_stay(chat: Chat) -> None:
    await turns(chat, 5)
    [entry] = await chat.compact(Policy(keep=4), summarise=told)
    assert isinstance(entry.event, Compacted)
    assert (entry.event.first, entry.event.last, entry.event.count) == (1, 6, 6)
    assert (await texts(chat))[1:] == ["question 3", "answer 3", "question 4", "answer 4"]


async def test_the_previous_summary_is_given_to_the_next_in_full(chat: Chat) -> None:
    await turns(chat, 5)
    await chat.compact(Policy(keep=4), summarise=lambda _: "the first")
    await turns(chat, 2)
    await chat.compact(Policy(keep=2), summarise=told)
    assert (await texts(chat))[0].endswith("7 messages after 'the first'")
    assert len(await texts(chat)) == 3


async def test_compacting_again_with_nothing_new_does_nothing(chat: Chat) -> None:
    await turns(chat, 5)
    await chat.compact(Policy(keep=2))
    assert await chat.compact(Policy(keep=2)) == []
    assert chat.seq == 11


async def raising(_: Material) -> str:
    raise RuntimeError("no model today")


@pytest.mark.parametrize("bad", [raising, lambda _: "", lambda _: "x" * 100_000, lambda _: None])
async def test_a_summary_that_fails_changes_nothing(chat: Chat, bad: Any) -> None:
    await turns(chat, 5)
    before = await texts(chat)
    with pytest.raises(SummaryFailed, match="Nothing was compacted"):
        await chat.compact(Policy(keep=2), summarise=bad)
    assert (await texts(chat), chat.seq) == (before, 10)


async def test_tool_blocks_stay_whole_and_the_last_question_always_stays(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.user("the question")
    for number in range(6):
        call = await chat.tool_called("read", number)
        await chat.record(call.returned(f"result {number}"))
    await chat.compact(Policy(keep=1))
    shown = await chat.messages("openai")
    assert shown[1] == {"role": "user", "content": "the question"}
    assert [m["role"] for m in shown[2:]] == ["assistant", "tool"] * 6


async def test_what_cannot_fit_says_by_how_much(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.user("长" * 5_000)
    with pytest.raises(CannotFit) as caught:
        await chat.compact(Policy(budget=3_000))
    assert caught.value.budget == 3_000
    assert caught.value.tokens > 5_000


async def test_compaction_is_due_by_count_by_estimate_and_by_what_the_provider_reported(chat: Chat) -> None:
    await turns(chat, 30)
    assert await chat.compact_if_due(IN_MEMORY) == []
    await chat.user("one more")
    by_count = await chat.compact_if_due(IN_MEMORY)
    assert len(await texts(chat)) == 31
    assert await chat.compact_if_due(Policy(budget=4_000)) == []
    await chat.record(ModelCalled("m", "r"), ModelReturned({"input_tokens": 9_000}))
    by_tokens = await chat.compact_if_due(Policy(keep=3, budget=4_000))
    events = [entry.event for entry in (*by_count, *by_tokens)]
    assert [event.trigger for event in events if isinstance(event, Compacted)] == ["count", "tokens"]


async def test_two_who_compact_at_once_give_one_compaction(store: Store) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await turns(one, 10)

    async def slow(material: Material) -> str:
        await other.compact(Policy(keep=2), summarise=told)
        return told(material)

    assert await one.compact(Policy(keep=2), summarise=slow) == []
    assert len([text for text in await texts(one) if "messages after" in text]) == 1


async def test_messages_that_arrive_while_the_summary_is_made_are_not_in_it_and_stay(store: Store) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await turns(one, 10)

    async def slow(material: Material) -> str:
        await other.user("just arrived")
        return told(material)

    await one.compact(Policy(keep=2), summarise=slow)
    assert (await texts(one))[1:] == ["question 9", "answer 9", "just arrived"]


async def test_a_compaction_can_be_reverted_and_its_originals_are_found(chat: Chat) -> None:
    await turns(chat, 5)
    [entry] = await chat.compact(Policy(keep=2))
    assert [hit.seq for hit in await chat.search('"question 1"')] == [3]
    await chat.revert_compaction(entry.seq)
    assert len(await texts(chat)) == 10
    assert await chat.revert_compaction(entry.seq) == []


async def test_the_summary_without_a_model_tells_what_can_be_told_by_looking(chat: Chat) -> None:
    await chat.record(user("Please always answer in French."), assistant("We decided to use make."))
    call = await chat.tool_called("read")
    await chat.record(
        call.returned("no", failed=True), user("todo: write the docs"), assistant("yes"), user("x")
    )
    await chat.compact(Policy(keep=1))
    summary = (await texts(chat))[0]
    for line in ("Preferences:\n- Please always answer in French.", "Decisions:\n- We decided to use make."):
        assert line in summary
    assert "Tools used:\n- read: 1 times, 1 failed" in summary
    assert "Open items:\n- todo: write the docs" in summary


# --- time --------------------------------------------------------------------------------------------------


async def test_the_past_is_read_by_seq_by_checkpoint_and_by_time(chat: Chat) -> None:
    await turns(chat, 1)
    point = await chat.checkpoint("before-more")
    await turns(chat, 1)
    when = datetime.fromtimestamp(point.ts / 1000, UTC)
    for past in (await chat.at(3), await chat.at("before-more"), await chat.at(when)):
        assert [m["content"] for m in await past.messages("openai")] == ["question 0", "answer 0"]
    for nowhere in (99, -1, "no such name"):
        with pytest.raises(NoSuchPoint):
            await chat.at(nowhere)


async def test_rewinding_is_an_event_and_can_be_taken_back(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.rewind(2)
    assert await texts(chat) == ["question 0", "answer 0"]
    await chat.user("another way")
    await chat.rewind(4)
    assert await texts(chat) == ["question 0", "answer 0", "question 1", "answer 1"]


async def test_a_fork_goes_its_own_way_from_any_point(chat: Chat) -> None:
    await chat.user("why")
    await chat.record(ToolCalled("c1", "read"))
    await chat.assistant("because")
    fork = await chat.fork("what-if", at=2)
    await fork.user("or else?")
    assert [m["role"] for m in await fork.messages("openai")] == ["user", "assistant", "tool", "user"]
    assert await texts(chat) == [
        "why",
        "…",
        "Error: Interrupted: no result of this call was recorded.",
        "because",
    ]
    assert [(one.parent, one.at) for one in fork[lineage].forks] == [("chat", 2)]
    assert chat[lineage].forks == ()


async def test_following_shows_what_was_and_then_what_comes(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 2)
    seen = []
    async for view in (await store.chat("chat")).follow(after=2):
        seen.append(view.seq)
        if view.seq == 4:
            await chat.user("more")
        if view.seq == 5:
            break
    assert seen == [3, 4, 5]


async def test_what_was_redacted_is_not_shown_any_more(chat: Chat) -> None:
    await chat.record(user("the secret"), assistant("noted"))
    assert await chat.redact(1) == {"chat": [1]}
    assert await texts(chat) == ["[redacted]", "noted"]


async def test_a_list_of_chats_shows_titles_counts_and_activity(store: Store) -> None:
    for key in ("one", "two"):
        chat = await store.chat(key)
        await chat.user(f"title of {key}")
    listed = [(chat.key, chat.outline.title, chat.outline.messages) async for chat in store.chats()]
    assert listed == [("one", "title of one", 1), ("two", "title of two", 1)]


async def test_a_snapshot_for_later_does_not_mind_that_the_chat_is_gone(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 127)
    await chat.record(user("the last one"), assistant("deleted before its snapshot is taken"))
    await store.delete("chat")
    await store.close()
    assert [head async for head, _ in store.log.storage.kept("chat")] == []
