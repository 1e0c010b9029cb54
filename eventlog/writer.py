"""One chat's writer: takes the lock, catches up with others, numbers, writes, syncs, unlocks.

Runs on a thread, one group of appends at a time: the appends that were waiting are numbered together, written
with one call and made durable with one sync. At every moment the file holds whole batches of verified lines,
then perhaps the beginning of one more: that is what a crash leaves and what ``recovery`` expects.

Errors. No room: the file is cut back to the last whole batch, its callers are told, the writer goes on. Any
other failed write, and every failed sync: the kernel may have dropped the pages and will not say so again, so
the writer is poisoned, all callers get ``DurabilityUnknown``, and a mark is left for whoever opens the chat
next, to read again from the medium and go on in a new segment.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from eventlog.blobs import write_blob
from eventlog.clock import Clock
from eventlog.disk import Disk, publish, write_all
from eventlog.errors import (
    ChatDeleted,
    ChatfoldError,
    CorruptLog,
    DiskFull,
    DurabilityUnknown,
    NoSuchChat,
    ReadOnly,
)
from eventlog.events import Entry, Head
from eventlog.folder import Folder
from eventlog.history import FolderHistory
from eventlog.layout import add_segment, move_in, new_folder, sweep_chat
from eventlog.line import header
from eventlog.lock import Busy, Gone, Lock, Missing
from eventlog.numbering import Append, number
from eventlog.recovery import cut_torn
from eventlog.sealing import Sealer
from eventlog.segment import SEGMENT_BYTES, Place, Position, is_after
from eventlog.witness import HEAD_FILE, read_witness, write_witness

POISON_FILE = "failed-sync"
_QUICK_BYTES = 1 << 18
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Outcome(msgspec.Struct, frozen=True):
    """Of one request: its entries, or why there are none. Seen by the collector: an error knows the frames that know the outcome."""

    entries: list[Entry] = []
    error: Exception | None = None


class _Poison(Exception):
    """Nothing is known about what is durable."""


class Writer:
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
        self._fds: dict[str, int] = {}
        self._sealer = Sealer(disk)
        self._reset()

    def _reset(self) -> None:
        self.close()
        self.folder = Folder(self._path, self._chat, self._disk, may_write=True, indexing=True)
        self._history = FolderHistory(self.folder)
        self.tail: Place | None = None
        self._synced = 0
        self._witnessed = True  # is what was synced last in the ``head`` file?

    def close(self) -> None:
        """Lets go of the files. Syncs nothing."""
        self._lock.close()
        while self._fds:
            with suppress(
                OSError
            ):  # what mattered was synced; the others are to be closed all the same, and none twice
                self._disk.close(self._fds.popitem()[1])

    def retire(self) -> None:
        """Keeps the caches for the next time and lets go of the files. Syncs nothing."""
        if not self._poisoned:
            self.bear_witness()
        self.tidy(closing=True)
        self._reset()

    # --- commit ----------------------------------------------------------------------------------------

    def commit(self, requests: list[Append], *, sync: list[bool], wait: bool = True) -> list[Outcome] | None:
        """Appends them in order, each all or nothing. ``sync[i]``: durable before this returns.

        None, and nothing happened, if it was asked not to ``wait`` and would have had to.
        """
        if self._poisoned:
            return [Outcome(error=self._unknown())] * len(requests)
        try:
            while True:
                try:
                    self._lock.take(wait=wait)
                    try:
                        return self._commit(requests, sync, wait=wait)
                    finally:
                        self._lock.release()
                except Missing:
                    outcomes = self._create(requests) if wait else None
                    if outcomes is not None or not wait:
                        return outcomes
                except Gone:
                    known = self.tail is not None
                    self._start_over()
                    if known:
                        raise ChatDeleted("the chat was deleted", chat=self._chat, path=self._path) from None
        except Busy:
            return None
        except _Poison as poison:
            self._poison()
            return [Outcome(error=self._unknown(poison.__cause__))] * len(requests)
        except OSError as error:
            self._start_over()
            return [Outcome(error=self._explained(error))] * len(requests)
        except ChatfoldError as error:
            return [Outcome(error=error)] * len(requests)
        except BaseException:  # no memory, or Ctrl-C, at any moment: nothing we remember is to be believed
            self._start_over()
            raise

    def _start_over(self) -> None:
        """Forgets everything, but for what earlier appends are still owed."""
        try:
            self.sync()
        finally:
            self._reset()

    def _commit(self, requests: list[Append], sync: list[bool], *, wait: bool) -> list[Outcome]:
        if not wait and not self._is_quick(requests):
            raise Busy
        tail = self._catch_up(wait=wait)
        outcomes, chunks = self._number(requests, tail.head, self._path)
        if any(chunks) and self._is_full(tail):
            try:
                tail = self._roll(tail)
            except BaseException:
                self._history.rolled_back()
                raise
        outcomes, self.tail = self._write(tail, outcomes, chunks)
        self.folder.remember(self.tail)
        self._history.written(tail.at.seq, self.tail.at.seq)
        for want, outcome in zip(sync, outcomes, strict=True):
            if want and outcome.entries and outcome.entries[-1].seq > self._synced:
                self._sync()
        return outcomes

    def _is_full(self, tail: Place) -> bool:
        return tail.sealed or (tail.at.offset >= self._segment_bytes and tail.at.seq >= tail.first)

    def _is_quick(self, requests: list[Append]) -> bool:
        """Is there nothing to do but a write into the page cache? Unless somebody else has written."""
        tail = self.tail
        if tail is None or self._is_full(tail):
            return False
        size = 0
        for request in requests:
            for draft in request.drafts:
                size += len(draft.raw)
                if draft.blobs or size > _QUICK_BYTES:
                    return False
        return self._history.is_prepared(requests, tail.at.seq)

    def _number(
        self, requests: list[Append], head: Head, folder: Path | None
    ) -> tuple[list[Outcome], list[list[bytes]]]:
        """The outcome of each request if all goes well, and the lines each needs written. Blobs go to ``folder``."""
        self._history.prepare(requests, head.seq)
        outcomes: list[Outcome] = []
        chunks: list[list[bytes]] = []
        now = self._clock()
        for request in requests:
            try:
                numbered = number(request, head, self._synced, now, self._history)
            except (ChatfoldError, OSError) as error:
                outcomes.append(Outcome(error=self._explained(error)))
                chunks.append([])
            else:
                if folder is not None and numbered.lines:
                    self._keep_blobs(folder, request)  # if this fails, nothing that was numbered is written
                outcomes.append(Outcome(numbered.entries))
                chunks.append(numbered.lines)
                head = numbered.head
                self._history.ends(head)
        return outcomes, chunks

    def _write(
        self, tail: Place, outcomes: list[Outcome], chunks: list[list[bytes]]
    ) -> tuple[list[Outcome], Place]:
        """Writes all chunks, or as many whole ones as there is room for."""
        lines = [line for chunk in chunks for line in chunk]
        if not lines:
            return outcomes, tail
        data = b"\n".join((*lines, b""))
        try:
            write_all(self._disk, self._fds["segment"], data)
            self._sealer.wrote(tail, data)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise _Poison from error
            lines = [line for chunk in chunks[: self._roll_back(tail, chunks)] for line in chunk]
            full = Outcome(error=self._explained(error))
            last = tail.at.seq + len(lines)
            outcomes = [full if o.entries and o.entries[-1].seq > last else o for o in outcomes]
        if not lines:
            return outcomes, tail
        at = tail.at
        self.folder.offsets.note(tail.first, tail.inode, at.seq + 1, at.offset, lines)
        end = at.offset + len(lines) + sum(map(len, lines))
        return outcomes, Place(tail.first, Position(at.seq + len(lines), lines[-1][-18:-2], end), tail.inode)

    def _roll_back(self, tail: Place, chunks: list[list[bytes]]) -> int:
        """Cuts the file after the last chunk that fitted: how many did."""
        status = self._disk.fstat(self._fds["segment"])
        if status.st_ino != tail.inode:
            raise _Poison from OSError("somebody closed our file")  # and what is open now is not ours to cut
        written = status.st_size
        end, fitting = tail.at.offset, 0
        for lines in chunks:
            size = len(lines) + sum(map(len, lines))
            if end + size > written:
                break
            end += size
            fitting += 1
        self._history.rolled_back()
        try:
            self._disk.truncate(self._fds["segment"], end)
        except OSError as error:
            raise _Poison from error
        return fitting

    def _sync(self) -> None:
        assert self.tail is not None
        tail, fd = self.tail, self._fds["segment"]
        try:
            # Our bytes are elsewhere if the lock does not keep others out, or the descriptor became another file's.
            if tail.at.seq >= tail.first and not is_after(self._disk, fd, tail.at):
                raise OSError("somebody else wrote at the same time, or closed our file")  # noqa: TRY301
            self._disk.sync(fd)
        except OSError as error:
            raise _Poison from error
        self._synced = self.tail.at.seq
        self._witnessed = False

    def sync(self) -> Exception | None:
        """Makes everything appended durable. Returns what went wrong.

        Without the lock: what others do meanwhile to the file that we have open (roll, redact, delete), they sync themselves.
        """
        if self._poisoned:
            return self._unknown()
        try:
            if self.tail is not None and self._synced < self.tail.at.seq and "segment" in self._fds:
                self._sync()
        except _Poison as poison:
            self._poison()
            return self._unknown(poison.__cause__)
        return None

    def bear_witness(self) -> None:
        """Writes down what was synced. Without the lock: a witness that is late is still true."""
        if not self._witnessed and self.tail is not None and self._synced == self.tail.at.seq and self._fds:
            self._witnessed = True
            with suppress(OSError):  # only a witness: without it, recovery is more cautious
                write_witness(self._disk, self._fds["head"], self.tail.first, self.tail.at)

    @property
    def is_untidy(self) -> bool:
        return self._history.is_untidy

    def tidy(self, *, closing: bool = False) -> None:
        """Keeps the caches up to date. After the answers, so that nobody waits for it."""
        if self.tail is not None and not self._poisoned:
            self._history.tidy(closing=closing)

    def ready_seal(self) -> Callable[[], None] | None:
        """What to do on another thread, so that the segment's seal is nearly ready when it is full."""
        tail = self.tail
        if tail is None or self._poisoned or not self._sealer.is_behind(tail):
            return None
        return partial(self._sealer.try_to_advance, self.folder.segment(tail.first), tail)

    # --- lock, open, catch up --------------------------------------------------------------------------

    def _catch_up(self, *, wait: bool = True) -> Place:
        """Where the log ends. Nobody else writes while we hold the lock, so what is torn here stays torn."""
        tail = self.tail
        if tail is not None and not tail.sealed and self._is_unchanged(tail):
            return tail  # and so is the folder: no two have the same open segment
        if not wait:
            raise Busy
        self._lock.check()
        self._history.forget_ends()
        if tail is None:
            sweep_chat(self._disk, self._path)
        failed_sync = tail is None and self._was_poisoned()
        try:
            now = self.folder.tail()
        except NoSuchChat:
            raise Gone from None
        if tail is not None and tail.inode != now.inode and self._is_marked():
            # Of a sync that failed before we open its file, our descriptor will not be told.
            raise _Poison from OSError(errno.EIO, "a sync of somebody else failed")
        if tail is not None and not _goes_on(now.at, tail.at):
            if self._synced <= now.at.seq and self._synced < tail.at.seq:  # nobody said that it was durable
                raise _Poison from OSError(errno.EIO, "what was not synced yet is gone")
            raise CorruptLog(
                f"seq {tail.at.seq} was the last one and is not there any more",
                chat=self._chat,
                path=self.folder.segment(now.first),
                offset=now.at.offset,
                seq=min(now.at.seq + 1, tail.at.seq),
            )
        if tail is None:
            now = self._take_over(now)
            self._fds["head"] = self._disk.open_update(self._path / HEAD_FILE)
        if tail is None or tail.inode != now.inode or "segment" not in self._fds:
            self._open_segment(now)
        if tail is not None and tail.inode != now.inode:
            self._disk.sync_folder(self._path)  # whoever made the file may have been killed before this
        if not now.sealed:
            end = self._disk.fstat(self._fds["segment"]).st_size
            now = cut_torn(self.folder, self._fds["segment"], now)
            if end > now.at.offset:
                self._sync_segment()
        if failed_sync:
            # A new segment vouches for what is before it; and whoever still has the old one open must see that it is at its end.
            now = self._roll(now) if now.at.seq >= now.first else now
            self._disk.unlink(self._path / POISON_FILE)
        self.tail = now
        return now

    def _take_over(self, now: Place) -> Place:
        """Where the log ends, if somebody was killed before the witness could say so: what was not synced is, or is not counted on."""
        witness = read_witness(self._disk, self._path)
        self._synced = min(witness.seq, now.at.seq) if witness else 0
        if witness is None:
            self._disk.sync_folder(self._path.parent)
        if witness is None or witness.segment != now.first:
            self._disk.sync_folder(self._path)
        if self._synced == now.at.seq and not now.sealed:  # of a seal the witness says nothing
            return now
        self._forget_cache()  # its mark may be missing, too
        return self.folder.tail()

    def _sync_segment(self) -> None:
        try:
            self._disk.sync(self._fds["segment"])
        except OSError as error:
            raise _Poison from error

    def _is_unchanged(self, tail: Place) -> bool:
        try:
            status = self._disk.stat(self.folder.segment(tail.first))
        except FileNotFoundError:
            raise Gone from None
        return status.st_ino == tail.inode and status.st_size == tail.at.offset

    def _open_segment(self, tail: Place) -> None:
        if "segment" in self._fds:
            self._disk.close(self._fds.pop("segment"))
        self._sealer = Sealer(self._disk)  # what it summed up may be gone, and its inode be this file's now
        self._fds["segment"] = self._disk.open_append(self.folder.segment(tail.first))

    def _was_poisoned(self) -> bool:
        if not self._is_marked():
            return False
        self._forget_cache()
        return True

    def _is_marked(self) -> bool:
        try:
            self._disk.stat(self._path / POISON_FILE)
        except FileNotFoundError:
            return False
        return True

    def _forget_cache(self) -> None:
        """What the medium has is read next, not what the kernel believes: after a failed sync it takes pages for clean."""
        for first in self.folder.segments()[-2:]:
            with self.folder.opened(first) as fd:
                self._disk.forget_cache(fd)
        self.folder.forget()

    # --- roll and create -------------------------------------------------------------------------------

    def _roll(self, tail: Place) -> Place:
        """Seals the segment, unless it is, and starts the next one."""
        if not tail.sealed:
            self._seal(tail)
        self.folder.offsets.keep(tail.first)
        return self._next_segment(tail)

    def _seal(self, tail: Place) -> None:
        fd = self._fds["segment"]
        self._sync_segment()  # on the descriptor that wrote, which is told of any earlier failure
        # This reads: if it fails, nothing has failed that was written.
        line = self._sealer.line(self.folder.segment(tail.first), tail)
        try:
            write_all(self._disk, fd, line + b"\n")
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise _Poison from error
            try:
                self._disk.truncate(fd, tail.at.offset)
            except OSError as second:
                raise _Poison from second
            raise self._explained(error) from error
        self._sync_segment()

    def end_segment(self, upto: int, least: int) -> Exception | None:
        """Seals the segment if the log ends at ``upto`` and it has ``least`` bytes, so that a fork there can share it.

        Not if most of it is still to be summed up. Returns what went wrong. The next append starts the next segment, as
        after a roll that was killed.
        """
        if self._poisoned:
            return None  # nothing is known about what is durable, so nothing is vouched for
        try:
            self._lock.take()
            try:
                tail = self._catch_up()
                is_end = tail.at.seq == upto >= tail.first and not tail.sealed
                if is_end and tail.at.offset >= least and not self._sealer.is_behind(tail):
                    self._seal(tail)
                    self._synced, self._witnessed = tail.at.seq, False
                    self.folder.offsets.keep(tail.first)
            finally:
                self._lock.release()
        except Missing:
            return None  # whoever forks it is told
        except Gone:
            self._start_over()
            return None
        except _Poison as poison:
            self._poison()
            return self._unknown(poison.__cause__)
        except OSError as error:
            self._start_over()
            return self._explained(error)
        except ChatfoldError as error:
            return error
        except BaseException:
            self._start_over()
            raise
        return None

    def _next_segment(self, tail: Place) -> Place:
        first = tail.at.seq + 1
        if first == tail.first:
            return tail  # it has no entry yet
        if tail.sealed:  # by somebody who may have been killed before it was durable, which the new segment takes for granted
            self._sync_segment()
        line = header(tail.head) + b"\n"
        publish(self._disk, self.folder.segment(first), line)
        now = self.folder.tail()
        self._open_segment(now)
        self._sealer.began(now, line)
        self._synced = max(self._synced, tail.at.seq)
        return now

    def _create(self, requests: list[Append]) -> list[Outcome] | None:
        """A new chat with its first entries, all at once. None: somebody else was faster, try again."""
        self._reset()
        outcomes, chunks = self._number(requests, Head(), None)
        self._reset()  # from here on the files tell
        lines = [line for chunk in chunks for line in chunk]
        if not lines:
            return outcomes
        with new_folder(self._disk, self._path, self._chat) as temporary:
            for request, chunk in zip(requests, chunks, strict=True):
                if chunk:
                    self._keep_blobs(temporary, request)
            head = Head(len(lines), lines[-1][-18:-2].decode())
            witness = add_segment(self._disk, temporary, 1, [header(Head()), *lines], head)
            if not move_in(self._disk, temporary, self._path, witness):
                return None
        return outcomes

    def _keep_blobs(self, folder: Path, request: Append) -> None:
        for draft in request.drafts:
            for digest, content in draft.blobs:
                write_blob(self._disk, folder, digest, content)

    # --- errors ----------------------------------------------------------------------------------------

    def _poison(self) -> None:
        self._poisoned = True
        with suppress(OSError):
            self._disk.close(self._disk.open_update(self._path / POISON_FILE))
        self.close()

    def _unknown(self, cause: BaseException | None = None) -> DurabilityUnknown:
        reason = f": {cause}" if cause else ""
        return DurabilityUnknown(
            f"a write or sync failed earlier or now{reason}", chat=self._chat, path=self._path
        )

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, OSError):
            if error.errno in _NO_ROOM:
                return DiskFull(str(error), chat=self._chat, path=self._path)
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                return ReadOnly(str(error), chat=self._chat, path=self._path)
        return error


def _goes_on(now: Position, before: Position) -> bool:
    """Nothing takes back what was appended. Where somebody else wrote more, the chain tells."""
    return now.seq > before.seq or (now.seq, now.link) == (before.seq, before.link)
