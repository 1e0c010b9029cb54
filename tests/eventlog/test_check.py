"""What ``check`` says of a healthy, a torn and a damaged chat."""

import asyncio
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from chatfold.eventlog import FileStorage, Log, Lost, NewerFormat, Noted, check, repair, scan
from chatfold.eventlog.erasure import tombstone
from chatfold.eventlog.events import Head
from chatfold.eventlog.files import survey
from chatfold.eventlog.files.check import Problem
from chatfold.eventlog.line import add_checksum, link_after, seal_line


@pytest.fixture
async def chat(tmp_path: Path) -> Path:
    """Nine entries in several segments."""
    async with Log(FileStorage(tmp_path, segment_bytes=400)) as log:
        for n in range(9):
            await log.append("chat", Noted(f"note {n}"))
    return tmp_path / "chats" / "chat"


def last_segment(chat: Path) -> Path:
    return max(chat.glob("*.jsonl"))


def first_segment(chat: Path) -> Path:
    return min(chat.glob("*.jsonl"))


def files(chat: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in chat.rglob("*") if path.is_file()}


@pytest.mark.parametrize("full", [True, False])
def test_a_healthy_chat_has_no_problems(chat: Path, full: bool) -> None:
    report = check(chat, full=full)
    assert report.ok
    assert report.problems == []
    assert (report.entries, report.segments) == (9, len(list(chat.glob("*.jsonl"))))
    assert report.segments > 2


@pytest.mark.parametrize("full", [True, False])
def test_a_torn_chat_is_ok_and_says_where_it_is_torn(chat: Path, full: bool) -> None:
    size = last_segment(chat).stat().st_size
    with last_segment(chat).open("ab") as file:
        file.write(b'{"seq":10,"ts":1')
    report = check(chat, full=full)
    assert report.ok
    assert report.entries == 9
    assert {(p.kind, p.path, p.offset, p.seq) for p in report.problems} == {
        ("torn", last_segment(chat), size, 10)
    }


def test_lines_that_stood_in_the_blocks_of_a_torn_tail_before_are_torn_with_it(chat: Path) -> None:
    """What a file system without ordered data leaves after a power cut."""
    stale = last_segment(chat).read_bytes().splitlines(keepends=True)[1:]
    with last_segment(chat).open("ab") as file:
        file.write(b"\0" * 40 + b"\n" + b"".join(stale))
    report = check(chat)
    assert report.ok
    assert {problem.kind for problem in report.problems} == {"torn"}
    assert len(list(scan(chat))) == report.entries == 9


def test_a_damaged_chat_is_not_ok_and_says_where(chat: Path) -> None:
    content = first_segment(chat).read_bytes()
    first_segment(chat).write_bytes(content.replace(b"note 1", b"note X"))
    report = check(chat)
    assert not report.ok
    assert (
        Problem("damaged", "a line does not verify", first_segment(chat), content.index(b'{"seq":2,'), 2)
        in report.problems
    )


def test_a_line_that_was_durable_and_is_gone_is_damage(chat: Path) -> None:
    content = last_segment(chat).read_bytes()
    last_segment(chat).write_bytes(content[: content.rindex(b'{"seq":9,')])
    report = check(chat)
    assert [(p.kind, p.seq) for p in report.problems] == [("damaged", 9)]


def test_a_missing_segment_is_damage(chat: Path) -> None:
    first, second, *_ = sorted(chat.glob("*.jsonl"))
    second.unlink()
    report = check(chat)
    assert {p.kind for p in report.problems} == {"damaged"}
    assert any(p.path == first and "missing" in p.message for p in report.problems)


def test_a_file_of_others_is_odd_and_no_damage(chat: Path) -> None:
    (chat / "notes.txt").write_text("mine")
    report = check(chat)
    assert report.ok
    assert [(p.kind, p.path) for p in report.problems] == [("odd", chat / "notes.txt")]


def test_a_file_that_others_may_read_is_odd(chat: Path) -> None:
    last_segment(chat).chmod(0o644)
    assert [(p.kind, p.path) for p in check(chat).problems] == [("odd", last_segment(chat))]


def test_checking_changes_nothing(chat: Path) -> None:
    first_segment(chat).write_bytes(first_segment(chat).read_bytes().replace(b"note 1", b"note X"))
    before = files(chat)
    check(chat)
    assert files(chat) == before


