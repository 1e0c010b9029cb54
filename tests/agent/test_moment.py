"""What can be read of a chat at one moment: its window, its shelf, what was ever said."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from chatfold.agent import Chat, Moment, NoSuchContext, Store
from chatfold.agent.views import KEEP, open_view
from chatfold.eventlog import ContextOpened, Event, Head, Log, MemoryStorage, RunFinished, RunStarted
from tests.support.histories import assistant, compacted, user


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with Store.memory() as store:
        yield await store.chat("chat")


async def told(chat: Chat, *events: Event) -> Moment:
    await chat.record(*events)
    return chat


LEXER = (user("why does the lexer drop newlines"), assistant("because of split"))


async def test_search_finds_what_is_archived_and_not_what_the_model_sees(chat: Chat) -> None:
    await told(chat, *LEXER, ContextOpened("docs", "docs build"), user("where is the lexer of the docs"))
    assert [hit.seq for hit in await chat.search("lexer")] == [1]
    assert sorted(hit.seq for hit in await chat.search("lexer", everything=True)) == [1, 4]


async def test_search_finds_what_a_compaction_hid(chat: Chat) -> None:
    await told(chat, *LEXER, compacted(1, 2, "a talk"), user("and now"))
    assert [hit.seq for hit in await chat.search("newlines")] == [1]


async def test_search_at_an_earlier_moment_finds_nothing_that_came_later(chat: Chat) -> None:
    await told(chat, *LEXER, ContextOpened("docs"), user("newlines again"), ContextOpened("more"))
    past = await chat.at(3)
    assert [hit.seq for hit in await past.search("newlines")] == [1]


async def test_a_context_is_found_by_its_title_first_and_then_by_anything_said_in_it(chat: Chat) -> None:
    await told(chat, *LEXER, ContextOpened("docs", "the lexer manual"), user("pages"), assistant("部署脚本"))
    await told(chat, ContextOpened("here", "lexer now"), user("lexer lexer lexer"))
    assert await chat.find_context("lexer") == "docs"
    assert await chat.find_context("newlines") == "main"
    assert await chat.find_context("脚本") == "docs"
    with pytest.raises(NoSuchContext, match="no archived context matches 'nobody'"):
        await chat.find_context("nobody")


async def test_the_shelf_is_listed_with_previews_last_left_first(chat: Chat) -> None:
    await told(chat, *LEXER, ContextOpened("docs", "docs build", "another topic"), user("pages"))
    await told(chat, assistant("with make"), ContextOpened("more"))
    rows = await chat.contexts()
    assert [(row.context_id, row.title, row.summary_preview) for row in rows] == [
        ("docs", "docs build", "with make"),
        ("main", "why does the lexer drop newlines", "because of split"),
    ]
    assert [row.context_id for row in await chat.contexts(limit=1)] == ["docs"]


async def test_an_archived_context_can_be_looked_at_without_taking_it_up(chat: Chat) -> None:
    await told(chat, *LEXER, ContextOpened("docs"))
    assert [message.role for message in await chat.messages(context="main")] == ["user", "assistant"]
    assert await chat.messages("openai") == []
    with pytest.raises(NoSuchContext):
        await chat.messages(context="elsewhere")


async def test_messages_come_in_every_shape_and_an_unknown_one_is_named(chat: Chat) -> None:
    await told(chat, *LEXER)
    assert (await chat.messages("openai"))[0] == {
        "role": "user",
        "content": "why does the lexer drop newlines",
    }
    assert len((await chat.messages("anthropic", model="m"))["messages"]) == 2
    assert len(await chat.messages("openai-responses", most=1)) == 1
    with pytest.raises(ValueError, match="no such shape: 'xml'; there are: neutral, openai"):
        await chat.messages("xml")  # type: ignore[call-overload]


async def test_runs_are_told_in_a_few_words(chat: Chat) -> None:
    await chat.user("what is up")
    for event in (RunStarted(), assistant("the sky"), RunFinished("done")):
        await chat.record(event, run="r1")
    [run] = await chat.runs()
    assert (run.request_id, run.user_preview, run.output_preview, run.outcome) == (
        "r1",
        "what is up",
        "the sky",
        "done",
    )


class SlowlyKept(MemoryStorage):
    """Takes as long to keep a snapshot as the test likes."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def store_snapshot(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        self.asked.set()
        await self.may.wait()
        await super().store_snapshot(chat, head, data, erasures)


async def test_taking_a_snapshot_never_delays_opening() -> None:
    storage = SlowlyKept()
    await Log(storage).append("chat", *(user(f"question {number}") for number in range(100)))
    async with Store(storage) as store:
        chat = await store.chat("chat")
        assert chat.seq == 100
        assert len(await chat.messages()) == 100
        await storage.asked.wait()
        storage.may.set()
    assert (await anext(storage.load_snapshots("chat")))[0] == await chat.log.head("chat")


async def test_a_snapshot_of_what_was_erased_meanwhile_is_not_kept() -> None:
    storage = SlowlyKept()
    log = Log(storage)
    titled = ContextOpened("c", "a title")
    await log.append("chat", *(user(f"question {number}") for number in range(100)), titled)
    async with Store(storage) as store:
        await store.chat("chat")
        await storage.asked.wait()
        await log.redact("chat", 101)
        storage.may.set()
    assert not any([b"a title" in data async for _, data in storage.load_snapshots("chat")])


async def test_a_storage_that_keeps_nothing_is_not_asked_to() -> None:
    storage = SlowlyKept()
    await Log(storage).append("chat", *(user(f"question {number}") for number in range(100)))
    storage.read_only = True
    assert (await open_view(Log(storage), "chat")).view.seq == 100
    assert not storage.asked.is_set()


async def test_taking_a_snapshot_never_delays_an_append() -> None:
    storage = SlowlyKept()
    async with Store(storage) as store:
        chat = await store.chat("chat")
        for number in range(3 * KEEP):
            await chat.user(f"question {number}")
        await storage.asked.wait()
        assert chat.seq == 3 * KEEP
        storage.may.set()
    head, _ = await anext(storage.load_snapshots("chat"))
    assert head.seq >= KEEP
    assert (await open_view(Log(storage), "chat")).view.states == chat.view.states


async def test_a_time_is_that_of_recording_unless_told_otherwise(chat: Chat) -> None:
    spoken = datetime(2020, 1, 1, tzinfo=UTC)
    await chat.user("long ago", said_at=spoken)
    await chat.assistant("as long", said_at=spoken + timedelta(hours=1))
    later = spoken + timedelta(minutes=30)
    assert (await chat.at(later)).seq == 0
    assert (await chat.at(later, as_said=True)).seq == 1
    assert (await chat.at(datetime.now(UTC) + timedelta(days=1))).seq == 2
