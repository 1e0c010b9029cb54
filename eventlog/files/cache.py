"""Caches: checked files in a chat's ``cache/``, and what they may and may not do.

A cache proposes, a line decides. Nothing is true because a cache says so: where it says that a line stands, the line is read
and verified; what it was made from, the log still has. So a cache may be missing, and its loss costs time and nothing else.

    file = title LF payload [blocks]

The title is one checked line. It names

    cache   the kind and its version; a reader of another version has no such cache
    first, prev, seq, link      the entries it speaks of, see ``Span``; the reader compares them with the log
    epoch   the erasure epoch it was made in
    bytes, xxh3     of the payload

A file is read whole or not at all: one that does not verify, is of another kind, or was made in another epoch is a miss, like
one that is not there. ``blocks`` may follow the payload, for what is too large to be read whole. The payload has the sum of each.

The epoch is in ``erased``, outside ``cache/``, and durable before an erasure replaces the first line. So a cache that was made from
what was read before an erasure never counts after it, even if somebody restores it.

A file is written by rename, or in place where it is written often. Readers of a torn one see that it does not verify. Nothing is
synced. Several processes may write one cache, without a lock: the last one wins.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from xxhash import xxh3_128_hexdigest

from chatfold.eventlog.events import Head
from chatfold.eventlog.files.disk import (
    Disk,
    check_folder,
    ensure_folder,
    has_path,
    read_at,
    read_file,
    reading_file,
    replace_file,
    temp_name,
)
from chatfold.eventlog.line import Count, add_checksum, decode_verified

CACHE = "cache"
ERASED_FILE = "erased"  # another text after every erasure
ORIGIN = Head().link
_TITLE = 512  # bytes in which the title ends


class Span(msgspec.Struct, frozen=True):
    """Entries ``first`` … ``seq``. A link names all entries up to one: ``prev`` those before the first, ``link`` those up to the last."""

    first: Count
    prev: str
    seq: Count
    link: str

    @classmethod
    def up_to(cls, head: Head) -> "Span":
        """All entries up to there."""
        return cls(1, ORIGIN, head.seq, head.link)

    @property
    def head(self) -> Head:
        return Head(self.seq, self.link)


class _Title(msgspec.Struct):
    cache: str
    first: Count
    prev: str
    seq: Count
    link: str
    epoch: str
    bytes: Count
    xxh3: str


_decode_title = msgspec.json.Decoder(_Title).decode


class CacheFile(msgspec.Struct, frozen=True):
    """One that verifies. ``blocks``: the byte after the payload, where blocks begin."""

    span: Span
    payload: bytes
    blocks: int


class Cache:
    """The caches of one chat, or of the store. Keeps nothing open. What cannot be written is not needed."""

    def __init__(self, folder: Path, disk: Disk, *, may_write: bool = True) -> None:
        self._chat = folder
        self._folder = folder / CACHE
        self._disk = disk
        self._may_write = may_write

    def epoch(self) -> str:
        """The erasure epoch: nothing before the first erasure."""
        try:
            return read_file(self._disk, self._chat / ERASED_FILE).decode("ascii", "replace")
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError:
            return os.urandom(8).hex()  # unknown, and so equal to none: no cache is believed

    @property
    def is_there(self) -> bool:
        """Is there a folder of caches?"""
        with suppress(OSError):
            return has_path(self._disk, self._folder)
        return False

    def size(self, name: str) -> int:
        """In bytes; 0 if there is no such file."""
        with suppress(OSError):
            return self._disk.stat(self._folder / name).st_size
        return 0

    def names(self) -> list[str]:
        try:
            check_folder(self._disk, self._folder)
            return self._disk.names(self._folder)
        except OSError:
            return []

    def load(
        self, name: str, kind: str, epoch: str | None = None, last: int | None = None
    ) -> CacheFile | None:
        """``epoch``: the one of now, if the caller has just read it. ``last``: a file that says more is a miss, too."""
        with suppress(OSError), self.reading(name) as fd:
            return self.read(fd, kind, self.epoch() if epoch is None else epoch, last)
        return None

    @contextmanager
    def reading(self, name: str) -> Iterator[int]:
        """For ``read``, and for the blocks. Raises OSError."""
        check_folder(self._disk, self._folder)
        with reading_file(self._disk, self._folder / name) as fd:
            yield fd

    def read(self, fd: int, kind: str, epoch: str, last: int | None = None) -> CacheFile | None:
        """The file that is open here, without its blocks."""
        line = read_at(self._disk, fd, 0, _TITLE).partition(b"\n")[0]
        title = decode_verified(line, _decode_title)
        if title is None or (title.cache, title.epoch) != (kind, epoch):
            return None
        if last is not None and title.seq > last:
            return None
        start = len(line) + 1
        if start + title.bytes > self._disk.fstat(fd).st_size:
            return None
        # Read apart from its title, so that it is not copied again: it may be large.
        payload = read_at(self._disk, fd, start, title.bytes)
        if xxh3_128_hexdigest(payload) != title.xxh3:
            return None
        span = Span(title.first, title.prev, title.seq, title.link)
        return CacheFile(span, payload, start + title.bytes)

    def store(
        self,
        name: str,
        kind: str,
        span: Span,
        payload: bytes,
        epoch: str,
        blocks: bytes = b"",
        *,
        in_place: bool = False,
    ) -> bool:
        """``epoch``: the one from before the entries were read. False: the file is not there, or not this one."""
        if not self._may_write or self.epoch() != epoch:
            return False
        data = b"".join((_title_line(kind, span, payload, epoch), payload, blocks))
        try:
            ensure_folder(self._disk, self._folder)
            if in_place:
                return self._overwrite(name, data, epoch) and self._stays(name, epoch)
            replace_file(self._disk, self._folder / name, data, durable=False)
        except OSError:
            return False
        return self._stays(name, epoch)

    def store_again(self, name: str, other: str, epoch: str) -> bool:
        """Put what was just stored as ``name`` in the place of ``other``, too: half the work of writing it twice."""
        temporary = self._folder / temp_name(other)
        try:
            self._disk.link(self._folder / name, temporary)
            self._disk.rename(temporary, self._folder / other)
        except OSError:  # the file system may have no links
            return False
        return self._stays(other, epoch)

    def _stays(self, name: str, epoch: str) -> bool:
        """An erasure changes the epoch before it removes the caches: either it removes this one, or we see it here."""
        if self.epoch() == epoch:
            return True
        self.remove(name)
        return False

    def _overwrite(self, name: str, data: bytes, epoch: str) -> bool:
        """A tenth of what a rename costs. A fork may share the file by a hard link: it finds a cache that is not its own.

        An erasure changes the epoch, then removes the files. So the epoch is asked for when the file is open: what is written
        after that goes to a file that the erasure has removed, or is written by nobody, killed or not.
        """
        fd = self._disk.open_update(self._folder / name)
        try:
            if self.epoch() != epoch:
                return False
            written = self._disk.pwrite(fd, data, 0)
            if written == len(data) < self._disk.fstat(fd).st_size:
                self._disk.truncate(fd, len(data))  # what was longer before may say what is erased later
            return True
        finally:
            self._disk.close(fd)

    def remove(self, name: str) -> None:
        if self._may_write:
            with suppress(OSError):
                check_folder(self._disk, self._folder)
                self._disk.unlink(self._folder / name)

    def share(self, name: str, other: Path) -> None:
        """Give the file to a fork, whose folder is ``other``. Raises OSError."""
        self._disk.link(self._folder / name, other / CACHE / name)


def begin_erasure_epoch(disk: Disk, folder: Path) -> None:
    """Durable on return. From now on no cache counts that was made from what was read before."""
    replace_file(disk, folder / ERASED_FILE, os.urandom(8).hex().encode())


def _title_line(kind: str, span: Span, payload: bytes, epoch: str) -> bytes:
    title = _Title(
        kind, span.first, span.prev, span.seq, span.link, epoch, len(payload), xxh3_128_hexdigest(payload)
    )
    return add_checksum(msgspec.json.encode(title)[:-1]) + b"\n"
