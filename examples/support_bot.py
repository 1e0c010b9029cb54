"""A support desk in a terminal: tools, contexts, skills. Kill it (kill -9) anywhere, start it again, and it goes on.

python examples/support_bot.py ./store                          # answers by rules, needs no network
python examples/support_bot.py ./store --model gpt-5.2          # with OPENAI_API_KEY (and OPENAI_BASE_URL)
python examples/support_bot.py ./store --model claude-opus-5    # with ANTHROPIC_API_KEY

Try: where is order 7? · refund order 7 · new topic · go back to order 7 · what did I ask about order? · returns
"""

import argparse
import asyncio
import re
import secrets
import sys
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

from chatfold import (
    CHAT_TOOLS,
    Agent,
    AnthropicModel,
    ModelReply,
    OpenAIModel,
    ScriptedModel,
    Text,
    ToolCall,
    tool,
)
from chatfold.agent import Model
from chatfold.agent.tools.skills import SkillFiles
from chatfold.eventlog import Part

ORDERS = {7: "on its way, arrives on Friday", 8: "delivered on Monday"}
INSTRUCTIONS = """You are the support desk of a small shop. Be brief. What the user shall read goes through chat_send, once;
then end your turn with no words. Look an order up before you speak of it. Open a new context when the topic changes."""


@tool(after_crash="again")  # it only reads: after a crash it may be asked again
def order_status(order: int) -> str:
    """Where an order is."""
    return ORDERS.get(order, "there is no such order")


async def ask_person(call: Any) -> Any:
    print(f"bot: I was interrupted in {call.name} {call.args}. Do it again? [y/n] ", end="", flush=True)
    return "again" if (await asyncio.to_thread(sys.stdin.readline)).strip() == "y" else "interrupted"


@tool(after_crash=ask_person)  # it moves money: a person decides whether it is done again
async def refund(order: int) -> str:
    """Pays an order back."""
    await asyncio.sleep(1)  # a moment to kill it in
    return f"order {order} was paid back"


async def to_terminal(_key: str, _id: str, parts: tuple[Part, ...]) -> None:
    print("bot:", *(part.text for part in parts if isinstance(part, Text)), flush=True)


RULES: tuple[tuple[str, str, Callable[[str], dict[str, Any]]], ...] = (
    (r"go back to (.+)", "chat_context_load", lambda words: {"query": words}),
    (r"refund order (\d+)", "refund", lambda number: {"order": int(number)}),
    (r"order (\d+)", "order_status", lambda number: {"order": int(number)}),
    (r"(new topic)", "chat_context_new", lambda words: {"reason": words}),
    (r"what did i ask about (\w+)", "chat_history_search", lambda word: {"query": word, "limit": 3}),
    (r"(returns)", "skills_load", lambda name: {"name": name}),
)


def by_rules(payload: dict[str, Any]) -> ModelReply:
    """What a model would do: looks at what was last said or returned, and goes on from there."""
    last = payload["messages"][-1]
    if last["role"] == "tool":
        result = last["results"][-1]
        told = " ".join(str(part.get("text") or part.get("data")) for part in result["parts"])
        return ModelReply() if result["name"] == "chat_send" else _call("chat_send", text=told[:300])
    text = " ".join(part.get("text", "") for part in last["parts"]).lower().rstrip("?!. ")
    for pattern, name, args in RULES:
        if found := re.search(pattern, text):
            return _call(name, **args(found[1]))
    return _call("chat_send", text="I can look up orders and pay them back.")


def _call(called: str, **args: Any) -> ModelReply:
    return ModelReply(calls=(ToolCall(f"call_{secrets.token_hex(8)}", called, args),))


def model_of(name: str) -> Model:
    if not name:
        return ScriptedModel(repeat(by_rules), name="rules")
    return AnthropicModel(name) if name.startswith("claude") else OpenAIModel(name)


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--chat", default="terminal-1")
    given = parser.parse_args()
    agent = Agent(
        model=model_of(given.model),
        tools=[*CHAT_TOOLS, order_status, refund, SkillFiles(Path(__file__).parent / "skills")],
        store=given.store,
        instructions=INSTRUCTIONS,
        send=to_terminal,
    )
    async with agent:
        if await agent.resume(given.chat):
            print("(went on with what was left)")
        while text := (await asyncio.to_thread(input, "you: ")).strip():
            result = await agent.run(text, chat=given.chat)
            if result.outcome != "done":
                print(f"({result.outcome}: {result.error})")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (EOFError, KeyboardInterrupt):
        print()
