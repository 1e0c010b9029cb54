"""Which folders a store has, and how a chat's folder comes and goes whole.

    <root>/chats/<name>/           a chat: see docs/format.md
    <root>/chats/.new-<random>/    a chat that is being made, its lock held by whoever makes it
    <root>/trash/<random>/         a chat that was deleted, until its files are gone

A folder appears and disappears by one rename, made durable by a sync of its parent. What a crash leaves in
``.new-`` and ``trash`` is swept by the next writer that opens the store.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

import msgspec

from chatfold.eventlog.errors import InvalidKey
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.blobs import BLOBS, write_blob
from chatfold.eventlog.files.cache import CACHE
from chatfold.eventlog.files.disk import (
    Disk,
    check_folder,
    ensure_folder,
    has_path,
    is_temp_name,
    read_file,
    remove_tree,
    replace_file,
    write_all,
)
from chatfold.eventlog.files.segment import Position, segment_name
from chatfold.eventlog.files.watermark import HEAD_FILE, format_watermark
from chatfold.eventlog.keys import KEY_FILE, chat_key, folder_name, is_hashed
from chatfold.eventlog.line import DECODE_ERRORS
from chatfold.eventlog.values import escape_text, unescape

CHATS = "chats"
TRASH = "trash"
LOCK_FILE = "lock"
ALONE_FILE = "alone"  # locked by whoever is the one to do something about the chat
ASIDE = "aside"
NOTE = "redacting-"  # what is to be erased, in the root; see ``redact``
LISTING = "listing"  # in the root's cache
_NEW = ".new-"
_CACHED = re.compile(
    r"window|answer|(newest|\d{16})\.snapshot|\d{16}\.chapter|\d{16}\.offsets|\d{16}-\d{16}\.seen"
)


def make_root(disk: Disk, root: Path) -> None:
    """Durable on return. Whoever finds a folder without what is made next syncs it, too: its maker may have been killed."""
    if has_path(disk, root / TRASH) and has_path(disk, root / CHATS):
        return
    missing = [path for path in (root, *root.parents) if not has_path(disk, path)]
    there = missing[-1].parent if missing else root
    with suppress(PermissionError):  # then it is not of our making
        disk.sync_folder(there.parent)
    for path in (*reversed(missing), root / CHATS, root / TRASH):
        with suppress(FileExistsError):
            disk.make_folder(path)
        disk.sync_folder(path.parent)


def chat_path(root: Path, key: str) -> Path:
    return root / CHATS / folder_name(key)


class Staging:
    """The folder of a chat that is being made. Nobody sees it, and its lock keeps ``sweep`` away."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.is_published = False
        self._lock = lock

    def take_lock(self) -> int:
        """The lock's descriptor, for a writer that goes on with the chat: it is not closed with the staging."""
        lock, self._lock = self._lock, -1
        return lock

    def close(self, disk: Disk) -> None:
        if self._lock >= 0:
            disk.close(self._lock)


@contextmanager
def staging_folder(disk: Disk, path: Path, key: str) -> Iterator[Staging]:
    """A folder to fill for the chat ``key``, then to ``publish_chat`` as ``path``. Removed if that did not happen. The root is there."""
    try:
        staging = _make_locked_folder(disk, path.parent)
    except FileNotFoundError:  # the root was removed while the store was open
        make_root(disk, path.parent.parent)
        staging = _make_locked_folder(disk, path.parent)
    try:
        if is_hashed(path.name):
            replace_file(disk, staging.path / KEY_FILE, msgspec.json.encode(escape_text(key)))
        yield staging
    finally:
        try:
            if not staging.is_published:
                with suppress(FileNotFoundError):
                    remove_tree(disk, staging.path)
        finally:
            staging.close(disk)