def test_repair_of_a_healthy_chat_does_nothing(chat: Path) -> None:
    before = files(chat)
    assert repair(chat).problems == []
    assert files(chat) == before


def test_repair_keeps_what_verifies_and_a_copy_of_what_was(chat: Path) -> None:
    before = list(scan(chat))
    broken = first_segment(chat).read_bytes().replace(b"note 1", b"note X")
    first_segment(chat).write_bytes(broken)
    report = repair(chat)
    assert report.lost == [2]
    assert [path.read_bytes() for path in report.kept] == [broken]
    after = list(scan(chat))
    assert [entry.sum for entry in after if entry.seq != 2] == [
        entry.sum for entry in before if entry.seq != 2
    ]
    assert check(chat).problems == []


async def test_an_entry_whose_text_is_kept_in_a_missing_line_is_damaged(tmp_path: Path) -> None:
    """The chain holds: only whoever follows the reference finds out."""
    async with Log(FileStorage(tmp_path, segment_bytes=400)) as log:
        for name in ("first", "second"):
            await log.append("chat", Noted(name, "the same text " * 100))
    folder = tmp_path / "chats" / "chat"
    lines = first_segment(folder).read_bytes().split(b"\n")
    lines[1] = tombstone(lines[1])
    body = b"\n".join(lines[:-2]) + b"\n"
    sealed = seal_line(1, len(body), sha256(body).hexdigest(), link_after(lines[1]))
    first_segment(folder).write_bytes(body + sealed + b"\n")
    report = check(folder)
    assert [problem.seq for problem in report.problems if problem.kind == "damaged"] == [2]
    assert repair(folder).lost == [2]
    assert check(folder).problems == []
    assert [entry.seq for entry in scan(folder)] == [1, 2]


async def test_repair_gives_up_what_an_entry_kept_in_a_lost_line_or_blob(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path, segment_bytes=400)) as log:
        await log.append("chat", Noted("first", "the same text " * 100))
        await log.append("chat", Noted("second", "the same text " * 100))
        await log.append("chat", Noted("third", "too long for a line " * 60_000))
        await log.append("chat", Noted("fourth"))
    folder = tmp_path / "chats" / "chat"
    first_segment(folder).write_bytes(first_segment(folder).read_bytes().replace(b"same text", b"SAME text"))
    for blob in (folder / "blobs").iterdir():
        blob.write_bytes(b"something else")
    assert not check(folder).ok
    report = repair(folder)
    assert report.lost == [1, 2, 3]
    entries = list(scan(folder))
    assert [entry.seq for entry in entries] == [1, 2, 3, 4]
    assert entries[3].event == Noted("fourth")


def test_an_entry_that_lost_its_text_is_lost_and_not_redacted(tmp_path: Path) -> None:
    """It keeps all that stands around the event, and its link: what follows it stays as it is."""

    async def write() -> None:
        async with Log(FileStorage(tmp_path)) as log:
            await log.append("chat", Noted("first"), Noted("large", "too long " * 200_000), id="i", run="r")
            await log.append("chat", Noted("last"))

    asyncio.run(write())
    folder = tmp_path / "chats" / "chat"
    [blob] = (folder / "blobs").iterdir()
    before = list(scan(folder))
    blob.write_bytes(b"something else")
    assert repair(folder).lost == [2]
    first, lost, last = scan(folder)
    assert (first, last) == (before[0], before[2])
    assert isinstance(lost.event, Lost)
    assert blob.name in lost.event.note
    assert replace(before[1], event=lost.event, was=lost.was, sum=lost.sum) == lost
    assert lost.link == before[1].link
    assert check(folder).problems == []
    assert not blob.exists()


@pytest.mark.parametrize("words", ["", "unheard of"])
def test_repair_touches_nothing_of_a_newer_format_whatever_its_error_says(
    chat: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    *_, path = sorted(chat.glob("*.jsonl"))
    start, *lines = path.read_bytes().splitlines(keepends=True)
    body = start[: start.index(b',"sum"')].replace(b'"reader":1', b'"reader":2')
    path.write_bytes(b"".join([add_checksum(body) + b"\n", *lines]))
    before = files(chat)

    def refuse(_: bytes) -> Head:
        raise NewerFormat(words)

    if words:
        monkeypatch.setattr(survey, "parse_header", refuse)
    with pytest.raises(NewerFormat):
        repair(chat)
    assert files(chat) == before
