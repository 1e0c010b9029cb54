"""Every call that touches a file, in one place: the seam at which tests break the disk.

Nothing here knows what the bytes mean. Files are 0600 and folders 0700 from the moment they exist, links are
never followed, descriptors are not inherited by programs that are started. Writes are raw ``os.write``: a
buffered file reports an error too late and writes the same bytes again when it is closed.
"""

import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

if sys.platform == "win32":
    raise ImportError("chatfold keeps chats in files on Linux and macOS; on Windows, run it in WSL")

import fcntl

_TICK = 2 * 10**9  # ns: two changes of a file this close together may leave it with the same time
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # NONBLOCK: a FIFO planted here must not hang us


class Disk:
    """The real one. A test subclasses it to fail the k-th call or to forget what was not synced."""

    def open_read(self, path: Path) -> int:
        return self._regular(os.open(path, os.O_RDONLY | _FLAGS), path)

    def open_append(self, path: Path) -> int:
        return self._regular(os.open(path, os.O_RDWR | os.O_APPEND | _FLAGS), path)

    def open_update(self, path: Path) -> int:
        """For bytes overwritten in place: the lock and the witness. Created when missing."""
        return self._regular(os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600), path)

    def create(self, path: Path) -> int:
        """A new file; FileExistsError if there is one."""
        return _above_stdio(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | _FLAGS, 0o600))

    def _regular(self, fd: int, path: Path) -> int:
        # Only a regular file is read or written: not a device, a FIFO, a folder.
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return _above_stdio(fd)
        os.close(fd)
        raise OSError(f"not a regular file: {str(path)!r}")

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """May write less than asked; the caller goes on."""
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        """Not at the end, so by a descriptor that does not append."""
        return os.pwrite(fd, data, offset)

    def set_append(self, fd: int, *, append: bool) -> None:
        """Does what is written go to the end, wherever that is?"""
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_APPEND if append else flags & ~os.O_APPEND)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        # macOS: fsync leaves the bytes in the drive's cache, and there is no fdatasync.
        if hasattr(fcntl, "F_FULLFSYNC"):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        elif hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            os.fsync(fd)

    def sync_folder(self, path: Path) -> None:
        """Makes creations, renames and removals inside ``path`` durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _sync_names(fd)
        finally:
            os.close(fd)

    def forget_cache(self, fd: int) -> None:
        """Drops clean pages, so that the next read shows what the medium has."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def lock(self, fd: int) -> None:
        # flock, not lockf: POSIX locks are dropped by any close() of the file anywhere in the process.
        fcntl.flock(fd, fcntl.LOCK_EX)

    def try_lock(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self, fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    def stat(self, path: Path | str) -> os.stat_result:
        return os.stat(path, follow_symlinks=False)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def names(self, path: Path) -> list[str]:
        return os.listdir(path)

    def make_folder(self, path: Path) -> None:
        path.mkdir(mode=0o700)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new, follow_symlinks=False)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def remove_folder(self, path: Path) -> None:
        os.rmdir(path)


def _sync_names(fd: int) -> None:
    """Of a folder: ``fdatasync`` may leave its entries out."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def _above_stdio(fd: int) -> int:
    """Never 0, 1 or 2, which are free in a daemon: what a library prints there would be written into the log."""
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def has_path(disk: Disk, path: Path) -> bool:
    try:
        disk.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_folder(disk: Disk, path: Path) -> bool:
    """Is it one, or a link to one?"""
    try:
        disk.names(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def check_folder(disk: Disk, path: Path) -> None:
    """Raises unless it is a folder: what is put in its place is not followed. FileNotFoundError if nothing is there."""
    if not stat.S_ISDIR(disk.stat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "a link or a file in the place of a folder", str(path))


def ensure_folder(disk: Disk, path: Path) -> None:
    try:
        disk.make_folder(path)
    except FileExistsError:
        check_folder(disk, path)


@contextmanager
def reading_file(disk: Disk, path: Path) -> Iterator[int]:
    """For reading."""
    fd = disk.open_read(path)
    try:
        yield fd
    finally:
        disk.close(fd)


def stat_key(status: os.stat_result) -> tuple[int, ...]:
    """What is another after every change, unless that came in the same tick of the clock as the one before."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_settled(status: os.stat_result) -> bool:
    """Would a change that comes now leave another time? If not, that a file looks the same proves nothing."""
    return bool(status.st_ctime_ns) and status.st_ctime_ns < time.time_ns() - _TICK


class OpenFile(NamedTuple):
    """How the file looked when it was proved to be the one of its name, and whether a change since would show."""

    fd: int
    status: os.stat_result
    is_settled: bool


