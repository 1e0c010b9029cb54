"""A chat that arrives line by line, out of an export: in a folder that nobody sees until all of it is there."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from chatfold.eventlog.errors import CorruptLog
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.blobs import write_blob
from chatfold.eventlog.files.chat_dir import make_root, publish_chat, staging_folder, write_open_segment
from chatfold.eventlog.files.disk import Disk, replace_file
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.seal import build_sealed_segment
from chatfold.eventlog.files.segment import BIG_PAGE, Position, Tail, segment_name
from chatfold.eventlog.line import LineFields, header_line, link_after, parse_fields
from chatfold.eventlog.transfer import Blob, ExportReader


async def import_chat(
    disk: Disk, path: Path, chat: str, chunks: AsyncIterator[bytes], segment_bytes: int
) -> bool:
    """False if there is a chat already."""
    await asyncio.to_thread(make_root, disk, path.parent.parent)
    with staging_folder(disk, path, chat) as staging:
        arrival = ChatImporter(disk, staging.path, chat, segment_bytes)
        async for data in chunks:
            await asyncio.to_thread(arrival.take, data)
        witness = await asyncio.to_thread(arrival.finish)
        # Once begun, it is waited for: what is left of the folder must not be removed under it.
        moving = asyncio.ensure_future(asyncio.to_thread(publish_chat, disk, staging, path, witness))
        try:
            return await asyncio.shield(moving)
        except asyncio.CancelledError:
            await asyncio.wait((moving,))
            raise


class ChatImporter:
    def __init__(self, disk: Disk, folder: Path, chat: str, segment_bytes: int) -> None:
        self._disk = disk
        self._path = folder
        self._chat = chat
        self._segment_bytes = segment_bytes
        self._folder = LogReader(folder, chat, disk)  # of the segments that are full
        self._unpacking = ExportReader(self._line, self._folder.blob, chat=chat)
        self._before = Head()  # the segment that is being filled
        self._lines: list[bytes] = []
        self._bytes = 0
        self._last: LineFields | None = None

    def take(self, data: bytes) -> None:
        for item in self._unpacking.feed(data):
            if isinstance(item, Blob):
                write_blob(self._disk, self._path, item.digest, item.content)
            else:
                self._take_line(item)

    def _take_line(self, line: bytes) -> None:
        now, last = parse_fields(line), self._last
        goes_on = last is not None and (now.index, now.size) == (last.index + 1, last.size)
        if self._bytes >= self._segment_bytes and not goes_on:  # a batch is in one segment
            self._seal()
        self._lines.append(line)
        self._bytes += len(line) + 1
        self._last = now

    def _line(self, seq: int) -> bytes:
        """One that was taken before."""
        return self._lines[seq - self._before.seq - 1] if seq > self._before.seq else self._folder.line(seq)

    def _seal(self) -> None:
        first = self._before.seq + 1
        path = self._path / segment_name(first)
        data = build_sealed_segment([header_line(self._before), *self._lines])
        replace_file(self._disk, path, data)
        link = link_after(self._lines[-1])
        self._before = Head(self._before.seq + len(self._lines), link.decode())
        at = Position(self._before.seq, link, len(data))
        self._folder.end.tail = Tail(first, at, self._disk.stat(path).st_ino, sealed=True)
        self._lines, self._bytes = [], 0

    def finish(self) -> bytes:
        """Everything is on the medium, and can be read; or it is refused. What its witness is to say."""
        head = self._unpacking.end()
        witness = write_open_segment(
            self._disk, self._path, self._before.seq + 1, [header_line(self._before), *self._lines], head
        )
        folder = LogReader(self._path, self._chat, self._disk)
        count = sum(len(page) for page in folder.line_pages(size=BIG_PAGE))
        if count != head.seq:
            raise CorruptLog("the last entries are not whole", chat=self._chat, seq=count + 1)
        return witness
