"""Passing deltas: an answer while it is coming. Anyone can follow it, and it is gone once the answer stands.

Never in the log: what counts is the entry that the answer becomes. This default is for one process; a storage of several
overrides it with what it has for passing messages, or leaves it, and others see the answer when it stands.
"""

import asyncio
from collections.abc import AsyncGenerator
from functools import cached_property


class ComingAnswer:
    """The pieces so far, in the process that passes them."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.has_ended = False
        self._changed = asyncio.Event()

    def add(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self._wake()

    async def end(self) -> None:
        """Returns when nobody finds a piece of it any more."""
        self.has_ended = True
        self._wake()

    async def follow(self) -> AsyncGenerator[bytes]:
        seen = 0
        while seen < len(self.pieces) or not self.has_ended:
            if seen < len(self.pieces):
                yield self.pieces[seen]
                seen += 1
            else:
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Deltas:
    @cached_property
    def _answers(self) -> dict[str, ComingAnswer]:
        return {}

    def _begin_answer(self, _chat: str) -> ComingAnswer:
        return ComingAnswer()

    async def pass_delta(self, chat: str, data: bytes) -> None:
        """The next piece of the answer that is coming. Does not wait until others can see it."""
        if chat not in self._answers:
            self._answers[chat] = self._begin_answer(chat)
        self._answers[chat].add(data)

    async def end_deltas(self, chat: str) -> None:
        """The answer stands, or will never come: its pieces are gone on return."""
        if answer := self._answers.pop(chat, None):
            await answer.end()

    async def follow_deltas(self, chat: str) -> AsyncGenerator[bytes]:
        """The pieces of the answer that is coming, from its first on. Ends when it stands, at once if none is coming."""
        if answer := self._answers.get(chat):
            async for piece in answer.follow():
                yield piece
