"""Google ADK: ``SqliteSessionService``, an event a message, appended one by one, for there is no other way.

Its default is SQLite's: a rollback journal, FULL. ``wal``: the database file was set to WAL before, which it then keeps.
``num_recent_events`` is its way to read the end of a session. It refuses an append by whoever does not hold the newest session
object, so there is one object a session and its appends wait for each other. It has no forks, and no reading up to a point.
"""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from benchmarks.conversation import Message

_WHERE = {"app_name": "benchmark", "user_id": "somebody"}


def native(message: Message) -> Event:
    match message:
        case {"role": "tool", "tool_call_id": id, "content": text}:
            response = FunctionResponse(id=id, name="tool", response={"result": text})
            return _event("agent", "user", Part(function_response=response))
        case {"tool_calls": [{"id": id, "function": {"name": name, "arguments": arguments}}]}:
            call = FunctionCall(id=id, name=name, args=msgspec.json.decode(arguments))
            return _event("agent", "model", Part(function_call=call))
    role = "user" if message["role"] == "user" else "model"
    return _event("user" if role == "user" else "agent", role, Part(text=message["content"]))


def _event(author: str, role: str, part: Part, **actions: Any) -> Event:
    content = Content(role=role, parts=[part])
    return Event(author=author, invocation_id="run", content=content, actions=EventActions(**actions))


def plain(event: Event) -> Message:
    assert event.content
    assert event.content.parts
    (part,) = event.content.parts
    if part.function_response:
        text = (part.function_response.response or {})["result"]
        return {"role": "tool", "tool_call_id": part.function_response.id, "content": text}
    if part.function_call:
        arguments = msgspec.json.encode(part.function_call.args).decode()
        function = {"name": part.function_call.name, "arguments": arguments}
        call = {"id": part.function_call.id, "type": "function", "function": function}
        return {"role": "assistant", "tool_calls": [call]}
    return {"role": "user" if event.content.role == "user" else "assistant", "content": part.text}


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        assert durable
        path = place / "sessions.sqlite"
        if setting == "wal" and not path.exists():
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.close()
        self.service = SqliteSessionService(str(path))
        self.sessions: dict[str, Any] = {}
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ready(self, chat: str) -> None:
        """Without its events: nobody who appends needs them."""
        none = GetSessionConfig(num_recent_events=0)
        found = await self.service.get_session(**_WHERE, session_id=chat, config=none)
        self.sessions[chat] = found or await self.service.create_session(**_WHERE, session_id=chat)

    async def append(self, chat: str, items: list[Event]) -> None:
        async with self.locks[chat]:
            if chat not in self.sessions:
                await self.ready(chat)
            for event in items:
                event.timestamp = max(event.timestamp, self.sessions[chat].last_update_time)
                await self.service.append_event(self.sessions[chat], event)

    async def last(self, chat: str, count: int) -> list[Event]:
        recent = GetSessionConfig(num_recent_events=count)
        session = await self.service.get_session(**_WHERE, session_id=chat, config=recent)
        assert session
        return session.events

    async def replay(self, chat: str) -> Iterator[Event]:
        session = await self.service.get_session(**_WHERE, session_id=chat)
        assert session
        return iter(session.events)

    async def compact(self, chat: str, summary: Message, keep: int) -> list[Event]:
        """An event that says which earlier ones it stands for, as its own summariser appends it; then what the model is sent."""
        session = await self.service.get_session(**_WHERE, session_id=chat)
        assert session
        self.sessions[chat] = session
        hidden, kept = session.events[:-keep], session.events[-keep:]
        content = Content(role="model", parts=[Part(text=summary["content"])])
        compaction = EventCompaction(
            start_timestamp=hidden[0].timestamp,
            end_timestamp=hidden[-1].timestamp,
            compacted_content=content,
        )
        event = Event(author="user", invocation_id="run", actions=EventActions(compaction=compaction))
        await self.append(chat, [event])
        return [_event("agent", "model", Part(text=content.parts[0].text)), *kept]

    async def close(self) -> None:
        await self.service.close()
