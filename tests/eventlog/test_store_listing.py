"""The listing of a store of files is never wrong: a row that counts was made from the log as it is now."""

import asyncio
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from chatfold.eventlog import ChatfoldError, FileStorage, Log, MessageAdded, NoSuchStore, Noted, Storage, Text
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.keys import folder_name
from tests.support.clock import TickingClock
from tests.support.listing import SETTLED_S, mark_of, rows_of, settle, tokens
from tests.support.profile import searched

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
KEYS = ("a", "A/\ud800", "too long for a folder " * 10)
keys = st.sampled_from(KEYS)
which = st.integers(0, 1)
often = st.sampled_from((True, True, False))
bytes_ = st.floats(0, 1, exclude_max=True)

Change = Callable[[Storage, str, str], Awaitable[object]]
CHANGES: dict[str, Change] = {  # redacting without an event that says so
    "append": lambda storage, key, _: Log(storage).append(key, MessageAdded("user", (Text("one"),))),
    "append much": lambda storage, key, _: Log(storage).append(
        key, *(Noted("n", {"n": n}) for n in range(9))
    ),
    "redact": lambda storage, key, _: storage.redact(key, [1]),
    "delete": lambda storage, key, _: storage.delete(key),
    "fork": lambda storage, key, other: Log(storage).fork(key, other),
    "import": lambda storage, key, other: storage.import_chat(other, storage.export(key)),
}


async def bytes_of(storage: Storage, chat: str) -> bytes:
    return b"\n".join([line async for page in storage.read(chat) for line in page.lines()])


