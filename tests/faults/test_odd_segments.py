"""Segments that programs have been at: emptied, without their header, with other spaces or another encoding, too few, too many."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chatfold.eventlog import CorruptLog, FileStorage, Log, check, repair, scan
from chatfold.eventlog.events import Head
from chatfold.eventlog.line import header_line
from tests.support.damage.broken import ENTRIES, make_healthy, segments
from tests.support.judges.talk import digest_of, entries_of, is_clean, short


@pytest.fixture
def healthy(fast_folder: Path) -> Path:
    return make_healthy(fast_folder / "store")


def _append(folder: Path) -> int:
    async def append() -> int:
        async with Log(FileStorage(folder.parents[1])) as log:
            return (await log.append(folder.name, *short("after"), id="after"))[0].seq

    return asyncio.run(append())


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda data: b"",
    "without its header": lambda data: data.split(b"\n", 1)[1],
    "with spaces at the ends of lines": lambda data: data.replace(b"\n", b" \n"),
    "as UTF-16": lambda data: data.decode().encode("utf-16"),
    "with a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "with the line endings of Windows": lambda data: data.replace(b"\n", b"\r\n"),
    "with an empty line": lambda data: data.replace(b"\n", b"\n\n", 1),
    "indented": lambda data: data.replace(b'{"seq"', b' {"seq"'),
}


@pytest.mark.parametrize("which", [0, 2, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_segment_that_a_program_changed(healthy: Path, change: str, which: int) -> None:
    """Said, by everybody who comes to it, with its place; nothing is changed; and repair keeps every line that is left."""
    path = segments(healthy)[which]
    path.write_bytes(CHANGES[change](path.read_bytes()))
    before = digest_of(healthy, times=False)
    assert path in {problem.path for problem in check(healthy).problems if problem.kind == "damaged"}
    with pytest.raises(CorruptLog) as error:
        list(scan(healthy))
    assert error.value.path == path
    if which == -1:
        with pytest.raises(CorruptLog):
            _append(healthy)
        assert digest_of(healthy, times=False) == before
    lost = repair(healthy).lost
    assert bool(lost) == (change in ("emptied", "as UTF-16"))
    assert len(entries_of(healthy)) == ENTRIES
    assert _append(healthy) == ENTRIES + 1
    assert is_clean(healthy)


def test_a_last_segment_with_nothing_but_its_header_is_what_a_roll_leaves(healthy: Path) -> None:
    last = list(scan(healthy))[-1]
    path = healthy / f"{ENTRIES + 1:016d}.jsonl"
    path.write_bytes(header_line(Head(ENTRIES, last.link)) + b"\n")
    path.chmod(0o600)
    assert is_clean(healthy)
    assert _append(healthy) == ENTRIES + 1
    assert len(entries_of(healthy)) == ENTRIES + 1
    assert path.stat().st_size > 100


def test_a_last_segment_with_nothing_at_all_is_damage(healthy: Path) -> None:
    """It appears by a rename of what was synced: nothing of ours leaves an empty one."""
    (healthy / f"{ENTRIES + 1:016d}.jsonl").touch(0o600)
    with pytest.raises(CorruptLog):
        list(scan(healthy))
    with pytest.raises(CorruptLog):
        _append(healthy)
    assert repair(healthy).lost == []
    assert _append(healthy) == ENTRIES + 1


def test_a_second_segment_for_the_same_entries_is_told_and_not_read(healthy: Path) -> None:
    """A copy under a name in between: the chain leads past it, ``check`` sees it."""
    one = segments(healthy)[1]
    copy = healthy / f"{int(one.stem) + 1:016d}.jsonl"
    shutil.copy(one, copy)
    assert len(list(scan(healthy))) == ENTRIES
    assert copy in {problem.path for problem in check(healthy).problems if problem.kind == "damaged"}
    assert repair(healthy).lost == []
    assert [entry.seq for entry in entries_of(healthy)] == list(range(1, ENTRIES + 1))


def test_a_last_line_without_its_newline_is_shown_once_it_has_one(healthy: Path) -> None:
    path = segments(healthy)[-1]
    path.write_bytes(path.read_bytes()[:-1])
    (healthy / "head").unlink()  # nobody vouches for it: a crash may have left it so
    assert len(list(scan(healthy))) == ENTRIES - 1
    assert _append(healthy) == ENTRIES + 1
    assert len(entries_of(healthy)) == ENTRIES + 1
    assert not (healthy / "aside").exists()
