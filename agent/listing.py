"""Listing: what a list of chats shows of each, without opening those that did not change.

Of every chat its outline and where it was forked from are remembered, with the entry up to which they were folded and
the storage's stamp. Listing then costs a stamp a chat, and the new entries of those whose stamp is another one. What is
remembered is kept in the storage's cache for the next process.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from chatfold.agent.opening import open_view
from chatfold.eventlog import ChatfoldError, Head, Log, Redacted
from chatfold.eventlog.values import escape_text, unescape
from chatfold.projections import (
    NeedsEarlier,
    Outline,
    OutOfOrder,
    Projection,
    View,
    fold,
    lineage,
    outline,
    start,
    turn,
)
from chatfold.projections.listing import Fork
from chatfold.projections.snapshot import dump, load

_SHOWN: tuple[Projection[Any], ...] = (outline, lineage, turn)
_NEAR = 256  # new entries; if there are more, a snapshot is nearer
_FEW = 32  # one chat in so many may change before what is remembered is kept again


class Listed(msgspec.Struct, frozen=True):
    """A chat as a list shows it. ``parent``: what it was forked from. ``is_open``: there is something to be answered, or gone on
    with. ``error``: why it cannot be read."""

    key: str
    outline: Outline = Outline()
    parent: Fork | None = None
    is_open: bool = False
    error: Exception | None = None


class _Row(msgspec.Struct, frozen=True, array_like=True):
    stamp: str
    head: Head
    states: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, _Row]]).decode


class Listing:
    """``projections``: those that snapshots are kept of."""

    def __init__(self, log: Log, projections: Sequence[Projection[Any]]) -> None:
        self._log = log
        self._projections = projections
        self._rows: dict[str, _Row] | None = None
        self._changes = 0  # rows that are not in the cache

    async def chats(self) -> AsyncIterator[Listed]:
        stamps = await self._log.storage.change_tokens()
        rows = await self._known()
        for gone in rows.keys() - {key for key, _ in stamps}:
            del rows[gone]
            self._changes += 1
        for key, stamp in stamps:
            try:
                view = await self._view(rows, key, stamp)
            except (ChatfoldError, OSError) as error:  # one chat that cannot be read hides no other
                yield Listed(key, error=error)
            else:
                if view.seq:
                    yield Listed(key, view[outline], view[lineage].parent, view[turn].is_open)
        if self._changes > len(rows) // _FEW:
            await self.keep()

    async def keep(self) -> None:
        """Those of chats that have not changed since: what was erased meanwhile is not to be kept."""
        if self._changes and self._rows is not None:
            self._changes = 0
            stamps = dict(await self._log.storage.change_tokens())
            rows = {key: row for key, row in self._rows.items() if stamps.get(key) == row.stamp}
            await self._log.storage.keep_listing(
                _encode([(escape_text(key), row) for key, row in rows.items()])
            )

    async def _known(self) -> dict[str, _Row]:
        if self._rows is None:
            try:
                rows = _decode(await self._log.storage.kept_listing())
                self._rows = {unescape(key): row for key, row in rows}
            except (ValueError, RecursionError):
                self._rows = {}
        return self._rows

    async def _view(self, rows: dict[str, _Row], key: str, stamp: str) -> View:
        row = rows.get(key)
        view = load(row.states, row.head, _SHOWN) if row else None
        if row is None or view is None or row.stamp != stamp:
            view = await self._folded(key, view or start(_SHOWN))
            rows[key] = _Row(stamp, view.head, dump(view))
            self._changes += 1
        return view

    async def _folded(self, key: str, view: View) -> View:
        """As the chat is now: folded on from the view, if that is near and still of the same history."""
        head = await self._log.head(key)
        if view.seq < head.seq <= view.seq + _NEAR:  # at the same head, something was erased
            entries = await self._log.last(key, head.seq - view.seq, head.seq)
            with suppress(OutOfOrder, NeedsEarlier):
                now = fold(view, entries)
                if now.head == head and not any(isinstance(entry.event, Redacted) for entry in entries):
                    return now
        whole = (await open_view(self._log, key, projections=self._projections)).view
        return View(_SHOWN, tuple(whole[one] for one in _SHOWN), whole.head)
