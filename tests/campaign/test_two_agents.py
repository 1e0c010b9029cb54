"""Agents in several processes on one chat: one of them is at work at a time, and whoever waited does not repeat it."""

from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from chatfold.agent import Store
from chatfold.eventlog import RunFinished, RunStarted
from chatfold.projections import executions, turn
from tests.support.judges.talk import entries_of
from tests.support.processes.children import go, started, told


async def test_agents_in_several_processes_work_one_at_a_time(fast_folder: Path) -> None:
    with ExitStack() as stack:
        texts = [f"question-{number}" for number in range(4)]
        children = [stack.enter_context(started("answering", fast_folder, "chat", text)) for text in texts]
        go(*children)
        words = [told(child) for child in children]
    spans = sorted(
        (int(began[1]), int(ended[1]))
        for said in words
        for began, ended in pairwise(said)
        if (began[0], ended[0]) == ("began", "ended")
    )
    assert spans
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert {said[-1][2] for said in words} == {"done"}
    async with Store(fast_folder) as store:
        chat = await store.chat("chat")
        assert not chat[executions].running
        assert not chat[turn].is_waiting
    events = [entry.event for entry in entries_of(fast_folder / "chats" / "chat")]
    runs = [event for event in events if isinstance(event, RunStarted | RunFinished)]
    assert [type(event) for event in runs] == [RunStarted, RunFinished] * (len(runs) // 2)


@pytest.mark.smoke
async def test_whoever_dies_at_work_is_followed_by_the_next(fast_folder: Path) -> None:
    with started("answering", fast_folder, "chat", "first") as child:
        go(child)
        assert child.stdout is not None
        assert child.stdout.readline().startswith("began")
    with started("answering", fast_folder, "chat", "second") as child:
        go(child)
        words = told(child)
    # The call that was left without a result is made again, then what this one's model asks for.
    assert [said[0] for said in words] == ["began", "ended", "began", "ended", "answered"]
    async with Store(fast_folder) as store:
        chat = await store.chat("chat")
        assert [run.outcome for run in await chat.runs()] == ["done"]
        assert (await chat.messages("openai"))[-1]["content"] == "answer to second"
