"""What a new process does: ``python -m benchmarks.eventlog_child DEED ROOT CHAT …``, and prints how long it took."""

import asyncio
import sys
import time
from pathlib import Path
from time import perf_counter

from chatfold.eventlog import FileStorage, Log, MessageAdded, Noted, Text

SHORT = "A word."
LONG = f"A text that was never said before, {time.time_ns()}, and is long enough for the log to ask. " * 30


async def open_and_append(root: Path, chat: str, text: str) -> float:
    """Milliseconds from no store at all to one more entry and the head; ``off``, so that no sync hides the rest."""
    start = perf_counter()
    log = Log(FileStorage(root))
    (entry,) = await log.append(chat, MessageAdded("assistant", (Text(text),)), durability="off")
    head = await log.head(chat)
    elapsed = perf_counter() - start
    assert head.seq == entry.seq
    await log.storage.close()
    return elapsed * 1e3


async def read_last(root: Path, chat: str, count: int) -> float:
    start = perf_counter()
    log = Log(FileStorage(root, read_only=True))
    entries = await log.last(chat, count)
    elapsed = perf_counter() - start
    assert len(entries) == count
    await log.storage.close()
    return elapsed * 1e3


async def follow(root: Path, chat: str, count: int) -> list[float]:
    """Milliseconds from the moment each event says to the moment it is here. One clock serves all processes."""
    delays: list[float] = []
    async with Log(FileStorage(root, read_only=True)) as log:
        async for entry in log.follow(chat):
            if not isinstance(entry.event, Noted):
                print("ready", flush=True)
                continue
            delays.append((time.monotonic_ns() - entry.event.data) / 1e6)
            if len(delays) == count:
                break
    return delays


def main() -> None:
    deed, root, chat, *rest = sys.argv[1:]
    match deed:
        case "open-short":
            print(asyncio.run(open_and_append(Path(root), chat, SHORT)))
        case "open-long":
            print(asyncio.run(open_and_append(Path(root), chat, LONG)))
        case "last":
            print(asyncio.run(read_last(Path(root), chat, int(rest[0]))))
        case "follow":
            print(asyncio.run(follow(Path(root), chat, int(rest[0]))))


if __name__ == "__main__":
    main()
