"""What may happen while a summary is being made, by others or in another process; and that nothing is ever lost by it."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chatfold.agent import Chat, Policy, Store, assistant, user
from chatfold.agent.summary import Material
from chatfold.eventlog import Compacted, Text, ToolReturned
from tests.support.chats import a_chat, a_store, block, files, finished, started, texts, told, turns  # noqa: F401
from tests.support.storages import Opener, lasting

KEEP_2 = Policy(keep=2)


async def summaries(chat: Chat) -> list[Compacted]:
    return [entry.event async for entry in chat.entries() if isinstance(entry.event, Compacted)]


async def test_messages_that_arrive_while_the_summary_is_made_are_not_in_it_and_stay(store: Store) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await turns(one, 10)

    async def slow(material: Material) -> str:
        await other.user("just arrived")
        return told(material)

    [done] = await one.compact(KEEP_2, summarise=slow)
    assert (await texts(one))[1:] == ["question 9", "answer 9", "just arrived"]
    assert isinstance(done.event, Compacted)
    assert (done.event.first, done.event.last, done.event.count) == (1, 18, 18)


async def test_a_result_that_arrives_while_the_summary_is_made_is_shown_with_its_call(store: Store) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await turns(one, 10)
    await one.user("look")
    call = await one.tool_call("read")

    async def slow(material: Material) -> str:
        await other.record(call.result("found it"))
        return told(material)

    assert len(await one.compact(KEEP_2, summarise=slow)) == 1
    assert (await texts(one))[1:] == ["look", "…", "found it"]


MEANWHILE: dict[str, Callable[[Chat], Awaitable[object]]] = {
    "compacted": lambda chat: chat.compact(KEEP_2, summarise=told),
    "compacted otherwise": lambda chat: chat.compact(Policy(keep=6), summarise=told),
    "switched": lambda chat: chat.new_context("another"),
    "cleared": lambda chat: chat.clear_context(),
    "rewound": lambda chat: chat.rewind(4),
    "a range by hand": lambda chat: chat.record(Compacted(3, 4, 2, "by hand")),
}


@pytest.mark.parametrize("what", MEANWHILE)
async def test_what_is_no_longer_as_it_was_is_not_compacted(store: Store, what: str) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await turns(one, 10)
    after: list[list[str]] = []

    async def slow(material: Material) -> str:
        await MEANWHILE[what](other)
        after.append(await texts(other))
        return "of something that is no longer there"

    assert await one.compact(KEEP_2, summarise=slow) == []
    assert [await texts(one)] == after
    assert "of something that is no longer there" not in [event.summary for event in await summaries(one)]


async def test_going_to_another_context_and_back_is_no_reason_to_give_up(store: Store) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await turns(one, 10)

    async def slow(material: Material) -> str:
        await other.new_context()
        await other.record(user("elsewhere"), assistant("yes"))
        await other.load_context(context_id="main")
        return told(material)

    assert len(await one.compact(KEEP_2, summarise=slow)) == 1
    assert (await texts(one))[1:] == ["question 9", "answer 9"]


async def test_of_many_that_compact_one_chat_at_once_one_does(store: Store) -> None:
    chats = [await store.chat("chat") for _ in range(4)]
    await turns(chats[0], 10)
    asked = asyncio.Barrier(8)

    async def together(material: Material) -> str:
        await asked.wait()
        return told(material)

    done = await asyncio.gather(*(chat.compact(KEEP_2, summarise=together) for chat in chats * 2))
    assert sorted(map(len, done)) == [0] * 7 + [1]
    assert len(await summaries(chats[0])) == 1


@lasting
async def test_of_two_stores_of_one_folder_that_compact_at_once_one_does(storages: Opener) -> None:
    async with Store(storages()) as here, Store(storages()) as there:
        chats = [await here.chat("chat"), await there.chat("chat")]
        await turns(chats[0], 10)
        asked = asyncio.Barrier(2)

        async def together(material: Material) -> str:
            await asked.wait()
            return told(material)

        done = await asyncio.gather(*(chat.compact(KEEP_2, summarise=together) for chat in chats))
        assert sorted(map(len, done)) == [0, 1]
        assert await texts(chats[0]) == await texts(chats[1])
        assert len(await summaries(chats[0])) == 1


COMPACTING = """
import asyncio, sys, time
from pathlib import Path
from chatfold.agent import Policy, Store

