"""A beginning that stays the same: what was sent once is sent again, and only then what is new. Providers' caches live on it."""

import asyncio
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Agent, ModelFailed, Policy, Store
from chatfold.agent.limits import Limits
from chatfold.agent.models import Line, ModelReply
from chatfold.agent.run_context import inject_assistant_once
from chatfold.agent.tools import tool
from chatfold.eventlog import Text
from chatfold.projections.prompt import first_difference
from tests.support.acting import OpenAIScript, Paused, are_proved, unlabelled, users
from tests.support.agent_runs import step
from tests.support.chats import a_store  # noqa: F401

KEY = "telegram-chat-42"


@tool
async def look(at: str = "") -> str:
    """Looks."""
    return f"saw {at}"


def is_continued(payloads: list[dict[str, Any]]) -> bool:
    """Does every request begin with all messages of the one before it?"""
    sent = [payload["messages"] for payload in payloads]
    found = [first_difference(one, after) for one, after in pairwise(sent)]
    return found == [len(one) if len(one) < len(after) else None for one, after in pairwise(sent)]


@tool
async def stumble() -> str:
    """Falls."""
    raise ValueError("fallen")


TURNS: dict[str, list[Line]] = {
    "plain": ["an answer"],
    "nothing": [ModelReply()],
    "tool": [step(("look", {"at": "a"})), "seen"],
    "tools": [
        step(("look", {"at": "a"}), ("stumble", {}), ("nothing", {})),
        step(("look", {}), ids=["x"]),
        "seen",
    ],
    "words and tool": [ModelReply((Text("Let me see."),), step(("look", {})).calls), "seen"],
    "retry": [ModelFailed("busy", again=True, after=0), "an answer"],
    "failed": [ModelFailed("no credit")],
    "too long a way": [step(("look", {"at": str(number)})) for number in range(3)],
}


@given(st.lists(st.sampled_from(sorted(TURNS)), min_size=2, max_size=8))
def test_every_request_begins_with_all_that_the_one_before_it_said(turns: list[str]) -> None:
    async def runs() -> None:
        store = Store.memory()
        model = OpenAIScript([line for turn in turns for line in TURNS[turn]])
        made = Agent(model=model, store=store, tools=[look, stumble], limits=Limits(steps=3))
        for number, turn in enumerate(turns):
            result = await made.run(f"question {number}", chat=KEY)
            assert result.outcome == {"failed": "failed", "too long a way": "limit"}.get(turn, "done")
        assert is_continued(model.payloads)
        assert {payload["messages"][0]["role"] for payload in model.payloads} == {"system"}
        assert await are_proved(await store.chat(KEY), model)

    asyncio.run(runs())


async def test_what_a_tool_injects_stands_before_the_question_and_what_came_before_stays(
    store: Store,
) -> None:
    @tool
    async def recall() -> str:
        """More."""
        return str(await inject_assistant_once("more to know", fingerprint="more"))

    model = OpenAIScript(["one", step(("recall", {})), step(("look", {})), "two", "three"])
    made = Agent(model=model, store=store, tools=[recall, look])
    for question in ("one?", "two?", "three?"):
        await made.run(question, chat=KEY)
    first, asked, injected, *later = model.payloads
    assert is_continued([first, asked])
    assert first_difference(asked["messages"], injected["messages"]) == len(asked["messages"]) - 1
    *_, more, asked_now = [
        m["content"] for m in injected["messages"] if m["role"] != "tool" and "content" in m
    ]
    assert (unlabelled(more), asked_now) == ("more to know", "two?")
    assert is_continued([injected, *later])
    assert await are_proved(await store.chat(KEY), model)


async def test_after_a_compaction_the_requests_begin_alike_again(store: Store) -> None:
    model = OpenAIScript([f"answer {number}" for number in range(12)])
    made = Agent(model=model, store=store, policy=Policy(keep=6, budget=None, above=15))
    for number in range(12):
        await made.run(f"question {number}", chat=KEY)
    sent = [payload["messages"] for payload in model.payloads]
    breaks = [n for n in range(11) if not is_continued(model.payloads[n : n + 2])]
    assert breaks
    assert all(after - one > 2 for one, after in pairwise(breaks))  # 3.13: no thrashing
    assert all(len(sent[n + 1]) < len(sent[n]) for n in breaks)
    assert all(one[0] == sent[0][0] for one in sent)
    assert users_of(sent[-1])[-1] == "question 11"
    assert await are_proved(await store.chat(KEY), model)


def users_of(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"] for m in messages if m["role"] == "user"]


async def test_a_message_that_comes_in_the_middle_breaks_no_beginning(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store, tools=[look])
    await made.submit("one?", chat=KEY)
    answers: list[ModelReply | str] = [step(("look", {})), step(("look", {}), ids=["y"]), "one."]
    for number, said in enumerate(answers):
        question = await model.asked()
        await made.submit(f"and {number}?", chat=KEY)
        question.answer(said)
    (await model.asked()).answer("all of them.")
    await made.wait_idle()
    assert is_continued(model.payloads)
    assert users(model.payloads[-1]) == ["one?", "and 0?", "and 1?", "and 2?"]
