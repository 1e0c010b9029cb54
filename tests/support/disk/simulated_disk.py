"""A disk in memory that can lose power, be let down by its medium, and be full: all of it from a ``random.Random`` alone.

``crash`` gives the disk that there is after a power cut: what was synced, and any part of the rest; see ``simulated_files`` and
``simulated_tree``. ``revive`` makes this one what a killed process leaves: everything, and no descriptors.
"""

import errno
import os
import random
import stat
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from chatfold.eventlog.files.disk import Disk
from tests.support.disk.faulty_disk import KINDS
from tests.support.disk.simulated_files import Arrivals, SimulatedFile
from tests.support.disk.simulated_tree import Node, SimulatedFolder, Tree

_Data = TypeVar("_Data", bytes, bytes | memoryview)


class PowerOff(OSError):
    """The machine, or the process, is not running any more: nothing is done."""


class Fault(msgspec.Struct):
    """The ``nth`` call of these kinds from now on fails; ``forever``: every later one, too. No ``code``: nothing runs any more."""

    nth: int
    code: int = 0
    kinds: frozenset[str] = frozenset(KINDS)
    forever: bool = False
    struck: str = ""  # the kind of the first call that failed

    def strikes(self, kind: str) -> bool:
        if kind not in self.kinds:
            return False
        self.nth -= 1
        if self.nth == 0 or (self.nth < 0 and (self.forever or not self.code)):
            self.struck = self.struck or kind
            return True
        return False


class _Descriptor(msgspec.Struct, eq=False):
    file: SimulatedFile
    failures: int  # of the file's syncs, that it was told of


