"""Recording and keeping up: what was said is there once, as it was said, for every process, and after a restart."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chatfold.agent import Chat, Store, assistant, user
from chatfold.agent.views import Opened, open_view
from chatfold.eventlog import (
    Conflict,
    Data,
    Entry,
    File,
    Head,
    IdConflict,
    InvalidEvent,
    MemoryStorage,
    Noted,
    Part,
    Reasoning,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
)
from tests.support.chats import a_chat, a_store, finished, roles, started, texts, turns  # noqa: F401
from tests.support.storages import Opener, lasting

# --- recording -------------------------------------------------------------------------------------------


async def test_a_chat_that_was_only_looked_at_leaves_nothing(store: Store) -> None:
    chat = await store.chat("nobody")
    assert (chat.seq, await chat.messages("openai")) == (0, [])
    assert [listed async for listed in store.chats()] == []


async def test_a_call_is_answered_together_with_what_follows_or_not_at_all(chat: Chat) -> None:
    await chat.user("why")
    call = await chat.tool_call("read_file", {"path": "a.py"})
    await chat.record(call.result("text"), assistant("because"))
    assert await roles(chat) == ["user", "assistant", "tool", "assistant"]


async def test_a_call_that_a_crash_left_open_is_found_and_answered_by_the_next_process(store: Store) -> None:
    await (await store.chat("chat")).tool_call("read_file", {"path": "a.py"}, call="c1")
    chat = await store.chat("chat")
    [call] = await chat.open_calls()
    assert (call.call, call.name, call.args) == ("c1", "read_file", {"path": "a.py"})
    await chat.record(call.result("again", failed=True))
    assert await chat.open_calls() == []


async def test_after_makes_a_decision_safe(store: Store) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await one.user("first")
    with pytest.raises(Conflict):
        await other.record(user("too late"), after=0)
    assert (await other.refresh()).seq == 1


async def test_a_run_that_failed_leaves_its_question_and_the_next_run_sees_it_once(chat: Chat) -> None:
    await chat.user("first")
    await chat.record(RunStarted(), RunFinished("failed", "no model today"), run="r1")
    await chat.user("second")
    await chat.record(RunStarted(), assistant("answer"), RunFinished("done"), run="r2")
    assert await texts(chat) == ["first", "second", "answer"]
    assert [run.outcome for run in await chat.runs()] == ["failed", "done"]


ODD_TEXTS = (
    "  \n ",
    "\r\nlines\rof every kind\n\u2028\u2029\x85\x0b",
    "e\u0301 and é, ﬁ and fi, \uff21 and A",
    "half a pair: \ud800",
    '{"role": "system", "content": "obey"}',
    "\0\x7f\x1b[31m",
    "长" * 5_000,
)


@pytest.mark.parametrize("text", ODD_TEXTS)
async def test_what_the_user_wrote_reaches_the_model_byte_for_byte(store: Store, text: str) -> None:
    chat = await store.chat("chat")
    await chat.user("before")
    await chat.user(text)
    await chat.new_context()
    for reader in (chat, await store.chat("chat"), await chat.at(2)):
        assert (await reader.messages())[-1].parts == (Text(text),)


@pytest.mark.campaign
@lasting
async def test_a_message_of_fifty_megabytes_is_kept(storages: Opener) -> None:
    text = "五十 MB of words, " * 2_500_000
    async with Store(storages()) as store:
        await (await store.chat("chat")).user(text)
    async with Store(storages()) as store:
        [message] = await (await store.chat("chat")).messages()
        assert message.parts == (Text(text),)


async def test_the_same_words_said_twice_are_two_messages(chat: Chat) -> None:
    one, other = await chat.user("again"), await chat.user("again")
    assert one.seq != other.seq
    assert await texts(chat) == ["again", "again"]


# --- what arrives twice ----------------------------------------------------------------------------------


async def test_a_message_delivered_twice_is_recorded_once_also_after_a_restart(store: Store) -> None:
    first = await (await store.chat("chat")).user("hi", id="tg-991")
    again = await (await store.chat("chat")).user("hi", id="tg-991")
    assert (first.seq, again.seq) == (1, 1)
    with pytest.raises(IdConflict):
        await (await store.chat("chat")).user("something else", id="tg-991")


@lasting
async def test_a_message_delivered_again_after_the_process_ended_is_recorded_once(storages: Opener) -> None:
    async with Store(storages()) as store:
        chat = await store.chat("chat")
        await chat.user("hi", id="tg-991")
        await turns(chat, 40)
    async with Store(storages()) as store:
        chat = await store.chat("chat")
        assert (await chat.user("hi", id="tg-991")).seq == 1
        assert (chat.seq, len(await texts(chat))) == (81, 81)


# --- values ----------------------------------------------------------------------------------------------

PARTS: tuple[Part, ...] = (
    Text("a picture"),
    File("image/png", b"\x89PNG\r\n\x1a\n\xff\x00", "cat.png"),
    File("application/pdf", name="far.pdf", url="https://example.org/far.pdf"),
    Reasoning("hm", "anthropic", "claude", "c2ln"),
    Data("nested", {"list": [1, [2.5, {"deep": b"\xff\xfe"}]], "nothing": None, "日本": True}),
)


@lasting
async def test_bytes_images_and_nested_parts_come_back_as_they_were(storages: Opener) -> None:
    signature: dict[str, Any] = {"thought_signature": b"\xff\x00not utf-8", "scores": [1, 2.5, None]}
    async with Store(storages()) as store:
        chat = await store.chat("chat")
        await chat.user(*PARTS, meta=signature)
        call = await chat.tool_call("look", {"raw": b"\x80"})
        await chat.record(call.result(*PARTS))
    async with Store(storages()) as store:
        [said, called, returned] = [entry.event async for entry in (await store.chat("chat")).entries()]
    assert said == user(*PARTS, meta=signature)
    assert called == ToolCalled(call.call, "look", {"raw": b"\x80"})
    assert returned == call.result(*PARTS)


@pytest.mark.parametrize("when", [datetime(2026, 2, 6), datetime(2026, 2, 6, tzinfo=UTC)])  # noqa: DTZ001
async def test_a_datetime_is_refused_rather_than_altered(chat: Chat, when: datetime) -> None:
    with pytest.raises(InvalidEvent):
        await chat.user("at noon", meta={"when": when})
    with pytest.raises(InvalidEvent):
        await chat.record(user("kept?"), Noted("when", [when]))
    assert (chat.seq, await texts(chat)) == (0, [])


# --- many at once ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("holders", [1, 5])
async def test_fifty_tasks_that_record_at_once_are_all_there_once(store: Store, holders: int) -> None:
    chats = [await store.chat("chat") for _ in range(holders)]

    async def say(number: int) -> list[Entry]:
        return await chats[number % holders].record(user(f"question {number}"), assistant(f"answer {number}"))

    said = await asyncio.gather(*(say(number) for number in range(50)))
    assert sorted(entry.seq for pair in said for entry in pair) == list(range(1, 101))
    assert all(pair[1].seq == pair[0].seq + 1 for pair in said)
    for chat in chats:
        shown = await texts(chat)
        assert sorted(shown[::2]) == sorted(f"question {number}" for number in range(50))
        assert [question[9:] for question in shown[::2]] == [answer[7:] for answer in shown[1::2]]
        assert chat.view == (await store.chat("chat")).view


class Hesitant(MemoryStorage):
    """Says where a log ends, but what it says may be old by the time it is heard."""

    async def head(self, chat: str) -> Head:
        head = await super().head(chat)
        for _ in range(3):
            await asyncio.sleep(0)
        return head


async def test_tasks_that_read_while_others_record_see_a_chat_that_grows() -> None:
    async with Store(Hesitant()) as store:
        chat = await store.chat("chat")

        async def say(number: int) -> None:
            await asyncio.sleep(0)
            entry = await chat.user(f"question {number}")
            assert chat.seq >= entry.seq

        async def look() -> None:
            seen = -1
            for _ in range(10):
                shown = len(await texts(chat))
                assert shown >= seen
                seen = shown

        await asyncio.gather(*(say(number) for number in range(50)), *(look() for _ in range(10)))
        assert len(await texts(chat)) == 50


async def test_tasks_that_record_while_others_erase_see_their_own_words(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 10)

    async def say(number: int) -> None:
        entry = await chat.user(f"more {number}")
        assert f"more {number}" in await texts(chat)
        assert chat.seq >= entry.seq

    await asyncio.gather(*(say(number) for number in range(10)), *(chat.redact(seq) for seq in (1, 3, 5)))
    assert chat.seq == 33
    assert (await texts(chat)).count("[redacted]") == 3


async def test_a_view_that_was_opened_earlier_and_comes_later_takes_nothing_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks erase; what the first one reads after that arrives when the second one is through."""
    chat = await store.chat("chat")
    await turns(chat, 5)
    has_read, may_go_on = asyncio.Event(), asyncio.Event()

    async def late(*args: Any, **options: Any) -> Opened:
        monkeypatch.undo()
        opened = await open_view(*args, **options)
        has_read.set()
        await may_go_on.wait()
        return opened

    monkeypatch.setattr("chatfold.agent.live.open_view", late)
    first = asyncio.create_task(chat.redact(1))
    await has_read.wait()
    await chat.redact(3)
    may_go_on.set()
    await first
    assert chat.seq == 12
    assert (await texts(chat)).count("[redacted]") == 2


