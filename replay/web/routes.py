"""Routes: which address gives what. Everything below ``/api/v1`` is JSON with ``"v": 1``, by the serialiser of the command, but for the
columns, which are bytes, and the tail, which are server-sent events. A chat is named by ``?chat=``: its key may hold anything.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from chatfold.eventlog import NoSuchPoint
from chatfold.replay.inspect.address import point
from chatfold.replay.inspect.listing import list_rows
from chatfold.replay.inspect.points import seq_of
from chatfold.replay.inspect.serial import json_object
from chatfold.replay.web import answers, questions
from chatfold.replay.web.columns import KINDS
from chatfold.replay.web.desk import Desk, OpenChat
from chatfold.replay.web.errors import EXPECTED, problem
from chatfold.replay.web.files import read_files
from chatfold.replay.web.lines import lines
from chatfold.replay.web.live import tail
from chatfold.replay.web.sparks import spark

_CHUNK = 0.25  # seconds of reading before a part of the columns is given
_PART = 1 << 17  # entries of which columns are given at once: 2 MB


def make_app(desk: Desk, ended: asyncio.Event, *, writes: bool = False) -> Starlette:
    """``ended``: set when the server ends, so that no stream keeps it."""
    api = _Api(desk, ended, writes=writes)
    asked: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "store": api.store,
        "chats": api.chats,
        "spark": api.spark,
        "chat": api.chat,
        "sight": api.sight,
        "columns": api.columns,
        "lines": api.lines,
        "event": api.event,
        "request": api.request,
        "difference": api.difference,
        "why": api.why,
        "tree": api.tree,
        "verdict": api.verdict,
        "search": api.search,
        "point": api.point,
        "tail": api.tail,
    }
    files = read_files()
    static = f"/static/{files.version}"
    return Starlette(
        routes=[
            *(Route(f"/api/v1/{name}", endpoint, methods=["GET"]) for name, endpoint in asked.items()),
            Route("/api/v1/fork", api.fork, methods=["POST"]),
            Route(f"{static}/page.js", _file(files.script, "text/javascript")),
            Route(f"{static}/page.css", _file(files.style, "text/css")),
            Route(f"{static}/icon.svg", _file(files.icon, "image/svg+xml")),
            Route("/favicon.ico", _file(files.icon, "image/svg+xml")),
            Route("/", _file(files.home, "text/html", is_kept=False)),
            Route("/c/{key:path}", _file(files.page, "text/html", is_kept=False)),
        ],
        exception_handlers=dict.fromkeys(EXPECTED, _answer_error),
    )


def _file(text: str, kind: str, *, is_kept: bool = True) -> Callable[[Request], Awaitable[Response]]:
    """What stands below the version of its contents never changes."""
    data, cache = text.encode(), "private, max-age=31536000, immutable" if is_kept else "no-cache"

    async def answer(_: Request) -> Response:
        return Response(data, media_type=kind, headers={"cache-control": cache})

    return answer


async def _answer_error(_: Request, error: Exception) -> Response:
    status, value = problem(error)
    return _json(value, status)


def _json(value: Any, status: int = 200) -> Response:
    text = json_object(value)
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="application/json")


def _answer(name: str, value: Any) -> Response:
    return _json({name: value})


class _Api:
    def __init__(self, desk: Desk, ended: asyncio.Event, *, writes: bool) -> None:
        self._desk = desk
        self._ended = ended
        self._writes = writes

    # --- the store ---------------------------------------------------------------------------------------

    async def store(self, _: Request) -> Response:
        return _json(
            {"name": self._desk.name, "only": self._desk.only, "writes": self._writes, "kinds": KINDS}
        )

    async def chats(self, _: Request) -> Response:
        return _answer("chats", await list_rows(self._desk.store))

    async def spark(self, request: Request) -> Response:
        return _answer("spark", await spark(await self._chat(request)))

    async def search(self, request: Request) -> Response:
        query = request.query_params.get("q", "")
        kinds = frozenset(filter(None, request.query_params.get("kinds", "").split(",")))
        found = questions.search(self._desk, query, kinds, request.query_params.get("only", ""))
        first = await anext(found, None)  # what cannot be asked is refused before anything is streamed

        async def pieces() -> AsyncIterator[bytes]:
            if first is not None:
                yield _piece(first)
                async for one in found:
                    yield _piece(one)

        return StreamingResponse(pieces(), media_type="application/x-ndjson")

    # --- one chat ----------------------------------------------------------------------------------------

    async def _chat(self, request: Request, name: str = "chat") -> OpenChat:
        return await self._desk.chat(request.query_params.get(name, ""))

    async def chat(self, request: Request) -> Response:
        chat = await self._chat(request)
        await chat.refresh()
        return _answer("chat", answers.chat_info(chat.replay.chat))

    async def sight(self, request: Request) -> Response:
        chat = await self._chat(request)
        await chat.refresh()
        return _answer("sight", await chat.sight())

    async def columns(self, request: Request) -> Response:
        """From ``first`` on, as many as there are after a quarter of a second, or a part; ``x-end``: how many there will be."""
        chat = await self._chat(request)
        first = max(1, _number(request, "first", 1))
        columns = await chat.read_on(seconds=_CHUNK)
        headers = {"x-end": str(chat.end)}
        return Response(
            columns.pack(first, first - 1 + _PART), media_type="application/octet-stream", headers=headers
        )

    async def lines(self, request: Request) -> Response:
        chat = await self._chat(request)
        first, last = _number(request, "first", 1), _number(request, "last", 1)
        if last > chat.end:
            await chat.refresh()
        return _answer("lines", await lines(await chat.replay.chat.now(), first, last))

    async def event(self, request: Request) -> Response:
        chat = await self._chat(request)
        seq = await self._seq(request, chat)
        if not seq:
            raise NoSuchPoint("before the first entry there is nothing to show", chat=chat.key)
        whole = "whole" in request.query_params
        return _answer("event", await answers.event_at(chat.replay.chat, seq, whole=whole))

    async def request(self, request: Request) -> Response:
        chat = await self._chat(request)
        seq = await self._seq(request, chat)
        shape = request.query_params.get("as", "")
        now = await chat.replay.chat.now()
        entry, previous = await answers.around(now, seq)
        async with chat.at(entry.seq - 1 if entry else seq) as before:
            pass
        if shape:
            return _answer("text", await answers.request_json(now, before, entry, shape))
        earlier = None
        if previous:
            async with chat.at(previous - 1) as earlier:
                pass
        return _answer(
            "request",
            await answers.request_at(now, before, earlier, entry, await answers.answer_to(now, entry)),
        )

    async def difference(self, request: Request) -> Response:
        """From ``a`` to ``b``, which may be a point of another chat, ``other``."""
        chat = await self._chat(request)
        other = await self._chat(request, "other") if "other" in request.query_params else chat
        a, b = await self._seq(request, chat, "a"), await self._seq(request, other, "b")
        async with chat.at(a) as before:
            pass
        async with other.at(b) as after:
            pass
        return _answer("difference", await questions.difference(before, after))

    async def why(self, request: Request) -> Response:
        chat = await self._chat(request)
        return _answer(
            "why", await questions.why(await chat.replay.chat.now(), request.query_params.get("q", ""))
        )

    async def tree(self, request: Request) -> Response:
        return _answer("tree", await questions.tree(self._desk, request.query_params.get("chat", "")))

    async def verdict(self, request: Request) -> Response:
        return _answer("verdict", await questions.judge(await self._chat(request)))

    async def point(self, request: Request) -> Response:
        chat = await self._chat(request)
        return _answer("seq", await self._seq(request, chat))

    async def tail(self, request: Request) -> Response:
        chat = await self._chat(request)
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isdigit() else _number(request, "after", chat.end)
        return StreamingResponse(tail(self._desk, chat, after, self._ended), media_type="text/event-stream")

    async def _seq(self, request: Request, chat: OpenChat, name: str = "at") -> int:
        """Of any point of the address grammar."""
        text = request.query_params.get(name, "head")
        if text.isdigit() and int(text) > chat.end:
            await chat.refresh()
        return await seq_of(chat.replay.chat, point(text))

    # --- with --write ------------------------------------------------------------------------------------

    async def fork(self, request: Request) -> Response:
        given = _decode_fork(await request.body())
        chat = await self._desk.chat(given.chat)
        await chat.replay.chat.fork(given.name, given.at)
        return _answer("key", given.name)


class _Fork(msgspec.Struct):
    chat: str
    at: int
    name: str


_decode_fork = msgspec.json.Decoder(_Fork).decode


def _piece(value: Any) -> bytes:
    return (json_object({"hits": value}) + "\n").encode("utf-8", "backslashreplace")


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isdigit() and len(text) < 16 else default
