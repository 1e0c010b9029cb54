"""What a type checker must see of the front door: late names have their types. Checked in CI by mypy and pyright, never run."""

from typing import assert_type

import chatfold
from chatfold import Agent, Chat, Entry, Result, ScriptedModel, Store, events


async def keep() -> None:
    async with Store.memory() as store:
        chat = await store.chat("a")
        assert_type(chat, Chat)
        assert_type(await chat.user("hi"), Entry)
        await chat.record(events.Noted("rating", 5))
    _ = chatfold.Sotre  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def answer() -> None:
    async with Agent(model=ScriptedModel(["hello"])) as agent:
        assert_type(await agent.run("hi", chat="a"), Result)
