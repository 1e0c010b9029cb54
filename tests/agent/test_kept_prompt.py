"""The prompt that a chat keeps is the one that is built from nothing, whatever happened since."""

import asyncio
from typing import Any

import pytest
from hypothesis import given

from chatfold.agent import Chat, Store
from chatfold.agent.moment import Moment
from chatfold.eventlog import Compacted, Event, Injected, Rewound, Text, ToolCalled, ToolReturned
from chatfold.projections.prompt import build
from tests.support.chats import a_store  # noqa: F401
from tests.support.histories import assistant, talks, user


def built_once(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was built, from now on."""
    made: list[Any] = []

    def counted(*given_: Any) -> Any:
        made.append(given_)
        return build(*given_)

    monkeypatch.setattr("chatfold.agent.moment.build", counted)
    return made


async def anew(chat: Chat) -> Any:
    """As somebody is told who has kept nothing."""
    return await Moment(chat.log, chat.key, chat.opened).messages()


async def recorded(talk: list[Event]) -> None:
    async with Store.memory() as store:
        chat = await store.chat("chat")
        for event in talk:
            before = await chat.now()
            sent = await before.messages()
            await chat.record(event)
            assert await chat.messages() == await anew(chat)
            assert await before.messages() == sent


@given(talks())
def test_after_every_event_it_is_what_is_built_from_nothing(talk: list[Event]) -> None:
    asyncio.run(recorded(talk))


async def test_a_prompt_goes_on_and_is_not_built_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = await store.chat("chat")
    await chat.user("why")
    made = built_once(monkeypatch)
    for event in (ToolCalled("c1", "look"), ToolReturned("c1", (Text("it"),)), assistant("so"), user("and")):
        assert await chat.messages() == await chat.messages()
        await chat.record(event)
    assert await chat.messages() == await anew(chat)
    assert len(made) == 2  # the first one, and the one to compare with


@pytest.mark.parametrize("event", [Compacted(1, 2, 2, "so"), Rewound(2)], ids=("compacted", "rewound"))
async def test_what_takes_something_out_of_sight_makes_a_new_one(
    store: Store, monkeypatch: pytest.MonkeyPatch, event: Event
) -> None:
    chat = await store.chat("chat")
    await chat.record(user("one"), assistant("two"), user("three"))
    await chat.messages()
    await chat.record(event)
    made = built_once(monkeypatch)
    shown = await chat.messages()
    assert len(made) == 1
    assert shown == await anew(chat)


async def test_more_than_is_known_since_makes_a_new_one(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.user("first")
    await chat.messages()
    await chat.record(*(user(f"{number}") for number in range(3000)))
    assert len(await chat.messages()) == 3001


async def test_what_was_erased_is_in_no_prompt_that_is_kept(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.record(user("a secret"), assistant("oh"))
    assert "a secret" in str(await chat.messages())
    await store.log.redact(chat.key, 1)
    assert "a secret" not in str(await chat.messages())


async def test_a_moment_that_came_before_is_what_it_was(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.user("one")
    earlier = await chat.now()
    await chat.record(assistant("two"), Injected("user", "print", (Text("more"),)))
    later = await chat.messages()
    assert len(await earlier.messages()) == 1
    assert await chat.messages() == later
