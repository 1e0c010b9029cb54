"""A reader: reads the whole log again and again, in three ways, until the chat has an entry called ``end``.

reading ROOT CHAT      tells how many times it read the log
"""

import asyncio
import sys
from pathlib import Path

from chatfold.eventlog import Entry, FileStorage, Log, NoSuchChat, Noted, scan
from tests.support.judges.talk import batches
from tests.support.processes.children import ready, tell


def _is_log(entries: list[Entry]) -> None:
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert sum(map(len, batches(entries))) == len(entries)


async def main(root: str, chat: str) -> None:
    rounds = 0
    entries: list[Entry] = []
    async with Log(FileStorage(root, read_only=True)) as log:
        while not (entries and isinstance(entries[-1].event, Noted) and entries[-1].event.name == "end"):
            entries = [entry async for entry in log.read(chat)]
            _is_log(entries)
            back = [entry async for entry in log.read_back(chat)]
            _is_log(back[::-1])
            assert back[::-1][: len(entries)] == entries
            assert (await log.head(chat)).seq >= len(back)
            try:
                _is_log(list(scan(Path(root, "chats", chat))))
            except NoSuchChat:
                assert not entries
            rounds += 1
    tell(rounds)


if __name__ == "__main__":
    ready()
    asyncio.run(main(*sys.argv[1:]))
