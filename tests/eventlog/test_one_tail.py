"""A chat that is written has one tail. Its readers look there, its caches are told late, and nothing is believed for that."""

from pathlib import Path

import pytest

from chatfold.eventlog import ChatDeleted, FileStorage, Head, Log, Noted
from chatfold.eventlog.batch import AppendRequest, Batch
from chatfold.eventlog.codec import encode_event
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.writer import LogWriter


async def test_a_reader_starts_from_the_tail_of_the_writer(root: Path) -> None:
    storage = FileStorage(root)
    async with Log(storage) as log:
        assert await log.head("chat") == Head()
        for number in range(3):
            [entry] = await log.append("chat", Noted(f"{number}"))
            assert await log.head("chat") == Head(entry.seq, entry.link)
            reader, writer = storage._readers["chat"], storage._queue.chats.get("chat").writer
            assert reader.end is writer.end
            assert reader.tail() == writer.end.tail


async def test_a_reader_sees_what_others_wrote_and_does_not_move_the_tail_of_the_writer(root: Path) -> None:
    storage = FileStorage(root)
    async with Log(storage) as log, Log(FileStorage(root)) as others:
        await log.append("chat", Noted("ours"))
        tail = storage._queue.chats.get("chat").writer.end.tail
        for number in range(2):
            [theirs] = await others.append("chat", Noted(f"{number}"))
            assert await log.head("chat") == Head(theirs.seq, theirs.link)
        assert storage._queue.chats.get("chat").writer.end.tail is tail
        [ours] = await log.append("chat", Noted("ours again"))
        assert (ours.seq, ours.prev) == (theirs.seq + 1, theirs.link)
        assert await log.head("chat") == await others.head("chat") == Head(ours.seq, ours.link)


async def test_a_chat_that_takes_the_place_of_another_is_not_read_from_the_tail_of_that_one(
    root: Path,
) -> None:
    async with Log(FileStorage(root)) as log, Log(FileStorage(root)) as others:
        for number in range(5):
            await log.append("chat", Noted(f"{number}"))
        assert (await log.head("chat")).seq == 5
        await others.delete("chat")
        assert await log.head("chat") == Head()
        [entry] = await others.append("chat", Noted("another chat"))
        assert await log.head("chat") == Head(entry.seq, entry.link)
        assert [one.event async for one in log.read("chat")] == [Noted("another chat")]


@pytest.mark.parametrize("between", [0, 1, 63, 64, 65, 130])
async def test_a_text_is_known_again_however_much_was_written_that_no_cache_was_told_of(
    root: Path, between: int
) -> None:
    text = "a long text " * 100
    async with Log(FileStorage(root, durability="off")) as log:
        await log.append("chat", Noted("long", {"text": text}))
        for number in range(between):
            await log.append("chat", Noted(f"{number}"))
        await log.append("chat", Noted("long", {"text": text}), id="again")
        [retried] = await log.append("chat", Noted("long", {"text": text}), id="again")
        assert retried.seq == between + 2
    path = root / "chats" / "chat" / f"{1:016d}.jsonl"
    assert path.read_text().count(text) == 1
    reader = LogReader(path.parent, "chat", Disk())
    assert [len(page) for page in reader.line_pages(between + 2)] == [1]


def test_a_head_within_a_batch_of_the_same_group_is_compared(tmp_path: Path) -> None:
    """It names an entry of a chat that was deleted: no line is there yet, and none has to be read to say so."""
    (tmp_path / "chats").mkdir()
    writer = LogWriter(tmp_path / "chats" / "chat", "chat", Disk(), lambda: 1)
    assert isinstance(writer.commit([request("one")])[0], Batch)
    other = Head(3, "0" * 16)
    written, refused = writer.commit([request("two", "three", "four"), request("five", known=other)])
    assert isinstance(written, Batch)
    assert isinstance(refused, ChatDeleted)
    writer.sync()
    writer.retire()


def request(*names: str, known: Head = Head()) -> AppendRequest:  # noqa: B008 (frozen)
    return AppendRequest("chat", tuple(encode_event(Noted(name)) for name in names), expected_head=known)
