"""Caches: with them, without them, or with lies in them, the answers are the same."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import CorruptLog, Entry, FileStorage, Log, Noted, scan
from chatfold.eventlog.batch import fingerprints_of, id_fingerprint, text_fingerprint
from chatfold.eventlog.codec import decode, encode_event
from chatfold.eventlog.files.cache import ORIGIN
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.lookups import Lookups
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.runs import Shelf, new_run, row_of, seqs_in
from chatfold.eventlog.line import add_checksum, build_entry_line, has_valid_sum, parse_seq
from tests.eventlog.test_storage_agreement import abandon
from tests.support.disk.faulty_disk import ReadDisk

# --- lookups ---------------------------------------------------------------------------------------------


class History:
    """Which fingerprints each seq has, and their lookups: of a log that never was on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []

    def open(self) -> Lookups:
        return Lookups(self.folder, Disk(), self.entries, self.link)

    def entries(self, first: int) -> Iterable[tuple[int, bytes]]:
        for seq, name in enumerate(self.names[first - 1 :], first):
            yield (
                seq,
                build_entry_line(
                    Entry(seq, 0, Noted("n"), id=name, prev="0" * 16), encode_event(Noted("n")).raw
                ),
            )

    def link(self, seq: int) -> str | None:
        """Names everything up to ``seq``, as a sum does."""
        return f"{text_fingerprint(str(self.names[:seq])):016x}" if seq <= len(self.names) else None

    def expected(self, name: str) -> set[int]:
        return {seq for seq, used in enumerate(self.names, 1) if used == name}


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from(["cut", "reopen", "crash", "lose", "damage", ""]))
    ),
    spread=st.integers(1, 50),
    few=st.sampled_from([0, 1000]),
)
def test_lookups_answer_like_a_dict(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]], spread: int, few: int
) -> None:
    """What is asked for ids, whatever becomes of the files, and for texts, as long as they are well."""
    history = History(tmp_path_factory.mktemp("lookups"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chatfold.eventlog.files.runs._FEW", few)
        _live(history, steps, spread)


def _live(history: History, steps: list[tuple[int, str]], spread: int) -> None:
    lookups = history.open()
    for count, then in steps:
        history.names += [f"id {(len(history.names) + i) % spread}" for i in range(count)]
        lookups.catch_up(len(history.names))
        if then == "cut":
            lookups.tidy(closing=True)
        elif then:
            if then == "crash":  # others take the place of what it took away
                lookups.tidy(closing=True)
                history.names[-count:] = [f"id {i % spread} again" for i in range(count // 2)]
            _disturb(history.folder / "cache" / "lookups", then)
            lookups = history.open()
            if then not in ("lose", "damage"):
                lookups.catch_up(len(history.names), at_most=len(history.names))
                assert_answers(lookups, history)
            lookups.catch_up(len(history.names))
        assert_answers(lookups, history)


def assert_answers(lookups: Lookups, history: History) -> None:
    for name in {*history.names[:3], *history.names[-3:], "never used"}:
        found = lookups.find(id_fingerprint(name))
        assert history.expected(name) <= set(found)  # others may be proposed, none may be missing
        assert set(found) <= set(range(1, len(history.names) + 1))


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2000)), max_size=2000),
    asked=st.integers(0, 3),
    edge=st.sampled_from([0, (1 << 32) - 4]),
)
def test_a_file_answers_like_its_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]], asked: int, edge: int
) -> None:
    """Also if one fingerprint fills several blocks."""
    shelf = Shelf(tmp_path_factory.mktemp("shelf"), Disk())
    run = new_run(1, 2000, ORIGIN, "1" * 16, [row_of(edge + upper << 32, seq) for upper, seq in rows])
    run = shelf.keep(run)
    kept = shelf.run(1, 2000)
    assert kept == run
    assert run.rows is not None
    assert shelf.seqs(kept, edge + asked << 32) == seqs_in(run.rows, edge + asked << 32)


