"""Something else stands where a file or folder of ours should be: it is not followed, not written, not waited for."""

import asyncio
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chatfold.eventlog import ChatfoldError, FileStorage, Log, Noted, check, repair, salvage, scan
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.disk import Disk
from tests.support.damage.broken import segments
from tests.support.judges.talk import entries_of, ids_of, is_clean, short
from tests.support.listing import settle, tokens

SECRET = b"nothing of this is for a chat\n" * 40
LARGE = "a text too large for a line " * 40_000


@pytest.fixture
def template(fast_folder: Path) -> Path:
    """A store with everything that a store can have: segments, a blob, a long key, all caches, something set aside."""
    root = fast_folder / "template"
    asyncio.run(_fill(root))
    with segments(root / "chats" / "chat")[-1].open("ab") as segment:
        segment.write(b"torn")
    asyncio.run(_touch(root))
    return root


async def _fill(root: Path) -> None:
    async with Log(FileStorage(root, segment_bytes=1_500)) as log:
        for number in range(12):
            await log.append("chat", *short(f"a{number}"), id=f"a{number}")
        await log.append("chat", Noted("large", LARGE))
        await log.append("k" * 300, Noted("n"))
        head = await log.head("chat")
        await log.storage.store_snapshot("chat", Head(head.seq, head.link), b"snapshot")
        await settle()
        await _list(log)
        await log.search("chat", "said")
        async with log.storage.lease("chat"):
            pass


async def _touch(root: Path) -> None:
    async with Log(FileStorage(root, segment_bytes=1_500)) as log:
        await log.append("chat", *short("b"), id="b")


def _link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def _fifo(path: Path, victim: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, victim: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(SECRET)


def _device(path: Path, victim: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 7))  # /dev/full
    except PermissionError:
        pytest.skip("only root may make devices")


PLANTS: list[Callable[[Path, Path], None]] = [_link, _fifo, _folder, _device]


async def _list(log: Log) -> None:
    await log.storage.store_rows(
        {key: (token, b"a row") for key, token in (await tokens(log.storage)).items()}
    )


def _verbs(log: Log, root: Path) -> Iterator[Awaitable[object] | None]:
    """Everything that opens files, one after the other."""

    async def read() -> None:
        assert SECRET[:20].decode() not in repr([entry.event async for entry in log.read("chat")])

    yield log.append("chat", *short("c"), id="c")
    yield read()
    yield log.search("chat", "said")
    yield asyncio.to_thread(lambda: list(scan(root / "chats" / "chat")))
    yield asyncio.to_thread(check, root / "chats" / "chat")
    yield log.storage.store_snapshot("chat", Head(3, "0" * 16), b"snapshot")
    yield _list(log)
    yield log.append("chat", Noted("large", LARGE))
    yield log.append("k" * 300, Noted("n"))
    yield log.fork("chat", "fork", 9)
    yield log.redact("chat", 2)
    yield asyncio.to_thread(repair, root / "chats" / "chat")
    yield asyncio.to_thread(salvage, root / "chats" / "chat", root / "salvaged")
    yield log.delete("chat")


async def _use(root: Path) -> None:
    log = Log(FileStorage(root, segment_bytes=1_500))
    for verb in _verbs(log, root):
        assert verb is not None
        with suppress(OSError, ChatfoldError):
            await asyncio.wait_for(verb, 10)
    with suppress(OSError, ChatfoldError):
        await asyncio.wait_for(log.storage.close(), 10)


@pytest.mark.campaign
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__[1:])
def test_nothing_but_a_file_is_opened_where_a_file_should_be(
    template: Path, plant: Callable[[Path, Path], None]
) -> None:
    names = sorted(str(path.relative_to(template)) for path in template.rglob("*") if path.is_file())
    assert len(names) > 15
    if plant is not _link:
        names = names[::2]  # what is no file is told as such by one function
    for name in names:
        root = template.with_name("store")
        shutil.copytree(template, root)
        victim = template.with_name("victim")
        victim.write_bytes(SECRET)
        before = victim.stat()
        (root / name).unlink()
        plant(root / name, victim)
        asyncio.run(_use(root))
        assert victim.read_bytes() == SECRET, name
        assert (victim.stat().st_mode, victim.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns), (
            name
        )
        shutil.rmtree(root)


def test_a_link_in_the_place_of_a_chat_leads_nowhere(template: Path) -> None:
    """Whoever put it there could have made us write, or remove, something elsewhere."""
    outside = template.with_name("outside")
    outside.mkdir()
    names = {"precious", "0000000000000001.jsonl", ".x.tmp", "lock"}
    for name in names:
        (outside / name).write_bytes(SECRET)
    shutil.rmtree(template / "chats" / "chat")
    (template / "chats" / "chat").symlink_to(outside)
    asyncio.run(_use(template))
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == dict.fromkeys(names, SECRET)


