"""A writer that always says where it believes the log ends: tells each seq it won.

    racing ROOT CHAT NAME ROUNDS
"""

import asyncio
import sys

from eventlog import Conflict, FileStorage, Log, Noted
from faults.children import ready, tell, wait_for_go


async def main(root: str, chat: str, name: str, rounds: int) -> None:
    async with Log(FileStorage(root, durability="off")) as log:
        for after in range(rounds):
            try:
                [entry] = await log.append(chat, Noted(name), after=after)
            except Conflict as conflict:
                assert conflict.expected == after < conflict.actual
            else:
                tell(entry.seq)


if __name__ == "__main__":
    ready()
    wait_for_go()
    asyncio.run(main(*sys.argv[1:4], int(sys.argv[4])))
