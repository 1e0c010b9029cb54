"""Searching a chat: its index, brought up to the end of the log, and the log, which has the last word."""

from collections.abc import Callable, Iterable, Sequence

from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.search import Hit, SearchIndex


def search(
    index: SearchIndex,
    link: Callable[[int], str | None],
    pages: Callable[[int], Iterable[list[Entry]]],
    read: Callable[[int], Entry | None],
    query: str,
    limit: int,
    without: Sequence[tuple[int, int]],
) -> list[Hit]:
    """``link``, ``pages`` from a seq on and ``read`` are the log's. One thread at a time for an index."""
    while not _caught_up(index, link, pages):
        pass  # somebody erased something meanwhile, and with it what the index knew
    return index.find(query, read, limit=limit, without=tuple(without))


def _caught_up(
    index: SearchIndex, link: Callable[[int], str | None], pages: Callable[[int], Iterable[list[Entry]]]
) -> bool:
    head = index.head
    if head != Head() and link(head.seq) != head.sum:
        index.clear()  # of another history
        head = Head()
    return all(index.add(page) for page in pages(head.seq + 1))
