"""The open segment's descriptor: bytes are appended, cut back, synced and sealed through it.

The caller holds the chat's lock, except for ``sync``. Between two calls the segment holds complete batches of lines that
verify, then perhaps the beginning of one more, then perhaps padding. That is what a crash leaves and what ``recovery`` expects.

Padding is newlines, room for the lines to come. A sync of a file that has become longer makes the file system write its journal,
too, which takes about as long as the bytes. So a segment that is synced again and again is made longer in steps. A short
segment is not, nor one whose writer has just begun; and what is sealed or closed ends with its last line.

No room raises the OSError, and the caller cuts the file back. Any other failed write and every failed sync is
``WriteFailed``: the kernel may have dropped the pages, and it reports that once.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from chatfold.eventlog.errors import NO_ROOM
from chatfold.eventlog.files.disk import Disk, read_at
from chatfold.eventlog.files.seal import STEP, SealBuilder
from chatfold.eventlog.files.segment import END, SEGMENT_BYTES, Tail, ends_with_link, is_blank
from chatfold.eventlog.line import MAX_LINE

_SUM = 19  # bytes of a line from its sum on, the newline included
_BUSY = 4  # syncs
_FEW = 4  # appends
_PADDED, _PADDING = 128, 64
"""Room is made from a 128th of a full segment on, and at most a 64th of one: 64 and 128 KiB."""


class WriteFailed(Exception):
    """Nothing is known about what is durable. The cause says why."""


class SegmentWriter:
    """``fd`` is the segment's, open for appending; ``close`` closes it. ``written``: all that is in it, if this process wrote that.

    ``size``: the file's, padding included, when it was last looked at or changed.
    """

    def __init__(
        self,
        disk: Disk,
        path: Path,
        fd: int,
        tail: Tail,
        written: bytes = b"",
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.inode = tail.inode
        self._disk = disk
        self.path = path
        self.fd = fd
        self.size = len(written) or disk.fstat(fd).st_size
        self._segment_bytes = segment_bytes
        self._pads_from = min(segment_bytes, SEGMENT_BYTES) // _PADDED
        self._padding = min(segment_bytes, SEGMENT_BYTES) // _PADDING
        self._written_to = 0  # by the last append, which may have failed
        self._appends = True  # does what is written through ``fd`` go to the end of the file?
        self._syncs = 0
        self._is_synced = False  # since the last append
        self._seal = SealBuilder(disk, tail.position.offset, tail.inode, written)
        self.is_seal_due = False  # is it time for ``seal_work``?

    def close(self) -> None:
        """Let go of the file. Syncs nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with suppress(OSError):  # what mattered was synced
                self._disk.close(fd)

    def append(self, tail: Tail, data: bytes, *, may_pad: bool = True) -> None:
        """Write ``data`` after ``tail``, where the log was just seen to end. If this raises, any part of it may be in the file."""
        disk, seal, start = self._disk, self._seal, tail.position.offset
        end, rest, is_growing = start + len(data), data, start == self.size
        if end > self.size and end >= self._pads_from and may_pad:
            rest += self._choose_padding(start, end)
        self._written_to = start
        try:
            # What goes to the end overwrites nothing, not even where locks are of no use.
            if is_growing is not self._appends:
                disk.set_append(self.fd, append=is_growing)
                self._appends = is_growing
            while (at := self._written_to) < end:  # of the padding, what there is room for
                count = disk.write(self.fd, rest) if is_growing else disk.pwrite(self.fd, rest, at)
                self._written_to += count
                rest = rest[count:]
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            raise WriteFailed from error
        self.size = max(self.size, self._written_to)
        if seal.written_to == start:
            seal.written.update(data)
            seal.written_to = end
        self._is_synced = False
        self.is_seal_due = end >= seal.due_at

    def _choose_padding(self, start: int, end: int) -> bytes:
        """What to write behind the append from ``start`` to ``end``: as much again as there is, within limits.

        Nothing if the next few appends of this size do not fit, as when many at once are written together.
        """
        size = min(end, self._padding, self._segment_bytes - end)
        is_worth = self._is_synced and self._syncs >= _BUSY and size >= _FEW * (end - start)
        return b"\n" * size if is_worth else b""

    def cut_to_last_complete(self, tail: Tail, sizes: list[int]) -> int:
        """Cut the file after the last batch that is complete; return how many are. ``sizes``: the bytes of each."""
        self.look()
        end, count = tail.position.offset, 0
        for size in sizes:
            if end + size > self._written_to:
                break
            end += size
            count += 1
        self.cut(end)
        return count

    def look(self) -> None:
        """How large is the file? WriteFailed if the descriptor became another file's, which is not ours to cut."""
        status = self._disk.fstat(self.fd)
        if status.st_ino != self.inode:
            raise WriteFailed from OSError(errno.EBADF, "another part of this process closed our file")
        self.size = status.st_size

    def cut(self, end: int) -> None:
        try:
            self._disk.truncate(self.fd, end)
        except OSError as error:
            raise WriteFailed from error
        self.size = end

    def ends_at(self, tail: Tail) -> bool:
        """Does the log end at ``tail``, in the file that has our name? FileNotFoundError if none has.

        The lock is held. A write in the wrong place would destroy what was acknowledged: the inode tells of a file that was
        replaced, the bytes of what others have written, or put there by a restore.
        """
        status = self._disk.stat(self.path)
        self.size = status.st_size
        return status.st_ino == self.inode and self.is_at(tail, at_end=True)

    def is_at(self, tail: Tail, *, at_end: bool = False) -> bool:
        """Is the line before ``tail`` the one it names? ``at_end``: and does nothing follow it but padding?

        The sum is compared first: only a tombstone has another one. WriteFailed if the descriptor is not our file's any more.
        """
        position = tail.position
        try:
            found = self._disk.pread(self.fd, END if at_end else _SUM, position.offset - _SUM)
            is_named = found[:_SUM] == b'%b"}\n' % (position.link or b"")
            if not is_named:
                self.look()
                is_named = position.seq < tail.first or ends_with_link(self._disk, self.fd, position)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise  # a look that fails is no write that did
            raise WriteFailed from error
        return is_named and not found[_SUM:].strip(b"\n")

    def sync(self) -> None:
        """Make all that is in the file durable. Needs no lock.

        What others do to the file meanwhile (roll, redact, delete), they sync themselves.
        """
        try:
            self._disk.sync(self.fd)
        except OSError as error:
            raise WriteFailed from error
        self._syncs += 1
        self._is_synced = True

    # --- sealing -----------------------------------------------------------------------------------------

    def seal_work(self, tail: Tail) -> Callable[[], None]:
        """What to do on another thread, so that the seal is nearly ready when the segment is filled."""
        self._seal.due_at, self.is_seal_due = tail.position.offset + STEP, False
        return partial(self._seal.advance_in_background, self.path, tail)

    def is_nearly_sealed(self, tail: Tail) -> bool:
        """Is most of the segment summed up already?"""
        return not self._seal.is_behind(tail)

    def end_at_seal(self, tail: Tail) -> None:
        """The segment is sealed; durable on return. Newlines after the seal, which a stranger may have left, go; nothing else does."""
        rest = read_at(self._disk, self.fd, tail.position.offset, MAX_LINE)
        end = rest.find(b"\n") + 1
        if 0 < end < len(rest) and is_blank(rest, end):
            self.cut(tail.position.offset + end)
        self.sync()

    def write_seal(self, tail: Tail) -> None:
        """Write the seal; durable on return. OSError if there is no room: the file ends at ``tail``."""
        end = tail.position.offset
        # Padding goes, durably, before the seal comes: a power cut must not leave both.
        if self.size > end:
            self.cut(end)
        self.sync()  # on the descriptor that wrote, which is told of any earlier failure
        line = self._seal.build_seal(self.path, tail)  # reads: if it fails, no write has failed
        try:
            self.append(tail, line + b"\n", may_pad=False)
        except OSError:
            self.cut(end)
            raise
        self.sync()
