"""One chat's writer: takes the lock, catches up with others, numbers, writes, unlocks; syncs without the lock.

    results = writer.commit(requests)    # in the page cache, in order, each completely or not at all
    writer.sync()                        # on the medium
    writer.write_watermark()             # a moment later: readers and recovery start there

No room: the callers whose lines did not fit are told, and the writer goes on. A write or a sync that failed poisons the writer: it
leaves a mark for the next one, and all callers get ``DurabilityUnknown`` until the chat is opened again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from chatfold.eventlog.batch import AppendRequest, Batch, build_batch
from chatfold.eventlog.errors import (
    ChatDeleted,
    ChatfoldError,
    CorruptLog,
    DurabilityUnknown,
    NoSuchChat,
    to_chatfold_error,
)
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.blobs import write_blob
from chatfold.eventlog.files.chat_dir import make_root, publish_chat, staging_folder, try_remove_temp_files
from chatfold.eventlog.files.disk import Disk, replace_file, write_all
from chatfold.eventlog.files.history import FolderHistory
from chatfold.eventlog.files.lock import ChatMissing, ChatReplaced, WouldBlock, open_lock, verify_lock
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.recovery import Ending, classify_change, cut_torn_tail
from chatfold.eventlog.files.segment import SEGMENT_BYTES, Position, Tail, segment_name
from chatfold.eventlog.files.segment_writer import SegmentWriter, WriteFailed
from chatfold.eventlog.files.watermark import HEAD_FILE, read_watermark, write_watermark
from chatfold.eventlog.line import header_line
from chatfold.eventlog.storage import Clock

POISON_FILE = "failed-sync"
_QUICK_BYTES = 1 << 18


class Result(msgspec.Struct, frozen=True):
    """Of one request: its entries, or the error that concerns its caller alone. An error knows the frames that know the result."""

    entries: list[Entry] = []
    error: Exception | None = None


class LogWriter:
    """Not thread-safe: the chat's owner lets one thread at a time in.

    ``tail``: where the log ends, as far as this writer knows; None before it looked. ``durable_seq``: up to where it is durable.
    """

    def __init__(
        self,
        path: Path,
        chat: str,
        disk: Disk,
        clock: Clock,
        segment_bytes: int = SEGMENT_BYTES,
        ensure_root: Callable[[], None] | None = None,
    ) -> None:
        self._path = path
        self._chat = chat
        self._disk = disk
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._ensure_root = ensure_root or partial(make_root, disk, path.parent.parent)
        self._is_poisoned = False
        self._segment: SegmentWriter | None = None
        self._lock_fd = self._watermark_fd = -1
        self._clear_state()

    def _clear_state(self) -> None:
        self.tail: Tail | None = None
        self.durable_seq = 0
        self._is_watermark_current = True  # does ``head`` say what was synced last?
        self.reader = LogReader(self._path, self._chat, self._disk, may_write=True, indexing=True)
        self._history = FolderHistory(self.reader)

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

    def retire(self) -> None:
        """Keep the caches for the next time and let go of the files. Syncs nothing."""
        self.write_watermark()
        self.flush_cache(closing=True)
        self.close()
        self._clear_state()

    # --- appending -------------------------------------------------------------------------------------

    def commit(self, requests: Sequence[AppendRequest], *, wait: bool = True) -> list[Result]:
        """Append each request completely or not at all, in order, with one write.

        Returns a result for each: its entries, or the error that concerns this caller only (Conflict, IdConflict, DiskFull).
        Raises what concerns all callers: CorruptLog, ChatDeleted, DurabilityUnknown. Nothing is durable yet: see ``sync``.
        Without ``wait``, raises WouldBlock, and nothing happened, if it had to wait for the lock, to read or to roll.
        """
        with self._guarded():
            while True:
                results = self._try_commit(requests, wait=wait)
                if results is not None:
                    return results

    def _try_commit(self, requests: Sequence[AppendRequest], *, wait: bool) -> list[Result] | None:
        """None: the chat came or went meanwhile, and the caller tries again."""
        try:
            self._acquire_lock(wait=wait)
            try:
                return self._commit_locked(requests, wait=wait)
            finally:
                self._disk.unlock(self._lock_fd)
        except ChatMissing:
            return self._create_chat(requests)
        except ChatReplaced:
            self._forget_replaced_chat()
            return None

    def _acquire_lock(self, *, wait: bool) -> None:
        if wait:
            if self._lock_fd < 0:
                self._lock_fd = open_lock(self._disk, self._path)
            self._disk.lock(self._lock_fd)
        elif self._lock_fd < 0 or not self._disk.try_lock(self._lock_fd):
            raise WouldBlock

    def _commit_locked(self, requests: Sequence[AppendRequest], *, wait: bool) -> list[Result]:
        if not wait and self._is_slow(requests):
            raise WouldBlock
        tail = self._catch_up(wait=wait)
        batches = self._build_batches(requests, tail.head, self._path)
        written = [batch for batch in batches if isinstance(batch, Batch) and batch.lines]
        if not written:
            return to_results(batches)  # only retries and refusals
        if self._is_filled(tail):
            tail = self._roll_for(tail)
        full = self._write(tail, written)
        return to_results(batches, full, tail.position.seq if self.tail is None else self.tail.position.seq)

    def _write(self, tail: Tail, batches: list[Batch]) -> Exception | None:
        """Write all batches, or as many as there is room for; return why there were no more.

        The only place where the tail moves ahead of what the file said, and it moves after the write: nothing is rolled back.
        """
        assert self._segment is not None
        full: Exception | None = None
        data = b"\n".join([line for batch in batches for line in batch.lines] + [b""])
        try:
            self._segment.append(tail, data)
        except OSError as error:
            full = to_chatfold_error(error, self._chat, self._path)
            sizes = [sum(map(len, batch.lines)) + len(batch.lines) for batch in batches]
            count = self._segment.cut_to_last_complete(tail, sizes)
            batches, data = batches[:count], data[: sum(sizes[:count])]
            self._history.discard_pending()
        if batches:
            self._advance(tail, [line for batch in batches for line in batch.lines], len(data))
        return full

    def _advance(self, tail: Tail, lines: list[bytes], size: int) -> None:
        at = tail.position
        self.reader.offsets.record(tail.first, tail.inode, at.seq + 1, at.offset, lines)
        position = Position(at.seq + len(lines), lines[-1][-18:-2], at.offset + size)
        self.tail = Tail(tail.first, position, tail.inode)
        self.reader.remember(self.tail)
        self._history.mark_written(at.seq, position.seq)

    def _catch_up(self, *, wait: bool = True) -> Tail:
        """Where the log ends. Nobody else writes while we hold the lock.

        If the last segment is the file we know, with the size we know, then the folder is the same, too: no two chats share an
        open segment, and our descriptor keeps its inode from being used again.
        """
        tail = self.tail
        if tail is not None and not tail.sealed:
            try:
                status = self._disk.stat(self.reader.segment_path(tail.first))
            except FileNotFoundError:
                raise ChatReplaced from None
            if status.st_ino == tail.inode and status.st_size == tail.position.offset:
                return tail
        if not wait:
            raise WouldBlock
        verify_lock(self._disk, self._path, self._lock_fd)
        self._history.clear_batch_ends()
        try:
            self.tail = self._find_tail() if tail is None else self._follow_others(tail)
        except NoSuchChat:
            raise ChatReplaced from None
        return self.tail

    def _is_filled(self, tail: Tail) -> bool:
        position = tail.position
        return tail.sealed or (position.offset >= self._segment_bytes and position.seq >= tail.first)

    def _is_slow(self, requests: Sequence[AppendRequest]) -> bool:
        """Is there more to do than a write into the page cache? If another process has written, ``_catch_up`` finds out."""
        tail = self.tail
        if tail is None or self._is_filled(tail):
            return True
        size, needs_history = 0, False
        for request in requests:
            needs_history = needs_history or request.has_names
            for event in request.events:
                size += len(event.raw)
                needs_history = needs_history or bool(event.texts)
                if event.blobs or size > _QUICK_BYTES:
                    return True
        return needs_history and not self._history.is_prepared(requests, tail.position.seq)

    def _build_batches(
        self, requests: Sequence[AppendRequest], head: Head, folder: Path | None
    ) -> list[Batch | Exception]:
        """The batch of each request if all goes well, or why it has none. Blobs are written to ``folder`` before any line."""
        self._history.prepare(requests, head.seq)
        batches: list[Batch | Exception] = []
        now = self._clock()
        for request in requests:
            try:
                batch = build_batch(request, head, self.durable_seq, now, self._history)
            except (ChatfoldError, OSError) as error:
                batches.append(to_chatfold_error(error, self._chat, self._path))
                continue
            if folder is not None and batch.lines:
                self._write_blobs(folder, batch)  # if this fails, nothing that was numbered is written
            batches.append(batch)
            head = batch.head
            self._history.add_batch_end(head)
        return batches

    def _write_blobs(self, folder: Path, batch: Batch) -> None:
        for event in batch.events:
            for digest, content in event.blobs:
                write_blob(self._disk, folder, digest, content)

    # --- a chat that begins -------------------------------------------------------------------------------

    def _create_chat(self, requests: Sequence[AppendRequest]) -> list[Result] | None:
        """A new chat with its first batches, all at once. None: another process was faster, and the caller tries again.

        What it opens stays open: the lock, the segment and the watermark's file move with the folder.
        """
        self.close()
        self._clear_state()
        self._history.begin_empty()
        batches = self._build_batches(requests, Head(), None)
        lines = [line for batch in batches if isinstance(batch, Batch) for line in batch.lines]
        if not lines:
            self._clear_state()
            return to_results(batches)
        self._ensure_root()
        with staging_folder(self._disk, self._path, self._chat) as staging:
            for batch in batches:
                if isinstance(batch, Batch) and batch.lines:
                    self._write_blobs(staging.path, batch)
            data = b"\n".join([header_line(Head()), *lines, b""])
            tail, fd = self._write_first_segment(staging.path, data, lines)
            try:
                is_new = publish_chat(self._disk, staging, self._path)
            except BaseException:
                self._disk.close(fd)
                raise
            if not is_new:
                self._disk.close(fd)
                self._clear_state()
                return None
            self._lock_fd = staging.take_lock()
        self._segment = SegmentWriter(self._disk, self.reader.segment_path(1), fd, tail, data)
        try:
            self._adopt_new_chat(tail, lines)
        finally:
            self._disk.unlock(self._lock_fd)
        return to_results(batches)

    def _write_first_segment(self, staging: Path, data: bytes, lines: list[bytes]) -> tuple[Tail, int]:
        """The open segment of the folder that is being made: its bytes are durable, its name is when the chat appears."""
        fd = self._disk.create(staging / segment_name(1))
        try:
            write_all(self._disk, fd, data)
            self._disk.sync(fd)
            inode = self._disk.fstat(fd).st_ino
        except BaseException:
            self._disk.close(fd)
            raise
        return Tail(1, Position(len(lines), lines[-1][-18:-2], len(data)), inode), fd

    def _adopt_new_chat(self, tail: Tail, lines: list[bytes]) -> None:
        """What was just written and published need not be read again."""
        begin = len(header_line(Head())) + 1
        self.reader.offsets.record(1, tail.inode, 1, begin, lines)
        self.reader.remember(tail)
        self._history.mark_written(0, tail.position.seq)
        self.tail, self.durable_seq = tail, tail.position.seq
        with suppress(OSError):  # the chat does without a watermark until the next one
            self._watermark_fd = self._disk.open_update(self._path / HEAD_FILE)
            write_watermark(self._disk, self._watermark_fd, tail.first, tail.position)

    # --- catching up ---------------------------------------------------------------------------------------

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
        if change is Ending.CLEAN:
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
        self.durable_seq = min(watermark.seq, tail.position.seq) if watermark else 0
        if watermark is None:
            self._disk.sync_folder(self._path.parent)
        if self.durable_seq == tail.position.seq and not tail.sealed:  # of a seal the watermark says nothing
            return tail
        self._drop_page_cache()  # the mark of a failed sync may be missing, too
        return self.reader.tail()

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
        self._segment = SegmentWriter(self._disk, path, self._disk.open_append(path), tail)
        self._disk.sync_folder(self._path)
        return self._cut_rest(tail)

    def _cut_rest(self, tail: Tail) -> Tail:
        """Set aside and cut off what a crash left after the last complete batch."""
        assert self._segment is not None
        if tail.sealed:
            return tail
        size = self._segment.size
        tail = cut_torn_tail(self.reader, self._segment.fd, tail)
        if size > tail.position.offset:
            self._segment.sync_all()
        return tail

    def _forget_replaced_chat(self) -> None:
        """The chat we had open was deleted, and another one may have taken its place."""
        was_open = self.tail is not None
        self._reset_after_error()
        if was_open:
            raise ChatDeleted("the chat was deleted", chat=self._chat, path=self._path)

    # --- durability ----------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make everything appended durable. Needs no lock, but nobody else in this writer."""
        with self._guarded():
            self._sync()

    def _sync(self) -> None:
        tail = self.tail
        if tail is not None and self._segment is not None and self.durable_seq < tail.position.seq:
            self._segment.sync(tail)
            self.durable_seq, self._is_watermark_current = tail.position.seq, False

    def write_watermark(self) -> None:
        """Write down what was synced. Needs no lock: a watermark that is late is still true."""
        tail = self.tail
        is_due = not self._is_watermark_current and tail is not None and self.durable_seq == tail.position.seq
        if is_due and tail is not None and self._watermark_fd >= 0 and not self._is_poisoned:
            self._is_watermark_current = True
            with suppress(OSError):  # only a witness: without it, recovery is more cautious
                write_watermark(self._disk, self._watermark_fd, tail.first, tail.position)

    # --- sealing and rolling ---------------------------------------------------------------------------------

    def seal_at(self, upto: int, least: int) -> None:
        """Seal the segment if the log ends at ``upto`` and the segment has ``least`` bytes, so that a fork there can share it.

        Only if most of it is summed up already. The next append starts the next segment, as after a roll that was killed.
        """
        if self._is_poisoned:
            return  # nothing is known about what is durable, so nothing is vouched for
        with self._guarded(), suppress(ChatMissing, ChatReplaced):  # the fork itself says what is wrong
            self._seal_locked(upto, least)

    def _seal_locked(self, upto: int, least: int) -> None:
        self._acquire_lock(wait=True)
        try:
            tail = self._catch_up()
            is_open = tail.position.seq >= tail.first and not tail.sealed
            if is_open and tail.position.seq == upto and tail.position.offset >= least:
                self._seal_early(tail)
        finally:
            self._disk.unlock(self._lock_fd)

    def _seal_early(self, tail: Tail) -> None:
        assert self._segment is not None
        if self._segment.is_nearly_sealed(tail):
            self._segment.write_seal(tail)
            self.durable_seq, self._is_watermark_current = tail.position.seq, False
            self.reader.offsets.store(tail.first, self._segment.size)

    def _roll_for(self, tail: Tail) -> Tail:
        """The segment is filled: what was numbered goes to the next one, or nowhere."""
        try:
            return self._roll(tail)
        except BaseException:
            self._history.discard_pending()
            raise

    def _roll(self, tail: Tail) -> Tail:
        """Seal the segment, unless it is, and start the next one."""
        assert self._segment is not None
        if not tail.sealed:
            self._segment.write_seal(tail)
        self.reader.offsets.store(tail.first, self._segment.size)
        first = tail.position.seq + 1
        if first == tail.first:
            return tail  # it has no entry yet
        if tail.sealed:  # by a writer that may have been killed before it was durable, which the new segment takes for granted
            self._segment.sync_all()
        header = header_line(tail.head) + b"\n"
        path = self.reader.segment_path(first)
        replace_file(self._disk, path, header)
        self._close_segment()
        self.tail = self.reader.tail()
        self._segment = SegmentWriter(self._disk, path, self._disk.open_append(path), self.tail, header)
        self.durable_seq = max(self.durable_seq, tail.position.seq)
        return self.tail

    def seal_work(self) -> Callable[[], None] | None:
        """What to do on another thread, so that the segment's seal is nearly ready when it is filled."""
        if self._is_poisoned or self._segment is None or self.tail is None:
            return None
        return self._segment.seal_work(self.tail)

    # --- caches --------------------------------------------------------------------------------------------

    @property
    def has_cache_work(self) -> bool:
        return self._history.is_untidy

    def flush_cache(self, *, closing: bool = False) -> None:
        """Keep the caches up to date. After the answers, so that no caller waits for it."""
        if self.tail is not None and not self._is_poisoned:
            self._history.tidy(closing=closing)

    # --- errors ------------------------------------------------------------------------------------------

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """After an error, whatever cannot be believed any more is forgotten."""
        if self._is_poisoned:
            raise self._poisoned_error()
        try:
            yield
        except (ChatfoldError, WouldBlock):
            raise
        except WriteFailed as failure:
            raise self._poison(failure) from failure.__cause__
        except OSError as error:
            self._reset_after_error()
            explained = to_chatfold_error(error, self._chat, self._path)
            if explained is error:
                raise
            raise explained from error
        except BaseException:  # no memory, or Ctrl-C, at any moment: nothing we remember is to be believed
            self._reset_after_error()
            raise

    def _reset_after_error(self) -> None:
        """Forget everything, but for what earlier appends are still owed."""
        try:
            self._sync()
        except WriteFailed as failure:
            raise self._poison(failure) from failure
        finally:
            self.close()
            self._clear_state()

    def _poison(self, failure: WriteFailed) -> DurabilityUnknown:
        self._is_poisoned = True
        self._leave_poison_mark()
        self.close()
        return self._poisoned_error(failure.__cause__)

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

    def _poisoned_error(self, cause: BaseException | None = None) -> DurabilityUnknown:
        reason = f": {cause}" if cause else ""
        return DurabilityUnknown(
            f"a write or sync failed earlier or now{reason}", chat=self._chat, path=self._path
        )


def to_results(
    batches: Sequence[Batch | Exception], full: Exception | None = None, last_seq: int = 0
) -> list[Result]:
    """``full``: why nothing after ``last_seq`` was written."""
    results: list[Result] = []
    for batch in batches:
        if isinstance(batch, Exception):
            results.append(Result(error=batch))
        elif full is not None and batch.entries and batch.entries[-1].seq > last_seq:
            results.append(Result(error=full))
        else:
            results.append(Result(batch.entries))
    return results
