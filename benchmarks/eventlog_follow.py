"""Following: from an append in one process to the entry in another."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from benchmarks.eventlog_append import CHAT, FIRST
from benchmarks.eventlog_store import remove, start_child
from benchmarks.measure import Row, at_most, limited, progress
from chatfold.eventlog import FileStorage, Log, Noted


def rows(folder: Path, events: int) -> Iterator[Row]:
    progress("follow")
    root = folder / "follow"
    asyncio.run(_append(root, 0))
    with start_child("follow", root, CHAT, events) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "ready\n"
            time.sleep(0.5)  # until the follower watches and waits, as it would after a while
            asyncio.run(_append(root, events))
            delays = msgspec.json.decode(child.stdout.readline(), type=list[float])
        except BaseException:
            child.kill()
            raise
    name = "follow: append with off in one process to yield in another, median"
    yield limited(name, "ms", delays, "the limit", at_most(20))
    remove(root)


async def _append(root: Path, events: int) -> None:
    """The first entry, or that many that say when they were sent, at moments that keep no beat with a poll."""
    random = Random(5)
    async with Log(FileStorage(root, durability="off")) as log:
        if not events:
            await log.append(CHAT, FIRST)
        for _ in range(events):
            await asyncio.sleep(random.uniform(0.02, 0.12))
            await log.append(CHAT, Noted("sent", time.monotonic_ns()))
