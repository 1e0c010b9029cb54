"""Opening: the newest snapshot that belongs to this history, then the entries after it, folded.

A snapshot is used only if the first entry after it says that it follows it; one that is damaged, of another version
of the code, or of a history that was cut off is passed over for the next older one, and in the end for none. So the
caches decide how long opening takes, never what is seen. On the way, and at the end, new snapshots are kept: one at
every border between segments and some in between, so that any seq is near one, and the newest a few hundred entries back.
"""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeAlias, TypeVar

from chatfold.eventlog import ChatDeleted, ChatfoldError, Entry, Head, Log, NoSuchPoint, Rewound
from chatfold.eventlog.storage import Opening
from chatfold.projections import (
    STANDARD,
    NeedsEarlier,
    OutOfOrder,
    Projection,
    View,
    contexts,
    fold,
    start,
)
from chatfold.projections.contexts import window
from chatfold.projections.history import CHAPTER, Chapter
from chatfold.projections.prompt import Prompt  # noqa: TC001
from chatfold.projections.snapshot import PackedView, dump, load, load_packed, load_window
from chatfold.projections.spans import Spans, minus

KEEP = 256
"""How far the end may be from the newest snapshot, in entries."""
PAUSE_S, MOST = 0.1, 1024
"""The same while they come more quickly than that: a snapshot in so many seconds, but at most so many entries back."""
MEMORY = 16_384
"""How many versions a view remembers on a long way, or when it has gone back far."""
_KNOWN = 2048  # entries remembered, so that the messages of the next call need no reading
_BYTES = 100  # of snapshots in between, an entry
_WORTH = 64  # entries that the next process to open the chat should not have to fold again
_UNFOLDED = 128  # entries that wait until the view is asked for
_NEAR = 1024  # entries from the end that are read backwards, without asking where they stand


S = TypeVar("S")
Later: TypeAlias = set[asyncio.Task[None]]
"""Tasks that nobody waits for before the log is closed."""


class Opened:
    """What is known of a chat after one entry: its view, which is folded when it is asked for, and the last entries.

    ``recent`` ends at the view's seq, or is empty. ``erasures``: as the storage told them before those were read.
    ``prompt``: one that was kept with it, as it was after an entry not far before.
    """

    def __init__(
        self,
        base: View | PackedView,
        recent: Sequence[Entry] = (),
        erasures: str = "",
        new: tuple[Entry, ...] = (),
        prompt: "tuple[Opened, Prompt] | None" = None,
        snapshot: int | None = None,
    ) -> None:
        self._base = base
        self.projections = base.projections
        self._new = new  # after the base, not folded yet
        self._parts: dict[str, View] = {}  # of the view, while the whole is not folded
        self.recent = recent
        self.erasures = erasures
        self.prompt = prompt
        self.head = Head(new[-1].seq, new[-1].link) if new else base.head
        self.seq = self.head.seq
        self.snapshot = self.head.seq if snapshot is None else snapshot  # the newest one that is kept

    def __getitem__(self, projection: Projection[S]) -> S:
        """Only this one is folded, unless the view is there."""
        if isinstance(self._base, View) and not self._new:
            return self._base[projection]
        if projection not in self.projections:
            raise KeyError(
                f"{projection!r} is not folded here: open the chat with it, or ``await chat.fold`` it"
            )
        if projection.name not in self._parts:
            base = self._base
            part = (
                View((projection,), (base[projection],), base.head)
                if isinstance(base, View)
                else base.part(projection)
            )
            self._parts[projection.name] = fold(part, self._new)
        return self._parts[projection.name][projection]

    @property
    def view(self) -> View:
        if isinstance(self._base, PackedView):
            self._base = self._base.view
        if self._new:
            self._base, self._new = fold(self._base, self._new), ()
        return self._base

    def without_entries(self) -> "Opened":
        return Opened(self.view, (), self.erasures, snapshot=self.snapshot)

    def then(self, *entries: Entry) -> "Opened":
        """After the next entries."""
        if len(self._new) > _UNFOLDED:
            _ = self.view
        recent = [*self.recent, *entries][-_KNOWN:]
        return Opened(self._base, recent, self.erasures, (*self._new, *entries), snapshot=self.snapshot)