class OpenFiles:
    """Files that were read lately stay open for reading: at most ``most`` of them, the least recently used goes first.

    Each time it is proved that the kept file is still the one of its name. Either it looks as it did: who takes its name away
    changes its times. Or the file of that name has its inode, which no other file can have while we have it open.
    From any thread: who takes a file has it alone.
    """

    def __init__(self, disk: Disk, most: int = 0) -> None:
        self._disk = disk
        self._most = most
        self._kept: dict[Path, OpenFile] = {}
        # The collector may end a forgotten reading, which gives its file back, in the middle of what we do here.
        self._lock = threading.RLock()

    @contextmanager
    def open(self, path: Path) -> Iterator[int]:
        if not self._most:
            with reading_file(self._disk, path) as fd:
                yield fd
            return
        with self._lock:
            kept = self._kept.pop(path, None)
        file = kept and self._prove(path, kept)
        if file is None:
            fd = self._open(path)
            status = self._disk.fstat(fd)
            file = OpenFile(fd, status, is_settled(status))
        try:
            yield file.fd
        finally:
            with self._lock:
                excess = [self._kept.pop(path, None)]
                self._kept[path] = file
                if len(self._kept) > self._most:
                    excess.append(self._kept.pop(next(iter(self._kept)), None))
            for one in excess:
                if one is not None:
                    self._close(one)

    def _open(self, path: Path) -> int:
        try:
            return self._disk.open_read(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._kept:
                raise
        self.forget()  # there are no more descriptors, and we have some to spare
        return self._disk.open_read(path)

    def _prove(self, path: Path, kept: OpenFile) -> OpenFile | None:
        """The file, if it is still the one of its name; else it is closed."""
        with suppress(OSError):
            status = self._disk.fstat(kept.fd)
            if (
                kept.is_settled and status == kept.status
            ):  # in whole seconds, which is enough for what has settled
                return kept
            if status.st_ino == kept.status.st_ino == self._disk.stat(path).st_ino:
                return OpenFile(kept.fd, status, is_settled(status))
        self._close(kept)
        return None

    def _close(self, file: OpenFile) -> None:
        """Close our descriptor, unless another part of this process did that, and it is another file's by now."""
        with suppress(OSError):
            if self._disk.fstat(file.fd).st_ino == file.status.st_ino:
                self._disk.close(file.fd)

    def forget(self) -> None:
        """Close what nobody reads: a file that stays open keeps what was erased on the disk."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for file in kept.values():
            self._close(file)

    def close(self) -> None:
        """Keep nothing from now on."""
        self._most = 0
        self.forget()


def read_file(disk: Disk, path: Path) -> bytes:
    """A whole small file."""
    with reading_file(disk, path) as fd:
        return read_at(disk, fd, 0, disk.fstat(fd).st_size)


def read_at(disk: Disk, fd: int, offset: int, size: int) -> bytes:
    """``size`` bytes from ``offset``, fewer only at the end of the file."""
    data = disk.pread(fd, size, offset)
    while len(data) < size:
        more = disk.pread(fd, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[disk.write(fd, view) :]


def replace_file(disk: Disk, path: Path, data: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Puts ``data``, or its pieces, at ``path`` whole or not at all, over whatever is there.

    Both syncs are needed: without the first, xfs leaves an empty file after a power cut; without the
    second, the rename itself may be undone. A cache needs neither: its readers check it.
    """
    temporary = path.with_name(temp_name(path.name))
    fd = disk.create(temporary)
    try:
        for piece in (data,) if isinstance(data, bytes) else data:
            write_all(disk, fd, piece)
        if durable:
            disk.sync(fd)
        disk.rename(temporary, path)
    except BaseException:
        with suppress(OSError):  # it is swept later; what went wrong first is what is told
            disk.unlink(temporary)
        raise
    finally:
        disk.close(fd)
    if durable:
        disk.sync_folder(path.parent)


def temp_name(name: str) -> str:
    """What a file is called before it has its name."""
    return f".{name}.{os.urandom(6).hex()}.tmp"


def is_temp_name(name: str) -> bool:
    """Is this a file that ``replace_file`` was writing?"""
    return name.startswith(".") and name.endswith(".tmp")


def remove_tree(disk: Disk, path: Path) -> None:
    """Removes a folder of ours. Links inside are removed, never followed."""
    for name in disk.names(path):
        inner = path / name
        if stat.S_ISDIR(disk.stat(inner).st_mode):
            remove_tree(disk, inner)
        else:
            disk.unlink(inner)
    disk.remove_folder(path)
