"""A chat's folder, read: segments in order, verified across their borders, without a lock.

Nothing here writes, except the offset index in ``cache/``. A reader may run while any number of processes
append, roll, redact or delete: files are opened anew for each page, so that a swapped segment is noticed, and
nothing beyond ``tail()``, the end of the last whole batch, is ever shown.
"""

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from chatfold.eventlog.codec import Stretch, decode_stretch
from chatfold.eventlog.errors import ChatDeleted, ChatfoldError, CorruptLog, NoSuchChat
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.blobs import read_blob
from chatfold.eventlog.files.chat_dir import LOCK_FILE
from chatfold.eventlog.files.disk import Disk, read_at
from chatfold.eventlog.files.neighbours import check_neighbours
from chatfold.eventlog.files.offsets import STRIDE, Offsets
from chatfold.eventlog.files.recovery import durable_after
from chatfold.eventlog.files.seal import Sealed, read_sealed
from chatfold.eventlog.files.segment import (
    PAGE,
    Page,
    Place,
    Position,
    Stop,
    committed,
    first_of,
    is_after,
    line_after,
    line_before,
    line_near,
    lines_back,
    read_page,
    segment_name,
)
from chatfold.eventlog.files.watermark import Witness, read_witness
from chatfold.eventlog.line import ENTRY, ESCAPE, link_of, prev_of, read_header, resolve, seq_of, verifies

BIG_PAGE = 1 << 18
_FINAL = 1 << 62  # later than any seq
_TICK = 2 * 10**9  # ns in which two changes of a file may leave it with the same time, and more


