"""What stories are told with: two storages of one place, and something that happens amid an append."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from chatfold.eventlog import ChatfoldError, Entry, Head, Log, MessageAdded, Text
from chatfold.testing.backend import Backend

Story = Callable[[Backend], Awaitable[None]]

STORIES: dict[str, Story] = {}


def story(function: Story) -> Story:
    STORIES[function.__name__] = function
    return function


@asynccontextmanager
async def opened(backend: Backend) -> AsyncIterator[Log]:
    async with Log(backend.open(lambda: 1)) as log:
        yield log


def said(text: str) -> MessageAdded:
    return MessageAdded("user", (Text(text),))


async def all_of(log: Log, chat: str) -> list[Entry]:
    return [entry async for entry in log.read(chat)]


async def refused(kind: type[Exception], work: Awaitable[object]) -> None:
    try:
        outcome = await work
    except kind:
        return
    raise AssertionError(f"{outcome!r} instead of {kind.__name__}")


async def amid(
    backend: Backend,
    log: Log,
    append: Callable[[], Awaitable[list[Entry]]],
    work: Callable[[], Awaitable[object]],
) -> list[Entry] | Exception:
    """What the append gives if ``work``, of another storage, happens between its numbering and its writing.

    Where that cannot be arranged, because a lock holds the two together, they are raced.
    """
    if backend.can_interrupt:
        backend.interrupt(log.storage, work)
        outcome = (await asyncio.gather(append(), return_exceptions=True))[0]
    else:
        outcome, other = await asyncio.gather(append(), work(), return_exceptions=True)
        assert not isinstance(other, BaseException), other
    assert not isinstance(outcome, BaseException) or isinstance(outcome, ChatfoldError), outcome
    return outcome


def is_whole(entries: list[Entry]) -> bool:
    """Are seqs dense, and is each entry linked to the one before?"""
    links = [Head().link, *(entry.was or entry.link for entry in entries)]
    return [(entry.seq, entry.prev) for entry in entries] == list(enumerate(links[:-1], 1))
