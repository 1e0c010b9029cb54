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
    DurabilityUnknown,
    NoSuchChat,
    to_chatfold_error,
)
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.blobs import write_blob
from chatfold.eventlog.files.chat_dir import make_root, publish_chat, staging_folder
from chatfold.eventlog.files.disk import Disk, write_all
from chatfold.eventlog.files.held_log import HeldLog
from chatfold.eventlog.files.lock import ChatMissing, ChatReplaced, WouldBlock, verify_lock
from chatfold.eventlog.files.seen import Seen
from chatfold.eventlog.files.segment import SEGMENT_BYTES, Position, Tail, segment_name
from chatfold.eventlog.files.segment_writer import SegmentWriter, WriteFailed
from chatfold.eventlog.files.watermark import HEAD_FILE, write_watermark
from chatfold.eventlog.line import header_line
from chatfold.eventlog.storage import Clock

_QUICK_BYTES = 1 << 18


class Result(msgspec.Struct, frozen=True):
    """Of one request: its entries, or the error that concerns its caller alone. An error knows the frames that know the result."""

    entries: list[Entry] = []
    error: Exception | None = None


class LogWriter(HeldLog):
    """Not thread-safe: the chat's owner lets one thread at a time in."""

    def __init__(
        self,
        path: Path,
        chat: str,
        disk: Disk,
        clock: Clock,
        segment_bytes: int = SEGMENT_BYTES,
        ensure_root: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(path, chat, disk, segment_bytes)
        self._clock = clock
        self._ensure_root = ensure_root or partial(make_root, disk, path.parent.parent)
        self.seen = Seen(self.reader)

    def _clear_state(self) -> None:
        self._forget_log()
        self.seen = Seen(self.reader)

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
        if batches:
            self._advance(tail, [line for batch in batches for line in batch.lines], len(data))
        else:
            self.seen.discard_pending()
        return full

    def _advance(self, tail: Tail, lines: list[bytes], size: int) -> None:
        at = tail.position
        self.reader.offsets.record(tail.first, tail.inode, at.seq + 1, at.offset, lines)
        position = Position(at.seq + len(lines), lines[-1][-18:-2], at.offset + size)
        self.tail = Tail(tail.first, position, tail.inode)
        self.reader.remember(self.tail)
        self.seen.mark_written(at.seq, position.seq)

    def _catch_up(self, *, wait: bool = True) -> Tail:
        """Where the log ends. Nobody else writes while we hold the lock.

        If the last segment is the file we know, with the size we know, then the folder is the same, too: no two chats share an
        open segment, and our descriptor keeps its inode from being used again. Its last line is looked at because a restore may
        have put other bytes into the same file.
        """
        tail, segment = self.tail, self._segment
        if tail is not None and segment is not None and not tail.sealed:
            try:
                status = self._disk.stat(segment.path)
            except FileNotFoundError:
                raise ChatReplaced from None
            is_known = status.st_ino == tail.inode and status.st_size == tail.position.offset
            if is_known and segment.is_at(tail):
                return tail
        if not wait:
            raise WouldBlock
        verify_lock(self._disk, self._path, self._lock_fd)
        self.seen.forget_links()
        try:
            self.tail = self._find_tail() if tail is None else self._follow_others(tail)
        except NoSuchChat:
            raise ChatReplaced from None
        return self.tail

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
        return needs_history and not self.seen.is_known(tail.position.seq)

    def _build_batches(
        self, requests: Sequence[AppendRequest], head: Head, folder: Path | None
    ) -> list[Batch | Exception]:
        """The batch of each request if all goes well, or why it has none. Blobs are written to ``folder`` before any line."""
        if any(request.has_names or any(event.texts for event in request.events) for request in requests):
            self.seen.prepare(head.seq)
        batches: list[Batch | Exception] = []
        now, start = self._clock(), head.seq
        for request in requests:
            try:
                if request.has_names:
                    self.seen.check_known(start)
                batch = build_batch(request, head, self.durable_seq, now, self.seen)
            except (ChatfoldError, OSError) as error:
                self.seen.discard_pending(head.seq)
                batches.append(to_chatfold_error(error, self._chat, self._path))
                continue
            if folder is not None and batch.lines:
                self._write_blobs(folder, batch)  # if this fails, nothing that was numbered is written
            batches.append(batch)
            head = batch.head
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
        self.seen.begin_empty()
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
        self.seen.mark_written(0, tail.position.seq)
        self.tail, self.durable_seq = tail, tail.position.seq
        with suppress(OSError):  # the chat does without a watermark until the next one
            self._watermark_fd = self._disk.open_update(self._path / HEAD_FILE)
            write_watermark(self._disk, self._watermark_fd, tail.first, tail.position)

    # --- catching up ---------------------------------------------------------------------------------------

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

    def _roll_for(self, tail: Tail) -> Tail:
        """The segment is filled: what was numbered goes to the next one, or nowhere."""
        try:
            return self._roll(tail)
        except BaseException:
            self.seen.discard_pending()
            raise

    # --- caches --------------------------------------------------------------------------------------------

    @property
    def has_cache_work(self) -> bool:
        return self.seen.has_work

    def flush_cache(self, *, closing: bool = False) -> None:
        """Keep the caches up to date. After the answers, so that no caller waits for it."""
        if self.tail is not None and not self._is_poisoned:
            self.seen.tidy(closing=closing)

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
