"""Points: whatever happened in a chat, an address means the entry that one finds by counting."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Chat
from chatfold.eventlog import (
    CheckpointSet,
    Compacted,
    ContextCleared,
    ContextOpened,
    ContextSwitched,
    Entry,
    Event,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    NoSuchPoint,
)
from chatfold.replay.inspect.address import HEAD, Address, Point, point
from chatfold.replay.inspect.points import names, range_of, request, request_number, seq_of
from tests.support.debugger.told import memory, told
from tests.support.histories import talks
from tests.support.profile import searched

_EXTRA: list[Event] = [
    ModelCalled("m", "r"),
    ModelReturned(),
    CheckpointSet("here"),
    CheckpointSet("t1"),
    ContextCleared("anew"),
    MessageAdded("user", ()),
    MessageAdded("user", (), origin="internal"),
]


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    events = draw(talks())
    for event in draw(st.lists(st.sampled_from(_EXTRA), max_size=8)):
        events.insert(draw(st.integers(0, len(events))), event)
    return events


def is_question(event: Event) -> bool:
    return isinstance(event, MessageAdded) and event.role == "user" and event.origin == "exec"


def is_compaction(entry: Entry) -> bool:
    """Of a range that there can be."""
    event = entry.event
    return (
        isinstance(event, Compacted)
        and event.first <= event.last
        and event.first < entry.seq
        and event.last > 0
    )


def seqs(entries: list[Entry], *kinds: type[Event]) -> list[int]:
    return [entry.seq for entry in entries if isinstance(entry.event, kinds)]


async def assert_found(chat: Chat, text: str, expected: int | None) -> None:
    if expected is None or expected < 0:
        with pytest.raises(NoSuchPoint):
            await seq_of(chat, point(text))
    else:
        assert await seq_of(chat, point(text)) == expected, text


async def assert_counted(chat: Chat, letter: str, found: list[int]) -> None:
    for number in range(len(found) + 2):
        right = found[number - 1] if 1 <= number <= len(found) else None
        await assert_found(chat, f"{letter}{number}", right)
        if number:
            await assert_found(chat, f"{letter}-{number}", found[-number] if number <= len(found) else None)
        if right:
            await assert_found(chat, f"{letter}{number}^", right - 1)


@given(histories())
@searched(2 / 3)
async def test_an_address_means_what_one_counts(events: list[Event]) -> None:
    async with memory() as store:
        chat = await told(store, events)
        entries = [entry async for entry in chat.entries()]
        compactions = [entry.seq for entry in entries if is_compaction(entry)]
        await assert_counted(chat, "c", compactions)
        switches = seqs(entries, ContextOpened, ContextSwitched, ContextCleared)
        await assert_counted(chat, "s", switches)
        await assert_counted(chat, "m", calls := seqs(entries, ModelCalled))
        asked = [entry.seq for entry in entries if is_question(entry.event)]
        for number in range(len(asked) + 2):
            last = (*(seq - 1 for seq in asked), len(entries))
            await assert_found(chat, f"t{number}", last[number] if number <= len(asked) else None)
            await assert_found(chat, f"t{number}.0", asked[number - 1] if 1 <= number <= len(asked) else None)
            if number:
                await assert_found(chat, f"t-{number}", last[-1 - number] if number <= len(asked) else None)
        for name in ("here", "t1"):
            marks = [one.seq for one in entries if one.event == CheckpointSet(name)]
            await assert_found(chat, f"label:{name}", marks[-1] if marks else None)
        called = names(await chat.history())
        assert called == {
            **{seq: f"c{number}" for number, seq in enumerate(compactions, 1)},
            **{seq: f"s{number}" for number, seq in enumerate(switches, 1)},
        }
        for number, seq in enumerate(calls, 1):
            assert (await request(chat, number))[0] == seq
        for seq in range(len(entries) + 1):
            assert await request_number(chat, seq) == sum(call <= seq for call in calls)


@given(st.integers(1, 12), st.integers(0, 14), st.integers(0, 14), st.integers(0, 3))
@searched(1 / 2)
async def test_entries_heads_times_and_ranges(count: int, one: int, other: int, earlier: int) -> None:
    async with memory() as store:
        chat = await told(store, [MessageAdded("user", ())] * count)
        marks = "^" * earlier
        await assert_found(chat, f"{one}{marks}", one - earlier if one <= count else None)
        await assert_found(chat, f"head-{one}{marks}", count - one - earlier)
        entries = [entry async for entry in chat.entries()]
        for entry in entries:
            time = datetime.fromtimestamp(entry.ts / 1000, UTC).isoformat()
            assert await seq_of(chat, Point("time", name=time)) == entry.seq
        whole = Address("chat", Point("seq", other), Point("seq", one), is_range=True)
        if one <= other <= count:
            assert await range_of(chat, whole) == (one, other)
        else:
            with pytest.raises(NoSuchPoint):
                await range_of(chat, whole)
        assert await range_of(chat, Address("chat")) == (0, count)
        assert await range_of(chat, Address("chat", HEAD, None, is_range=True)) == (0, count)


async def test_many_requests_are_found_without_reading_the_history() -> None:
    async with memory() as store:
        chat = await told(store, [ModelCalled("m", f"{number}") for number in range(200)])
        for number in (1, 64, 65, 128, 200):
            seq, event = await request(chat, number)
            assert (seq, event.request) == (number, f"{number - 1}")
            assert await request_number(chat, seq) == number
