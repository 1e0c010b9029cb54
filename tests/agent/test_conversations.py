"""One agent, many conversations: made, loaded and forked by a key or by a path."""

import asyncio
import os
from pathlib import Path

import pytest

from chatfold.agent import Agent, ScriptedModel
from chatfold.eventlog import ChatExists, NoSuchChat, RunStarted
from chatfold.projections import lineage
from tests.support.debugger.commanded import run


def agent(*script: str) -> Agent:
    return Agent(model=ScriptedModel(script))


async def test_a_conversation_by_a_path_is_on_disk_and_is_loaded_by_another_agent(tmp_path: Path) -> None:
    path = tmp_path / "chats" / "task-001.jsonl"
    async with agent("hello") as first:
        chat = await first.new_conversation(path)
        assert (await first.run("hi", chat=chat)).text == "hello"
    assert [one.name for one in (tmp_path / "chats").iterdir()] == ["task-001.jsonl"]  # nothing beside it
    assert (path / "chats" / "task-001").is_dir()
    async with agent("again") as second:
        chat = await second.load_conversation(path)
        assert [message.role for message in await chat.messages()] == ["user", "user", "assistant"]
        assert (await second.run("and again?", chat=chat)).text == "again"


async def test_a_fork_goes_on_elsewhere_and_the_original_stays(tmp_path: Path) -> None:
    async with agent("one", "two", "three") as made:
        chat = await made.new_conversation(tmp_path / "task-001.jsonl")
        await made.run("first", chat=chat)
        fork = await made.fork_conversation(tmp_path / "task-001-retry.jsonl")
        assert made.conversation is fork
        before = chat.seq
        await made.run("only in the fork", chat=fork)
        assert (await chat.refresh()).seq == before
        assert [one.parent for one in fork[lineage].forks] == ["task-001"]


async def test_a_conversation_in_memory_gets_a_path_by_being_forked(tmp_path: Path) -> None:
    async with agent("one", "two") as made:
        chat = await made.new_conversation("scratch")
        await made.run("first", chat=chat)
        kept = await made.fork_conversation(tmp_path / "kept")
        assert (kept[lineage].parent.parent, kept.seq) == ("scratch", chat.seq + 1)  # type: ignore[union-attr]
        await made.run("second", chat=kept)
    async with agent() as other:
        assert (await other.load_conversation(tmp_path / "kept")).seq == kept.seq


async def test_one_agent_has_many_conversations_that_know_nothing_of_each_other() -> None:
    async with agent("a", "b") as made:
        one, other = await made.new_conversation("one"), await made.new_conversation("other")
        await made.run("in one", chat=one)
        await made.run("in the other", chat=other)
        assert [m["content"] for m in await other.messages("openai")][1:] == ["in the other", "b"]


async def test_what_is_under_way_in_a_chat_is_not_gone_on_with_in_its_fork() -> None:
    async with agent("for the original", "for the fork") as made:
        chat = await made.store.chat("chat")
        await chat.user("a question")
        await chat.record(RunStarted(), run="r1")
        fork = await chat.fork("what-if")
        assert await made.resume("what-if") is None
        assert await made.resume_all() == ["chat"]
        await made.wait_idle()
        assert (await made.run("and here?", chat=fork)).text == "for the fork"
        assert [run.outcome for run in await chat.runs()] == ["done"]


async def test_what_is_there_or_is_not_is_told(tmp_path: Path) -> None:
    async with agent("hello") as made:
        with pytest.raises(NoSuchChat, match="make or load one first"):
            await made.fork_conversation("nothing to fork")
        chat = await made.new_conversation(tmp_path / "task")
        with pytest.raises(NoSuchChat):
            await made.load_conversation(tmp_path / "task")  # nothing was said in it yet
        await made.run("hi", chat=chat)
        with pytest.raises(ChatExists):
            await made.new_conversation(tmp_path / "task")
        (tmp_path / "a-file.jsonl").write_text("{}")
        with pytest.raises(ChatExists, match="this is a file"):
            await made.new_conversation(tmp_path / "a-file.jsonl")


async def test_a_conversation_is_forked_into_any_folder_at_any_point(tmp_path: Path) -> None:
    async with agent("one", "two", "three") as made:
        chat = await made.new_conversation(str(tmp_path / "a" / "task.jsonl"))
        await made.run("first")  # in the current conversation
        await chat.checkpoint("here")
        await made.run("second")
        before = chat.seq
        fork = await made.fork_conversation(str(tmp_path / "b" / "task.jsonl"), at="here")
        assert [m["content"] for m in await fork.messages("openai") if m["role"] == "assistant"] == ["one"]
        assert (fork.key, fork[lineage].parent.parent) == ("task", "task")  # type: ignore[union-attr]
        assert (await made.run("another way")).text == "three"
        assert (await chat.refresh()).seq == before
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]  # noqa: PTH208


async def test_the_command_reads_a_conversation_at_its_path(tmp_path: Path) -> None:
    path = tmp_path / "task-001.jsonl"
    async with agent("hello") as made:
        await made.new_conversation(path)
        await made.run("hi")
    done = await asyncio.to_thread(run, "log", path)
    assert (done.exit_code, "hello" in done.output) == (0, True), done.output
