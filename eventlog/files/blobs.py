"""Contents too large for a line, one file each, named by their sha256. Written before the line that needs them."""

import re
from hashlib import sha256
from pathlib import Path

from chatfold.eventlog.errors import CorruptLog
from chatfold.eventlog.files.disk import Disk, check_folder, ensure_folder, read_file, replace_file

BLOBS = "blobs"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def write_blob(disk: Disk, folder: Path, digest: str, content: bytes) -> None:
    """Durable on return. One that is there already is the same by its name, unless it was damaged."""
    path = folder / BLOBS / digest
    ensure_folder(disk, path.parent)
    disk.sync_folder(folder)  # also if somebody else made it, who may have been killed before this
    try:
        if sha256(read_file(disk, path)).hexdigest() == digest:
            disk.sync_folder(path.parent)
            return
    except FileNotFoundError:
        pass
    replace_file(disk, path, content)


def read_blob(disk: Disk, folder: Path, digest: str) -> bytes:
    path = folder / BLOBS / digest
    if not _DIGEST.fullmatch(digest):
        raise CorruptLog("not the name of a blob", path=folder)
    try:
        check_folder(disk, path.parent)
        content = read_file(disk, path)
    except FileNotFoundError:
        raise CorruptLog("a blob is missing", path=path) from None
    if sha256(content).hexdigest() != digest:
        raise CorruptLog("a blob does not have the content of its name", path=path)
    return content


def blob_names(disk: Disk, folder: Path) -> list[str]:
    try:
        check_folder(disk, folder / BLOBS)
        return [name for name in disk.names(folder / BLOBS) if _DIGEST.fullmatch(name)]
    except FileNotFoundError:
        return []
