"""An agent loop of your own on top of a chat. Kill it anywhere, start it again, and it goes on where it was.

python examples/embed.py ./store telegram-chat-42 "What is 6 times 7?"
"""

import asyncio
import json
import re
import sys
from typing import Any

from chatfold import Chat, Store
from chatfold.projections import from_openai

TOOLS = {"multiply": lambda a, b: a * b}


async def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """In the place of ``client.chat.completions.create(…)``. It can multiply two numbers, with the help of a tool."""
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": f"That is {messages[-1]['content']}."}
    a, b = map(int, re.findall(r"\d+", messages[-1]["content"])[:2])
    call = {"name": "multiply", "arguments": json.dumps({"a": a, "b": b})}
    asked = [{"id": f"call_{len(messages)}", "type": "function", "function": call}]
    return {"role": "assistant", "content": None, "tool_calls": asked}


async def answer(chat: Chat) -> str:
    while True:
        for call in await chat.open_calls():  # asked and not answered, also by a run that was killed
            await chat.record(call.result(str(TOOLS[call.name](**call.args))))
        await chat.compact_if_due()
        said = await model(await chat.messages("openai"))
        await chat.record(*from_openai([said]))  # its words and its calls, before any tool runs
        if not said.get("tool_calls"):
            return str(said["content"])


async def main(path: str, key: str, *words: str) -> None:
    async with Store(path) as store:
        chat = await store.chat(key)
        if words:  # without words: goes on with what was asked before
            await chat.user(*words)
        print(await answer(chat))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
