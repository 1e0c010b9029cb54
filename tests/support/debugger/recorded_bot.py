"""Recorded runs of the support desk of ``examples/support_bot.py``, and the agent as its users would build it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from chatfold.agent import CHAT_TOOLS, Agent, Chat, ModelReply, ScriptedModel, Store, ToolCall
from chatfold.agent.models import Request
from chatfold.agent.tools.skills import SkillFiles
from chatfold.eventlog import Entry, Event, Json, Log
from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.codec import encode_named
from chatfold.replay.verify.divergence import Divergence
from chatfold.replay.verify.rehearsal import rehearse

EXAMPLES = Path(__file__).parents[3] / "examples"
sys.path.append(str(EXAMPLES))
import support_bot  # noqa: E402

bot = support_bot

TALK = (
    "Where is order 7?",
    "new topic",
    "hello",
    "go back to order 7",
    "returns",
    "what did I ask about order?",
)


async def _sent(_key: str, _id: str, _parts: object) -> None:
    """To nobody."""


def build(store: Store, **changes: Any) -> Agent:
    """The support desk, as it is set up, or with something changed."""
    setup: dict[str, Any] = {
        "model": bot.model_of(""),
        "tools": [*CHAT_TOOLS, bot.order_status, bot.refund, SkillFiles(EXAMPLES / "skills")],
        "store": store,
        "instructions": bot.INSTRUCTIONS,
        "send": _sent,
    }
    return Agent(**setup | changes)


async def talked(store: Store, *lines: str, key: str = "desk", **changes: Any) -> Chat:
    agent = build(store, **changes)
    for line in lines or TALK:
        await agent.run(line, chat=key)
    return await store.chat(key)


async def edited(chat: Chat, seq: int, **fields: Any) -> Chat:
    """The same chat with one entry changed, by somebody who computed all sums anew."""
    store = Store.memory()
    entries = [entry async for entry in chat.entries()]
    entries[seq - 1] = changed(entries[seq - 1], **fields)
    await put(store.log, chat.key, entries)
    return await store.chat(chat.key)


def changed(entry: Entry, **fields: Any) -> Entry:
    event: Event = msgspec.structs.replace(entry.event, **fields)
    return msgspec.structs.replace(entry, event=event)


async def put(log: Log, key: str, entries: Sequence[Entry]) -> None:
    """Appends the entries as they were, batch by batch."""
    at = 0
    while at < len(entries):
        size = int((entries[at].batch or "1/1").partition("/")[2])
        drafts = tuple(
            encode_named(entry.event, entry.key, entry.said_at) for entry in entries[at : at + size]
        )
        await log.storage.append(AppendRequest(key, drafts, None, entries[at].id, entries[at].run))
        at += size


async def first(chat: Chat, kind: type, number: int = 1) -> Entry:
    found = [entry async for entry in chat.entries() if isinstance(entry.event, kind)]
    return found[number - 1]


def step(*calls: tuple[str, Json]) -> ModelReply:
    """An answer that is nothing but calls, by the ids c1, c2, …"""
    made = [ToolCall(f"c{number}", name, args) for number, (name, args) in enumerate(calls, 1)]
    return ModelReply(calls=tuple(made), stop="tool_calls")


class OwnCode(ScriptedModel):
    """A model that makes its payload in its own way."""

    def payload(self, request: Request) -> dict[str, Any]:
        return {"words": [str(message) for message in request.messages], "told": request.system}


async def diverged(chat: Chat, factory: Any) -> Divergence:
    found = (await rehearse(chat, factory)).divergence
    assert found is not None
    return found


async def run_of(store: Store, *questions: str, **setup: Any) -> Chat:
    agent = Agent(store=store, **setup)
    for question in questions or ("now this",):
        await agent.run(question, chat="chat")
    return await store.chat("chat")
