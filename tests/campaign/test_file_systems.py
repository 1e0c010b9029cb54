"""File systems that say no, by themselves: without inodes, read-only, immutable; without locks, links or syncs; and very full."""

import asyncio
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chatfold.eventlog import ChatfoldError, DiskFull, FileStorage, Log, ReadOnly
from tests.support.damage.broken import make_healthy, segments
from tests.support.disk.faulty_disk import FailingDisk, WatchedDisk
from tests.support.judges.talk import digest_of, entries_of, ids_of, is_clean, short
from tests.support.processes.operations import opened

Mount = Callable[[str], Path]


def _done(*command: str) -> bool:
    return not subprocess.run(command, check=False, capture_output=True).returncode


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A small file system in memory, with these options."""
    folder = tmp_path / "mounted"
    folder.mkdir()

    def mounted(options: str) -> Path:
        if not _done("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)):
            pytest.skip("only root may mount")
        return folder

    yield mounted
    _done("umount", "-l", str(folder))


async def _append(log: Log, chat: str, *names: str) -> None:
    for name in names:
        await log.append(chat, *short(name), id=name)


# --- real ones ----------------------------------------------------------------------------------------------


async def test_without_inodes_new_chats_are_refused_and_old_ones_go_on(mount: Mount) -> None:
    root = mount("size=4m,nr_inodes=24")
    made = 0
    async with Log(FileStorage(root)) as log:
        with suppress(DiskFull):
            while made < 24:
                await _append(log, f"chat{made}", "a")
                made += 1
        assert 1 < made < 24
        await _append(log, "chat0", "b", "c")
        assert sorted([key async for key in log.chats()]) == sorted(f"chat{number}" for number in range(made))
        await log.delete("chat1")
        await _append(log, "another", "a")
    assert ids_of(root / "chats" / "chat0") == ["a", "b", "c"]
    assert all(is_clean(root / "chats" / name) for name in ("chat0", "another"))


def test_a_file_system_mounted_read_only_is_read_and_says_so(mount: Mount) -> None:
    root = mount("size=4m")
    folder = make_healthy(root)
    assert _done("mount", "-o", "remount,ro", str(root))
    before = digest_of(root)

    async def look() -> None:
        async with Log(FileStorage(root)) as log:
            assert len([entry async for entry in log.read("chat", 2)]) == 29
            for chat in ("chat", "new"):
                with pytest.raises(ReadOnly):
                    await _append(log, chat, "x")

    asyncio.run(look())
    assert digest_of(root) == before
    assert len(entries_of(folder)) == 30


@pytest.mark.parametrize("flag", ["i", "a"])
async def test_a_segment_that_may_not_be_changed(tmp_path: Path, flag: str) -> None:
    """Immutable: it is said. Only to be appended to: that is all we do, until something torn is to be cut off."""
    async with opened(tmp_path) as log:
        await _append(log, "chat", "a")
    [segment] = segments(tmp_path / "chats" / "chat")
    if flag == "a":
        with segment.open("ab") as file:
            file.write(b"torn")
    if not _done("chattr", f"+{flag}", str(segment)):
        pytest.skip("no such flags here")
    try:
        async with opened(tmp_path) as log:
            with pytest.raises(ReadOnly):
                await _append(log, "chat", "b")
    finally:
        assert _done("chattr", f"-{flag}", str(segment))
    async with opened(tmp_path) as log:
        await _append(log, "chat", "b")
    assert ids_of(tmp_path / "chats" / "chat") == ["a", "b"]


# --- those that cannot do something -------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("lock", errno.ENOLCK),
        ("lock", errno.EOPNOTSUPP),
        ("sync", errno.EINVAL),
        ("sync_folder", errno.EINVAL),
        ("rename", errno.EXDEV),
        ("rename", errno.ENOSYS),
    ],
    ids=str,
)
async def test_what_cannot_be_locked_or_made_durable_is_not_written(
    fast_folder: Path, kind: str, code: int
) -> None:
    """Such a file system is found out by the first append, and not worked around: nobody would know what holds."""
    log = opened(fast_folder, FailingDisk(1, code, kinds=[kind], forever=True))
    for _ in range(3):
        with pytest.raises((OSError, ChatfoldError)):
            await _append(log, "chat", "a")
    with suppress(OSError, ChatfoldError):
        await log.storage.close()
    async with opened(fast_folder) as log:
        assert (await log.head("chat")).seq == 0
        await _append(log, "chat", "a")
    assert ids_of(fast_folder / "chats" / "chat") == ["a"]


@pytest.mark.smoke
@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS])
async def test_without_hard_links_a_fork_is_a_copy(fast_folder: Path, code: int) -> None:
    disk = FailingDisk(1, code, kinds=["link"], forever=True)
    async with opened(fast_folder, disk) as log:
        await _append(log, "chat", *(f"a{number}" for number in range(20)))
        await log.fork("chat", "fork", 18)
        await log.delete("chat")
    assert disk.failed
    folder = fast_folder / "chats" / "fork"
    assert all(path.stat().st_nlink == 1 for path in segments(folder))
    assert len(entries_of(folder)) == 19
    assert is_clean(folder)


# --- very full ones -----------------------------------------------------------------------------------------


class Counting(WatchedDisk):
    """How often it was asked for anything."""

    calls = 0

    def before(self, kind: str) -> None:
        self.calls += 1


async def test_a_hundred_thousand_chats_are_listed_with_one_call(fast_folder: Path) -> None:
    root = fast_folder / "store"
    async with Log(FileStorage(root)) as log:
        await _append(log, "mine", "a")
    for number in range(100_000):
        os.mkdir(root / "chats" / f"chat-{number}", 0o700)  # noqa: PTH102 (a Path takes longer than the folder)
    disk = Counting()
    async with Log(FileStorage(root, disk=disk)) as log:
        assert len([key async for key in log.chats()]) == 100_001
        assert disk.calls == 1
        await _append(log, "mine", "b")
        assert disk.calls < 100
    shutil.rmtree(root)


async def test_the_number_of_segments_costs_nothing_but_their_names(fast_folder: Path) -> None:
    """To open, append, read at the end, in the middle: as many calls with 1,000 segments as with 100."""
    calls = []
    for count in (100, 1_000):
        root = fast_folder / str(count)
        async with Log(FileStorage(root, segment_bytes=1, durability="off")) as log:
            await _append(log, "chat", *(f"a{number}" for number in range(count)))
        disk = Counting()
        async with Log(FileStorage(root, disk=disk, segment_bytes=1)) as log:
            await _append(log, "chat", "b")
            assert [entry.seq for entry in await log.last("chat", 2)] == [count, count + 1]
            assert [entry.seq async for entry in log.read("chat", count // 2, count // 2)] == [count // 2]
        calls.append(disk.calls)
    assert calls[1] < calls[0] + 20
