"""Reading a chat without an event loop, a lock or a store around it."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from chatfold.eventlog.codec import decode_page
from chatfold.eventlog.errors import NoSuchChat
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.chat_dir import read_key
from chatfold.eventlog.files.disk import Disk, is_folder
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.segment import BIG_PAGE, parse_segment_name
from chatfold.eventlog.keys import chat_key

_MOST_OPEN = 64  # files


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
    with closing(QuotedLines(folder)) as quoted, folder.translating_deletion():
        for page in folder.pages(first, last, BIG_PAGE):
            yield from decode_page(page, quoted.resolve)


class QuotedLines:
    """What entries keep elsewhere, for a reader of very many of them.

    Opening a file takes longer than reading a line of it. So the segments that are referred to stay open while the
    reading lasts: a line that has to be looked for there was read before it could be erased, and says what it said then.
    """

    def __init__(self, folder: LogReader) -> None:
        self._folder = folder
        self._files: dict[int, int] = {}

    def resolve(self, line: bytes) -> bytes:
        return self._folder.resolve_line(line, self.line)

    def line(self, seq: int) -> bytes:
        first = self._folder.segment_of(seq)
        fd = self._files.get(first)
        if fd is None:
            if len(self._files) == _MOST_OPEN:
                self.close()
            fd = self._files[first] = self._folder.disk.open_read(self._folder.segment_path(first))
        return self._folder.line_in(first, fd, seq) or self._folder.line(seq)

    def close(self) -> None:
        for fd in self._files.values():
            self._folder.disk.close(fd)
        self._files.clear()
