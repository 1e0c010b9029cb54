"""What users of the pytest helper do, done here: recorded runs of the example bot are held against the bot as it is today."""

from pathlib import Path

import pytest

from chatfold.agent import Agent, ScriptedModel, Store
from chatfold.eventlog import ToolReturned
from chatfold.replay.inspect.places import NoStore
from chatfold.replay.testing import assert_chat_replays, assert_replays
from tests.support.debugger.recorded_bot import EXAMPLES, TALK, bot, build, edited, first, talked


async def record(folder: Path) -> Path:
    """A store with one recorded chat of the support desk."""
    async with Store(folder, durability="off") as store:
        await talked(store, *TALK)
        await (await store.chat("desk")).export(folder / "desk.jsonl")
    return folder


@pytest.fixture
async def recorded(tmp_path: Path) -> Path:
    return await record(tmp_path)


def test_the_support_desk_replays(recorded: Path) -> None:
    for recording in (recorded / "desk.jsonl", recorded, recorded / "chats" / "desk", (recorded, "desk")):
        [found] = assert_replays(recording, build)
        assert (found.turns, found.proved) == (len(TALK), found.model_calls)
        assert_replays(recording)


async def test_in_a_test_that_is_async_too(recorded: Path) -> None:
    assert_replays(recorded / "desk.jsonl", build)


async def test_a_chat_of_a_store_that_is_open() -> None:
    chat = await talked(Store.memory(), "hello")
    assert (await assert_chat_replays(chat, build)).ok
    other = await edited(chat, (await first(chat, ToolReturned)).seq, failed=True)
    with pytest.raises(AssertionError, match="tool_returned is not what it was"):
        await assert_chat_replays(other)


def test_a_changed_prompt_fails_with_the_line_and_both_values(recorded: Path) -> None:
    def changed(store: Store) -> Agent:
        return build(store, instructions=bot.INSTRUCTIONS.replace("once", "twice"))

    with pytest.raises(AssertionError) as failed:
        assert_replays(recorded / "desk.jsonl", changed)
    lines = str(failed.value).splitlines()
    assert lines[0] == "chat 'desk' does not replay"
    assert lines[1].endswith("(t1, model call 1): model_called request.system line 3")
    assert "once" in lines[2]
    assert "twice" in lines[3]


def test_a_recording_without_a_run_of_the_agent_says_nothing_and_does_not_pass(tmp_path: Path) -> None:
    import asyncio

    async def without() -> None:
        async with Store(tmp_path) as store:
            await (await store.chat("quiet")).user("hi")

    asyncio.run(without())
    with pytest.raises(AssertionError, match="no run of this agent"):
        assert_replays(tmp_path, lambda: Agent(model=ScriptedModel([])))
    with pytest.raises(NoStore):
        assert_replays(tmp_path / "nowhere", build)


def test_a_recording_is_not_written(recorded: Path) -> None:
    before = {path: path.read_bytes() for path in recorded.rglob("*") if path.is_file()}
    assert_replays(recorded, build)
    assert {path: path.read_bytes() for path in recorded.rglob("*") if path.is_file()} == before
    assert EXAMPLES.is_dir()
