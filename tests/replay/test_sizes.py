"""The size of the context over time is what it was at every moment, whatever moved it; and what is drawn of it."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Moment, assistant, user
from chatfold.eventlog import (
    Compacted,
    ContextRecalled,
    Event,
    Injected,
    ModelCalled,
    ModelReturned,
    RunFinished,
    RunStarted,
    SendFailed,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.cutting import tokens_of
from chatfold.projections.history import changes
from chatfold.projections.labels import RECALLED, SUMMARY
from chatfold.projections.tokens import FRAMING, estimate, of_event
from chatfold.replay.inspect.entries import kind_name
from chatfold.replay.inspect.sizes import Bucket, Chart, Mark, chart_of
from chatfold.replay.inspect.stats import stats
from chatfold.replay.render.chart import draw
from tests.support.debugger.told import long_talk, memory, told
from tests.support.histories import talks


def cost(event: Event) -> int:
    match event:
        case Compacted(summary=summary):
            return FRAMING + estimate(SUMMARY + summary)
        case ContextRecalled(id=id, mode=mode, text=text):
            return FRAMING + estimate(RECALLED.format(id=id, mode=mode) + text)
    return of_event(event)


async def naive(moment: Moment) -> int:
    """What the entries of the window cost, read at that moment."""
    part = moment.window()
    summaries = {top.seq for top in part.summaries}
    entries = await moment.read(part.entries)
    return sum(
        cost(entry.event)
        for entry in entries
        if entry.seq in summaries or not isinstance(entry.event, Compacted)
    )


@given(talks())
def test_every_size_is_that_of_the_window_at_that_moment(talk: list[Event]) -> None:
    async def check() -> None:
        async with memory() as store:
            chat = await told(store, talk)
            seen = await chart_of(chat, width=1000)
            moments = [await chat.at(seq) for seq in range(1, chat.seq + 1)]
            sizes = [await naive(moment) for moment in moments]
            assert [bucket.end for bucket in seen.buckets] == sizes
            assert all(bucket.low == bucket.high == bucket.end for bucket in seen.buckets)
            assert (seen.size, seen.peak) == (sizes[-1] if sizes else 0, max(sizes, default=0))
            if not any(isinstance(event, ToolCalled | ToolReturned) for event in talk):
                shown = [sum(map(tokens_of, await moment.messages())) for moment in moments]
                assert sizes == shown
            for mark in seen.marks:
                assert mark.after == sizes[mark.seq - 1]
                assert mark.before == (sizes[mark.seq - 2] if mark.seq > 1 else 0)
            moving = [
                control.seq for control, _, _ in changes(await chat.history()) if control.kind != "started"
            ]
            assert [mark.seq for mark in seen.marks] == moving

    asyncio.run(check())


@given(talks(), st.integers(1, 12))
def test_buckets_are_the_sizes_without_a_gap(talk: list[Event], width: int) -> None:
    async def check() -> None:
        async with memory() as store:
            chat = await told(store, talk)
            whole, seen = await chart_of(chat, width=1000), await chart_of(chat, width=width)
            assert len(seen.buckets) == min(width, chat.seq)
            assert [one.first for one in seen.buckets] == [
                1,
                *(one.last + 1 for one in seen.buckets[:-1]),
            ] or not talk
            assert not talk or seen.buckets[-1].last == chat.seq
            for bucket in seen.buckets:
                sizes = [one.end for one in whole.buckets[bucket.first - 1 : bucket.last]]
                assert (bucket.low, bucket.high, bucket.end) == (min(sizes), max(sizes), sizes[-1])
            lines = draw(seen, 3)
            assert all(len(line) == len(seen.buckets) for line in lines)
            assert len(lines) == 3 + bool(seen.marks)

    asyncio.run(check())


def test_a_picture_is_drawn_with_blocks_and_marks() -> None:
    sizes = [0, 1, 50, 100, 25]
    buckets = tuple(Bucket(seq, seq, size, size, size) for seq, size in enumerate(sizes, 1))
    marks = (Mark(5, "compacted", 1, 100, 25), Mark(5, "opened", 1, 25, 25), Mark(2, "rewound", 1, 0, 1))
    seen = Chart(buckets, marks, 25, 100)
    assert draw(seen) == [" ▁▄█▂", " ↶  ◆"]
    assert draw(seen, 2, marked=False) == ["   █ ", " ▁██▄"]
    wide = Chart((Bucket(1, 9, 20, 100, 30), Bucket(10, 19, 60, 60, 60)), (), 60, 100)
    assert draw(wide, 4) == ["░ ", "░▄", "░█", "██"]
    assert draw(wide) == ["█▅"]
    assert draw(Chart((), (), 0, 0)) == [""]
    assert draw(Chart((Bucket(1, 1, 0, 0, 0),), (), 0, 0)) == [" "]


async def test_stats_count_everything_that_ever_happened() -> None:
    events: tuple[Event, ...] = (
        user("hi"),
        RunStarted("a"),
        ModelCalled("m", "r"),
        ModelReturned({"input_tokens": 10, "output_tokens": 5}),
        ToolCalled("c1", "read"),
        ToolCalled("c2", "read"),
        ToolCalled("c3", "stop"),
        ToolReturned("c1", (Text("x"),)),
        ToolReturned("c2", failed=True),
        ModelCalled("m", "r2"),
        ModelReturned(error="no"),
        SendFailed("s", "no"),
        Injected("user", "f", (Text("x"),)),
        RunFinished("failed"),
        assistant("sorry"),
    )
    read: list[tuple[int, int]] = []
    async with memory() as store:
        chat = await told(store, events)
        seen = await stats(chat, width=8, progress=lambda *at: read.append(at))
    assert seen.kinds == dict(Counter(map(kind_name, events)).most_common())
    assert (seen.entries, seen.turns, seen.messages) == (15, 1, 2)
    assert (seen.usage.total.calls, seen.usage.total.tokens, seen.usage.total.errors) == (2, 15, 1)
    assert {name: (one.calls, one.failed, one.unanswered) for name, one in seen.tools.items()} == {
        "read": (2, 1, 0),
        "stop": (1, 0, 1),
    }
    assert (seen.errors, seen.runs) == (4, {"failed": 1})
    assert seen.last - seen.first == 14
    assert read[-1] == (15, 15)
    assert len(seen.picture.buckets) == 8


async def test_stats_tell_what_compactions_hid_and_where_the_contexts_are() -> None:
    async with memory() as store:
        chat = await long_talk(store)
        seen = await stats(chat)
        before, after = await chat.at(13), await chat.at(14)
        hid = (await before.cut()).tokens.count - (await after.cut()).tokens.count
    assert [(mark.kind, mark.number) for mark in seen.picture.marks] == [
        ("compacted", 1),
        ("opened", 1),
        ("switched", 2),
        ("compacted", 2),
        ("rewound", 1),
    ]
    first = seen.picture.marks[0]
    assert first.before - first.after == hid
    assert (seen.compactions, seen.contexts) == (2, 2)
    assert seen.hidden_tokens == sum(m.before - m.after for m in seen.picture.marks if m.kind == "compacted")
