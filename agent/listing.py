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
from chatfold.eventlog import ChatfoldError, Head, Log
from chatfold.eventlog.storage import ChatRow
from chatfold.projections import (
    NeedsEarlier,
    Outline,
    OutOfOrder,
    Projection,
    View,
    fold,
    lineage,
    outline,
    turn,
)
from chatfold.projections.activity import Turn
from chatfold.projections.listing import Fork, Lineage
from chatfold.projections.packing import Unpack, pack

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
    """``versions``: of the projections. A row of other code is not used. ``erasures``: the epoch before the chat was read."""

    versions: tuple[int, ...] = _VERSIONS
    erasures: str = ""
    head: Head = Head()
    states: tuple[Outline, Lineage, Turn] = (Outline(), Lineage(), Turn())


_unpack = Unpack(_Row)


async def list_chats(
    log: Log, projections: Sequence[Projection[Any]], prefix: str = "", where: Mapping[str, str] | None = None
) -> AsyncIterator[Listed]:
    """``projections``: those that snapshots are kept of."""
    wanted = (where or {}).items()
    async for page in log.storage.chats(prefix):
        new: dict[str, tuple[str, bytes]] = {}
        known = await asyncio.to_thread(_decode_rows, page.rows)
        for one, row in zip(page.rows, known, strict=True):
            try:
                if one.row_token != one.token or not row.head.seq:
                    row = await _fold_on(log, one.key, row, projections)  # noqa: PLW2901 (it is the row now)
                    new[one.key] = one.token, pack(row)
            except (ChatfoldError, OSError) as error:  # one chat that cannot be read hides no other
                if not wanted:
                    yield Listed(one.key, error=error)
            else:
                shown, origin, doing = row.states
                if row.head.seq and wanted <= shown.words.items():
                    yield Listed(one.key, shown, origin.parent, doing.is_open)
        if new:
            await log.storage.store_rows(new)


def _decode_rows(rows: list[ChatRow]) -> list[_Row]:
    return [_decode_row(row.row) for row in rows]


def _decode_row(data: bytes) -> _Row:
    """A row of nothing if this is none of ours."""
    with suppress(ValueError):
        row = _unpack(data)
        if row.versions == _VERSIONS:
            return row
    return _Row()


async def _fold_on(log: Log, key: str, row: _Row, projections: Sequence[Projection[Any]]) -> _Row:
    """The chat as it is now: folded on from the row, if that is near, of the same history, and nothing was erased since."""
    erasures = await log.storage.erasure_epoch(key)
    head = await log.head(key)
    if erasures == row.erasures and row.head.seq < head.seq <= row.head.seq + _NEAR:
        with suppress(OutOfOrder, NeedsEarlier):
            entries = await log.last(key, head.seq - row.head.seq, head.seq)
            view = fold(View(_SHOWN, row.states, row.head), entries)
            if view.head == head:
                return _row_of(view, erasures)
    return _row_of((await open_view(log, key, projections=projections)).view, erasures)


def _row_of(view: View, erasures: str) -> _Row:
    return _Row(_VERSIONS, erasures, view.head, (view[outline], view[lineage], view[turn]))