@pytest.fixture
def long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are long enough to be bisected where they are."""
    monkeypatch.setattr("chatfold.eventlog.files.runs._FEW", 0)


@pytest.mark.usefixtures("long_runs")
def test_a_few_texts_do_not_read_the_rows_of_a_long_history(tmp_path: Path) -> None:
    """And many do, once, after the answer."""
    history = History(tmp_path)
    history.names += [f"id {number}" for number in range(10_000)]
    first = history.open()
    first.catch_up(10_000)
    first.tidy(closing=True)
    disk = ReadDisk()
    lookups = Lookups(tmp_path, disk, history.entries, history.link)
    lookups.catch_up(10_000, at_most=10_000)
    for number in range(8):
        assert not lookups.is_untidy()
        assert lookups.find(id_fingerprint(f"id {number * 1000}")) == [number * 1000 + 1]
    rows = sum(file.stat().st_size for file in tmp_path.glob("cache/lookups/*"))
    few = disk.read
    assert few < 8 * 3 * 5000 + 1000  # a block of each run
    assert lookups.is_untidy()
    lookups.tidy(closing=False)
    assert disk.read - few == rows
    assert not lookups.is_untidy()
    assert lookups.find(id_fingerprint("id 9000")) == [9001]
    assert disk.read - few == rows


@pytest.mark.usefixtures("long_runs")
def test_runs_that_others_have_merged_meanwhile_are_looked_for_again(tmp_path: Path) -> None:
    def the_log(first: int) -> Iterable[tuple[int, bytes]]:
        raise AssertionError(f"read again from {first}")

    history = History(tmp_path)
    others, lookups = history.open(), Lookups(tmp_path, Disk(), the_log, history.link)
    for count in (100, 200, 300):
        history.names += [f"id {number}" for number in range(len(history.names), count)]
        others.catch_up(count)
        others.tidy(closing=True)
    lookups.catch_up(300, at_most=300)
    history.names.append("one more")
    others.catch_up(301)
    others.tidy(closing=True)
    assert [file.name for file in tmp_path.glob("cache/lookups/*")] == [f"{1:016d}-{301:016d}"]
    assert lookups.find(id_fingerprint("id 7")) == []  # a text would be written once more
    lookups.catch_up(301)
    assert lookups.find(id_fingerprint("id 7")) == [8]


def test_a_run_of_another_history_between_two_of_ours_is_not_used(tmp_path: Path) -> None:
    history = History(tmp_path)
    lookups = history.open()
    for count in (20, 50, 60):
        history.names += [f"id {number}" for number in range(len(history.names), count)]
        lookups.catch_up(count)
        lookups.tidy(closing=True)
    link = history.link(20)
    assert link is not None
    Shelf(tmp_path, Disk()).keep(new_run(21, 50, link, "f" * 16, [row_of(id_fingerprint("lost"), 21)]))
    again = history.open()
    again.catch_up(60)
    assert [again.find(id_fingerprint(f"id {seq - 1}")) for seq in range(1, 61)] == [
        [seq] for seq in range(1, 61)
    ]


def _disturb(folder: Path, how: str) -> None:
    runs = sorted(folder.glob("*")) if folder.exists() else []
    if how == "lose" and runs:
        runs[0].unlink()
    if how == "damage" and runs:
        content = bytearray(runs[-1].read_bytes())
        content[-1] ^= 1
        runs[-1].write_bytes(bytes(content))


def test_many_runs_are_merged_into_few_and_still_answer(tmp_path: Path) -> None:
    history = History(tmp_path)
    lookups = history.open()
    for _ in range(100):
        history.names += [f"id {len(history.names)}"] * 3
        lookups.catch_up(len(history.names))
        lookups.tidy(closing=True)
    assert len(list((tmp_path / "cache" / "lookups").iterdir())) < 30
    for some in (lookups, history.open()):
        some.catch_up(len(history.names))
        for name in set(history.names):
            assert history.expected(name) <= set(some.find(id_fingerprint(name)))


@pytest.mark.parametrize("left", [0, 20, 35, 50])
def test_runs_of_entries_that_are_others_now_are_not_used(tmp_path: Path, left: int) -> None:
    """A crash took entries away that a run already knew, and others were appended in their place."""
    history = History(tmp_path)
    for count in (20, 50):
        history.names += [f"old {number}" for number in range(len(history.names), count)]
        lookups = history.open()
        lookups.catch_up(count)
        lookups.tidy(closing=True)
    history.names[left:] = [f"new {number}" for number in range(60 - left)]
    lookups = history.open()
    lookups.catch_up(60)
    for name in history.names:
        assert history.expected(name) <= set(lookups.find(id_fingerprint(name)))


@pytest.mark.parametrize("name", ["plain", "\x7f", "\ud800", "日本"])
def test_what_a_line_says_and_what_was_asked_for_have_one_fingerprint(name: str) -> None:
    text = name * 2000
    line = build_entry_line(
        Entry(1, 0, Noted("n"), id=name, prev="0" * 16), encode_event(Noted("n", text)).raw
    )
    assert id_fingerprint(name) in fingerprints_of(line)
    [written] = encode_event(Noted("n", text)).texts
    assert text_fingerprint(written) in fingerprints_of(line)


async def test_lookups_that_know_entries_a_crash_took_away_do_not_hide_new_ones(tmp_path: Path) -> None:
    """Runs are kept without a sync and may reach beyond what is left of the log."""
    storage = FileStorage(tmp_path)
    log = Log(storage)
    await log.append("chat", Noted("kept"), id="kept")
    for number in range(4200):
        await log.append("chat", Noted("lost", number), id=f"lost {number}", durability="off")
    abandon(storage)
    folder = tmp_path / "chats" / "chat"
    assert list(folder.glob("cache/lookups/*"))
    segment = folder / "0000000000000001.jsonl"
    segment.write_bytes(segment.read_bytes()[: json.loads((folder / "head").read_bytes())["end"]])
    async with Log(FileStorage(tmp_path)) as log:
        [first] = await log.append("chat", Noted("new"), id="new")
        assert first.seq == 2
        assert await log.append("chat", Noted("new"), id="new") == [first]
        [again] = await log.append("chat", Noted("lost", 7), id="lost 7")
        assert again.seq == 3
    async with Log(FileStorage(tmp_path)) as log:
        assert await log.append("chat", Noted("new"), id="new") == [first]


async def test_an_id_whose_line_another_was_put_in_place_of_is_not_taken_for_new(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path, segment_bytes=1000)) as log:
        for chat in ("ours", "them"):
            for number in range(40):
                await log.append(
                    chat, Noted("n", f"{chat} {number}"), id=f"{chat} {number}", durability="off"
                )
    ours, theirs = ((tmp_path / f"chats/{chat}/{1:016d}.jsonl") for chat in ("ours", "them"))
    header, _, *rest = ours.read_bytes().split(b"\n")
    ours.write_bytes(b"\n".join((header, theirs.read_bytes().split(b"\n")[1], *rest)))
    async with Log(FileStorage(tmp_path, segment_bytes=1000)) as log:
        with pytest.raises(CorruptLog):
            await log.append("ours", Noted("n", "ours 0"), id="ours 0")


@pytest.mark.usefixtures("long_runs")
async def test_an_id_is_recognised_after_texts_were_asked_for(tmp_path: Path) -> None:
    """For texts the rows were not verified; one is wrong."""
    async with Log(FileStorage(tmp_path)) as log:
        [first] = await log.append("chat", Noted("n", 1), id="first")
        await log.append("chat", Noted("n", 2), id="second")
    [run] = (tmp_path / "chats" / "chat").glob("cache/lookups/*")
    run.write_bytes(run.read_bytes()[:-16] + bytes(16))
    async with Log(FileStorage(tmp_path)) as log:
        await log.append("chat", Noted("n", "a long text " * 100))
        assert await log.append("chat", Noted("n", 1), id="first") == [first]
        [_] = await log.append("chat", Noted("n", 4), id="fourth")
        assert (await log.head("chat")).seq == 4


# --- offsets ---------------------------------------------------------------------------------------------


@pytest.fixture
async def chat(tmp_path: Path) -> Path:
    """A few hundred entries in many segments, their indexes kept."""
    async with Log(FileStorage(tmp_path / "store", segment_bytes=6000)) as log:
        for number in range(60):
            batch = [Noted("n", number * 5 + i) for i in range(5)]
            await log.append("chat", *batch, durability="off")
    path = tmp_path / "store" / "chats" / "chat"
    assert len(indexes(path)) >= 5
    return path


def indexes(chat: Path) -> list[Path]:
    return sorted(chat.glob("cache/*.offsets"))


def reads_right(chat: Path) -> bool:
    """Each line by its seq, from a folder that knows nothing yet; and spans from the middle."""
    folder = LogReader(chat, "chat", Disk(), may_write=True)
    singly = [decode(folder.line(seq)).event for seq in range(300, 0, -1)]
    span = [parse_seq(line) for page in folder.line_pages(117, 203) for line in page]
    back = [parse_seq(page.last_line()) for page in LogReader(chat, "chat", Disk()).pages_back(203)]
    return singly == [Noted("n", seq - 1) for seq in range(300, 0, -1)] and (
        span == list(range(117, 204)) and back[0] == 203
    )


def rewrite(index: Path, change: dict[str, object]) -> None:
    """An index that verifies, and lies."""
    fields = json.loads(index.read_bytes())
    fields = {"bytes": fields["bytes"], "starts": fields["starts"], **change}
    index.write_bytes(add_checksum(json.dumps(fields, separators=(",", ":")).encode()[:-1]))


def test_a_missing_index_is_made_again(chat: Path) -> None:
    before = indexes(chat)
    shutil.rmtree(chat / "cache")
    assert reads_right(chat)
    assert indexes(chat) == before


def test_a_reader_that_may_not_write_makes_no_index(chat: Path) -> None:
    shutil.rmtree(chat / "cache")
    assert [entry.seq for entry in scan(chat, 117, 203)] == list(range(117, 204))
    assert not (chat / "cache").exists()


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"{}", b'{"bytes":1}'])
def test_a_damaged_index_is_made_again(chat: Path, damage: bytes) -> None:
    for index in indexes(chat):
        index.write_bytes(damage)
    assert reads_right(chat)
    assert all(index.read_bytes().startswith(b'{"bytes":') for index in indexes(chat))
    assert all(has_valid_sum(index.read_bytes()) for index in indexes(chat))


async def test_an_index_has_an_anchor_for_every_eighth_line(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path, segment_bytes=20_000)) as log:
        for number in range(300):
            await log.append("chat", Noted("n", number), durability="off")
    index = indexes(tmp_path / "chats" / "chat")[0]
    lines = (tmp_path / "chats" / "chat" / f"{1:016d}.jsonl").read_bytes()
    starts = json.loads(index.read_bytes())["starts"]
    assert [parse_seq(lines[start:].partition(b"\n")[0]) for start in starts[:3]] == [1, 9, 17]


def test_an_index_cut_or_flipped_anywhere_changes_no_answer(chat: Path) -> None:
    index = indexes(chat)[1]
    first, content = int(index.stem), index.read_bytes()
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        for wrong in (bytes(flipped), content[:place]):
            index.write_bytes(wrong)
            assert parse_seq(LogReader(chat, "chat", Disk()).line(first + 20)) == first + 20


def test_an_index_serves_a_copy_of_its_chat(chat: Path) -> None:
    """Whoever restores a backup does not pay for the indexes once more."""
    copy = chat.with_name("copy")
    shutil.copytree(chat, copy)
    before = {index: index.stat().st_ino for index in indexes(copy)}
    assert reads_right(copy)
    assert {index: index.stat().st_ino for index in indexes(copy)} == before


def test_an_index_of_another_file_is_not_used(chat: Path) -> None:
    """The segment was written anew, as erasure does: lines at other places."""
    for segment in sorted(chat.glob("*.jsonl")):
        copy = segment.with_suffix(".copy")
        copy.write_bytes(segment.read_bytes())
        copy.replace(segment)
    for index in indexes(chat):
        rewrite(index, {"starts": [start + 7 for start in json.loads(index.read_bytes())["starts"]]})
    assert reads_right(chat)


@pytest.mark.parametrize(
    "lie",
    [
        {"starts": []},
        {"starts": [0] * 99},
        {"starts": [10**9] * 99},
        {"starts": [-1] * 99},
        {"starts": [300] * 99},
    ],
)
def test_an_index_that_lies_is_found_out(chat: Path, lie: dict[str, object]) -> None:
    for index in indexes(chat):
        rewrite(index, lie)
    assert reads_right(chat)


def test_an_index_that_leads_to_the_line_of_another_seq_is_found_out(chat: Path) -> None:
    for index in indexes(chat):
        starts = json.loads(index.read_bytes())["starts"]
        rewrite(index, {"starts": [*starts[1:], starts[0]]})
    assert reads_right(chat)
