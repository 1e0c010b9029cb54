"""An agent's code is run against its recording: what is the same is held, what is not is named, and the world is not reached."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import (
    Agent,
    Chat,
    ModelFailed,
    ModelReply,
    Policy,
    ScriptedModel,
    Store,
    current_run,
    tool,
)
from chatfold.agent.limits import Limits
from chatfold.agent.models import Line
from chatfold.eventlog import (
    Compacted,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    RunFinished,
    Text,
    ToolReturned,
)
from chatfold.replay.verify.rehearsal import rehearse
from chatfold.replay.verify.verdict import verdict
from tests.support.debugger.recorded_bot import build, diverged, edited, first, put, run_of, step, talked

# --- what is the same ------------------------------------------------------------------------------------


async def test_the_support_desk_does_again_what_it_did() -> None:
    chat = await talked(Store.memory())
    before = chat.view.head
    found = await rehearse(chat, build)
    assert found.ok
    assert (found.runs, found.entries, found.turns) == (6, chat.seq, 6)
    assert found.proved == found.model_calls > 10
    assert (await chat.now()).view.head == before


async def test_a_factory_may_be_async_and_need_not_take_a_store() -> None:
    chat = await talked(Store.memory(), "hello")

    async def later(given: Store) -> Agent:
        return build(given)

    def named(*, store: Store) -> Agent:
        return build(store)

    for factory in (later, named, lambda: build(Store.memory())):
        assert (await rehearse(chat, factory)).ok
    with pytest.raises(TypeError, match="gave str, not an Agent"):
        await rehearse(chat, lambda: "agent")  # type: ignore[arg-type,return-value]


async def test_tools_callbacks_and_send_are_not_called() -> None:
    called: list[str] = []

    @tool
    def act() -> str:
        """Acts."""
        called.append("tool")
        return "acted"

    def on_step(_step: object) -> None:
        called.append("callback")

    async def send(*_: object) -> None:
        called.append("send")

    def setup() -> dict[str, Any]:
        script: list[Line] = [step(("act", {}), ("act", {})), "done"]
        return {"model": ScriptedModel(script), "tools": [act], "on_step": on_step, "send": send}

    chat = await run_of(Store.memory(), **setup())
    assert called
    called.clear()
    assert (await rehearse(chat, lambda: Agent(**setup()))).ok
    assert called == []


async def test_failures_that_were_tried_again_take_no_time_and_come_out_the_same() -> None:
    busy, slow = ModelFailed("busy", again=True, after=0.0), ModelFailed("slow", again=True, after=0.01)

    def setup(*script: Any) -> dict[str, Any]:
        return {"model": ScriptedModel(script), "limits": Limits(retries=3)}

    for script in (
        [busy, slow, "done"],
        [ModelFailed("no")],
        [busy, busy, busy, busy],
        [ValueError("a bug")],
    ):
        store = Store.memory()
        agent = Agent(store=store, **setup(*script))
        try:
            await agent.run("hi", chat="chat")
        except ValueError:
            assert len(script) == 1
        chat = await store.chat("chat")
        found = await rehearse(chat, lambda: Agent(**setup()))
        assert found.ok, found.divergence


async def test_a_prompt_that_was_too_long_is_compacted_as_it_was() -> None:
    def setup(*script: Any) -> dict[str, Any]:
        return {"model": ScriptedModel(script), "policy": Policy(keep=2, budget=400, summary=60)}

    script = [*(f"answer {n} " * 20 for n in range(8)), ModelFailed("maximum context length"), "done"]
    chat = await run_of(Store.memory(), *(f"question {n} " * 20 for n in range(9)), **setup(*script))
    assert [e async for e in chat.entries() if isinstance(e.event, Compacted)]
    assert (await rehearse(chat, lambda: Agent(**setup()))).ok
    loose = await diverged(chat, lambda: Agent(model=ScriptedModel([])))
    assert loose.kind == "compacted"
    tighter = {**setup(), "policy": Policy(keep=2, budget=400, summary=61)}
    assert (await diverged(chat, lambda: Agent(**tighter))).field == "policy.summary"


async def test_a_run_that_was_cancelled_or_stopped_at_its_limit_is_held() -> None:
    waiting = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        waiting.set()
        await asyncio.Event().wait()
        return ""

    store = Store.memory()
    agent = Agent(store=store, model=ScriptedModel([step(("wait", {}))]), tools=[wait])
    task = asyncio.ensure_future(agent.run("hi", chat="chat"))
    await waiting.wait()
    task.cancel()
    await asyncio.wait((task,))
    agent.model = ScriptedModel([step(("no such", {})), step(("no such", {}))])
    agent.limits = Limits(steps=2)
    assert (await agent.run("again", chat="chat")).outcome == "limit"
    chat = await store.chat("chat")
    ends = [e.event.outcome async for e in chat.entries() if isinstance(e.event, RunFinished)]
    assert ends == ["cancelled", "limit"]
    assert (
        await rehearse(chat, lambda: Agent(model=ScriptedModel([]), tools=[wait], limits=Limits(steps=2)))
    ).ok
    found = await diverged(chat, lambda: Agent(model=ScriptedModel([]), tools=[wait], limits=Limits(steps=3)))
    assert (found.kind, found.recorded, found.new) == ("run_finished", "run_finished", "model_called")


@pytest.mark.parametrize("cancels", [False, True])
async def test_what_was_said_in_the_middle_of_a_run_stands_where_it_stood(cancels: bool) -> None:
    store = Store.memory()
    agent = Agent(store=store, model=ScriptedModel([]))

    class Interrupted(ScriptedModel):
        async def ask(self, payload: dict[str, Any]) -> Any:
            self.payloads.append(payload)
            if len(self.payloads) == 1:
                await agent.submit("one thing more", chat="chat", interrupt=cancels)
                await (asyncio.Event().wait() if cancels else asyncio.sleep(0))
            yield ModelReply((Text("that"),))

    agent.model = Interrupted([])
    await agent.run("hi", chat="chat")
    await agent.wait_idle()
    chat = await store.chat("chat")
    errors = [e.event.error async for e in chat.entries() if isinstance(e.event, ModelReturned)]
    assert ("cancelled" in errors) == cancels
    found = await rehearse(chat, lambda: Agent(model=ScriptedModel([])))
    assert found.ok, found.divergence
    assert found.proved == found.model_calls == 2


async def test_results_of_tools_side_by_side_come_in_the_order_they_came() -> None:
    @tool
    async def late(turns: int) -> int:
        """Takes its time."""
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    def setup() -> dict[str, Any]:
        calls = [("late", {"turns": turns}) for turns in (30, 10, 20)]
        return {"model": ScriptedModel([step(*calls, ("nobody", {})), "done"]), "tools": [late]}

    chat = await run_of(Store.memory(), **setup())
    order = [e.event.call async for e in chat.entries() if isinstance(e.event, ToolReturned)]
    assert order == ["c4", "c2", "c3", "c1"]
    assert (await rehearse(chat, lambda: Agent(**setup()))).ok


async def killed(chat: Chat) -> AsyncIterator[Store]:
    """Stores with the first entries of a chat, as a process that was killed there left them; a batch is whole."""
    entries = [entry async for entry in chat.entries()]
    for upto, entry in enumerate(entries, 1):
        index, _, size = (entry.batch or "1/1").partition("/")
        if index == size:
            store = Store.memory()
            await put(store.log, chat.key, entries[:upto])
            yield store


async def test_killed_anywhere_and_gone_on_with_it_is_held() -> None:
    whole = await talked(Store.memory(), "Where is order 7?", "new topic")
    async for store in killed(whole):
        upto = (await store.chat("desk")).seq
        await build(store).resume("desk")
        chat = await store.chat("desk")
        found = await rehearse(chat, build)
        assert found.ok, (upto, found.divergence)
        assert found.proved == found.model_calls > 0


async def test_killed_anywhere_and_left_there_it_is_held_as_far_as_it_came() -> None:
    whole = await talked(Store.memory(), "Where is order 7?", "returns")
    async for store in killed(whole):
        chat = await store.chat("desk")
        found = await rehearse(chat, build)
        assert found.ok, (chat.seq, found.divergence)
        assert found.entries == chat.seq


async def test_a_fork_and_an_import_are_held_though_they_have_other_keys(tmp_path: Path) -> None:
    store = Store.memory()
    chat = await talked(store, "Where is order 7?", "hello")
    fork = await chat.fork("what if", chat.seq - 3)
    await build(store).run("Where is order 8?", chat="what if")
    found = await rehearse(await store.chat("what if"), build)
    assert found.ok, found.divergence
    assert found.runs == 3
    await fork.export(tmp_path / "x.jsonl")
    there = await Store.memory().import_chat(tmp_path / "x.jsonl", "elsewhere")
    assert (await rehearse(there, build)).ok


async def test_runs_of_another_agent_are_taken_as_they_are() -> None:
    store = Store.memory()
    await Agent(store=store, model=ScriptedModel(["a"]), name="one", instructions="x").run("hi", chat="chat")
    await Agent(store=store, model=ScriptedModel(["b"]), name="two").run("hi", chat="chat")
    chat = await store.chat("chat")
    found = await rehearse(chat, lambda: Agent(model=ScriptedModel([]), name="two"))
    assert (found.ok, found.runs, found.skipped, found.proved, found.unprovable) == (True, 1, 1, 1, 1)
    found_other = await diverged(chat, lambda: Agent(model=ScriptedModel([]), name="three"))
    assert (found_other.kind, found_other.field, found_other.new) == ("run_started", "agent", "three")


async def test_what_was_erased_does_not_hinder() -> None:
    chat = await talked(Store.memory(), "Where is order 7?", "hello")
    await chat.redact((await first(chat, ToolReturned)).seq)
    found = await rehearse(chat, build)
    assert found.ok, found.divergence
    assert found.unprovable > 0


# --- whatever happens ------------------------------------------------------------------------------------

LINES = st.one_of(
    st.text(max_size=5),
    st.lists(st.tuples(st.sampled_from(["act", "fail", "nobody"]), st.just({})), min_size=1, max_size=4).map(
        lambda calls: step(*calls)
    ),
    st.just(ModelFailed("busy", again=True, after=0.0)),
    st.just(ModelFailed("the prompt is too long")),
    st.just(ModelFailed("no")),
)


@given(st.lists(LINES, max_size=8), st.integers(1, 4), st.data())
async def test_whatever_a_run_does_it_is_held_and_whatever_is_edited_is_named(
    script: list[Any], questions: int, data: st.DataObject
) -> None:
    @tool
    async def act() -> str:
        """Acts."""
        await asyncio.sleep(0)
        return "acted"

    @tool
    def fail() -> str:
        """Fails."""
        raise ValueError("failed")

    def setup(*lines: Any) -> dict[str, Any]:
        policy = Policy(keep=1, budget=300, summary=40)
        return {
            "model": ScriptedModel(lines),
            "tools": [act, fail],
            "limits": Limits(steps=3, retries=2),
            "policy": policy,
        }

    chat = await run_of(Store.memory(), *(f"question {n}" for n in range(questions)), **setup(*script))
    found = await rehearse(chat, lambda: Agent(**setup()))
    assert found.ok, found.divergence
    assert found.proved == found.model_calls
    assert (await verdict(chat)).ok
    calls = [e.seq async for e in chat.entries() if isinstance(e.event, ModelCalled)]
    seen = [
        e.seq async for e in chat.entries(1, max(calls)) if isinstance(e.event, MessageAdded | ToolReturned)
    ]
    seq = data.draw(st.sampled_from(seen))
    other = await edited(chat, seq, parts=(Text("edited"),))
    for told in (
        (await verdict(other)).divergence,
        (await rehearse(other, lambda: Agent(**setup()))).divergence,
    ):
        assert told is not None
        assert seq in (told.cause_seq, told.seq)


# --- what is drawn ---------------------------------------------------------------------------------------


async def test_what_was_drawn_is_drawn_again() -> None:
    made = iter(range(100))

    async def about(_key: str) -> dict[str, Any]:
        return {"lucky": await current_run().draw("lucky", lambda: next(made))}

    def setup() -> dict[str, Any]:
        return {"model": ScriptedModel([step(("nobody", {})), "done"]), "about": about}

    chat = await run_of(Store.memory(), **setup())
    drawn = [
        e.event.data async for e in chat.entries() if isinstance(e.event, Noted) and "lucky" in e.event.name
    ]
    assert drawn == [0, 1]
    assert (await rehearse(chat, lambda: Agent(**setup()))).ok
    assert next(made) == 2

    async def otherwise(_key: str) -> dict[str, Any]:
        return {"lucky": await current_run().draw("unlucky", lambda: 13)}

    found = await diverged(chat, lambda: Agent(model=ScriptedModel([]), about=otherwise))
    assert (found.field, found.cause) == ("drawn:unlucky", "not recorded")
