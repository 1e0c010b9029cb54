"""OpenHands: ``EventLog`` on a ``LocalFileStore``, an event a message, a file an event, each synced and renamed into place.

There is no relaxed mode. Opening lists the folder; the end of a chat, and any other place, is read by index. It has no forks. A
compaction is a ``Condensation`` event, which names all events that it hides. It needs Python 3.12.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

os.environ["OPENHANDS_SUPPRESS_BANNER"] = "1"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else importing it asks the network

from openhands.sdk.conversation.event_store import EventLog
from openhands.sdk.event import Condensation, MessageEvent
from openhands.sdk.io import LocalFileStore
from openhands.sdk.llm import Message as Said
from openhands.sdk.llm import MessageToolCall, TextContent

from benchmarks.conversation import Message


def native(message: Message) -> MessageEvent:
    match message:
        case {"role": "tool", "tool_call_id": id, "content": text}:
            said = Said(role="tool", content=[TextContent(text=text)], tool_call_id=id)
            return MessageEvent(source="environment", llm_message=said)
        case {"tool_calls": [{"id": id, "function": function}]}:
            call = MessageToolCall(id=id, origin="completion", **function)
            return MessageEvent(source="agent", llm_message=Said(role="assistant", tool_calls=[call]))
    role = message["role"]
    said = Said(role=role, content=[TextContent(text=message["content"])])
    return MessageEvent(source="user" if role == "user" else "agent", llm_message=said)


def plain(event: MessageEvent) -> Message:
    said = event.llm_message
    if said.tool_calls:
        (call,) = said.tool_calls
        function = {"name": call.name, "arguments": call.arguments}
        return {
            "role": "assistant",
            "tool_calls": [{"id": call.id, "type": "function", "function": function}],
        }
    (part,) = said.content
    assert isinstance(part, TextContent)
    if said.role == "tool":
        return {"role": "tool", "tool_call_id": said.tool_call_id, "content": part.text}
    return {"role": said.role, "content": part.text}


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        assert durable
        assert not setting
        self.place = place
        self.logs: dict[str, EventLog] = {}
        self.lock = Lock()

    def log(self, chat: str) -> EventLog:
        if chat not in self.logs:
            self.logs[chat] = EventLog(LocalFileStore(str(self.place / chat)))
        return self.logs[chat]

    async def append(self, chat: str, items: list[MessageEvent]) -> None:
        await asyncio.to_thread(self._append, self.log(chat), items)

    def _append(self, log: EventLog, items: list[Any]) -> None:
        with self.lock:
            for event in items:
                log.append(event)

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Any]:
        log = self.log(chat)
        end = len(log) if upto is None else upto
        return log[max(0, end - count) : end]

    async def replay(self, chat: str) -> Iterator[Any]:
        return iter(self.log(chat))

    async def compact(self, chat: str, summary: Message, keep: int) -> list[Any]:
        log = self.log(chat)
        hidden = {log.get_id(index) for index in range(len(log) - keep)}
        kept = log[len(log) - keep :]
        event = Condensation(
            forgotten_event_ids=hidden, summary=summary["content"], summary_offset=0, llm_response_id="none"
        )
        await asyncio.to_thread(self._append, log, [event])
        return [native(summary), *kept]

    async def close(self) -> None:
        pass
