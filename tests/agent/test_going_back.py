"""Going back: what it leads to, in this process and in the next one, and however far back it is."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from chatfold.agent import Chat, Store
from chatfold.agent.tools import tool
from chatfold.eventlog import Event, MessageAdded, ModelCalled, Rewound, RunStarted, ToolCalled, ToolReturned
from chatfold.projections import calls, contexts, turn
from chatfold.projections.fold import MEMORY, View, fold, start
from chatfold.replay import Replay
from tests.support.agent_runs import agent, events, step
from tests.support.chats import a_store, files  # noqa: F401
from tests.support.histories import assistant, user
from tests.support.storages import Opener, lasting


@tool
async def look(at: str = "") -> str:
    """Looks."""
    return f"saw {at}"


# --- what it leads to --------------------------------------------------------------------------------------


async def test_after_a_rewind_to_the_question_the_model_is_asked_again(store: Store) -> None:
    made, _ = agent(store, ["the first answer", "the second answer"], [])
    await made.run("why?", chat="chat")
    chat = await store.chat("chat")
    assert await made.resume("chat") is None
    await chat.rewind(chat[turn].said)
    again = await made.resume("chat")
    assert again is not None
    assert (again.outcome, again.text) == ("done", "the second answer")
    assert [m.role for m in await chat.messages() if m.kind == "said"] == ["user", "assistant"]
    assert len(await events(chat, ModelCalled)) == len(await events(chat, RunStarted)) == 2
    assert await made.resume("chat") is None


async def test_a_rewind_to_an_answer_leaves_nothing_to_be_answered(store: Store) -> None:
    made, _ = agent(store, ["one", "two"], [])
    await made.run("first?", chat="chat")
    chat = await store.chat("chat")
    answered = chat.seq
    await made.run("second?", chat="chat")
    for to in (answered, answered - 1):  # the end of the run, and the answer before it
        await chat.rewind(to)
        assert not chat[turn].is_open
        assert await made.resume("chat") is None


async def test_a_rewind_to_an_open_call_leaves_it_to_be_answered(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.record(user(), ToolCalled("c1", "look"), ToolReturned("c1"), assistant())
    await chat.rewind(2)
    assert [call.call for call in await chat.open_calls()] == ["c1"]
    await chat.record(ToolReturned("c1"))
    assert [message.role for message in await chat.messages()] == ["user", "assistant", "tool"]


async def test_a_call_that_a_rewind_opened_again_is_answered_by_the_next_run(store: Store) -> None:
    made, _ = agent(store, [step(("look", {"at": "x"})), "done", "done again"], [look])
    await made.run("why?", chat="chat")
    chat = await store.chat("chat")
    [(at, _)] = [(e.seq, e) async for e in chat.entries() if isinstance(e.event, ToolCalled)]
    await chat.rewind(at)
    await made.run("and?", chat="chat")
    assert not (await chat.refresh())[calls].open
    messages = await chat.messages("openai")
    assert [m["role"] for m in messages if m["role"] == "tool"] == ["tool"]


# --- how far back it may be --------------------------------------------------------------------------------

FAR = 3 * MEMORY


def long_talk() -> list[Event]:
    """Rewinds of every length, some to entries that only another far rewind leads to."""
    talk: list[Event] = []
    for number in range(1, 2 * FAR):
        match number % 60:
            case 20:
                talk.append(Rewound(max(0, number - FAR)))
            case 40:
                talk.append(Rewound(number // 2))
            case 59:
                talk.append(Rewound(number - 3))
            case odd:
                talk.append(user(f"{number}") if odd % 2 else assistant(f"{number}"))
    return talk


async def recorded(chat: Chat, talk: Iterable[Event]) -> View:
    talk = list(talk)
    for at in range(0, len(talk), 50):
        await chat.record(*talk[at : at + 50])
    return fold(start(chat.view.projections, memory=10**6), [entry async for entry in chat.entries()])


async def test_a_rewind_that_no_view_remembers_is_read_from_the_log(store: Store) -> None:
    chat = await store.chat("chat")
    whole = await recorded(chat, long_talk())
    assert chat.view == whole
    assert (await chat.at(chat.seq)).view.states == whole.states


async def test_a_chat_that_never_goes_far_back_remembers_little(store: Store) -> None:
    chat = await store.chat("chat")
    await recorded(chat, [user()] * FAR)
    assert MEMORY / 2 < len(chat.view.past) <= MEMORY
    again = await store.chat("chat")
    assert len(again.view.past) <= MEMORY
    await chat.rewind(1)
    assert chat.view.past.size > MEMORY


async def test_one_that_is_far_back_is_what_it_was_there(store: Store) -> None:
    chat = await store.chat("chat")
    await recorded(chat, [user(f"{number}") for number in range(FAR)])
    await chat.new_context("elsewhere")
    await recorded(chat, [user(f"{number}") for number in range(FAR)])
    seen = await (await chat.at(5)).messages()
    await chat.rewind(5)
    assert await chat.messages() == seen
    assert (chat[contexts].active.id, len(chat[contexts].shelf)) == ("main", 0)


@pytest.mark.parametrize("caches", ["kept", "deleted"])
async def test_every_way_to_a_view_goes_back_as_far(tmp_path: Path, caches: str) -> None:
    async with files(tmp_path) as store:
        chat = await store.chat("chat")
        whole = await recorded(chat, long_talk())
    if caches == "deleted":
        for folder in list(tmp_path.glob("chats/*/cache")):  # noqa: ASYNC240
            shutil.rmtree(folder)
    async with files(tmp_path) as store:
        chat = await store.chat("chat")
        assert chat.view.states == whole.states
        middle = FAR + 41
        async for moment in chat.moments(middle):
            if moment.seq == whole.seq:
                assert moment.view.states == whole.states
                break
        assert [listed.is_open async for listed in store.chats()] == [whole[turn].is_open]
        replay = Replay(await store.chat("chat"))
        await replay.seek(middle)
        await replay.step(whole.seq - middle)
        assert replay.view.states == whole.states


@lasting
async def test_two_that_write_one_chat_go_back_together(storages: Opener) -> None:
    async with Store(storages()) as one, Store(storages()) as other:
        here, there = await one.chat("chat"), await other.chat("chat")
        for number in range(2 * MEMORY):
            await here.record(MessageAdded("user", user(f"{number}").parts))
        await there.refresh()
        await here.rewind(1)
        await here.user("and so on")
        await there.refresh()
        assert there.view == here.view
        assert await there.messages() == await here.messages()
