"""``head``: the last place known to be durable, written soon after a sync and never synced itself.

It is a witness, not a truth: it tells a torn tail from damage, and lets a reader start near the end. A
damaged or missing one is ignored. Overwritten in place, in one write smaller than a sector.
"""

from pathlib import Path

import msgspec

from chatfold.eventlog.files.disk import Disk, read_file
from chatfold.eventlog.files.segment import Position
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    Count,
    add_checksum,
    decode_verified,
    has_valid_sum,
    link_after,
    parse_seq,
)

HEAD_FILE = "head"
_WIDTH = 199


class Watermark(msgspec.Struct, frozen=True):
    seq: Count
    link: str
    segment: Count  # the first seq of the segment that ``end`` is in
    end: Count

    @property
    def position(self) -> Position:
        return Position(self.seq, self.link.encode(), self.end)

    def is_of_line(self, line: bytes) -> bool:
        good = line.startswith(ENTRY_PREFIX) and has_valid_sum(line)
        return good and (parse_seq(line), link_after(line).decode()) == (self.seq, self.link)


_decode = msgspec.json.Decoder(Watermark).decode


def format_watermark(segment: int, at: Position) -> bytes:
    link = (at.link or b"").decode()
    body = f'{{"seq":{at.seq},"link":"{link}","segment":{segment},"end":{at.offset}'
    return add_checksum(body.encode()).ljust(_WIDTH) + b"\n"


def write_watermark(disk: Disk, fd: int, segment: int, at: Position) -> None:
    disk.pwrite(fd, format_watermark(segment, at), 0)


def read_watermark(disk: Disk, folder: Path) -> Watermark | None:
    try:
        return decode_verified(read_file(disk, folder / HEAD_FILE).rstrip(), _decode)
    except OSError:
        return None
