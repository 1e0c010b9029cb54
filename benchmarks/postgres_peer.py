"""A peer on PostgreSQL in a process of its own: ``python -m benchmarks.postgres_peer NAME DSN append|open CHAT WRITERS``.

NAME: of a module ``benchmarks.peers.postgres_NAME``. Its class ``Store`` has ``open(dsn)``, ``append(chat, texts)``, which returns
when these messages of a user are acknowledged, ``last(chat, count)``, the texts of the last messages, and ``close()``.

It says ``ready``, waits for a line with the seconds, works for so long, and says how much it did in a second. ``append``: messages of
250 characters, one at a time for each writer, on a chat of its own. ``open``: a store is opened, the last 50 messages of a chat of
1,000 are read, and it is closed.
"""

import asyncio
import sys
from itertools import count
from time import perf_counter
from typing import Any

from benchmarks.peers import module_of

LENGTH, WINDOW = 1000, 50


async def open_peer(name: str, dsn: str) -> Any:
    return await module_of(f"postgres_{name}").Store.open(dsn)


def _texts(start: str, length: int) -> list[str]:
    return [f"{start}-{number} ".ljust(250, "x") for number in range(length)]


async def append(name: str, dsn: str, chat: str, writers: int) -> float:
    peer = await open_peer(name, dsn)

    async def write(writer: int, end: float) -> int:
        for number in count():
            if perf_counter() > end:
                return number
            await peer.append(f"{chat} {writer}", [f"{number} {end} ".ljust(250, "x")])
        raise AssertionError

    async def write_all(end: float) -> int:
        return sum(await asyncio.gather(*(write(writer, end) for writer in range(writers))))

    await write_all(perf_counter() + 0.1)
    seconds = _ready()
    began = perf_counter()
    done = await write_all(began + seconds)
    took = perf_counter() - began
    await peer.close()
    return done / took


async def read(name: str, dsn: str, chat: str) -> float:
    peer, texts = await open_peer(name, dsn), _texts(chat, LENGTH)
    await peer.append(chat, texts)
    await peer.close()

    async def once() -> None:
        peer = await open_peer(name, dsn)
        assert await peer.last(chat, WINDOW) == texts[-WINDOW:]
        await peer.close()

    await once()
    seconds = _ready()
    began = perf_counter()
    for done in count(1):
        await once()
        if perf_counter() > began + seconds:
            return done / (perf_counter() - began)
    raise AssertionError


def _ready() -> float:
    print("ready", flush=True)
    return float(sys.stdin.readline())


def main() -> None:
    name, dsn, job, chat, writers = sys.argv[1:]
    print(asyncio.run(append(name, dsn, chat, int(writers)) if job == "append" else read(name, dsn, chat)))


if __name__ == "__main__":
    main()
