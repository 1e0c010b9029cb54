"""An agent in a process of its own: answers a question with the help of a slow tool, and says when the tool was at work.

answering FOLDER KEY TEXT
"""

import asyncio
import sys
import time

from chatfold.agent import Agent, ModelReply, ScriptedModel, ToolCall, tool
from tests.support.processes.children import ready, tell, wait_for_go


@tool(after_crash="again")
async def work() -> str:
    """Takes a while."""
    tell("began", time.monotonic_ns())
    await asyncio.sleep(0.1)
    tell("ended", time.monotonic_ns())
    return "done"


async def main(folder: str, key: str, text: str) -> None:
    wait_for_go()
    model = ScriptedModel([ModelReply(calls=(ToolCall(f"call of {text}", "work"),)), f"answer to {text}"] * 2)
    async with Agent(model=model, tools=[work], store=folder) as agent:
        result = await agent.run(text, chat=key)
        tell("answered", result.run, result.outcome)


if __name__ == "__main__":
    ready()
    asyncio.run(main(*sys.argv[1:]))
