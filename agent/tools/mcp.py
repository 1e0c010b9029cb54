"""MCP servers: the tools that they offer, as tools of ours.

    servers = {"time": Stdio("mcp-server-time"), "docs": Http("https://docs.example/mcp", headers={…})}
    async with mcp_tools(servers) as tools:
        agent = Agent(model=model, tools=[*mine, *tools])

A tool is called ``server:tool``; its description and its schema are the server's. What is promised:

- All servers are there when the block begins, or it does not begin: ``ServerFailed`` says which one, and why. When it is left,
  however it is left, no process that was started is left behind.
- Whatever goes wrong with a call is its result. One that is given up (a time-out, a cancelled run) disturbs no other.
- A server that dies is started anew, once for each death. One found dead before a call: the call is then made as usual.
  One that dies under a call: the call is made once more if the server says of the tool that it only reads or may be
  repeated (``readOnlyHint``, ``idempotentHint``); otherwise it has failed, the result says so, and the next one works.
  Of an HTTP server that is gone, only the connection can be opened again.

What a server offers is asked once, at the beginning: that it has changed since (``tools/list_changed``, or after a restart) is
not noticed. Servers can neither ask our model nor our user anything. The client is the ``mcp`` package, an extra.
"""

import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import msgspec

from chatfold.agent.masking import mask
from chatfold.agent.tools import BadArguments, Outcome, Tool, by_name
from chatfold.eventlog import ChatfoldError, Json

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

    from chatfold.agent.tools.mcp_client import Life

__all__ = ["Http", "ServerFailed", "Stdio", "mcp_tools"]


class Stdio:
    """A program to start, spoken to through its standard input and output.

    Of our environment it sees ``PATH``, ``HOME`` and a few more like them, and what ``env`` says. What it writes to its
    standard error goes to ``stderr``, an open file, or to ours.
    """

    back = "died; it was restarted"
    gone = "died, and did not start again"

    def __init__(
        self,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.command = command
        self.args = args
        self.env = dict(env or {})
        self.cwd = cwd
        self.stderr = stderr

    def __repr__(self) -> str:
        return f"Stdio({str(self)!r})"

    def __str__(self) -> str:
        return mask(shlex.join((self.command, *self.args)))


class Http(msgspec.Struct, frozen=True):
    """A server that runs elsewhere, spoken to over streamable HTTP."""

    url: str
    headers: Mapping[str, str] = {}
    silence: float = 300.0  # seconds without a byte after which the connection counts as lost

    back = "was lost; it is connected again"
    gone = "was lost, and cannot be reached again"

    def __repr__(self) -> str:
        return f"Http({str(self)!r})"  # without its headers, which have keys

    def __str__(self) -> str:
        return mask(self.url)


Address: TypeAlias = Stdio | Http


class ServerFailed(ChatfoldError):
    """``server``: its name."""

    def __init__(self, server: str, message: str) -> None:
        self.server = server
        super().__init__(f"the MCP server {server!r} {message}")


@asynccontextmanager
async def mcp_tools(
    servers: Mapping[str, Address], *, start_seconds: float = 30.0
) -> AsyncIterator[list[Tool]]:
    """Starts the servers, or connects to them, side by side; each is given so many seconds, also when started anew."""
    if wrong := [name for name in servers if not name or ":" in name]:
        raise ValueError(f"a server's name is not empty and has no colon: {wrong[0]!r}")
    life = _life()
    held = [_Server(name, at, partial(life, at, start_seconds)) for name, at in servers.items()]
    try:
        tools = [tool for server in held for tool in await server.tools()]
        by_name(tools)
        yield tools
    finally:
        await life.wait_all([server.close() for server in held])


def _life() -> "type[Life]":
    try:
        from chatfold.agent.tools.mcp_client import Life  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise ImportError("MCP servers need the mcp package: pip install 'chatfold[mcp]'") from error
    return Life


class _Server:
    """A server over all its lives."""

    def __init__(self, name: str, at: Address, start: "partial[Life]") -> None:
        self._name = name
        self._at = at
        self._start = start
        self._life = start()
        self._closed = False

    def close(self) -> "Life":
        self._closed = True
        self._life.end()
        return self._life

    async def tools(self) -> list[Tool]:
        if why := await self._life.failure():
            raise ServerFailed(self._name, f"did not start: {self._at}: {why}")
        return [self._tool(listed) for listed in self._life.listed]

    def _tool(self, listed: "Listed") -> Tool:
        hints = listed.annotations
        may_repeat = bool(hints and (hints.read_only_hint or hints.idempotent_hint))
        return Tool(
            f"{self._name}:{listed.name}",
            listed.description or "",
            listed.input_schema,
            partial(self._use, listed.name, may_repeat),
            after_crash="again" if may_repeat else "interrupted",
        )

    async def _use(self, tool: str, may_repeat: bool, args: Json) -> Outcome:
        from chatfold.agent.tools.mcp_client import parts_of  # noqa: PLC0415 (an extra)

        if not isinstance(args, dict | None):
            raise BadArguments(f"Expected `object`, got `{type(args).__name__}`")
        result = await self._call_tool(tool, may_repeat, args or {})
        return Outcome(parts_of(result), bool(result.is_error))

    async def _call_tool(self, tool: str, may_repeat: bool, args: dict[str, Any]) -> "CallToolResult":
        for _ in range(2 if may_repeat else 1):
            life = await self._living()
            try:
                return await life.client.call_tool(tool, args)
            except Exception:
                if await life.goes_on():
                    raise
        await self._living()
        raise ServerFailed(self._name, f"{self._at.back}. Whether the call has done anything is not known")

    async def _living(self) -> "Life":
        """The server's life, a new one if it is over. Calls side by side share it, and what comes of it."""
        if self._closed:
            raise ServerFailed(self._name, "was closed")
        if self._life.over.is_set():
            self._life = self._start(self._life)
        life = self._life
        if why := await life.failure():
            raise ServerFailed(self._name, f"{self._at.gone}: {why}")
        return life
