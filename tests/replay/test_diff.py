"""Any two points, of one chat or of two: each item is left, kept, changed or added, and the tokens add up."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Moment, Store, assistant, user
from chatfold.agent.moment import SentShape
from chatfold.eventlog import Event, Noted, ToolCalled, ToolReturned
from chatfold.projections.contexts import MAIN
from chatfold.projections.prompt import first_difference
from chatfold.replay.inspect.diff import (
    Comparison,
    compare,
    compare_archives,
    compare_events,
    compare_messages,
)
from chatfold.replay.inspect.items import items_of
from chatfold.replay.inspect.matching import last_shared, out_of_order
from chatfold.replay.render.diff import comparison_lines
from tests.support.debugger.told import long_talk, memory, told
from tests.support.histories import talks


async def add_up(before: Moment, after: Moment) -> Comparison:
    found = await compare(before, after)
    one, other = items_of(await before.messages()), items_of(await after.messages())
    old = [*found.left, *(change.before for change in found.changed)]
    new = [*found.added, *(change.after for change in found.changed)]
    assert len(old) + len(found.kept) == len(one) == found.before.items
    assert len(new) + len(found.kept) == len(other) == found.after.items
    assert set(old) <= set(one)
    assert {*new, *found.kept} == set(other)
    assert set(found.moved) <= set(found.kept)
    assert found.after.tokens.count - found.before.tokens.count == (
        found.tokens["added"] - found.tokens["left"] + found.tokens["changed"]
    )
    assert found.before.tokens.count == sum(item.tokens for item in one)
    assert [item.text for item in one[: found.prefix]] == [item.text for item in other[: found.prefix]]
    assert (found.cache == "whole") == (found.prefix == len(one))
    return found


@given(talks(), st.data())
def test_what_was_left_kept_changed_and_added_adds_up(talk: list[Event], data: st.DataObject) -> None:
    async def check() -> None:
        async with memory() as store:
            chat = await told(store, talk)
            one, other = [await chat.at(data.draw(st.integers(0, chat.seq))) for _ in range(2)]
            found = await add_up(one, other)
            back = await add_up(other, one)
            assert back.left == found.added
            assert back.added == found.left
            assert found.shared == min(one.seq, other.seq)
            assert [step.seq for step in found.steps] == [
                step.seq for step in back.undone if step.seq > one.seq
            ]
            assert (await add_up(one, one)).is_same
            events = await compare_events(one, other)
            assert sum(events.after.values()) - sum(events.before.values()) == other.seq - one.seq

    asyncio.run(check())


@given(talks(), talks(), st.data())
def test_a_fork_shares_what_it_was_forked_with_and_what_is_said_again_is_the_same(
    talk: list[Event], more: list[Event], data: st.DataObject
) -> None:
    async def check() -> None:
        async with memory() as store:
            chat = await told(store, [Noted("here"), *talk])
            at = data.draw(st.integers(1, chat.seq))
            fork = await chat.fork("fork", at)
            await told(store, more, "fork")
            fork = await store.chat("fork")
            chat = await store.chat("chat")
            assert await last_shared(chat, fork) == await last_shared(fork, chat) == at
            await add_up(chat, fork)
            await add_up(fork, chat)

    asyncio.run(check())


async def test_a_compaction_says_what_it_dropped_kept_and_added() -> None:
    async with memory() as store:
        chat = await long_talk(store)
        found = await add_up(await chat.at(26), await chat.at(27))
        archives = await compare_archives(await chat.at(14), await chat.at(15))
    assert [item.seq for item in found.left] == [14, 10, 11, 12, 13, 21, 22]
    assert [item.seq for item in found.kept] == [1, 23, 24, 25, 26]
    assert [(item.seq, item.kind, item.text) for item in found.added] == [
        (27, "summary", "They asked many questions.")
    ]
    [step] = found.steps
    assert (step.kind, step.number, step.trigger, step.first, step.last) == ("compacted", 2, "tokens", 2, 22)
    assert step.policy["keep"] == 4
    assert step.summary == "They asked many questions."
    assert (found.prefix, found.cache, found.archive.kept) == (1, "lost", 1)
    assert [row.context_id for row in archives.added] == [MAIN]
    assert (archives.removed, archives.changed, archives.kept) == ((), (), 0)


async def test_a_switch_a_rewind_and_an_answer_are_told_apart() -> None:
    async with memory() as store:
        chat = await long_talk(store)
        switched = await add_up(await chat.at(14), await chat.at(15))
        assert ([step.kind for step in switched.steps], switched.cache) == (["opened"], "lost")
        assert switched.steps[0].title == "docs build"
        assert len(switched.left) == switched.before.items
        answered = await add_up(await chat.at(17), await chat.at(18))
        assert [(one.before.text[:25], one.after.text) for one in answered.changed] == [
            ("← read_log failed: Interr", "← read_log failed: Error: missing page")
        ]
        assert (answered.prefix, answered.cache) == (2, "part")
        grown = await add_up(await chat.at(21), await chat.at(23))
        assert (len(grown.added), grown.cache, grown.steps) == (2, "whole", ())
        rewound = await add_up(await chat.at(29), await chat.at(30))
        assert [item.text for item in rewound.left] == ["a detour", "that leads nowhere"]
        assert [(step.kind, step.last, step.reason) for step in rewound.steps] == [
            ("rewound", 27, "a detour")
        ]


async def test_what_a_fork_says_again_is_kept_and_what_it_says_otherwise_is_not() -> None:
    async with memory() as store:
        chat = await told(store, [user("why?"), ToolCalled("x", "read", {"p": 1}), ToolReturned("x")])
        fork = await chat.fork("fork", 1)
        await chat.record(assistant("because"))
        await fork.record(ToolCalled("y", "read", {"p": 1}), ToolReturned("y"), assistant("no idea"))
        found = await add_up(chat, fork)
        assert [item.kind for item in found.kept] == ["user", "calls", "result"]
        assert [item.text for item in (*found.left, *found.added)] == ["because", "no idea"]
        assert (found.shared, found.prefix) == (1, 1)  # the ids of the calls are sent, too
        events = await compare_events(chat, fork)
        assert events.after == {"forked": 1, "tool_called": 1, "tool_returned": 1, "message_added": 1}
        assert events.before == {"tool_called": 1, "tool_returned": 1, "message_added": 1}


@pytest.mark.parametrize("shape", ["neutral", "openai", "openai-responses", "anthropic"])
async def test_lists_of_messages_are_compared_in_any_shape(shape: SentShape) -> None:
    async with memory() as store:
        chat = await long_talk(store)
        one, other = await chat.at(26), await chat.at(27)
        found = await compare_messages(one, other, shape)
        sent = [await one.messages(shape), await other.messages(shape)]
        if shape == "anthropic":
            sent = [[{"system": it["system"]}, *it["messages"]] for it in sent]
        assert found.prefix == first_difference(*sent)
        middle = [sent[side][found.prefix : len(sent[side]) - found.suffix] for side in (0, 1)]
        assert [list(found.left), list(found.added)] == [list(one) for one in middle]
        assert found.suffix >= 4
        assert (await compare_messages(one, one, shape)).is_same


@given(st.permutations(range(8)))
def test_as_few_as_possible_have_moved(places: list[int]) -> None:
    moved = out_of_order(places)
    stayed = [place for place in places if place not in moved]
    assert stayed == sorted(stayed)
    longest = max(
        sum(mask >> i & 1 for i in range(8))
        for mask in range(256)
        if (some := [place for i, place in enumerate(places) if mask >> i & 1]) == sorted(some)
    )
    assert len(stayed) == longest


async def test_the_figures_of_many_context_events_are_their_counts() -> None:
    chat = await Store.memory().chat("many")
    for number in range(8):
        await chat.user(f"Question {number}")
        await chat.new_context(title=f"Topic {number}")
    for last, first_line in ((5, "s1 opened · e2"), (chat.seq, "8 opened")):
        found = await compare(await chat.at(1), await chat.at(last))
        figures = [line.text for line in comparison_lines(found, {}, {}, only_figures=True)]
        assert figures[0].startswith(first_line)
        assert len(figures) < 10
    assert sum(" opened · " in line.text for line in comparison_lines(found, {}, {})) == 8
