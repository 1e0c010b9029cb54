"""The search index of a chat, kept in files: each block is one, ``<path>.<first>-<last>``, written once.

A block that is damaged or missing is made again from the log. ``<path>`` itself names the epoch, and files of another
epoch do not count. Whoever overwrites or deletes it, and then the other files, makes all processes start over; what one
of them still writes for the old epoch, it removes again.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.cache import Cache
from chatfold.eventlog.files.disk import (
    Disk,
    check_folder,
    ensure_folder,
    opened,
    read_at,
    read_file,
    replace_file,
)
from chatfold.eventlog.search import SearchIndex
from chatfold.eventlog.search_blocks import Block, decode_block

_WORTH = 512  # entries are worth a file before their block is full; next time it takes 8 times as many
SEARCH = "search"
_EPOCH = re.compile(rb"[0-9a-f]{32}")
_NAME = re.compile(r"\.(\d{16})-(\d{16})")


class StoredSearchIndex(SearchIndex):
    """For one thread at a time; any number of processes may use the files."""

    def __init__(self, path: Path, *, disk: Disk | None = None, may_write: bool = True) -> None:
        self._path: Path | None = path  # None from the moment on at which it could not be written
        self._disk = disk or Disk()
        self._may_write = may_write
        self._epoch = ""  # that of the files, when we last looked
        self._start_over()
        self._refresh()

    @property
    def head(self) -> Head:
        """Smaller than before, if somebody started over; larger, if somebody added."""
        self._refresh()
        return super().head

    def add(self, entries: Sequence[Entry]) -> bool:
        self._refresh()
        self._ensure_epoch()
        is_complete = super().add(entries)
        if len(self._tail) >= max(_WORTH, 8 * self._kept) and self._keeps():
            self._keep(self._tail.frozen())
        return is_complete and (not entries or self._tail.last >= entries[-1].seq)

    def clear(self) -> None:
        """Starts over, and makes every other process start over."""
        self._start_over()
        self._epoch = ""
        if self._may_write:
            self._ensure_epoch()
        else:
            self._path = None  # or we would read the same files again

    def close(self) -> None:
        """Keeps what is not in a file yet. The index is empty then."""
        if len(self._tail) > self._kept and self._keeps():
            self._keep(self._tail.frozen())
        self._start_over()
        self._path = None

    # --- blocks ----------------------------------------------------------------------------------------

    def _start_over(self) -> None:
        super().clear()
        self._kept = 0  # so many entries of the tail are in a file

    def _finish_block(self) -> None:
        block = self._tail.frozen()
        self._take(block)
        if self._keeps():
            self._keep(block)
        self._load()  # the next ones may be there: only this one was damaged, or another process is ahead

    def _take(self, block: Block) -> None:
        if block.is_full():
            super()._take(block)
            self._kept = 0
        else:
            self._tail = block.thawed()
            self._kept = len(block)

    # --- files -----------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Takes over what other processes did."""
        epoch = self._read_epoch()
        if self._path is not None and epoch != self._epoch:
            self._start_over()
            self._epoch = epoch
        self._load()

    def _load(self) -> None:
        for first, last in sorted(self._files(), key=lambda file: (file[0], -file[1])):
            if self._epoch and first == self._tail.first and last > self._tail.last:
                block = self._read(first, last)
                if block is not None:
                    self._take(block)

    def _read(self, first: int, last: int) -> Block | None:
        path = self._file(first, last)
        with suppress(OSError):
            block = decode_block(read_file(self._disk, path), self._epoch, first, self._tail.before)
            if block is not None and block.last == last:
                return block
            if self._may_write and self._read_epoch() == self._epoch:
                self._disk.unlink(path)
        return None

    def _keeps(self) -> bool:
        return self._path is not None and self._may_write and self._epoch != ""

    def _keep(self, block: Block) -> None:
        try:
            replace_file(
                self._disk, self._file(block.first, block.last), block.encode(self._epoch), durable=False
            )
            self._kept = len(block) if block.first == self._tail.first else 0
            for first, last in self._files():
                if first == block.first and last < block.last:
                    self._unlink(first, last)
            if self._read_epoch() != self._epoch:  # looked at last: a file of ours must not outlive its epoch
                self._unlink(block.first, block.last)
                self._refresh()
        except OSError:
            self._path = None  # from now on in memory

    def _ensure_epoch(self) -> None:
        """Begins a new epoch if there is none; the files of all others go."""
        if self._path is None or self._epoch or not self._may_write:
            return
        epoch = os.urandom(16).hex()
        try:
            ensure_folder(self._disk, self._path.parent)
            content = epoch + self._read_erasure()
            replace_file(self._disk, self._path, content.encode(), durable=False)
            for first, last in self._files():
                self._unlink(first, last)
            self._epoch = epoch
        except OSError:
            self._path = None

    def _read_epoch(self) -> str:
        """Empty if there is none."""
        if self._path is None:
            return ""
        try:
            check_folder(self._disk, self._path.parent)
            with opened(self._disk, self._path) as fd:
                data = read_at(self._disk, fd, 0, 64)
        except OSError:
            return ""
        epoch, erasure = data[:32], data[32:]
        return epoch.decode() if _EPOCH.fullmatch(epoch) and erasure == self._read_erasure().encode() else ""

    def _read_erasure(self) -> str:
        """The erasure that the files know of, in the file of their epoch: older ones, put back, do not count."""
        return "" if self._path is None else Cache(self._path.parents[1], self._disk).epoch()

    def _files(self) -> list[tuple[int, int]]:
        return [] if self._path is None else _files(self._disk, self._path)

    def _file(self, first: int, last: int) -> Path:
        assert self._path is not None
        return _file(self._path, first, last)

    def _unlink(self, first: int, last: int) -> None:
        with suppress(FileNotFoundError):
            self._disk.unlink(self._file(first, last))


def share_search(disk: Disk, old: Path, new: Path, last: int) -> None:
    """The blocks of at most seq ``last`` go along with a fork. ``old``, ``new``: the paths given to ``StoredSearchIndex``."""
    with suppress(FileNotFoundError):
        disk.link(old, new)
        for first, end in _files(disk, old):
            if end <= last:
                disk.link(_file(old, first, end), _file(new, first, end))


def _files(disk: Disk, path: Path) -> list[tuple[int, int]]:
    """(first, last) of the blocks that have a file."""
    try:
        names = disk.names(path.parent)
    except OSError:
        return []
    found = (_NAME.fullmatch(name, len(path.name)) for name in names if name.startswith(path.name))
    return [(int(match[1]), int(match[2])) for match in found if match]


def _file(path: Path, first: int, last: int) -> Path:
    return path.with_name(f"{path.name}.{first:016d}-{last:016d}")
