"""What a run comes to: its result, what the log says of it, and that each of its requests can be made again and proved."""

import asyncio
from typing import Any

import msgspec
import pytest

from chatfold.agent import (
    CHAT_TOOLS,
    Agent,
    Chat,
    ModelFailed,
    Policy,
    Result,
    Store,
    assistant,
    system,
    user,
)
from chatfold.agent.limits import Limits
from chatfold.agent.models import Line, ModelReply
from chatfold.agent.tools import tool
from chatfold.eventlog import (
    Data,
    File,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Reasoning,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.usage import TokenCounts
from tests.support.acting import OpenAIScript, Paused, are_proved, outcomes, remade, said
from tests.support.agent_runs import Outbox, Steps, agent, events, returned, step
from tests.support.chats import a_store, block  # noqa: F401


@tool
async def look(at: str = "") -> str:
    """Looks."""
    return f"saw {at}"


@tool
async def refuse() -> dict[str, Any]:
    """Refuses."""
    return {"success": False, "error": "not today"}


def sending(*texts: str) -> ModelReply:
    return step(*(("chat_send", {"text": text}) for text in texts))


async def run(store: Store, *script: Line, question: str = "now this", **more: Any) -> Result:
    made, _ = agent(store, script, [look, refuse, *CHAT_TOOLS], **more)
    return await made.run(question, chat="chat")


# --- the result ------------------------------------------------------------------------------------------


async def test_the_text_is_what_the_model_said_last(store: Store) -> None:
    looking = ModelReply((Text("Let me look."),), step(("look", {})).calls)
    result = await run(store, looking, ModelReply((Reasoning("hm"), Text(" It is "), Text("there.\n"))))
    assert (result.text, result.outcome, result.error) == ("It is \nthere.", "done", "")


async def test_the_text_is_rather_what_was_delivered_than_what_the_model_said(store: Store) -> None:
    result = await run(store, sending("first"), sending("second"), "I have told them.", send=Outbox())
    assert result.text == "second"


async def test_a_send_that_failed_delivered_nothing(store: Store) -> None:
    result = await run(store, sending("hello"), "I could not tell them.", send=Outbox(ConnectionError("x")))
    assert (result.text, result.had_tool_failure) == ("I could not tell them.", True)


async def test_what_an_earlier_run_delivered_is_not_the_text_of_this_one(store: Store) -> None:
    await run(store, sending("hello"), "done", send=Outbox())
    assert (await run(store, "and now?")).text == "and now?"


async def test_every_call_of_every_step_is_told_with_what_it_gave(store: Store) -> None:
    steps = step(("look", {"at": "a"}), ("refuse", {})), step(("look", {"at": "b"}), ("nowhere", None))
    result = await run(store, *steps, "done")
    assert [(use.tool, use.args, use.failed) for use in result.tool_calls] == [
        ("look", {"at": "a"}, False),
        ("refuse", {}, True),
        ("look", {"at": "b"}, False),
        ("nowhere", None, True),
    ]
    assert [use.output for use in result.tool_calls][::2] == ["saw a", "saw b"]
    assert "not today" in result.tool_calls[1].output
    assert result.had_tool_failure


async def test_a_run_without_failures_says_so(store: Store) -> None:
    assert not (await run(store, step(("look", {})), "done")).had_tool_failure
    assert not (await run(store, "done")).had_tool_failure


async def test_two_calls_by_the_same_id_have_a_result_each(store: Store) -> None:
    result = await run(store, step(("look", {"at": "a"}), ("refuse", {}), ids=["x", "x"]), "done")
    assert [(use.tool, use.failed) for use in result.tool_calls] == [("look", False), ("refuse", True)]


async def test_usage_adds_up_over_the_steps_with_those_that_failed(store: Store) -> None:
    first = msgspec.structs.replace(step(("look", {})), usage={"input_tokens": 100, "output_tokens": 7})
    last = ModelReply(
        (Text("done"),), usage={"prompt_tokens": 150, "completion_tokens": 5, "cached_tokens": 90}
    )
    result = await run(store, first, ModelFailed("busy", again=True, after=0), last)
    assert result.usage == TokenCounts(calls=3, errors=1, input=250, output=12, cached=90)


async def test_the_run_of_the_result_is_the_one_in_the_log_and_each_has_its_own(store: Store) -> None:
    results = [await run(store, "one"), await run(store, "two")]
    chat = await store.chat("chat")
    runs = [entry.run async for entry in chat.entries() if isinstance(entry.event, RunStarted)]
    assert [result.run for result in results] == runs
    assert len(set(runs)) == 2
    assert [done.request_id for done in await chat.runs()] == runs


async def test_two_messages_in_one_run_have_the_same_result(store: Store) -> None:
    model = Paused()
    made = Agent(model=model, store=store, tools=[look])
    first = asyncio.create_task(made.run("one", chat="chat"))
    question = await model.asked()
    await (await store.chat("chat")).user("two", id="tg-2")
    second = asyncio.create_task(made.run("two", chat="chat", id="tg-2"))
    question.answer(step(("look", {})))
    (await model.asked()).answer("both")
    assert await first == await second
    assert (await first).text == "both"


# --- the log ---------------------------------------------------------------------------------------------


async def test_each_step_is_in_the_log_before_the_next_begins(store: Store) -> None:
    found: list[list[type]] = []

    @tool
    async def peek() -> str:
        """What is in the log."""
        found.append([type(event) for event in await events(await store.chat("chat"), *STORY)])
        return "seen"

    looking = ModelReply((Text("Let me look."),), step(("peek", {})).calls)
    made, _ = agent(store, [looking, "done"], [peek])
    await made.run("now this", chat="chat")
    before = [MessageAdded, RunStarted, ModelCalled, ModelReturned, MessageAdded, ToolCalled]
    assert found == [before]
    after = [ToolReturned, ModelCalled, ModelReturned, MessageAdded, RunFinished]
    chat = await store.chat("chat")
    assert [type(event) for event in await events(chat, *STORY)] == before + after
    entries = [entry async for entry in chat.entries() if isinstance(entry.event, STORY)]
    assert len({entry.run for entry in entries[1:]}) == 1
    assert entries[0].run is None


STORY = (MessageAdded, RunStarted, ModelCalled, ModelReturned, ToolCalled, ToolReturned, RunFinished)


async def test_the_words_and_the_calls_of_an_answer_are_recorded_all_or_none(store: Store) -> None:
    looking = ModelReply((Text("Let me look."),), step(("look", {}), ("refuse", {})).calls)
    await run(store, looking, "done")
    chat = await store.chat("chat")
    replied = (ModelReturned, MessageAdded, ToolCalled)
    batch = [
        entry.batch async for entry in chat.entries() if entry.batch and isinstance(entry.event, replied)
    ]
    assert batch[:4] == ["1/4", "2/4", "3/4", "4/4"]


@pytest.mark.parametrize(
    ("script", "outcome", "says"),
    [
        (["It is there."], "done", ""),
        ([ModelFailed("no credit")], "failed", "no credit"),
        ([step(("look", {}))] * 3, "limit", "no answer within 3 steps"),
    ],
)
async def test_what_a_run_did_is_told_in_a_few_words_however_it_ended(
    store: Store, script: list[Line], outcome: str, says: str
) -> None:
    result = await run(
        store, step(("look", {}), ("refuse", {})), *script, question="Where?", limits=Limits(steps=3)
    )
    assert (result.outcome, says in result.error) == (outcome, True)
    [done] = await (await store.chat("chat")).runs()
    assert (done.request_id, done.outcome, done.user_preview) == (result.run, outcome, "Where?")
    assert says in done.error
    assert done.output_preview == ("It is there." if outcome == "done" else "")
    assert [(use.tool, use.success) for use in done.tool_calls][:2] == [("look", True), ("refuse", False)]
    assert "not today" in done.tool_calls[1].error
    assert done.finished > done.started


async def test_a_cancelled_run_is_told_as_such_with_its_unfinished_call(store: Store) -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        return str(await asyncio.Event().wait())

    made, _ = agent(store, [step(("wait", {}))], [wait])
    task = asyncio.create_task(made.run("Where?", chat="chat"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    chat = await store.chat("chat")
    [done] = await chat.runs()
    assert (done.outcome, [use.success for use in done.tool_calls]) == ("cancelled", [False])
    assert await outcomes(chat) == ["cancelled"]
    assert await chat.open_calls() == []
    assert [event.failed for event in await events(chat, ToolReturned)] == [True]


async def test_a_window_of_runs_is_a_way_of_reading_and_older_ones_are_still_there(store: Store) -> None:
    made, _ = agent(store, [f"{number}" for number in range(5)], [])
    for number in range(5):
        await made.run(f"{number}", chat="chat")
    chat = await store.chat("chat")
    assert [done.output_preview for done in await chat.runs(3)] == ["2", "3", "4"]
    assert len(await chat.runs()) == 5


# --- proved ----------------------------------------------------------------------------------------------


async def test_every_request_can_be_made_again_from_the_log_alone(store: Store) -> None:
    @tool
    async def grow() -> list[Any]:
        """Anything."""
        return [Text("a"), Data("x", {"n": [1, None, 2.5]}), File("image/png", b"\x89PNG")]

    chat = await store.chat("chat")
    await chat.record(system("You are brief."), user("hi", File("text/plain", b"hello")), assistant("ho"))
    await chat.record(*block("old"))
    steps: list[Line] = [
        step(("grow", {}), ("look", {"at": "猫"})),
        ModelFailed("busy", again=True, after=0),
        step(("chat_context_new", {"title": "x"})),
        step(("chat_context_load", {"query": "hi"})),
        step(("chat_load_history", {})),
        ModelReply((Reasoning("hm", "scripted", "m", "sig"), Text("done"))),
        "again",
    ]
    made, model = agent(store, steps, [grow, look, *CHAT_TOOLS], instructions="Be kind.")
    assert (await made.run("one", chat="chat")).outcome == "done"
    assert (await made.run("two", chat="chat")).outcome == "done"
    assert len(model.payloads) == 7
    assert await are_proved(await store.chat("chat"), model)


async def test_a_request_that_failed_can_be_proved_too(store: Store) -> None:
    model = OpenAIScript([ModelFailed("no credit")])
    assert (await Agent(model=model, store=store, tools=[look]).run("one", chat="chat")).outcome == "failed"
    assert await are_proved(await store.chat("chat"), model)


async def test_a_request_that_was_given_up_can_be_proved_too(store: Store) -> None:
    model = Paused()
    task = asyncio.create_task(Agent(model=model, store=store, tools=[look]).run("one", chat="chat"))
    await model.asked()
    task.cancel()
    await asyncio.wait((task,))
    assert await are_proved(await store.chat("chat"), model)


async def test_another_log_gives_another_fingerprint(store: Store) -> None:
    made, model = agent(store, ["one"], [look])
    await made.run("this", chat="chat")
    other, _ = agent(store, ["one"], [look])
    await other.run("that", chat="other")
    [(here, _)] = await remade(await store.chat("chat"), model)
    [(there, _)] = await remade(await store.chat("other"), model)
    assert here != there


async def test_a_prompt_that_was_compacted_on_the_way_can_be_proved(store: Store) -> None:
    made, model = agent(store, ["answer " * 50] * 12, [], policy=Policy(keep=4, budget=1200, summary=200))
    for number in range(12):
        assert (await made.run(f"question {number}", chat="chat")).outcome == "done"
    chat: Chat = await store.chat("chat")
    assert any(message.kind == "summary" for message in await chat.messages())
    assert await are_proved(chat, model)


# --- what is told meanwhile ------------------------------------------------------------------------------


async def test_both_the_agents_and_the_runs_callback_are_told_with_the_run(store: Store) -> None:
    always, once = Steps(), Steps()
    made, _ = agent(store, [step(("look", {"at": "a"})), "done", "again"], [look], on_step=always)
    result = await made.run("one", chat="chat", on_step=once)
    await made.run("two", chat="chat")
    assert [one.type for one in once.told] == ["step_finish", "piece", "assistant"]
    assert always.told[: len(once.told)] == once.told
    assert {one.run for one in once.told} == {result.run}
    assert always.of("assistant") == ["done", "again"]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("when", ["piece", "assistant", "step_finish"])
async def test_a_callback_that_fails_is_noted_and_the_run_goes_on(store: Store, kind: str, when: str) -> None:
    def fails(one: Any) -> None:
        if one.type == when:
            raise RuntimeError("the screen is gone")

    async def fails_later(one: Any) -> None:
        await asyncio.sleep(0)
        fails(one)

    heard = Steps()
    made, _ = agent(store, [step(("look", {}), ("look", {})), "done"], [look], on_step=heard)
    result = await made.run("one", chat="chat", on_step=fails if kind == "sync" else fails_later)
    assert (result.outcome, result.text, result.had_tool_failure) == ("done", "done", False)
    assert heard.of("assistant") == ["done"]
    assert len(heard.of("step_finish")) == 2
    chat = await store.chat("chat")
    assert "the screen is gone" in str([entry.event async for entry in chat.entries()])
    assert (len(await returned(chat)), await said(chat, "assistant")) == (2, ["done"])


async def test_a_callback_that_fails_for_two_tools_at_once_does_not_end_the_run(store: Store) -> None:
    both = asyncio.Barrier(2)

    async def fails(one: Any) -> None:
        if one.type == "step_finish":
            await both.wait()
            raise KeyError("the screen is gone")

    made, _ = agent(store, [step(("look", {}), ("look", {})), "done"], [look])
    result = await made.run("one", chat="chat", on_step=fails)
    assert (result.outcome, result.text) == ("done", "done")
