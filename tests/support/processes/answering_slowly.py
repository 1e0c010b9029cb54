"""A process whose agent answers in a chat, a word every few milliseconds, without an end: ``ROOT CHAT``."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

from chatfold import Agent, ModelReply
from chatfold.agent.models import Piece, Request, scripted_payload
from tests.support.processes.children import ready


class Endless:
    name = provider = "endless"
    can_summarise = False

    def payload(self, request: Request) -> dict[str, Any]:
        return scripted_payload(request)

    async def ask(self, _payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        number = 0
        while True:
            yield Piece(f"word {number} ")
            number += 1
            await asyncio.sleep(0.005)


async def main(root: str, key: str) -> None:
    async with Agent(Endless(), store=root) as agent:
        ready()
        await agent.resume(key)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
