"""Passing deltas: an answer while it is coming. Anyone can follow it, and it is gone once the answer stands.

Never in the log: what counts is the entry that the answer becomes. This default is for one process; a storage of several
overrides it with what its database has for passing messages, or leaves it, and others see the answer when it stands.
"""

import asyncio
from collections.abc import AsyncGenerator
from functools import cached_property


class _Answer:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.stands = False
        self.changed = asyncio.Event()

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Deltas:
    @cached_property
    def _answers(self) -> dict[str, _Answer]:
        return {}

    async def pass_delta(self, chat: str, data: bytes) -> None:
        """The next piece of the answer that is coming."""
        answer = self._answers.setdefault(chat, _Answer())
        answer.pieces.append(data)
        answer.wake()

    async def end_deltas(self, chat: str) -> None:
        """The answer stands, or will never come: its pieces are gone."""
        answer = self._answers.pop(chat, None)
        if answer:
            answer.stands = True
            answer.wake()

    async def follow_deltas(self, chat: str) -> AsyncGenerator[bytes]:
        """The pieces of the answer that is coming, from its first on. Ends when it stands, at once if none is coming."""
        answer, seen = self._answers.get(chat), 0
        while answer:
            if seen < len(answer.pieces):
                yield answer.pieces[seen]
                seen += 1
            elif answer.stands:
                return
            else:
                await answer.changed.wait()
