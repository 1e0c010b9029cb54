"""The chats that change, one after the other, in files and in memory. PostgreSQL has its own in ``tests/postgres``."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from chatfold.agent import Store
from chatfold.eventlog import FileStorage, Log, MemoryStorage, Noted


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_every_chat_that_changes_is_told(root: Path, kind: str) -> None:
    storage = FileStorage(root) if kind == "files" else MemoryStorage()
    async with Log(storage) as log, asyncio.timeout(20):
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
