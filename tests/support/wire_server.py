"""A server that speaks the providers' wire formats, for the tests of the adapters: real sockets, awkward on purpose.

    async with serving(Reply.sse(openai_chunks(…)), Reply.error(429, {…})) as server:
        OpenAIModel("m", base_url=server.url, api_key="k")

It gives the replies one after the other and remembers the ``requests``. A body is sent in pieces of the ``sizes``, over
and over: so lines, and characters, are torn.
"""

# ruff: noqa: PLC0414 (the rules are passed on)

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Literal

import pytest

from chatfold.agent.models import Model, ModelFailed, ModelReply, Piece, Request, ToolSpec
from chatfold.agent.tools import Tool, tool
from chatfold.eventlog import Entry, ModelCalled, ModelReturned, Text, ToolCalled
from chatfold.projections import Message
from tests.projections.test_validity import histories as histories
from tests.projections.test_validity import prompted as prompted
from tests.support.oracles.rules import anthropic_types_accept as anthropic_types_accept
from tests.support.oracles.rules import check_anthropic as check_anthropic
from tests.support.oracles.rules import check_openai_chat as check_openai_chat
from tests.support.oracles.rules import openai_types_accept as openai_types_accept

AWKWARD = (1, 2, 3, 5, 7, 1, 64)


@dataclass
class Reply:
    """``end``: whole, or after ``cut`` bytes the connection is closed, or nothing more is said; mute: nothing at all."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    end: Literal["whole", "closed", "silent", "mute"] = "whole"
    cut: int | None = None
    sizes: Sequence[int] = (4096,)

    @classmethod
    def sse(cls, body: bytes, **more: Any) -> "Reply":
        return cls(body, headers={"content-type": "text/event-stream; charset=utf-8"}, **more)

    @classmethod
    def error(cls, status: int, body: Any, **headers: str) -> "Reply":
        kind = {"content-type": "application/json"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(json.dumps(body).encode(), status, kind | named)


class Server:
    def __init__(self, replies: Iterable[Reply]) -> None:
        self.requests: list[dict[str, Any]] = []  # the bodies
        self.paths: list[str] = []
        self.url = ""
        self.left = asyncio.Event()  # the client went away while it was being answered
        self._replies = iter(replies)
        self._open: dict[asyncio.StreamWriter, asyncio.Event] = {}  # connections, and when they end

    @property
    def host(self) -> str:
        """What the base URL of Anthropic's package is."""
        return self.url.removesuffix("/v1")

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = asyncio.Event()
        try:
            while await self._request(reader):
                if not await self._reply(next(self._replies), reader, writer):
                    break
        except ConnectionError:
            self.left.set()
        finally:
            writer.close()
            self._open.pop(writer).set()

    async def _request(self, reader: asyncio.StreamReader) -> bool:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return False
        lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.paths.append(lines[0].split(" ")[1])
        self.requests.append(json.loads(await reader.readexactly(int(headers["content-length"]))))
        return True

    async def _reply(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if reply.end != "mute":
            await self._say(reply, writer)
        if reply.end in ("silent", "mute"):
            await reader.read()  # returns when the client closes
            self.left.set()
        elif reply.end == "whole":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return reply.end == "whole"

    async def _say(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        headers = {**reply.headers, "transfer-encoding": "chunked"}
        lines = [f"HTTP/1.1 {reply.status} Status", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for piece in _torn(reply.body[: reply.cut], reply.sizes):
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()

    async def close(self) -> None:
        for writer, ended in [*self._open.items()]:
            writer.transport.abort()
            await ended.wait()


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[Server]:
    server = Server(replies)
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()
        await server.close()
        await listening.wait_closed()


def _torn(body: bytes, sizes: Sequence[int]) -> Iterable[bytes]:
    start = 0
    for size in cycle(sizes):
        if start >= len(body):
            return
        yield body[start : start + size]
        start += size


# --- the formats -----------------------------------------------------------------------------------------


def data(*values: Any, done: bool = True) -> bytes:
    """As OpenAI writes events."""
    lines = [f"data: {json.dumps(value, ensure_ascii=False)}\n\n" for value in values]
    return "".join([": a comment\n\n", *lines, "data: [DONE]\n\n" if done else ""]).encode()


def chunk(*, stop: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": stop}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def spent(**usage: Any) -> dict[str, Any]:
    return {**chunk(), "choices": [], "usage": usage}


def events(*values: Any) -> bytes:
    """As Anthropic writes them."""
    lines = [f"event: {v['type']}\ndata: {json.dumps(v, ensure_ascii=False)}\n\n" for v in values]
    return "".join(lines).encode()


def begun(**usage: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    return {"type": "message_start", "message": {**message, "usage": {"input_tokens": 9, **usage}}}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    first = {"type": "content_block_start", "index": index, "content_block": start}
    between = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [first, {"type": "ping"}, *between, {"type": "content_block_stop", "index": index}]


def ended(stop: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    delta = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7, **usage}}
    return [delta, {"type": "message_stop"}]


# --- what is asked and heard -----------------------------------------------------------------------------


def asking(text: str = "Why?", *tools: ToolSpec, system: str = "Be brief.") -> Request:
    return Request(system, (Message("user", (1,), (Text(text),)),), tools)


def offered(*names: str) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(name, f"does {name}", {"type": "object", "properties": {}}) for name in names)


async def heard(model: Model, request: Request) -> tuple[list[Piece], ModelReply]:
    """The pieces and the answer, which comes last."""
    *pieces, answer = [one async for one in model.ask(model.payload(request))]
    assert isinstance(answer, ModelReply)
    assert all(isinstance(piece, Piece) for piece in pieces)
    return pieces, answer  # type: ignore[return-value]


async def failure(model: Model, request: Request) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await heard(model, request)
    return caught.value


async def left_alone(model: Model, how: str) -> None:
    """Nobody waits for the answer any more: it is cancelled before or after it begins, or the iterator is closed."""
    stream = model.ask(model.payload(asking()))
    if how != "unanswered":
        assert await anext(stream) == Piece("Hel")
    if how == "closed":
        await stream.aclose()  # type: ignore[attr-defined]
        return
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def counting() -> tuple[Tool, list[str]]:
    """A tool of a name that no provider takes, and the arguments it was called with."""
    used: list[str] = []

    @tool(name="files:read.text")
    def read(path: str) -> str:
        """Reads."""
        used.append(path)
        return f"{path} drops newlines"

    return read, used


def story(entries: Iterable[Entry]) -> list[str]:
    """What the model was asked, answered and failed with, and what it called, in a word each."""
    told = []
    for entry in entries:
        match entry.event:
            case ModelCalled():
                told.append("asked")
            case ModelReturned(error="", stop=stop):
                told.append(stop)
            case ModelReturned(meta=meta):
                told.append(f"again: {meta.get('retry')}")
            case ToolCalled(name=name):
                told.append(name)
    return told
