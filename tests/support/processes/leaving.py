"""A process that ends in the middle of its appends, in one of several WAYS.

leaving ROOT WAY      eight tasks append to one chat and tell what returned; then it ends, or is ended
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from chatfold.eventlog import FileStorage, Log
from tests.support.judges.talk import short
from tests.support.processes.children import ready, tell


def _raise() -> NoReturn:
    raise RuntimeError("nobody catches this")


def _never() -> None:
    """Somebody sends a signal."""


WAYS: dict[str, Callable[[], object]] = {
    "a signal": _never,
    "sys.exit": lambda: sys.exit(3),
    "os._exit": lambda: os._exit(3),
    "an exception": _raise,
    "the loop is stopped": lambda: asyncio.get_running_loop().stop(),
    "exit in a thread": lambda: threading.Thread(target=os._exit, args=(3,)).start(),
}
APPENDS = 40


async def _append(log: Log, task: int, leave: Callable[[], object]) -> None:
    for number in range(10**6):
        name = f"{task}.{number}"
        [first, *_] = await log.append("chat", *short(name, 1 + number % 3), id=name)
        tell(first.seq, name)
        if (task, number) == (0, APPENDS):
            leave()


async def main(root: str, way: str) -> None:
    log = Log(FileStorage(root, segment_bytes=5_000))  # closed by whoever closes it: nobody
    await asyncio.gather(*(_append(log, task, WAYS[way]) for task in range(8)))


if __name__ == "__main__":
    for one in (signal.SIGTERM, signal.SIGHUP):  # whoever runs the tests may have told them to be ignored
        signal.signal(one, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ready()
    asyncio.run(main(sys.argv[1], sys.argv[2]))
