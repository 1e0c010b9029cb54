"""Snapshots: opaque bytes that were made from the entries up to some ``(seq, link)``.

    cache/newest.snapshot              near the end; overwritten each time
    cache/<seq, 16 digits>.snapshot    at the end of a full segment, and in between where it is small: any entry is near one

    cache/window                       as near to the end as possible; overwritten in place every few turns
    cache/<first, 16 digits>.chapter   from the entries from ``first`` on; what whoever makes them takes for a chapter

Whether ``(seq, link)`` is still a point of the log is for the reader to see, who goes on from there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from chatfold.eventlog.events import Head
from chatfold.eventlog.files.cache import Cache, CacheFile, Span

_KIND = "snapshot 1"
_NEWEST = "newest.snapshot"
_WINDOW, _WINDOW_KIND = "window", "window 1"
_CHAPTER_KIND = "chapter 1"
_APART, _BYTES = 128, 200  # entries between two that stay, at least; bytes of them an entry, at most
_NEAR = 256  # entries from the end, of the newest
_SMALL = 1 << 16


def store_snapshot(
    cache: Cache, head: Head, data: bytes, end: int, stay: list[int], epoch: str, *, border: bool
) -> bool:
    """``border``: the head is the end of a full segment. ``end``: of the log. ``stay``: ``snapshot_seqs``, as far as we know.

    False if the cache cannot be written, or an erasure came meanwhile.
    """
    step = max(
        _APART, len(data) // _BYTES
    )  # half of what ``agent.views`` aims at: it cannot know what is there
    at = bisect_left(stay, head.seq)
    near = (0, *stay[max(0, at - 1) : at + 1])
    name, span = _name(head.seq), Span.up_to(head)
    stays = border or all(abs(seq - head.seq) >= step for seq in near)
    if stays:
        if not cache.store(name, _KIND, span, data, epoch):
            return False
        stay[at : at + (head.seq in near)] = [head.seq]
    if end - head.seq >= _NEAR or (stays and cache.store_again(name, _NEWEST, epoch)):
        return True
    return cache.store(_NEWEST, _KIND, span, data, epoch)


def has_small_newest(cache: Cache) -> bool:
    """Is it read before a thread would have begun to?"""
    return cache.size(_NEWEST) <= _SMALL


def load_newest(cache: Cache, last: int | None) -> CacheFile | None:
    return cache.load(_NEWEST, _KIND, last=last)


def load_snapshots(
    cache: Cache, last: int | None, newest: CacheFile | None, stay: Sequence[int]
) -> Iterator[tuple[Head, bytes]]:
    """Those of at most seq ``last`` that verify, newest first; without ``last``, those older than ``newest``.

    ``stay``: ``snapshot_seqs``, as far as we know.
    """
    epoch = cache.epoch()
    end = len(stay) if last is None else bisect_right(stay, last)
    for seq in reversed(stay[:end]):
        if newest and newest.span.seq == seq:
            continue  # the same
        if last is not None and newest and newest.span.seq > seq:
            yield newest.span.head, newest.payload
            newest = None
        found = cache.load(_name(seq), _KIND, epoch)
        if found and found.span.seq == seq:
            yield found.span.head, found.payload
    if last is not None and newest:
        yield newest.span.head, newest.payload


def store_window(cache: Cache, head: Head, data: bytes, epoch: str) -> bool:
    return cache.store(_WINDOW, _WINDOW_KIND, Span.up_to(head), data, epoch, in_place=True)


def load_window(cache: Cache) -> tuple[Head, bytes] | None:
    found = cache.load(_WINDOW, _WINDOW_KIND)
    return None if found is None else (found.span.head, found.payload)


def store_chapter(cache: Cache, first: int, head: Head, data: bytes, epoch: str) -> bool:
    return cache.store(_chapter_name(first), _CHAPTER_KIND, Span.up_to(head), data, epoch)


def load_chapters(cache: Cache, first: int, last: int) -> dict[int, tuple[Head, bytes]]:
    epoch = cache.epoch()
    begins = [begin for begin in _numbers(cache, ".chapter") if first <= begin <= last]
    found = {begin: cache.load(_chapter_name(begin), _CHAPTER_KIND, epoch) for begin in begins}
    return {begin: (kept.span.head, kept.payload) for begin, kept in found.items() if kept is not None}


def snapshot_seqs(cache: Cache) -> list[int]:
    """Of those that stay, in order."""
    return _numbers(cache, ".snapshot")


def _numbers(cache: Cache, ending: str) -> list[int]:
    # Without a pattern: there may be hundreds, and whoever goes back in time lists them.
    length = 16 + len(ending)
    numbers = [name[:16] for name in cache.names() if len(name) == length and name.endswith(ending)]
    return sorted([int(number) for number in numbers if number.isascii() and number.isdigit()])


def share_snapshots(cache: Cache, fork: Path, last: int, firsts: Collection[int]) -> None:
    """Of those of at most seq ``last``, the nearest and those before these segments go along with a fork; and all chapters."""
    seqs = [seq for seq in snapshot_seqs(cache) if seq <= last]
    for seq in seqs:
        if seq == seqs[-1] or seq + 1 in firsts:
            cache.share(_name(seq), fork)
    if cache.load(_NEWEST, _KIND, last=last):
        cache.share(_NEWEST, fork)
    chapters = _numbers(cache, ".chapter")
    for first, following in pairwise((*chapters, last + 2)):
        if following <= last + 1:  # it ends before that
            cache.share(_chapter_name(first), fork)


def _chapter_name(first: int) -> str:
    return f"{first:016d}.chapter"


def _name(seq: int) -> str:
    return f"{seq:016d}.snapshot"