class CoarseDisk(Disk):
    """Of a file system that counts seconds."""

    def stat(self, path: Path | str) -> os.stat_result:
        found = super().stat(path)
        times = {name: getattr(found, name) // 10**9 * 10**9 for name in ("st_mtime_ns", "st_ctime_ns")}
        return os.stat_result(found[:10], {**times, "st_atime_ns": found.st_atime_ns})


class Listings(RuleBasedStateMachine):
    """Two storages, as two processes have them, on the same files. A row is the whole log that it was made from."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(dir=MEMORY))
        self.clock = TickingClock()
        self.storages = [self.opened(), self.opened()]
        self.file, self.copy = self.root / "cache" / "listing", self.root / "older"
        self.marks: list[tuple[str, dict[str, bytes]]] = []

    def opened(self) -> FileStorage:
        return FileStorage(self.root, clock=self.clock, segment_bytes=1000, durability="off")

    def teardown(self) -> None:
        for storage in self.storages:
            self.run(storage.close())
        self.runner.close()
        shutil.rmtree(self.root)

    def run(self, work: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            with suppress(ChatfoldError):  # not every chat is there
                return await work

        return self.runner.run(wait())

    # --- what happens ------------------------------------------------------------------------------------

    @rule(which=which, key=keys, other=keys, verb=st.sampled_from(("append", "append", *CHANGES)))
    def change(self, which: int, key: str, other: str, verb: str) -> None:
        self.run(CHANGES[verb](self.storages[which], key, other))

    @rule(which=which, verb=st.sampled_from(("reopen", "damage", "save a copy", "put it back")), byte=bytes_)
    def change_the_file(self, which: int, verb: str, byte: float) -> None:
        if verb == "reopen":
            self.run(self.storages[which].close())
            self.storages[which] = self.opened()
        elif verb == "put it back" and self.copy.exists():
            self.file.parent.mkdir(exist_ok=True)
            shutil.copy(self.copy, self.file)
        elif verb == "save a copy" and self.file.exists():
            shutil.copy(self.file, self.copy)
        elif verb == "damage" and self.file.exists():
            content = bytearray(self.file.read_bytes())
            content[int(byte * len(content))] ^= 1
            self.file.write_bytes(content)

    # --- what must be true -------------------------------------------------------------------------------

    @invariant()
    def a_row_that_counts_is_the_log(self) -> None:
        logs = self.logs()
        for storage in self.storages:
            rows = self.run(rows_of(storage))
            assert rows.keys() == logs.keys()
            assert all(row.row == logs[key] for key, row in rows.items() if row.row_token == row.token)

    @invariant()
    def what_is_left_out_is_as_it_was(self) -> None:
        now = self.logs()
        for mark, then in self.marks[-3:]:
            changed = self.run(rows_of(self.storages[0], changed_since=mark)).keys()
            assert {key: now[key] for key in now.keys() - changed}.items() <= then.items()

    @rule(which=which, prefix=st.sampled_from(("", "", "", "a", "x")), waits=often)
    def store(self, which: int, prefix: str, waits: bool) -> None:
        """``waits``: what did not change meanwhile counts from now on."""
        time.sleep(SETTLED_S * waits)
        storage, logs = self.storages[which], self.logs()
        rows = self.run(rows_of(storage, prefix))
        assert rows.keys() == {key for key in logs if key.startswith(prefix)}
        self.run(storage.store_rows({key: (row.token, logs[key]) for key, row in rows.items()}))
        self.marks.append((self.run(mark_of(storage)), logs))

    def logs(self) -> dict[str, bytes]:
        names = [path.name for path in (self.root / "chats").glob("*")]
        keys = [key for key in KEYS if folder_name(key) in names]
        return {key: self.run(bytes_of(self.storages[0], key)) for key in keys}


TestListings = Listings.TestCase
TestListings.settings = searched(2, steps=2)


async def test_times_that_are_coarse_hide_no_change(root: Path) -> None:
    """All within a second, and in the same number of bytes."""
    async with Log(FileStorage(root, segment_bytes=1000, durability="off", disk=CoarseDisk())) as log:
        for number in range(9):
            await log.append("chat", MessageAdded("user", (Text(f"the {number}. question " * 20),)))
        await settle()
        await _store_all(log.storage)
        mark = await mark_of(log.storage)
        await log.storage.redact("chat", [1])
        [row] = (await rows_of(log.storage)).values()
        assert row.row_token != row.token
        assert await rows_of(log.storage, changed_since=mark)


# --- what is looked at -------------------------------------------------------------------------------------


class CountingDisk(Disk):
    def __init__(self) -> None:
        self.looks = 0
        self.opened: list[Path] = []

    def stat(self, path: Path | str) -> os.stat_result:
        self.looks += 1
        return super().stat(path)

    def names(self, path: Path) -> list[str]:
        self.looks += 1
        return super().names(path)

    def open_read(self, path: Path) -> int:
        self.opened.append(path)
        return super().open_read(path)


async def _store_all(storage: Storage) -> None:
    await storage.store_rows(
        {key: (token, key.encode(errors="replace")) for key, token in (await tokens(storage)).items()}
    )


async def test_two_looks_at_each_chat_and_one_file_are_enough(root: Path) -> None:
    names = [f"user {number % 7}/chat {number}" for number in range(40)]
    async with Log(FileStorage(root, durability="off")) as log:
        for name in names:
            await log.append(name, Noted("one"))
        await settle()
        await _store_all(log.storage)
    for count in (40, 40):
        disk = CountingDisk()
        async with Log(FileStorage(root, disk=disk)) as log:
            rows = await rows_of(log.storage)
            assert {key: row.row for key, row in rows.items() if row.token == row.row_token} == {
                name: name.encode() for name in names
            }
        assert {path.name for path in disk.opened} <= {"erased", "listing"}
        assert disk.looks <= 2 * count + 3


async def test_what_does_not_start_so_is_not_looked_at(root: Path) -> None:
    disk = CountingDisk()
    async with Log(FileStorage(root, disk=disk)) as log:
        for number in range(40):
            await log.append(f"{number % 2}/{number}", Noted("one"))
        disk.looks = 0
        assert len(await rows_of(log.storage, "1/1")) == 6
        assert disk.looks < 40


async def test_of_many_chats_those_that_changed_since_are_few(root: Path) -> None:
    async with Log(FileStorage(root, durability="off")) as log:
        for number in range(100):
            await log.append(str(number), Noted("one"))
        await settle()
        mark = await mark_of(log.storage)
        assert await rows_of(log.storage, changed_since=mark) == {}
        assert len(await rows_of(log.storage, changed_since="another mark")) == 100
        await log.append("7", Noted("two"))
        async with FileStorage(root) as other:
            changed = await rows_of(other, changed_since=mark)
        assert "7" in changed
        assert len(changed) < 10


async def test_the_file_is_written_only_if_something_changed(root: Path) -> None:
    file = root / "cache" / "listing"
    async with Log(FileStorage(root)) as log:
        await log.append("chat", Noted("one"))
        await settle()
        await _store_all(log.storage)
        written = file.stat().st_ino, file.stat().st_mtime_ns
    for _ in range(2):
        async with FileStorage(root) as storage:
            [row] = (await rows_of(storage)).values()
            assert row.row == b"chat"
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == written


# --- what was erased while it was written ------------------------------------------------------------------


class ErasedMeanwhile(Disk):
    """Another process erases, or deletes, before or after the listing is there."""

    def __init__(self, root: Path, verb: str, *, after: bool) -> None:
        self.root, self.verb, self.after = root, verb, after
        self.is_done = False

    def create(self, path: Path) -> int:
        if not self.after:
            self._erase(path)
        return super().create(path)

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        if self.after:
            self._erase(old)

    def _erase(self, path: Path) -> None:
        async def erase() -> None:
            async with FileStorage(self.root) as other:
                await (other.delete("chat") if self.verb == "delete" else other.redact("chat", [1]))

        if ".listing." in path.name and not self.is_done:
            self.is_done = True
            asyncio.run(erase())


def _holding(root: Path, words: bytes) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and words in path.read_bytes()]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("verb", ["redact", "delete"])
async def test_what_is_erased_while_the_listing_is_written_is_not_in_it(
    root: Path, verb: str, after: bool
) -> None:
    async with Log(FileStorage(root)) as log:
        await log.append("chat", MessageAdded("user", (Text("swordfish"),)))
        await log.append("other", Noted("one"))
    await settle()
    disk = ErasedMeanwhile(root, verb, after=after)
    async with Log(FileStorage(root, disk=disk)) as log:
        found = await tokens(log.storage)
        await log.storage.store_rows({"chat": (found["chat"], b"swordfish")})
        assert disk.is_done
        assert _holding(root, b"swordfish") == []


async def test_a_listing_that_cannot_be_written_keeps_nothing_from_closing(root: Path) -> None:
    class Unwritable(Disk):
        def names(self, path: Path) -> list[str]:
            if self.is_broken and path.name == "chats":
                raise OSError(errno.EIO, "no medium")
            return super().names(path)

        is_broken = False

    disk = Unwritable()
    storage = FileStorage(root, disk=disk)
    for number in range(40):
        await Log(storage).append(str(number), Noted("one"))
    await settle()
    await _store_all(storage)
    await Log(storage).append("1", Noted("two"))
    await settle()
    await storage.store_rows({"1": ((await tokens(storage))["1"], b"a row")})
    disk.is_broken = True
    await storage.close()


async def test_a_place_that_is_only_read_and_not_there_is_no_empty_store(tmp_path: Path) -> None:
    mistyped = FileStorage(tmp_path / "mistyped", read_only=True)
    with pytest.raises(NoSuchStore, match="there is no folder"):
        await anext(mistyped.chats())
    assert not (tmp_path / "mistyped").exists()
