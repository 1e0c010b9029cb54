"""Sessions of the OpenAI Agents SDK on our stores: what upstream's tests do not ask. Those are run by ``upstream``."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("agents", reason="the SDK is not installed: pip install 'chatfold[openai-agents]'")

import chatfold as ours
from chatfold import Policy, Store, user
from chatfold.adapters.openai_agents import OpenAIAgentsSession
from chatfold.eventlog import ChatStarted, Closed
from tests.adapters.test_openai_agents_items import ITEMS
from tests.support.storages import Opener, everywhere, lasting


def message(number: int) -> dict[str, str]:
    return {"role": "assistant" if number % 2 else "user", "content": f"{number}"}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store.memory() as opened:
        yield opened


@lasting
async def test_all_items_come_back_from_another_store(storages: Opener) -> None:
    async with Store(storages()) as store:
        await OpenAIAgentsSession(store, "a").add_items(ITEMS)
    async with Store(storages()) as store:
        session = OpenAIAgentsSession(store, "a")
        assert json.dumps(await session.get_items()) is not None
        assert await session.get_items() == ITEMS
        assert await session.get_items(3) == ITEMS[-3:]
        popped = [await session.pop_item() for _ in ITEMS]
        assert popped == ITEMS[::-1]
        assert await session.pop_item() is None
        assert await session.get_items() == []


@pytest.mark.parametrize("limit", [0, 1, 2, 5, 100])
async def test_a_limit_is_that_of_the_newest(store: Store, limit: int) -> None:
    session = OpenAIAgentsSession(store, "a", session_settings={"limit": limit})
    items = [message(number) for number in range(5)]
    await session.add_items(items)
    assert await session.get_items() == items[max(0, 5 - limit) :]
    assert await session.get_items(2) == items[-2:]


@everywhere
async def test_two_that_pop_at_once_get_two_items(storages: Opener) -> None:
    """openai-agents-python#4205: they got the same one."""
    async with Store(storages()) as store, Store(storages()) as other:
        sessions = [OpenAIAgentsSession(one, "a") for one in (store, store, other)]
        await sessions[0].add_items([message(number) for number in range(30)])
        popped = await asyncio.gather(*(sessions[turn % 3].pop_item() for turn in range(30)))
        assert sorted(int(item["content"]) for item in popped) == [*range(30)]
        assert await sessions[0].get_items() == []


@everywhere
async def test_sessions_that_begin_at_once_begin_one_chat(storages: Opener) -> None:
    async with Store(storages()) as store, Store(storages()) as other:
        sessions = [OpenAIAgentsSession(one, "a") for one in (store, other, store)]
        await asyncio.gather(*(one.add_items([message(at)]) for at, one in enumerate(sessions)))
        items = await sessions[0].get_items()
        assert sorted(item["content"] for item in items) == ["0", "1", "2"]
        entries = [entry async for entry in store.log.read("a")]
        assert [type(entry.event) for entry in entries].count(ChatStarted) == 1
        [listed] = [listed async for listed in store.chats(where={"adapter": "openai_agents"})]
        assert listed.key == "a"


async def test_what_was_cleared_or_popped_is_in_the_log_and_can_be_taken_up_again(store: Store) -> None:
    session = OpenAIAgentsSession(store, "a")
    await session.add_items([message(0), message(1)])
    await session.pop_item()
    await session.add_items([message(3)])
    await session.clear_session()
    await session.clear_session()
    assert await session.get_items() == []
    chat = await session.chat()
    [shelved] = await chat.contexts()
    await chat.load_context(context_id=shelved.context_id)
    assert await session.get_items() == [message(0), message(3)]
    assert len(await chat.search("1", everything=True)) == 1


async def test_a_compaction_of_ours_hides_items_and_deletes_none(store: Store) -> None:
    """openai-agents-python#5010: compaction deletes the older items."""
    session = OpenAIAgentsSession(store, "a")
    items = [message(number) for number in range(20)]
    await session.add_items(items)
    chat = await session.chat()
    [compacted] = await chat.compact(
        Policy(keep=4, budget=None, summary=1000), summarise=lambda _: "they counted"
    )
    shown = await session.get_items()
    assert shown[-4:] == items[-4:]
    assert shown[0]["content"].endswith("they counted")
    assert shown == [
        {name: one[name] for name in ("role", "content")} for one in await chat.messages("openai")
    ]
    await chat.revert_compaction(compacted.seq)
    assert await session.get_items() == items


async def test_what_others_record_is_among_the_items(store: Store) -> None:
    session = OpenAIAgentsSession(store, "a")
    await session.add_items([message(0), message(1)])
    await (await store.chat("a")).record(user("from outside"))
    assert await session.get_items() == [message(0), message(1), {"role": "user", "content": "from outside"}]
    assert await session.pop_item() == {"role": "user", "content": "from outside"}
    assert await session.get_items() == [message(0), message(1)]


