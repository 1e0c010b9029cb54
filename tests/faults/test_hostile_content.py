"""Odd and hostile content, keys and files: those of the known kinds that no other test is about.

The others: values and texts in ``test_values`` and ``test_lines``, forged exports in ``test_forged_exports``, keys, links,
modes and folders that vanish in ``test_bad_input_named``, terminals in ``test_commands_hostile``.
"""

import asyncio
import os
import resource
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chatfold.eventlog import (
    ChatfoldError,
    CorruptLog,
    FileStorage,
    InvalidEvent,
    Log,
    MessageAdded,
    Noted,
    Text,
    check,
    salvage,
    scan,
)
from chatfold.eventlog.codec import parse_references
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.recovery import find_valid_lines
from chatfold.eventlog.line import MAX_LINE
from chatfold.testing.strategies import same
from tests.support.damage.broken import ENTRIES, lines_of, make_healthy, segments
from tests.support.disk.faulty_disk import WatchedDisk
from tests.support.judges.talk import short


@pytest.fixture
def healthy(fast_folder: Path) -> Path:
    return make_healthy(fast_folder / "store")


# --- texts --------------------------------------------------------------------------------------------------

TEXTS: dict[str, str] = {
    "line ends": "a\nb\rc\r\nd\x0be\x0cf\x1cg\x1dh\x1ei\x85j\u2028k\u2029l",
    "every control character": "".join(map(chr, [*range(32), *range(127, 160)])),
    "a byte order mark": "\ufeffstart\ufeff",
    "bidi overrides": "\u202eevil\u202c \u2066x\u2069 \u200f",
    "half a character": "\ud83d alone \udc00",
    "what surrogateescape made": b"\xff\xfe\x80 file".decode("utf-8", "surrogateescape"),
    "two halves, apart": "\ud83d\u200b\ude00",
    "not normalised": "e\u0301 \u00e9 \u212b \u00c5",
    "beyond the basic plane": "\U0001f469\u200d\U0001f4bb \U0010ffff",
    "noncharacters": "\ufffe\uffff\ufdd0",
    "markup": "</script><!-- ]]> <img src=x onerror=1> {{x}} ${x} %s %n",
    "terminal sequences": "\x1b[2J\x1b]0;t\x07\x9b31m\x08\x08",
    "escapes of ours": "\x7fnan \x7f0041 \x7fref:1:2:3 \x7fb64:AA==",
    "nothing": "",
    "blanks": " \t ",
}


@pytest.mark.parametrize("name", TEXTS)
async def test_a_text_comes_back_from_disk_as_it_was_on_one_line(fast_folder: Path, name: str) -> None:
    """As a text, a key, an id, a run, and in the name of a chat."""
    text = TEXTS[name]
    event = Noted(text, {text: [text, {"k": text}], "": None})
    named = text or None
    async with Log(FileStorage(fast_folder)) as log:
        await log.append(f"chat {text}", event, id=named, run=named)
        await log.append(f"chat {text}", Noted("next"))
    async with Log(FileStorage(fast_folder, read_only=True)) as log:
        assert [key async for key in log.chats()] == [f"chat {text}"]
        [entry, _] = [entry async for entry in log.read(f"chat {text}")]
    assert same(entry.event, event)
    assert (entry.id, entry.run) == (named, named)
    [folder] = (fast_folder / "chats").iterdir()
    assert segments(folder)[0].read_bytes().count(b"\n") == 3
    assert check(folder).problems == []


async def test_a_copy_of_another_log_inside_a_text_is_only_a_text(healthy: Path, fast_folder: Path) -> None:
    """Whatever looks for lines among damaged bytes must not find those."""
    copied = b"".join(path.read_bytes() for path in segments(healthy)).decode()
    async with Log(FileStorage(fast_folder / "new")) as log:
        await log.append("chat", MessageAdded("user", (Text(copied),)), Noted("tool", [copied, {copied: 1}]))
    folder = fast_folder / "new" / "chats" / "chat"
    [segment] = segments(folder)
    header, *lines = segment.read_bytes().splitlines()
    assert [line for line in find_valid_lines(segment.read_bytes()) if b"copied" not in line] == [
        header,
        *lines,
    ]
    segment.write_bytes(segment.read_bytes()[:-9])  # damaged: now every byte is looked at
    assert salvage(folder, fast_folder / "out") == (1, 0)
    assert set((fast_folder / "out" / "salvaged.jsonl").read_bytes().splitlines()) == {lines[0]}


async def test_what_is_empty_is_refused_or_kept(fast_folder: Path) -> None:
    async with Log(FileStorage(fast_folder)) as log:
        with pytest.raises(InvalidEvent):
            await log.append("chat")
        assert [key async for key in log.chats()] == []
        events = (
            Noted(""),
            Noted("", {}),
            Noted("", []),
            MessageAdded("user", ()),
            MessageAdded("user", (Text(""),)),
        )
        await log.append("chat", *events)
        assert tuple([entry.event async for entry in log.read("chat")]) == events


@pytest.mark.campaign
async def test_too_many_keys_are_refused_before_anything_is_written(fast_folder: Path) -> None:
    async with Log(FileStorage(fast_folder)) as log:
        with pytest.raises(InvalidEvent):
            await log.append("chat", Noted("n", {f"k{number}": number for number in range(200_000)}))
        assert (await log.head("chat")).seq == 0
        many = Noted("n", {f"k{number}": number for number in range(50_000)})
        await log.append("chat", many)
        assert [entry.event async for entry in log.read("chat")] == [many]


