"""Many processes, many storages, many tasks: one log, in which everything stands exactly once."""

import asyncio
import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Log, Noted, check, scan
from chatfold.eventlog.files.chat_dir import sweep
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from tests.support.judges.talk import entries_of, ids_of, is_clean, short
from tests.support.processes.children import go, next_told, started, told

APPENDS = 60
FOLLOWED = int(os.environ.get("CHATFOLD_FOLLOWED", "1500"))
"""appends over padding that are looked at while they are written"""


def _write_at_once(root: Path, stack: ExitStack, writers: int, durability: str) -> dict[str, int]:
    """The first seq of each append that was acknowledged, by id."""
    children = [
        stack.enter_context(started("appending", root, "chat", f"w{n}", durability, 200_000, APPENDS))
        for n in range(writers)
    ]
    go(*children)
    words = [word for child in children for word in told(child)]
    assert [child.wait(30) for child in children] == [0] * writers
    return {name: int(first) for first, _, name in words}


def _end(root: Path) -> None:
    async def end() -> None:
        async with Log(FileStorage(root)) as log:
            await log.append("chat", Noted("end"))

    asyncio.run(end())


@pytest.mark.parametrize(("writers", "durability"), [(2, "full"), (4, "off")])
def test_processes_that_append_at_once_make_one_log(tmp_path: Path, writers: int, durability: str) -> None:
    with ExitStack() as stack:
        acknowledged = _write_at_once(tmp_path, stack, writers, durability)
    folder = tmp_path / "chats" / "chat"
    names = ids_of(folder)
    assert sorted(names) == sorted(acknowledged)
    assert len(names) == writers * APPENDS
    entries = entries_of(folder)
    assert all(entries[first - 1].id == name for name, first in acknowledged.items())
    for writer in range(writers):  # each process's own order is kept
        mine = [name for name in names if name.startswith(f"w{writer}.")]
        assert mine == [f"w{writer}.{number}" for number in range(APPENDS)]
    assert len(list(folder.glob("*.jsonl"))) > 3
    assert is_clean(folder)


def test_followers_and_readers_see_exactly_the_log_while_it_is_written(tmp_path: Path) -> None:
    with ExitStack() as stack:
        follower = stack.enter_context(started("following", tmp_path, "chat"))
        reader = stack.enter_context(started("reading", tmp_path, "chat"))
        _write_at_once(tmp_path, stack, 2, "off")
        _end(tmp_path)
        seen = told(follower)
        [[rounds]] = told(reader)
        assert (follower.wait(30), reader.wait(30)) == (0, 0)
    entries = entries_of(tmp_path / "chats" / "chat")
    assert seen == [[str(e.seq), e.sum, e.batch or "1/1"] for e in entries]
    assert int(rounds) > 2


def test_of_processes_that_append_after_the_same_entry_exactly_one_wins(tmp_path: Path) -> None:
    with ExitStack() as stack:
        children = {
            name: stack.enter_context(started("racing", tmp_path, "chat", name, 150))
            for name in ("a", "b", "c", "d")
        }
        go(*children.values())
        won = {int(seq): name for name, child in children.items() for [seq] in told(child)}
        assert [child.wait(30) for child in children.values()] == [0] * 4
    entries = entries_of(tmp_path / "chats" / "chat")
    assert len(entries) == 150
    assert {entry.seq: getattr(entry.event, "name", None) for entry in entries} == won


class SweptDisk(Disk):
    """Another process opens the store, and sweeps, right after the first call of this kind."""

    def __init__(self, root: Path, kind: str) -> None:
        self._root = root
        self._kind = kind

    def make_folder(self, path: Path) -> None:
        super().make_folder(path)
        self._sweep("make_folder", path)

    def open_update(self, path: Path) -> int:
        fd = super().open_update(path)
        self._sweep("open_update", path.parent)
        return fd

    def _sweep(self, kind: str, path: Path) -> None:
        if kind == self._kind and path.name.startswith(".new-"):
            self._kind = ""
            sweep(Disk(), self._root)


@pytest.mark.parametrize("kind", ["make_folder", "open_update"])
async def test_a_chat_that_is_being_made_survives_another_process_that_sweeps(
    fast_folder: Path, kind: str
) -> None:
    async with Log(FileStorage(fast_folder, disk=SweptDisk(fast_folder, kind))) as log:
        await log.append("chat", *short("a"), id="a")
        await log.append("chat", *short("b"), id="b")
    assert ids_of(fast_folder / "chats" / "chat") == ["a", "b"]


@pytest.mark.smoke
async def test_two_storages_in_one_process_make_one_log(fast_folder: Path) -> None:
    async with (
        Log(FileStorage(fast_folder, segment_bytes=3_000)) as one,
        Log(FileStorage(fast_folder, segment_bytes=3_000)) as two,
    ):

        async def write(log: Log, name: str) -> None:
            for number in range(100):
                await log.append("chat", *short(f"{name}.{number}", 2), id=f"{name}.{number}")

        await asyncio.gather(write(one, "one"), write(two, "two"))
    names = ids_of(fast_folder / "chats" / "chat")
    for name in ("one", "two"):
        assert [n for n in names if n.startswith(name)] == [f"{name}.{number}" for number in range(100)]
    assert is_clean(fast_folder / "chats" / "chat")


@pytest.mark.smoke
async def test_64_tasks_append_at_once_and_nothing_is_lost_or_doubled(fast_folder: Path) -> None:
    async with Log(FileStorage(fast_folder, segment_bytes=20_000)) as log:

        async def write(task: int) -> None:
            for number in range(10):
                name = f"{task}.{number}"
                answers = await asyncio.gather(
                    *(log.append("chat", *short(name, 1 + task % 3), id=name) for _ in range(2))
                )
                assert answers[0] == answers[1]

        await asyncio.gather(*(write(task) for task in range(64)))
    names = ids_of(fast_folder / "chats" / "chat")
    assert len(names) == 640
    for task in range(64):
        assert [n for n in names if n.startswith(f"{task}.")] == [f"{task}.{number}" for number in range(10)]


@pytest.mark.smoke
async def test_a_follower_in_the_same_storage_never_sees_half_a_batch(fast_folder: Path) -> None:
    async with Log(FileStorage(fast_folder, segment_bytes=2_000, durability="off")) as log:

        async def write() -> None:
            for number in range(200):
                await log.append("chat", *short(f"w{number}", 4), id=f"w{number}")

        writing = asyncio.create_task(write())
        seen = 0
        async for entry in log.follow("chat"):
            seen += 1
            assert entry.seq == seen
            if entry.batch == "1/4":  # the rest of it is there already
                assert len([e async for e in log.read("chat", seen, seen + 3)]) == 4
            if seen == 800:
                break
        await writing
    assert len(list(scan(fast_folder / "chats" / "chat"))) == 800


def test_half_an_append_over_padding_is_never_taken_for_damage(fast_folder: Path) -> None:
    """Who looks without the lock sees it now and then, and newlines behind it."""
    folder = fast_folder / "chats" / "chat"
    with started("appending", fast_folder, "chat", "w", "full", 1 << 17, FOLLOWED) as child:
        go(child)
        next_told(child, 20)
        listening = threading.Thread(target=told, args=[child])  # or its pipe is full
        listening.start()
        warm, heads = LogReader(folder, "chat", Disk()), set[int]()
        while listening.is_alive():
            cold = LogReader(folder, "chat", Disk())
            heads |= {warm.tail().position.seq, cold.tail().position.seq}
            assert warm.find_tail().position.seq >= max(heads)
        listening.join()
    assert len(heads) > 20
    assert check(folder).problems == []
