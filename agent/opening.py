"""Opening: the newest snapshot that belongs to this history, then the entries after it, folded.

A snapshot is used only if the first entry after it says that it follows it; one that is damaged, of another version
of the code, or of a history that was cut off is passed over for the next older one, and in the end for none. So the
caches decide how long opening takes, never what is seen. On the way, and at the end, new snapshots are kept: one at
every border between segments, so that any seq is at most a segment away, and the newest a few hundred entries back.
"""

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from eventlog import ChatfoldError, Entry, Head, Log, NoSuchPoint
from projections import STANDARD, OutOfOrder, Projection, View, contexts, fold, start, window
from projections.snapshots import dump, load
from projections.spans import Spans, minus

KEEP = 256
"""How far the end may be from the newest snapshot, in entries."""
_NEAR = 1024  # entries from the end that are read backwards, without asking where they stand


class Opened(msgspec.Struct, frozen=True):
    """A view, and the last entries that were read to make it: ``recent`` ends at the view's seq, or is empty."""

    view: View
    recent: list[Entry]


async def open_view(
    log: Log, chat: str, *, at: int | None = None, projections: Sequence[Projection[Any]] = STANDARD
) -> Opened:
    """The chat at its end as it is now, or after entry ``at``."""
    head = await log.head(chat)
    last = head.seq if at is None else at
    if not 0 <= last <= head.seq:
        raise NoSuchPoint(f"there is no entry {last}, the chat ends at {head.seq}", chat=chat, seq=head.seq)
    async with aclosing(log.storage.kept(chat, at)) as kept:
        async for of, data in kept:
            base = load(data, of, projections) if 0 < of.seq <= last else None
            with suppress(OutOfOrder):
                if base is not None:
                    return await _forward(log, chat, base, last, head)
    return await _forward(log, chat, start(projections), last, head)


async def _forward(log: Log, chat: str, base: View, last: int, head: Head) -> Opened:
    if last - base.seq > _NEAR or last < head.seq:
        return await _far(log, chat, base, last)
    # The window is read together with what must be folded: usually it is all there is to read.
    count = last - min(base.seq, _before_window(base))
    recent = await log.last(chat, count, last)
    if base.seq and base.seq == last and base.head != head:
        raise OutOfOrder(f"another history had {last} entries, too")
    new = recent[len(recent) - (last - base.seq) :]
    if len(new) < KEEP:
        return Opened(fold(base, new), recent)
    view = await _passed(log, chat, base, new, await log.storage.borders(chat))
    await keep_view(log, chat, view)
    return Opened(view, recent)


def _before_window(view: View) -> int:
    """The seq before the model's window, if that is near and the view knows."""
    if contexts not in view.projections:
        return view.seq
    visible = window(view[contexts], view.seq).spans
    return visible[0][0] - 1 if visible and view.seq - visible[0][0] < _NEAR else view.seq


async def _far(log: Log, chat: str, base: View, last: int) -> Opened:
    borders = await log.storage.borders(chat)
    if base.seq == last:
        async for entry in log.read(chat, last, last):
            if entry.link != base.head.sum:
                raise OutOfOrder(f"another history had {last} entries, too")
    view = base
    page: list[Entry] = []
    async for page in log.pages(chat, base.seq + 1, last):
        view = await _passed(log, chat, view, page, borders)
    if view.seq - base.seq >= KEEP and view.head == await log.head(chat):
        await keep_view(log, chat, view)
    return Opened(view, page)


async def _passed(log: Log, chat: str, view: View, entries: list[Entry], borders: Sequence[int]) -> View:
    """The view after these entries; a snapshot is kept at every border on the way."""
    for border in borders[bisect_left(borders, view.seq + 1) : bisect_left(borders, entries[-1].seq + 1)]:
        upto = border - entries[0].seq + 1
        view, entries = fold(view, entries[:upto]), entries[upto:]
        await keep_view(log, chat, view)
    return fold(view, entries)


async def keep_view(log: Log, chat: str, view: View) -> None:
    """A snapshot for whoever opens the chat next."""
    await log.storage.keep(chat, view.head, dump(view))


async def keep_up(log: Log, chat: str, base: View, upto: View) -> None:
    """Snapshots at the borders between two views of a chat, and at the second; none if the chat is gone meanwhile."""
    with suppress(OutOfOrder, ChatfoldError):  # whoever needs the chat itself will be told
        entries = [entry async for entry in log.read(chat, base.seq + 1, upto.seq)]
        if entries and entries[-1].link == upto.head.sum:
            await keep_view(
                log, chat, await _passed(log, chat, base, entries, await log.storage.borders(chat))
            )


async def window_entries(log: Log, chat: str, opened: Opened) -> list[Entry]:
    """What the model sees of the active context, and the summaries in it: the entries that ``messages`` needs."""
    wanted = window(opened.view[contexts], opened.view.seq).entries
    return await entries_of(log, chat, wanted, opened.recent)


async def entries_of(log: Log, chat: str, wanted: Spans, known: Sequence[Entry] = ()) -> list[Entry]:
    """The entries of these spans, in order; those that are ``known`` are not read again."""
    have = ((known[0].seq, known[-1].seq),) if known else ()
    found = [entry async for entry in log.spans(chat, minus(wanted, have))]
    for first, last in wanted:
        if known and first <= known[-1].seq and last >= known[0].seq:
            found += known[max(0, first - known[0].seq) : last - known[0].seq + 1]
    return sorted(found, key=lambda entry: entry.seq)
