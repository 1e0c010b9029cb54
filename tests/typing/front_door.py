"""What a type checker must see of the front door: late names have their types. Checked in CI by mypy and pyright, never run."""

from typing import Literal, assert_type

import chatfold
from chatfold import Agent, Chat, Entry, Result, ScriptedModel, Step, Store, events, tool


async def keep() -> None:
    async with Store.memory() as store:
        chat = await store.chat("a")
        assert_type(chat, Chat)
        assert_type(await chat.user("hi"), Entry)
        await chat.record(events.Noted("rating", 5))
    _ = chatfold.Sotre  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def answer() -> None:
    async with Agent(model=ScriptedModel(["hello"])) as agent:
        assert_type(await agent.run("hi", chat="a"), Result)
        result = await agent.run("hi", chat="a")
        assert_type(result.outcome, Literal["", "done", "failed", "cancelled", "limit"])
        async for step in agent.stream("go on"):
            assert_type(step, Step)
        assert_type(await agent.submit("by the way"), Entry)
        assert_type(await agent.resume("a"), Result | None)
        Agent("gpt-5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@tool
async def read_file(path: str, most: int = 10) -> str:
    """The beginning of a file."""
    return path[:most]


@tool(after_crash="again")
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


async def use() -> None:
    """What a tool was made of can be called as before, with its own signature."""
    assert_type(await read_file("lexer.py", most=3), str)
    assert_type(double(4), int)
    double("four")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Agent(ScriptedModel([]), tools=[read_file, double, len])
