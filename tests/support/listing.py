"""The chats of a storage as it lists them."""

import asyncio

from chatfold.eventlog import Storage
from chatfold.eventlog.storage import ChatRow

SETTLED_S = 0.03
"""After so long, a change is no longer within a tick of what comes next."""


async def rows_of(storage: Storage, prefix: str = "", changed_since: str = "") -> dict[str, ChatRow]:
    return {row.key: row async for page in storage.chats(prefix, changed_since) for row in page.rows}


async def tokens(storage: Storage) -> dict[str, str]:
    return {key: row.token for key, row in (await rows_of(storage)).items()}


async def mark_of(storage: Storage, prefix: str = "") -> str:
    return [page.mark async for page in storage.chats(prefix)][-1]


async def settle() -> None:
    await asyncio.sleep(SETTLED_S)
