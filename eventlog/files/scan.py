"""Reading a chat without an event loop, a lock or a store around it."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from chatfold.eventlog.codec import Page, decode_all, decode_page
from chatfold.eventlog.errors import NoSuchChat
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.chat_dir import read_key
from chatfold.eventlog.files.disk import Disk, is_folder
from chatfold.eventlog.files.quotes import Quotes
from chatfold.eventlog.files.reader import BIG_PAGE, LogReader
from chatfold.eventlog.files.segment import parse_segment_name
from chatfold.eventlog.keys import chat_key


def open_folder(path: Path | str, disk: Disk | None = None) -> LogReader:
    """A chat's folder, for reading; nothing on disk is changed."""
    path = Path(path)
    disk = disk or Disk()
    if not is_folder(disk, path):
        raise NoSuchChat("not the folder of a chat", path=path)
    return LogReader(path, chat_key(path.name) or read_key(disk, path) or path.name, disk)


def scan(path: Path | str, first: int = 1, last: int | None = None) -> Iterator[Entry]:
    """Every entry of a chat's folder, or of one segment file in it, verified and in order."""
    return chain.from_iterable(
        _scan(Path(path), first, last)
    )  # a generator would cost a little with each entry


def _scan(path: Path, first: int, last: int | None) -> Iterator[Iterable[Entry]]:
    """Nothing is read, or found missing, before the first entry is asked for."""
    segment = parse_segment_name(path.name)
    if segment is None:
        folder = open_folder(path)
    else:
        folder = open_folder(path.parent)
        following = [start for start in folder.segments() if start > segment]
        first = max(first, segment)
        last = min([last or 1 << 62, *(start - 1 for start in following)])
    yield from entries(folder, first, last)


def entries(folder: LogReader, first: int = 1, last: int | None = None) -> Iterator[Iterable[Entry]]:
    """The entries ``first`` … ``last``, some at a time."""
    with closing(Quotes(folder)) as quotes, folder.translating_deletion():
        for page in folder.pages(first, last, BIG_PAGE):
            if isinstance(page, Page):
                yield from decode_page(page, quotes.whole)
            else:
                yield decode_all(page, quotes.whole)
