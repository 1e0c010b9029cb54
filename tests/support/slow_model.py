"""A model whose answer comes piece by piece, each when the test lets it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from chatfold import ModelReply, Text
from chatfold.agent.models import Piece, Request, scripted_payload


class SlowModel:
    """Each ``go_on.release()`` brings the next word, and one more the end."""

    name = provider = "slow"
    can_summarise = False

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.go_on = asyncio.Semaphore(0)

    def payload(self, request: Request) -> dict[str, Any]:
        return scripted_payload(request)

    async def ask(self, _payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        for word in self.words:
            await self.go_on.acquire()
            yield Piece(word)
        await self.go_on.acquire()
        yield ModelReply((Text("".join(self.words)),), stop="stop")
