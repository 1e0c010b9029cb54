"""Every storage of ours does what MemoryStorage does: the suite of ``chatfold.testing``, run on each."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from chatfold.eventlog import FileStorage, MemoryStorage, Storage
from chatfold.eventlog.files.disk import Disk
from chatfold.testing.conformance import Backend, agreement, stories
from tests.eventlog.optimistic import Optimistic, place_of
from tests.support.profile import searched


class _Remembering(Disk):
    """Knows how much of each file was synced, by inode."""

    def __init__(self) -> None:
        self.synced: dict[int, int] = {}

    def sync(self, fd: int) -> None:
        super().sync(fd)
        status = self.fstat(fd)
        self.synced[status.st_ino] = status.st_size


class Files(Backend):
    can_crash = True
    races = ("threads", "processes")

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.disk = _Remembering()

    def open(self, clock: Callable[[], int]) -> Storage:
        return FileStorage(self.root, clock=clock, segment_bytes=2000, disk=self.disk)

    def forget_caches(self) -> None:
        for cache in self.root.glob("chats/*/cache"):
            shutil.rmtree(cache)

    def crash(self, storage: Storage, chat: str, keep: float) -> None:
        assert isinstance(storage, FileStorage)
        folder = storage._reader(chat).path
        abandon(storage)
        segment = max(folder.glob("*.jsonl"))
        content = segment.read_bytes()
        durable = self.disk.synced[segment.stat().st_ino]
        segment.write_bytes(content[: durable + round(keep * (len(content) - durable))])

    def abandon(self, storage: Storage) -> None:
        assert isinstance(storage, FileStorage)
        abandon(storage)

    def remove(self) -> None:
        shutil.rmtree(self.root)


class WitnessedFiles(Files):
    """The witness, which may be a moment late, was in time: whoever goes on knows all that is durable, and writes it."""

    def crash(self, storage: Storage, chat: str, keep: float) -> None:
        assert isinstance(storage, FileStorage)
        for opened in storage._queue.chats.all():
            opened.writer.write_watermark()
        super().crash(storage, chat, keep)


def abandon(storage: FileStorage) -> None:
    """What a kill does: threads and descriptors are gone, nothing is synced or kept."""
    storage._closed = True
    storage._queue.stop()
    storage.close_files()


class Memory(Backend):
    """One memory, however often it is opened."""

    def __init__(self) -> None:
        self.chats = MemoryStorage()._chats

    def open(self, clock: Callable[[], int]) -> Storage:
        storage = MemoryStorage(clock=clock)
        storage._chats = self.chats
        return storage


TestFilesAgreeWithMemory = agreement(Files, "full", "off", search=searched(1 / 3))
TestFilesWriteTheSameBytesAsMemory = agreement(WitnessedFiles, "full", storages=1, search=searched(1 / 3))
TestMemoryAgrees = agreement(Memory, storages=1, search=searched(1 / 3))
TestClientsAgreeWithMemory = agreement(place_of(Optimistic), search=searched(1 / 3))
TestStoriesOfFiles = stories(Files)
TestStoriesOfMemory = stories(Memory)
