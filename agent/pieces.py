"""The pieces of an answer while it is coming: a run passes them on, and any process follows them, with the entries of the chat.

They are in no log. Each names the request that it answers, by the seq of its ``model_called``: a follower that is behind in the log
is never given the pieces of another answer. When the answer stands as entries, its pieces are gone.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from chatfold.agent.models import Piece
from chatfold.eventlog import ChatfoldError, Entry, ModelCalled, ModelReturned, RunFinished, Storage
from chatfold.projections import turn

if TYPE_CHECKING:
    from chatfold.agent.chat import Chat

_LOOK_S = 0.05  # between two looks whether a model that was asked has begun to answer


async def pass_piece(storage: Storage, chat: str, request: int, piece: Piece) -> None:
    """Passes it to all followers of the chat. ``request``: the seq of the ``model_called``."""
    with suppress(ChatfoldError):  # followers see the answer when it stands
        await storage.pass_delta(chat, json.dumps((request, piece.text, piece.kind)).encode())


async def follow_with_pieces(chat: "Chat", after: int) -> AsyncGenerator[Entry | Piece]:
    """The entries after this seq and, after a ``model_called`` that has no answer yet, the pieces of the answer."""
    now = (await chat.now())[turn]
    asked = now.called if now.run and now.called <= after else 0  # the request that may be answered now
    given = 0  # pieces of this answer
    async with aclosing(chat.follow(after)) as entries:
        while True:
            coming = asyncio.ensure_future(anext(entries))
            try:
                if asked:
                    async with aclosing(_pieces_until(coming, chat, asked, given)) as pieces:
                        async for piece in pieces:
                            given += 1
                            yield piece
                entry = await coming
            finally:
                coming.cancel()
                await asyncio.wait((coming,))
            match entry.event:
                case ModelCalled():
                    asked, given = entry.seq, 0
                case ModelReturned() | RunFinished():
                    asked = 0
            yield entry


async def _pieces_until(
    coming: "asyncio.Future[Entry]", chat: "Chat", asked: int, given: int
) -> AsyncGenerator[Piece]:
    """The pieces of the answer to this request after the first ``given``, until an entry has come."""
    while not coming.done():
        async with aclosing(chat.log.storage.follow_deltas(chat.key)) as deltas:
            number = 0
            while (data := await _next_before(coming, deltas)) is not None:
                request, text, kind = json.loads(data)
                if request != asked:
                    break
                number += 1
                if number > given:
                    given = number
                    yield Piece(text, kind)
        await asyncio.wait((coming,), timeout=_LOOK_S)


async def _next_before(coming: "asyncio.Future[Entry]", deltas: AsyncGenerator[bytes]) -> bytes | None:
    """The next piece; None if there is none any more, or if an entry came first."""
    piece = asyncio.ensure_future(anext(deltas, None))
    try:
        await asyncio.wait((piece, coming), return_when=asyncio.FIRST_COMPLETED)
        return piece.result() if piece.done() else None
    finally:
        piece.cancel()
        await asyncio.wait((piece,))
