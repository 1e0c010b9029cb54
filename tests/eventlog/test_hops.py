"""How many functions of ours and how many calls of the disk it takes to append and to read the last entries.

A reader who wants to understand an append goes through these functions. The limits are what the code reaches today: who adds a hop
says why here.
"""

import sys
import threading
from collections import Counter
from collections.abc import Callable
from inspect import getsourcelines
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import chatfold.eventlog
from chatfold.eventlog import FileStorage, Log, MessageAdded, Text
from chatfold.eventlog.files.disk import Disk

OURS = str(Path(chatfold.eventlog.__file__).parent)


class CountingDisk(Disk):
    """Knows what it was asked for, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []


def _counted(name: str) -> Callable[..., Any]:
    call = getattr(Disk, name)

    def counted(disk: CountingDisk, *args: Any) -> Any:
        disk.calls.append(name)
        return call(disk, *args)

    return counted


for _name in [name for name in vars(Disk) if not name.startswith("_")]:
    setattr(CountingDisk, _name, _counted(_name))


class Hops:
    """Counts functions while ``is_counting``. Comprehensions are part of their functions."""

    def __init__(self) -> None:
        self.is_counting = False
        self.seen: Counter[tuple[str, str]] = Counter()
        self.longest = 0  # of these functions, in lines

    def __call__(self, frame: FrameType, event: str, _arg: object) -> None:
        code = frame.f_code
        is_ours = code.co_filename.startswith(OURS) and not code.co_name.startswith("<")
        if self.is_counting and event == "call" and is_ours:
            self.seen[code.co_filename, code.co_qualname] += 1
            self.longest = max(self.longest, len(getsourcelines(code)[0]))

    @property
    def functions(self) -> int:
        return len(self.seen)

    @property
    def modules(self) -> int:
        return len({file for file, _ in self.seen})


@pytest.fixture
def hops() -> Any:
    found = Hops()
    before = sys.getprofile()
    threading.setprofile(found)
    sys.setprofile(found)
    yield found
    sys.setprofile(before)
    threading.setprofile(None)


def said(number: int) -> MessageAdded:
    return MessageAdded("user", (Text(f"message {number}"),))


async def test_a_chat_begins_with_few_calls_of_the_disk(root: Path) -> None:
    disk = CountingDisk()
    async with Log(FileStorage(root, disk=disk)) as log:
        await log.append("another", said(0))  # makes the store
        counts = []
        for number in range(2):
            disk.calls.clear()
            await log.append("chat", said(number))
            counts.append(len(disk.calls))
        assert counts[0] <= 15, disk.calls
        assert counts[1] <= 8, disk.calls


async def test_a_repeated_text_is_compared_with_few_calls_of_the_disk(root: Path) -> None:
    """The earlier line is in the open segment, whose descriptor has just been proved."""
    disk, text = CountingDisk(), "said before " * 100
    async with Log(FileStorage(root, disk=disk)) as log:
        for event in (MessageAdded("user", (Text(text),)), said(1), said(2)):
            await log.append("chat", event, durability="off")
        disk.calls.clear()
        [entry] = await log.append("chat", MessageAdded("user", (Text(text),)), durability="off")
        assert not [name for name in disk.calls if name.startswith("open")], disk.calls
        assert len(disk.calls) <= 8, disk.calls
        assert b"ref:1:" in (root / "chats" / "chat" / "0000000000000001.jsonl").read_bytes()
        assert [one async for one in log.read("chat")][-1] == entry


async def test_an_append_goes_through_few_functions(root: Path, hops: Hops) -> None:
    storage = FileStorage(root)
    storage._queue._later_s = 3600.0  # what the timer does goes on beside the appends, not on their way
    async with Log(storage) as log:
        for number in range(20):
            await log.append("chat", said(number))
        hops.is_counting = True
        await log.append("chat", said(20))
        hops.is_counting = False
    names = "\n".join(f"{Path(file).name} {name}" for file, name in hops.seen)
    assert hops.functions <= 39, names
    assert hops.modules <= 13, names
    assert hops.longest <= 40


async def test_the_last_entries_are_read_with_few_functions(root: Path, hops: Hops) -> None:
    async with Log(FileStorage(root)) as log:
        for number in range(60):
            await log.append("chat", said(number), durability="off")
        await log.last("chat", 50)
        hops.is_counting = True
        await log.last("chat", 50)
        hops.is_counting = False
    names = "\n".join(f"{Path(file).name} {name}" for file, name in hops.seen)
    assert hops.functions <= 25, names
    assert hops.modules <= 8, names
    assert hops.longest <= 40
