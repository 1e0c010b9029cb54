"""Listing: what a list of chats shows of each, without opening those that did not change.

The storage keeps a row of every chat: its outline, where it was forked from, whether something is open in it, and the entry up
to which that was folded. A row whose token is the chat's is shown as it is. Of the other chats the new entries are read.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from chatfold.agent.opening import open_view
from chatfold.eventlog import ChatfoldError, Head, Log, Redacted
from chatfold.eventlog.storage import ChatRow
from chatfold.projections import Outline, OutOfOrder, Projection, View, fold, lineage, outline, start, turn
from chatfold.projections.listing import Fork, Lineage
from chatfold.projections.packing import Unpack, pack
from chatfold.projections.work import Turn

_SHOWN: tuple[Projection[Any], ...] = (outline, lineage, turn)
_VERSIONS = tuple(one.version for one in _SHOWN)
_NEAR = 256  # new entries; if there are more, a snapshot is nearer


class Listed(msgspec.Struct, frozen=True):
    """A chat as a list shows it. ``parent``: what it was forked from. ``is_open``: there is something to be answered, or gone on
    with. ``error``: why it cannot be read."""

    key: str
    outline: Outline = Outline()
    parent: Fork | None = None
    is_open: bool = False
    error: Exception | None = None


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """``versions``: of the projections. A row of other code is not used."""

    versions: tuple[int, ...]
    head: Head
    states: tuple[Outline, Lineage, Turn]


_unpack = Unpack(_Row)


async def list_chats(
    log: Log, projections: Sequence[Projection[Any]], prefix: str = "", where: Mapping[str, str] | None = None
) -> AsyncIterator[Listed]:
    """``projections``: those that snapshots are kept of."""
    wanted = (where or {}).items()
    async for page in log.storage.chats(prefix):
        new: dict[str, tuple[str, bytes]] = {}
        views = await asyncio.to_thread(_views_of, page.rows)
        for row, view in zip(page.rows, views, strict=True):
            try:
                if row.row_token == row.token and view.seq:
                    now = view
                else:
                    now = await _fold_on(log, row.key, view, projections)
                    new[row.key] = row.token, pack(_Row(_VERSIONS, now.head, now.states))
            except (ChatfoldError, OSError) as error:  # one chat that cannot be read hides no other
                if not wanted:
                    yield Listed(row.key, error=error)
            else:
                if now.seq and wanted <= now[outline].words.items():
                    yield Listed(row.key, now[outline], now[lineage].parent, now[turn].is_open)
        if new:
            await log.storage.store_rows(new)


def _views_of(rows: list[ChatRow]) -> list[View]:
    return [*map(_view_of, rows)]


def _view_of(row: ChatRow) -> View:
    """As the row says, else the view before the first entry."""
    with suppress(ValueError):
        found = _unpack(row.row)
        if found.versions == _VERSIONS:
            return View(_SHOWN, found.states, found.head)
    return start(_SHOWN)


async def _fold_on(log: Log, key: str, view: View, projections: Sequence[Projection[Any]]) -> View:
    """As the chat is now: folded on from the view, if that is near and still of the same history."""
    head = await log.head(key)
    if view.seq < head.seq <= view.seq + _NEAR:  # at the same head, something was erased
        entries = await log.last(key, head.seq - view.seq, head.seq)
        with suppress(OutOfOrder):
            now = fold(view, entries)
            if now.head == head and not any(isinstance(entry.event, Redacted) for entry in entries):
                return now
    whole = (await open_view(log, key, projections=projections)).view
    return View(_SHOWN, tuple(whole[one] for one in _SHOWN), whole.head)
