"""The list of chats is what opening each of them shows, whatever was done and whatever became of the cache;
and it reads only what changed.
"""

import asyncio
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
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from chatfold.agent import Store
from chatfold.agent.store import Listed, _Row
from chatfold.eventlog import (
    ChatDeleted,
    ChatExists,
    ChatfoldError,
    ChatStarted,
    Event,
    FileStorage,
    Head,
    Log,
    NoSuchChat,
    NoSuchPoint,
    NoSuchStore,
    repair,
)
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.segment import segment_name
from chatfold.eventlog.keys import folder_name
from chatfold.eventlog.line import add_checksum
from chatfold.projections import Outline, Projection, fold, lineage, outline, start, turn
from chatfold.projections.packing import pack
from chatfold.testing.strategies import batches
from tests.support.clock import TickingClock
from tests.support.histories import talks, user
from tests.support.judges.talk import digest_of
from tests.support.listing import SETTLED_S, settle, tokens
from tests.support.profile import searched
from tests.support.storages import Opener, everywhere

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
KEYS = ("a", "B/ü", "too long for a folder " * 10)
keys = st.sampled_from(KEYS)
seqs = st.integers(0, 12)
words = st.sampled_from(("a", "b", "\ud800"))
SHOWN: tuple[Projection[Any], ...] = (outline, lineage, turn)


async def listed(store: Store, prefix: str = "", where: dict[str, str] | None = None) -> list[Listed]:
    return sorted([one async for one in store.chats(prefix, where=where)], key=lambda one: one.key)


async def keys_of(log: Log) -> list[str]:
    return sorted([key async for key in log.chats()])


async def has_words(log: Log, key: str, where: dict[str, str]) -> bool:
    """By reading all of it."""
    metas = [entry.event.meta async for entry in log.read(key) if isinstance(entry.event, ChatStarted)]
    return all([meta[name] for meta in metas if name in meta][-1:] == [word] for name, word in where.items())


async def as_opened(log: Log) -> list[Listed]:
    """What the list must be: each chat folded from its first entry."""
    found = []
    for key in await keys_of(log):
        view = fold(start(SHOWN), [entry async for entry in log.read(key)])
        found.append(Listed(key, view[outline], view[lineage].parent, view[turn].is_open))
    return found


