"""The history of a chat: chapters that are kept in storage, and the entries of the log where these end.

A chapter is believed if the entry after it, or the chapter after it, says that it follows. So the end of the log proves the last
one, and each proves the one before. What is not kept, or not believed, is read from the log and kept.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from chatfold.agent.views import KEEP, Opened
from chatfold.eventlog import ChatDeleted, ChatfoldError, Entry, Head, Log
from chatfold.projections.history import CHAPTER, Chapter, History


class KeptHistory:
    """That of a chat and its moments, at the entry that was asked for last."""

    def __init__(self) -> None:
        self._kept: tuple[Head, History] | None = None

    async def at(self, log: Log, chat: str, opened: Opened) -> History:
        history = self._known(opened)
        if history is None:
            history = History(await read_chapters(log, chat, opened))
        if self._kept is None or self._kept[0].seq <= opened.seq:
            self._kept = opened.head, history
        return history

    def _known(self, opened: Opened) -> History | None:
        """The one that is kept, or that and the entries since, if they are known."""
        if self._kept is None:
            return None
        head, history = self._kept
        if head.seq > opened.seq or head == opened.head:
            return history.until(opened.seq)
        new = known_entries(opened.recent, head.seq + 1, opened.seq)
        return history.then(new) if new and new[0].prev == head.link else None

    def let_go(self) -> None:
        self._kept = None


async def read_chapters(log: Log, chat: str, opened: Opened, since: int = 1) -> list[Chapter]:
    """From the one that entry ``since`` is in, up to the last entry."""
    firsts = range(max(since - 1, 0) // CHAPTER * CHAPTER + 1, opened.seq + 1, CHAPTER)
    kept = await log.storage.load_chapters(chat, firsts.start, opened.seq)
    found: list[Chapter] = []
    end = opened.head
    for first in reversed(firsts):
        chapter = await _read_chapter(log, chat, opened, first, end, kept.get(first))
        end = Head(first - 1, chapter.prev)
        found.append(chapter)
    return found[::-1]


async def keep_chapters(log: Log, chat: str, since: int, upto: Opened) -> None:
    """Those from entry ``since`` on, for whoever asks next; none if the chat is gone meanwhile."""
    if not log.storage.read_only:
        with suppress(ChatfoldError):  # whoever needs the chat itself will be told
            await read_chapters(log, chat, upto, since)


async def _read_chapter(
    log: Log, chat: str, opened: Opened, first: int, end: Head, kept: tuple[Head, bytes] | None
) -> Chapter:
    """The one that begins with ``first``, up to ``end``."""
    begun = None if kept is None else Chapter.load(kept[1])
    if kept is not None and begun is not None and (begun.first, begun.last) == (first, kept[0].seq):
        head = kept[0]
        if head == end:
            return begun
        if head.seq > end.seq and await _is_in(log, chat, head):
            return begun.until(end.seq)
        if head.seq < end.seq:
            chapter = await _read_on(log, chat, opened, begun, head, end)
            if chapter is not None:
                return chapter
    chapter = await _read_on(log, chat, opened, Chapter(first), None, end)
    if chapter is None:
        raise ChatDeleted("another chat of the same key took its place", chat=chat, seq=end.seq)
    return chapter


async def _is_in(log: Log, chat: str, head: Head) -> bool:
    return [entry.link for entry in await log.last(chat, 1, head.seq)] == [head.link]


async def _read_on(
    log: Log, chat: str, opened: Opened, begun: Chapter, after: Head | None, end: Head
) -> Chapter | None:
    """With the entries up to ``end``, from memory or from the log; None if they do not follow."""
    seq, link = begun.last, "" if after is None else after.link
    new = known_entries(opened.recent, seq + 1, end.seq)
    pages: AsyncIterator[Sequence[Entry]] = _one(new) if new else log.pages(chat, seq + 1, end.seq)
    chapter = begun
    async for page in pages:
        if link and page[0].prev != link:
            return None
        chapter, link = chapter.then(page), page[-1].link
    if (chapter.last, link) != (end.seq, end.link):
        return None
    if chapter.last - seq >= KEEP or len(chapter.kinds) == CHAPTER:
        await log.storage.store_chapter(chat, chapter.first, end, chapter.dump(), opened.erasures)
    return chapter


async def _one(page: Sequence[Entry]) -> AsyncIterator[Sequence[Entry]]:
    yield page


def known_entries(recent: Sequence[Entry], first: int, last: int) -> Sequence[Entry]:
    """Those from ``first`` to ``last``, if all of them are known."""
    if not recent or recent[0].seq > first or recent[-1].seq < last:
        return ()
    return recent[first - recent[0].seq : last - recent[0].seq + 1]
