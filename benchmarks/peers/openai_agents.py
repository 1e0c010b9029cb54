"""OpenAI Agents SDK: a session a chat, all in one database, items in the shape of the Responses API.

WAL and SQLite's own default, FULL, are what it sets; there is no relaxed mode. ``limit`` is its way to read the end of a session. It has
no forks, but a session is copied by reading and adding all items. ``advanced``: ``AdvancedSQLiteSession``, which knows turns and branches:
a fork is a branch, in the same session. Compaction is what its own compaction sessions do: clear, then add what is left.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession

from benchmarks.conversation import Message

Item = dict[str, Any]


def native(message: Message) -> Item:
    match message:
        case {"role": "tool", "tool_call_id": id, "content": text}:
            return {"type": "function_call_output", "call_id": id, "output": text}
        case {"tool_calls": [{"id": id, "function": function}]}:
            return {"type": "function_call", "call_id": id, **function}
    return message


def plain(item: Item) -> Message:
    match item:
        case {"type": "function_call_output", "call_id": id, "output": text}:
            return {"role": "tool", "tool_call_id": id, "content": text}
        case {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}:
            function = {"name": name, "arguments": arguments}
            return {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]}
    return item


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        assert durable
        self.path = place / "sessions.sqlite"
        assert setting in STORES
        self.sessions: dict[str, Any] = {}

    def session(self, chat: str) -> Any:
        if chat not in self.sessions:
            self.sessions[chat] = self.new(chat)
        return self.sessions[chat]

    def new(self, chat: str) -> Any:
        return SQLiteSession(chat, self.path)

    async def append(self, chat: str, items: list[Item]) -> None:
        await self.session(chat).add_items(items)

    async def last(self, chat: str, count: int) -> list[Item]:
        items: list[Item] = await self.session(chat).get_items(limit=count)
        return items

    async def replay(self, chat: str) -> Iterator[Item]:
        return iter(await self.session(chat).get_items())

    async def fork(self, chat: str, new: str, at: int) -> None:
        await self.session(new).add_items((await self.session(chat).get_items())[:at])

    async def forget(self, new: str) -> None:
        await self.session(new).clear_session()

    async def compact(self, chat: str, summary: Message, keep: int) -> list[Item]:
        session = self.session(chat)
        left = [native(summary), *await session.get_items(limit=keep)]
        await session.clear_session()
        await session.add_items(left)
        items: list[Item] = await session.get_items()
        return items

    async def close(self) -> None:
        for session in {id(one): one for one in self.sessions.values()}.values():
            session.close()


class Advanced(Store):
    branch = ""

    def new(self, chat: str) -> Any:
        return AdvancedSQLiteSession(session_id=chat, db_path=self.path, create_tables=True)

    async def fork(self, chat: str, new: str, at: int) -> None:
        """Before the last question, which is message ``at + 1``. The name of a branch is never used again."""
        session = self.sessions[new] = self.session(chat)
        turns = await session.get_conversation_turns()
        self.branch = await session.create_branch_from_turn(turns[-1]["turn"])
        assert at

    async def forget(self, new: str) -> None:
        session = self.sessions.pop(new)
        await session.switch_to_branch("main")
        await session.delete_branch(self.branch)

    async def switch(self, chat: str) -> list[Item]:
        session = self.session(chat)
        await session.create_branch_from_turn(2, "something else")
        await session.switch_to_branch("main")
        return await self.last(chat, 50)


STORES = {"": Store, "advanced": Advanced}
