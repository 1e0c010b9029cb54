"""Where lines start, every eighth of them: reading by seq costs a seek, not a scan.

Noted while a segment is read or written; for a full segment kept in ``cache/<first>.offsets``. A cache: an
index that is missing, damaged, or leads to another line than it says is dropped and made again.
"""

import os
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

import msgspec

from chatfold.eventlog.files.cache import CACHE
from chatfold.eventlog.files.disk import Disk, ensure_folder, read_file, replace_file
from chatfold.eventlog.line import Count, add_checksum, decode_verified

STRIDE = 8


class SegmentOffsets(msgspec.Struct):
    """Line ``seqs[i]`` starts at byte ``starts[i]``, in the file with this inode."""

    inode: int
    seqs: list[int]
    starts: list[int]
    end: int = 0  # everything before this byte is noted
    gap: bool = False  # something in between was not


class _Index(msgspec.Struct):
    """What is kept of a segment of so many bytes: where its first line starts, and every eighth after it.

    Nothing that a copy of the file changes: whoever restores a chat has its indexes, too.
    """

    bytes: int
    starts: list[Count]


_decode = msgspec.json.Decoder(_Index).decode


class Offsets:
    def __init__(self, folder: Path, disk: Disk, *, may_write: bool) -> None:
        self._folder = folder
        self._disk = disk
        self._may_write = may_write
        self._anchors: dict[int, SegmentOffsets] = {}

    def forget(self) -> None:
        self._anchors.clear()

    def drop(self, first: int) -> None:
        """What is known of this segment turned out wrong."""
        self._anchors.pop(first, None)
        if self._may_write:
            with suppress(OSError):
                self._disk.unlink(self._path(first))

    def record(self, first: int, inode: int, seq: int, start: int, lines: list[bytes]) -> None:
        """``lines``, the first of them ``seq``, stand at byte ``start``."""
        if not lines:
            return
        anchors = self._anchors.get(first)
        if anchors is None or anchors.inode != inode or (anchors.gap and seq == first):
            anchors = self._anchors[first] = SegmentOffsets(inode, [], [], start, gap=seq != first)
        if start < anchors.end:
            return
        anchors.gap |= start > anchors.end
        begin, end = 0, (first - seq) % STRIDE  # the next line with an anchor
        while end < len(lines):
            start += end - begin + sum(map(len, lines[begin:end]))
            anchors.seqs.append(seq + end)
            anchors.starts.append(start)
            begin, end = end, end + STRIDE
        anchors.end = start + len(lines) - begin + sum(map(len, lines[begin:]))

    def lookup(
        self, first: int, status: os.stat_result, seq: int, *, full: bool
    ) -> tuple[int, int, int] | None:
        """(seq, start) of the last line known at or before ``seq``, and the start of the next one; 0 if it has none.

        ``status``: of the segment. ``full``: there may be an index on disk.
        """
        anchors = self._anchors.get(first) or (self._load(first, status) if full else None)
        if anchors is None or anchors.inode != status.st_ino:
            return None
        seqs, index = anchors.seqs, (seq - first) // STRIDE
        if not (
            index < len(seqs) and seqs[index] == first + index * STRIDE
        ):  # not noted from the start, or wrong
            index = bisect_right(seqs, seq) - 1
        if index < 0 or seqs[index] > seq:
            return None
        following = anchors.starts[index + 1] if index + 1 < len(anchors.starts) else 0
        return seqs[index], anchors.starts[index], following

    def store(self, first: int, size: int) -> None:
        """The segment is full, with ``size`` bytes: keeps its index. One of which a part was never seen is made when it is read."""
        anchors = self._anchors.get(first)
        if anchors is not None and not anchors.gap and self._may_write:
            body = msgspec.json.encode(_Index(size, anchors.starts))
            with suppress(OSError):  # a cache that cannot be written is not needed
                ensure_cache(self._disk, self._folder)
                replace_file(self._disk, self._path(first), add_checksum(body[:-1]), durable=False)

    def _path(self, first: int) -> Path:
        return self._folder / CACHE / f"{first:016d}.offsets"

    def _load(self, first: int, status: os.stat_result) -> SegmentOffsets | None:
        try:
            index = decode_verified(read_file(self._disk, self._path(first)), _decode)
        except OSError:
            return None
        if index is None or index.bytes != status.st_size:
            return None
        seqs = list(range(first, first + STRIDE * len(index.starts), STRIDE))
        anchors = self._anchors[first] = SegmentOffsets(status.st_ino, seqs, index.starts, end=index.bytes)
        return anchors


def ensure_cache(disk: Disk, folder: Path) -> None:
    ensure_folder(disk, folder / CACHE)
