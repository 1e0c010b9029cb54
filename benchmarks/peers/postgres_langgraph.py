"""LangGraph on PostgreSQL: ``AsyncPostgresSaver`` on a pool, and a graph of one node that answers nothing.

A message is a run of the graph with one checkpoint at its end (``durability="exit"``), which is the quickest it has.
"""

import os
from typing import Annotated, Any, TypedDict

os.environ["LANGSMITH_TRACING"] = "false"

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool


class State(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]


class Store:
    def __init__(self, pool: Any, graph: Any) -> None:
        self.pool = pool
        self.graph = graph

    @classmethod
    async def open(cls, dsn: str) -> "Store":
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool: Any = AsyncConnectionPool(dsn, min_size=1, max_size=8, kwargs=options, open=False)
        await pool.open()
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        builder = StateGraph(State)
        builder.add_node("answer", lambda _: {})
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        return cls(pool, builder.compile(checkpointer=saver))

    async def append(self, chat: str, texts: list[str]) -> None:
        update = {"messages": [*map(HumanMessage, texts)]}
        await self.graph.ainvoke(update, _thread(chat), durability="exit")

    async def last(self, chat: str, count: int) -> list[str]:
        state = await self.graph.aget_state(_thread(chat))
        return [message.content for message in state.values["messages"][-count:]]

    async def close(self) -> None:
        await self.pool.close()


def _thread(chat: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": chat}}
