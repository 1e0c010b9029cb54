"""Belonging and selecting: what answers what, and which entries and turns are shown, against looking at every entry."""

from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Chat, assistant, user
from chatfold.eventlog import (
    Compacted,
    ContextOpened,
    Entry,
    Event,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.replay.inspect.entries import is_failure, row
from chatfold.replay.inspect.pairs import pair_of
from chatfold.replay.inspect.selection import kind_filter, select, turns
from tests.support.debugger.told import long_talk, memory, told
from tests.support.profile import searched


async def test_a_call_and_its_result_a_request_and_its_answer_a_run_and_its_end() -> None:
    async with memory() as store:
        chat = await store.chat("chat")
        await chat.record(user("go"))
        await chat.record(RunStarted("a"), run="r1")  # 2
        await chat.record(RunStarted("b"), run="r2")  # 3
        await chat.record(ModelCalled("m", "1"), run="r1")  # 4, never answered: asked again
        await chat.record(ModelCalled("m", "2"), run="r1")  # 5
        await chat.record(ModelCalled("m", "3"), run="r2")  # 6
        await chat.record(ModelReturned(), run="r1")  # 7
        await chat.record(ToolCalled("x", "read"), ToolCalled("y", "read"), run="r1")  # 8, 9
        await chat.record(ToolReturned("y"), ToolReturned("x"), run="r1")  # 10, 11
        await chat.record(RunFinished("done"), run="r2")  # 12
        await chat.record(ToolCalled("z", "read"))  # 13, open
        entries = [entry async for entry in chat.entries()]
        found = {entry.seq: await pair_of(chat, entry) for entry in entries}
    assert found == {
        1: {},
        2: {},
        3: {"run finished": 12},
        4: {},
        5: {"answer": 7},
        6: {},
        7: {"request": 5},
        8: {"result": 11},
        9: {"result": 10},
        10: {"call": 9},
        11: {"call": 8},
        12: {"run started": 3},
        13: {},
    }


_EVENTS: list[Event] = [
    user("and vendor/?"),
    assistant("not vendor/"),
    user("now"),
    ToolCalled("c", "read", {"path": "vendor/"}),
    ToolReturned("c", (Text("no"),), failed=True),
    Compacted(1, 2, 2, "vendor/ it was"),
    ContextOpened("ctx", "docs"),
    ModelReturned({"input_tokens": 7}),
    RunFinished("failed"),
]
histories = st.lists(st.sampled_from(_EVENTS), max_size=25)
_kinds = st.frozensets(st.sampled_from(["user", "message_added", "call", "compacted", "nothing"]), max_size=2)


async def shown(chat: Chat, first: int, last: int, **how: object) -> list[int]:
    kinds, errors = how.pop("kinds"), how.pop("errors")
    some = select(chat, first, last, kind_filter(kinds, errors=errors), **how)  # type: ignore[arg-type]
    return [entry.seq async for entry in some]


def is_chosen(entry: Entry, kinds: frozenset[str], text: str, *, errors: bool) -> bool:
    one = row(entry, most=100)
    return (
        (not kinds or one.kind in kinds or one.what in kinds)
        and (not errors or is_failure(entry.event))
        and text in one.text
    )


@given(histories, st.integers(0, 25), st.integers(0, 25), _kinds, st.sampled_from(["", "vendor/"]), st.data())
@searched(5 / 6)
async def test_what_is_selected_is_what_one_picks_by_hand(
    events: list[Event], one: int, other: int, kinds: frozenset[str], text: str, data: st.DataObject
) -> None:
    most, errors, reverse = data.draw(st.integers(0, 6)), data.draw(st.booleans()), data.draw(st.booleans())
    async with memory() as store:
        chat = await told(store, events)
        first, last = sorted((min(one, chat.seq), min(other, chat.seq)))
        entries = [entry async for entry in chat.entries()]
        by_hand = [entry.seq for entry in entries[first:last] if is_chosen(entry, kinds, text, errors=errors)]
        by_hand = by_hand[-most:] if most else by_hand
        found = await shown(
            chat, first, last, kinds=kinds, errors=errors, most=most, text=text, reverse=reverse
        )
        assert found == (by_hand[::-1] if reverse else by_hand)


@given(histories)
@searched(2 / 3)
async def test_the_turns_hold_every_entry_once(events: list[Event]) -> None:
    async with memory() as store:
        chat = await told(store, events)
        entries = [entry async for entry in chat.entries()]
        found = [turn async for turn in turns(chat, 0, chat.seq)]
    covered = [seq for turn in found for seq in range(turn.first, turn.last + 1)]
    assert covered == [entry.seq for entry in entries]
    for turn in found:
        own = [entry.event for entry in entries[turn.first - 1 : turn.last]]
        asked = [event for event in own if isinstance(event, MessageAdded) and event.role == "user"]
        assert len(asked) == (turn.turn > 0)
        assert turn.failures == sum(map(is_failure, own))
        assert sum(turn.tools.values()) == sum(isinstance(event, ToolCalled) for event in own)
        assert turn.size == (7 if any(isinstance(event, ModelReturned) for event in own) else 0)


async def test_a_turn_tells_what_was_asked_answered_and_called() -> None:
    async with memory() as store:
        chat = await long_talk(store)
        found = {turn.turn: turn async for turn in turns(chat, 0, chat.seq)}
    assert found[1].question == "You must not touch vendor/"
    assert found[1].answer == "Understood."
    assert found[7].tools == {"read_log": 1}
    assert (found[6].marks, found[7].marks, found[10].marks) == (["c1", "s1"], ["s2"], ["c2"])
    assert found[7].failures == 1
