"""The end of a chat's log, in its writer's hands: found, taken over, written to, synced, sealed, gone on from.

Whoever calls holds the chat's lock, except for ``sync`` and ``bear_witness``. At every moment the file holds whole batches of
verified lines, then perhaps the beginning of one more: that is what a crash leaves and what ``recovery`` expects.

No room: the file is cut back to the last whole batch. Any other failed write, and every failed sync, is ``WriteFailed``: the kernel
may have dropped the pages and will not say so again. A mark is left for whoever opens the chat next, to read again from the
medium and go on in a new segment.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from chatfold.eventlog.errors import NO_ROOM, CorruptLog, NoSuchChat, to_chatfold_error
from chatfold.eventlog.files.chat_dir import try_remove_temp_files
from chatfold.eventlog.files.disk import Disk, replace_file, write_all
from chatfold.eventlog.files.lock import ChatReplaced
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.recovery import cut_torn_tail
from chatfold.eventlog.files.sealing import SealBuilder
from chatfold.eventlog.files.segment import Position, Tail, ends_with_link
from chatfold.eventlog.files.watermark import HEAD_FILE, read_watermark, write_watermark
from chatfold.eventlog.line import header_line

POISON_FILE = "failed-sync"


class WriteFailed(Exception):
    """Nothing is known about what is durable. Its cause says why."""


class SegmentWriter:
    """``tail``: where the log ends, as far as we know; None before we looked. ``synced``: up to where it is durable."""

    def __init__(self, path: Path, chat: str, disk: Disk) -> None:
        self.folder = LogReader(path, chat, disk, may_write=True, indexing=True)
        self.tail: Tail | None = None
        self.synced = 0
        self._path = path
        self._chat = chat
        self._disk = disk
        self._fds: dict[str, int] = {}
        self._sealer = SealBuilder(disk)
        self._witnessed = True  # is what was synced last in the ``head`` file?

    def close(self) -> None:
        """Lets go of the files. Syncs nothing."""
        while self._fds:
            # What mattered was synced; the others are to be closed all the same, and none twice.
            with suppress(OSError):
                self._disk.close(self._fds.popitem()[1])

    def mark_failed(self) -> None:
        """For whoever opens the chat next."""
        with suppress(OSError):
            self._disk.close(self._disk.open_update(self._path / POISON_FILE))

    # --- finding it ------------------------------------------------------------------------------------

    def is_unchanged(self) -> bool:
        """Does the log end where it did? Then the folder is the same, too: no two have the same open segment."""
        tail = self.tail
        if tail is None or tail.sealed:
            return False
        try:
            status = self._disk.stat(self.folder.segment_path(tail.first))
        except FileNotFoundError:
            raise ChatReplaced from None
        return status.st_ino == tail.inode and status.st_size == tail.position.offset

    def catch_up(self) -> Tail:
        """Where the log ends. Nobody else writes while we hold the lock, so what is torn here stays torn."""
        tail = self.tail
        if tail is None:
            try_remove_temp_files(self._disk, self._path)
        failed_sync = tail is None and self._is_marked()
        if failed_sync:
            self._forget_cache()
        try:
            now = self.folder.tail()
        except NoSuchChat:
            raise ChatReplaced from None
        if tail is None:
            now = self._take_over(now)
            self._fds["head"] = self._disk.open_update(self._path / HEAD_FILE)
        else:
            self._check_goes_on(tail, now)
        if tail is None or tail.inode != now.inode or "segment" not in self._fds:
            self._open_segment(now)
            # Whoever gave the file its name may have been killed before this. No witness tells: an erasure or a repair
            # puts another file in the place of one that was vouched for.
            self._disk.sync_folder(self._path)
        if not now.sealed:
            end = self._disk.fstat(self._fds["segment"]).st_size
            now = cut_torn_tail(self.folder, self._fds["segment"], now)
            if end > now.position.offset:
                self._sync_segment()
        if failed_sync:
            # A new segment vouches for what is before it; and whoever still has the old one open must see that it is at its end.
            now = self._gone_on(now) if now.position.seq >= now.first else now
            self._disk.unlink(self._path / POISON_FILE)
        self.tail = now
        return now

    def _check_goes_on(self, tail: Tail, now: Tail) -> None:
        """Nothing takes back what was appended. Where somebody else wrote more, the chain tells."""
        if tail.inode != now.inode and self._is_marked():
            # Of a sync that failed before we open its file, our descriptor will not be told.
            raise WriteFailed from OSError(errno.EIO, "a sync of somebody else failed")
        if now.position.seq > tail.position.seq or (now.position.seq, now.position.link) == (
            tail.position.seq,
            tail.position.link,
        ):
            return
        if (
            self.synced <= now.position.seq and self.synced < tail.position.seq
        ):  # nobody said that it was durable
            raise WriteFailed from OSError(errno.EIO, "what was not synced yet is gone")
        raise CorruptLog(
            f"seq {tail.position.seq} was the last one and is not there any more",
            chat=self._chat,
            path=self.folder.segment_path(now.first),
            offset=now.position.offset,
            seq=min(now.position.seq + 1, tail.position.seq),
        )

    def _take_over(self, now: Tail) -> Tail:
        """Where the log ends, if somebody was killed before the witness could say so: what was not synced is, or is not counted on."""
        witness = read_watermark(self._disk, self._path)
        self.synced = min(witness.seq, now.position.seq) if witness else 0
        if witness is None:
            self._disk.sync_folder(self._path.parent)
        if self.synced == now.position.seq and not now.sealed:  # of a seal the witness says nothing
            return now
        self._forget_cache()  # its mark may be missing, too
        return self.folder.tail()

    def _is_marked(self) -> bool:
        try:
            self._disk.stat(self._path / POISON_FILE)
        except FileNotFoundError:
            return False
        return True

    def _forget_cache(self) -> None:
        """What the medium has is read next, not what the kernel believes: after a failed sync it takes pages for clean."""
        for first in self.folder.segments()[-2:]:
            with self.folder.open_segment(first) as fd:
                self._disk.forget_cache(fd)
        self.folder.forget()

    def _open_segment(self, tail: Tail) -> None:
        if "segment" in self._fds:
            self._disk.close(self._fds.pop("segment"))
        # Another one: what the old one summed up may be gone, and its inode be this file's now.
        self._sealer = SealBuilder(self._disk, tail.position.offset)
        self._fds["segment"] = self._disk.open_append(self.folder.segment_path(tail.first))

    # --- writing to it -----------------------------------------------------------------------------------

    def write(self, chunks: list[list[bytes]]) -> OSError | None:
        """Writes all chunks, or as many whole ones as there is room for: then why there were no more."""
        assert self.tail is not None
        tail, full = self.tail, None
        lines = [line for chunk in chunks for line in chunk]
        if not lines:
            return None
        data = b"\n".join((*lines, b""))
        try:
            write_all(self._disk, self._fds["segment"], data)
            self._sealer.update(tail, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise WriteFailed from error
            full = error
            lines = [line for chunk in chunks[: self._roll_back(tail, chunks)] for line in chunk]
        if lines:
            at = tail.position
            self.folder.offsets.record(tail.first, tail.inode, at.seq + 1, at.offset, lines)
            end = at.offset + len(lines) + sum(map(len, lines))
            at = Position(at.seq + len(lines), lines[-1][-18:-2], end)
            self.tail = Tail(tail.first, at, tail.inode)
        self.folder.remember(self.tail)
        return full

    def _roll_back(self, tail: Tail, chunks: list[list[bytes]]) -> int:
        """Cuts the file after the last chunk that fitted: how many did."""
        status = self._disk.fstat(self._fds["segment"])
        if status.st_ino != tail.inode:
            raise WriteFailed from OSError(
                "somebody closed our file"
            )  # and what is open now is not ours to cut
        end, fitting = tail.position.offset, 0
        for lines in chunks:
            size = len(lines) + sum(map(len, lines))
            if end + size > status.st_size:
                break
            end += size
            fitting += 1
        self._cut(self._fds["segment"], end)
        return fitting

    def sync(self) -> None:
        """Makes everything written durable.

        Without the lock: what others do meanwhile to the file that we have open (roll, redact, delete), they sync themselves.
        """
        tail = self.tail
        if tail is None or self.synced >= tail.position.seq or "segment" not in self._fds:
            return
        # Our bytes are elsewhere if the lock does not keep others out, or the descriptor became another file's.
        try:
            is_ours = tail.position.seq < tail.first or ends_with_link(
                self._disk, self._fds["segment"], tail.position
            )
        except OSError as error:
            raise WriteFailed from error
        if not is_ours:
            raise WriteFailed from OSError("somebody else wrote at the same time, or closed our file")
        self._sync_segment()
        self.synced, self._witnessed = tail.position.seq, False

    def _sync_segment(self) -> None:
        try:
            self._disk.sync(self._fds["segment"])
        except OSError as error:
            raise WriteFailed from error

    def bear_witness(self) -> None:
        """Writes down what was synced. Without the lock: a witness that is late is still true."""
        if (
            not self._witnessed
            and self.tail is not None
            and self.synced == self.tail.position.seq
            and self._fds
        ):
            self._witnessed = True
            with suppress(OSError):  # only a witness: without it, recovery is more cautious
                write_watermark(self._disk, self._fds["head"], self.tail.first, self.tail.position)

    # --- sealing, and going on -----------------------------------------------------------------------------

    def ready_seal(self) -> Callable[[], None] | None:
        """What to do on another thread, so that the segment's seal is nearly ready when it is full."""
        tail = self.tail
        if tail is None or not self._sealer.is_due(tail):
            return None
        return partial(self._sealer.advance_in_background, self.folder.segment_path(tail.first), tail)

    def seal(self, least: int) -> None:
        """Ends the segment, if it has entries, ``least`` bytes, and most of it is summed up already.

        The next append starts the next one, as after a roll that was killed.
        """
        tail = self.tail
        assert tail is not None
        is_open = tail.position.seq >= tail.first and not tail.sealed
        if is_open and tail.position.offset >= least and not self._sealer.is_behind(tail):
            self._seal(tail)
            self.synced, self._witnessed = tail.position.seq, False
            self._keep_index(tail)

    def go_on(self) -> None:
        """Seals the segment, unless it is, and starts the next one."""
        assert self.tail is not None
        self.tail = self._gone_on(self.tail)

    def _gone_on(self, tail: Tail) -> Tail:
        if not tail.sealed:
            self._seal(tail)
        self._keep_index(tail)
        return self._next_segment(tail)

    def _keep_index(self, tail: Tail) -> None:
        self.folder.offsets.store(tail.first, self._disk.fstat(self._fds["segment"]).st_size)

    def _seal(self, tail: Tail) -> None:
        fd = self._fds["segment"]
        self._sync_segment()  # on the descriptor that wrote, which is told of any earlier failure
        # Reads: if it fails, no write has failed.
        line = self._sealer.build_seal(self.folder.segment_path(tail.first), tail)
        try:
            write_all(self._disk, fd, line + b"\n")
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise WriteFailed from error
            self._cut(fd, tail.position.offset)
            raise to_chatfold_error(error, self._chat, self._path) from error
        self._sync_segment()

    def _cut(self, fd: int, end: int) -> None:
        try:
            self._disk.truncate(fd, end)
        except OSError as error:
            raise WriteFailed from error

    def _next_segment(self, tail: Tail) -> Tail:
        first = tail.position.seq + 1
        if first == tail.first:
            return tail  # it has no entry yet
        if tail.sealed:  # by somebody who may have been killed before it was durable, which the new segment takes for granted
            self._sync_segment()
        line = header_line(tail.head) + b"\n"
        replace_file(self._disk, self.folder.segment_path(first), line)
        now = self.folder.tail()
        self._open_segment(now)
        self._sealer.start(now, line)
        self.synced = max(self.synced, tail.position.seq)
        return now
