"""What the ``mcp`` package is needed for: one life of a server, and what it answers to a call, as parts.

A task of its own opens the session, holds it and closes it: the client's context managers must be left by the task that entered
them. Calls are made from any task. Only this module imports ``mcp``, and nothing imports it before a server is needed.
"""

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

import anyio
import httpx2
import msgspec
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)

from chatfold.agent.tools.mcp import Address, Http, Stdio
from chatfold.eventlog import Data, File, Json, Part, Text

GOODBYE = 15.0
"""Seconds for closing a session. To end a process takes half of it, at most; what is longer is a server far away."""

PROBE = 5.0
"""Seconds after which a server that does not answer counts as busy."""

MOST_BYTES = 64 * 2**20
"""In one message over HTTP."""


class Life:
    def __init__(self, at: Address, seconds: float, before: "Life | None" = None) -> None:
        self.over = asyncio.Event()  # the server is dead, or shall be
        self.client: Client
        self.listed: list[Tool] = []
        self._answered = False
        self._why = "it was closed"
        self._ready = asyncio.Event()  # the server answers, or never will
        self.task = asyncio.create_task(self._live(at, seconds, before))

    async def failure(self) -> str:
        """Why it never answered; empty if it did."""
        await self._ready.wait()
        return "" if self._answered else self._why

    async def goes_on(self) -> bool:
        """Asked after a call has failed: a session that cannot even list its tools is over."""
        if not self.over.is_set():
            try:
                async with asyncio.timeout(PROBE):
                    await self.client.list_tools()
            except TimeoutError:
                pass
            except Exception:  # noqa: BLE001 (any error means that the session is over)
                self.over.set()
        return not self.over.is_set()

    def end(self) -> None:
        """Without waiting for it. One that is just being opened is cancelled, one that is being closed must not be."""
        if not (self._ready.is_set() or self.over.is_set()):
            self.task.cancel()
        self.over.set()

    @staticmethod
    async def wait_all(lives: Iterable["Life"]) -> None:
        """Waits for it also if cancelled meanwhile, so that no process is left; it takes a few seconds at most."""
        tasks = [life.task for life in lives]
        cancelled: asyncio.CancelledError | None = None
        while running := [task for task in tasks if not task.done()]:
            try:
                await asyncio.wait(running)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _live(self, at: Address, seconds: float, before: "Life | None") -> None:
        try:
            if before is not None:
                await self.wait_all([before])
            async with asyncio.timeout(seconds) as limit:
                await self._hold(at, limit)
        except TimeoutError:
            self._why = f"no answer within {seconds:g} s"
        except Exception as error:  # noqa: BLE001 (of the server, the transport or the client)
            self._why = _describe(error)
        finally:
            self.over.set()
            self._ready.set()

    async def _hold(self, at: Address, limit: asyncio.Timeout) -> None:
        async with _connect(at, self.over) as client:
            self.client = client
            self.listed = await _list_tools(client)
            limit.reschedule(None)
            self._answered = True
            self._ready.set()
            await self.over.wait()
            limit.reschedule(asyncio.get_running_loop().time() + GOODBYE)


async def _list_tools(client: Client) -> list[Tool]:
    """All pages. One that never ends is ended by the time limit."""
    page = await client.list_tools()
    tools = page.tools
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools = tools + page.tools
    return tools


def _describe(error: BaseException) -> str:
    """The cause of a group of errors: rather the transport's than the client's, which only says that it is closed."""
    leaves = _leaves(error)
    cause = next((leaf for leaf in leaves if not isinstance(leaf, MCPError)), leaves[0])
    if isinstance(cause, MCPError):
        return f"{cause.message} (it may have said more on its standard error)"
    return f"{type(cause).__name__}: {cause}"


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


# --- transports ------------------------------------------------------------------------------------------


def _connect(at: Address, over: asyncio.Event) -> AbstractAsyncContextManager[Client]:
    return _over_http(at) if isinstance(at, Http) else _over_stdio(at, over)


@asynccontextmanager
async def _over_http(at: Http) -> AsyncIterator[Client]:
    timeout = httpx2.Timeout(30.0, read=at.silence)
    async with httpx2.AsyncClient(headers=dict(at.headers), timeout=timeout) as http:
        transport = streamable_http_client(at.url, http_client=http, max_sse_event_size=MOST_BYTES)
        async with Client(transport, cache=None) as client:
            yield client


@asynccontextmanager
async def _over_stdio(at: Stdio, over: asyncio.Event) -> AsyncIterator[Client]:
    program = StdioServerParameters(command=at.command, args=list(at.args), env=at.env, cwd=at.cwd)
    stderr = at.stderr or cast("Any", sys.__stderr__)
    async with Client(_watch(stdio_client(program, stderr), over), cache=None) as client:
        yield client


@asynccontextmanager
async def _watch(transport: AbstractAsyncContextManager[Any], over: asyncio.Event) -> AsyncIterator[Any]:
    async with transport as (messages, write):
        try:
            yield _Messages(messages, over), write
        finally:
            over.set()


class _Messages:
    """What a process says. When it says no more, its life is over."""

    def __init__(self, messages: Any, over: asyncio.Event) -> None:
        self._messages = messages
        self._over = over

    async def receive(self) -> Any:
        try:
            return await self._messages.receive()
        except anyio.EndOfStream:
            self._over.set()
            raise

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        await self._messages.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


# --- results -----------------------------------------------------------------------------------------------


def parts_of(result: CallToolResult) -> tuple[Part, ...]:
    """What a server answers to a call.

    text, or a resource's text      Text
    image, audio, a resource's bytes    File
    a link to a resource            Text: its name, where it is, and what it is
    structured content              Data, unless a text says the same
    """
    parts = [_part(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not _says(parts, structured):
        parts.append(Data("json", structured))
    return tuple(parts)


def _part(block: ContentBlock) -> Part:
    match block:
        case TextContent(text=text) | EmbeddedResource(resource=TextResourceContents(text=text)):
            return Text(text)
        case ImageContent(data=data, mime_type=kind) | AudioContent(data=data, mime_type=kind):
            return File(kind, base64.b64decode(data))
        case EmbeddedResource(resource=BlobResourceContents(blob=data, mime_type=kind, uri=uri)):
            return File(kind or "application/octet-stream", base64.b64decode(data), name=uri)
        case ResourceLink():
            about = (block.description, block.mime_type)
            return Text("\n".join([f"{block.title or block.name}: {block.uri}", *filter(None, about)]))
    return Text(str(block))


def _says(parts: Iterable[Part], structured: Json) -> bool:
    """Servers put what is no object into one, as its ``result``, and a list into one text an item."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    values = [_decode(text) for text in texts]
    said: list[Any] = [*texts, *values, texts, values]
    wrapped = isinstance(structured, dict) and structured.keys() == {"result"}
    return structured in said or (wrapped and structured["result"] in said)


def _decode(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