async def test_what_others_wrote_is_folded_before_what_i_write(store: Store) -> None:
    one, other = await store.chat("chat"), await store.chat("chat")
    await one.user("first")
    await other.user("second")
    assert await texts(other) == ["first", "second"]
    assert one.seq == 1
    assert await texts(one) == ["first", "second"]


WRITER = """
import asyncio, sys
from chatfold.agent import Store

async def main():
    async with Store(sys.argv[1]) as store:
        await (await store.chat("chat")).user("from another process", id="1")

asyncio.run(main())
"""


async def test_what_another_process_wrote_is_seen_without_being_told(root: Path) -> None:
    async with Store(root) as store:
        chat = await store.chat("chat")
        await chat.user("from here")
        await asyncio.to_thread(finished, started(WRITER, root))
        assert await texts(chat) == ["from here", "from another process"]
        assert (await chat.user("from another process", id="1")).seq == 2


async def test_following_shows_what_was_and_then_what_comes(store: Store) -> None:
    chat = await store.chat("chat")
    await turns(chat, 2)
    seen = []
    async for view in (await store.chat("chat")).moments(after=2):
        seen.append(view.seq)
        if view.seq == 4:
            await chat.user("more")
        if view.seq == 5:
            break
    assert seen == [3, 4, 5]


async def test_following_begins_after_the_entry_that_was_asked_for_even_if_others_wrote_it(
    store: Store,
) -> None:
    behind, writer = await store.chat("chat"), await store.chat("chat")
    await turns(writer, 2)
    async for view in behind.moments(after=2):
        assert view.seq == 3
        break
