"""Fork: a complete chat in its own folder, at a cost that does not grow with the history's bytes.

Full segments are shared by hard link, the one the fork point is in is copied up to there, caches that still hold
come along. The first own line says ``forked`` and is chained on the parent's last one. At the end of a log that this
process writes nothing is copied: the parent's segment was ended there before (``Writer.end_segment``), unless it is short.
"""

import errno
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path

from chatfold.eventlog.batch import Clock
from chatfold.eventlog.codec import EncodedEvent
from chatfold.eventlog.errors import ChatExists, NoSuchPoint
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.blobs import BLOBS, blob_names
from chatfold.eventlog.files.cache import CACHE, ERASED_FILE, Cache
from chatfold.eventlog.files.chat_dir import (
    chat_path,
    publish_chat,
    staging_folder,
    write_open_segment,
)
from chatfold.eventlog.files.disk import Disk, check_folder, read_at, read_file, replace_file
from chatfold.eventlog.files.offsets import offsets_name
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.seen_files import share_seen
from chatfold.eventlog.files.segment import BIG_PAGE, segment_name
from chatfold.eventlog.files.snapshots import share_snapshots
from chatfold.eventlog.line import build_entry_line, header_line


def fork_chat(parent: LogReader, root: Path, new: str, at: int, first: EncodedEvent, clock: Clock) -> Entry:
    """The caller holds the parent's lock: nothing is redacted or deleted meanwhile."""
    disk = parent.disk
    path = chat_path(root, new)
    with parent.lock:  # which the event loop takes, too: not while files are written
        link = _link_at(parent, at)
        shared, partial = _plan_sharing(parent, at)
    entry = Entry(at + 1, clock(), first.event, synced=at, prev=link)
    line = build_entry_line(entry, first.raw)
    mine = Head(at + 1, line[-18:-2].decode())
    with staging_folder(disk, path, new) as staging:
        temporary = staging.path
        for segment in shared:
            _hard_link(disk, parent.segment_path(segment), temporary / segment_name(segment))
        _bring_blobs(disk, parent.path, temporary)
        with suppress(FileNotFoundError):  # before the caches that count by it
            _hard_link(disk, parent.path / ERASED_FILE, temporary / ERASED_FILE)
        _bring_caches(disk, parent.path, temporary, shared, at)
        # Last, so that one commit of the file system's journal makes the names durable, too.
        if partial is None:
            witness = write_open_segment(disk, temporary, at + 1, [header_line(Head(at, link)), line], mine)
        else:
            with closing(_read_pieces(parent, *partial)) as pieces:
                witness = write_open_segment(disk, temporary, partial[0], [line], mine, pieces)
        if not publish_chat(disk, staging, path, witness):
            raise ChatExists("there is a chat of this key already", chat=new, path=path)
    return Entry(at + 1, entry.ts, first.event, synced=at, prev=link, sum=mine.link)


def _link_at(parent: LogReader, at: int) -> str:
    link = parent.link(at)
    if link is None:
        end = parent.tail().position.seq
        raise NoSuchPoint(f"there is no entry {at}, the chat ends at {end}", chat=parent.chat, seq=at)
    return link


def _plan_sharing(parent: LogReader, at: int) -> tuple[list[int], tuple[int, int] | None]:
    """(segments to share whole, (the segment to copy, how many of its bytes))"""
    tail, segments = parent.tail(), parent.segments()
    firsts = [first for first in segments if first <= at]
    if at + 1 in segments or (at == tail.position.seq and tail.sealed):
        return firsts, None
    end = tail.position.offset if at == tail.position.seq else parent.offset_of(at + 1)[1]
    return firsts[:-1], (firsts[-1], end)


def _read_pieces(parent: LogReader, first: int, size: int) -> Generator[bytes]:
    """The first bytes of a segment, in pieces: to get the memory for all of them takes longer than to read them."""
    with parent.open_segment(first) as fd:
        for start in range(0, size, BIG_PAGE):
            yield read_at(parent.disk, fd, start, min(BIG_PAGE, size - start))


def _hard_link(disk: Disk, old: Path, new: Path) -> None:
    try:
        disk.link(old, new)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        replace_file(disk, new, read_file(disk, old))  # a file system without hard links


def _bring_blobs(disk: Disk, old: Path, new: Path) -> None:
    names = blob_names(disk, old)
    if names:
        disk.make_folder(new / BLOBS)
        for name in names:
            _hard_link(disk, old / BLOBS / name, new / BLOBS / name)
        disk.sync_folder(new / BLOBS)


def _bring_caches(disk: Disk, old: Path, new: Path, shared: list[int], at: int) -> None:
    with suppress(OSError):  # caches: what is missing is made again
        theirs, ours = old / CACHE, new / CACHE
        check_folder(disk, theirs)
        disk.make_folder(ours)
        cache = Cache(old, disk)
        for first in shared:
            with suppress(FileNotFoundError):
                cache.share(offsets_name(first), new)
        share_snapshots(cache, new, at, shared)
        share_seen(cache, new, at)
