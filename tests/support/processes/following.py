"""A follower: tells every entry it sees, until one is called ``end``.

following ROOT CHAT
"""

import asyncio
import sys

from chatfold.eventlog import FileStorage, Log, Noted
from tests.support.processes.children import ready, tell


async def main(root: str, chat: str) -> None:
    async with Log(FileStorage(root, read_only=True)) as log:
        async for entry in log.follow(chat):
            tell(entry.seq, entry.sum, entry.batch or "1/1")
            if isinstance(entry.event, Noted) and entry.event.name == "end":
                break


if __name__ == "__main__":
    ready()
    asyncio.run(main(*sys.argv[1:]))
