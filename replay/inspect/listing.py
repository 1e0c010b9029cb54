"""listing: the chats of a store as rows, filtered, in order, a page at a time."""

from typing import Literal, TypeAlias

import msgspec

from chatfold.agent import Store
from chatfold.agent.store import Listed
from chatfold.projections.listing import Fork
from chatfold.replay.inspect.sizes import Progress

Order: TypeAlias = Literal["time", "turns", "messages", "key"]


class ChatRow(msgspec.Struct, frozen=True):
    """Times are epoch milliseconds."""

    key: str
    title: str
    turns: int
    messages: int
    created: int
    active: int
    preview: str
    role: str
    parent: Fork | None
    is_open: bool
    error: str = ""


class ChatPage(msgspec.Struct, frozen=True):
    """The rows ``first`` … of ``count``."""

    first: int
    count: int
    rows: tuple[ChatRow, ...]


def row_of_chat(one: Listed) -> ChatRow:
    said = one.outline
    return ChatRow(
        one.key,
        said.title,
        said.turns,
        said.messages,
        said.created,
        said.active,
        said.preview,
        said.role,
        one.parent,
        one.is_open,
        "" if one.error is None else str(one.error),
    )


async def list_rows(
    store: Store,
    *,
    query: str = "",
    since: float = 0,
    forks: bool | None = None,
    order: Order = "time",
    progress: Progress | None = None,
) -> list[ChatRow]:
    """``query``: in the key, the title or the end. ``since``: active since then. ``forks``: only forks, or none of them."""
    rows: list[ChatRow] = []
    async for one in store.chats():
        rows.append(row_of_chat(one))
        if progress is not None:
            progress(len(rows), 0)
    wanted = query.casefold()
    rows = [row for row in rows if row.active >= since and (not wanted or _holds(row, wanted))]
    if forks is not None:
        rows = [row for row in rows if (row.parent is not None) == forks]
    rows.sort(key=lambda row: row.key)
    if order != "key":
        rows.sort(key=lambda row: getattr(row, "active" if order == "time" else order), reverse=True)
    return rows


def page_of(rows: list[ChatRow], first: int = 0, most: int = 200) -> ChatPage:
    return ChatPage(first, len(rows), tuple(rows[first : first + most]))


def _holds(row: ChatRow, wanted: str) -> bool:
    return any(wanted in text.casefold() for text in (row.key, row.title, row.preview))