@pytest.mark.parametrize("name", ["blobs", "cache", "aside", "lock", "head"])
def test_a_link_inside_a_chat_is_told_by_check(template: Path, name: str) -> None:
    path = template / "chats" / "chat" / name
    path.rename(template / "elsewhere")
    path.symlink_to(template / "elsewhere")
    [problem] = [problem for problem in check(path.parent).problems if problem.kind == "damaged"]
    assert (problem.path, problem.message) == (path, "a link where a file should be")


@pytest.mark.parametrize("name", ["blobs", "cache", "aside"])
async def test_a_link_in_the_place_of_a_folder_is_not_followed(template: Path, name: str) -> None:
    """Nothing is read, written or removed where it leads."""
    path = template / "chats" / "chat" / name
    outside = template.with_name("outside")
    path.rename(outside)
    (outside / "precious").write_bytes(SECRET)
    (outside / ".x.tmp").write_bytes(SECRET)
    path.symlink_to(outside)
    before = {inner: inner.read_bytes() for inner in outside.rglob("*") if inner.is_file()}
    await _use(template)
    assert {inner: inner.read_bytes() for inner in outside.rglob("*") if inner.is_file()} == before


async def test_who_needs_a_blob_behind_a_link_is_told_the_place(template: Path) -> None:
    path = template / "chats" / "chat" / "blobs"
    path.rename(template / "elsewhere")
    path.symlink_to(template / "elsewhere")
    async with Log(FileStorage(template)) as log:
        with pytest.raises(NotADirectoryError, match=str(path)):
            [_ async for _ in log.read("chat")]
        with pytest.raises(NotADirectoryError, match=str(path)):
            await log.append("chat", Noted("larger", LARGE + "!"))
        with pytest.raises(NotADirectoryError, match=str(path)):
            await log.redact("chat", 2)
        await log.append("chat", Noted("small"))  # nothing was begun that keeps others from going on
    assert not [name for name in Disk().names(template) if name.startswith("redacting-")]


class Racing(Disk):
    """Whoever knew the name of a file to come puts a link to somewhere else there first."""

    def __init__(self, victim: Path) -> None:
        self._victim = victim
        self.planted = 0

    def create(self, path: Path) -> int:
        if path.suffix == ".tmp":
            path.symlink_to(self._victim)
            self.planted += 1
        return super().create(path)


async def test_a_temporary_file_that_is_there_already_is_not_used(fast_folder: Path) -> None:
    victim = fast_folder / "victim"
    victim.write_bytes(SECRET)
    disk = Racing(victim)
    async with Log(FileStorage(fast_folder / "store", segment_bytes=100)) as log:
        await log.append("chat", *short("a"), id="a")
    log = Log(FileStorage(fast_folder / "store", segment_bytes=100, disk=disk))
    with pytest.raises(FileExistsError):
        await log.append("chat", *short("b"), id="b")
    await log.storage.close()
    assert disk.planted
    assert victim.read_bytes() == SECRET
    async with Log(FileStorage(fast_folder / "store", segment_bytes=100)) as log:
        await log.append("chat", *short("b"), id="b")
    assert ids_of(fast_folder / "store" / "chats" / "chat") == ["a", "b"]


# --- what may be a link -------------------------------------------------------------------------------------


async def test_the_store_itself_may_be_a_link(fast_folder: Path) -> None:
    (fast_folder / "real").mkdir()
    (fast_folder / "store").symlink_to(fast_folder / "real")
    async with Log(FileStorage(fast_folder / "store")) as log:
        await log.append("chat", *short("a"), id="a")
    assert ids_of(fast_folder / "real" / "chats" / "chat") == ["a"]


async def test_a_store_that_is_exchanged_under_a_writer_is_another_store(fast_folder: Path) -> None:
    """What was acknowledged stays where it was written; what comes goes where the path leads now; nothing in between."""
    store = fast_folder / "store"
    async with Log(FileStorage(store)) as log:
        await log.append("chat", *short("a"), id="a")
        await log.append("chat", *short("b"), id="b")
        store.rename(fast_folder / "old")
        with suppress(ChatfoldError, OSError):  # it says once that the chat is gone
            await log.append("chat", *short("c"), id="c")
        await log.append("chat", *short("c"), id="c")
    assert ids_of(fast_folder / "old" / "chats" / "chat") == ["a", "b"]
    assert ids_of(store / "chats" / "chat") == ["c"]


async def test_a_chat_of_hard_links_is_one_log_with_two_names(fast_folder: Path) -> None:
    """As ``cp -al`` makes it: the lock is shared with the segments, so both names stay whole and hold the same."""
    one, two = (fast_folder / name / "chats" / "chat" for name in ("one", "two"))
    async with Log(FileStorage(fast_folder / "one")) as log:
        await log.append("chat", *short("a"), id="a")
    shutil.copytree(one.parents[1], two.parents[1], copy_function=os.link)
    async with Log(FileStorage(one.parents[1])) as log, Log(FileStorage(two.parents[1])) as other:
        for number in range(5):
            await log.append("chat", *short(f"one{number}"), id=f"one{number}")
            await other.append("chat", *short(f"two{number}"), id=f"two{number}")
    assert entries_of(one) == entries_of(two)
    assert len(ids_of(one)) == 11
    assert is_clean(two)
