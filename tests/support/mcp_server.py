"""A small MCP server for what well-behaved ones do not do: die, dawdle, send pictures, say that they failed.

    python mcp_server.py            over standard input and output
    python mcp_server.py 8765       over HTTP, at that port

``ONLY_IF_MISSING=<path>`` in the environment: it does not start when there is such a file. ``TWICE=1``: all tools twice.
"""

import asyncio
import base64
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

PIXEL = b"\x89PNG\r\n\x1a\n\x00\x01"
Content = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


def told(*content: Content | str, structured: Any = None, is_error: bool = False) -> CallToolResult:
    blocks = [TextContent(text=one) if isinstance(one, str) else one for one in content]
    return CallToolResult(content=blocks, structured_content=structured, is_error=is_error)


async def pid(args: dict[str, Any]) -> CallToolResult:
    return told(str(os.getpid()))


async def echo(args: dict[str, Any]) -> CallToolResult:
    return told(structured=args)


async def environment(args: dict[str, Any]) -> CallToolResult:
    return told(os.environ.get(args["name"], "not there"), str(Path.cwd()))


async def sleep(args: dict[str, Any]) -> CallToolResult:
    await asyncio.sleep(args["seconds"])
    return told("awake")


async def die(args: dict[str, Any]) -> CallToolResult:
    """Once, if there is a path: that it is done is written there."""
    if is_marked(args.get("once")):
        return told(str(os.getpid()))
    os._exit(7)


async def hang_up(args: dict[str, Any]) -> CallToolResult:
    """Says and hears nothing any more, but is not dead."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.closerange(0, 2)
    os.closerange(3, 256)
    time.sleep(60)  # noqa: ASYNC251
    os._exit(8)


def is_marked(path: str | None) -> bool:
    try:
        if path is not None:
            Path(path).touch(exist_ok=False)
    except FileExistsError:
        return True
    return False


async def mix(args: dict[str, Any]) -> CallToolResult:
    data = base64.b64encode(PIXEL).decode()
    return told(
        "a picture:",
        ImageContent(data=data, mime_type="image/png"),
        AudioContent(data=data, mime_type="audio/wav"),
        EmbeddedResource(resource=TextResourceContents(uri="note://1", text="a note")),
        EmbeddedResource(resource=BlobResourceContents(uri="note://2", blob=data)),
        ResourceLink(
            name="readme", uri="file:///readme.md", description="Read it", mime_type="text/markdown"
        ),
    )


async def shapes(args: dict[str, Any]) -> CallToolResult:
    return told(*args["texts"], structured=args["structured"])


async def deep(args: dict[str, Any]) -> CallToolResult:
    value: Any = 1
    for _ in range(150):
        value = [value]
    return told(structured={"result": value})


async def fail(args: dict[str, Any]) -> CallToolResult:
    return told("out of paper", ImageContent(data="AAAA", mime_type="image/png"), is_error=True)


async def refuse(args: dict[str, Any]) -> CallToolResult:
    raise MCPError(code=-32000, message="not today")  # the code that the client has for a closed connection


async def nothing(args: dict[str, Any]) -> CallToolResult:
    return told()


TOOLS: list[Callable[[dict[str, Any]], Awaitable[CallToolResult]]] = [
    pid,
    echo,
    environment,
    sleep,
    die,
    hang_up,
    mix,
    shapes,
    deep,
    fail,
    refuse,
    nothing,
]
BY_NAME = {function.__name__: function for function in TOOLS} | {"die_reading": die}
READS = {"pid": ToolAnnotations(read_only_hint=True), "die_reading": ToolAnnotations(idempotent_hint=True)}
LISTED = [
    Tool(name=name, input_schema={"type": "object"}, annotations=READS.get(name))
    for name in [*BY_NAME] * (2 if os.environ.get("TWICE") else 1)
]


async def list_tools(ctx: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
    """Five on a page."""
    first = int((params.cursor if params else None) or 0)
    more = str(first + 5) if first + 5 < len(LISTED) else None
    return ListToolsResult(tools=LISTED[first : first + 5], next_cursor=more)


async def call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
    if params.name == "echo" and ctx.request is not None:
        return told(ctx.request.headers.get("authorization", "nobody"))
    return await BY_NAME[params.name](params.arguments or {})


async def over_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    if Path(os.environ.get("ONLY_IF_MISSING", "/nowhere")).exists():
        sys.exit("not again")
    server = Server[Any]("odd", on_list_tools=list_tools, on_call_tool=call_tool)
    if len(sys.argv) > 1:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), port=int(sys.argv[1]), log_level="error")
    else:
        asyncio.run(over_stdio(server))


if __name__ == "__main__":
    main()