class Lists(RuleBasedStateMachine):
    """Two stores, as two processes have them, on the same files."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(dir=MEMORY))
        self.clock = TickingClock()
        self.stores = [self.opened(), self.opened()]

    def opened(self) -> Store:
        return Store(FileStorage(self.root, clock=self.clock, segment_bytes=2000, durability="off"))

    def teardown(self) -> None:
        for store in self.stores:
            self.run(store.close())
        self.runner.close()
        shutil.rmtree(self.root)

    def run(self, work: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            with suppress(ChatDeleted, ChatExists, NoSuchChat, NoSuchPoint):  # not every chat is there
                return await work

        return self.runner.run(wait())

    @property
    def cache(self) -> Path:
        return self.root / "cache" / "listing"

    # --- what happens ------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self.run(self.stores[0].log.append("a", ChatStarted("a", "A title")))

    @rule(which=st.integers(0, 1), key=keys, events=talks() | batches())
    def append(self, which: int, key: str, events: list[Event]) -> None:
        for event in events:
            self.run(self.stores[which].log.append(key, event))

    @rule(
        which=st.integers(0, 1),
        key=keys,
        meta=st.dictionaries(st.sampled_from(("user", "app")), words, min_size=1, max_size=2),
    )
    def start(self, which: int, key: str, meta: dict[str, str]) -> None:
        self.run(self.stores[which].log.append(key, ChatStarted(key, meta=meta)))

    @rule(key=keys)
    def append_many(self, key: str) -> None:
        """More than are read without a snapshot."""
        self.run(self.stores[0].log.append(key, *[user(f"the {number}. question") for number in range(300)]))

    @rule(which=st.integers(0, 1), key=keys, new=keys, at=st.none() | seqs)
    def fork(self, which: int, key: str, new: str, at: int | None) -> None:
        self.run(self.stores[which].log.fork(key, new, at))

    @rule(which=st.integers(0, 1), key=keys, seqs=st.lists(seqs, min_size=1, max_size=3))
    def redact(self, which: int, key: str, seqs: list[int]) -> None:
        self.run(self.stores[which].log.redact(key, *seqs))

    @rule(which=st.integers(0, 1), key=keys)
    def delete(self, which: int, key: str) -> None:
        self.run(self.stores[which].delete(key))

    @rule(which=st.integers(0, 1), key=keys, new=keys)
    def adopt(self, which: int, key: str, new: str) -> None:
        storage = self.stores[which].log.storage
        self.run(storage.import_chat(new, storage.export(key)))

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.run(self.stores[which].close())
        self.stores[which] = self.opened()

    # --- what happens to the cache -----------------------------------------------------------------------

    @rule()
    def wait(self) -> None:
        """From now on, rows of chats that did not change are believed."""
        time.sleep(SETTLED_S)

    @rule()
    def delete_the_cache(self) -> None:
        shutil.rmtree(self.root / "cache", ignore_errors=True)

    @rule(part=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
    def damage_the_cache(self, part: float, bit: int) -> None:
        if self.cache.exists():
            content = bytearray(self.cache.read_bytes())
            content[int(part * len(content))] ^= 1 << bit
            self.cache.write_bytes(content)

    @rule()
    def keep_what_older_code_listed(self) -> None:
        row = pack(_Row(tuple(p.version - 1 for p in SHOWN), head=Head(1, "a" * 16)))
        self.keep(row)

    def keep(self, row: bytes) -> None:
        storage = self.stores[0].log.storage
        found = self.run(tokens(storage))
        self.run(storage.store_rows({key: (token, row) for key, token in found.items()}))

    @rule(
        data=st.binary(max_size=9)
        | st.sampled_from(
            (b"\x80", b"\x90", b"\x93\x90\x90\x90", b"\x93\x93\x01\x01\x01\x92\x01\xa0\x93\x80\x80\x80")
        )
    )
    def keep_anything(self, data: bytes) -> None:
        self.keep(data)

    # --- what must be true -------------------------------------------------------------------------------

    @rule(which=st.integers(0, 1))
    def the_list_is_what_opening_shows(self, which: int) -> None:
        expected = self.run(as_opened(self.stores[which].log))
        assert self.run(listed(self.stores[which])) == expected

    @rule(
        which=st.integers(0, 1),
        prefix=st.sampled_from(("", "B", "none")),
        where=st.dictionaries(st.sampled_from(("user", "app")), words, max_size=2),
    )
    def chats_are_chosen_by_their_words(self, which: int, prefix: str, where: dict[str, str]) -> None:
        log = self.stores[which].log
        expected = [key for key in self.run(keys_of(log)) if self.run(has_words(log, key, where))]
        found = self.run(listed(self.stores[which], prefix, where))
        assert [one.key for one in found] == [key for key in expected if key.startswith(prefix)]


TestLists = Lists.TestCase
TestLists.settings = searched(1)


# --- what a list shows -----------------------------------------------------------------------------------


@everywhere
async def test_a_chat_is_listed_with_what_a_list_shows(storages: Opener) -> None:
    async with Store(storages()) as store:
        assert await listed(store) == []
        await (await store.chat("nobody")).messages("openai")
        await store.log.append("chat", ChatStarted("chat", "A title"), user("why"))
        await store.log.fork("chat", "fork", 1)
        [chat, fork] = await listed(store)
        assert (chat.key, chat.outline.title, chat.outline.turns, chat.parent) == ("chat", "A title", 1, None)
        assert (fork.key, fork.outline.turns, fork.parent and fork.parent.parent) == ("fork", 0, "chat")
        assert await as_opened(store.log) == [chat, fork]


@everywhere
async def test_a_chat_that_took_the_place_of_one_with_as_many_entries_is_listed(storages: Opener) -> None:
    async with Store(storages()) as store:
        for title in ("One title", "Two title"):
            await store.log.append("chat", ChatStarted("chat", title))
            assert [one.outline.title for one in await listed(store)] == [title]
            await store.delete("chat")
        assert await listed(store) == []


async def test_a_chat_that_cannot_be_read_has_no_words(root: Path) -> None:
    async with Store(root) as store:
        for key in ("a/1", "a/2"):
            await store.log.append(key, ChatStarted(key, meta={"user": "u7"}), user("a question"))
        flip(root / "chats" / folder_name("a/1"))
        assert [one.key for one in await listed(store, where={"user": "u7"})] == ["a/2"]
        assert [one.error is None for one in await listed(store, "a/")] == [False, True]


async def test_words_that_were_erased_are_neither_listed_nor_kept(root: Path) -> None:
    async with Store(root) as store:
        await store.log.append("chat", user("the password is swordfish"))
        await listed(store)
        await store.log.redact("chat", 1)
        assert not holding(root, b"swordfish")
        [chat] = await listed(store)
        assert "swordfish" not in repr(chat)
        await store.log.append("other", user("the password is swordfish"))
        await listed(store)
        await store.delete("other")
    assert not holding(root, b"swordfish")


async def test_words_that_were_erased_by_a_process_that_died_then_are_not_listed(root: Path) -> None:
    """Between the erasure and the event that tells of it."""
    async with Store(root) as store:
        await store.log.append("chat", user("the password is swordfish"))
        await listed(store)
        async with FileStorage(root) as other:
            await other.redact("chat", [1])
        assert "swordfish" not in repr(await listed(store))


async def test_words_that_were_erased_are_not_listed_again_when_the_chat_goes_on(root: Path) -> None:
    """The event that tells of the erasure is missing: its process died before."""
    async with Store(root) as store:
        await store.log.append("chat", user("the password is swordfish"))
        await settle()
        await listed(store)
        async with Log(FileStorage(root)) as other:
            await other.storage.redact("chat", [1])
            await other.append("chat", user("and then"))
        assert "swordfish" not in repr(await listed(store))


def holding(root: Path, words: bytes) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and words in path.read_bytes()]


async def test_a_chat_of_any_key_is_listed(root: Path) -> None:
    async with Store(root) as store:
        await store.log.append("\ud800", user("why"))
        assert [one.key for one in await listed(store)] == ["\ud800"]


# --- a chat that cannot be read --------------------------------------------------------------------------


def flip(folder: Path) -> None:
    change(folder, lambda content: content.replace(b"question", b"quest1on", 1))


def cut(folder: Path) -> None:
    change(folder, lambda content: content[:-9])


def make_newer(folder: Path) -> None:
    head = add_checksum(b'{"chatfold":9,"reader":9,"first":1,"prev":"%b"' % Head().link.encode())
    change(folder, lambda content: head + content[content.index(b"\n") :])


def change(folder: Path, how: Callable[[bytes], bytes]) -> None:
    segment = min(folder.glob("*.jsonl"))
    segment.write_bytes(how(segment.read_bytes()))


def link_a_segment(folder: Path) -> None:
    segment = max(folder.glob("*.jsonl"))
    segment.rename(folder / "elsewhere")
    segment.symlink_to(folder / "elsewhere")


def remove_all_segments(folder: Path) -> None:
    for segment in folder.glob("*.jsonl"):
        segment.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        flip,
        cut,
        make_newer,
        link_a_segment,
        remove_all_segments,
    ],
)
async def test_a_damaged_chat_is_listed_with_its_error_and_hides_no_other(
    root: Path, damage: Callable[[Path], None]
) -> None:
    async with Store(root) as store:
        for key in ("a", "b", "c"):
            await store.log.append(key, user("a question"), user("another question"))
    damage(root / "chats" / "b")
    async with Store(root) as store:
        for _ in range(2):
            [a, b, c] = await listed(store)
            assert isinstance(b.error, ChatfoldError | OSError)
            assert (b.key, b.outline) == ("b", Outline())
            assert (a.outline.turns, a.error, c.outline.turns, c.error) == (2, None, 2, None)


async def test_a_file_among_the_chats_hides_none(root: Path) -> None:
    async with Store(root) as store:
        await store.log.append("a", user("a question"))
        (root / "chats" / "notes").write_bytes(b"not a chat")
        assert [one.key for one in await listed(store) if one.error is None] == ["a"]


async def test_a_chat_that_is_mended_is_listed_again(root: Path) -> None:
    async with Store(root) as store:
        await store.log.append("a", user("a question"))
        await store.log.append("a", user("another question"))
        flip(root / "chats" / "a")
        assert [one.error is not None for one in await listed(store)] == [True]
        repair(root / "chats" / "a")
        assert await listed(store) == await as_opened(store.log)


# --- what is read ----------------------------------------------------------------------------------------


class Counting(Disk):
    """Of which chats segments were read, and how much of them."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.bytes = 0
        self._segments: dict[int, str] = {}

    def open_read(self, path: Path) -> int:
        fd = super().open_read(path)
        if path.suffix == ".jsonl":
            self._segments[fd] = path.parent.name
        return fd

    def close(self, fd: int) -> None:
        self._segments.pop(fd, None)
        super().close(fd)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        if fd in self._segments:
            self.read.append(self._segments[fd])
            self.bytes += len(data)
        return data


