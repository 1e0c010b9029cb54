"""LangGraph: a graph whose state is the messages, compiled with ``SqliteSaver``, a thread a chat; a turn is one ``invoke``.

``sync``: a checkpoint a step, written before the next begins, which is what its documentation calls durable. ``exit``: its best setting
for us, one checkpoint a turn, at its end. ``delta``: the same with ``DeltaChannel`` (beta), which keeps what was added instead
of everything. The saver sets WAL and leaves SQLite's default, FULL. Time travel and forks are its own: any checkpoint is one that
can be read and gone on from. A fork is a new checkpoint on an old one, in the same thread. Calls go to a thread.
"""

import asyncio
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, TypedDict

os.environ["LANGSMITH_TRACING"] = "false"

import msgspec
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer, add_messages

from benchmarks.conversation import Message


class Plain(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[BaseMessage], DeltaChannel(_messages_delta_reducer)]


def native(message: Message) -> BaseMessage:
    match message:
        case {"role": "tool", "tool_call_id": id, "content": text}:
            return ToolMessage(content=text, tool_call_id=id)
        case {"tool_calls": [{"id": id, "function": {"name": name, "arguments": arguments}}]}:
            args = msgspec.json.decode(arguments)
            return AIMessage(content="", tool_calls=[{"id": id, "name": name, "args": args}])
        case {"role": "user", "content": text}:
            return HumanMessage(content=text)
    return AIMessage(content=message["content"])


def plain(message: BaseMessage) -> Message:
    match message:
        case ToolMessage(tool_call_id=id):
            return {"role": "tool", "tool_call_id": id, "content": message.content}
        case AIMessage(tool_calls=[{"id": id, "name": name, "args": args}]):
            function = {"name": name, "arguments": msgspec.json.encode(args).decode()}
            return {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]}
    return {"role": "user" if isinstance(message, HumanMessage) else "assistant", "content": message.content}


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        assert durable
        self.connection = sqlite3.connect(place / "checkpoints.sqlite", check_same_thread=False)
        builder = StateGraph(Delta if setting == "delta" else Plain)
        builder.add_node("answer", lambda _: {})
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        self.graph: Any = builder.compile(checkpointer=SqliteSaver(self.connection))
        self.durability = "exit" if setting == "exit" else "sync"
        self.ids = place / "ids.json"
        self.forks: dict[str, dict[str, Any]] = {}
        self.locks: defaultdict[str, Lock] = defaultdict(Lock)

    async def append(self, chat: str, items: list[BaseMessage]) -> None:
        await asyncio.to_thread(self._invoke, chat, items)

    def _invoke(self, chat: str, items: list[BaseMessage]) -> None:
        """One at a time in a thread: two at once would each go on from the same checkpoint, and one turn would be lost."""
        with self.locks[chat]:
            self.graph.invoke({"messages": items}, _thread(chat), durability=self.durability)

    async def build(self, chat: str, turns: Iterable[list[BaseMessage]]) -> None:
        """And the ids of its checkpoints are noted, so that nobody has to look for the one of a certain length."""
        ids: dict[int, str] = {}
        length = 0
        newest = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
        for turn in turns:
            self._invoke(chat, turn)
            length += len(turn)
            (ids[length],) = self.connection.execute(newest, (chat,)).fetchone()
        self.ids.write_bytes(msgspec.json.encode(ids))

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[BaseMessage]:
        where = self.forks.get(chat) or _thread(chat, self._checkpoint(upto))
        messages: list[BaseMessage] = self.graph.get_state(where).values["messages"]
        return messages[-count:]

    def _checkpoint(self, length: int | None) -> str | None:
        if length is None:
            return None
        return msgspec.json.decode(self.ids.read_bytes(), type=dict[int, str])[length]

    async def fork(self, chat: str, new: str, at: int) -> None:
        where = _thread(chat, self._checkpoint(at))
        self.forks[new] = self.graph.update_state(where, {"messages": []}, as_node="answer")

    async def forget(self, new: str) -> None:
        """Else the fork would be the newest checkpoint of its thread, and what is gone on from."""
        id = self.forks.pop(new)["configurable"]["checkpoint_id"]  # noqa: A001
        for table in ("checkpoints", "writes"):
            self.connection.execute(f"DELETE FROM {table} WHERE checkpoint_id = ?", (id,))
        self.connection.commit()

    async def replay(self, chat: str) -> Iterator[BaseMessage]:
        return iter(self.graph.get_state(_thread(chat)).values["messages"])

    async def compact(self, chat: str, summary: Message, keep: int) -> list[BaseMessage]:
        kept = await self.last(chat, keep)
        update = {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), native(summary), *kept]}
        self.graph.update_state(_thread(chat), update, as_node="answer")
        return await self.last(chat, keep + 1)

    async def close(self) -> None:
        self.connection.close()


def _thread(chat: str, checkpoint: str | None = None) -> dict[str, Any]:
    known = {"checkpoint_id": checkpoint, "checkpoint_ns": ""} if checkpoint else {}
    return {"configurable": {"thread_id": chat, **known}}
