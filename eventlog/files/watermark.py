"""``head``: the last place known to be durable, written soon after a sync and never synced itself.

It is a witness, not a truth: it tells a torn tail from damage, and lets a reader start near the end. A
damaged or missing one is ignored. Overwritten in place, in one write smaller than a sector.
"""

from pathlib import Path

import msgspec

from chatfold.eventlog.files.disk import Disk, read_file
from chatfold.eventlog.files.segment import Position
from chatfold.eventlog.line import ENTRY, Count, checked, link_of, seal_up, seq_of, verifies

HEAD_FILE = "head"
_WIDTH = 199


class Witness(msgspec.Struct, frozen=True):
    seq: Count
    link: str
    segment: Count  # the first seq of the segment that ``end`` is in
    end: Count

    @property
    def position(self) -> Position:
        return Position(self.seq, self.link.encode(), self.end)

    def names(self, line: bytes) -> bool:
        good = line.startswith(ENTRY) and verifies(line)
        return good and (seq_of(line), link_of(line).decode()) == (self.seq, self.link)


_decode = msgspec.json.Decoder(Witness).decode


def witness_bytes(segment: int, at: Position) -> bytes:
    link = (at.link or b"").decode()
    body = f'{{"seq":{at.seq},"link":"{link}","segment":{segment},"end":{at.offset}'
    return seal_up(body.encode()).ljust(_WIDTH) + b"\n"


def write_witness(disk: Disk, fd: int, segment: int, at: Position) -> None:
    disk.pwrite(fd, witness_bytes(segment, at), 0)


def read_witness(disk: Disk, folder: Path) -> Witness | None:
    try:
        return checked(read_file(disk, folder / HEAD_FILE).rstrip(), _decode)
    except OSError:
        return None