async def open_view(
    log: Log,
    chat: str,
    *,
    at: int | None = None,
    projections: Sequence[Projection[Any]] = STANDARD,
    later: Later | None = None,
) -> Opened:
    """The chat at its end as it is now, or after entry ``at``. ``later``: where the keeping of a snapshot is put off to."""
    begin = await log.storage.load_opening(chat, at)
    erasures, head = begin.erasures, begin.head
    if begin.window is not None and (opened := await _from_window(log, chat, begin, projections)):
        return opened
    last = head.seq if at is None else at
    if not 0 <= last <= head.seq:
        raise NoSuchPoint(f"there is no entry {last}, the chat ends at {head.seq}", chat=chat, seq=head.seq)
    if not last:
        return Opened(start(projections), erasures=erasures)
    async with aclosing(_snapshots(log, chat, begin)) as kept:
        async for of, data in kept:
            packed = load_packed(data, of, projections) if 0 < of.seq <= last else None
            with suppress(OutOfOrder):
                if packed is not None and last - of.seq < (_WORTH if last == head.seq else _NEAR):
                    return await _near(log, chat, packed, erasures, last)
                if packed is not None:
                    way = _Way(log, chat, packed.view, erasures, len(data), later)
                    return await _forward(way, last, head)
    try:
        return await _forward(_Way(log, chat, start(projections), erasures, later=later), last, head)
    except OutOfOrder:
        # From its start on, nothing is, unless another chat took the place of the one we had the head of.
        raise ChatDeleted("the chat was deleted", chat=chat, seq=last) from None


async def _from_window(
    log: Log, chat: str, begin: Opening, projections: Sequence[Projection[Any]]
) -> Opened | None:
    """The chat at its end, from the window and what came after it; None if it is not the window of this history."""
    assert begin.window is not None
    of, data = begin.window
    behind = begin.head.seq - of.seq
    if not 0 <= behind <= _NEAR or (not behind and of != begin.head):
        return None
    recent = await log.last(chat, behind + 1, begin.head.seq) if behind else []
    if behind and (recent[0].seq, recent[0].link) != (of.seq, of.link):
        return None
    found = load_window(data, of, projections)
    if found is None:
        return None
    then = Opened(found.packed, erasures=begin.erasures, snapshot=found.snapshot)
    new = tuple(recent[1:])
    if any(type(entry.event) is Rewound for entry in new):
        view = await fold_on(log, chat, then.view, new)
        return Opened(view, new, begin.erasures, snapshot=found.snapshot)
    return Opened(found.packed, new, begin.erasures, new, (then, found.prompt), found.snapshot)


async def _snapshots(log: Log, chat: str, begin: Opening) -> AsyncGenerator[tuple[Head, bytes]]:
    """The newest, which is known by now, and the older ones, which hardly anybody needs."""
    if (
        begin.window is not None and begin.snapshot is None
    ):  # the window was no use: the snapshot was not asked for
        async with aclosing(log.storage.load_snapshots(chat)) as every:
            async for kept in every:
                yield kept
    elif begin.snapshot is not None:
        yield begin.snapshot
        async with aclosing(log.storage.load_snapshots(chat, begin.snapshot[0].seq - 1)) as older:
            async for kept in older:
                yield kept


