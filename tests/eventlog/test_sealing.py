"""Sums of a segment are made ahead of its seal, and only by those who write enough of it."""

from pathlib import Path

from chatfold.eventlog import FileStorage, Log, Noted, check
from chatfold.eventlog.files.seal import STEP
from tests.support.disk.faulty_disk import ReadDisk


def steps(number: int) -> list[Noted]:
    """Lines of a quarter of a step each, and no two with the same text."""
    return [Noted("said", {"text": f"{number}.{index:02} " * (STEP // 20)}) for index in range(4 * number)]


async def read_by_one_more(root: Path, *events: Noted) -> int:
    """How much a process reads that comes, appends and goes."""
    disk = ReadDisk()
    async with Log(FileStorage(root, disk=disk)) as log:
        for event in events:
            await log.append("chat", event)
    return disk.read


async def test_who_comes_to_write_a_turn_does_not_sum_up_what_others_wrote(tmp_path: Path) -> None:
    await read_by_one_more(tmp_path, *steps(3))
    assert (tmp_path / "chats" / "chat" / f"{1:016d}.jsonl").stat().st_size > 2 * STEP
    assert await read_by_one_more(tmp_path, Noted("said", {"text": "a turn"})) < STEP
    assert check(tmp_path / "chats" / "chat").ok


async def test_who_writes_a_step_of_it_does(tmp_path: Path) -> None:
    await read_by_one_more(tmp_path, *steps(3))
    assert await read_by_one_more(tmp_path, *steps(2)) > 3 * STEP
    assert check(tmp_path / "chats" / "chat").ok
