"""Which chats a store has, each with its token and the row that is kept of it: ``<root>/cache/listing``.

A token is made of the names, inodes, sizes and times of a chat's segments, so it is another one whenever the log is. To
make it costs a look at each name in the folder. Two looks prove that one from before still holds:

- the folder has its inode and its change time. A segment that is new, replaced or erased is a rename in the folder.
- the newest segment has its inode, size and change time. An append makes it longer.

Nobody can set a change time back. But two changes within a tick of the clock may leave the same one, so what was looked at within
a tick of a change proves nothing (git calls it "racily clean"). Such a chat gets a random token, which no later look gives again.
"""

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from xxhash import xxh3_64_hexdigest

from chatfold.eventlog.events import Head
from chatfold.eventlog.files.cache import Cache, Span
from chatfold.eventlog.files.chat_dir import CHATS, LISTING, read_key
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.segment import parse_segment_name
from chatfold.eventlog.keys import chat_key, folder_name, is_hashed
from chatfold.eventlog.storage import ChatPage, ChatRow
from chatfold.eventlog.values import escape_text, unescape

_KIND = "listing 2"
_PAGE = 1000  # chats
_TICK_NS, _COARSE_TICK_NS = 20_000_000, 2_000_000_000
_SECOND_NS = 1_000_000_000
_BUCKETS = 256

_Inode = tuple[int, int, int]  # number, size, change time


class _Folder(msgspec.Struct, array_like=True):
    """A chat's folder as it was when it was looked at. ``row`` was made from the log when the token was ``row_token``."""

    name: str
    key: str
    inode: int
    changed: int
    newest: str  # segment
    end: _Inode  # of that
    token: str
    is_settled: bool  # had it not changed for a tick? Else the token is random
    row: bytes = b""
    row_token: str = ""

    @property
    def is_current(self) -> bool:
        """Can the row be kept for the next process?"""
        return self.is_settled and self.row_token == self.token


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Folder]).decode


