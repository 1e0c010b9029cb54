"""Live: what is written to a chat while a page looks at it, as server-sent events; also by other processes.

append   lines and columns of the new entries, with the ``id`` to go on from: nothing is missed, and nothing comes twice
sight    the stays again, when something left or came back, or was named
delta    the next piece of an answer that an agent of any process is being given
error    why it ends: the chat was deleted, or is damaged
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from chatfold.agent.models import Piece
from chatfold.eventlog import ChatfoldError, CheckpointSet, Entry
from chatfold.projections import contexts
from chatfold.replay.inspect.serial import json_object
from chatfold.replay.web.answers import chat_info
from chatfold.replay.web.desk import Desk, OpenChat
from chatfold.replay.web.errors import problem
from chatfold.replay.web.lines import line

_MOST = 500  # entries at once
_PING = 15.0
_Queue = asyncio.Queue[Any]


async def tail(desk: Desk, chat: OpenChat, after: int, ended: asyncio.Event) -> AsyncIterator[bytes]:
    """Of the entries after that one, until the page goes or the server ends."""
    queue: _Queue = asyncio.Queue(_MOST)
    tasks = [
        asyncio.create_task(_follow(chat, after, queue)),
        asyncio.create_task(_end(ended, queue)),
    ]
    yield b"retry: 1000\n\n"
    try:
        while True:
            try:
                async with asyncio.timeout(_PING):
                    first = await queue.get()
            except TimeoutError:
                yield b": ping\n\n"
                continue
            if first is None:
                return
            for piece in await _pieces(desk, chat, [first, *_waiting(queue)]):
                yield piece
                if piece.startswith(b"event: error"):
                    return
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _waiting(queue: _Queue) -> list[Any]:
    return [queue.get_nowait() for _ in range(queue.qsize())]


async def _follow(chat: OpenChat, after: int, queue: _Queue) -> None:
    try:
        async with aclosing(chat.replay.chat.follow(after, pieces=True)) as found:
            async for one in found:
                await queue.put(one)
    except (ChatfoldError, OSError) as error:
        await queue.put(error)


async def _end(ended: asyncio.Event, queue: _Queue) -> None:
    await ended.wait()
    with suppress(asyncio.QueueFull):
        queue.put_nowait(None)


async def _pieces(desk: Desk, chat: OpenChat, some: list[Any]) -> list[bytes]:
    entries = [one for one in some if isinstance(one, Entry)]
    error = next((one for one in some if isinstance(one, Exception)), None)
    found = [] if not entries else await _tell_appended(chat, entries)
    found += [
        _event("delta", json_object({"text": one.text, "kind": one.kind}))
        for one in some
        if isinstance(one, Piece)
    ]
    if error is not None:
        desk.forget(chat.key)
        found.append(_event("error", json_object(problem(error)[1])))
    if None in some:
        found.append(b"")
    return [piece for piece in found if piece]


async def _tell_appended(chat: OpenChat, entries: list[Entry]) -> list[bytes]:
    first, last = entries[0].seq, entries[-1].seq
    await chat.refresh()
    moment = chat.replay.chat
    known = len(chat.columns)
    columns = await chat.read_on(last, seconds=1.0)
    has_all = first <= len(columns) >= last
    value: dict[str, Any] = {
        "chat": chat_info(moment),
        "first": first,
        "lines": [line(entry) for entry in entries],
        "columns": b64encode(columns.pack(first, last)).decode() if has_all else "",
        "again": known > len(columns),  # something was erased: all columns are others
    }
    found = [_event("append", json_object(value), last)]
    if moment[contexts].changed >= first or any(isinstance(one.event, CheckpointSet) for one in entries):
        found.append(_event("sight", json_object({"sight": await chat.sight()})))
    return found


def _event(name: str, data: str, id: int | None = None) -> bytes:
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {name}\ndata: {data}\n\n".encode("utf-8", "backslashreplace")