async def read_by(store: Store, disk: Counting) -> list[str]:
    """The chats of which listing reads a segment."""
    disk.read.clear()
    await listed(store)
    return sorted(set(disk.read))


async def test_of_chats_that_did_not_change_nothing_is_read(root: Path) -> None:
    disk = Counting()
    async with Store(FileStorage(root, disk=disk)) as store:
        for key in ("a", "b", "c"):
            await store.log.append(key, user("a question"))
    await settle()
    async with Store(FileStorage(root, disk=disk)) as store:
        assert await read_by(store, disk) == ["a", "b", "c"]
        assert await read_by(store, disk) == []
        await store.log.append("b", user("another question"))
        await settle()
        assert await read_by(store, disk) == ["b"]
        await store.log.fork("a", "d")
        await settle()
        assert await read_by(store, disk) == ["d"]
    async with Store(FileStorage(root, disk=disk)) as store:
        assert "a" not in await read_by(store, disk)
        assert await read_by(store, disk) == []
    async with Store(FileStorage(root, disk=disk, read_only=True)) as store:
        assert await read_by(store, disk) == []


async def test_a_long_chat_with_a_snapshot_is_listed_by_reading_little_of_it(root: Path) -> None:
    async with Store(root) as store:
        for _ in range(20):
            await store.log.append("chat", *[user(f"the {number}. question") for number in range(200)])
        await store.chat("chat")  # keeps a snapshot
        await store.log.append("chat", user("one more"))
    disk = Counting()
    async with Store(FileStorage(root, disk=disk)) as store:
        [chat] = await listed(store)
        assert chat.outline.turns == 4_001
    whole = (root / "chats" / "chat" / segment_name(1)).stat().st_size
    assert whole > 500_000
    assert disk.bytes < whole // 4


async def test_a_read_only_store_lists_and_writes_nothing(root: Path) -> None:
    async with Store(root) as store:
        for key in ("a", "b"):
            await store.log.append(key, *[user("a question") for _ in range(300)])
    before = digest_of(root)
    async with Store(root, read_only=True) as store:
        expected = await as_opened(store.log)
        assert await listed(store) == await listed(store) == expected
    assert digest_of(root) == before
    async with Store(root / "nowhere", read_only=True) as store:
        with pytest.raises(NoSuchStore):
            await listed(store)
    assert digest_of(root) == before