class StoreListing:
    """For any number of threads, one at a time."""

    def __init__(self, root: Path, disk: Disk, *, may_write: bool) -> None:
        self._chats = root / CHATS
        self._disk = disk
        self._cache = Cache(root, disk, may_write=may_write)
        self._may_write = may_write
        self._lock = threading.Lock()
        self._folders: dict[str, _Folder] | None = None
        self._saved = 0  # rows in the file
        self._unsaved = 0  # rows that are new or gone since

    def pages(self, prefix: str, changed_since: str) -> list[ChatPage]:
        with self._lock:
            found = self._scan(prefix)
            mark = _mark(found)
            if changed_since:
                found = _without_unchanged(found, mark, changed_since)
            rows = [ChatRow(one.key, one.token, one.row, one.row_token) for one in found]
        return [ChatPage(rows[start : start + _PAGE], mark) for start in range(0, len(rows) or 1, _PAGE)]

    def store(self, rows: Mapping[str, tuple[str, bytes]]) -> None:
        with self._lock:
            folders = self._load_folders()
            for key, (token, row) in rows.items():
                folder = folders.get(folder_name(key))
                if folder is not None and folder.token == token:
                    folder.row, folder.row_token = row, token
                    self._unsaved += folder.is_settled
            if self.has_unsaved and self._unsaved > self._saved:  # a few times, however many there are
                self._save()

    @property
    def has_unsaved(self) -> bool:
        return self._may_write and self._unsaved > 0

    def save(self) -> None:
        with self._lock:
            if self.has_unsaved:
                self._save()

    # --- the folders -----------------------------------------------------------------------------------------

    def _load_folders(self) -> dict[str, _Folder]:
        if self._folders is None:
            self._folders = {}
            kept = self._cache.load(LISTING, _KIND)
            with suppress(ValueError):
                for folder in _decode(kept.payload) if kept else ():
                    folder.key = unescape(folder.key)
                    self._folders[folder.name] = folder
            self._saved = len(self._folders)
        return self._folders

    def _scan(self, prefix: str = "") -> list[_Folder]:
        """The chats as they are now, in the order of their folders' names."""
        try:
            names = self._disk.names(self._chats)
        except FileNotFoundError:
            names = []
        folders = self._load_folders()
        gone = folders.keys() - names
        for name in gone:
            del folders[name]
        self._unsaved += len(gone)
        found: list[_Folder] = []
        for name in sorted(names):
            known = folders.get(name)
            key = self._key(name) if known is None else known.key
            if key is not None and key.startswith(prefix):
                folder = self._look(name, key, known)
                if folder is not None:
                    folders[name] = folder
                    found.append(folder)
        return found

    def _key(self, name: str) -> str | None:
        return read_key(self._disk, self._chats / name) if is_hashed(name) else chat_key(name)

    def _look(self, name: str, key: str, known: _Folder | None) -> _Folder | None:
        """None if it is gone, or none."""
        path = f"{self._chats}/{name}"  # a ``Path`` would take longer than the look
        try:
            if known is not None and known.is_settled:
                folder = self._disk.stat(path)
                if folder.st_ino == known.inode and folder.st_ctime_ns == known.changed:
                    end = self._disk.stat(f"{path}/{known.newest}")
                    if (end.st_ino, end.st_size, end.st_ctime_ns) == known.end:
                        return known
            return self._look_closely(name, key, known)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _look_closely(self, name: str, key: str, known: _Folder | None) -> _Folder:
        now, path = time.time_ns(), self._chats / name
        folder = self._disk.stat(path)  # before the names: what comes between changes it once more
        names = sorted(one for one in self._disk.names(path) if parse_segment_name(one) is not None)
        files = [self._disk.stat(path / one) for one in names]
        last = files[-1] if files else folder
        is_settled = _is_settled(folder.st_ctime_ns, now) and _is_settled(last.st_ctime_ns, now)
        return _Folder(
            name,
            key,
            folder.st_ino,
            folder.st_ctime_ns,
            names[-1] if names else "",
            (last.st_ino, last.st_size, last.st_ctime_ns),
            _token(folder, files) if is_settled else os.urandom(8).hex(),
            is_settled,
            known.row if known else b"",
            known.row_token if known else "",
        )

    # --- the file --------------------------------------------------------------------------------------------

    def _save(self) -> None:
        with suppress(OSError):  # it is a cache
            self._write()
        self._unsaved = 0

    def _write(self) -> None:
        """The rows that hold. One whose chat was erased or deleted meanwhile may say what is not to be kept."""
        saved = [folder for folder in self._scan() if folder.is_current]
        self._saved = len(saved)
        rows = [msgspec.structs.replace(folder, key=escape_text(folder.key)) for folder in saved]
        if self._cache.store(LISTING, _KIND, Span.up_to(Head()), _encode(rows), ""):
            # An erasure replaces the segments before it removes this file: either it removes ours, or we see it here.
            self._scan()
            now = self._load_folders()
            if any(one.name not in now or _place(now[one.name]) != _place(one) for one in saved):
                self._cache.remove(LISTING)


def _place(folder: _Folder) -> tuple[int, int]:
    return folder.inode, folder.changed


def _token(folder: os.stat_result, segments: list[os.stat_result]) -> str:
    files_are = [(file.st_ino, file.st_size, file.st_mtime_ns) for file in segments]
    return xxh3_64_hexdigest(repr((folder.st_ino, files_are)).encode())


def _is_settled(changed: int, now: int) -> bool:
    tick = _TICK_NS if changed % _SECOND_NS else _COARSE_TICK_NS  # a file system that counts seconds
    return changed < now - tick


# --- what has changed since ----------------------------------------------------------------------------------


def _mark(folders: list[_Folder]) -> str:
    """For each bucket of chats, the sum of their tokens."""
    sums = [0] * _BUCKETS
    for folder in folders:
        sums[folder.inode % _BUCKETS] ^= int(folder.token, 16)
    return "".join([f"{one:016x}" for one in sums])


def _without_unchanged(folders: list[_Folder], mark: str, before: str) -> list[_Folder]:
    """Those in buckets of which both marks say the same are left out."""

    def has_changed(folder: _Folder) -> bool:
        at = folder.inode % _BUCKETS * 16
        return mark[at : at + 16] != before[at : at + 16]

    return list(filter(has_changed, folders))
