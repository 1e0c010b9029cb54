"""Some of ``fuzzing`` on every run, and by name what it found: lines that somebody made up, with sums that are right."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import CorruptLog, FileStorage, Log, Lost, NewerFormat, check, repair, scan
from eventlog.line import decode, read_header, seal_up, verifies
from eventlog.recovery import valid_lines
from eventlog.survey import survey
from faults.broken import ENTRIES, make_healthy, rewrite, segments
from faults.fuzzing import campaign
from faults.mutations import FRAGMENTS


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


@given(anything)
def test_bytes_are_no_line_unless_their_sum_is_right(data: bytes) -> None:
    assert not verifies(data)
    assert list(valid_lines(data)) == []
    assert survey(data, 1).lines == {}


@given(anything)
def test_a_line_with_a_right_sum_is_decoded_or_corrupt(data: bytes) -> None:
    for start in (b"", b'{"seq":1,', b'{"seq":1,"ts":1,"event":'):
        line = seal_up(start + data + b',"prev":"0123456789abcdef"')
        try:
            decode(line)
        except CorruptLog:
            continue


@given(anything)
def test_a_header_with_a_right_sum_is_one_or_corrupt(data: bytes) -> None:
    try:
        head = read_header(seal_up(b'{"chatfold":1,"reader":1,' + data + b'"prev":"0123456789abcdef"'))
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
    "another seq inside": b'{"seq":12,"seq":13,"ts":1,"event":{"type":"lost"}',
}  # fmt: skip


@pytest.fixture
def healthy(fast_folder: Path) -> Path:
    return make_healthy(fast_folder / "store")


@pytest.mark.parametrize("name", MADE_UP)
def test_a_line_that_somebody_made_up_is_damage_with_its_place_and_can_be_repaired(
    healthy: Path, name: str
) -> None:
    def made_up(lines: list[bytes]) -> list[bytes]:
        before = list(scan(healthy))[10]
        return [
            *lines[:3],
            seal_up(MADE_UP[name] + b',"prev":"%b"' % before.link.encode()) + b"\n",
            *lines[4:],
        ]

    rewrite(segments(healthy)[1], made_up)
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
