"""A chat's folder as a reader finds it: which segments there are, each of them open, and whether it is still that chat."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chatfold.eventlog.errors import ChatDeleted, ChatfoldError, CorruptLog, NoSuchChat
from chatfold.eventlog.files.blobs import read_blob
from chatfold.eventlog.files.chat_dir import LOCK_FILE
from chatfold.eventlog.files.continuity import MAX_HEADER, Continuity
from chatfold.eventlog.files.disk import Disk, OpenFiles, read_at
from chatfold.eventlog.files.segment import Position, Tail, parse_segment_name, segment_name
from chatfold.eventlog.line import parse_header


class ChatSegments:
    def __init__(self, path: Path, chat: str, disk: Disk, files: OpenFiles | None) -> None:
        self.path = path
        self.chat = chat
        self.disk = disk
        self._files = files or OpenFiles(disk)
        self._identity: tuple[int, int] | None = None  # of the chat that was found here
        self._tail: Tail | None = None  # where the log ends, once it was looked for
        self._paths: dict[int, Path] = {}
        self._asked = (0, path)  # the last segment that was asked for, whether it is there
        self._lock_file = path / LOCK_FILE
        self._continuity = Continuity(disk, self.segments, self.segment_path)

    def forget(self) -> None:
        """Drop everything remembered, because the files were changed under us."""
        self._tail = self._identity = None

    # --- the chat ----------------------------------------------------------------------------------------

    def chat_identity(self) -> tuple[int, int] | None:
        """Another one for every chat that ever had this key: nothing writes into its lock file. None if there is no chat.

        Not the time of the inode's last change, which is another after ``chmod``.
        """
        try:
            status = self.disk.stat(self._lock_file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_ino, status.st_mtime_ns

    @contextmanager
    def translating_deletion(self) -> Iterator[None]:
        """What looks damaged or missing because the chat was deleted meanwhile, or another took its place, is ChatDeleted."""
        before = self._identity = self._identity or self.chat_identity()
        try:
            yield
        except (CorruptLog, FileNotFoundError):
            if self.chat_identity() == before:
                raise
            self.forget()
            raise ChatDeleted("the chat was deleted", chat=self.chat, path=self.path) from None

    @contextmanager
    def ignoring_deletion(self) -> Iterator[None]:
        """Left quietly if there is no such chat, or it is deleted meanwhile."""
        with suppress(NoSuchChat, ChatDeleted), self.translating_deletion():
            yield

    def blob(self, digest: str) -> bytes:
        return read_blob(self.disk, self.path, digest)

    # --- its segments ------------------------------------------------------------------------------------

    def segment_path(self, first: int) -> Path:
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
        firsts = sorted([first for first in map(parse_segment_name, names) if first is not None])
        if not firsts:
            raise CorruptLog("a chat without a segment", chat=self.chat, path=self.path)
        return firsts

    def is_segment_end(self, seq: int) -> bool:
        """Is this the last seq of a full segment?"""
        return self.has_segment(seq + 1)

    @contextmanager
    def open_segment(self, first: int) -> Iterator[int]:
        """A segment's descriptor; whatever goes wrong while it is open is told with chat and path."""
        path = self.segment_path(first)
        try:
            with self._files.open(path) as fd:
                yield fd
        except ChatfoldError as error:
            error.chat, error.seq = self.chat, error.seq or first
            error.path = error.path or path
            raise

    def sync(self) -> None:
        """Makes all of it durable. Segments before the last one are."""
        with self.open_segment(self.segments()[-1]) as fd:
            self.disk.sync(fd)

    def read_header_at(self, first: int, fd: int) -> Position:
        """The place after the header. Checks that the file is the one its name says."""
        at = self.parse_header_at(first, fd)
        self._check_belongs(first, fd)
        return at

    def parse_header_at(self, first: int, fd: int) -> Position:
        """The same, and nothing is compared with other segments."""
        line, newline, _ = read_at(self.disk, fd, 0, MAX_HEADER).partition(b"\n")
        head = parse_header(line if newline else b"")
        if head.seq + 1 != first:
            raise CorruptLog(f"the segment says that it starts at seq {head.seq + 1}", offset=0, seq=first)
        return Position(head.seq, head.link.encode(), len(line) + 1)

    def check_belongs(self, first: int, fd: int) -> os.stat_result:
        """Raise CorruptLog unless this open file is a segment of this chat, linked to the end of the log. How it looks."""
        status = self._check_belongs(first, fd)
        self._continuity.check_reaches_end(first)
        return status

    def _check_belongs(self, first: int, fd: int) -> os.stat_result:
        has_next = self._tail is not None and first < self._tail.first
        return self._continuity.check(first, fd, has_next=has_next)

    def has_segment(self, first: int) -> bool:
        """Asked after each append of the next segment, which is hardly ever there: its path is not kept with the others."""
        if self._asked[0] != first:
            self._asked = first, self._paths.get(first) or self.path / segment_name(first)
        try:
            self.disk.stat(self._asked[1])
        except FileNotFoundError:
            return False
        return True
