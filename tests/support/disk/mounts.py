"""File systems of our own, in files, whose power can be cut: mounted by a loop device, shut down by an ioctl.

Shut down, a file system forgets everything that it had not written, as a machine does that loses its power; what it has
written is there when it is mounted again. Nobody else sees these mounts, and they end with the processes that do, however those
end: nothing has to be cleaned up after a test that was interrupted.
"""

import ctypes
import fcntl
import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN
_SYS_ADMIN = 21  # CAP_SYS_ADMIN
_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS
_SIZES = {"ext4": 64 << 20, "xfs": 320 << 20}  # what mkfs.xfs accepts; the files are sparse
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # who is root may have another one than root has
_PROGRAMS = {
    "mount": "mount",
    "umount": "mount",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
}
"""And the packages of Debian that they are in."""


class Kind(NamedTuple):
    """``flush``: the journal is written before the power goes, which the data need not be."""

    system: str
    options: str = ""
    flush: bool = False

    def __str__(self) -> str:
        return " ".join(filter(None, [self.system, self.options, "journal flushed" * self.flush]))


def reason_not() -> str:
    """Why it cannot be done on this machine; empty if it can."""
    missing = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
    if missing:
        packages = " ".join(sorted({_PROGRAMS[program] for program in missing}))
        return f"there is no {', '.join(missing)} (on Debian: apt-get install {packages})"
    if not _may_mount():
        return "only root can mount file systems, and only with all rights"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    return "".join(f"the kernel has no {system}" for system in _SIZES if not _has(system))


def _may_mount() -> bool:
    rights = re.search(r"^CapEff:\s*(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return rights is not None and bool(int(rights[1], 16) >> _SYS_ADMIN & 1)


def _has(system: str) -> bool:
    """Or can have it, as a module."""
    if system in Path("/proc/filesystems").read_text().split():
        return True
    probe = shutil.which("modprobe", path=_PATH)
    return (
        probe is not None
        and subprocess.run([probe, "--dry-run", "--quiet", system], check=False).returncode == 0
    )


def mount_for_ourselves() -> None:
    """What this process and its children mount from now on is theirs alone."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    _run("mount", "--make-rprivate", "/")


class Mounted:
    """One that is mounted at ``path``."""

    def __init__(self, kind: Kind, folder: Path, size: int = 0) -> None:
        self.kind = kind
        self.path = folder / f"{kind.system}-mounted"
        self.image = folder / f"{kind.system}-image"
        self.path.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as file:
            file.truncate(size or _SIZES[kind.system])
        _run(f"mkfs.{kind.system}", "-q", self.image)

    def mount(self) -> None:
        options = ",".join(filter(None, ["loop", self.kind.options]))
        _run("mount", "-t", self.kind.system, "-o", options, self.image, self.path)

    def unmount(self) -> None:
        for pause in (0.001, 0.01, 0.1, 1, 3):
            with suppress(subprocess.CalledProcessError):
                _run("umount", self.path)
            if not os.path.ismount(self.path):
                return
            time.sleep(pause)  # whoever was killed may not be quite gone
        _run("umount", "--lazy", self.path)

    def write_single_pages(self) -> None:
        """Of a longer write that the file below takes only in part, a loop device says that it was done."""
        device = _run("losetup", "--noheadings", "--output", "NAME", "--associated", self.image)
        Path("/sys/block", Path(device).name, "queue/max_sectors_kb").write_text("4")

    def cut(self) -> None:
        """The power is gone: from here on every call fails."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", 1 if self.kind.flush else 2))
        finally:
            os.close(fd)


@contextmanager
def mounted(kind: Kind, folder: Path, size: int = 0) -> Iterator[Mounted]:
    """A new one, empty. Afterwards nothing of it is left."""
    one = Mounted(kind, folder, size)
    try:
        one.mount()
        yield one
    finally:
        if os.path.ismount(one.path):
            one.unmount()
        one.path.rmdir()
        one.image.unlink()


def _run(*words: object) -> str:
    environment = {**os.environ, "PATH": _PATH}
    done = subprocess.run([*map(str, words)], check=True, capture_output=True, text=True, env=environment)
    return done.stdout.strip()


class Place:
    """A file system in memory, of a size that can be changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def used(self) -> int:
        status = os.statvfs(self.path)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    def resize(self, size: int) -> None:
        _run("mount", "-o", f"remount,size={size}", self.path)


@contextmanager
def small_place(path: Path) -> Iterator[Place]:
    path.mkdir(parents=True)
    _run("mount", "-t", "tmpfs", "-o", "size=1g", "none", path)
    try:
        yield Place(path)
    finally:
        _run("umount", path)
        path.rmdir()
