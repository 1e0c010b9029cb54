"""The chats that change, one after the other. What PostgreSQL promises beyond that is in ``tests/postgres``."""

import asyncio
from contextlib import aclosing

from chatfold.agent import Store
from chatfold.eventlog import Log, Noted
from tests.support.storages import Opener, everywhere


@everywhere
async def test_every_chat_that_changes_is_told(storages: Opener) -> None:
    async with Log(storages()) as log, asyncio.timeout(20):
        await log.append("a", Noted("one"))
        await log.append("b", Noted("one"))
        told: list[str] = []
        async with aclosing(log.follow_chats()) as changes:
            while {*told} != {"a", "b"}:
                told.append((await anext(changes)).key)
            await log.append("c", Noted("one"))
            while told[-1] != "c":
                told.append((await anext(changes)).key)


async def test_a_store_goes_on_from_a_mark() -> None:
    async with Store.memory() as store, asyncio.timeout(20):
        await (await store.chat("a")).user("hi")
        await (await store.chat("b")).user("hi")
        async with aclosing(store.follow()) as changes:
            first, second = await anext(changes), await anext(changes)
        assert [first.key, second.key] == ["a", "b"]
        async with aclosing(store.follow(first.mark)) as changes:
            assert "b" in [(await anext(changes)).key, (await anext(changes)).key]
        await (await store.chat("a")).user("again")
        async with aclosing(store.follow(second.mark)) as changes:
            assert (await anext(changes)).key == "a"
