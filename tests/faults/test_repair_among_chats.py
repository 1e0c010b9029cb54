"""Lines of another chat verify, and have the right seqs. Repair never takes them for the chat's, nor gives up the chat's for them.

Property: whatever files and lines of two chats are exchanged, spliced, dropped or flipped, each entry of the repaired chat is the
chat's own at that seq, or is ``lost``.

One case is left out, because nothing can tell it: a beginning of the other chat, from its entry 1 on, together with more damage.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chatfold.eventlog import Entry, Lost, check, repair, salvage, scan
from tests.support.damage.broken import gone_from, lines_of, make_healthy, rewrite, segments
from tests.support.judges.talk import digest_of, entries_of, is_clean

OTHERS = b"other"  # in each of the other chat's lines


@pytest.fixture
def chat(fast_folder: Path) -> Path:
    return make_healthy(fast_folder / "store", "ours0")


@pytest.fixture
def other(fast_folder: Path) -> Path:
    """Of the same shape, byte for byte: names, sizes, seqs."""
    return make_healthy(fast_folder / "elsewhere", "other")


def _exchange(chat: Path, other: Path, which: int) -> None:
    path = segments(chat)[which]
    theirs = other / path.name
    assert theirs.stat().st_size == path.stat().st_size
    path.write_bytes(theirs.read_bytes())


def _judge(chat: Path, before: list[Entry], gone: list[int]) -> None:
    """Nothing of the other chat, nothing given up that is left, and as a whole a log."""
    after = entries_of(chat)
    assert [entry.seq for entry in after if isinstance(entry.event, Lost)] == gone
    assert [e for e in after if e.seq not in gone] == [e for e in before if e.seq not in gone]
    assert is_clean(chat)


@pytest.mark.parametrize("which", [0, 1, 2, -2, -1], ids=["first", "second", "third", "last but one", "last"])
def test_a_segment_of_another_chat_is_set_aside_and_named(chat: Path, other: Path, which: int) -> None:
    before, lines = list(scan(chat)), lines_of(chat)
    _exchange(chat, other, which)
    strange, gone = segments(chat)[which].read_bytes(), gone_from(chat, lines)
    report = repair(chat)
    assert report.lost == report.unproven == gone
    assert strange in [path.read_bytes() for path in report.kept]
    assert OTHERS not in b"".join(path.read_bytes() for path in segments(chat))
    _judge(chat, before, gone)


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("which", [0, 2, -1], ids=["first", "third", "last"])
def test_lines_of_another_chat_inside_a_segment_are_set_aside(
    chat: Path, other: Path, which: int, at: int
) -> None:
    before, lines = list(scan(chat)), lines_of(chat)
    path = segments(chat)[which]
    theirs = (other / path.name).read_bytes().splitlines(keepends=True)[at : at + 3]
    rewrite(path, lambda ours: [*ours[:at], *theirs, *ours[at + 3 :]])
    gone = gone_from(chat, lines)
    report = repair(chat)
    assert report.lost == gone
    assert report.unproven == gone
    _judge(chat, before, gone)


def test_a_shorter_first_segment_of_another_chat_is_not_believed(chat: Path, fast_folder: Path) -> None:
    """It begins like every chat, and where it ends is a hole: nothing links it to what follows."""
    other = make_healthy(fast_folder / "elsewhere", "other" * 12)
    first = segments(chat)[0]
    first.write_bytes(segments(other)[0].read_bytes())
    lost = repair(chat).lost
    assert lost == list(range(1, lost[-1] + 1))
    assert OTHERS not in b"".join(path.read_bytes() for path in segments(chat))
    assert is_clean(chat)


def test_a_segment_beyond_the_end_is_removed(chat: Path, other: Path) -> None:
    before = list(scan(chat))
    extra = chat / f"{len(before) + 9:016d}.jsonl"
    shutil.copy(segments(other)[2], extra)
    assert not check(chat).ok
    report = repair(chat)
    assert report.lost == []
    assert not extra.exists()
    assert segments(other)[2].read_bytes() in [path.read_bytes() for path in report.kept]
    _judge(chat, before, [])


def test_salvage_marks_what_it_cannot_prove(chat: Path, other: Path, fast_folder: Path) -> None:
    lines = lines_of(chat)
    _exchange(chat, other, 1)
    gone = gone_from(chat, lines)
    assert salvage(chat, fast_folder / "out") == (len(lines) - len(gone), len(gone))
    assert (fast_folder / "out" / "salvaged.jsonl").read_bytes().splitlines() == [
        line for seq, line in lines.items() if seq not in gone
    ]
    unproven = (fast_folder / "out" / "unproven.jsonl").read_bytes().splitlines()
    assert unproven == [line for seq, line in lines_of(other).items() if seq in gone]


def test_two_flipped_bytes_cost_two_entries(chat: Path) -> None:
    """What is between them is linked to nothing that verifies: the ends of the damaged lines still say what they stood between."""
    before = list(scan(chat))
    for which in (1, 2):
        rewrite(segments(chat)[which], lambda ls: [*ls[:2], ls[2].replace(b"said", b"sAid"), *ls[3:]])
    lost = repair(chat).lost
    assert len(lost) == 2
    _judge(chat, before, lost)


# --- the property ------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two chats as they were: by name of the segment, its lines."""

    folder: Path
    ours: dict[str, list[bytes]]
    theirs: dict[str, list[bytes]]
    entries: list[Entry]

    def __repr__(self) -> str:
        return str(self.folder)  # or hypothesis prints both chats with each example


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    root = tmp_path_factory.mktemp("pairs")
    made = []
    for size in (1, 2, 12):  # of the same shape, nearly so, of another
        folder = make_healthy(root / str(size) / "ours", "ours0")
        other = make_healthy(root / str(size) / "theirs", "other" * size)
        made.append(Pair(folder, _lines(folder), _lines(other), list(scan(folder))))
    return made


