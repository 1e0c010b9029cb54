"""A cache from before an erasure does not say what was erased, also if all of ``cache/`` is put back."""

import shutil
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Head, Log, Noted, check
from chatfold.eventlog.files.disk import Disk


async def _filled(root: Path) -> Path:
    async with Log(FileStorage(root)) as log:
        await log.append("chat", *(Noted(f"secret {number}") for number in range(600)))
        await log.storage.store_snapshot("chat", Head(600, "a" * 16), b"secret 1")
        await log.search("chat", "secret")
    return root / "chats" / "chat"


async def test_a_cache_that_is_put_back_is_not_believed(root: Path, tmp_path: Path) -> None:
    chat = await _filled(root)
    shutil.copytree(chat / "cache", tmp_path / "backup")
    async with Log(FileStorage(root)) as log:
        await log.redact("chat", *range(1, 601))
    shutil.rmtree(chat / "cache")
    shutil.copytree(tmp_path / "backup", chat / "cache")
    async with Log(FileStorage(root, read_only=True)) as log:
        assert [data async for _, data in log.storage.load_snapshots("chat")] == []
        assert await log.search("chat", "secret") == []
    assert check(chat).problems == []


async def test_a_snapshot_of_today_names_no_epoch_and_counts_until_the_first_erasure(root: Path) -> None:
    chat = await _filled(root)
    assert b'"epoch":""' in (chat / "cache" / "newest.snapshot").read_bytes()
    async with Log(FileStorage(root)) as log:
        assert [data async for _, data in log.storage.load_snapshots("chat")] == [b"secret 1"]
        await log.redact("chat", 1)
        epoch = await log.storage.erasure_epoch("chat")
        assert (chat / "erased").read_text() == epoch != ""
        await log.storage.store_snapshot("chat", Head(600, "a" * 16), b"left", epoch)
        await log.fork("chat", "fork", 600)
        assert [data async for _, data in log.storage.load_snapshots("fork")] == [b"left"]
        await log.redact("chat", 2)
        assert await log.storage.erasure_epoch("chat") != epoch


class Recording(Disk):
    """What becomes durable, and what is put in the place of something, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self.done.append(f"rename {new.name}")

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self.done.append(f"sync {path.name}")


async def test_the_epoch_is_durable_before_a_payload_is_replaced(root: Path) -> None:
    await _filled(root)
    disk = Recording()
    async with Log(FileStorage(root, disk=disk)) as log:
        await log.redact("chat", 1)
    epoch, segment = disk.done.index("rename erased"), disk.done.index("rename 0000000000000001.jsonl")
    assert "sync chat" in disk.done[epoch:segment]


@pytest.mark.parametrize("plant", ["file", "folder", "link"])
async def test_the_first_writer_removes_what_it_does_not_know_in_the_cache(root: Path, plant: str) -> None:
    chat = await _filled(root)
    (chat / "erased").write_text("0" * 16)
    known = sorted(path.name for path in (chat / "cache").iterdir())
    outside = root.with_name("outside")
    outside.mkdir()
    (outside / "precious").write_text("x")
    foo = chat / "cache" / "foo"
    if plant == "file":
        foo.write_text("secret")
    elif plant == "folder":
        (foo / "inside").mkdir(parents=True)
    else:
        foo.symlink_to(outside)
    async with Log(FileStorage(root)) as log:
        await log.append("chat", Noted("next"))
        assert sorted(path.name for path in (chat / "cache").iterdir()) == known
    assert (outside / "precious").read_text() == "x"
