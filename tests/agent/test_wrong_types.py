"""What is of a wrong type is refused where it is given, in words: with the name of what was given, and what was expected."""
# mypy: disable-error-code="arg-type, return-value, call-overload, union-attr, list-item"

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatfold import Agent, Chat, Limits, Policy, ScriptedModel, Store, model_from, tool, user


def agent(**given: Any) -> Agent:
    return Agent(ScriptedModel([]), **given)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Store(7), "place: expected a folder, an address, or a Storage, got 7"),
        (lambda: Store.memory(projections=[7]), "projections: expected what @projection makes, got 7"),
        (lambda: Policy(keep="3"), r"Policy\(keep=…\): expected int, got '3'"),
        (lambda: Policy(budget="3"), r"Policy\(budget=…\): expected int \| None, got '3'"),
        (lambda: Limits(steps="3"), r"Limits\(steps=…\): expected int, got '3'"),
        (lambda: agent(policy=3), r"policy: expected a Policy, got 3"),
        (lambda: agent(limits=3), r"limits: expected Limits\(…\), got 3"),
        (lambda: agent(tools=len), "tools: expected a list of functions or Tools, got <built-in"),
        (lambda: agent(instructions=3), "instructions: expected a text, got 3"),
        (lambda: agent(on_step=3), "on_step: expected a function, got 3"),
        (lambda: agent(send="me"), "send: expected a function, got 'me'"),
        (lambda: tool(3), "tool: expected a function, got 3"),
        (lambda: model_from(3), "model_from: expected an async function, got 3"),
    ],
)
def test_it_is_refused_when_it_is_made(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        make()


@pytest.mark.parametrize(
    "make", [lambda: Policy(keep=-1), lambda: Policy(budget=-1), lambda: Limits(grace=-0.5)]
)
def test_a_number_below_zero_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="expected a number from 0 on, got -"):
        make()


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda chat: chat.record(user("x"), after="x"), "after: expected a seq, got 'x'"),
        (lambda chat: chat.user("x", said_at="now"), "said_at: expected a datetime, got 'now'"),
        (lambda chat: chat.compact("now"), "policy: expected a Policy, got 'now'"),
        (lambda _: agent().run("hi", chat=7), "chat: expected the key of a chat, or a Chat, got 7"),
        (lambda _: agent().resume(7), "chat: expected the key of a chat, or a Chat, got 7"),
        (
            lambda chat: Agent(model_from(lambda _: "hi")).run("hi", chat=chat),
            "model_from: expected an async function, which gives something to await, got 'hi'",
        ),
    ],
)
async def test_it_is_refused_when_it_is_used(use: Callable[[Chat], Any], says: str) -> None:
    chat = await Store.memory().chat("a")
    with pytest.raises(TypeError, match=says):
        await use(chat)


@pytest.mark.parametrize("key", [7, None, ""])
async def test_what_is_no_key_is_refused_by_every_storage(key: Any, tmp_path: Path) -> None:
    for store in (Store.memory(), Store(tmp_path)):
        with pytest.raises(ValueError, match="a chat key must be a non-empty string"):
            await store.chat(key)


async def test_a_misspelled_durability_makes_nothing_less_durable(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such durability: 'ful'; there are: full, normal, off"):
        Store(tmp_path, durability="ful")
    chat = await Store(tmp_path).chat("a")
    with pytest.raises(ValueError, match="no such durability: 'ful'"):
        await chat.record(user("hi"), durability="ful")
    assert chat.seq == 0
