"""Where a chat's log ends, found by anybody, without a lock.

The end is looked for from the last place known on: what this reader saw before, what the watermark names, or the start of
the last segment. What follows the last whole batch is for ``recovery`` to classify. A writer may be at work meanwhile, so a
reader that finds damage looks once more, at the witnesses first and then at the bytes.
"""

import os
from contextlib import suppress
from pathlib import Path

from chatfold.eventlog.errors import CorruptLog, NoSuchChat
from chatfold.eventlog.files.cache import Cache
from chatfold.eventlog.files.chat_segments import ChatSegments
from chatfold.eventlog.files.disk import Disk, OpenFiles, is_settled, read_at, stat_key
from chatfold.eventlog.files.offsets import Offsets
from chatfold.eventlog.files.recovery import Ending, classify_ending, classify_file_ending
from chatfold.eventlog.files.segment import (
    BIG_PAGE,
    PAGE,
    PageEnd,
    Position,
    Tail,
    end_of_last_batch,
    ends_with_link,
    is_blank,
    read_line_before,
    read_page,
)
from chatfold.eventlog.files.watermark import Watermark, read_watermark

_LOOKS = 10


class TailCell:
    """The tail of a chat that this process writes. Its ``LogWriter`` puts the next one in; every reader of the chat looks here.

    A ``Tail`` never changes, so no lock is needed. To a reader it is a place to look from, and is proved like any other.
    """

    def __init__(self) -> None:
        self.tail: Tail | None = None  # None: not looked for yet, or nothing that is known can be believed


