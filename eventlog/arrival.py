"""A chat that arrives line by line, out of an export: in a folder that nobody sees until all of it is there."""

from pathlib import Path

from eventlog.blobs import write_blob
from eventlog.disk import Disk, publish
from eventlog.errors import CorruptLog
from eventlog.events import Head
from eventlog.exports import Blob, Unpacking
from eventlog.folder import BIG_PAGE, Folder
from eventlog.layout import add_segment
from eventlog.line import decode_all, header, link_of, marks, sealed
from eventlog.segment import segment_name


class Arrival:
    def __init__(self, disk: Disk, folder: Path, chat: str, segment_bytes: int) -> None:
        self._disk = disk
        self._folder = folder
        self._chat = chat
        self._segment_bytes = segment_bytes
        self._unpacking = Unpacking()
        self._before = Head()  # the segment that is being filled
        self._lines: list[bytes] = []
        self._bytes = 0

    def take(self, data: bytes) -> None:
        for item in self._unpacking.feed(data):
            if isinstance(item, Blob):
                write_blob(self._disk, self._folder, item.digest, item.content)
                continue
            if self._bytes >= self._segment_bytes and marks(item).index == 1:  # a batch is in one segment
                self._seal()
            self._lines.append(item)
            self._bytes += len(item) + 1

    def _seal(self) -> None:
        first = self._before.seq + 1
        publish(self._disk, self._folder / segment_name(first), sealed([header(self._before), *self._lines]))
        self._before = Head(self._before.seq + len(self._lines), link_of(self._lines[-1]).decode())
        self._lines, self._bytes = [], 0

    def finish(self) -> None:
        """Everything is on the medium, and can be read; or it is refused."""
        head = self._unpacking.end()
        add_segment(
            self._disk, self._folder, self._before.seq + 1, [header(self._before), *self._lines], head
        )
        folder = Folder(self._folder, self._chat, self._disk)
        count = 0
        for page in folder.pages(size=BIG_PAGE):
            count += sum(1 for _ in decode_all(page, folder.whole))
        if count != head.seq:
            raise CorruptLog("the last entries are not whole", chat=self._chat, seq=count + 1)