async def test_the_snapshot_replaces_exactly_the_tail_it_saw(store: Store) -> None:
    session, other = OpenAIAgentsSession(store, "a"), OpenAIAgentsSession(store, "a")
    items = [message(number) for number in range(6)]
    await session.add_items(items)
    snapshot = await session._get_compaction_snapshot(4)
    assert (snapshot.items, snapshot.complete) == (items[2:], False)
    assert (await session._get_compaction_snapshot(6)).complete
    assert await snapshot.replace_suffix(2, [message(9)])
    assert await session.get_items() == [*items[:4], message(9)]
    assert not await snapshot.replace_suffix(2, [message(8)])
    snapshot = await session._get_compaction_snapshot(2)
    await other.add_items([message(10)])
    assert not await snapshot.replace_suffix(0, [])
    assert await session.get_items() == [*items[:4], message(9), message(10)]


async def test_a_snapshot_may_drop_the_oldest_that_have_expired(store: Store) -> None:
    session = OpenAIAgentsSession(store, "a")
    items = [message(number) for number in range(6)]
    await session.add_items(items)
    snapshot = await session._get_compaction_snapshot(2, prune_prefix=lambda item: int(item["content"]) < 3)
    assert await snapshot.replace_suffix(1, [message(9)])
    assert await session.get_items() == [*items[3:5], message(9)]


async def test_a_fork_goes_its_own_way(store: Store) -> None:
    session = OpenAIAgentsSession(store, "a")
    await session.add_items([message(0), message(1)])
    fork = await session.fork("b")
    await fork.add_items([message(2)])
    await session.pop_item()
    assert await fork.get_items() == [message(0), message(1), message(2)]
    assert await session.get_items() == [message(0)]


async def test_what_is_erased_is_in_no_item(store: Store, tmp_path: Path) -> None:
    async with Store(tmp_path) as files:
        session = OpenAIAgentsSession(files, "a")
        secret = {
            "id": "m",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "hunter2", "annotations": [{"url": "hunter2"}]}],
        }
        await session.add_items([message(0), secret])
        chat = await session.chat()
        await chat.redact(chat.seq)
        assert await session.get_items() == [message(0), {"role": "assistant", "content": "[redacted]"}]
    assert not await asyncio.to_thread(_files_with, tmp_path, b"hunter2")


def _files_with(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


async def test_a_cancelled_caller_is_cancelled_when_it_is_done(store: Store) -> None:
    session = OpenAIAgentsSession(store, "a")
    for number in range(5):
        adding = asyncio.create_task(session.add_items([message(number)]))
        await asyncio.sleep(0)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert len(await session.get_items()) == number + 1


async def test_a_closed_session_takes_nothing_and_the_store_goes_on(store: Store) -> None:
    session = OpenAIAgentsSession(store, "a")
    await session.add_items([message(0)])
    session.close()
    for refused in (session.add_items([]), session.get_items(), session.pop_item(), session.clear_session()):
        with pytest.raises(Closed):
            await refused
    assert await OpenAIAgentsSession(store, "a").get_items() == [message(0)]


async def test_a_run_of_the_sdk_is_a_chat_that_can_be_asked_why(store: Store) -> None:
    from agents import Agent, RunConfig, Runner, function_tool
    from agents.testing import ScriptedModel
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    @function_tool  # type: ignore[untyped-decorator]  # (where the SDK is not looked at)
    def read(path: str) -> str:
        return f"the text of {path}"

    call = ResponseFunctionToolCall(
        arguments='{"path":"lexer.py"}', call_id="c1", name="read", type="function_call"
    )
    text = ResponseOutputText(annotations=[], text="It splits.", type="output_text")
    said = ResponseOutputMessage(
        id="m1", content=[text], role="assistant", status="completed", type="message"
    )
    agent = Agent(name="worker", model=ScriptedModel(steps=[[call], [said]]), tools=[read])
    session = OpenAIAgentsSession(store, "a")
    result = await Runner.run(agent, "why?", session=session, run_config=RunConfig(tracing_disabled=True))
    assert result.final_output == "It splits."
    chat = await session.chat()
    assert [(one["role"], one.get("content")) for one in await chat.messages("openai")] == [
        ("user", "why?"),
        ("assistant", None),
        ("tool", "the text of lexer.py"),
        ("assistant", "It splits."),
    ]
    assert [item.get("type", item.get("role")) for item in await session.get_items()] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert await chat.open_calls() == []


async def test_an_agent_of_ours_leaves_the_chats_of_the_sdk_alone(store: Store) -> None:
    await OpenAIAgentsSession(store, "theirs").add_items([message(0)])
    await (await store.chat("ours")).user("hello")
    async with ours.Agent(ours.ScriptedModel(["hi"]), store=store) as agent:
        assert await agent.resume_all() == ["ours"]
        await agent.wait_idle()
    assert await OpenAIAgentsSession(store, "theirs").get_items() == [message(0)]
