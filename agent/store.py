"""Store: many chats in one place.

async with Store("./chats") as store:               # or Store.memory(), or Store("postgresql://host/db?schema=bots")
    chat = await store.chat("telegram-chat-42")     # nothing on disk until the first event

A list of chats opens none that did not change. The storage keeps a row of every chat: its outline, where it was forked from, whether
something is open in it, and the entry up to which that was folded. A row whose token is the chat's is shown as it is. Of the other
chats the new entries are read.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

import msgspec

from chatfold.agent.chat import Chat
from chatfold.agent.checks import check
from chatfold.agent.exporting import is_export, read_chunks
from chatfold.agent.views import Later, open_view
from chatfold.eventlog import ChatfoldError, Durability, Head, Log, MemoryStorage, Storage, storage_of
from chatfold.eventlog.keys import folder_name
from chatfold.eventlog.storage import Change, ChatRow
from chatfold.projections import (
    STANDARD,
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


class Store:
    """Many chats in one place. ``async with`` closes it; a program that does not close it loses nothing that was acknowledged.

    ``place``: a folder, ``postgresql://user@host/database?schema=name``, or a ``Storage`` of your own. ``projections``: your own,
    folded in every chat next to the standard ones. ``durability``: what an append waits for, "full", "normal" or "off".
    ``read_only``: nothing is changed on disk, ever.
    """

    def __init__(
        self,
        place: Path | str | Storage,
        *,
        projections: Sequence[Projection[Any]] = (),
        durability: Durability = "full",
        read_only: bool = False,
    ) -> None:
        check("place", place, Path, str, Storage, expected="a folder, an address, or a Storage")
        for one in projections:
            check("projections", one, Projection, expected="what @projection makes")
        if isinstance(place, Path | str):
            place = storage_of(place, durability=durability, read_only=read_only)
        self.log = Log(place)
        self._projections = (*STANDARD, *projections)
        self._later: Later = set()  # snapshots that are being taken
        self._chats: WeakSet[Chat] = WeakSet()

    @classmethod
    def memory(cls, *, projections: Sequence[Projection[Any]] = ()) -> Self:
        """A store for tests and scratch work: gone when the process ends."""
        return cls(MemoryStorage(), projections=projections)

    def __repr__(self) -> str:
        return f"Store({self.log.storage!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Makes everything durable and closes the storage. Whatever is asked of its chats after that raises ``Closed``."""
        for chat in tuple(self._chats):
            chat.keep_window()
            await asyncio.gather(*self._later)  # one after the other: all at once would be in memory twice
        await asyncio.gather(*self._later)
        await self.log.storage.close()

    async def chat(self, key: str) -> Chat:
        """The chat of this key, as it is now. There need not be one yet: it begins with its first event.

        Raises ``InvalidKey`` for an empty key, ``CorruptLog`` if what was durable is missing or changed.
        """
        folder_name(key)  # the same keys are refused everywhere
        opened = await open_view(self.log, key, projections=self._projections, later=self._later)
        chat = Chat(self.log, key, opened, self._later)
        self._chats.add(chat)
        return chat

    def chats(self, prefix: str = "", *, where: Mapping[str, str] | None = None) -> AsyncIterator[Listed]:
        """The chats: titles, counts, last activity. Of those that did not change since the last time nothing is read.

        ``prefix``: of the key. ``where``: words that a chat must have, as ``{"user": "u7"}``: those of ``ChatStarted.meta``.
        A chat that cannot be read is listed with its error, unless words are asked for.
        """
        return list_chats(self.log, self._projections, prefix, where)

    def follow(self, since: str = "") -> AsyncGenerator[Change]:
        """The chats that change, in any process, each at least once after its last change. ``since``: the ``mark`` of a change, to go
        on after it; without it, all chats come first.
        """
        return self.log.follow_chats(since)

    async def delete(self, key: str) -> None:
        """Deletes the whole chat, for good. Its forks stay. Quiet if there is none, so that it can be tried again."""
        await self.log.delete(key)

    async def import_chat(self, source: Path | str | Chat, key: str = "") -> Chat:
        """A chat from a file or from any other store, as the chat of this key.

        An exported chat comes in entry for entry the same, or not at all. A session of another tool comes in as far as it can be
        read, and what is new of it when it is imported again; without a key it has that of the tool. For folders, and for what
        could not be read, there is ``chatfold.importers.import_paths``.
        """
        if not isinstance(source, Chat) and not await asyncio.to_thread(is_export, Path(source)):
            return await self._import_session(Path(source), key)
        key = key or (source.key if isinstance(source, Chat) else Path(source).name.removesuffix(".jsonl"))
        try:
            async with aclosing(_pieces(source)) as pieces:  # what is refused half-way leaves no file open
                await self.log.storage.import_chat(key, pieces)
        except ChatfoldError as error:
            error.chat = error.chat or key
            error.path = error.path or (None if isinstance(source, Chat) else Path(source))
            raise
        return await self.chat(key)

    async def _import_session(self, path: Path, key: str) -> Chat:
        from chatfold.importers import import_paths  # noqa: PLC0415 (for those who have such files)

        reports = [report async for report in import_paths(self, [path], key=key)]
        return await self.chat(next(report.key for report in reports if report.key))


def _pieces(source: Path | str | Chat) -> AsyncGenerator[bytes]:
    return source.export_bytes() if isinstance(source, Chat) else read_chunks(source)


# --- listing -------------------------------------------------------------------------------------------------


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
