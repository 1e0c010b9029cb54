"""The chats that are measured are those that were promised; and what is promised of chats holds for them, whatever the seed."""

import math
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.conversation import (
    REPEATED,
    SUMMARY,
    WINDOW,
    Message,
    conversation,
    history,
    is_summary,
    short,
)
from benchmarks.workload import event_of, events, message_of, turns
from chatfold.agent import Store
from chatfold.eventlog import FileStorage, Log
from chatfold.projections import labels
from tests.support.profile import searched

seeds = st.integers(0, 2**32)


def messages(seed: int, count: int) -> list[Message]:
    return [message for turn in history(seed, count) for message in turn]


def test_a_seed_is_one_chat_and_another_seed_is_another() -> None:
    assert list(islice(events(4), 500)) == list(islice(events(4), 500))
    assert list(islice(events(4), 5)) != list(islice(events(5), 5))


@given(seeds)
def test_a_turn_is_a_question_calls_with_their_results_and_an_answer(seed: int) -> None:
    for turn in islice(conversation(seed), 10):
        assert [message["role"] for message in turn] == [
            "user",
            *["assistant", "tool"] * (len(turn) // 2 - 1),
            "assistant",
        ]
        assert 2 <= len(turn) <= 14
        assert 50 <= len(turn[0]["content"]) <= 800
        assert 200 <= len(turn[-1]["content"]) <= 3_000
        for call, result in zip(turn[1:-1:2], turn[2:-1:2], strict=True):
            assert call["tool_calls"][0]["id"] == result["tool_call_id"]


@pytest.mark.campaign
def test_sizes_repeats_and_scripts_are_as_described() -> None:
    said = [message for turn in islice(conversation(1), 3_000) for message in turn]
    results = [message["content"] for message in said if message["role"] == "tool"]
    sizes = [len(text.encode()) for text in results]
    assert 1_300 < median(sizes) < 1_700
    assert min(sizes) >= 30  # 40, if none of its CJK is a comma
    assert max(sizes) <= 200_000
    logs = [math.log(size) for size in sizes]
    mean = sum(logs) / len(logs)
    assert 1.1 < math.sqrt(sum((one - mean) ** 2 for one in logs) / len(logs)) < 1.35
    assert abs((1 - len(set(results)) / len(results)) - REPEATED) < 0.03
    assert 1_500 < sum(len(msgspec.json.encode(message)) for message in said) / len(said) < 2_100
    cjk = sum(any("\u4e00" <= char <= "\u9fff" for char in str(message.get("content"))) for message in said)
    assert 0.1 < cjk / len(said) < 0.3


@given(seeds, st.integers(100, 700))
def test_a_history_is_as_long_as_asked_for_and_ends_before_a_call_of_the_model(seed: int, count: int) -> None:
    said = messages(seed, count)
    assert len(said) == count
    assert is_summary(said[-WINDOW])
    assert not any(map(is_summary, said[1 - WINDOW :]))
    assert said[-1]["role"] == "user"


@given(seeds, st.integers(1, 20).map(lambda half: 2 * half))
def test_a_short_chat_has_whole_turns(seed: int, count: int) -> None:
    assert [turn[0]["role"] for turn in short(seed, count)] == ["user"] * len(list(short(seed, count)))
    assert sum(map(len, short(seed, count))) == count


@given(seeds)
def test_messages_and_events_say_the_same(seed: int) -> None:
    for message in messages(seed, 100):
        assert message_of(event_of(message)) == message


def test_a_summary_begins_as_it_does_in_a_prompt() -> None:
    assert SUMMARY == labels.SUMMARY


@searched(1 / 6)
@given(seeds, st.integers(1, 12))
async def test_whatever_the_workload_says_is_read_back_and_sent_as_it_was_said(seed: int, count: int) -> None:
    """The generator of the benchmarks, drawn by the property tests."""
    said = list(islice(turns(seed), count))
    with TemporaryDirectory() as folder:
        root = Path(folder)
        async with Log(FileStorage(root, segment_bytes=20_000, durability="off")) as log:
            for turn in said:
                await log.append("chat", *turn)
        async with Store(root) as store:
            chat = await store.chat("chat")
            assert [entry.event async for entry in chat.entries()] == [
                event for turn in said for event in turn
            ]
            assert await chat.messages("openai") == [message_of(event) for turn in said for event in turn]


@pytest.mark.parametrize("count", [100, 1_000])
def test_a_longer_history_is_not_the_same_messages_again(count: int) -> None:
    texts = [message["content"] for message in messages(2, count) if message["role"] == "user"]
    assert len(set(texts)) == len(texts)
