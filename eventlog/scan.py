"""Reading a chat without an event loop, a lock or a store around it."""

from collections.abc import Iterator
from pathlib import Path

from eventlog.disk import Disk
from eventlog.errors import NoSuchChat
from eventlog.events import Entry
from eventlog.folder import BIG_PAGE, Folder
from eventlog.layout import read_key
from eventlog.line import decode_all
from eventlog.names import chat_key
from eventlog.segment import first_of


def open_folder(path: Path | str, disk: Disk | None = None) -> Folder:
    """A chat's folder, for reading; nothing on disk is changed."""
    path = Path(path)
    disk = disk or Disk()
    if not path.is_dir():
        raise NoSuchChat("not the folder of a chat", path=path)
    return Folder(path, chat_key(path.name) or read_key(disk, path) or path.name, disk)


def scan(path: Path | str, first: int = 1, last: int | None = None) -> Iterator[Entry]:
    """Every entry of a chat's folder, or of one segment file in it, verified and in order."""
    path = Path(path)
    segment = first_of(path.name)
    if segment is None:
        folder = open_folder(path)
    else:
        folder = open_folder(path.parent)
        following = [start for start in folder.segments() if start > segment]
        first = max(first, segment)
        last = min([last or 1 << 62, *(start - 1 for start in following)])
    for page in folder.pages(first, last, BIG_PAGE):
        yield from decode_all(page, folder.whole)