def _lines(folder: Path) -> dict[str, list[bytes]]:
    return {path.name: path.read_bytes().splitlines(keepends=True) for path in segments(folder)}


class Damage(NamedTuple):
    kind: str
    file: int
    theirs: int
    at: int
    number: int


damages = st.builds(
    Damage,
    st.sampled_from(("exchange", "add", "splice", "delete", "flip", "drop", "swap")),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 2_000),
    st.integers(1, 4),
)


def _damage(files: dict[str, list[bytes]], pair: Pair, damage: Damage) -> None:
    names, others = sorted(files), sorted(pair.theirs)
    if not names:
        return
    name, theirs = names[damage.file % len(names)], others[damage.theirs % len(others)]
    lines, foreign = files[name], pair.theirs[theirs]
    at = damage.at % max(1, len(lines))
    match damage.kind:
        case "exchange":
            files[name] = foreign
        case "add":
            files.setdefault(theirs, foreign)
        case "splice":
            files[name] = [
                *lines[:at],
                *foreign[at : at + damage.number],
                *lines[min(len(lines), at + damage.number) :],
            ]
        case "delete":
            files[name] = [*lines[:at], *lines[at + damage.number :]]
        case "flip":
            data = bytearray(b"".join(lines))
            if data:
                data[damage.at % len(data)] ^= damage.number
            files[name] = bytes(data).splitlines(keepends=True)
        case "drop" if len(files) > 1:
            del files[name]
        case "swap":
            twin = names[damage.theirs % len(names)]
            files[name], files[twin] = files[twin], lines


def _is_telling(files: dict[str, list[bytes]], pair: Pair, count: int) -> bool:
    """Is it not the one case that nothing can tell?"""
    first = pair.theirs[min(pair.theirs)][1]
    return count == 1 or not any(first in lines for lines in files.values())


@given(st.integers(0, 2), st.lists(damages, min_size=1, max_size=4))
def test_whatever_two_chats_exchange_each_entry_is_the_chats_own_or_lost(
    pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory, which: int, wanted: list[Damage]
) -> None:
    pair = pairs[which]
    files = dict(pair.ours)
    for damage in wanted:
        _damage(files, pair, damage)
    assume(_is_telling(files, pair, len(wanted)))
    folder = tmp_path_factory.mktemp("damaged") / "chats" / "ours0"
    try:
        shutil.copytree(pair.folder, folder)
        for path in segments(folder):
            path.unlink()
        for name, lines in files.items():
            (folder / name).write_bytes(b"".join(lines))
        _judge_repair(folder, pair, wanted)
    finally:
        shutil.rmtree(folder.parents[1])


def _judge_repair(folder: Path, pair: Pair, wanted: list[Damage]) -> None:
    was_ok = check(folder).ok
    # Then it may as well be a shorter one of the other chat: nothing links its end to what follows.
    first = segments(folder)[0].read_bytes()
    was_shortened = b"".join(pair.ours[min(pair.ours)]).startswith(first)
    own = {seq: line for lines in pair.ours.values() for seq, line in _numbered(lines)}
    gone = gone_from(folder, own)
    report = repair(folder)
    after = entries_of(folder)
    assert is_clean(folder) or was_ok
    for entry in after:
        is_own = entry.seq <= len(pair.entries) and entry == pair.entries[entry.seq - 1]
        assert is_own or isinstance(entry.event, Lost), (entry, report)
    assert was_ok or len(after) == len(pair.entries)
    if len(wanted) == 1 and wanted[0].kind in ("flip", "splice", "delete", "swap") and not was_shortened:
        assert report.lost == gone
    before = digest_of(folder)
    assert repair(folder).lost == []
    assert digest_of(folder) == before


def _numbered(lines: list[bytes]) -> Iterator[tuple[int, bytes]]:
    for line in lines:
        if line.startswith(b'{"seq":'):
            yield int(line[7 : line.index(b",")]), line.rstrip(b"\n")
