"""The columns: whatever file is found, what is shown is what the log says."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Store
from chatfold.replay.inspect.sizes import Sizes
from chatfold.replay.web.columns import KINDS, Columns, Flag, Kept
from chatfold.replay.web.desk import Desk
from tests.replay.web.story import CHAT


async def _columns(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Columns:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    async with Store(folder, read_only=True) as store:
        return await (await Desk(store, str(folder), "x").chat(CHAT)).read_on(seconds=60)


def test_they_say_what_the_entries_say(story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = asyncio.run(_columns(story, tmp_path, monkeypatch))

    async def check() -> None:
        async with Store(story, read_only=True) as store:
            chat = await store.chat(CHAT)
            entries = [entry async for entry in chat.entries()]
            assert len(columns) == len(entries) == columns.head.seq
            assert list(columns.ts) == [entry.time for entry in entries]
            sizes, known = Sizes(), Sizes()
            for entry in entries:
                sizes.take(entry)
            for kind, cost in zip(columns.kind, columns.tokens, strict=True):
                known.add(cost, is_summary=KINDS[kind] == "compacted")
            told = await chat.history()
            assert known.chart(told, 64) == sizes.chart(told, 64)
            turns = [seq for seq, flags in enumerate(columns.flags, 1) if flags & Flag.TURN]
            assert turns == [told.asked_at(number) for number in range(1, told.turn_at(chat.seq) + 1)]
            for seq, other in enumerate(columns.pair, 1):
                assert not other or columns.pair[other - 1] == seq
            calls = [seq for seq, kind in enumerate(columns.kind, 1) if KINDS[kind] == "call"]
            assert calls
            assert all(KINDS[columns.kind[columns.pair[seq - 1] - 1]] == "result" for seq in calls)

    asyncio.run(check())


@given(cut=st.integers(0, 400), flip=st.integers(0, 400))
def test_a_file_that_is_not_whole_is_none(cut: int, flip: int) -> None:
    columns = Columns()
    data = columns.dump("epoch")
    for seq in range(30):
        columns.ts.append(seq)
        for column in (columns.tokens, columns.pair, columns.kind, columns.flags):
            column.append(seq % 7)
    columns.head = type(columns.head)(30, "0" * 16)
    data = columns.dump("epoch")
    whole = Columns.load(data, "epoch")
    assert whole is not None
    assert whole.pack() == columns.pack()
    assert Columns.load(data, "another epoch") is None
    assert Columns.load(data[: len(data) - 1 - cut % len(data)], "epoch") is None
    at = flip % len(data)
    changed = Columns.load(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "epoch")
    assert changed is None or changed.head != columns.head or changed.pack() == columns.pack()


def test_another_chat_s_file_and_an_old_one_are_not_believed(
    story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = asyncio.run(_columns(story, tmp_path / "one", monkeypatch))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    wrong = Columns.load(columns.dump(""), "")
    assert wrong is not None
    wrong.tokens[5] += 1000
    wrong.head = type(wrong.head)(wrong.head.seq, "f" * 16)
    Kept(str(story)).store(CHAT, wrong, "")
    assert Kept(str(story)).load(CHAT, "") is not None, "it verifies; but the chat has another entry there"
    found = asyncio.run(_columns(story, tmp_path / "other", monkeypatch))
    assert found.pack() == columns.pack()
    assert not [
        one for one in (tmp_path / "other").rglob("*") if one.is_file() and one.stat().st_mode & 0o077
    ]
