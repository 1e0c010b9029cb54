"""Reading a chat without an event loop, a lock or a store around it."""

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from chatfold.eventlog.errors import NoSuchChat
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.chat_dir import read_key
from chatfold.eventlog.files.disk import Disk, OpenFiles, is_folder
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.segment import BIG_PAGE, parse_segment_name
from chatfold.eventlog.keys import chat_key

_MOST_OPEN = 64  # files: opening one takes longer than reading a line that an entry refers to


def open_folder(path: Path | str, disk: Disk | None = None, files: OpenFiles | None = None) -> LogReader:
    """A chat's folder, for reading; nothing on disk is changed. ``files``: where its segments stay open."""
    path = Path(path)
    disk = disk or Disk()
    if not is_folder(disk, path):
        raise NoSuchChat("not the folder of a chat", path=path)
    return LogReader(path, chat_key(path.name) or read_key(disk, path) or path.name, disk, files=files)


def scan(path: Path | str, first: int = 1, last: int | None = None) -> Iterator[Entry]:
    """Every entry of a chat's folder, or of one segment file in it, verified and in order."""
    return chain.from_iterable(
        _scan(Path(path), first, last)
    )  # a generator would cost a little with each entry


def _scan(path: Path, first: int, last: int | None) -> Iterator[list[Entry]]:
    """Nothing is read, or found missing, before the first entry is asked for."""
    segment, disk = parse_segment_name(path.name), Disk()
    with closing(OpenFiles(disk, _MOST_OPEN)) as files:
        folder = open_folder(path if segment is None else path.parent, disk, files)
        if segment is not None:
            following = [start for start in folder.segments() if start > segment]
            first = max(first, segment)
            last = min([last or 1 << 62, *(start - 1 for start in following)])
        yield from entries(folder, first, last)


def entries(folder: LogReader, first: int = 1, last: int | None = None) -> Iterator[list[Entry]]:
    """The entries ``first`` … ``last``, some at a time."""
    with folder.translating_deletion():
        yield from map(folder.entries, folder.pages(first, last, BIG_PAGE))
