"""Stories of how chats are listed: by prefix, by what has changed, with tokens and rows."""

import asyncio
from collections.abc import Awaitable, Callable

from chatfold.eventlog import Head, Log, Noted
from chatfold.eventlog.storage import ChatRow
from chatfold.testing.backend import Backend
from chatfold.testing.strategies import LONG_TEXTS
from chatfold.testing.telling import all_of, opened, said, story

Change = Callable[[], Awaitable[object]]


@story
async def chats_are_listed_by_prefix_and_by_what_has_changed(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        for key in ("a/1", "a/2", "b/1"):
            await log.append(key, Noted("one"))
        pages = [page async for page in other.storage.chats("a/")]
        assert sorted(row.key for page in pages for row in page.rows) == ["a/1", "a/2"]
        await log.append("a/2", Noted("two"))
        await log.redact("b/1", 1)
        changed = {
            row.key async for page in other.storage.chats(changed_since=pages[0].mark) for row in page.rows
        }
        assert {"a/2", "b/1"} <= changed <= {"a/1", "a/2", "b/1"}


@story
async def a_token_is_another_one_when_the_log_is(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", said(LONG_TEXTS[0]), Noted("two"))
        await log.append("other", Noted("one"))
        changes: tuple[Change, ...] = (
            lambda: log.append("chat", Noted("three")),
            lambda: other.append("chat", Noted("four")),
            lambda: log.storage.redact("chat", [1]),
            lambda: log.delete("chat"),
        )
        seen = [await _row(log, "chat")]
        untouched = await _row(log, "other")
        for change in changes:
            await change()
            if await log.head("chat") == Head():
                await log.append("chat", said(LONG_TEXTS[0]), Noted("two"))
            seen.append(await _row(log, "chat"))
            await all_of(other, "chat")
            assert (await _row(other, "chat")).token == seen[-1].token
        assert len({row.token for row in seen}) == len(seen)
        assert (await _row(other, "other")).token == untouched.token


@story
async def a_row_counts_until_the_log_changes(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", said(LONG_TEXTS[0]), Noted("two"))
        first = await _row(log, "chat")
        await log.storage.store_rows({"chat": (first.token, b"one"), "nobody's": (first.token, b"one")})
        stored = await _row(log, "chat")
        assert (stored.row, stored.row_token) in ((b"one", first.token), (b"", ""))  # it may keep none
        await other.append("chat", Noted("three"))
        second = await _row(log, "chat")
        assert second.row_token != second.token
        await log.storage.store_rows({"chat": (first.token, b"too late")})
        assert (await _row(log, "chat")).row_token != second.token
        await log.storage.store_rows({"chat": (second.token, b"two")})
        await other.storage.redact("chat", [1])
        third = await _row(other, "chat")
        assert third.row_token != third.token


async def _row(log: Log, chat: str) -> ChatRow:
    await asyncio.sleep(0.05)  # the moment after a change, in which a token may become another one
    [row] = [row async for page in log.storage.chats(chat) for row in page.rows if row.key == chat]
    return row