class Folder:
    """``indexing``: for a writer, who keeps the index of a segment that it has filled, and must have seen all of it."""

    def __init__(
        self, path: Path, chat: str, disk: Disk, *, may_write: bool = False, indexing: bool = False
    ) -> None:
        self.path = path
        self.chat = chat
        self.disk = disk
        self.offsets = Offsets(path, disk, may_write=may_write)
        self._indexing = indexing
        self.lock = threading.Lock()  # for whoever uses one folder on several threads
        self._tail: Place | None = None
        self._seen: tuple[Place, tuple[int, ...]] | None = None  # the tail, and how the file looks
        self.snapshots: list[int] | None = None  # those that stay, once somebody has looked
        self._firsts: list[int] = []
        self._paths: dict[int, Path] = {}
        self._asked = (0, path)  # the last segment that was asked for, whether it is there
        self._lock_file = path / LOCK_FILE
        self._fitting: dict[int, int] = {}  # segments that fit in between the others, with their inodes

    def remember(self, tail: Place) -> None:
        """The log ends here: says whoever has just written it."""
        self._tail, self._seen = tail, None

    def forget(self) -> None:
        """Drops everything remembered, because the files were changed under us."""
        self._tail = self._seen = None
        self._firsts = []
        self.offsets.forget()

    def identity(self) -> tuple[int, int] | None:
        """Another one for every chat that ever had this key: nobody touches a chat's lock file. None if there is no chat."""
        try:
            status = self.disk.stat(self._lock_file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_ino, status.st_ctime_ns

    @contextmanager
    def unless_deleted(self) -> Iterator[None]:
        """What looks damaged or missing because the chat was deleted meanwhile, or another took its place, is ChatDeleted."""
        before = self.identity()
        try:
            yield
        except (CorruptLog, FileNotFoundError):
            if self.identity() == before:
                raise
            self.forget()
            raise ChatDeleted("the chat was deleted", chat=self.chat, path=self.path) from None

    @contextmanager
    def if_there(self) -> Iterator[None]:
        """Left quietly if there is no such chat, or it is deleted meanwhile."""
        with suppress(NoSuchChat, ChatDeleted), self.unless_deleted():
            yield

    # --- segments ------------------------------------------------------------------------------------

    def segment(self, first: int) -> Path:
        path = self._paths.get(first)
        if path is None:  # making a Path takes longer than a stat
            path = self._paths[first] = self.path / segment_name(first)
        return path

    def segments(self) -> list[int]:
        """First seqs, in order. Files of other names are not ours and are left alone."""
        try:
            names = self.disk.names(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise NoSuchChat("no such chat", chat=self.chat, path=self.path) from None
        firsts = sorted([first for first in map(first_of, names) if first is not None])
        if not firsts:
            raise CorruptLog("a chat without a segment", chat=self.chat, path=self.path)
        return firsts

    def is_border(self, seq: int) -> bool:
        """Is this the last seq of a full segment?"""
        return self._exists(seq + 1)

    @contextmanager
    def opened(self, first: int) -> Iterator[int]:
        """A segment's descriptor; whatever goes wrong while it is open is told with chat and path."""
        fd = self.disk.open_read(self.segment(first))
        try:
            yield fd
        except ChatfoldError as error:
            error.chat, error.path, error.seq = self.chat, self.segment(first), error.seq or first
            raise
        finally:
            self.disk.close(fd)

    def sync(self) -> None:
        """Makes all of it durable. Segments before the last one are."""
        with self.opened(self.segments()[-1]) as fd:
            self.disk.sync(fd)

    def start(self, first: int, fd: int) -> Position:
        """The place after the header. Checks that the file is the one its name says."""
        line, newline, _ = read_at(self.disk, fd, 0, 512).partition(b"\n")
        head = read_header(line if newline else b"")
        if head.seq + 1 != first:
            raise CorruptLog(f"the segment says that it starts at seq {head.seq + 1}", offset=0, seq=first)
        inode = self.disk.fstat(fd).st_ino
        if self._fitting.get(first) != inode:
            if not self._firsts or self._firsts[-1] < first:  # listed once, not with each of many segments
                self._firsts = self.segments()
            check_neighbours(self.disk, self.segment, self._firsts, first)
            self._fitting[first] = inode
        return Position(head.seq, head.sum.encode(), len(line) + 1)

    # --- the end of the log ----------------------------------------------------------------------------

    def tail(self) -> Place:
        """Where the log ends now: looked for from the last place we know on, so usually in a few new bytes."""
        witness = None
        known = self._tail is not None
        try:
            if self._tail is None:
                # Before the files: it may lag behind, never lead.
                witness = read_witness(self.disk, self.path)
                tail = self._witnessed(witness) or self._advance(self._enter(self.segments()[-1]))
            else:
                tail = self._tail if self._is_as_seen(self._tail) else self._advance(self._tail)
            while tail.at.seq >= tail.first and self._exists(tail.at.seq + 1):
                tail = self._advance(self._enter(tail.at.seq + 1, tail.at.link))
        except FileNotFoundError:
            self.forget()
            if known:  # another chat may have taken the place, which has no such segment
                return self.tail()
            raise NoSuchChat("no such chat", chat=self.chat, path=self.path) from None
        if witness is not None and witness.seq > tail.at.seq:
            raise self._corrupt(
                tail.first, tail.at, f"seq {witness.seq} was durable and is not there any more"
            )
        self._tail = tail
        return tail

    def _witnessed(self, witness: Witness | None) -> Place | None:
        """The tail, from where the witness says on. None if there is not the very line it names, or more segments follow."""
        if witness is None or (self._indexing and witness.end <= PAGE):
            return None  # what is short is read whole
        with suppress(FileNotFoundError), self.opened(witness.segment) as fd:
            status = self.disk.fstat(fd)
            if witness.names(line_before(self.disk, fd, witness.end)):
                inode = status.st_ino
                self._fitting[witness.segment] = inode  # it is ours: no other chat has a line of that sum
                self.start(witness.segment, fd)
                tail = self._onward(Place(witness.segment, witness.position, inode), fd, status)
                return None if tail.sealed and self.segments()[-1] != tail.first else tail
        return None

    def _exists(self, first: int) -> bool:
        """Asked after each append of the next segment, which is hardly ever there: its path is not kept with the others."""
        if self._asked[0] != first:
            self._asked = first, self._paths.get(first) or self.path / segment_name(first)
        try:
            self.disk.stat(self._asked[1])
        except FileNotFoundError:
            return False
        return True

    def _enter(self, first: int, link: bytes | None = None) -> Place:
        with self.opened(first) as fd:
            at = self.start(first, fd)
            if link is not None and at.link != link:
                raise CorruptLog("the segment does not follow the one before it", offset=0, seq=first)
            return Place(first, at, self.disk.fstat(fd).st_ino)

    def _advance(self, tail: Place) -> Place:
        with self.opened(tail.first) as fd:
            status = self.disk.fstat(fd)
            is_same = status.st_ino == tail.inode and status.st_size >= tail.at.offset
            if not is_same or (tail.at.seq >= tail.first and not is_after(self.disk, fd, tail.at)):
                self.forget()  # redacted, repaired or replaced under us: lines stand elsewhere now
                tail = Place(tail.first, self.start(tail.first, fd), status.st_ino)
            return self._onward(tail, fd, status)

    def _onward(self, tail: Place, fd: int, status: os.stat_result) -> Place:
        at = whole = tail.at
        stop = Stop.MORE if status.st_size > at.offset else Stop.END
        while stop is Stop.MORE:
            page = read_page(self.disk, fd, at, BIG_PAGE)
            if page.stop is Stop.BAD:
                page = read_page(self.disk, fd, at, BIG_PAGE)  # a writer may just have rolled back
            self.offsets.note(tail.first, tail.inode, at.seq + 1, at.offset, page.lines)
            whole = committed(whole, at, page)
            at, stop = page.at, page.stop
        if stop is Stop.BAD:
            self._judge(tail.first, fd, whole)
        place = Place(tail.first, whole, tail.inode, stop is Stop.SEALED)
        # As long as a change may leave the file with the time it has, its looks say nothing.
        is_settled = status.st_ctime_ns and status.st_ctime_ns < time.time_ns() - _TICK
        ends_here = status.st_size == whole.offset
        self._seen = (place, _look(status)) if is_settled and ends_here else None
        return place

    def _is_as_seen(self, tail: Place) -> bool:
        """Has nobody touched the last segment since we read its end? Then one look tells all that reading it would."""
        if self._seen is None or self._seen[0] is not tail:
            return False
        return _look(self.disk.stat(self.segment(tail.first))) == self._seen[1]

    def _judge(self, first: int, fd: int, at: Position) -> None:
        """Returns if what follows ``at`` is torn, raises if it is damaged: see ``recovery``."""
        witness = read_witness(self.disk, self.path)
        durable = max(
            durable_after(self.disk, fd, at.offset, _FINAL),
            self.segments()[-1] - 1,
            witness.seq if witness else 0,
        )
        if durable > at.seq:
            raise self._corrupt(first, at, "bytes that were durable do not verify")

    def _corrupt(self, first: int, at: Position, message: str) -> CorruptLog:
        return CorruptLog(message, chat=self.chat, path=self.segment(first), offset=at.offset, seq=at.seq + 1)

    # --- reading ---------------------------------------------------------------------------------------

    def pages(self, first: int = 1, last: int | None = None, size: int = PAGE) -> Iterator[list[bytes]]:
        """The lines ``first`` … ``last`` as they were written, in order. The first page is small."""
        for page in self.stretches(first, last, size):
            yield page.lines() if isinstance(page, Stretch) else page

    def stretches(self, first: int, last: int | None, size: int) -> Iterator[list[bytes] | Stretch]:
        """Verified lines; not cut up where a full segment is read from its start."""
        end = self.tail().at.seq
        last = end if last is None else min(last, end)
        while first <= last:
            place = self._seek(first)
            sealed: Sealed | None = None
            while place.at.seq < last:
                if place.at.seq < place.first:  # a segment starts
                    sealed = self._sealed(place, last) if (first, size) == (place.first, BIG_PAGE) else None
                page = self._page(place, size, sealed)
                if page is None:  # the segment was swapped under us: look for the place again
                    self._check_past(place.at)
                    break
                size = BIG_PAGE
                lines = page.stretch or page.lines[max(0, first - place.at.seq - 1) : last - place.at.seq]
                first = max(first, page.at.seq + 1)
                if lines:
                    yield lines
                place = Place(place.first, page.at, place.inode)
                if page.stop is not Stop.MORE and page.at.seq < last:
                    place = self._next_segment(place, page.stop)

    def _check_past(self, at: Position) -> None:
        """Erasing keeps the links: what was shown so far is still the past of what is there now, or that is another chat."""
        if at.seq and at.link and self.link(at.seq) != at.link.decode():
            raise self._corrupt(self.segment_of(at.seq), at, "another chat was put in this one's place")

    def _sealed(self, place: Place, last: int) -> Sealed | None:
        """The segment that starts here, if it is verified at once."""
        with self.opened(place.first) as fd:
            is_it = self.disk.fstat(fd).st_ino == place.inode
            return read_sealed(self.disk, fd, place.at, last) if is_it else None

    def _page(self, place: Place, size: int, sealed: Sealed | None = None) -> Page | None:
        with self.opened(place.first) as fd:
            inode = self.disk.fstat(fd).st_ino
            if inode != place.inode:
                return None
            at = place.at
            if sealed is not None:
                return sealed.page(at, 4 * BIG_PAGE)  # it is in memory: what costs is each page
            page = read_page(self.disk, fd, at, size)
            self.offsets.note(place.first, inode, at.seq + 1, at.offset, page.lines)
            if page.stop is Stop.BAD and not page.lines:
                raise CorruptLog("a line does not verify", offset=at.offset, seq=at.seq + 1)
            if page.lines and at.link is None and not self._follows(fd, at, prev_of(page.lines[0])):
                raise CorruptLog(
                    "the line does not follow the one before it", offset=at.offset, seq=at.seq + 1
                )
            return page

    def _follows(self, fd: int, at: Position, prev: bytes) -> bool:
        """Is the line after ``at`` the next one? A damaged line before it does not say; whoever reads that is told."""
        if is_after(self.disk, fd, Position(at.seq, prev, at.offset)):
            return True
        before = line_before(self.disk, fd, at.offset)
        return not (before.startswith(ENTRY) and verifies(before))

    def _next_segment(self, place: Place, stop: Stop) -> Place:
        first = place.at.seq + 1
        if first == place.first or not self._exists(first):
            early = "the segment ends too early, or the next one is missing"
            bad = "bytes that were durable do not verify"
            raise self._corrupt(place.first, place.at, bad if stop is Stop.BAD else early)
        return self._enter(first, place.at.link)

    def pages_back(self, last: int | None = None) -> Iterator[list[bytes]]:
        """The lines up to ``last``, last page first, each page in order."""
        return (stretch.lines() for stretch in self.stretches_back(last))

    def stretches_back(self, last: int | None = None, most: int = _FINAL) -> Iterator[Stretch]:
        """The same, or the last ``most`` of them, not cut up."""
        end = self.tail().at.seq
        last = end if last is None else min(last, end)
        least = max(0, last - most)
        link: bytes | None = None  # of the next one, as the line after it says
        while last > least:
            first = self.segment_of(last)
            with self.opened(first) as fd:
                try:
                    for stretch in self._segment_back(first, fd, last, least, link):
                        yield stretch
                        begin = stretch.first()
                        last, link = seq_of(begin) - 1, prev_of(begin)
                except CorruptLog:
                    if self.disk.stat(self.segment(first)).st_ino == self.disk.fstat(fd).st_ino:
                        raise
                    self.tail()  # the segment was swapped under us: look for the place again

    def _segment_back(
        self, first: int, fd: int, last: int, least: int, link: bytes | None
    ) -> Iterator[Stretch]:
        """Those of one segment, but none up to seq ``least``."""
        start, end = self.start(first, fd).offset, self._end_of(last, fd)
        for stretch, count in lines_back(self.disk, fd, start, end, last - least):
            if not self._is_last(stretch, last, link):
                raise CorruptLog("a line does not verify, or is not where it should be", seq=last)
            yield stretch
            last, link = last - count, None
        if last >= max(first, least + 1):
            raise CorruptLog("the segment ends too early", seq=last)

    def _end_of(self, last: int, fd: int) -> int:
        """The byte after line ``last``, or after the seal that follows it, of the segment it is in."""
        tail = self._tail or self.tail()
        status = self.disk.fstat(fd)
        if last == tail.at.seq >= tail.first and tail.inode == status.st_ino:
            return tail.at.offset
        return status.st_size if self._exists(last + 1) else self.find(last + 1)[1]

    def _is_last(self, lines: Stretch, last: int, link: bytes | None) -> bool:
        """Do these verified lines end with seq ``last``?"""
        end = lines.last()
        return seq_of(end) == last and (link is None or link_of(end) == link)

    def line(self, seq: int) -> bytes:
        """One line as it was written. Only this one is verified, not those it is found by."""
        first = self.segment_of(seq)
        with self.opened(first) as fd:
            line = self.line_in(first, fd, seq)
        if line:
            return line
        # No index, a wrong one, or damage somewhere: find it by verifying every line on the way.
        self.offsets.drop(first)
        for page in self.pages(seq, seq):
            return page[0]
        raise CorruptLog("there is no such line", chat=self.chat, path=self.path, seq=seq)

    def line_in(self, first: int, fd: int, seq: int) -> bytes:
        """One line of the segment that is open here; nothing if it is not found, or does not verify."""
        near = self._near(first, fd, seq)
        line = line_after(self.disk, fd, near[1], seq - near[0], near[2] - near[1])
        return line if verifies(line) and line.startswith(b'{"seq":%d,' % seq) else b""

    def link(self, seq: int) -> str | None:
        """Of the line; None if there is no such line."""
        at = self.tail().at
        if seq == at.seq and at.link is not None:
            return at.link.decode()
        return link_of(self.line(seq)).decode() if 0 < seq <= at.seq else None

    def blob(self, digest: str) -> bytes:
        return read_blob(self.disk, self.path, digest)

    def whole(self, line: bytes, line_of: Callable[[int], bytes] | None = None) -> bytes:
        """The line with everything it keeps elsewhere put back. ``line_of``: if not ``line``."""
        try:
            return resolve(line, line_of or self.line, self.blob)
        except ChatfoldError as error:
            now = self.line(seq_of(line))
            if now != line:
                return self.whole(now)  # erased since it was read, together with what it refers to
            error.chat, error.seq = self.chat, seq_of(line)
            raise

    def wholes(self, lines: list[bytes]) -> list[bytes]:
        # Most lines keep nothing elsewhere, and reading a long chat is mostly this line.
        return [self.whole(line) if ESCAPE in line else line for line in lines]

    def entries(self, stretch: Stretch) -> list[Entry]:
        """What verified lines say, whole."""
        try:
            return list(chain.from_iterable(decode_stretch(stretch, self.whole)))
        except CorruptLog as error:
            error.chat = self.chat
            raise

    # --- finding a line ----------------------------------------------------------------------------------

    def find(self, seq: int) -> tuple[int, int]:
        """(segment, byte) at which the line starts."""
        while True:
            place = self._seek(seq)
            at = place.at
            while at.seq + 1 < seq:
                page = self._page(Place(place.first, at, place.inode), PAGE)
                if page is None:
                    break
                if not page.lines:
                    raise self._corrupt(place.first, at, "the segment ends too early")
                skip = page.lines[: seq - at.seq - 1]
                at = Position(at.seq + len(skip), None, at.offset + len(skip) + sum(map(len, skip)))
            else:
                return place.first, at.offset

    def segment_of(self, seq: int) -> int:
        """The first seq of the segment that line is in."""
        first = (self._tail or self.tail()).first
        if seq >= first:
            return first  # the usual case, without looking at the others
        if not self._firsts or self._firsts[-1] != first:  # they only ever become more
            self._firsts = self.segments()
        index = bisect_right(self._firsts, seq) - 1
        if index < 0:
            raise CorruptLog("the first segment is missing", chat=self.chat, path=self.path, seq=seq)
        return self._firsts[index]

    def _seek(self, seq: int) -> Place:
        """A place at or before the line; near it, if the segment's index is known."""
        first = self.segment_of(seq)
        with self.opened(first) as fd:
            start, inode = self.start(first, fd), self.disk.fstat(fd).st_ino
            near = self._near(first, fd, seq)
            if near[0] == first:
                return Place(first, start, inode)
            if not read_at(self.disk, fd, near[1], 64).startswith(b'{"seq":%d,' % near[0]):
                self.offsets.drop(first)  # it led to another line than it says
                near = *line_near(self.disk, fd, start.offset, first, seq), 0
            return Place(first, Position(near[0] - 1, None, near[1]), inode)

    def _near(self, first: int, fd: int, seq: int) -> tuple[int, int, int]:
        """What ``offsets.nearest`` says of a line a little before ``seq``, also of the open segment, which has no index."""
        status = self.disk.fstat(fd)
        full = self._tail is not None and first != self._tail.first
        near = self.offsets.nearest(first, status, seq, full=full)
        if near is None and full:
            self.index(first)
            near = self.offsets.nearest(first, status, seq, full=full)
        if near is None or seq - near[0] >= STRIDE:
            near = *line_near(self.disk, fd, self.start(first, fd).offset, first, seq), 0
        return near

    def index(self, first: int) -> None:
        """Makes the index of a full segment that has none."""
        stop = Stop.MORE
        self.offsets.drop(first)
        with self.opened(first) as fd:
            at, status = self.start(first, fd), self.disk.fstat(fd)
            sealed = read_sealed(self.disk, fd, at, _FINAL)
            while stop is Stop.MORE:
                page = sealed.page(at, BIG_PAGE) if sealed else read_page(self.disk, fd, at, BIG_PAGE)
                lines = page.stretch.lines() if page.stretch else page.lines
                self.offsets.note(first, status.st_ino, at.seq + 1, at.offset, lines)
                at, stop = page.at, page.stop
        if stop is not Stop.BAD:
            self.offsets.keep(first, status.st_size)


def _look(status: os.stat_result) -> tuple[int, ...]:
    """What is another after every change, unless that came in the same tick of the clock as the one before."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
