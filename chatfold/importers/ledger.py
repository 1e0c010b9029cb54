"""The ledger: which files were read to their end, and as which chats. A cache: without it, they are read again.

A file that has the size, the time and the inode of then, and whose chats are all there, has nothing new.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from chatfold.eventlog.places import address_of

_VERSION = 1


class Known(msgspec.Struct, array_like=True):
    size: int
    mtime: int
    inode: int
    format: str  # empty: of no format that is known here
    chats: list[str]


class _File(msgspec.Struct):
    version: int = _VERSION
    files: dict[str, Known] = {}


class Ledger:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._changed = False
        self.files: dict[str, Known] = {}
        if path is not None:
            with suppress(OSError, msgspec.DecodeError):
                file = msgspec.json.decode(path.read_bytes(), type=_File)
                self.files = file.files if file.version == _VERSION else {}

    def find(self, path: Path, stat: os.stat_result) -> Known | None:
        """What is known of the file, if it is as it was."""
        known = self.files.get(str(path))
        return known if known and (known.size, known.mtime, known.inode) == signature(path, stat) else None

    def note(self, path: Path, stat: os.stat_result, form: str, chats: list[str]) -> None:
        self.files[str(path)] = Known(*signature(path, stat), form, chats)
        self._changed = True

    def forget(self, path: Path) -> None:
        self._changed |= self.files.pop(str(path), None) is not None

    def save(self) -> None:
        if self._path is None or not self._changed:
            return
        with suppress(OSError):  # it is a cache
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary = self._path.with_name(f".{os.urandom(8).hex()}.tmp")
            temporary.write_bytes(msgspec.json.encode(_File(files=self.files)))
            temporary.chmod(0o600)
            temporary.replace(self._path)
            self._changed = False


def signature(path: Path, stat: os.stat_result) -> tuple[int, int, int]:
    """Of a file, with the write-ahead log beside it, if it is a database that has one."""
    size, time = stat.st_size, stat.st_mtime_ns
    with suppress(OSError):
        log = os.stat(f"{path}-wal")  # noqa: PTH116
        size, time = size + log.st_size, max(time, log.st_mtime_ns)
    return size, time, stat.st_ino


def ledger_path(place: Path | str) -> Path:
    """In the cache of a store's folder; for a database, in the user's."""
    if address_of(place) is None:
        return Path(place) / "cache" / "imports"
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "chatfold" / f"imports-{hashlib.sha256(str(place).encode()).hexdigest()[:16]}"
