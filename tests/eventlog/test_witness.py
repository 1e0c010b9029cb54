"""Where the log ends is found by the witness, in a long segment; it is the same without one, with an old and with a wrong one."""

from pathlib import Path

import pytest

from chatfold.eventlog import CorruptLog, FileStorage, Log, Noted
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.segment import PAGE, Tail

TEXT = "x" * 900


async def written(root: Path, count: int, *, segment_bytes: int = 1 << 20) -> Path:
    """A chat of so many entries of a kilobyte, and its folder."""
    async with Log(FileStorage(root, segment_bytes=segment_bytes)) as log:
        for number in range(0, count, 10):
            await log.append("chat", *(Noted(f"{number + more}{TEXT}") for more in range(10)))
    return root / "chats/chat"


def tail(chat: Path) -> Tail:
    return LogReader(chat, "chat", Disk()).tail()


async def test_the_witness_of_a_long_segment_is_believed_without_reading_what_is_before(root: Path) -> None:
    chat = await written(root, 200)
    found = tail(chat)
    assert found.position.offset > PAGE
    segment = next(chat.glob("*.jsonl"))
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b'"15x', b'"??x', 1))
    assert tail(chat) == found
    (chat / "head").unlink()
    with pytest.raises(CorruptLog):
        tail(chat)
    segment.write_bytes(content)
    assert tail(chat) == found


@pytest.mark.parametrize("segment_bytes", [1 << 20, 100_000, 70_000])
async def test_an_old_witness_leads_to_the_same_end(root: Path, segment_bytes: int) -> None:
    chat = await written(root, 90, segment_bytes=segment_bytes)
    old = (chat / "head").read_bytes()
    await written(root, 300, segment_bytes=segment_bytes)
    found = tail(chat)
    assert found.position.seq == 390
    for witness in (old, b"", b"{}\n", None):
        (chat / "head").unlink(missing_ok=True)
        if witness is not None:
            (chat / "head").write_bytes(witness)
        assert tail(chat) == found


async def test_damage_in_the_very_line_it_names_is_damage(root: Path) -> None:
    chat = await written(root, 200)
    segment = next(chat.glob("*.jsonl"))
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b'"199x', b'"???x', 1))
    with pytest.raises(CorruptLog):
        tail(chat)
    with pytest.raises(CorruptLog):
        await written(root, 10)


async def test_a_witness_of_more_than_there_is_means_that_something_is_gone(root: Path) -> None:
    chat = await written(root, 200)
    segment = next(chat.glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes()[: PAGE * 2])
    with pytest.raises(CorruptLog, match="durable"):
        tail(chat)


async def test_a_witness_of_a_segment_that_an_erasure_made_shorter_leads_to_the_same_end(root: Path) -> None:
    """It names the last line, which is there, at an end that is not: past that of the file."""
    async with Log(FileStorage(root)) as log:
        await log.append("chat", Noted("first", TEXT), *(Noted(f"{number}{TEXT}") for number in range(200)))
        await log.redact("chat", 1)
        await log.append("chat", Noted("after"))
    assert tail(root / "chats/chat").position.seq == 203
