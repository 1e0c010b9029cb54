"""``chatfold tree`` of forks that are more than a tree: deep ones, and those that come from each other."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from chatfold.eventlog import ChatStarted, FileStorage, Forked, Log
from tests.support.debugger.commanded import lines, run


def _told(*args: str, store: Path) -> list[tuple[str, int]]:
    return [(line["key"], line["depth"]) for line in lines(run("tree", *args, "--json", store=store))]


def test_a_fork_that_took_the_key_of_the_chat_it_comes_from(root: Path) -> None:
    """By nothing but forking and deleting."""

    async def make() -> None:
        async with Log(FileStorage(root)) as log:
            await log.append("a", ChatStarted("a"))
            await log.fork("a", "b")
            await log.delete("a")
            await log.fork("b", "a")
            await log.fork("a", "c")

    asyncio.run(make())
    expected = [("b", 0), ("a", 1), ("c", 2)]
    for args in ([], ["a"], ["b"], ["c"], ["--all"]):
        assert _told(*args, store=root) == expected


@pytest.mark.parametrize(
    "parents", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "a", "d": "b"}]
)
def test_chats_that_say_they_come_from_each_other(root: Path, parents: dict[str, str]) -> None:
    asyncio.run(_make(root, parents))
    assert sorted(key for key, _ in _told("--all", store=root)) == sorted(parents)
    for key in parents:
        assert key in dict(_told(key, store=root))


@pytest.mark.campaign
def test_forks_deeper_than_the_stack() -> None:
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a thousand syncs need not be real
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        asyncio.run(_make(Path(folder), {str(depth): str(depth - 1) for depth in range(1_100)}))
        assert _told("700", store=Path(folder)) == [(str(depth), depth) for depth in range(1_100)]


async def _make(root: Path, parents: dict[str, str]) -> None:
    async with Log(FileStorage(root, durability="off")) as log:
        for key, parent in parents.items():
            await log.append(key, ChatStarted(key), Forked(parent, 1))