async def test_the_same_text_in_another_chat_or_another_part_is_never_mixed_up(fast_folder: Path) -> None:
    """References stay inside of a chat, so that no chat tells what another one holds."""
    text = "the same long text " * 100
    async with Log(FileStorage(fast_folder)) as log:
        for chat in ("one", "two"):
            await log.append(chat, MessageAdded("user", (Text(text),)))
        await log.append("one", Noted(text, {"role": "assistant", "text": text}))
        await log.delete("one")
        assert [entry.event async for entry in log.read("two")] == [MessageAdded("user", (Text(text),))]
    [line] = lines_of(fast_folder / "chats" / "two").values()
    assert parse_references(line) == (set(), set())


async def test_an_id_holds_over_segments_and_in_forks(fast_folder: Path) -> None:
    async with Log(FileStorage(fast_folder, segment_bytes=500)) as log:
        [first] = await log.append("chat", *short("a"), id="a")
        for number in range(20):
            await log.append("chat", *short(f"{number}"))
        await log.fork("chat", "fork", 5)
        for chat in ("chat", "fork"):
            assert (await log.append(chat, *short("a"), id="a"))[0].sum == first.sum
        assert len(segments(fast_folder / "chats" / "chat")) > 3


# --- sizes --------------------------------------------------------------------------------------------------


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def test_a_line_without_an_end_is_not_read_into_memory(healthy: Path) -> None:
    """A file with far more of nothing after what was written; read, and cut off."""
    with segments(healthy)[-1].open("r+b") as segment:
        segment.truncate(300 << 20)
    before = _most_memory()
    assert len(list(scan(healthy))) == ENTRIES
    async with Log(FileStorage(healthy.parents[1])) as log:
        assert (await log.append("chat", *short("after")))[0].seq == ENTRIES + 1
    assert _most_memory() - before < 100 << 20


@pytest.mark.parametrize(
    "piece", [b'{"seq":', b'{"seq":1,', b',"sum":"0123456789abcdef"}', b'{"seq":1,"sum":"0123456789abcdef"}']
)
def test_bytes_made_to_look_like_many_lines_take_no_time(piece: bytes) -> None:
    data = piece * (4 * MAX_LINE // len(piece))
    assert list(find_valid_lines(data)) == []  # minutes, if every start were tried with every end


async def test_many_segments_are_opened_a_few_times_each(fast_folder: Path) -> None:
    class CountingDisk(WatchedDisk):
        def before(self, kind: str) -> None:
            calls[kind] += 1

    calls: Counter[str] = Counter()
    async with Log(FileStorage(fast_folder, segment_bytes=1, durability="off")) as log:
        for number in range(300):
            await log.append("chat", Noted("n", number))
    assert len(segments(fast_folder / "chats" / "chat")) == 300
    async with Log(FileStorage(fast_folder, read_only=True, disk=CountingDisk())) as log:
        assert len([entry async for entry in log.read("chat")]) == 300
        assert calls["open_read"] < 300 * 12
        assert calls["names"] < 10
        calls.clear()
        assert [entry.seq async for entry in log.read("chat", 150, 152)] == [150, 151, 152]
        assert calls["open_read"] < 60


# --- files that are none ------------------------------------------------------------------------------------


def _a_folder(path: Path) -> None:
    path.mkdir()


def _a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _a_dangling_link(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


@pytest.mark.parametrize("name", ["segment", "lock", "head", "blobs", "cache", "aside"])
@pytest.mark.parametrize("plant", [_a_folder, _a_socket, _a_dangling_link], ids=lambda plant: plant.__name__)
def test_something_else_in_the_place_of_a_file_is_refused_or_not_needed(
    healthy: Path, name: str, plant: Any
) -> None:
    """Never followed, never waited for, and nothing outside is touched."""
    path = segments(healthy)[-1] if name == "segment" else healthy / name
    if path.is_dir():
        path.rename(healthy.parent.parent / "was")
    else:
        path.unlink(missing_ok=True)
    plant(path)
    outcomes: list[str] = []

    async def use() -> None:
        async with Log(FileStorage(healthy.parents[1])) as log:
            outcomes.append(str(len([entry async for entry in log.read("chat")])))
            await log.append("chat", *short("after"), id="after")
            outcomes.append("appended")

    try:
        asyncio.run(use())
    except (ChatfoldError, OSError) as error:
        outcomes.append(type(error).__name__)
    if name in ("cache", "aside", "blobs"):
        assert outcomes == [str(ENTRIES), "appended"]
    elif name == "segment":
        assert len(outcomes) == 1
    else:
        assert outcomes[0] == str(ENTRIES)
    assert not Path("/nowhere").exists()
    check_says = _checked(healthy)
    assert name != "segment" or check_says == "damaged"


def _checked(folder: Path) -> str:
    try:
        return "ok" if check(folder).ok else "damaged"
    except (CorruptLog, OSError) as error:
        return type(error).__name__


async def test_a_root_that_is_a_link_is_followed(fast_folder: Path) -> None:
    (fast_folder / "real").mkdir()
    (fast_folder / "link").symlink_to(fast_folder / "real")
    async with Log(FileStorage(fast_folder / "link")) as log:
        await log.append("chat", Noted("n"))
    assert len(list(scan(fast_folder / "real" / "chats" / "chat"))) == 1


def test_a_file_is_never_made_where_something_is(fast_folder: Path) -> None:
    """Names of files to be published are random; and who guesses one has won nothing."""
    (fast_folder / "there").touch()
    (fast_folder / "link").symlink_to(fast_folder / "target")
    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            Disk().create(fast_folder / name)
    assert not (fast_folder / "target").exists()
