"""The stores that a machine drives side by side: files and memory, each used by two processes at once.

The second process is a store of its own on the same files, or on the same memory, which knows nothing of the first one's.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from chatfold.agent import Chat, Store
from chatfold.eventlog import ChatDeleted, Conflict, Event, FileStorage, MemoryStorage, Noted, Storage, check
from chatfold.eventlog.line import SEAL_PREFIX

Who: TypeAlias = Literal[0, 1]


def other(who: Who) -> Who:
    return 1 if who == 0 else 0


class Side:
    """Two stores in one place, and the chats that each holds open. ``root``: a folder for what is exported."""

    root: Path

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.stores = [Store(self.storage()), Store(self.storage())]
        self.chats: dict[tuple[Who, str], Chat] = {}

    def storage(self) -> Storage:
        raise NotImplementedError

    async def chat(self, who: Who, key: str) -> Chat:
        """The handle that this process has, however old it is."""
        if (who, key) not in self.chats:
            self.chats[who, key] = await self.stores[who].chat(key)
        return self.chats[who, key]

    def forget(self, *, who: Who | None = None, key: str | None = None) -> None:
        """Nobody holds these chats any more."""
        gone = [one for one in self.chats if who in (None, one[0]) and key in (None, one[1])]
        for one in gone:
            del self.chats[one]

    async def delete(self, who: Who, key: str, *anew: Event) -> None:
        """And begins another chat in its place. The other process is told when it next writes there, once."""
        await self.stores[who].delete(key)
        if anew:
            await self.stores[who].log.append(key, *anew)
        self.forget(key=key)
        with suppress(ChatDeleted, Conflict):
            await self.stores[other(who)].log.append(key, Noted("in vain"), after=99)

    async def reopen(self, who: Who) -> None:
        await self.stores[who].close()
        self.stores[who] = Store(self.storage())
        self.forget(who=who)

    async def crash(self, who: Who, key: str) -> None:
        """The process dies, in the middle of writing to this chat."""
        store = self.stores[who]
        for task in store._later:
            task.cancel()
        await asyncio.gather(*store._later, return_exceptions=True)
        self.die(store, key)
        self.stores[who] = Store(self.storage())
        self.forget(who=who)

    def settle(self) -> None:
        """After every step."""

    def die(self, store: Store, key: str) -> None:
        pass

    def forget_caches(self) -> None:
        pass

    def check(self) -> None:
        pass

    async def close(self) -> None:
        for store in self.stores:
            await store.close()

    def remove(self) -> None:
        pass


class Memory(Side):
    """Closing one store would close the memory, which is all there is: what was to be kept is waited for."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.kept = MemoryStorage(clock=clock)
        super().__init__(clock)

    def storage(self) -> Storage:
        return self.kept

    async def reopen(self, who: Who) -> None:
        await asyncio.gather(*self.stores[who]._later)
        self.stores[who] = Store(self.kept)
        self.forget(who=who)


class Files(Side):
    def __init__(self, clock: Callable[[], int]) -> None:
        self.root = Path(tempfile.mkdtemp())
        super().__init__(clock)

    def storage(self) -> Storage:
        return FileStorage(self.root / "store", clock=self.clock, segment_bytes=2000, durability="off")

    @property
    def folders(self) -> list[Path]:
        return sorted((self.root / "store").glob("chats/*"))

    def settle(self) -> None:
        """No segment's inode is given to another file: the number is all that some caches know a file by."""
        (self.root / "pins").mkdir(exist_ok=True)
        for path in (self.root / "store").glob("chats/*/*.jsonl"):
            with suppress(FileExistsError):
                (self.root / "pins" / str(path.stat().st_ino)).hardlink_to(path)

    def die(self, store: Store, key: str) -> None:
        """Threads and descriptors are gone, nothing is synced or kept, and half a line is at the end of the newest file."""
        storage = store.log.storage
        assert isinstance(storage, FileStorage)
        folder = storage._reader(key).path
        storage._closed = True
        storage._queue.stop()
        storage.close_files()
        segments = sorted(folder.glob("*.jsonl"))
        if segments:
            whole = segments[-1].read_bytes().splitlines(keepends=True)[-1]
            if whole.startswith(SEAL_PREFIX):
                return  # nobody writes there any more, and a fork may have the same file
            with segments[-1].open("ab") as file:
                file.write(whole[: len(whole) // 2])

    def forget_caches(self) -> None:
        for folder in self.folders:
            shutil.rmtree(folder / "cache", ignore_errors=True)
        shutil.rmtree(self.root / "store" / "cache", ignore_errors=True)

    def check(self) -> None:
        for folder in self.folders:
            assert check(folder).ok, check(folder).problems

    def remove(self) -> None:
        shutil.rmtree(self.root)
