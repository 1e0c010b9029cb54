"""Time: any earlier moment with everything a live chat shows, named points, going back and forth, forks."""

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from chatfold.agent import Chat, Moment, Policy, Store, assistant, user
from chatfold.eventlog import (
    ChatExists,
    Entry,
    NoSuchPoint,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections import contexts, lineage
from chatfold.projections.labels import INTERRUPTED
from tests.support.chats import a_chat, a_store, block, roles, texts, turns  # noqa: F401

# --- the past --------------------------------------------------------------------------------------------


async def everything(moment: Moment) -> dict[str, Any]:
    """All that can be asked of a chat."""
    assert await moment.messages() == (await moment.cut()).messages
    return {
        "view": moment.view,
        "openai": await moment.messages("openai"),
        "anthropic": await moment.messages("anthropic", model="m"),
        "prompt": await moment.cut(most=3),
        "entries": [entry async for entry in moment.entries()],
        "context": await moment.context_entries(),
        "shelf": await moment.contexts(),
        "shelved": [await moment.messages(context=row.context_id) for row in await moment.contexts()],
        "open calls": await moment.open_calls(),
        "runs": await moment.runs(),
        "found": sorted(hit.seq for hit in await moment.search("lexer")),
        "markdown": b"".join([piece async for piece in moment.export_bytes("markdown")]),
        "ui": b"".join([piece async for piece in moment.export_bytes("ui")]),
    }


async def test_every_earlier_moment_shows_what_the_chat_showed_then(chat: Chat) -> None:
    shown: dict[int, dict[str, Any]] = {}

    async def look() -> None:
        shown[chat.seq] = await everything(chat)

    await look()
    for event in (
        RunStarted(),
        user("the lexer"),
        *block("c1", "lexer.py"),
        assistant("ok"),
        RunFinished("done"),
    ):
        await chat.record(event, run="r1")
        await look()
    await turns(chat, 3)
    await chat.compact(Policy(keep=2))
    await look()
    await chat.checkpoint("here")
    await look()
    there = await chat.new_context("docs", "another lexer")
    await look()
    await chat.inject("today is Monday")
    await chat.recall("main")
    await chat.tool_call("read", "lexer")
    await look()
    await chat.activate_skill("pptx")
    await chat.rewind("here")
    await look()
    await chat.rewind(chat.seq - 1)
    await chat.load_context(context_id="main")
    await look()
    assert there in chat[contexts].shelf
    for seq, then in shown.items():
        assert await everything(await chat.at(seq)) == then, seq


async def test_an_earlier_moment_stays_as_it_was_while_the_chat_goes_on(chat: Chat) -> None:
    await turns(chat, 2)
    then = await chat.at(2)
    before = await everything(then)
    await turns(chat, 2)
    await chat.new_context()
    assert await everything(then) == before


async def test_the_past_is_read_by_seq_by_checkpoint_and_by_time(chat: Chat) -> None:
    await turns(chat, 1)
    point = await chat.checkpoint("before-more")
    await turns(chat, 1)
    when = datetime.fromtimestamp(point.ts / 1000, UTC)
    for past in (await chat.at(3), await chat.at("before-more"), await chat.at(when)):
        assert (past.seq, await texts(past)) == (3, ["question 0", "answer 0"])


@pytest.mark.parametrize("nowhere", [99, -99, "no such name", ""])
async def test_a_point_that_is_not_there_is_refused_by_every_verb_without_a_trace(
    store: Store, nowhere: Any
) -> None:
    chat = await store.chat("chat")
    await turns(chat, 1)
    for verb in (chat.at, chat.rewind, lambda point: chat.fork("what-if", at=point)):
        with pytest.raises(NoSuchPoint, match="A point is a seq up to the last entry"):
            await verb(nowhere)
    assert chat.seq == 2
    assert [listed.key async for listed in store.chats()] == ["chat"]


async def test_a_time_is_meant_the_same_in_any_zone_and_without_one_it_is_local(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = [await chat.user(f"question {number}") for number in range(3)]
    assert second.ts == first.ts + 1
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        when = datetime.fromtimestamp(second.ts / 1000, UTC)
        for same in (
            when,
            when.astimezone(timezone(timedelta(hours=-7))),
            when.astimezone().replace(tzinfo=None),  # naive
        ):
            assert (await chat.at(same)).seq == 2
        assert (await chat.at(when - timedelta(milliseconds=1))).seq == 1
        assert (await chat.at(when + timedelta(days=9))).seq == 3
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_before_the_first_entry_there_was_nothing(chat: Chat) -> None:
    await turns(chat, 1)
    long_ago = datetime(2000, 1, 1, tzinfo=UTC)
    assert (await chat.at(long_ago)).seq == (await chat.at(0)).seq == 0
    assert await texts(await chat.at(long_ago)) == []


# --- named points ----------------------------------------------------------------------------------------


async def test_a_name_that_is_given_again_moves(chat: Chat) -> None:
    await turns(chat, 1)
    await chat.checkpoint("here")
    await turns(chat, 1)
    moved = await chat.checkpoint("here")
    assert (await chat.at("here")).seq == moved.seq == 6
    assert chat[lineage].checkpoints == {"here": 6}
    assert (await chat.at(3))[lineage].checkpoints == {"here": 3}


async def test_a_point_is_still_there_after_going_back_before_it(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.checkpoint("later")
    await chat.rewind(2)
    assert await texts(chat) == ["question 0", "answer 0"]
    await chat.rewind("later")
    assert len(await texts(chat)) == 4


# --- back and forth --------------------------------------------------------------------------------------


async def test_going_back_is_an_event_and_can_be_taken_back(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.rewind(2)
    assert await texts(chat) == ["question 0", "answer 0"]
    await chat.record(user("another way"), assistant("yes"))
    assert await texts(chat) == ["question 0", "answer 0", "another way", "yes"]
    other_way = chat.seq
    await chat.rewind(4)
    assert await texts(chat) == ["question 0", "answer 0", "question 1", "answer 1"]
    await chat.rewind(other_way)
    assert await texts(chat) == ["question 0", "answer 0", "another way", "yes"]
    assert chat.seq == 9


async def test_going_back_undoes_contexts_compactions_and_skills_and_going_forward_redoes_them(
    chat: Chat,
) -> None:
    await turns(chat, 3)
    await chat.activate_skill("pptx")
    await chat.compact(Policy(keep=2))
    await chat.new_context("there")
    await chat.user("elsewhere")
    after = await everything(chat)
    end = chat.seq
    await chat.rewind(6)
    assert (len(await texts(chat)), await chat.contexts()) == (6, [])
    await chat.rewind(end)
    again = await everything(chat)
    assert [again[name] for name in ("openai", "shelf", "shelved")] == [
        after[name] for name in ("openai", "shelf", "shelved")
    ]


async def test_what_was_rewound_is_found_by_search(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.rewind(2)
    assert [hit.seq for hit in await chat.search('"question 1"')] == [3]


async def test_going_back_into_a_tool_block_opens_its_call_again(chat: Chat) -> None:
    await chat.record(user("why"), *block("c1", "first"), assistant("because"))
    await chat.rewind(2)
    assert [call.call for call in await chat.open_calls()] == ["c1"]
    assert (await texts(chat))[-1].endswith(INTERRUPTED)
    await chat.rewind(3)
    assert await chat.open_calls() == []
    assert await texts(chat) == ["why", "…", "first"]


# --- forks -----------------------------------------------------------------------------------------------


async def test_a_fork_at_the_end_knows_what_whoever_opens_it_sees(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 3)
    for at in (None, chat.seq, chat.seq - 1):
        fork = await chat.fork(f"fork-{at}", at=at)
        opened = await store.chat(fork.key)
        assert (fork.view.head, fork.view.states) == (opened.view.head, opened.view.states)
        assert await fork.messages() == await opened.messages()


async def test_a_fork_at_any_point_is_the_chat_up_to_there_and_goes_its_own_way(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.record(user("q"), assistant("a"), user("two at once"))  # a batch
    await chat.record(ToolCalled("c1", "read"), ToolCalled("c2", "read"))
    await chat.record(ToolReturned("c2", (Text("two"),)))
    await chat.record(ToolReturned("c1", (Text("one"),)), assistant("done"))
    await chat.compact(Policy(keep=2))
    await chat.new_context()
    await chat.user("elsewhere")
    entries = [entry async for entry in chat.entries()]
    before = await everything(chat)
    for at in range(1, len(entries) + 1):
        fork = await chat.fork(f"fork-{at}", at=at)
        then = await chat.at(at)
        assert [said(entry) async for entry in fork.entries(last=at)] == [
            said(entry) for entry in entries[:at]
        ]
        assert await fork.messages() == await then.messages()
        assert (await fork.open_calls(), await fork.contexts()) == (
            await then.open_calls(),
            await then.contexts(),
        )
        await fork.record(user("my own"), assistant("way"))
        assert (await texts(fork))[-2:] == ["my own", "way"]
    assert await everything(chat) == before


def said(entry: Entry) -> tuple[object, ...]:
    return entry.seq, entry.ts, entry.event, entry.sum


async def test_what_is_added_to_either_side_is_not_seen_on_the_other(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 1)
    fork = await chat.fork("what-if")
    await chat.user("in the parent")
    await fork.user("in the fork")
    assert (await texts(chat))[2:] == ["in the parent"]
    assert (await texts(fork))[2:] == ["in the fork"]
    assert await fork.search("parent", everything=True) == []


async def test_a_fork_of_a_fork_knows_where_it_comes_from(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 2)
    await chat.checkpoint("here")
    child = await chat.fork("child", at=2)
    await turns(child, 1)
    grandchild = await child.fork("grandchild")
    assert [(one.parent, one.at) for one in grandchild[lineage].forks] == [("chat", 2), ("child", 5)]
    assert chat[lineage].forks == ()
    assert child[lineage].checkpoints == {}
    assert {listed.key: listed.parent and listed.parent.parent async for listed in store.chats()} == {
        "chat": None,
        "child": "chat",
        "grandchild": "child",
    }


async def test_forks_live_on_when_their_parent_is_deleted(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.user("hi", id="tg-1")
    await turns(chat, 60)
    child = await chat.fork("child", at=101)
    grandchild = await child.fork("grandchild", at=51)
    await store.delete("chat")
    await store.delete("child")
    grandchild = await store.chat("grandchild")
    assert len(await texts(grandchild)) == 51
    assert (await grandchild.user("hi", id="tg-1")).seq == 1
    await turns(grandchild, 1)
    assert len(await texts(await store.chat("grandchild"))) == 53


async def test_a_fork_inside_a_tool_block_is_answered_as_interrupted_until_it_is_answered(chat: Chat) -> None:
    await chat.user("why")
    call = await chat.tool_call("read")
    await chat.record(call.result("text"), assistant("because"))
    fork = await chat.fork("what-if", at=2)
    assert await roles(fork) == ["user", "assistant", "tool"]
    assert "Interrupted" in (await texts(fork))[-1]
    [again] = await fork.open_calls()
    await fork.record(again.result("another text"))
    assert (await texts(fork))[-1] == "another text"
    assert (await texts(chat))[2] == "text"


async def test_a_fork_may_not_take_the_place_of_a_chat(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 1)
    await (await store.chat("taken")).user("mine")
    with pytest.raises(ChatExists):
        await chat.fork("taken")
    assert await texts(await store.chat("taken")) == ["mine"]


async def test_a_fork_of_nothing_says_that_there_is_nothing_to_fork(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 1)
    with pytest.raises(NoSuchPoint):
        await chat.fork("what-if", at=0)
    assert [listed.key async for listed in store.chats()] == ["chat"]
