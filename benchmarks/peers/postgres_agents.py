"""OpenAI Agents SDK on PostgreSQL: a ``SQLAlchemySession`` a chat, with asyncpg, as its page shows it."""

from typing import Any

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy.ext.asyncio import create_async_engine


class Store:
    def __init__(self, dsn: str) -> None:
        rest = dsn.partition("://")[2]
        self.engine = create_async_engine(f"postgresql+asyncpg://{rest}", pool_size=8)
        self.sessions: dict[str, Any] = {}

    @classmethod
    async def open(cls, dsn: str) -> "Store":
        return cls(dsn)

    def session(self, chat: str) -> Any:
        if chat not in self.sessions:
            self.sessions[chat] = SQLAlchemySession(chat, engine=self.engine, create_tables=True)
        return self.sessions[chat]

    async def append(self, chat: str, texts: list[str]) -> None:
        await self.session(chat).add_items([{"role": "user", "content": text} for text in texts])

    async def last(self, chat: str, count: int) -> list[str]:
        return [item["content"] for item in await self.session(chat).get_items(limit=count)]

    async def close(self) -> None:
        await self.engine.dispose()
