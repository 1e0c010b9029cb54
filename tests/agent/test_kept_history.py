"""The history that a chat gives, from chapters that are kept, missing, damaged, exchanged, or of what was erased."""

from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from chatfold import Chat, Store
from chatfold.agent import kept_history, views
from chatfold.eventlog import ChatStarted, ContextOpened, Event
from chatfold.projections import history as module
from chatfold.projections.history import History, of_entries
from tests.support.histories import assistant, compacted, user

CHAPTER, KEPT = 16, 4
COUNT = 75


@pytest.fixture(autouse=True)
def short_chapters(monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (module, kept_history, views):
        monkeypatch.setattr(where, "CHAPTER", CHAPTER)
    for where in (kept_history, views):
        monkeypatch.setattr(where, "KEEP", KEPT)


def talk(seed: int, count: int) -> list[Event]:
    random = Random(seed)
    some: list[Event] = [
        user(f"{seed}?"),
        assistant("so"),
        ContextOpened("a", f"topic {seed}"),
        compacted(1, 2),
    ]
    return [random.choice(some) for _ in range(count)]


async def told(store: Store, key: str, seed: int, count: int = COUNT) -> Chat:
    chat = await store.chat(key)
    await chat.record(ChatStarted(key), *talk(seed, count - 1))
    await chat.history()  # and so they are kept
    return chat


async def meant(chat: Chat) -> History:
    return of_entries([entry async for entry in chat.entries()])


async def read_anew(root: Path, key: str = "chat") -> History:
    async with Store(root) as store:
        chat = await store.chat(key)
        history = await chat.history()
        assert history.chapters == (await meant(chat)).chapters
        return history


def chapters(root: Path, key: str = "chat") -> list[Path]:
    return sorted((root / "chats" / key / "cache").glob("*.chapter"))


async def test_chapters_that_are_kept_need_no_log(tmp_path: Path) -> None:
    async with Store(tmp_path) as store:
        await told(store, "chat", 1)
    assert [int(path.stem) for path in chapters(tmp_path)] == list(range(1, COUNT, CHAPTER))
    async with Store(tmp_path) as store:
        chat = await store.chat("chat")
        with patch.object(store.log, "pages", side_effect=AssertionError("the log was read")):
            assert (await chat.history()).seq == COUNT


async def test_a_chat_that_grows_keeps_its_chapters(tmp_path: Path) -> None:
    async with Store(tmp_path) as store:
        chat = await store.chat("chat")
        with patch("chatfold.agent.live.KEEP", KEPT), patch("chatfold.agent.live.PAUSE_S", 0):
            for event in talk(1, COUNT):
                await chat.record(event)
    assert len(chapters(tmp_path)) >= COUNT // CHAPTER
    await read_anew(tmp_path)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("how", ["gone", "damaged", "short"])
async def test_a_chapter_that_is_not_there_is_made_again(tmp_path: Path, number: int, how: str) -> None:
    async with Store(tmp_path) as store:
        await told(store, "chat", 1)
    path = chapters(tmp_path)[number]
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if how == "short" else data[:-9] + b"\0" + data[-8:])
    await read_anew(tmp_path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("number", range(5))
async def test_a_chapter_of_another_chat_is_not_believed(tmp_path: Path, number: int) -> None:
    async with Store(tmp_path) as store:
        await told(store, "chat", 1)
        await told(store, "other", 2)
    chapters(tmp_path)[number].write_bytes(chapters(tmp_path, "other")[number].read_bytes())
    await read_anew(tmp_path)


async def test_chapters_of_before_a_chat_went_on_are_gone_on_with(tmp_path: Path) -> None:
    async with Store(tmp_path) as store:
        await told(store, "chat", 1)
        for number in range(3):
            await (await store.chat("chat")).record(*talk(number, 11))
            await read_anew(tmp_path)


async def test_any_earlier_moment_has_the_history_up_to_there(tmp_path: Path) -> None:
    async with Store(tmp_path) as store:
        chat = await told(store, "chat", 1)
        whole = await meant(chat)
        for fresh in (False, True):
            for at in (0, 1, CHAPTER - 1, CHAPTER, CHAPTER + 1, COUNT - 1, COUNT):
                moment = await chat.at(at)
                if fresh:
                    moment.kept_history = kept_history.KeptHistory()
                assert (await moment.history()).chapters == whole.until(at).chapters


async def test_a_fork_goes_on_with_the_chapters_of_its_parent(tmp_path: Path) -> None:
    async with Store(tmp_path) as store:
        await told(store, "chat", 1)
        await store.log.fork("chat", "fork", 40)
        shared = zip(chapters(tmp_path)[:2], chapters(tmp_path, "fork"), strict=True)
        assert [one.samefile(other) for one, other in shared] == [True, True]
        await (await store.chat("fork")).record(*talk(3, 20))
    await read_anew(tmp_path, "fork")
    await read_anew(tmp_path)


async def test_what_was_erased_is_in_no_chapter(tmp_path: Path) -> None:
    async with Store(tmp_path) as store:
        chat = await store.chat("chat")
        [entry] = await chat.record(ContextOpened("b", "a secret title"))
        await chat.record(*talk(1, COUNT))
        await chat.history()
        await chat.redact(entry.seq)
        assert "secret" not in str((await chat.history()).chapters)
    await read_anew(tmp_path)
    assert not any(b"secret" in path.read_bytes() for path in chapters(tmp_path))