def _make_locked_folder(disk: Disk, parent: Path) -> Staging:
    """A new folder and the lock that says it is in use. Until we hold the lock, a ``sweep`` may take the folder away."""
    while True:
        path = parent / f"{_NEW}{os.urandom(8).hex()}"
        disk.make_folder(path)
        try:
            lock = disk.open_update(path / LOCK_FILE)
        except FileNotFoundError:
            continue
        try:
            disk.lock(lock)
            is_ours = disk.fstat(lock).st_nlink > 0  # else it was removed before we held it
        except BaseException:
            disk.close(lock)
            raise
        if is_ours:
            return Staging(path, lock)
        disk.close(lock)


_decode_key = msgspec.json.Decoder(str).decode


def read_key(disk: Disk, folder: Path) -> str | None:
    """The key kept in a folder whose name is too short for it. None if there is none: it is no chat."""
    try:
        key = unescape(_decode_key(read_file(disk, folder / KEY_FILE)))
        is_its = isinstance(key, str) and folder_name(key) == folder.name
    except (*DECODE_ERRORS, InvalidKey):
        return None
    except OSError as error:
        if error.errno in (None, errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # None: not a regular file
            return None
        raise  # or whoever erases everywhere would pass over a chat, and not say so
    return key if is_its else None


def chat_keys(disk: Disk, root: Path) -> Iterator[str]:
    """Of all chats there are, in the order of their folders' names."""
    try:
        names = disk.names(root / CHATS)
    except FileNotFoundError:
        return
    for name in sorted(names):
        key = read_key(disk, root / CHATS / name) if is_hashed(name) else chat_key(name)
        if key is not None:
            yield key


def write_open_segment(
    disk: Disk, temporary: Path, first: int, lines: list[bytes], head: Head, before: Iterable[bytes] = ()
) -> bytes:
    """The open segment of a folder that is being made: what came ``before``, then these lines.

    Its bytes are durable on return, its name is when the chat appears. What its witness is to say.
    """
    size = 0
    fd = disk.create(temporary / segment_name(first))
    try:
        for piece in chain(before, (b"\n".join([*lines, b""]),)):
            write_all(disk, fd, piece)
            size += len(piece)
        disk.sync(fd)
    finally:
        disk.close(fd)
    return format_watermark(first, Position(head.seq, head.link.encode(), size))


def create_chat(
    disk: Disk, path: Path, key: str, data: bytes, blobs: Iterable[tuple[str, bytes]]
) -> tuple[int, int, int] | None:
    """A new chat, durably, whose open segment is ``data``. The root is there. None: there is one already.

    What was opened for it stays open. Returns the descriptor of its lock, which is held, that of the segment, and the inode.
    """
    with staging_folder(disk, path, key) as staging:
        for digest, content in blobs:
            write_blob(disk, staging.path, digest, content)
        fd = disk.create(staging.path / segment_name(1))
        try:
            write_all(disk, fd, data)
            disk.sync(fd)
            inode = disk.fstat(fd).st_ino
            if publish_chat(disk, staging, path):
                return staging.take_lock(), fd, inode
        except BaseException:
            disk.close(fd)
            raise
        disk.close(fd)
        return None


def publish_chat(disk: Disk, staging: Staging, path: Path, watermark: bytes = b"") -> bool:
    """Make the chat appear, durably. False if there is one already. Its ``watermark`` is written once its name is durable."""
    disk.sync_folder(staging.path)
    try:
        disk.rename(staging.path, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    staging.is_published = True
    disk.sync_folder(path.parent)
    if watermark:
        with suppress(OSError):  # the first writer does without
            replace_file(disk, path / HEAD_FILE, watermark, durable=False)
    return True


def trash_chat(disk: Disk, root: Path, path: Path) -> None:
    """Deletes a chat, atomically and durably. The caller holds its lock."""
    trash = root / TRASH / os.urandom(8).hex()
    disk.rename(path, trash)
    drop_listing(disk, root)
    _remove(disk, root, trash)


def _remove(disk: Disk, root: Path, path: Path) -> None:
    """A folder that was moved away, or never moved in."""
    disk.sync_folder(root / CHATS)  # both, or a power cut brings it back, and without what is removed next
    disk.sync_folder(root / TRASH)
    try:
        remove_tree(disk, path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):  # else somebody who sweeps is at it, too
            raise
    disk.sync_folder(path.parent)  # or a power cut brings back words that are erased meanwhile


def drop_listing(disk: Disk, root: Path) -> None:
    """It may say what was erased."""
    with suppress(OSError):
        disk.unlink(root / CACHE / LISTING)


def sweep(disk: Disk, root: Path) -> None:
    """Removes what crashes left, as far as it can."""
    with suppress(OSError):
        for name in disk.names(root / CACHE):
            if is_temp_name(name):
                disk.unlink(root / CACHE / name)  # or its writer does without: it is a cache
    for path in _leftovers(disk, root):
        with suppress(OSError):
            _remove_leftover(disk, root, path)


def remove_leftovers(disk: Disk, root: Path) -> None:
    """The same, of folders, and for good, also if they are gone already: what is erased now may be in there."""
    for path in _leftovers(disk, root):
        with suppress(FileNotFoundError):
            _remove_leftover(disk, root, path)
    disk.sync_folder(root / CHATS)
    disk.sync_folder(root / TRASH)


def _leftovers(disk: Disk, root: Path) -> list[Path]:
    trash = [root / TRASH / name for name in disk.names(root / TRASH)]
    return trash + [root / CHATS / name for name in disk.names(root / CHATS) if name.startswith(_NEW)]


def _remove_leftover(disk: Disk, root: Path, path: Path) -> None:
    """A folder that is still being made is locked, and left alone."""
    lock = disk.open_update(path / LOCK_FILE)
    try:
        if disk.try_lock(lock):
            _remove(disk, root, path)
    finally:
        disk.close(lock)


def try_remove_temp_files(disk: Disk, folder: Path) -> None:
    """Removes, as far as it can, files that were being published when their writer died. The caller holds the lock."""
    for path in _list_publishing_folders(folder):
        with suppress(OSError):
            _remove_unpublished(disk, path)
    with suppress(OSError):
        _remove_unknown(disk, folder / CACHE)


def _remove_unknown(disk: Disk, cache: Path) -> None:
    """What is of another version may say what was erased since."""
    check_folder(disk, cache)
    for name in disk.names(cache):
        if not _CACHED.fullmatch(name):
            with suppress(OSError):
                if stat.S_ISDIR(disk.stat(cache / name).st_mode):
                    remove_tree(disk, cache / name)
                else:
                    disk.unlink(cache / name)


def remove_temp_files(disk: Disk, folder: Path) -> None:
    """The same, and for good, also if they are gone already: what is erased now may be in there, and a power cut bring it back."""
    for path in _list_publishing_folders(folder):
        with suppress(FileNotFoundError):
            _remove_unpublished(disk, path)
            disk.sync_folder(path)


def _list_publishing_folders(folder: Path) -> tuple[Path, ...]:
    return folder, folder / BLOBS, folder / CACHE


def _remove_unpublished(disk: Disk, path: Path) -> None:
    check_folder(disk, path)
    for name in disk.names(path):
        if is_temp_name(name) or name.startswith(NOTE):
            with suppress(FileNotFoundError):  # a cache, whose writer holds no lock
                disk.unlink(path / name)


def set_aside(disk: Disk, folder: Path, name: str, data: bytes | Iterable[bytes]) -> Path:
    """Keeps bytes that are about to be removed from the log."""
    ensure_folder(disk, folder / ASIDE)
    disk.sync_folder(folder)  # also if somebody else made it, who may have been killed before this
    path = folder / ASIDE / f"{name}-{os.urandom(4).hex()}"
    replace_file(disk, path, data)
    return path
