"""Compaction: what goes behind a summary and what stays, when it is due, and what may happen meanwhile."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chatfold.agent import Agent, Chat, Policy, PromptTooLarge, SummaryFailed, assistant, user
from chatfold.agent.models import ScriptedModel
from chatfold.agent.summary import Material
from chatfold.eventlog import (
    Compacted,
    Data,
    Entry,
    ModelCalled,
    ModelReturned,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.cutting import tokens_of
from tests.support.chats import a_chat, a_store, block, files, finished, roles, started, texts, told, turns  # noqa: F401


async def size(chat: Chat) -> int:
    return sum(tokens_of(message) for message in await chat.messages())


def compaction(entries: list[Entry]) -> Compacted:
    [event] = [entry.event for entry in entries]
    assert isinstance(event, Compacted)
    return event


# --- what stays ------------------------------------------------------------------------------------------


async def test_the_older_messages_become_a_summary_and_the_newest_stay(chat: Chat) -> None:
    await turns(chat, 5)
    done = compaction(await chat.compact(Policy(keep=4), summarise=told))
    assert (done.first, done.last, done.count, done.trigger) == (1, 6, 6, "manual")
    assert done.policy["keep"] == 4
    assert done.tokens["before"] > done.tokens["after"] == await size(chat)
    assert (await texts(chat))[1:] == ["question 3", "answer 3", "question 4", "answer 4"]


async def test_compacting_again_with_nothing_new_does_nothing(chat: Chat) -> None:
    await turns(chat, 20)
    for policy in (Policy(keep=10), Policy(keep=4), Policy(keep=1)):
        await chat.compact(policy)
        seq = chat.seq
        assert await chat.compact(policy) == []
        assert chat.seq == seq


async def test_fewer_messages_than_asked_are_kept_if_more_do_not_fit(chat: Chat) -> None:
    for number in range(10):
        await chat.record(user(f"question {number}"), assistant("word " * 300))
    policy = Policy(keep=30, budget=2_000, summary=200)
    await chat.compact(policy)
    assert await size(chat) <= 2_000
    assert 4 <= len(await texts(chat)) < 20
    assert (await texts(chat))[-2] == "question 9"


async def test_a_few_huge_messages_are_compacted_although_they_are_fewer_than_are_kept(chat: Chat) -> None:
    for number in range(11):
        await chat.record(user(f"question {number}"), *block(f"c{number}", "log line 4711\n" * 900))
    assert await size(chat) > 30_000
    assert compaction(await chat.compact_if_due(Policy.small())).trigger == "tokens"
    assert await size(chat) <= 12_000
    assert await chat.compact_if_due(Policy.small()) == []


async def test_a_chat_of_long_answers_is_not_compacted_at_every_turn(chat: Chat) -> None:
    done = 0
    for number in range(20):
        await chat.user(f"question {number}")
        done += len(await chat.compact_if_due(Policy.small()))
        await chat.assistant("word " * 3_000)
    assert 1 <= done <= 10


async def test_tool_blocks_stay_whole_wherever_the_border_would_be(chat: Chat) -> None:
    await turns(chat, 1)
    await chat.record(assistant("three at once"), *(ToolCalled(f"c{number}", "read") for number in range(3)))
    await chat.record(*(ToolReturned(f"c{number}", (Text(f"result {number}"),)) for number in (2, 0, 1)))
    await chat.record(assistant("done"), user("the question"))
    for keep in (5, 4, 3, 2, 1):
        await chat.compact(Policy(keep=keep))
        shown = await chat.messages()
        called = [call.seq for message in shown for call in message.calls]
        answered = [result.call for message in shown for result in message.results if result.seq]
        assert called == answered
        assert (await texts(chat))[-1] == "the question"
    assert len(await texts(chat)) == 2


async def test_the_question_stays_and_a_long_run_since_then_gets_a_summary_of_its_own(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.user("the question")
    for number in range(10):
        await chat.record(*block(f"c{number}", f"result {number} " * 50))
    done = await chat.compact(Policy(keep=1, budget=900, summary=100), summarise=told)
    assert len(done) == 2
    shown = await texts(chat)
    assert shown[0].endswith("4 messages after ''")
    assert shown[1] == "the question"
    assert "messages after ''" in shown[2]
    assert (await roles(chat))[3:] == ["assistant", "tool"] * ((len(shown) - 3) // 2)
    assert shown[-1].startswith("result 9")
    assert await size(chat) <= 900


async def test_a_single_question_with_a_long_run_can_be_compacted(chat: Chat) -> None:
    await chat.user("the question")
    for number in range(10):
        await chat.record(*block(f"c{number}", f"result {number} " * 50))
    done = compaction(await chat.compact(Policy(budget=600, summary=100)))
    assert (done.first, done.count) == (2, 0)
    assert (await texts(chat))[0] == "the question"
    assert await size(chat) <= 600


async def test_a_run_since_the_question_that_fits_is_left_alone(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.user("the question")
    for number in range(6):
        await chat.record(*block(f"c{number}"))
    await chat.compact(Policy(keep=1))
    assert (await texts(chat))[1] == "the question"
    assert (await roles(chat))[2:] == ["assistant", "tool"] * 6


async def test_a_nudge_that_the_user_never_said_is_not_what_the_user_asked(chat: Chat) -> None:
    await chat.user("the question")
    for number in range(3):
        await chat.record(*block(f"c{number}", "word " * 100), user("go on", origin="internal"))
    await chat.compact(Policy(keep=1, budget=400, summary=100))
    assert "the question" in await texts(chat)


async def test_a_call_that_still_runs_is_not_hidden_and_its_result_is_seen(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.user("look it up")
    call = await chat.tool_call("slow")
    await chat.user("are you there?")
    await chat.compact(Policy(keep=1))
    await chat.record(call.result("found it"))
    assert "found it" in await texts(chat)


async def test_a_result_that_came_late_is_not_lost_when_its_call_goes_behind_a_summary(chat: Chat) -> None:
    call = await chat.tool_call("slow")
    await chat.record(assistant("I do not wait."), user("fine"))
    await chat.record(call.result("found it"))
    assert "found it" in str((await texts(chat))[-1])
    await chat.compact(Policy(keep=1), summarise=lambda material: material.text)
    assert "found it" in str(await texts(chat))


async def test_what_is_injected_twice_does_not_come_back_in_the_place_of_the_first(chat: Chat) -> None:
    await chat.inject("a long text " * 100)
    await turns(chat, 2)
    done = await chat.compact(Policy(keep=2))
    await chat.inject("a long text " * 100)
    await turns(chat, 1)
    await chat.revert_compaction(done[0].seq)
    await chat.compact(Policy(keep=4, budget=200, summary=50))
    assert await size(chat) <= 200


# --- what does not fit -----------------------------------------------------------------------------------


async def test_what_cannot_fit_says_by_how_much_and_nothing_is_hidden(chat: Chat) -> None:
    await turns(chat, 2)
    await chat.user("长" * 5_000)
    before = await texts(chat)
    with pytest.raises(PromptTooLarge, match=r"5\d\d\d tokens, 3000 are allowed") as caught:
        await chat.compact(Policy(budget=3_000, summary=100))
    assert caught.value.budget == 3_000
    assert 5_000 < caught.value.tokens < 6_000
    assert (await texts(chat), chat.seq) == (before, 5)


async def test_one_huge_message_is_never_deleted(chat: Chat) -> None:
    await chat.user("word " * 20_000)
    with pytest.raises(PromptTooLarge):
        await chat.compact_if_due(Policy.small())
    assert len(await texts(chat)) == 1


async def test_a_prompt_that_fits_is_not_refused_because_a_summary_would_not(chat: Chat) -> None:
    await turns(chat, 20)
    await chat.user("word " * 2_000)
    policy = Policy(keep=30, budget=await size(chat) + 100, above=20)
    await chat.compact_if_due(policy)
    assert await size(chat) <= 2_500


# --- when it is due --------------------------------------------------------------------------------------


async def test_the_policies_are_those_of_the_documents() -> None:
    small = Policy.small()
    assert (small.budget, small.keep, small.above) == (12_000, 30, None)
    assert Policy.default() == Policy()
    assert (Policy().budget, Policy().keep, Policy().above) == (128_000, 30, None)


async def test_sixty_messages_are_left_and_sixty_one_become_thirty_one(chat: Chat) -> None:
    await turns(chat, 30)
    assert await chat.compact_if_due(Policy(above=60, budget=None)) == []
    await chat.user("one more")
    done = compaction(await chat.compact_if_due(Policy(above=60, budget=None)))
    assert (done.trigger, done.count, len(await texts(chat))) == ("count", 31, 31)


async def test_it_is_due_by_estimate(chat: Chat) -> None:
    await chat.record(user("word " * 3_000), assistant("ok"), user("next"))
    assert await chat.compact_if_due(Policy(budget=await size(chat))) == []
    done = compaction(await chat.compact_if_due(Policy(budget=await size(chat) - 1)))
    assert done.trigger == "tokens"


async def test_it_is_due_by_what_the_provider_reported_and_what_came_since(chat: Chat) -> None:
    await turns(chat, 10)
    policy = Policy(keep=3, budget=4_000, summary=100)
    await chat.record(ModelCalled("m", "r"), ModelReturned({"input_tokens": 3_990}))
    assert await chat.compact_if_due(policy) == []
    await chat.user("a few more words than fit in there")
    assert compaction(await chat.compact_if_due(policy)).trigger == "tokens"
    assert await chat.compact_if_due(policy) == []  # what was reported is about a longer prompt


async def test_a_counter_of_ones_own_decides(chat: Chat) -> None:
    await turns(chat, 10)
    done = compaction(
        await chat.compact_if_due(Policy(keep=2, budget=8_000), count=lambda text: 100 * len(text))
    )
    assert (done.trigger, done.tokens["before"] > 10_000) == ("tokens", True)


# --- summaries -------------------------------------------------------------------------------------------


async def test_the_previous_summary_is_given_to_the_next_in_full(chat: Chat) -> None:
    long = "the first. " * 500 + "That is all."
    await turns(chat, 5)
    await chat.compact(Policy(keep=4), summarise=lambda _: long)
    await turns(chat, 2)
    await chat.compact(Policy(keep=2), summarise=lambda material: "yes" if long in material.text else "no")
    assert (await texts(chat))[0].endswith("\nyes")


async def test_a_summary_of_a_summary_stands_for_everything_since_the_beginning(chat: Chat) -> None:
    await turns(chat, 5)
    await chat.compact(Policy(keep=4))
    await turns(chat, 2)
    done = compaction(await chat.compact(Policy(keep=2)))
    assert (done.first, done.count, len(await texts(chat))) == (1, 12, 3)


async def test_the_summariser_is_told_of_tools_what_they_were_asked_and_returned(chat: Chat) -> None:
    await chat.record(user("look"), assistant("I look."), ToolCalled("c1", "read", {"path": "a.py"}))
    await chat.record(ToolReturned("c1", (Text("def f(): ..."), Data("json", {"lines": 4711})), failed=True))
    await chat.record(assistant("done"), user("next"))
    text = ""

    def listening(material: Material) -> str:
        nonlocal text
        text = material.text
        return "ok"

    await chat.compact(Policy(keep=1), summarise=listening)
    assert "user: look\nassistant: I look.\n" in text
    for part in ('assistant called read: {"path":"a.py"}', "read failed: def f(): ...", "4711"):
        assert part in text


class Summariser:
    async def __call__(self, material: Material) -> str:
        await asyncio.sleep(0)
        return "by an object"


async def asynchronous(material: Material) -> str:
    await asyncio.sleep(0)
    return "by a coroutine"


@pytest.mark.parametrize("summarise", [Summariser(), asynchronous, lambda _: "by a function"])
async def test_any_callable_makes_a_summary(chat: Chat, summarise: Any) -> None:
    await turns(chat, 5)
    await chat.compact(Policy(keep=2), summarise=summarise)
    assert "\nby a" in (await texts(chat))[0]


async def raising(_: Material) -> str:
    raise RuntimeError("no model today")


async def sleeping(_: Material) -> str:
    await asyncio.sleep(60)
    return "too late"


def slow(_: Material) -> str:
    time.sleep(0.3)
    return "too late"


@pytest.mark.parametrize(
    ("bad", "seconds", "said"),
    [
        (raising, 60, "no model today"),
        (sleeping, 0.1, "no summary within 0.1 s"),
        (slow, 0.1, "no summary within 0.1 s"),
        (lambda _: "", 60, "the summary is empty"),
        (lambda _: " \n", 60, "the summary is empty"),
        (lambda _: None, 60, "the summary is empty"),
        (lambda _: "word " * 2_100, 60, "tokens, 2000 are allowed"),
    ],
)
async def test_a_summary_that_fails_changes_nothing(chat: Chat, bad: Any, seconds: float, said: str) -> None:
    await turns(chat, 5)
    before = await texts(chat)
    with pytest.raises(SummaryFailed, match=said) as caught:
        await chat.compact(Policy(keep=2, timeout=seconds), summarise=bad)
    assert "Nothing was compacted" in str(caught.value)
    assert (await texts(chat), chat.seq) == (before, 10)


# --- words of a configuration ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "policy"),
    [
        ({"keepLastMessages": 20, "maxInputTokensApprox": 12_000}, Policy(keep=20, budget=12_000)),
        (
            {"context": {"chatHistory": {"inMemoryMaxMessages": 60, "compactKeepLastMessages": 25}}},
            Policy(keep=25, above=60, budget=None),
        ),
        (
            {
                "llm": {"model": "x"},
                "context": {"history": {"archiveOnCompact": True}, "agentContext": {"windowEntries": 200}},
            },
            Policy(),
        ),
    ],
)
def test_a_policy_is_read_from_the_words_of_a_configuration(
    config: dict[str, object], policy: Policy
) -> None:
    assert Policy.from_config(config) == policy


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"archiveOnCompact": False}, "archiveOnCompact: only true"),
        ({"keepLastMessages": "30"}, "expected a number above 0"),
    ],
)
def test_a_configuration_that_cannot_be_kept_is_refused(config: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Policy.from_config(config)


def test_an_agent_and_a_policy_are_made_from_the_path_of_a_configuration(tmp_path: Path) -> None:
    config = {"context": {"history": {"keepLastMessages": 7, "maxInputTokensApprox": 9000}}}
    path = tmp_path / "ship.json"
    path.write_bytes(msgspec.json.encode(config))
    wanted = Policy(keep=7, budget=9000)
    assert Policy.from_config(path) == Policy.from_config(str(path)) == wanted
    made = Agent.from_config(path, ScriptedModel([]), name="desk")
    assert (made.policy, made.name) == (wanted, "desk")
    assert Agent.from_config(config, ScriptedModel([])).policy == wanted
