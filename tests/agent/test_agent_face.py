"""What a new user gives to an agent: plain functions, strings, models of one function; and what is refused at once."""

import asyncio
import inspect
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import chatfold
import chatfold.agent
from chatfold import Agent, ModelReply, ScriptedModel, Store, ToolCall, model_from, tool
from chatfold.agent.tools import Tool


def test_an_agent_has_at_most_twelve_keywords_and_each_is_documented() -> None:
    keywords = [name for name in inspect.signature(Agent.__init__).parameters if name != "self"]
    assert len(keywords) <= 12
    assert all(f"``{name}``" in (Agent.__doc__ or "") for name in keywords)


async def test_a_tool_may_be_a_plain_function_and_a_store_a_string(tmp_path: Path) -> None:
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    model = ScriptedModel([ModelReply(calls=(ToolCall("c1", "double", {"number": 4}),)), "8"])
    async with Agent(model, store=str(tmp_path / "chats"), tools=[double]) as agent:
        result = await agent.run("twice 4?", chat="a")
    assert (result.tool_calls[0].output, result.text) == ("8", "8")
    assert (tmp_path / "chats").is_dir()


def test_a_tool_can_be_called_as_the_function_that_it_was() -> None:
    @tool(after_crash="again")
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    assert double(4) == 8
    assert isinstance(double, Tool)
    assert repr(double).startswith("FunctionTool(name='double', description='Twice the number.'")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"model": "gpt-5"}, "model: expected OpenAIModel"),
        ({"model": ScriptedModel([]), "store": 7}, "store: expected a Store or the place of one, got 7"),
        ({"model": ScriptedModel([]), "tools": ["x"]}, "tools: expected a function or a Tool, got 'x'"),
    ],
)
def test_what_is_no_model_store_or_tool_is_refused_where_it_is_given(
    wrong: dict[str, Any], says: str
) -> None:
    with pytest.raises(TypeError, match=says):
        Agent(**wrong)


class Sdk:
    """An SDK's object, as far as anybody looks at it."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}


async def test_a_function_is_a_model_and_may_answer_with_texts_dicts_and_sdk_objects() -> None:
    def look(at: str) -> str:
        """Looks."""
        return f"saw {at}"

    seen: list[Any] = []
    answers = iter([Sdk(), {"role": "assistant", "content": "there"}, "a text"])

    async def answer(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        seen.append((messages, tools))
        return next(answers)

    async with Agent(model_from(answer), tools=[look]) as agent:
        result = await agent.run("where?", chat="a")
        assert (result.tool_calls[0].output, result.text) == ("saw x", "there")
        assert (await agent.run("and?", chat="a")).text == "a text"
    assert [one["function"]["name"] for one in seen[0][1]] == ["look"]
    assert seen[1][0][-1] == {"role": "tool", "tool_call_id": "c1", "content": "saw x"}


async def test_a_function_that_says_too_long_in_its_own_words_makes_the_run_compact() -> None:
    asked: list[int] = []

    async def answer(messages: list[dict[str, Any]]) -> str:
        size = sum(len(str(message["content"])) for message in messages)
        asked.append(size)
        if size > 6_000:
            raise RuntimeError("context_length_exceeded")
        return "fits"

    async with Agent(model_from(answer)) as agent:
        chat = await agent.store.chat("a")
        for number in range(12):
            await chat.user(f"{number}: " + "so it was. " * 60)
            await chat.assistant("I see.")
        result = await agent.run("now?", chat="a")
    assert (result.outcome, result.text) == ("done", "fits")
    assert asked[0] > 6_000 >= asked[-1]


async def test_a_bug_of_a_function_is_raised() -> None:
    async def answer(_messages: list[dict[str, Any]]) -> str:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        await Agent(model_from(answer)).run("now?", chat="a")


async def test_a_stream_gives_what_happens_and_then_the_result() -> None:
    store = Store.memory()
    model = ScriptedModel([ModelReply(calls=(ToolCall("c1", "look"),)), "there"])

    def look() -> str:
        """Looks."""
        return "seen"

    agent = Agent(model, store=store, tools=[look])
    steps = [step async for step in agent.stream("where?", chat="a")]
    assert [step.type for step in steps] == ["step_finish", "piece", "assistant", "result"]
    assert steps[-1].result is not None
    assert steps[-1].result.text == "there"


async def test_a_stream_that_is_left_stops_the_run() -> None:
    agent = Agent(ScriptedModel(["one"], delay=5))
    with suppress(TimeoutError):
        async with asyncio.timeout(0.1):
            async for _ in agent.stream("where?", chat="a"):
                pass
    await asyncio.sleep(0)
    assert not agent._tasks


def test_the_map_of_the_room_names_every_module() -> None:
    room = Path(chatfold.agent.__file__).parent
    modules = {path.stem for path in room.glob("*.py")} - {"__init__"}
    folders = {f"{path.parent.name}/" for path in room.glob("*/__init__.py")}
    named = set(
        re.findall(r"``([a-z_/]+)``", (chatfold.agent.__doc__ or "").partition("Where a line belongs")[2])
    )
    assert named == modules | folders


def public_parts() -> list[tuple[str, object]]:
    """The public names, and the methods and properties of those that are classes."""
    found: list[tuple[str, object]] = []
    for name in chatfold.__all__:
        one = getattr(chatfold, name)
        found.append((name, one))
        if isinstance(one, type):
            found += [
                (f"{name}.{part}", inspect.getattr_static(one, part))
                for part in dir(one)
                if not part.startswith("_") and callable(getattr(one, part, None))
            ]
    return found


def test_every_public_name_says_what_it_is() -> None:
    own = (
        (name, one.__dict__.get("__doc__") if isinstance(one, type) else inspect.getdoc(one))
        for name, one in public_parts()
    )
    assert [name for name, doc in own if not (doc or "").strip()] == []


@pytest.mark.parametrize("is_dict", [True, False])
async def test_a_function_calls_a_tool_by_the_name_it_was_offered_under(is_dict: bool) -> None:
    """A provider refuses the colon in the name of a tool of an MCP server, so it is offered under another one."""

    async def answer(messages: list[Any], tools: list[Any]) -> Any:
        if messages[-1]["role"] == "tool":
            return messages[-1]["content"]
        name = tools[0]["function"]["name"]
        function = {"name": name, "arguments": "{}"}
        said = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
        return said if is_dict else ModelReply(calls=(ToolCall("c1", name, {}),))

    async def see(_: Any) -> str:
        return "seen"

    look = Tool("pages:look", "Looks.", {"type": "object", "properties": {}}, see)
    async with Agent(model_from(answer), tools=[look]) as agent:
        assert (await agent.run("look", chat="a")).text == "seen"
