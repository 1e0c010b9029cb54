"""One chat's writer: takes the lock, catches up with others, numbers, writes, unlocks; syncs without the lock.

    results = writer.commit(requests)    # in the page cache, in order, each completely or not at all
    writer.sync()                        # on the medium
    writer.write_watermark()             # a moment later: readers and recovery start there

No room: the callers whose lines did not fit are told, and the writer goes on. A write or a sync that failed poisons the writer: it
leaves a mark for the next one, and all callers get ``DurabilityUnknown`` until the chat is opened again.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from chatfold.eventlog.batch import AppendRequest, Batch, Clock, build_batch
from chatfold.eventlog.errors import (
    ChatDeleted,
    ChatfoldError,
    NoSuchChat,
    to_chatfold_error,
)
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.blobs import write_blob
from chatfold.eventlog.files.chat_dir import create_chat, make_root
from chatfold.eventlog.files.disk import Disk, OpenFiles
from chatfold.eventlog.files.held_log import HeldLog
from chatfold.eventlog.files.lock import ChatMissing, ChatReplaced, WouldBlock, verify_lock
from chatfold.eventlog.files.log_end import TailCell
from chatfold.eventlog.files.seen import Seen
from chatfold.eventlog.files.segment import SEGMENT_BYTES, Position, Tail
from chatfold.eventlog.files.segment_writer import SegmentWriter, WriteFailed
from chatfold.eventlog.files.watermark import HEAD_FILE, write_watermark
from chatfold.eventlog.line import header_line

_QUICK_BYTES = 1 << 18
_UNRECORDED = 16  # writes
_LINKS = 1024  # batches


class LogWriter(HeldLog):
    """Not thread-safe: the chat's owner lets one thread at a time in.

    ``has_cache_work``: is it time for ``flush_cache``?
    """

    def __init__(
        self,
        path: Path,
        chat: str,
        disk: Disk,
        clock: Clock,
        segment_bytes: int = SEGMENT_BYTES,
        ensure_root: Callable[[], None] | None = None,
        end: TailCell | None = None,
        files: OpenFiles | None = None,
    ) -> None:
        super().__init__(path, chat, disk, segment_bytes, end or TailCell(), files)
        self._clock = clock
        self._ensure_root = ensure_root or partial(make_root, disk, path.parent.parent)
        self._clear_history()

    def _clear_state(self) -> None:
        self._forget_log()
        self._clear_history()

    def _clear_history(self) -> None:
        self.seen = Seen(self.reader, self._line)
        self._unrecorded: list[tuple[Tail, list[bytes]]] = []  # lines after a tail, unknown to the caches
        self.has_cache_work = False

    def retire(self) -> None:
        """Keep the caches for the next time and let go of the files. Syncs nothing."""
        self.write_watermark()
        self.flush_cache(closing=True)
        self._cut_padding()
        self.close()
        self._clear_state()

    # --- appending -------------------------------------------------------------------------------------

    def commit(self, requests: Sequence[AppendRequest], *, wait: bool = True) -> list[Batch | Exception]:
        """Append each request completely or not at all, in order, with one write.

        Returns for each its batch, or the error that concerns this caller only (Conflict, IdConflict, DiskFull).
        Raises what concerns all callers: CorruptLog, ChatDeleted, DurabilityUnknown. Nothing is durable yet: see ``sync``.
        Without ``wait``, raises WouldBlock, and nothing happened, if it had to wait for the lock, to read or to roll.
        """
        if self._is_poisoned:
            raise self._poisoned_error()
        while True:
            try:
                if wait:
                    self._wait_for_lock()
                elif self._lock_fd < 0 or not self._disk.try_lock(self._lock_fd):
                    raise WouldBlock  # noqa: TRY301 (as whatever else is in the way)
                try:
                    return self._commit_locked(requests, wait=wait)
                finally:
                    self._disk.unlock(self._lock_fd)
            except ChatMissing:
                with self._forgetting_on_error():
                    created = self._create_chat(requests)
                if created is not None:
                    return created
            except ChatReplaced:
                with self._forgetting_on_error():
                    self._forget_replaced_chat()
            except (ChatfoldError, WouldBlock):
                raise
            except BaseException as error:  # noqa: BLE001 (raised again)
                self._give_up(error)

    def _commit_locked(self, requests: Sequence[AppendRequest], *, wait: bool) -> list[Batch | Exception]:
        size, has_names, has_texts, has_blobs = 0, False, False, False
        for request in requests:
            size += request.size
            has_names |= request.has_names
            has_texts |= request.has_texts
            has_blobs |= request.has_blobs
        needs_history = has_names or has_texts
        if not wait and (has_blobs or size > _QUICK_BYTES):
            raise WouldBlock
        tail = self._catch_up(wait=wait)
        at = tail.position
        is_filled = tail.sealed or (at.offset >= self._segment_bytes and at.seq >= tail.first)
        if not wait and (is_filled or (needs_history and not self.seen.is_known(at.seq))):
            raise WouldBlock
        self.seen.is_tracking = has_names or len(requests) > 1
        if needs_history:
            self.seen.prepare(at.seq)
        head = Head(at.seq, (at.link or b"").decode())
        batches = self._build_batches(requests, head, has_names=has_names)
        if has_blobs:
            for digest, content in blobs_of(batches):
                write_blob(self._disk, self._path, digest, content)
        if is_filled and any(isinstance(batch, Batch) and batch.lines for batch in batches):
            tail = self._roll_for(tail)
        return self._write(tail, batches)

    def _write(self, tail: Tail, batches: list[Batch | Exception]) -> list[Batch | Exception]:
        """Write all batches, or as many as there is room for. The others are replaced by the error.

        The only place where the tail moves ahead of what the file said, and it moves after the write: nothing is rolled back.
        """
        lines = [line for batch in batches if type(batch) is Batch for line in batch.lines]
        if not lines:
            return batches  # only retries and refusals
        assert self._segment is not None
        data = b"\n".join([*lines, b""])
        try:
            self._segment.append(tail, data)
        except OSError as error:
            full = to_chatfold_error(error, self._chat, self._path)
            batches, lines, data = self._keep_complete(tail, batches, full)
            if not lines:
                return batches
        position = Position(
            tail.position.seq + len(lines), lines[-1][-18:-2], tail.position.offset + len(data)
        )
        self.end.tail = Tail(tail.first, position, tail.inode)
        self.is_seal_due = self._segment.is_seal_due
        self.seen.mark_written(tail.position.seq, position.seq, lines[-1][-18:-2].decode())
        self.has_cache_work = self.seen.has_work
        self._unrecorded.append((tail, lines))
        if len(batches) > 1 or len(self._unrecorded) >= _UNRECORDED:
            self._record_lines()
        return batches

    def _keep_complete(
        self, tail: Tail, batches: list[Batch | Exception], full: Exception
    ) -> tuple[list[Batch | Exception], list[bytes], bytes]:
        """There was no room. Cut the file back; return what there is then: the batches, their lines, their bytes."""
        assert self._segment is not None
        written = [batch for batch in batches if isinstance(batch, Batch) and batch.lines]
        sizes = [sum(map(len, batch.lines)) + len(batch.lines) for batch in written]
        count = self._segment.cut_to_last_complete(tail, sizes)
        lines = [line for batch in written[:count] for line in batch.lines]
        last = tail.position.seq + len(lines)
        self.seen.discard_pending(last)
        self.seen.links.clear()
        kept: list[Batch | Exception] = [
            full if isinstance(batch, Batch) and batch.entries[-1].seq > last else batch for batch in batches
        ]
        return kept, lines, b"\n".join([*lines, b""])

    def _record_lines(self) -> None:
        """Note where the lines stand that were written. Not with every append: hardly anybody asks."""
        for tail, lines in self._unrecorded:
            at = tail.position
            self.reader.offsets.record(tail.first, tail.inode, at.seq + 1, at.offset, lines)
        self._unrecorded.clear()

    def _line(self, seq: int) -> bytes:
        self._record_lines()
        return super()._line(seq)

    def _catch_up(self, *, wait: bool = True) -> Tail:
        """Where the log ends. Nobody else writes while we hold the lock.

        If the last segment is the file we know, and ends as we know, then the folder is the same, too: no two chats share an
        open segment, and our descriptor keeps its inode from being used again.
        """
        tail, segment = self.end.tail, self._segment
        if tail is not None and segment is not None and not tail.sealed:
            try:
                if segment.ends_at(tail):
                    return tail
            except FileNotFoundError:
                raise ChatReplaced from None
        if not wait:
            raise WouldBlock
        verify_lock(self._disk, self._path, self._lock_fd)
        self._record_lines()
        self.seen.links.clear()  # what ours are followed by is for the lines to say
        try:
            found = self.end.tail = self._find_tail() if tail is None else self._follow_others(tail)
        except NoSuchChat:
            raise ChatReplaced from None
        return found

    def _build_batches(
        self, requests: Sequence[AppendRequest], head: Head, *, has_names: bool
    ) -> list[Batch | Exception]:
        """The batch of each request if all goes well, or why it has none."""
        seen, links, now, start = self.seen, self.seen.links, self._clock(), head.seq
        batches: list[Batch | Exception] = []
        for request in requests:
            try:
                if has_names and request.has_names:
                    seen.check_known(start)
                batch = build_batch(request, head, self.durable_seq, now, seen)
            except (ChatfoldError, OSError) as error:
                seen.discard_pending(head.seq)
                batches.append(to_chatfold_error(error, self._chat, self._path))
                continue
            batches.append(batch)
            head = batch.head
            if len(links) >= _LINKS:
                links.clear()
            links[head.seq] = head.link
        self.has_cache_work = seen.has_work
        return batches

    # --- a chat that begins -------------------------------------------------------------------------------

    def _create_chat(self, requests: Sequence[AppendRequest]) -> list[Batch | Exception] | None:
        """A new chat with its first batches, all at once. None: another process was faster, and the caller tries again.

        What it opens stays open: the lock, the segment and the watermark's file move with the folder.
        """
        self.close()
        self._clear_state()
        self.seen.begin_empty()
        self.seen.is_tracking = True
        self.seen.prepare(0)
        batches = self._build_batches(requests, Head(), has_names=True)
        lines = [line for batch in batches if isinstance(batch, Batch) for line in batch.lines]
        if not lines:
            self._clear_state()
            return batches
        self._ensure_root()
        data = b"\n".join([header_line(Head()), *lines, b""])
        made = create_chat(self._disk, self._path, self._chat, data, blobs_of(batches))
        if made is None:
            self._clear_state()
            return None
        self._lock_fd, fd, inode = made
        tail = Tail(1, Position(len(lines), lines[-1][-18:-2], len(data)), inode)
        path, size = self.reader.segment_path(1), self._segment_bytes
        self._segment = SegmentWriter(self._disk, path, fd, tail, data, size)
        try:
            self._adopt_new_chat(tail, lines)
        finally:
            self._disk.unlock(self._lock_fd)
        return batches

    def _adopt_new_chat(self, tail: Tail, lines: list[bytes]) -> None:
        """What was just written and published need not be read again."""
        begin = len(header_line(Head())) + 1
        self.reader.offsets.record(1, tail.inode, 1, begin, lines)
        self.seen.mark_written(0, tail.head.seq, tail.head.link)
        self.end.tail, self.durable_seq = tail, tail.position.seq
        with suppress(OSError):  # the chat does without a watermark until the next one
            self._watermark_fd = self._disk.open_update(self._path / HEAD_FILE)
            write_watermark(self._disk, self._watermark_fd, tail.first, tail.position)

    def _forget_replaced_chat(self) -> None:
        """The chat we had open was deleted, and another one may have taken its place."""
        was_open = self.end.tail is not None
        self._reset_after_error()
        if was_open:
            raise ChatDeleted("the chat was deleted", chat=self._chat, path=self._path)

    # --- durability, seals, caches -------------------------------------------------------------------------

    def sync(self) -> None:
        """Make everything appended durable. Needs no lock, but nobody else in this writer."""
        if self._is_poisoned:
            raise self._poisoned_error()
        try:
            self._sync()
        except BaseException as error:  # noqa: BLE001 (raised again)
            self._give_up(error)

    def _sync(self) -> None:
        tail, segment = self.end.tail, self._segment
        if tail is not None and segment is not None and self.durable_seq < tail.position.seq:
            try:
                is_ours = segment.is_at(tail)
            except OSError as error:
                raise WriteFailed from error
            if not is_ours:  # the lock does not keep others out
                raise WriteFailed from OSError(errno.EBADF, "another writer wrote at the same time")
            segment.sync()
            self.durable_seq, self.is_watermark_due = tail.position.seq, True

    def seal_at(self, upto: int, least: int) -> None:
        """Seal the segment if the log ends at ``upto`` and the segment has ``least`` bytes, so that a fork there can share it.

        Only if most of it is summed up already. The next append starts the next segment, as after a roll that was killed.
        """
        if self._is_poisoned:
            return  # nothing is known about what is durable, so nothing is vouched for
        # If the chat is gone, the fork itself says so.
        with self._forgetting_on_error(), suppress(ChatMissing, ChatReplaced):
            self._seal_locked(upto, least)

    def _seal_locked(self, upto: int, least: int) -> None:
        self._wait_for_lock()
        try:
            tail = self._catch_up()
            is_open = tail.position.seq >= tail.first and not tail.sealed
            if is_open and tail.position.seq == upto and tail.position.offset >= least:
                self._record_lines()
                self._seal_early(tail)
        finally:
            self._disk.unlock(self._lock_fd)

    def _roll_for(self, tail: Tail) -> Tail:
        """The segment is filled: what was numbered goes to the next one, or nowhere."""
        self._record_lines()
        try:
            return self._roll(tail)
        except BaseException:
            self.seen.discard_pending()
            self.seen.links.clear()
            raise

    def flush_cache(self, *, closing: bool = False) -> None:
        """Keep the caches up to date. After the answers, so that no caller waits for it."""
        if self.end.tail is not None and not self._is_poisoned:
            self._record_lines()
            self.seen.tidy(closing=closing)
        self.has_cache_work = False

    # --- errors ------------------------------------------------------------------------------------------

    @contextmanager
    def _forgetting_on_error(self) -> Iterator[None]:
        """After an error, whatever cannot be believed any more is forgotten."""
        if self._is_poisoned:
            raise self._poisoned_error()
        try:
            yield
        except ChatfoldError:
            raise
        except BaseException as error:  # noqa: BLE001 (raised again)
            self._give_up(error)

    def _give_up(self, error: BaseException) -> NoReturn:
        """Raise what the caller is to be told. After no memory, or Ctrl-C, at any moment, nothing we remember is to be believed."""
        if isinstance(error, WriteFailed):
            raise self._poison(error.__cause__) from error.__cause__
        self._reset_after_error()
        if isinstance(error, OSError):
            explained = to_chatfold_error(error, self._chat, self._path)
            if explained is not error:
                raise explained from error
        raise error

    def _reset_after_error(self) -> None:
        """Forget everything, but for what earlier appends are still owed."""
        try:
            self._sync()
        except WriteFailed as failure:
            raise self._poison(failure.__cause__) from failure
        finally:
            self.close()
            self._clear_state()


def blobs_of(batches: Sequence[Batch | Exception]) -> list[tuple[str, bytes]]:
    """(sha256, content) of all that must be kept before the lines."""
    events = [event for batch in batches if isinstance(batch, Batch) for event in batch.events]
    return [blob for event in events for blob in event.blobs]
