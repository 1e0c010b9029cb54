"""Writers: each appends what ``said`` makes of its ids and tells every append that returned.

    appending ROOT CHAT NAME DURABILITY SEGMENT_BYTES COUNT      one writer, after a ``go``
    appending                                                   a writer for each line of these on stdin

Every seventh append is asked for a second time, as a client would that missed the answer. The second form forks
its writers, one after the other, so that a test can kill many of them without waiting for Python to start.
"""

import asyncio
import os
import sys

from chatfold.eventlog import Durability, FileStorage, Log
from tests.support.judges.talk import said
from tests.support.processes.children import ready, tell, wait_for_go


async def append(
    root: str, chat: str, name: str, durability: Durability, segment_bytes: int, count: int
) -> None:
    async with Log(FileStorage(root, durability=durability, segment_bytes=segment_bytes)) as log:
        for number in range(count):
            ident = f"{name}.{number}"
            entries = await log.append(chat, *said(ident), id=ident)
            tell(entries[0].seq, entries[-1].seq, ident)
            if number % 7 == 6:
                again = await log.append(chat, *said(ident), id=ident)
                assert [e.sum for e in again] == [e.sum for e in entries]


_LEVELS: dict[str, Durability] = {"full": "full", "normal": "normal", "off": "off"}


def main(root: str, chat: str, name: str, durability: str, segment_bytes: str, count: str) -> None:
    asyncio.run(append(root, chat, name, _LEVELS[durability], int(segment_bytes), int(count)))


def serve() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            main(*line.split())
            os._exit(0)
        tell("pid", pid)
        os.waitpid(pid, 0)
        tell("ended")


if __name__ == "__main__":
    ready()
    if sys.argv[1:]:
        wait_for_go()
        main(*sys.argv[1:])
    else:
        serve()
