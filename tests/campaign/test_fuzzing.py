"""Some of ``fuzzing`` on every run, and by name what it found: lines that somebody made up, with sums that are right."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import CorruptLog, FileStorage, Log, Lost, NewerFormat, Noted, check, repair, scan
from chatfold.eventlog.codec import decode
from chatfold.eventlog.files.chat_dir import NOTE
from chatfold.eventlog.files.recovery import find_valid_lines
from chatfold.eventlog.files.survey import survey_segment
from chatfold.eventlog.line import add_checksum, has_valid_sum, parse_header
from tests.campaign.fuzzing import campaign
from tests.support.damage.broken import ENTRIES, make_healthy, rewrite, segments
from tests.support.damage.intact import cached
from tests.support.damage.mutations import FRAGMENTS
from tests.support.judges.judging_reads import Judge, judge_writer


def test_whatever_comes_in_is_understood_or_refused_as_documented(fast_folder: Path) -> None:
    figures = campaign(4_000, 7, fast_folder)
    assert (figures.violations, figures.first) == (0, "")
    assert figures.tried == 4_000
    for target in (
        "line",
        "forged_line",
        "messages",
        "address",
        "key",
        "segment",
        "export",
        "forged_segment",
    ):
        assert figures.counted[f"{target}: refused"] > 0
        assert figures.counted[f"{target}: accepted"] > 0


anything = st.lists(st.binary(max_size=12) | st.sampled_from(FRAGMENTS), max_size=8).map(b"".join)


@pytest.mark.smoke
@given(anything)
def test_bytes_are_no_line_unless_their_sum_is_right(data: bytes) -> None:
    assert not has_valid_sum(data)
    assert list(find_valid_lines(data)) == []
    assert survey_segment(data, 1).lines == {}


@pytest.mark.smoke
@given(anything)
def test_a_line_with_a_right_sum_is_decoded_or_corrupt(data: bytes) -> None:
    for start in (b"", b'{"seq":1,', b'{"seq":1,"ts":1,"event":'):
        line = add_checksum(start + data + b',"prev":"0123456789abcdef"')
        try:
            decode(line)
        except CorruptLog:
            continue


@pytest.mark.smoke
@given(anything)
def test_a_header_with_a_right_sum_is_one_or_corrupt(data: bytes) -> None:
    try:
        head = parse_header(add_checksum(b'{"chatfold":1,"reader":1,' + data + b'"prev":"0123456789abcdef"'))
    except (CorruptLog, NewerFormat):
        return
    assert isinstance(head.seq, int)


# --- a folder that somebody made up -------------------------------------------------------------------------

MADE_UP = {
    "a seq that is no number": b'{"seq":x12,"ts":1,"event":{"type":"lost"}',
    "no comma at all": b'{"seq":12',
    "no UTF-8": b'{"seq":12,"ts":1,"event":{"type":"noted","name":"\xff"}',
    "no base64": b'{"seq":12,"ts":1,"event":{"type":"noted","name":"n","data":"\x7fb64:A"}',
    "no JSON": b'{"seq":12,"ts":1,"event":{nothing}',
    "no event": b'{"seq":12,"ts":1',
    "too deep to be decoded": b'{"seq":12,"ts":1,"event":{"type":"noted","name":"n","data":%b}' % (b"[" * 5_000 + b"]" * 5_000),
    "a seq of too many digits": b'{"seq":%b,"ts":1,"event":{"type":"lost"}' % (b"9" * 4_400),
    "a seq that no log reaches": b'{"seq":%b,"ts":1,"event":{"type":"lost"}' % (b"9" * 30),
    "a batch of too many digits": b'{"seq":12,"ts":1,"event":{"type":"lost"},"batch":"1/%b"' % (b"9" * 4_400),
    "synced up to too many digits": b'{"seq":12,"ts":1,"event":{"type":"lost"},"synced":%b' % (b"9" * 4_400),
    "an id that is no text": b'{"seq":12,"ts":1,"id":7,"event":{"type":"lost"}',
    "an id that is bytes": b'{"seq":12,"ts":1,"id":"\x7fb64:AAAA","event":{"type":"not known"}',
    "another seq inside": b'{"seq":12,"seq":13,"ts":1,"event":{"type":"lost"}',
}  # fmt: skip


@pytest.fixture
def healthy(fast_folder: Path) -> Path:
    return make_healthy(fast_folder / "store")


def _make_up(folder: Path, twelfth: bytes) -> None:
    """The twelfth entry is this line, with sums that are right."""
    link = list(scan(folder))[10].link.encode()

    def made_up(lines: list[bytes]) -> list[bytes]:
        return [*lines[:3], add_checksum(twelfth + b',"prev":"%b"' % link) + b"\n", *lines[4:]]

    rewrite(segments(folder)[1], made_up)


@pytest.mark.smoke
@pytest.mark.parametrize("name", MADE_UP)
def test_a_line_that_somebody_made_up_is_damage_with_its_place_and_can_be_repaired(
    healthy: Path, name: str
) -> None:
    _make_up(healthy, MADE_UP[name])
    assert not check(healthy).ok
    with pytest.raises(CorruptLog):
        list(scan(healthy))

    async def read() -> None:
        async with Log(FileStorage(healthy.parents[1], read_only=True)) as log:
            assert [entry async for entry in log.read("chat", 1, ENTRIES)]

    with pytest.raises(CorruptLog) as caught:
        asyncio.run(read())
    assert caught.value.chat == "chat"
    assert repair(healthy).lost == [12]
    assert [entry.seq for entry in scan(healthy) if isinstance(entry.event, Lost)] == [12]


# --- the last line, in a chain that is whole -----------------------------------------------------------------

_MANY = b"9" * 4_400  # digits: Python converts 4,300
_DEEP = b"[" * 400 + b"]" * 400  # the JSON decoder takes it, and no writer of ours writes it
DAMAGED_ENDS = {
    "a reference to a seq of too many digits": b'{"type":"noted","name":"n","data":"\x7fref:%b:1:1"}' % _MANY,
    "a reference to a byte of too many digits": b'{"type":"noted","name":"n","data":"\x7fref:1:%b:1"}'
    % _MANY,
    "a reference of a size of too many digits": b'{"type":"noted","name":"n","data":"\x7fref:1:1:%b"}'
    % _MANY,
    "a text that is not there": b'{"type":"noted","name":"n","data":"\x7ftext:%b"}' % (b"0" * 64),
}
READABLE_ENDS = {
    "deeper than is written": b'{"type":"noted","name":"n","data":%b}' % _DEEP,
    "an integer of too many digits": b'{"type":"noted","name":"n","data":%b}' % _MANY,
    "an event not known, deeper than is written": b'{"type":"new","data":%b}' % _DEEP,
}


async def _used(log: Log, verb: str) -> None:
    match verb:
        case "read":
            assert [entry async for entry in log.read("chat")]
        case "read back":
            assert [entry async for entry in log.read_back("chat")]
        case "last":
            await log.last("chat", 25)
        case "search":
            await log.search("chat", "answer")
        case "grep":
            await log.grep("chat", "answer")
        case "export":
            assert [piece async for piece in log.storage.export("chat")]
        case "append":
            await log.append("chat", Noted("n", "a text " * 1_000), id="new")
        case "fork":
            await log.fork("chat", "fork", ENTRIES + 1)
        case "redact":
            await log.redact("chat", ENTRIES + 1)


VERBS = ("read", "read back", "last", "search", "grep", "export", "append", "fork", "redact")


@pytest.mark.parametrize("name", [*DAMAGED_ENDS, *READABLE_ENDS])
def test_an_end_that_somebody_made_up_is_used_or_told_with_its_place(healthy: Path, name: str) -> None:
    """By every verb; and what reading tells, check says, and repair mends."""
    event = {**DAMAGED_ENDS, **READABLE_ENDS}[name]
    body = b'{"seq":%d,"ts":1,"event":%b,"prev":"%b"' % (
        ENTRIES + 1, event, list(scan(healthy))[-1].link.encode(),
    )  # fmt: skip
    with segments(healthy)[-1].open("ab") as segment:
        segment.write(add_checksum(body) + b"\n")
    for verb in VERBS:
        root = healthy.parents[2] / verb
        shutil.copytree(healthy.parents[1], root)

        async def use(root: Path = root, verb: str = verb) -> None:
            async with Log(FileStorage(root)) as log:
                await _used(log, verb)

        told: list[CorruptLog] = []
        try:
            asyncio.run(use())
        except CorruptLog as error:
            told.append(error)
        for one in told:
            assert name in DAMAGED_ENDS
            assert (one.chat, one.seq) == ("chat", ENTRIES + 1), verb
        assert told or name in READABLE_ENDS or not verb.startswith(("read", "last")), verb
    assert check(healthy).ok == (name in READABLE_ENDS)
    assert repair(healthy).lost == ([ENTRIES + 1] if name in DAMAGED_ENDS else [])
    assert len(list(scan(healthy))) == ENTRIES + 1


MADE_UP_FILES = {
    "digits": b'{"seq":%b,"link":"x","segment":1,"end":1,"snapshot":1,"of":"x","bytes":1,"xxh3":"x","starts":[]'
    % _MANY,
    "huge": b'{"seq":1,"link":"x","segment":1,"end":%b,"snapshot":1,"of":"x","bytes":%b,"xxh3":"x","starts":[%b]'
    % (b"9" * 30, b"9" * 30, b"9" * 30),
    "larger than memory": b'{"seq":1,"link":"x","segment":1,"end":%b,"snapshot":1,"of":"x","bytes":%b,"xxh3":"x"'
    % (b"9" * 15, b"9" * 15),
    "deep": b'{"seq":1,"other":%b' % (b"[" * 100_000 + b"]" * 100_000),
    "no UTF-8": b'{"seq":1,"link":"\xff","of":"\xff"',
}


@pytest.mark.parametrize("name", MADE_UP_FILES)
def test_a_witness_or_a_cache_that_somebody_made_up_is_as_good_as_none(fast_folder: Path, name: str) -> None:
    intact = cached(fast_folder / "store")
    title = add_checksum(MADE_UP_FILES[name])

    async def judge() -> None:
        made_up: dict[Path, bytes | None] = {
            path: title + b"\n" + intact.files[path].partition(b"\n")[2]
            for path in (*intact.caches, intact.head_file)
        }
        with intact.all_replaced(made_up):
            await Judge(intact).by_caches(random.Random(1))
            assert await judge_writer(intact, fast_folder)

    asyncio.run(judge())


NOTES = [
    b"",
    b"[]",
    b'{"chat":[1e5]}',
    b'{"chat":[%b]}' % _MANY,
    b'{"":[1]}',
    b'{"\x7fb64:A":[1]}',
    b'{"\xff":[1]}',
]


@pytest.mark.parametrize("note", NOTES)
def test_a_note_of_an_erasure_that_cannot_be_read_is_told_and_not_passed_over(
    healthy: Path, note: bytes
) -> None:
    path = healthy.parents[1] / f"{NOTE}0123456789abcdef"
    path.write_bytes(note)

    async def use() -> None:
        async with Log(FileStorage(healthy.parents[1])) as log:
            await log.append("chat", Noted("n"))

    with pytest.raises(CorruptLog) as caught:
        asyncio.run(use())
    assert caught.value.path == path
