"""Snapshots: opaque bytes that somebody made from the entries up to some ``(seq, sum)``, kept in ``cache/``.

    cache/newest.snapshot              near the end; overwritten each time
    cache/<seq, 16 digits>.snapshot    at the end of a full segment, and in between where it is small: any entry is near one

A file is one checked line that names the history it belongs to and the last erasure it knows of, then the bytes. The last
erasure is in ``erased``, outside ``cache/``: a cache that is put back from before it is not believed. A cache: what is missing or does not
verify is passed over. Whether ``(seq, sum)`` is still a point of the log is for the reader to see, who goes on from there.
"""

import os
from bisect import bisect_left
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from xxhash import xxh3_128_hexdigest

from chatfold.eventlog.events import Head
from chatfold.eventlog.files.chat_dir import ERASED_FILE
from chatfold.eventlog.files.disk import (
    Disk,
    check_folder,
    opened,
    read_at,
    read_file,
    replace_file,
    temp_name,
)
from chatfold.eventlog.files.offsets import CACHE, ensure_cache
from chatfold.eventlog.line import Count, add_checksum, decode_verified

_NEWEST = "newest.snapshot"
_APART, _BYTES = 128, 200  # entries between two that stay, at least; bytes of them an entry, at most
_NEAR = 256  # entries from the end, of the newest
_TITLE = 512  # bytes in which the first line ends


class _Title(msgspec.Struct):
    snapshot: int  # the version of this format
    seq: Count
    of: str
    bytes: Count
    xxh3: str
    erased: str = ""  # the erasure epoch it was made in


_decode = msgspec.json.Decoder(_Title).decode


def keep_snapshot(
    disk: Disk, folder: Path, head: Head, data: bytes, end: int, stay: list[int], epoch: str, *, border: bool
) -> None:
    """``border``: the head is the end of a full segment. ``end``: of the log. ``stay``: ``snapshot_seqs``, as far as we know."""
    step = max(
        _APART, len(data) // _BYTES
    )  # half of what ``agent.opening`` aims at: it cannot know what is there
    at = bisect_left(stay, head.seq)
    near = (0, *stay[max(0, at - 1) : at + 1])
    name = f"{head.seq:016d}.snapshot"
    stays = border or all(abs(seq - head.seq) >= step for seq in near)
    if stays:
        keep_file(disk, folder, name, head, data, epoch)
        stay[at : at + (head.seq in near)] = [head.seq]
    if end - head.seq < _NEAR and not (stays and _is_newest(disk, folder, name)):
        keep_file(disk, folder, _NEWEST, head, data, epoch)


def _is_newest(disk: Disk, folder: Path, name: str) -> bool:
    """Now it is, if the file system has links: half the work of writing it again."""
    temporary = folder / CACHE / temp_name(_NEWEST)
    try:
        disk.link(folder / CACHE / name, temporary)
        disk.rename(temporary, folder / CACHE / _NEWEST)
    except OSError:
        return False
    return True


def keep_file(disk: Disk, folder: Path, name: str, head: Head, data: bytes, epoch: str = "") -> None:
    title = {
        "snapshot": 1,
        "seq": head.seq,
        "of": head.link,
        "bytes": len(data),
        "xxh3": xxh3_128_hexdigest(data),
    } | ({"erased": epoch} if epoch else {})
    with suppress(OSError):  # a cache that cannot be written is not needed
        ensure_cache(disk, folder)
        line = add_checksum(msgspec.json.encode(title)[:-1])
        replace_file(disk, folder / CACHE / name, line + b"\n" + data, durable=False)


def snapshots(disk: Disk, folder: Path, last: int | None = None) -> Iterator[tuple[Head, bytes]]:
    """Those of at most seq ``last`` that verify, newest first; without ``last`` only as many files are read as taken."""
    epoch = read_erasure_epoch(disk, folder)
    newest = kept_file(disk, folder, _NEWEST, last, epoch)
    if newest and last is None:
        yield newest
    for seq in reversed(snapshot_seqs(disk, folder)):
        if newest and newest[0].seq == seq:
            continue  # the same
        if last is not None and newest and newest[0].seq > seq:
            yield newest
            newest = None
        is_wanted = last is None or seq <= last
        found = kept_file(disk, folder, f"{seq:016d}.snapshot", None, epoch) if is_wanted else None
        if found and found[0].seq == seq:
            yield found
    if last is not None and newest:
        yield newest


def snapshot_seqs(disk: Disk, folder: Path) -> list[int]:
    """Of those that stay, in order."""
    try:
        names = disk.names(folder / CACHE)
    except OSError:
        return []
    # Without a pattern: there may be hundreds, and whoever goes back in time lists them.
    numbers = [name[:16] for name in names if len(name) == 25 and name.endswith(".snapshot")]
    return sorted([int(number) for number in numbers if number.isascii() and number.isdigit()])


def drop_snapshot(disk: Disk, folder: Path, head: Head) -> None:
    """Also if it is the newest by now."""
    for name in (f"{head.seq:016d}.snapshot", _NEWEST):
        with suppress(OSError):
            disk.unlink(folder / CACHE / name)


def read_erasure_epoch(disk: Disk, folder: Path) -> str:
    """Another text after every erasure; nothing before the first."""
    try:
        return read_file(disk, folder / ERASED_FILE).decode("ascii", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return os.urandom(8).hex()  # unknown, and so equal to none: no snapshot is believed


def begin_erasure_epoch(disk: Disk, folder: Path) -> None:
    """Durable on return. From now on no snapshot counts that was made from what was read before."""
    replace_file(disk, folder / ERASED_FILE, os.urandom(8).hex().encode())


def share_snapshots(disk: Disk, old: Path, new: Path, last: int, firsts: Collection[int]) -> None:
    """Of those of at most seq ``last``, the nearest and those before these segments go along with a fork."""
    theirs, ours = old / CACHE, new / CACHE
    seqs = [seq for seq in snapshot_seqs(disk, old) if seq <= last]
    for seq in seqs:
        if seq == seqs[-1] or seq + 1 in firsts:
            name = f"{seq:016d}.snapshot"
            disk.link(theirs / name, ours / name)
    newest = kept_file(disk, old, _NEWEST, None, read_erasure_epoch(disk, old))
    if newest and newest[0].seq <= last:
        disk.link(theirs / _NEWEST, ours / _NEWEST)


def kept_file(
    disk: Disk, folder: Path, name: str, last: int | None = None, epoch: str = ""
) -> tuple[Head, bytes] | None:
    """None if it is missing, does not verify, is of a seq after ``last``, or was not made in this erasure epoch."""
    try:
        check_folder(disk, folder / CACHE)
        with opened(disk, folder / CACHE / name) as fd:
            line = read_at(disk, fd, 0, _TITLE).partition(b"\n")[0]
            title = decode_verified(line, _decode)
            if title is None or title.erased != epoch or (last is not None and title.seq > last):
                return None
            if title.bytes > disk.fstat(fd).st_size:
                return None
            # Read apart from its title, so that it is not copied again: it may be large.
            data = read_at(disk, fd, len(line) + 1, title.bytes)
    except OSError:
        return None
    if title.snapshot != 1 or xxh3_128_hexdigest(data) != title.xxh3:
        return None
    return Head(title.seq, title.of), data
