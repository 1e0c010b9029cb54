"""One chat's writer: takes the lock, catches up with others, numbers, writes, syncs, unlocks.

Runs on a thread, one group of appends at a time: the appends that were waiting are numbered together, written
with one call and made durable with one sync. ``end`` is what it holds of the files.

Errors. No room: callers whose lines did not fit are told, the writer goes on. A write or a sync that failed: the writer is
poisoned, and all callers get ``DurabilityUnknown`` until the chat is opened again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from chatfold.eventlog.batch import AppendRequest, Batch, build_batch
from chatfold.eventlog.errors import ChatDeleted, ChatfoldError, DurabilityUnknown, to_chatfold_error
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.files.blobs import write_blob
from chatfold.eventlog.files.chat_dir import publish_chat, staging_folder, write_open_segment
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.history import FolderHistory
from chatfold.eventlog.files.lock import ChatMissing, ChatReplaced, Lock, WouldBlock
from chatfold.eventlog.files.segment import SEGMENT_BYTES, Tail
from chatfold.eventlog.files.segment_writer import SegmentWriter, WriteFailed
from chatfold.eventlog.line import header_line
from chatfold.eventlog.storage import Clock

_QUICK_BYTES = 1 << 18

T = TypeVar("T")


class Result(msgspec.Struct, frozen=True):
    """Of one request: its entries, or why there are none. Seen by the collector: an error knows the frames that know the outcome."""

    entries: list[Entry] = []
    error: Exception | None = None


class LogWriter:
    """Not thread-safe: whoever calls makes sure that one thread at a time is inside."""

    def __init__(
        self, path: Path, chat: str, disk: Disk, clock: Clock, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self._path = path
        self._lock = Lock(path, disk)
        self._chat = chat
        self._disk = disk
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._poisoned = False
        self._know_nothing()

    def _know_nothing(self) -> None:
        self._end = SegmentWriter(self._path, self._chat, self._disk)
        self._history = FolderHistory(self._end.folder)

    @property
    def tail(self) -> Tail | None:
        """Where the log ends, as far as we know."""
        return self._end.tail

    def close(self) -> None:
        """Lets go of the files. Syncs nothing."""
        self._lock.close()
        self._end.close()

    def _reset(self) -> None:
        self.close()
        self._know_nothing()

    def _start_over(self) -> None:
        """Forgets everything, but for what earlier appends are still owed."""
        try:
            self.sync()
        finally:
            self._reset()

    def retire(self) -> None:
        """Keeps the caches for the next time and lets go of the files. Syncs nothing."""
        self.bear_witness()
        self.tidy(closing=True)
        self._reset()

    # --- appending -------------------------------------------------------------------------------------

    def commit(
        self, requests: list[AppendRequest], *, sync: list[bool], wait: bool = True
    ) -> list[Result] | None:
        """Appends them in order, each all or nothing. ``sync[i]``: durable before this returns.

        None, and nothing happened, if it was asked not to ``wait`` and would have had to.
        """
        try:
            found = self._tried(lambda: self._appended(requests, sync, wait=wait))
        except WouldBlock:
            return None
        return [Result(error=found)] * len(requests) if isinstance(found, Exception) else found

    def _appended(self, requests: list[AppendRequest], sync: list[bool], *, wait: bool) -> list[Result]:
        while True:
            try:
                self._lock.acquire(wait=wait)
                try:
                    return self._commit(requests, sync, wait=wait)
                finally:
                    self._lock.release()
            except ChatMissing:
                if not wait:
                    raise WouldBlock from None
                outcomes = self._create(requests)
                if outcomes is not None:
                    return outcomes
            except ChatReplaced:
                known = self.tail is not None
                self._start_over()
                if known:
                    raise ChatDeleted("the chat was deleted", chat=self._chat, path=self._path) from None

    def _commit(self, requests: list[AppendRequest], sync: list[bool], *, wait: bool) -> list[Result]:
        if not wait and not self._is_quick(requests):
            raise WouldBlock
        tail = self._catch_up(wait=wait)
        outcomes, chunks = self._number(requests, tail.head, self._path)
        if any(chunks) and self._is_full(tail):
            try:
                self._end.go_on()
            except BaseException:
                self._history.rolled_back()
                raise
        full = self._end.write(chunks)
        assert self.tail is not None
        end = self.tail.position.seq
        if full is not None:
            self._history.rolled_back()
            none = Result(error=to_chatfold_error(full, self._chat, self._path))
            outcomes = [none if o.entries and o.entries[-1].seq > end else o for o in outcomes]
        self._history.written(tail.position.seq, end)
        for want, outcome in zip(sync, outcomes, strict=True):
            if want and outcome.entries and outcome.entries[-1].seq > self._end.synced:
                self._end.sync()
        return outcomes

    def _catch_up(self, *, wait: bool = True) -> Tail:
        if self._end.is_unchanged():
            assert self.tail is not None
            return self.tail
        if not wait:
            raise WouldBlock
        self._lock.check()
        self._history.forget_ends()
        return self._end.catch_up()

    def _is_full(self, tail: Tail) -> bool:
        return tail.sealed or (
            tail.position.offset >= self._segment_bytes and tail.position.seq >= tail.first
        )

    def _is_quick(self, requests: list[AppendRequest]) -> bool:
        """Is there nothing to do but a write into the page cache? Unless somebody else has written."""
        tail = self.tail
        if tail is None or self._is_full(tail):
            return False
        size = 0
        for request in requests:
            for draft in request.events:
                size += len(draft.raw)
                if draft.blobs or size > _QUICK_BYTES:
                    return False
        return self._history.is_prepared(requests, tail.position.seq)

    def _number(
        self, requests: list[AppendRequest], head: Head, folder: Path | None
    ) -> tuple[list[Result], list[list[bytes]]]:
        """The outcome of each request if all goes well, and the lines each needs written. Blobs go to ``folder``."""
        self._history.prepare(requests, head.seq)
        outcomes: list[Result] = []
        chunks: list[list[bytes]] = []
        now = self._clock()
        for request in requests:
            try:
                numbered = build_batch(request, head, self._end.synced, now, self._history)
            except (ChatfoldError, OSError) as error:
                outcomes.append(Result(error=to_chatfold_error(error, self._chat, self._path)))
                chunks.append([])
            else:
                if folder is not None and numbered.lines:
                    self._keep_blobs(folder, numbered)  # if this fails, nothing that was numbered is written
                outcomes.append(Result(numbered.entries))
                chunks.append(numbered.lines)
                head = numbered.head
                self._history.ends(head)
        return outcomes, chunks

    def _create(self, requests: list[AppendRequest]) -> list[Result] | None:
        """A new chat with its first entries, all at once. None: somebody else was faster, try again."""
        self._reset()
        outcomes, chunks = self._number(requests, Head(), None)
        self._reset()  # from here on the files tell
        lines = [line for chunk in chunks for line in chunk]
        if not lines:
            return outcomes
        with staging_folder(self._disk, self._path, self._chat) as temporary:
            for request, chunk in zip(requests, chunks, strict=True):
                if chunk:
                    self._keep_blobs(temporary, request)
            head = Head(len(lines), lines[-1][-18:-2].decode())
            witness = write_open_segment(self._disk, temporary, 1, [header_line(Head()), *lines], head)
            if not publish_chat(self._disk, temporary, self._path, witness):
                return None
        return outcomes

    def _keep_blobs(self, folder: Path, batch: AppendRequest | Batch) -> None:
        for draft in batch.events:
            for digest, content in draft.blobs:
                write_blob(self._disk, folder, digest, content)

    # --- after it --------------------------------------------------------------------------------------

    def sync(self) -> Exception | None:
        """Makes everything appended durable. Returns what went wrong. Without the lock, see ``End.sync``."""
        if self._poisoned:
            return self._unknown()
        try:
            self._end.sync()
        except WriteFailed as poison:
            return self._poison(poison)
        return None

    def bear_witness(self) -> None:
        """Writes down what was synced."""
        if not self._poisoned:
            self._end.bear_witness()

    def end_segment(self, upto: int, least: int) -> Exception | None:
        """Seals the segment if the log ends at ``upto`` and it has ``least`` bytes, so that a fork there can share it.

        Returns what went wrong.
        """
        if self._poisoned:
            return None  # nothing is known about what is durable, so nothing is vouched for
        return self._tried(lambda: self._ended(upto, least))

    def _ended(self, upto: int, least: int) -> None:
        try:
            self._lock.acquire()
            try:
                if self._catch_up().position.seq == upto:
                    self._end.seal(least)
            finally:
                self._lock.release()
        except ChatMissing:
            pass  # whoever forks it is told
        except ChatReplaced:
            self._start_over()

    @property
    def is_untidy(self) -> bool:
        return self._history.is_untidy

    def tidy(self, *, closing: bool = False) -> None:
        """Keeps the caches up to date. After the answers, so that nobody waits for it."""
        if self.tail is not None and not self._poisoned:
            self._history.tidy(closing=closing)

    def ready_seal(self) -> Callable[[], None] | None:
        """What to do on another thread, so that the segment's seal is nearly ready when it is full."""
        return None if self._poisoned else self._end.ready_seal()

    # --- errors ------------------------------------------------------------------------------------------

    def _tried(self, work: Callable[[], T]) -> T | Exception:
        """What comes of it, or what went wrong; then whatever cannot be believed any more is forgotten."""
        if self._poisoned:
            return self._unknown()
        try:
            return work()
        except WouldBlock:
            raise
        except WriteFailed as poison:
            return self._poison(poison)
        except OSError as error:
            self._start_over()
            return to_chatfold_error(error, self._chat, self._path)
        except ChatfoldError as error:
            return error
        except BaseException:  # no memory, or Ctrl-C, at any moment: nothing we remember is to be believed
            self._start_over()
            raise

    def _poison(self, poison: WriteFailed) -> DurabilityUnknown:
        self._poisoned = True
        self._end.mark_failed()
        self.close()
        return self._unknown(poison.__cause__)

    def _unknown(self, cause: BaseException | None = None) -> DurabilityUnknown:
        reason = f": {cause}" if cause else ""
        return DurabilityUnknown(
            f"a write or sync failed earlier or now{reason}", chat=self._chat, path=self._path
        )
