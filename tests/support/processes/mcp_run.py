"""A process that answers a message with a tool of an MCP server, and is ended after one of its events.

    mcp_run FOLDER SIGNAL NTH      run; the signal comes after event NTH was recorded, and is not sent if NTH is 0
    mcp_run FOLDER                 resume_all

FOLDER holds ``store``, and ``deeds``: a line for each execution of the tool, which the server wrote.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

from chatfold import Agent, Store, model_from
from chatfold.agent.limits import Limits
from chatfold.agent.tools.mcp import Stdio, mcp_tools

CHAT, QUESTION = "chat", "what is due?"


async def serve(deeds: Path) -> None:
    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        schema = {"type": "object", "properties": {"page": {"type": "integer"}}}
        return ListToolsResult(tools=[Tool(name="look", description="Looks.", input_schema=schema)])

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        with deeds.open("a") as file:
            file.write("look\n")
        return CallToolResult(content=[TextContent(text="42 euros")])

    server = Server("pages", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
    """Looks first, then says what it found."""
    if any(one["role"] == "tool" for one in messages):
        return "It is done."
    call = {"name": tools[0]["function"]["name"], "arguments": '{"page": 3}'}
    return {"role": "assistant", "tool_calls": [{"id": "call-1", "type": "function", "function": call}]}


async def main(folder: Path, number: int = 0, nth: int = 0) -> None:
    pages = Stdio(sys.executable, "-m", "tests.support.processes.mcp_run", "serve", str(folder / "deeds"))
    async with Store(folder / "store") as store, mcp_tools({"pages": pages}) as tools:
        if nth:
            _end_after(store, number, nth)
        async with Agent(model_from(reply), store=store, tools=tools, limits=Limits(grace=2)) as agent:
            if number:
                result = await agent.run(QUESTION, chat=CHAT, id="tg-1")
                sys.stdout.write(f"{result.outcome}\n")
            else:
                await agent.resume_all()


def _end_after(store: Store, number: int, nth: int) -> None:
    append, left = store.log.append, nth

    async def counted(*args: Any, **how: Any) -> Any:
        nonlocal left
        entries = await append(*args, **how)
        left -= len(entries)
        if left <= 0 < left + len(entries):
            os.kill(os.getpid(), number)
        return entries

    store.log.append = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(Path(sys.argv[2])))
    else:
        asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
