"""What a writer holds of a chat: its lock, the open segment and the watermark's file; and where the log ends.

``LogWriter`` numbers and writes. Here the end of the log is found, taken over from a writer that was killed, followed when others
write, synced, sealed and rolled. The caller holds the chat's lock, except for ``_sync`` and ``write_watermark``.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chatfold.eventlog.errors import ChatfoldError, CorruptLog, DurabilityUnknown
from chatfold.eventlog.files.chat_dir import try_remove_temp_files
from chatfold.eventlog.files.disk import Disk, OpenFiles, read_file, replace_file
from chatfold.eventlog.files.lock import open_lock
from chatfold.eventlog.files.log_end import TailCell
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.recovery import Ending, classify_change, cut_torn_tail
from chatfold.eventlog.files.segment import Tail
from chatfold.eventlog.files.segment_writer import SegmentWriter, WriteFailed
from chatfold.eventlog.files.watermark import HEAD_FILE, Watermark, read_watermark, write_watermark
from chatfold.eventlog.line import header_line

POISON_FILE = "failed-sync"


class HeldLog:
    """``end``: has the only tail of the chat that is moved here. ``durable_seq``: up to where the log is durable."""

    def __init__(
        self,
        path: Path,
        chat: str,
        disk: Disk,
        segment_bytes: int,
        end: TailCell,
        files: OpenFiles | None = None,
    ) -> None:
        self.end = end
        self._files = files
        self._path = path
        self._chat = chat
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._is_poisoned = False
        self._segment: SegmentWriter | None = None
        self._lock_fd = self._watermark_fd = -1
        self._forget_log()

    def _forget_log(self) -> None:
        self.end.tail = None
        self.durable_seq = 0
        self.is_watermark_due = False  # was more synced than ``head`` says?
        self.is_seal_due = False  # is there ``seal_work``?
        self.reader = LogReader(
            self._path, self._chat, self._disk, self.end, may_write=True, indexing=True, files=self._files
        )

    def close(self) -> None:
        """Let go of the files. Syncs nothing."""
        self._close_segment()
        fds, self._lock_fd, self._watermark_fd = (self._lock_fd, self._watermark_fd), -1, -1
        for fd in fds:
            if fd >= 0:
                with suppress(OSError):  # another part of this process closed it
                    self._disk.close(fd)

    def _close_segment(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def _wait_for_lock(self) -> None:
        if self._lock_fd < 0:
            self._lock_fd = open_lock(self._disk, self._path)
        self._disk.lock(self._lock_fd)

    def _line(self, seq: int) -> bytes:
        """One line. Most that are asked for are in the open segment: its descriptor was proved when the end was found."""
        tail, segment = self.end.tail, self._segment
        if tail is not None and segment is not None and tail.first <= seq <= tail.position.seq:
            line = self.reader.line_in_last(segment.fd, tail.first, seq)
            if line:
                return line
        return self.reader.line(seq)

    # --- finding the end -------------------------------------------------------------------------------------

    def _find_tail(self) -> Tail:
        """Where the log ends, on first sight of it: what is torn is cut off, what a failed sync left is read from the medium."""
        try_remove_temp_files(self._disk, self._path)
        has_failed_sync = self._has_poison_mark()
        if has_failed_sync:
            self._drop_page_cache()
        tail = self._adopt_unsynced(self.reader.tail())
        self._watermark_fd = self._disk.open_update(self._path / HEAD_FILE)
        tail = self._open_segment(tail)
        if has_failed_sync:
            # A new segment vouches for what is before it; and a writer that still has the old one open sees that it is at its end.
            tail = self._roll(tail) if tail.position.seq >= tail.first else tail
            self._disk.unlink(self._path / POISON_FILE)
        return tail

    def _follow_others(self, known: Tail) -> Tail:
        """Where the log ends now. Nothing takes back what was appended; where others wrote more, the chain tells."""
        tail = self.reader.tail()
        self._check_extends(known, tail)
        if known.inode != tail.inode or self._segment is None:
            return self._open_segment(tail)
        return self._cut_rest(tail)

    def _check_extends(self, known: Tail, tail: Tail) -> None:
        if known.inode != tail.inode and self._has_poison_mark():
            # Of a sync that failed before we open its file, our descriptor will not be told.
            raise WriteFailed from OSError("a sync of another writer failed")
        old, new = known.position, tail.position
        change = classify_change(old, new, self.durable_seq)
        if change is Ending.CLEAN and (new.seq == old.seq or self.reader.link(old.seq) == known.head.link):
            return
        if change is Ending.TORN:
            raise WriteFailed from OSError("what was not synced yet is gone")
        raise CorruptLog(
            f"seq {old.seq} was the last one and is not there any more",
            chat=self._chat,
            path=self.reader.segment_path(tail.first),
            offset=new.offset,
            seq=min(new.seq + 1, old.seq),
        )

    def _adopt_unsynced(self, tail: Tail) -> Tail:
        """A writer may have been killed before the watermark could say what is durable. What was not synced then is synced or cut."""
        watermark = read_watermark(self._disk, self._path)
        self.durable_seq = watermark.seq if watermark is not None and self._is_of_log(watermark, tail) else 0
        if watermark is None:
            self._disk.sync_folder(self._path.parent)
        if self.durable_seq == tail.position.seq and not tail.sealed:  # of a seal the watermark says nothing
            return tail
        self._drop_page_cache()  # the mark of a failed sync may be missing, too
        return self.reader.tail()

    def _is_of_log(self, watermark: Watermark, tail: Tail) -> bool:
        """Another chat's watermark would call durable what is not."""
        with suppress(ChatfoldError):  # damage before the end: then nothing is counted on
            return watermark.seq <= tail.position.seq and self.reader.link(watermark.seq) == watermark.link
        return False

    def _drop_page_cache(self) -> None:
        """What the medium has is read next, not what the kernel believes: after a failed sync it takes pages for clean."""
        for first in self.reader.segments()[-2:]:
            with self.reader.open_segment(first) as fd:
                self._disk.forget_cache(fd)
        self.reader.forget()

    def _open_segment(self, tail: Tail) -> Tail:
        """Take the last segment over. Its name is made durable: the writer that gave it may have been killed before that.

        No watermark tells: an erasure or a repair puts another file in the place of one that was vouched for.
        """
        self._close_segment()
        path = self.reader.segment_path(tail.first)
        fd = self._disk.open_append(path)
        if not tail.sealed and self._is_shared_with_fork(fd):
            # The seal that kept it closed is gone: what we append must not become the fork's.
            self._disk.close(fd)
            replace_file(self._disk, path, read_file(self._disk, path))
            tail = self.reader.tail()
            fd = self._disk.open_append(path)
        self._segment = SegmentWriter(self._disk, path, fd, tail, b"", self._segment_bytes)
        self._disk.sync_folder(self._path)
        return self._cut_rest(tail)

    def _is_shared_with_fork(self, fd: int) -> bool:
        """Has the segment other names, and the lock none? A folder of hard links has one log and one lock of two names."""
        return self._disk.fstat(fd).st_nlink > 1 and self._disk.fstat(self._lock_fd).st_nlink == 1

    def _cut_rest(self, tail: Tail) -> Tail:
        """Set aside and cut off what a crash left after the last complete batch."""
        assert self._segment is not None
        if tail.sealed:
            return tail
        self._segment.look()
        size = self._segment.size
        tail = cut_torn_tail(self.reader, self._segment.fd, tail)
        self._segment.look()
        if self._segment.size != size:
            self._segment.sync()
        return tail

    def _cut_padding(self) -> None:
        """What nobody writes ends with its last line. Whoever has written after us does it then."""
        tail, segment = self.end.tail, self._segment
        if tail is None or segment is None or tail.sealed or segment.size == tail.position.offset:
            return
        with suppress(OSError, WriteFailed):  # room that stays does no harm
            if self._disk.try_lock(self._lock_fd):
                try:
                    if segment.ends_at(tail):
                        segment.cut(tail.position.offset)
                finally:
                    self._disk.unlock(self._lock_fd)

    def _poison(self, cause: BaseException | None) -> DurabilityUnknown:
        self._is_poisoned = True
        self._leave_poison_mark()
        self.close()
        return self._poisoned_error(cause)

    def _poisoned_error(self, cause: BaseException | None = None) -> DurabilityUnknown:
        reason = f": {cause}" if cause else ""
        return DurabilityUnknown(
            f"a write or sync failed earlier or now{reason}", chat=self._chat, path=self._path
        )

    def _leave_poison_mark(self) -> None:
        """For the writer that opens the chat next: it reads again from the medium."""
        with suppress(OSError):
            self._disk.close(self._disk.open_update(self._path / POISON_FILE))

    def _has_poison_mark(self) -> bool:
        try:
            self._disk.stat(self._path / POISON_FILE)
        except FileNotFoundError:
            return False
        return True

    # --- durability ------------------------------------------------------------------------------------------

    def write_watermark(self) -> None:
        """Write down what was synced. Needs no lock: a watermark that is late is still true."""
        tail = self.end.tail
        is_due = self.is_watermark_due and tail is not None and self.durable_seq == tail.position.seq
        if is_due and tail is not None and self._watermark_fd >= 0 and not self._is_poisoned:
            self.is_watermark_due = False
            with suppress(OSError):  # only a witness: without it, recovery is more cautious
                write_watermark(self._disk, self._watermark_fd, tail.first, tail.position)

    # --- sealing and rolling ---------------------------------------------------------------------------------

    def _seal_early(self, tail: Tail) -> None:
        assert self._segment is not None
        if self._segment.is_nearly_sealed(tail):
            self._segment.write_seal(tail)
            self.durable_seq, self.is_watermark_due = tail.position.seq, True
            self.reader.offsets.store(tail.first, self._segment.size, tail.head)

    def _roll(self, tail: Tail) -> Tail:
        """Seal the segment, unless it is, and start the next one."""
        assert self._segment is not None
        if not tail.sealed:
            self._segment.write_seal(tail)
        self.reader.offsets.store(tail.first, self._segment.size, tail.head)
        first = tail.position.seq + 1
        if first == tail.first:
            return tail  # it has no entry yet
        if tail.sealed:  # by a writer that may have been killed before it was durable, which the new segment takes for granted
            self._segment.end_at_seal(tail)
        header = header_line(tail.head) + b"\n"
        path = self.reader.segment_path(first)
        replace_file(self._disk, path, header)
        self._close_segment()
        after = self.end.tail = self.reader.tail()
        fd = self._disk.open_append(path)
        self._segment = SegmentWriter(self._disk, path, fd, after, header, self._segment_bytes)
        self.durable_seq = max(self.durable_seq, tail.position.seq)
        return after

    def seal_work(self) -> Callable[[], None] | None:
        """What to do on another thread, so that the segment's seal is nearly ready when it is filled; None: nothing."""
        self.is_seal_due = False
        tail, segment = self.end.tail, self._segment
        if self._is_poisoned or tail is None or segment is None or not segment.is_seal_due:
            return None
        return segment.seal_work(tail)
