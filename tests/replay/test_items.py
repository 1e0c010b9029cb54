"""What the model sees at a moment is listed as it is sent, and every token of it is counted once."""

import asyncio

import pytest
from hypothesis import given

from chatfold.agent import NoSuchContext, user
from chatfold.eventlog import (
    ContextRecalled,
    Data,
    Event,
    File,
    Injected,
    MessageAdded,
    ModelCalled,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections import contexts
from chatfold.projections.contexts import MAIN
from chatfold.projections.cutting import tokens_of
from chatfold.replay.inspect.context import context_of
from tests.support.debugger.told import long_talk, memory, told
from tests.support.histories import talks


@given(talks())
def test_the_items_are_the_messages_and_the_totals_are_theirs(talk: list[Event]) -> None:
    async def check() -> None:
        async with memory() as store:
            chat = await told(store, talk)
            seen = await context_of(chat)
            shown = await chat.messages()
            assert [item.seqs for item in seen.items] == [message.seqs for message in shown]
            assert [item.tokens for item in seen.items] == [tokens_of(message) for message in shown]
            assert seen.tokens.count == sum(seen.by_kind.values()) == sum(map(tokens_of, shown))
            assert {top.seq for top in seen.compactions} == {top.seq for top in chat.window().summaries}
            assert all("\n" not in item.text and len(item.text) <= 160 for item in seen.items)

    asyncio.run(check())


async def test_every_kind_of_item_is_told_by_its_kind_and_its_beginning() -> None:
    events: tuple[Event, ...] = (
        MessageAdded("system", (Text("Be\nbrief."),)),
        user("look at this", File("image/png", b"1", "a.png")),
        MessageAdded("assistant", (Reasoning("hm"), Text("I look."))),
        ToolCalled("c1", "read", {"path": "a"}),
        ToolCalled("c2", "stop"),
        ToolReturned("c1", (Data("rows", [1, 2]),)),
        Injected("system", "f", (Text("the time is noon"),)),
        MessageAdded("user", (Text("go on"),), origin="internal"),
        ModelCalled("m", "r"),
        ToolReturned("c2", (Text("stopped"),)),
        ContextRecalled("ctx", "recent", "long ago"),
    )
    async with memory() as store:
        seen = await context_of(await told(store, events))
    assert [(item.seq, item.kind, item.role, item.text) for item in seen.items] == [
        (1, "system", "system", "Be brief."),
        (7, "injected", "user", "the time is noon"),
        (2, "user", "user", "look at this [file a.png, image/png, 1 bytes]"),
        (3, "calls", "assistant", '(thinking) hm I look. → read {"path":"a"} → stop'),
        (
            6,
            "result",
            "tool",
            "← read: [1,2] ← stop failed: Interrupted: no result of this call was recorded.",
        ),
        (8, "internal", "user", "go on"),
        (10, "late", "user", "Late result of stop, which had been answered as interrupted: stopped"),
        (11, "recalled", "user", "long ago"),
    ]


async def test_another_context_and_the_archive_are_shown_with_their_numbers() -> None:
    async with memory() as store:
        chat = await long_talk(store)
        seen = await context_of(chat)
        assert (seen.chat, seen.seq, seen.turn, seen.id) == ("talk", 31, 12, MAIN)
        assert [(one.number, one.seq, one.first, one.last) for one in seen.compactions] == [(2, 27, 2, 22)]
        assert [item.kind for item in seen.items] == ["system", "summary", *["user", "assistant"] * 2, "user"]
        assert seen.items[1].text == "They asked many questions."
        assert [row.title for row in seen.archive] == ["docs build"]
        assert seen.shelved == 1
        [other] = chat[contexts].shelf
        docs = await context_of(chat, other)
        assert [item.kind for item in docs.items] == ["user", "calls", "result", "assistant"]
        with pytest.raises(NoSuchContext):
            await context_of(chat, "nowhere")
