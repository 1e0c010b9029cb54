"""Following: what was, then what comes; and what is left behind when nobody follows any more."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread
import pytest

from chatfold.eventlog import ChatDeleted, Entry, FileStorage, Log, Noted
from chatfold.eventlog.files import notify, reading
from tests.support.storages import Opener, everywhere


async def _collect(log: Log, chat: str, count: int, after: int = 0) -> list[Entry]:
    found: list[Entry] = []
    async for entry in log.follow(chat, after=after):
        found.append(entry)
        if len(found) == count:
            break
    return found


@everywhere
async def test_a_follower_sees_what_was_and_then_what_comes(storages: Opener) -> None:
    async with Log(storages()) as log:
        await log.append("chat", Noted("before"))
        follower = asyncio.create_task(_collect(log, "chat", 3))
        await asyncio.sleep(0.05)
        await log.append("chat", Noted("now"), Noted("and now"))
        async with asyncio.timeout(60):
            assert [entry.seq for entry in await follower] == [1, 2, 3]


@everywhere
async def test_a_follower_may_come_before_the_chat(storages: Opener) -> None:
    async with Log(storages()) as log:
        follower = asyncio.create_task(_collect(log, "chat", 1))
        await asyncio.sleep(0.05)
        await log.append("chat", Noted("first"))
        async with asyncio.timeout(60):
            assert [entry.seq for entry in await follower] == [1]


async def test_a_follower_does_not_depend_on_hints(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inotify that says nothing: the poll finds what another storage appended."""
    monkeypatch.setattr(notify.Notifier, "_run", _says_nothing)
    async with Log(FileStorage(root)) as log, Log(FileStorage(root)) as other:
        await log.append("chat", Noted("before"))
        follower = asyncio.create_task(_collect(log, "chat", 2))
        await asyncio.sleep(0.05)
        await other.append("chat", Noted("now"))
        async with asyncio.timeout(20):
            assert [entry.seq for entry in await follower] == [1, 2]


def _says_nothing(_: notify.Notifier) -> None:
    pass


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (threads set no event of a loop)
            await asyncio.sleep(0.01)


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _threads() -> int:
    """Also those that Python does not know of; not those of the loop, which it starts when it likes."""
    of_the_loop = sum(thread.name.startswith("asyncio") for thread in threading.enumerate())
    return sum(1 for _ in Path("/proc/self/task").iterdir()) - of_the_loop


def _notifiers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "chatfold-notify"]


async def _followed(log: Log, count: int) -> "list[asyncio.Task[list[Entry]]]":
    """Followers that have read what there is in their chats, and wait."""
    for number in range(count):
        await log.append(f"chat {number}", Noted("before"), durability="off")
    followers = [asyncio.create_task(_collect(log, f"chat {number}", 2)) for number in range(count)]
    notifier = log.storage._notifier  # type: ignore[attr-defined]
    await _until(lambda: len(notifier._watched) == count)
    return followers


async def _follow_and_cancel(reader: Log, numbers: range) -> None:
    followers = [asyncio.create_task(_collect(reader, f"chat {number}", 2)) for number in numbers]
    await _until(lambda: len(reader.storage._notifier._watched) == len(numbers))  # type: ignore[attr-defined]
    assert len(_notifiers()) == 1
    for follower in followers:
        follower.cancel()
    await asyncio.wait(followers)
    await _until(lambda: _notifiers() == [])


async def test_all_followers_of_a_storage_have_one_watch_and_it_ends_with_them(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        for number in range(200):
            await log.append(f"chat {number}", Noted("before"), durability="off")
    async with Log(FileStorage(root, read_only=True)) as reader:
        await _follow_and_cancel(reader, range(100))  # the loop has its own threads from now on
        threads, descriptors = _threads(), _descriptors()
        await _follow_and_cancel(reader, range(100, 200))
        await _until(lambda: _threads() <= threads and _descriptors() <= descriptors)


async def test_a_follower_that_is_cancelled_and_woken_at_once_ends() -> None:
    notifier = notify.Notifier()
    with notifier.following("chat", Path("nowhere")) as news:
        waiting = asyncio.create_task(news.wait(3600))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        news.wake()
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()
    notifier.close()


async def test_followers_leave_the_threads_of_anyio_to_others(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        followers = await _followed(log, 45)
        limiter = anyio.to_thread.current_default_thread_limiter()
        assert limiter.borrowed_tokens == 0
        assert await anyio.to_thread.run_sync(lambda: "at once") == "at once"
        for number in range(45):
            await log.append(f"chat {number}", Noted("now"), durability="off")
        assert [len(entries) for entries in await asyncio.gather(*followers)] == [2] * 45


async def test_a_hint_of_the_system_wakes_a_follower(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the poll would find out in an hour."""
    monkeypatch.setattr(reading, "_POLL_S", 3600)
    monkeypatch.setattr(reading, "_POLL_MAX_S", 3600)
    async with Log(FileStorage(root)) as log, Log(FileStorage(root)) as other:
        [follower] = await _followed(log, 1)
        await other.append("chat 0", Noted("now"))
        async with asyncio.timeout(20):
            assert [entry.seq for entry in await follower] == [1, 2]


def test_an_append_wakes_the_followers_on_their_own_loops(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop in debug mode refuses what is done to it on a thread that is not its own."""
    monkeypatch.setattr(notify.Notifier, "_run", _says_nothing)
    monkeypatch.setattr(reading, "_POLL_S", 3600)
    monkeypatch.setattr(reading, "_POLL_MAX_S", 3600)
    log = Log(FileStorage(root))
    refused: list[object] = []
    found: list[int] = []
    waits = threading.Event()

    async def follow() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: refused.append(context))
        following = asyncio.create_task(_collect(log, "chat", 2))
        followed = log.storage._notifier.chats  # type: ignore[attr-defined]
        await _until(lambda: "chat" in followed and bool(followed["chat"].followers))
        waits.set()
        async with asyncio.timeout(20):
            found.extend(entry.seq for entry in await following)

    async def write() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: refused.append(context))
        await log.append("chat", Noted("before"))
        thread = threading.Thread(target=asyncio.run, args=(follow(),), kwargs={"debug": True})
        thread.start()
        await asyncio.to_thread(waits.wait, 20)
        await log.append("chat", Noted("now"))
        await asyncio.to_thread(thread.join, 30)
        await log.storage.close()

    asyncio.run(write(), debug=True)
    assert (found, refused) == ([1, 2], [])


async def test_a_chat_that_is_made_again_is_followed_again(root: Path) -> None:
    async with Log(FileStorage(root)) as log, Log(FileStorage(root)) as other:
        [follower] = await _followed(log, 1)
        await other.delete("chat 0")
        with pytest.raises(ChatDeleted):
            await asyncio.wait_for(follower, 20)
        with pytest.raises(ChatDeleted):  # a writer that knew the chat is told, once
            await log.append("chat 0", Noted("too late"))
        [follower] = await _followed(log, 1)
        await other.append("chat 0", Noted("now"))
        assert len(await asyncio.wait_for(follower, 20)) == 2


async def test_who_follows_a_chat_for_long_remembers_no_more_of_it_than_who_has_just_come(root: Path) -> None:
    storage = FileStorage(root, durability="off")
    async with Log(storage) as log, FileStorage(root, read_only=True) as reader:
        for number in range(600):
            await log.append("chat", Noted(f"{number}"))
            assert (await reader.head("chat")).seq == number + 1
        held = [reader._readers["chat"], storage._queue.chats.get("chat").writer.reader]
        assert max(len(folder._paths) for folder in held) == 1