class LogEnd(ChatSegments):
    """``indexing``: for a writer, who keeps the index of a segment that it has filled, and must have seen all of it."""

    def __init__(
        self,
        path: Path,
        chat: str,
        disk: Disk,
        end: TailCell | None,
        *,
        may_write: bool,
        indexing: bool,
        files: OpenFiles | None,
    ) -> None:
        super().__init__(path, chat, disk, files)
        self.end = end or TailCell()
        self._started_from: Tail | None = None  # the last one that was found in ``end``
        self.cache = Cache(path, disk, may_write=may_write)
        self.offsets = Offsets(self.cache)
        self._indexing = indexing
        self._seen: tuple[Tail, tuple[int, ...]] | None = None  # the tail, and how the file looks
        self._firsts: list[int] = []

    def forget(self) -> None:
        """Drop everything remembered, because the files were changed under us."""
        super().forget()
        self._seen = None
        self._firsts = []
        self.offsets.forget()

    def find_tail(self) -> Tail:
        """Where the log ends now: looked for from the last place we know on, so usually in a few new bytes."""
        if self._tail is not None and self._is_unchanged(self._tail):
            return self._tail
        found: CorruptLog | None = None
        for _ in range(_LOOKS):
            try:
                self._tail = self._find_tail()
            except CorruptLog as error:
                # A writer may have gone on between two of our reads, or be in the middle of a write. So once more from the
                # start, the witnesses first. Damage stays where it is.
                self.forget()
                if found is not None and (error.path, error.offset) == (found.path, found.offset):
                    raise
                found = error
            else:
                return self._tail
        assert found is not None
        raise found

    def is_torn(self, tail: Tail) -> bool:
        """Does an append that did not finish follow the end of the log?"""
        with self.open_segment(tail.first) as fd:
            return not tail.sealed and classify_file_ending(self.disk, fd, tail.position, 0) > Ending.PADDED

    def _find_tail(self) -> Tail:
        durable: int | None = None
        known = self._tail
        try:
            if known is None:
                # The witnesses before the bytes: they may lag behind, never lead.
                witness = read_watermark(self.disk, self.path)
                tail = None if self._indexing else self._tail_at_watermark(witness)
                if tail is not None:
                    return tail
                last = self.segments()[-1]
                durable = max(witness.seq if witness else 0, last - 1)
                tail = self._tail_from_watermark(witness, durable) or self._find_end(
                    self._open_at_start(last), durable
                )
            else:
                tail = self._find_end(known)
            while tail.position.seq >= tail.first and self.has_segment(tail.position.seq + 1):
                start = self._open_at_start(tail.position.seq + 1, tail.position.link)
                tail = self._find_end(start, durable)
        except FileNotFoundError:
            self.forget()
            if known:  # another chat may have taken the place, which has no such segment
                return self._find_tail()
            raise NoSuchChat("no such chat", chat=self.chat, path=self.path) from None
        if durable and classify_ending(tail.position.seq, b"", durable) is Ending.DAMAGED:
            raise self._corrupt(
                tail.first, tail.position, f"seq {durable} was durable and is not there any more"
            )
        return tail

    def _tail_at_watermark(self, witness: Watermark | None) -> Tail | None:
        """The tail, if nothing follows the very line that the witness names. To whom reads no more, that is proof enough.

        So opening costs the same with any number of segments: their borders are compared when one of them is read.
        """
        if witness is None:
            return None
        with suppress(FileNotFoundError), self.open_segment(witness.segment) as fd:
            status = self.disk.fstat(fd)
            self.parse_header_at(witness.segment, fd)  # a newer format is refused
            rest = status.st_size - witness.end
            if (
                0 <= rest <= BIG_PAGE
                and is_blank(read_at(self.disk, fd, witness.end, rest))
                and witness.is_of_line(read_line_before(self.disk, fd, witness.end))
                and not self.has_segment(witness.seq + 1)
            ):
                return Tail(witness.segment, witness.position, status.st_ino)
        return None

    def _tail_from_watermark(self, witness: Watermark | None, durable: int) -> Tail | None:
        """The tail, from where the witness says on. None if there is not the very line it names, or more segments follow."""
        if witness is None or (self._indexing and witness.end <= PAGE):
            return None  # what is short is read whole
        with suppress(FileNotFoundError), self.open_segment(witness.segment) as fd:
            status = self.disk.fstat(fd)
            if witness.is_of_line(read_line_before(self.disk, fd, witness.end)):
                self.read_header_at(witness.segment, fd)
                start = Tail(witness.segment, witness.position, status.st_ino)
                tail = self._scan_forward(start, fd, status, durable)
                return None if tail.sealed and self.segments()[-1] != tail.first else tail
        return None

    def _open_at_start(self, first: int, link: bytes | None = None) -> Tail:
        with self.open_segment(first) as fd:
            at = self.read_header_at(first, fd)
            if link is not None and at.link != link:
                raise CorruptLog("the segment does not follow the one before it", offset=0, seq=first)
            return Tail(first, at, self.disk.fstat(fd).st_ino)

    def _find_end(self, tail: Tail, durable: int | None = None) -> Tail:
        with self.open_segment(tail.first) as fd:
            status = self.disk.fstat(fd)
            is_same = status.st_ino == tail.inode and status.st_size >= tail.position.offset
            if not is_same or (
                tail.position.seq >= tail.first and not ends_with_link(self.disk, fd, tail.position)
            ):
                self.forget()  # redacted, repaired or replaced under us: lines stand elsewhere now
                tail = Tail(tail.first, self.read_header_at(tail.first, fd), status.st_ino)
            return self._scan_forward(tail, fd, status, durable)

    def _scan_forward(self, tail: Tail, fd: int, status: os.stat_result, durable: int | None) -> Tail:
        """The end of the segment that is open. ``durable``: by the witnesses, if they were read before."""
        at = whole = tail.position
        rest: bytes | None = None  # all that follows ``whole``, if it was read in one
        stop = PageEnd.MORE if status.st_size > at.offset else PageEnd.END
        while stop is PageEnd.MORE:
            page = read_page(self.disk, fd, at, BIG_PAGE)
            self.offsets.record(tail.first, tail.inode, at.seq + 1, at.offset, page.lines)
            whole = end_of_last_batch(whole, at, page)
            if page.reaches_end and whole.offset >= at.offset:
                rest = page.page.data[whole.offset - at.offset :]
            at, stop = page.at, page.stop
        if stop is PageEnd.SEALED and at.seq > whole.seq:
            raise self._corrupt(tail.first, whole, "a seal follows a batch that is not whole")
        place = Tail(tail.first, whole, tail.inode, stop is PageEnd.SEALED)
        is_padded = rest is not None and is_blank(rest)
        ending = Ending.CLEAN if is_padded or status.st_size == whole.offset else Ending.TORN
        if stop is PageEnd.BAD:
            durable = self._durable_seq() if durable is None else durable
            ending = (
                classify_ending(whole.seq, rest, durable)
                if rest is not None
                else classify_file_ending(self.disk, fd, whole, durable)
            )
            if ending is Ending.DAMAGED:
                raise self._corrupt(tail.first, whole, "bytes that were durable do not verify")
        is_same = is_settled(status) and ending <= Ending.PADDED
        self._seen = (place, stat_key(status)) if is_same else None
        return place

    def _durable_seq(self) -> int:
        """What is durable by the witnesses outside of the last segment."""
        witness = read_watermark(self.disk, self.path)
        return max(witness.seq if witness else 0, self.segments()[-1] - 1)

    def _is_unchanged(self, tail: Tail) -> bool:
        """Has nobody touched the last segment since we read its end? Then one look tells all that reading it would."""
        if self._seen is None or self._seen[0] is not tail:
            return False
        return stat_key(self.disk.stat(self.segment_path(tail.first))) == self._seen[1]

    def _corrupt(self, first: int, at: Position, message: str) -> CorruptLog:
        return CorruptLog(
            message, chat=self.chat, path=self.segment_path(first), offset=at.offset, seq=at.seq + 1
        )
