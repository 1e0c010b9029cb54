"""Following: what was, then what comes; and what is left behind when nobody follows any more."""

import asyncio
import threading
from pathlib import Path

import pytest

from chatfold.eventlog import Entry, FileStorage, Log, MemoryStorage, Noted
from chatfold.eventlog.files import notify


async def _collect(log: Log, chat: str, count: int, after: int = 0) -> list[Entry]:
    found: list[Entry] = []
    async for entry in log.follow(chat, after=after):
        found.append(entry)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("storage", ["memory", "files"])
async def test_a_follower_sees_what_was_and_then_what_comes(storage: str, root: Path) -> None:
    async with Log(MemoryStorage() if storage == "memory" else FileStorage(root)) as log:
        await log.append("chat", Noted("before"))
        follower = asyncio.create_task(_collect(log, "chat", 3))
        await asyncio.sleep(0.05)
        await log.append("chat", Noted("now"), Noted("and now"))
        async with asyncio.timeout(60):
            assert [entry.seq for entry in await follower] == [1, 2, 3]


@pytest.mark.parametrize("storage", ["memory", "files"])
async def test_a_follower_may_come_before_the_chat(storage: str, root: Path) -> None:
    async with Log(MemoryStorage() if storage == "memory" else FileStorage(root)) as log:
        follower = asyncio.create_task(_collect(log, "chat", 1))
        await asyncio.sleep(0.05)
        await log.append("chat", Noted("first"))
        async with asyncio.timeout(60):
            assert [entry.seq for entry in await follower] == [1]


async def test_a_follower_does_not_depend_on_hints(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inotify that says nothing: the poll finds what another storage appended."""
    monkeypatch.setattr(notify.Watch, "_run", _says_nothing)
    async with Log(FileStorage(root)) as log, Log(FileStorage(root)) as other:
        await log.append("chat", Noted("before"))
        follower = asyncio.create_task(_collect(log, "chat", 2))
        await asyncio.sleep(0.05)
        await other.append("chat", Noted("now"))
        async with asyncio.timeout(20):
            assert [entry.seq for entry in await follower] == [1, 2]


async def _says_nothing(_: notify.Watch) -> None:
    pass


async def test_watches_that_nobody_uses_are_closed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "_IDLE_S", 0)
    async with Log(FileStorage(root)) as log:
        for number in range(12):
            await log.append(f"chat {number}", Noted("before"))
            follower = asyncio.create_task(_collect(log, f"chat {number}", 2))
            await asyncio.sleep(0.03)
            await log.append(f"chat {number}", Noted("now"))
            await follower
        assert len(log.storage._watches) == 1  # type: ignore[attr-defined]
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("chatfold")]


async def test_who_follows_a_chat_for_long_remembers_no_more_of_it_than_who_has_just_come(root: Path) -> None:
    storage = FileStorage(root, durability="off")
    async with Log(storage) as log, FileStorage(root, read_only=True) as reader:
        for number in range(600):
            await log.append("chat", Noted(f"{number}"))
            assert (await reader.head("chat")).seq == number + 1
        held = [reader._readers["chat"], storage._queue.chats.get("chat").writer.reader]
        assert max(len(folder._paths) for folder in held) == 1
