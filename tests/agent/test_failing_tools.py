"""Whatever a tool does is a result: it raises, hangs, floods, gives what no log can hold; the run goes on."""

import asyncio
import threading
from typing import Any

import pytest

from chatfold.agent import Store
from chatfold.agent.limits import Limits
from chatfold.agent.tools import Tool, tool
from chatfold.eventlog import Text, ToolCalled, ToolReturned
from tests.support.acting import counted, is_whole
from tests.support.agent_runs import agent, events, returned, step
from tests.support.chats import a_store  # noqa: F401


@tool
async def fall() -> str:
    """Raises."""
    raise ValueError("no such thing")


@tool
def fall_in_a_thread() -> str:
    """Raises."""
    raise ValueError("no such thing")


@tool
async def fall_together() -> str:
    """Raises two at once."""
    raise ExceptionGroup("many", [ValueError("no such thing"), KeyError("x")])


@tool
async def break_the_log() -> Any:
    """Gives what no log can hold."""
    return {1: "no such thing", None: 2}


@tool
async def not_a_part() -> Any:
    """Gives a part that is none."""
    return Text(5)  # type: ignore[arg-type]


@tool
async def give_up() -> str:
    """Waits for something that was cancelled: how libraries tell of it."""
    waited: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waited.cancel()
    return await waited


FALLING = (fall, fall_in_a_thread, fall_together, break_the_log, not_a_part, give_up)


@pytest.mark.parametrize("falls", FALLING, ids=lambda one: one.name)
async def test_whatever_a_tool_does_is_a_failed_result_and_the_run_goes_on(store: Store, falls: Tool) -> None:
    act, done = counted()
    made, model = agent(store, [step((falls.name, {}), ("act", {"what": "a"})), "done"], [falls, act])
    result = await made.run("now this", chat="chat")
    assert (result.outcome, result.text, done) == ("done", "done", ["a"])
    assert [(use.tool, use.failed) for use in result.tool_calls] == [(falls.name, True), ("act", False)]
    assert is_whole(model.payloads[1])
    assert len(await events(await store.chat("chat"), ToolReturned)) == 2


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"what": [1, 2]}, "Expected `str`, got `array` - at `$.what`"),
        ({"where": "here"}, "unknown field `where`"),
        ([1], "Expected `object`, got `array`"),
        ("not JSON {", "Expected `object`, got `str`"),
    ],
)
async def test_arguments_that_do_not_fit_are_told_and_the_tool_is_not_run(
    store: Store, args: Any, says: str
) -> None:
    act, done = counted()
    made, _ = agent(store, [step(("act", args)), "done"], [act])
    result = await made.run("now this", chat="chat")
    assert done == []
    assert (result.outcome, result.had_tool_failure) == ("done", True)
    assert says in result.tool_calls[0].output
    [called] = await events(await store.chat("chat"), ToolCalled)
    assert called.args == args  # as the model gave them


async def test_a_tool_that_there_is_not_is_told_with_those_there_are(store: Store) -> None:
    act, _ = counted()
    made, _ = agent(store, [step(("../act", {})), "done"], [act, fall])
    await made.run("now this", chat="chat")
    [told] = await returned(await store.chat("chat"))
    assert "'../act'" in told
    assert "act, fall" in told


@pytest.mark.parametrize("own", [True, False])
async def test_a_tool_that_takes_too_long_is_given_up_and_the_others_are_not(store: Store, own: bool) -> None:
    given_up = asyncio.Event()

    @tool(timeout=0.5 if own else None)
    async def wait() -> str:
        """Never returns."""
        try:
            return str(await asyncio.Event().wait())
        finally:
            given_up.set()

    act, done = counted()
    seconds = 30.0 if own else 0.5
    made, _ = agent(
        store, [step(("wait", {}), ("act", {})), "done"], [wait, act], limits=Limits(tool_seconds=seconds)
    )
    result = await made.run("now this", chat="chat")
    assert given_up.is_set()
    assert result.tool_calls[0].output == "TimeoutError: no result within 0.5 s"
    assert (result.outcome, done) == ("done", [""])


async def test_a_time_out_of_the_tools_own_is_not_taken_for_ours(store: Store) -> None:
    @tool
    async def ask_elsewhere() -> str:
        """Raises."""
        raise TimeoutError("the other server is slow")

    made, _ = agent(store, [step(("ask_elsewhere", {})), "done"], [ask_elsewhere])
    result = await made.run("now this", chat="chat")
    assert result.tool_calls[0].output == "TimeoutError: the other server is slow"


@pytest.mark.parametrize("shape", [str, lambda text: {"text": text}, lambda text: [text, text]])
async def test_of_a_flood_the_model_is_shown_the_beginning_and_the_end_and_the_log_has_all(
    store: Store, shape: Any
) -> None:
    @tool
    async def flood() -> Any:
        """A lot."""
        return shape("a" * 3000 + "b" * 10**6 + "c" * 3000)

    made, model = agent(store, [step(("flood", {})), "done"], [flood], limits=Limits(tool_output=1000))
    result = await made.run("now this", chat="chat")
    [use] = result.tool_calls
    assert use.output.count("b") == 10**6 * use.output.count("a" * 3000)
    told = str(model.payloads[1]["messages"])
    assert ("aaaa" in told, "cccc" in told, "characters left out" in told) == (True, True, True)
    assert len(told) < 3000


async def test_tools_of_a_step_run_side_by_side_and_sync_ones_on_threads(store: Store) -> None:
    meet = threading.Barrier(2, timeout=20)

    @tool
    def one() -> int:
        """Waits for the other."""
        return meet.wait()

    made, _ = agent(store, [step(("one", {}), ("one", {})), "done"], [one])
    result = await made.run("now this", chat="chat")
    assert sorted(use.output for use in result.tool_calls) == ["0", "1"]
