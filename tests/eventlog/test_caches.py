"""Whatever becomes of the files in ``cache/``: the answers are those of a chat that has none.

One law for all caches. A file is deleted, cut, changed at any byte, another chat's, from an earlier state of the chat, from a later
one than the log's, or from before an erasure.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import Entry, FileStorage, Head, IdConflict, Log, Noted
from tests.support.clock import TickingClock
from tests.support.short_caches import shorten

CHATS = ("alice", "bobby")
ROUNDS = 60
ERASED = (1, 2, 40, 41, 42)
SEGMENT_BYTES = 6000
STATES = ("early", "full", "erased")


def _long(key: str, number: int) -> str:
    return f"{key} said {number}: ".ljust(600, "x")


async def _say(log: Log, key: str, number: int) -> list[Entry]:
    events = Noted(key, _long(key, number % 20)), Noted(key, number)
    return await log.append(key, *events, id=f"id {number}", keys=(None, f"{key} key {number}"))


async def _keep_snapshots(log: Log, key: str) -> None:
    head = await log.head(key)
    for seq in (head.seq // 2, head.seq):
        [entry] = await log.last(key, 1, seq)
        epoch = await log.storage.erasure_epoch(key)
        await log.storage.store_snapshot(key, Head(seq, entry.link), _snapshot(key, seq), epoch)


def _snapshot(key: str, seq: int) -> bytes:
    return f"{key} at {seq} ".encode() * 40


async def _use_all(log: Log, key: str) -> None:
    """All caches are filled."""
    await _keep_snapshots(log, key)
    await log.storage.find(key, id="id 0")
    async for _ in log.read(key):
        pass


async def _make(root: Path) -> None:
    """The states of two chats: each with its caches, a folder for each state."""
    live = root / "live"
    for state, numbers in (
        ("early", range(ROUNDS // 3)),
        ("full", range(ROUNDS // 3, ROUNDS)),
        ("erased", range(0)),
    ):
        async with Log(FileStorage(live, clock=TickingClock(), segment_bytes=SEGMENT_BYTES)) as log:
            for key in CHATS:
                for number in numbers:
                    await _say(log, key, number)
                if state == "erased":
                    await log.redact(key, *ERASED)
            for key in CHATS:
                await _use_all(log, key)
        shutil.copytree(live, root / state)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("states")
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        asyncio.run(_make(root))
        yield root


def _caches(store: Path, key: str = CHATS[0]) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((store / "chats" / key / "cache").iterdir())}


def _kind(name: str) -> str:
    return name.rpartition(".")[2]


@pytest.mark.parametrize("state", STATES)
def test_there_are_files_of_each_kind(states: Path, state: str) -> None:
    kinds = {_kind(name) for name in _caches(states / state)}
    assert {"offsets", "seen", "snapshot"} <= kinds
    assert len([name for name in _caches(states / state) if _kind(name) == "seen"]) >= 2 or state != "full"


# --- what is asked -------------------------------------------------------------------------------------------


def _said(entries: list[Entry]) -> list[tuple[Any, ...]]:
    return [(entry.seq, entry.event, entry.id, entry.key) for entry in entries]


async def _ask(root: Path, state: str) -> list[Any]:
    """All that the log answers: first what is read, then what is appended, then all of it once more."""
    key = CHATS[0]
    answers: list[Any] = []
    async with Log(FileStorage(root, clock=TickingClock(), segment_bytes=SEGMENT_BYTES)) as log:
        await _check_snapshots(log, key, state)
        answers.append(_said(await log.last(key, 3)))
        for seq in (1, 9, 30, 39, 40):
            answers.append(_said([entry async for entry in log.read(key, seq, seq)]))  # noqa: PERF401
        for number in (0, 7, 19, 20, ROUNDS - 1, ROUNDS):
            answers.append(await log.storage.find(key, id=f"id {number}"))
            answers.append(await log.storage.find(key, key=f"{key} key {number}"))
        answers.append([hit.seq for hit in await log.search(key, "said 7")])
        answers.append(await log.grep(key, "said 19"))
        answers += [await _append(log, key, number) for number in (0, 7, 19, 20, ROUNDS - 1)]
        answers += [_said(await log.append(key, Noted(key, _long(key, number)))) for number in (3, 40, 71)]
        answers.append(_said([entry async for entry in log.read(key)]))
        answers.append(_said([entry async for entry in log.read_back(key)]))
    return answers


async def _append(log: Log, key: str, number: int) -> Any:
    """What was said with this id once more, and something else with it."""
    try:
        again = await _say(log, key, number)
        other = await log.append(key, Noted("other"), id=f"id {number}")
    except IdConflict as error:
        return str(error.seq)
    return _said(again), _said(other)


async def _check_snapshots(log: Log, key: str, state: str) -> None:
    """One that names a point of the log was made from this log, after the last erasure."""
    async for head, data in log.storage.load_snapshots(key):
        points = [Head(entry.seq, entry.link) for entry in await log.last(key, 1, head.seq)]
        if head in points:
            assert data == _snapshot(key, head.seq)
            erased_before = head.seq < 2 * ROUNDS // 3  # these were made of what was there before
            assert state != "erased" or not erased_before


# --- the law --------------------------------------------------------------------------------------------------


@contextmanager
def _copied(store: Path) -> Iterator[Path]:
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        root = Path(folder) / "store"
        shutil.copytree(store, root)
        yield root


class Right:
    """The answers of each state without any cache. A class of its own, because hypothesis prints what a test is given."""

    def __init__(self, states: Path) -> None:
        self.of: dict[str, list[Any]] = {}
        for state in STATES:
            with _copied(states / state) as root:
                shutil.rmtree(root / "chats" / CHATS[0] / "cache")
                self.of[state] = asyncio.run(_ask(root, state))


@pytest.fixture(scope="module")
def right(states: Path) -> Right:
    return Right(states)


def _judge(states: Path, right: Right, state: str, caches: dict[str, bytes]) -> None:
    """``caches``: what stands in ``cache/``."""
    with _copied(states / state) as root:
        folder = root / "chats" / CHATS[0] / "cache"
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
        for name, content in caches.items():
            (folder / name).write_bytes(content)
        assert asyncio.run(_ask(root, state)) == right.of[state]


@pytest.mark.parametrize("state", STATES)
def test_caches_of_the_chat_itself_change_no_answer(states: Path, right: Right, state: str) -> None:
    _judge(states, right, state, _caches(states / state))


@pytest.mark.parametrize("of", STATES)
@pytest.mark.parametrize("state", STATES)
def test_all_caches_of_another_state_change_no_answer(
    states: Path, right: Right, state: str, of: str
) -> None:
    """Of an earlier one, of a later one, from before an erasure."""
    _judge(states, right, state, _caches(states / of))


@pytest.mark.parametrize("state", STATES)
def test_all_caches_of_another_chat_change_no_answer(states: Path, right: Right, state: str) -> None:
    _judge(states, right, state, _caches(states / state, CHATS[1]))


@pytest.mark.parametrize("kind", ["offsets", "seen", "snapshot"])
def test_caches_of_which_one_kind_is_gone_change_no_answer(states: Path, right: Right, kind: str) -> None:
    caches = {name: content for name, content in _caches(states / "full").items() if _kind(name) != kind}
    _judge(states, right, "full", caches)


HOWS = ["delete", "flip", "cut", "exchange", "other name", "early", "full", "erased"]


@given(
    state=st.sampled_from(STATES),
    harms=st.lists(
        st.tuples(st.integers(0, 99), st.sampled_from(HOWS), st.integers(0, 1 << 20)), min_size=1, max_size=4
    ),
)
def test_any_harm_to_some_files_changes_no_answer(
    states: Path, right: Right, state: str, harms: list[tuple[int, str, int]]
) -> None:
    caches = _caches(states / state)
    by_kind = {kind: [name for name in caches if _kind(name) == kind] for kind in map(_kind, caches)}
    for which, how, place in harms:
        kinds = sorted(by_kind)
        names = by_kind[kinds[which % len(kinds)]]
        _harm(states, caches, names[place % len(names)], how, place, state)
    _judge(states, right, state, caches)


def _harm(states: Path, caches: dict[str, bytes], name: str, how: str, place: int, state: str) -> None:
    content = bytearray(caches.get(name) or b"x")
    if how == "delete":
        caches.pop(name, None)
    elif how == "flip":
        content[place % len(content)] ^= 1 << place % 8
        caches[name] = bytes(content)
    elif how == "cut":
        caches[name] = bytes(content[: place % len(content)])
    else:
        of = how if how in STATES else state
        others = _caches(states / of, CHATS[how == "exchange"])
        same = [other for other in others if _kind(other) == _kind(name)] or [*others]
        taken = name if name in others and how != "other name" else same[place % len(same)]
        caches[name if how == "other name" else taken] = others[taken]


@pytest.mark.parametrize("kind", ["offsets", "seen", "snapshot"])
def test_a_flipped_bit_anywhere_changes_no_answer(states: Path, right: Right, kind: str) -> None:
    """Sampled, also in titles, indexes and blocks."""
    caches = _caches(states / "full")
    name = max((name for name in caches if _kind(name) == kind), key=lambda name: len(caches[name]))
    for place in range(0, len(caches[name]), len(caches[name]) // 12):
        changed = bytearray(caches[name])
        changed[place] ^= 1 << place % 8
        _judge(states, right, "full", caches | {name: bytes(changed)})


async def test_files_that_are_deleted_under_an_open_storage_change_no_answer(
    states: Path, right: Right, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(states / "full", tmp_path / "store")
    asked = FileStorage.find

    async def asked_without(storage: FileStorage, chat: str, **names: str) -> int | None:
        shutil.rmtree(tmp_path / "store" / "chats" / CHATS[0] / "cache", ignore_errors=True)
        return await asked(storage, chat, **names)

    monkeypatch.setattr(FileStorage, "find", asked_without)
    assert await _ask(tmp_path / "store", "full") == right.of["full"]


def test_an_epoch_that_cannot_be_read_changes_no_answer(states: Path, right: Right) -> None:
    """Then no cache counts, and none can be made."""
    with _copied(states / "full") as root:
        (root / "chats" / CHATS[0] / "erased").mkdir()
        assert asyncio.run(_ask(root, "full")) == right.of["full"]


def test_answers_tell_states_and_chats_apart(right: Right) -> None:
    assert len({repr(answers) for answers in right.of.values()}) == len(STATES)
