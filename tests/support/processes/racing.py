"""A writer that always says where it believes the log ends: tells each seq it won.

racing ROOT CHAT NAME ROUNDS
"""

import asyncio
import sys

from chatfold.eventlog import Conflict, FileStorage, Log, Noted
from tests.support.processes.children import ready, tell, wait_for_go


async def main(root: str, chat: str, name: str, rounds: int) -> None:
    async with Log(FileStorage(root, durability="off")) as log:
        for after in range(rounds):
            try:
                [entry] = await log.append(chat, Noted(name), after=after)
            except Conflict as conflict:
                lost = (conflict.expected, conflict.actual)
            else:
                lost = (after, after + 1)
                tell(entry.seq)
            assert lost[0] == after < lost[1]


if __name__ == "__main__":
    ready()
    wait_for_go()
    _, root, chat, name, rounds = sys.argv
    asyncio.run(main(root, chat, name, int(rounds)))
