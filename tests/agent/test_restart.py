"""What is there after a restart, in another store, or when the chat is not the one it was."""

import asyncio
from pathlib import Path

import pytest

from chatfold.agent import Policy, Store, assistant, user
from chatfold.eventlog import (
    ChatDeleted,
    ChatExists,
    Event,
    Injected,
    ModelCalled,
    ModelReturned,
    NoSuchChat,
    Text,
)
from chatfold.projections import contexts, skills, usage
from tests.support.chats import a_store, block, files, texts, turns  # noqa: F401
from tests.support.storages import Opener, lasting

EVENTS: tuple[Event, ...] = (
    user("why"),
    *block("c1"),
    ModelCalled("m", "r"),
    ModelReturned({"input_tokens": 7}),
    assistant("because"),
    Injected("user", "f", (Text("today is Monday"),)),
    user("and now?"),
)


@lasting
async def test_a_chat_opened_again_after_any_event_is_as_it_was(storages: Opener) -> None:
    for number, event in enumerate(EVENTS, 1):
        async with Store(storages()) as store:
            chat = await store.chat("chat")
            await chat.record(event)
            live, shown = chat.view, await chat.messages()
        async with Store(storages()) as store:
            chat = await store.chat("chat")
            assert (chat.seq, chat.view, await chat.messages()) == (number, live, shown)


@lasting
async def test_times_are_what_they_were_whatever_is_done_later(storages: Opener) -> None:
    async with Store(storages()) as store:
        chat = await store.chat("chat")
        await turns(chat, 5)
        times = [entry.ts async for entry in chat.entries()]
        await chat.compact(Policy(keep=2))
        await chat.new_context()
        await chat.load_context(context_id="main")
        await chat.rewind(4)
    async with Store(storages()) as store:
        assert [entry.ts async for entry in (await store.chat("chat")).entries(last=10)] == times
    assert len(set(times)) == 5  # one an append


@lasting
async def test_skills_ids_and_counters_are_restored(storages: Opener) -> None:
    async with Store(storages()) as store:
        chat = await store.chat("chat")
        await chat.activate_skill("pptx", "how to make slides")
        await chat.activate_skill("pdf")
        await chat.deactivate_skill("pdf")
        await chat.user("hi", id="tg-1")
        await chat.record(ModelCalled("m", "r"), ModelReturned({"input_tokens": 7, "output_tokens": 3}))
        there = await chat.new_context("there")
        await chat.checkpoint("here")
    async with Store(storages()) as store:
        chat = await store.chat("chat")
        assert list(chat[skills].active) == ["pptx"]
        assert (chat[usage].tokens, chat[contexts].active.id) == (10, there)
        assert (await chat.user("hi", id="tg-1")).seq == 4
        assert (await chat.at("here")).seq == chat.seq == 8
        assert await chat.new_context() not in (there, "main")


# --- in another store ------------------------------------------------------------------------------------


@lasting
async def test_a_chat_in_memory_gets_a_place_on_disk_with_everything_once(storages: Opener) -> None:
    scratch = await Store.memory().chat("scratch")
    await scratch.user("hi", id="tg-1")
    await turns(scratch, 60)
    await scratch.activate_skill("pptx", "how to make slides")
    await scratch.compact(Policy(keep=4))
    await scratch.new_context("docs")
    await scratch.user("kept?")
    before = [entry async for entry in scratch.entries()]
    async with Store(storages()) as store:
        kept = await store.import_chat(scratch, "kept")
        assert [entry async for entry in kept.entries()] == before
        assert (kept.view.fingerprint, await kept.messages()) == (
            scratch.view.fingerprint,
            await scratch.messages(),
        )
        with pytest.raises(ChatExists):
            await store.import_chat(scratch, "kept")
        await kept.assistant("yes")
    async with Store(storages()) as store:
        kept = await store.chat("kept")
        assert await texts(kept) == ["kept?", "yes"]
        assert (await kept.user("hi", id="tg-1")).seq == 1
        assert list(kept[skills].active) == ["pptx"]
        assert kept.seq == len(before) + 1
    assert await texts(scratch) == ["kept?"]


@lasting
async def test_a_chat_without_an_event_cannot_be_imported_and_leaves_nothing(storages: Opener) -> None:
    nothing = await Store.memory().chat("nothing")
    async with Store(storages()) as store:
        with pytest.raises(NoSuchChat):
            await store.import_chat(nothing, "kept")
        assert [listed.key async for listed in store.chats()] == []


# --- when it is gone -------------------------------------------------------------------------------------


async def test_a_chat_deleted_under_me_says_so(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.user("hi")
    await store.delete("chat")
    with pytest.raises(ChatDeleted):
        await chat.refresh()
    with pytest.raises(ChatDeleted):
        await chat.messages()


@pytest.mark.parametrize("length", [1, 2])
async def test_nothing_is_written_to_a_chat_that_took_the_place_of_mine(store: Store, length: int) -> None:
    mine = await store.chat("chat")
    await mine.record(user("hi"))
    await store.delete("chat")
    theirs = await store.chat("chat")
    for number in range(length):
        await theirs.user(f"another {number}")
    with pytest.raises(ChatDeleted):
        await mine.messages()
    with pytest.raises(ChatDeleted):
        await mine.user("to the old one")
    assert "to the old one" not in await texts(theirs)


async def test_what_was_redacted_is_not_shown_any_more(store: Store) -> None:
    chat, other = await store.chat("chat"), await store.chat("chat")
    await chat.record(user("the secret"), assistant("noted"))
    assert await texts(other) == ["the secret", "noted"]
    assert await chat.redact(1) == {"chat": [1]}
    assert await texts(chat) == await texts(other) == ["[redacted]", "noted"]


async def test_a_snapshot_for_later_does_not_mind_that_the_chat_is_gone(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 127)
    await chat.record(user("the last one"), assistant("deleted before its snapshot is taken"))
    await store.delete("chat")
    await asyncio.gather(*store._later)
    assert [head async for head, _ in store.log.storage.load_snapshots("chat")] == []


async def test_a_list_of_chats_shows_titles_counts_and_activity(store: Store) -> None:
    for key in ("one", "two"):
        chat = await store.chat(key)
        await chat.user(f"title of {key}")
    listed = [(chat.key, chat.outline.title, chat.outline.messages) async for chat in store.chats()]
    assert listed == [("one", "title of one", 1), ("two", "title of two", 1)]


async def test_what_is_said_in_one_chat_or_store_is_not_in_another(store: Store, tmp_path: Path) -> None:
    private, topic = "telegram-chat-42", "telegram-chat-42-topic-7"
    await (await store.chat(private)).user("in private")
    await (await store.chat(topic)).user("in the topic")
    assert await texts(await store.chat(private)) == ["in private"]
    async with files(tmp_path / "elsewhere") as other:
        assert await texts(await other.chat(private)) == []