root, mine, other = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])

def together(material):
    mine.touch()
    while not other.exists():
        time.sleep(0.001)
    return f"by {mine.name}"

async def main():
    async with Store(root) as store:
        chat = await store.chat("chat")
        print(len(await chat.compact(Policy(keep=2), summarise=together)))

asyncio.run(main())
"""


async def test_of_two_processes_that_compact_at_once_one_does(root: Path, tmp_path: Path) -> None:
    async with Store(root) as store:
        chat = await store.chat("chat")
        await turns(chat, 10)
        names = [tmp_path / "one", tmp_path / "other"]
        both = [started(COMPACTING, root, *order) for order in (names, names[::-1])]
        told_by = [await asyncio.to_thread(finished, process) for process in both]
        assert sorted(told_by) == ["0\n", "1\n"]
        assert len(await summaries(chat)) == 1
        assert (await texts(chat))[1:] == ["question 9", "answer 9"]


# --- nothing is lost -------------------------------------------------------------------------------------


async def test_a_compaction_can_be_reverted_and_its_originals_are_found(chat: Chat) -> None:
    await turns(chat, 5)
    before = [entry async for entry in chat.entries()]
    [entry] = await chat.compact(KEEP_2)
    assert [found async for found in chat.entries(last=10)] == before
    assert [hit.seq for hit in await chat.search('"question 1"')] == [3]
    [original] = [found async for found in chat.entries(3, 3)]
    assert original.event == user("question 1")
    await chat.revert_compaction(entry.seq, "asked to")
    assert len(await texts(chat)) == 10
    assert await chat.revert_compaction(entry.seq) == []


async def test_reverting_what_is_no_compaction_writes_nothing(chat: Chat) -> None:
    await turns(chat, 5)
    for seq in (0, 3, 99):
        assert await chat.revert_compaction(seq) == []
    assert chat.seq == 10


async def test_the_same_range_twice_shows_one_summary(chat: Chat) -> None:
    await turns(chat, 5)
    await chat.record(Compacted(1, 4, 4, "first"))
    await chat.record(Compacted(1, 4, 4, "second"))
    assert len(await texts(chat)) == 7


async def test_ranges_that_overlap_hide_both_and_lose_neither_summary(chat: Chat) -> None:
    await turns(chat, 5)
    await chat.record(Compacted(1, 4, 4, "one"))
    await chat.record(Compacted(3, 6, 4, "other"))
    assert [text.rpartition("\n")[2] for text in (await texts(chat))[:2]] == ["one", "other"]
    [done] = await chat.compact(KEEP_2, summarise=told)
    assert "'one\\nother'" in (await texts(chat))[0]
    await chat.revert_compaction(done.seq)
    assert len(await texts(chat)) == 6


async def test_a_compacted_chat_is_the_same_when_it_is_opened_without_any_cache(root: Path) -> None:
    async with files(root) as store:
        chat = await store.chat("chat")
        for _ in range(4):
            await turns(chat, 40)
            await chat.record(*block("c1"), ToolReturned("c2", (Text("of nobody"),)))
            await chat.compact(Policy(keep=5))
        live, shown = chat.view, await chat.messages()
    for cache in root.glob("chats/*/cache"):  # noqa: ASYNC240
        shutil.rmtree(cache)
    async with files(root) as store:
        chat = await store.chat("chat")
        assert (chat.view, await chat.messages()) == (live, shown)
