"""An erasure finds the forks of a chat among all chats of the store without reading those."""

from pathlib import Path

from chatfold.eventlog import FileStorage, Log, Noted
from tests.support.disk.faulty_disk import READING, WatchedDisk


class Counting(WatchedDisk):
    reads = 0

    def before(self, kind: str) -> None:
        self.reads += kind in READING


async def _reads(root: Path, others: int) -> int:
    async with Log(FileStorage(root)) as log:
        await log.append("chat", *(Noted(f"{number}") for number in range(5)))
        await log.fork("chat", "fork", 4)
        await log.fork("fork", "fork of the fork", 3)
        for number in range(others):
            await log.append(f"other {number}", Noted("a"), Noted("b"), durability="off")
        await log.append("first entry is long", Noted("long " * 20_000), durability="off")
    disk = Counting()
    async with Log(FileStorage(root, disk=disk)) as log:
        erased = await log.redact("chat", 2)
    assert erased == {"chat": [2], "fork": [2], "fork of the fork": [2]}
    return disk.reads


async def test_a_chat_that_is_no_fork_costs_the_reading_of_its_first_entry(tmp_path: Path) -> None:
    few, many = await _reads(tmp_path / "few", 5), await _reads(tmp_path / "many", 45)
    assert (many - few) / 40 <= 4
