"""Stories: short histories that break storages, each a plain function of a ``Backend``."""

import asyncio
import unittest
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from chatfold.eventlog import ChatDeleted, Entry, Log, MessageAdded, Noted, Text
from chatfold.testing.backend import Backend
from chatfold.testing.strategies import LONG_TEXTS

Story = Callable[[Backend], Awaitable[None]]

STORIES: dict[str, Story] = {}


def story(function: Story) -> Story:
    STORIES[function.__name__] = function
    return function


def stories(backend: type[Backend]) -> Any:
    """A test case with one test for each story, each on a new place."""
    tests = {f"test_{name}": _test_of(backend, function) for name, function in STORIES.items()}
    return type("Stories", (unittest.TestCase,), tests)


def _test_of(backend: type[Backend], function: Story) -> Callable[[unittest.TestCase], None]:
    def test(_: unittest.TestCase) -> None:
        place = backend()
        try:
            asyncio.run(asyncio.wait_for(function(place), 20))
        finally:
            place.remove()

    test.__doc__ = function.__doc__
    return test


@asynccontextmanager
async def opened(backend: Backend) -> AsyncIterator[Log]:
    async with Log(backend.open(lambda: 1)) as log:
        yield log


def said(text: str) -> MessageAdded:
    return MessageAdded("user", (Text(text),))


async def all_of(log: Log, chat: str) -> list[Entry]:
    return [entry async for entry in log.read(chat)]


@story
async def what_a_fork_shares_stays_when_its_origin_is_deleted(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("origin", said(LONG_TEXTS[0]), Noted("two"), Noted("three"))
        await log.fork("origin", "fork", 2)
        await log.fork("fork", "fork of the fork", 3)
        before = [await all_of(log, chat) for chat in ("fork", "fork of the fork")]
        await log.delete("origin")
        for reader in (log, other):
            assert [await all_of(reader, chat) for chat in ("fork", "fork of the fork")] == before
            assert await all_of(reader, "origin") == []


@story
async def a_follower_of_a_deleted_chat_hears_of_it(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", Noted("one"), Noted("two"))
        for reader in (log, other):
            follower = reader.follow("chat")
            assert [(await anext(follower)).seq for _ in range(2)] == [1, 2]
            waiting = asyncio.ensure_future(anext(follower))
            await other.head("chat")  # the follower waits by now, or will find the chat gone
            await log.delete("chat")
            await refused(ChatDeleted, waiting)
            await log.append("chat", Noted("one"), Noted("two"))


async def refused(kind: type[Exception], work: Awaitable[object]) -> None:
    try:
        outcome = await work
    except kind:
        return
    raise AssertionError(f"{outcome!r} instead of {kind.__name__}")
