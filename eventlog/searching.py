"""Searching a chat: its index, brought up to the end of the log, and the log, which has the last word."""

from collections.abc import Callable, Iterable, Sequence

from eventlog.events import Entry, Head
from eventlog.search import Hit, SearchIndex


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
    head = index.head
    if head != Head() and link(head.seq) != head.sum:
        index.clear()  # of another history
        head = Head()
    for page in pages(head.seq + 1):
        index.add(page)
    return index.find(query, read, limit=limit, without=tuple(without))
