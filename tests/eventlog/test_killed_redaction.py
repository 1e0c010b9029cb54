"""A redaction that is cut off at any change of the disk leaves nothing behind once somebody has written again."""

from contextlib import suppress
from itertools import count
from pathlib import Path

from chatfold.eventlog import DurabilityUnknown, FileStorage, Log, Noted, check
from tests.support.disk.faulty_disk import CHANGING, FailingDisk


async def _cut_off(root: Path, nth: int) -> bool:
    """Nothing is changed from the ``nth`` change on, as after a kill. False: it came to its end before."""
    async with Log(FileStorage(root)) as log:
        await log.append("chat", *(Noted(f"{number}") for number in range(3)))
        await log.fork("chat", "fork", 2)
    disk = FailingDisk(nth, kinds=CHANGING, forever=True)
    storage = FileStorage(root, disk=disk)
    with suppress(OSError, DurabilityUnknown):
        await Log(storage).redact("chat", 2)
    disk.healed = True  # closing changes nothing more
    with suppress(DurabilityUnknown):
        await storage.close()
    return bool(disk.failed)


async def test_nothing_is_left_after_the_next_writer(tmp_path: Path) -> None:
    for nth in count(1):
        root = tmp_path / str(nth)
        if not await _cut_off(root, nth):
            assert nth > 20
            return
        async with Log(FileStorage(root)) as log:
            await log.append("chat", Noted("next"))
        assert sorted(path.name for path in root.iterdir() if path.name != "cache") == ["chats", "trash"]
        for chat in ("chat", "fork"):
            assert check(root / "chats" / chat).problems == [], (nth, chat)
            assert not list((root / "chats" / chat).rglob("*redacting*")), (nth, chat)
            assert not list((root / "chats" / chat).rglob("*.tmp")), (nth, chat)