class SimulatedDisk(Disk):
    def __init__(self, chance: random.Random, *, short: float = 0.0, tree: Tree | None = None) -> None:
        self.chance = chance
        self.tree = tree or Tree()
        self.fault: Fault | None = None
        self.calls = self.changes = 0  # so far; the changes are also what the time is
        self._short = short  # of the writes, so many write less than asked
        self._descriptors: dict[int, _Descriptor] = {}
        self._gone: set[int] = set()  # descriptors that the killed process had
        self._next = 3

    def crash(self, manner: str = "") -> "SimulatedDisk":
        """The disk after a power cut: another one each time it is asked. ``manner``: see ``Arrivals``."""
        tree = self.tree.survived(Arrivals(self.chance, self.changes, manner))
        after = SimulatedDisk(self.chance, short=self._short, tree=tree)
        after.calls, after.changes = self.calls, self.changes
        return after

    def revive(self) -> None:
        """The process was killed, and another one is started."""
        self.fault = None
        for fd in list(self._descriptors):
            self.close(fd)
            self._gone.add(fd)

    def _call(self, kind: str) -> None:
        self.calls += 1
        fault = self.fault
        if fault is not None and fault.strikes(kind):
            raise (
                PowerOff(errno.EIO, "off") if not fault.code else OSError(fault.code, os.strerror(fault.code))
            )

    def _change(self, kind: str) -> int:
        self._call(kind)
        self.changes += 1
        return self.changes

    # --- names -------------------------------------------------------------------------------------------

    def names(self, path: Path) -> list[str]:
        self._call("names")
        return list(self.tree.folder(path).entries)

    def make_folder(self, path: Path) -> None:
        time = self._change("make_folder")
        parent, name = self.tree.free_name(path)
        self.tree.change(time, (parent, name, SimulatedFolder(self.tree.number())))

    def rename(self, old: Path, new: Path) -> None:
        time = self._change("rename")
        node, source, target = self.tree.find(old), self.tree.folder(old.parent), self.tree.folder(new.parent)
        there = target.entries.get(new.name)
        if isinstance(there, SimulatedFolder) and (there.entries or isinstance(node, SimulatedFile)):
            raise OSError(errno.ENOTEMPTY, "not empty", str(new))
        if isinstance(there, SimulatedFile) and isinstance(node, SimulatedFolder):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(new))
        self.tree.change(time, (target, new.name, node), (source, old.name, None))

    def link(self, old: Path, new: Path) -> None:
        time = self._change("link")
        parent, name = self.tree.free_name(new)
        self.tree.change(time, (parent, name, self.tree.file(old)))

    def unlink(self, path: Path) -> None:
        time = self._change("unlink")
        if isinstance(self.tree.find(path), SimulatedFolder):
            raise IsADirectoryError(errno.EISDIR, "a folder", str(path))
        self.tree.change(time, (self.tree.folder(path.parent), path.name, None))

    def remove_folder(self, path: Path) -> None:
        time = self._change("remove_folder")
        if self.tree.folder(path).entries:
            raise OSError(errno.ENOTEMPTY, "not empty", str(path))
        self.tree.change(time, (self.tree.folder(path.parent), path.name, None))

    def sync_folder(self, path: Path) -> None:
        self._change("sync_folder")
        self.tree.sync(self.tree.folder(path))

    def stat(self, path: Path | str) -> os.stat_result:
        self._call("stat")
        return _status(self.tree.find(Path(path)))

    # --- files -------------------------------------------------------------------------------------------

    def open_read(self, path: Path) -> int:
        self._call("open_read")
        return self._opened(self.tree.file(path))

    def open_append(self, path: Path) -> int:
        self._call("open_append")
        return self._opened(self.tree.file(path))

    def open_update(self, path: Path) -> int:
        self._call("open_update")
        is_there = path.name in self.tree.folder(path.parent).entries
        return self._opened(self.tree.file(path) if is_there else self._new_file(path))

    def create(self, path: Path) -> int:
        self._call("create")
        return self._opened(self._new_file(path))

    def _new_file(self, path: Path) -> SimulatedFile:
        self.changes += 1
        parent, name = self.tree.free_name(path)
        file = SimulatedFile(self.tree.number())
        self.tree.change(self.changes, (parent, name, file))
        return file

    def _opened(self, file: SimulatedFile) -> int:
        self._next += 1
        self._descriptors[self._next] = _Descriptor(file, file.failures)
        file.opened += 1
        return self._next

    def close(self, fd: int) -> None:
        if fd in self._gone:
            return
        self.unlock(fd)
        file = self._descriptors.pop(fd).file
        file.opened -= 1
        self.tree.let_go(file)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """At the end: every descriptor that is written so was opened for appending."""
        data = self._shortened(data)
        self._write("write", fd, data, len(self._descriptors[fd].file.content))
        return len(data)

    def _shortened(self, data: _Data) -> _Data:
        if self._short and len(data) > 1 and self.chance.random() < self._short:
            return data[: self.chance.randint(1, len(data) - 1)]
        return data

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        data = self._shortened(data)
        self._write("pwrite", fd, data, offset)
        return len(data)

    def set_append(self, fd: int, *, append: bool) -> None:
        """``write`` and ``pwrite`` do what they are called for."""

    def _write(self, kind: str, fd: int, data: bytes | memoryview, offset: int) -> None:
        file = self._descriptors[fd].file
        try:
            self._change(kind)
        except OSError:
            if self.fault is not None and not self.fault.nth:  # a part may be there when it fails
                self.changes += 1
                file.write(
                    self.changes, offset, data[: self.chance.choice([0, self.chance.randint(0, len(data))])]
                )
            raise
        file.write(self.changes, offset, data)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._call("pread")
        return bytes(self._descriptors[fd].file.content[offset : offset + size])

    def truncate(self, fd: int, size: int) -> None:
        time = self._change("truncate")
        self._descriptors[fd].file.truncate(time, size)

    def sync(self, fd: int) -> None:
        """One that fails is told to every descriptor that was open then, once."""
        descriptor = self._descriptors[fd]
        file = descriptor.file
        try:
            self._change("sync")
        except PowerOff:
            raise
        except OSError:
            file.fail_to_sync(self.chance)
            descriptor.failures = file.failures
            raise
        file.sync()
        if descriptor.failures != file.failures:
            descriptor.failures = file.failures
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def forget_cache(self, fd: int) -> None:
        self._descriptors[fd].file.forget_cache()

    def fstat(self, fd: int) -> os.stat_result:
        self._call("fstat")
        return _status(self._descriptors[fd].file)

    # --- locks -------------------------------------------------------------------------------------------

    def lock(self, fd: int) -> None:
        """Never waits: where one thing happens at a time, nobody would ever let go of it."""
        self._call("lock")
        if not self.try_lock(fd):
            raise OSError(errno.EDEADLK, os.strerror(errno.EDEADLK))

    def try_lock(self, fd: int) -> bool:
        descriptor = self._descriptors[fd]
        if descriptor.file.locked_by not in (None, descriptor):
            return False
        descriptor.file.locked_by = descriptor
        return True

    def unlock(self, fd: int) -> None:
        descriptor = self._descriptors[fd]
        if descriptor.file.locked_by is descriptor:
            descriptor.file.locked_by = None


def _status(node: Node) -> os.stat_result:
    if isinstance(node, SimulatedFile):
        return _told(stat.S_IFREG | 0o600, node.number, node.names, len(node.content), node.changed)
    return _told(stat.S_IFDIR | 0o700, node.number, node.names, 0, node.changed)


@lru_cache(maxsize=256)
def _told(mode: int, number: int, names: int, size: int, time: int) -> os.stat_result:
    return os.stat_result(
        (mode, number, 1, names, 0, 0, size, time, time, time), {"st_mtime_ns": time, "st_ctime_ns": time}
    )