class _Way:
    """Folds on from a view. A snapshot is kept at every border on the way and, about as often as they are small, in between."""

    def __init__(
        self, log: Log, chat: str, base: View, erasures: str, size: int = 0, later: Later | None = None
    ) -> None:
        self.log = log
        self.chat = chat
        self.view = base.with_memory(MEMORY)
        self.erasures = erasures
        self._kept = base.seq
        self._step = max(KEEP, size // _BYTES)
        self._later = later
        self._borders: Sequence[int] | None = None
        self._chapter = Chapter(base.seq + 1) if base.seq % CHAPTER == 0 else None  # else it begins later

    async def take(self, entries: list[Entry]) -> None:
        """The next entries."""
        if self._borders is None:
            self._borders = await self.log.storage.segment_boundaries(self.chat)
        while entries:
            border = bisect_left(self._borders, self.view.seq + 1)
            stops = (*self._borders[border : border + 1], self._kept + self._step)
            end = self.view.seq // CHAPTER * CHAPTER + CHAPTER
            upto = min(end, *stops) - self.view.seq
            self.view = await fold_on(self.log, self.chat, self.view, entries[:upto])
            if self._chapter is not None:
                self._chapter = self._chapter.then(entries[:upto])
            entries = entries[upto:]
            if self.view.seq in stops:
                await self.keep()
            if self.view.seq == end:
                await self._keep_chapter()
                self._chapter = Chapter(end + 1)

    async def keep(self) -> None:
        if self._kept != self.view.seq:
            self._step = max(KEEP, await keep_view(self.log, self.chat, self.view, self.erasures) // _BYTES)
            self._kept = self.view.seq

    async def _keep_chapter(self) -> None:
        if self._chapter is not None and len(self._chapter.kinds) >= KEEP and not self.log.storage.read_only:
            data = self._chapter.dump()
            await self.log.storage.store_chapter(
                self.chat, self._chapter.first, self.view.head, data, self.erasures
            )

    async def keep_newest(self) -> None:
        """At the end of the way. Not before the answer, if there is somewhere to put it."""
        await self._keep_chapter()
        if self._later is None:
            await self.keep()
        elif self._kept != self.view.seq:
            put_off(_try_to_keep(self.log, self.chat, self.view, self.erasures), self._later)


async def _near(log: Log, chat: str, packed: PackedView, erasures: str, last: int) -> Opened:
    """From a snapshot a little before, of which no more is unpacked and folded than is asked for."""
    of = packed.head
    begin = _before_window(Opened(packed), last)
    recent = await log.last(chat, last - min(of.seq - (of.seq == last), begin), last)
    new = tuple(recent[len(recent) - (last - of.seq) :])
    if (new[0].prev if new else recent[-1].link) != of.link:
        raise OutOfOrder(f"another history had {of.seq} entries, too")
    if any(type(entry.event) is Rewound for entry in new):
        return Opened(await fold_on(log, chat, packed.view, new), recent, erasures, snapshot=of.seq)
    return Opened(packed, recent, erasures, new, snapshot=of.seq)


async def _forward(way: _Way, last: int, head: Head) -> Opened:
    if last - way.view.seq > _NEAR:
        return await _far(way, last, head)
    # The window is read together with what must be folded: usually it is all there is to read.
    begin = min(way.view.seq, _before_window(Opened(way.view), last))
    recent = await way.log.last(way.chat, max(1, last - begin), last)
    await way.take(recent[len(recent) - (last - way.view.seq) :])
    if last == head.seq:
        await way.keep_newest()
    return Opened(way.view.with_memory(), recent, way.erasures)


def _before_window(opened: Opened, last: int) -> int:
    """The seq before the model's window, if that is near ``last`` and the view knows."""
    if contexts not in opened.projections:
        return opened.seq
    visible = window(opened[contexts], opened.seq).spans
    return visible[0][0] - 1 if visible and last - visible[0][0] < _NEAR else opened.seq


async def _far(way: _Way, last: int, head: Head) -> Opened:
    page: list[Entry] = []
    async for page in way.log.pages(way.chat, way.view.seq + 1, last):
        await way.take(page)
    if way.view.head == head:
        await way.keep_newest()
    return Opened(way.view.with_memory(), page, way.erasures)


async def fold_on(log: Log, chat: str, view: View, entries: Sequence[Entry]) -> View:
    """The view after the next entries. What a rewind among them goes back to is read, if the view does not remember it."""
    while True:
        try:
            return fold(view, entries)
        except NeedsEarlier as needed:
            view = needed.view.with_point(await _view_at(log, chat, needed.to, needed.view.projections))
            # It may go as far back again: reading costs more than remembering.
            view = view.with_memory(max(view.past.size, min(4 * view.past.size, MEMORY)))
            entries = [entry for entry in entries if entry.seq > view.seq]


async def _view_at(log: Log, chat: str, to: int, projections: Sequence[Projection[Any]]) -> View:
    """From a snapshot near it; if a rewind on that way goes back to before the snapshot, from one that is twice as far."""
    at, back = to, KEEP
    while True:
        base, entries = await _nearest(log, chat, at, to, projections)
        try:
            return fold(base.with_memory(to), entries)
        except NeedsEarlier as needed:
            back *= 2
            at = max(0, min(needed.to, to - back))


async def _nearest(
    log: Log, chat: str, at: int, to: int, projections: Sequence[Projection[Any]]
) -> tuple[View, list[Entry]]:
    """The newest view that is kept of entry ``at`` or before, and the entries from there up to ``to``."""
    async with aclosing(log.storage.load_snapshots(chat, at)) as kept:
        async for of, data in kept:
            base = load(data, of, projections) if 0 < of.seq <= at else None
            if base is not None:
                entries = await log.last(chat, to - base.seq + 1, to)
                if [entry.link for entry in entries[:1]] == [of.link]:
                    return base, entries[1:]
    return start(projections), await log.last(chat, to, to)


async def go_on(log: Log, chat: str, opened: Opened, entries: Sequence[Entry]) -> Opened:
    """The same after the next entries, whatever they go back to."""
    view = await fold_on(log, chat, opened.view, entries)
    recent = [*opened.recent, *entries][-_KNOWN:]
    return Opened(view, recent, opened.erasures, snapshot=opened.snapshot)


async def keep_view(log: Log, chat: str, view: View, erasures: str = "") -> int:
    """Stores a snapshot, unless something was erased since; returns its size in bytes."""
    if log.storage.read_only:
        return 0
    data = dump(view)
    await log.storage.store_snapshot(chat, view.head, data, erasures)
    return len(data)


async def _try_to_keep(log: Log, chat: str, view: View, erasures: str) -> None:
    with suppress(ChatfoldError):  # a caller that needs the chat itself will be told
        await keep_view(log, chat, view, erasures)


def put_off(work: Coroutine[None, None, None], later: Later) -> None:
    task = asyncio.create_task(work)
    later.add(task)
    task.add_done_callback(later.discard)


async def keep_up(log: Log, chat: str, since: int, upto: Opened) -> None:
    """Snapshots at the borders after entry ``since``, and at the end of what is known; none if the chat is gone meanwhile."""
    with suppress(OutOfOrder, ChatfoldError):  # a caller that needs the chat itself will be told
        borders = await log.storage.segment_boundaries(chat)
        if bisect_left(borders, since + 1) == bisect_left(borders, upto.seq):
            await keep_view(log, chat, upto.view, upto.erasures)
            return
        base, entries = await _nearest(log, chat, since, upto.seq, upto.projections)
        # At the end, and at borders before it.
        way = _Way(log, chat, base, upto.erasures, len(entries) * _BYTES)
        await way.take(entries)
        await way.keep()


async def window_entries(log: Log, chat: str, opened: Opened) -> list[Entry]:
    """What the model sees of the active context, and the summaries in it: the entries that ``messages`` needs."""
    wanted = window(opened.view[contexts], opened.view.seq).entries
    return await entries_of(log, chat, wanted, opened.recent)


async def entries_of(log: Log, chat: str, wanted: Spans, known: Sequence[Entry] = ()) -> list[Entry]:
    """The entries of these spans, in order; those that are ``known`` are not read again."""
    have = ((known[0].seq, known[-1].seq),) if known else ()
    missing = minus(wanted, have)
    found = [entry async for entry in log.spans(chat, missing)] if missing else []
    for first, last in wanted:
        if known and first <= known[-1].seq and last >= known[0].seq:
            found += known[max(0, first - known[0].seq) : last - known[0].seq + 1]
    return sorted(found, key=lambda entry: entry.seq) if missing else found
