"""Answers that are coming, for all processes of the machine: a file in the chat's cache, locked by the process that passes it.

    cache/answer        piece after piece, each after its length in four bytes, big-endian

The file appears locked, and the lock goes with the process that holds it: a file without one is of a process that was killed, and
says nothing. It is removed when the answer stands. What is new is written at most every 20 ms, on a thread: whoever passes a piece
never waits for the disk, and an answer that stands sooner is in no file at all. Nothing is synced. If the disk refuses, others see
the answer when it stands.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from pathlib import Path

from chatfold.eventlog.deltas import ComingAnswer
from chatfold.eventlog.files.cache import CACHE
from chatfold.eventlog.files.disk import Disk, ensure_folder, write_all

ANSWER = "answer"
_PAUSE_S = 0.02
_LOOK_S = 0.03
_CHUNK = 1 << 20
_LENGTH = 4  # bytes


class FileAnswer(ComingAnswer):
    """An answer that this process passes on. ``folder``: the chat's."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        super().__init__()
        self._disk = disk
        self._path = folder / CACHE / ANSWER
        self._fd = -1
        self._written = 0  # pieces
        self._is_removed = False
        self._lock = (
            threading.Lock()
        )  # a write that a cancelled task left behind must not meet a closed descriptor
        self._task = asyncio.create_task(self._pass_on())

    async def end(self) -> None:
        await super().end()
        await asyncio.wait([self._task])

    async def _pass_on(self) -> None:
        try:
            await self._pause()
            while not self.has_ended:
                changed = self._changed
                await asyncio.to_thread(self._write)
                if self._written == len(self.pieces):
                    await changed.wait()
                await self._pause()
        except (
            OSError,
            RuntimeError,
        ):  # a disk that refuses, or no more threads: others see it when it stands
            pass
        finally:
            self._remove()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                while not self.has_ended:
                    await self._changed.wait()

    def _write(self) -> None:
        with self._lock:
            if self._is_removed:
                return
            if self._fd < 0:
                self._create()
            new = self.pieces[self._written :]
            data = b"".join(len(piece).to_bytes(_LENGTH, "big") + piece for piece in new)
            write_all(self._disk, self._fd, data)
            self._written += len(new)

    def _create(self) -> None:
        """It has its lock before it has its name: nobody takes it for a dead one's."""
        ensure_folder(self._disk, self._path.parent)
        draft = self._path.with_name(f".{os.urandom(8).hex()}.tmp")
        self._fd = self._disk.create(draft)
        self._disk.lock(self._fd)
        self._disk.rename(draft, self._path)

    def _remove(self) -> None:
        with self._lock:
            self._is_removed = True
            if self._fd < 0:
                return
            with suppress(OSError):  # an erasure has removed it already
                if self._disk.stat(self._path).st_ino == self._disk.fstat(self._fd).st_ino:
                    self._disk.unlink(self._path)
            self._disk.unlock(self._fd)  # for a forked process, too, which holds the same lock
            self._disk.close(self._fd)


async def follow_file(disk: Disk, folder: Path) -> AsyncGenerator[bytes]:
    """The pieces that another process passes, until it ends the answer, or dies."""
    try:
        fd = disk.open_read(folder / CACHE / ANSWER)
    except OSError:
        return  # none is coming
    try:
        rest = b""
        offset, is_coming = 0, not disk.try_lock(fd)
        while is_coming:
            is_coming = not disk.try_lock(fd)  # before it is read: what was written before the end is given
            data = await asyncio.to_thread(disk.pread, fd, _CHUNK, offset)
            offset += len(data)
            *pieces, rest = _split(rest + data)
            for piece in pieces:
                yield piece
            is_coming = is_coming or len(data) == _CHUNK
            if is_coming and not data:
                await asyncio.sleep(_LOOK_S)
    finally:
        disk.close(fd)


def _split(data: bytes) -> Iterator[bytes]:
    """The pieces that are there whole, and then the rest."""
    at = 0
    while len(data) - at >= _LENGTH:
        end = at + _LENGTH + int.from_bytes(data[at : at + _LENGTH], "big")
        if end > len(data):
            break
        yield data[at + _LENGTH : end]
        at = end
    yield data[at:]
