"""The law of the cursor: wherever it seeks or steps, everything it shows is what a fold from scratch shows. It changes nothing."""

import fcntl
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Chat, Moment, Store, user
from chatfold.eventlog import (
    ChatDeleted,
    CorruptLog,
    Entry,
    Event,
    FileStorage,
    NoSuchChat,
    NoSuchPoint,
    Redacted,
)
from chatfold.projections import STANDARD, View, fold, projection, start, usage
from chatfold.replay.inspect.cursor import Replay, replaying
from chatfold.replay.inspect.places import AmbiguousChat, NoStore
from tests.support.chats import finished, started
from tests.support.clock import TickingClock
from tests.support.debugger.commanded import bytes_of
from tests.support.debugger.long_chats import long_history, recorded
from tests.support.debugger.scripted import CHAT, scripted
from tests.support.debugger.told import long_talk, memory, told
from tests.support.histories import talks
from tests.support.profile import searched

Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Replay]]


def states(view: View) -> tuple[object, ...]:
    """Everything that was folded. The last entry is known only to a view that came by it: a snapshot does not keep it."""
    return (view.head, *(view[one] for one in STANDARD))


async def assert_as_folded(replay: Replay, entries: list[Entry]) -> None:
    """Everything at this point, against the entries up to here and nothing else."""
    here = entries[: replay.seq]
    assert states(replay.view) == states(fold(start(STANDARD), here))
    assert await replay.entry() == (here[-1] if here else None)
    store = memory()
    scratch = await told(store, [entry.event for entry in here])
    assert await replay.messages("openai") == await scratch.messages("openai")
    assert [item.context_id for item in await replay.contexts()] == [
        item.context_id for item in await scratch.contexts()
    ]
    assert [entry async for entry in replay.entries()] == here


@given(talks(), st.lists(st.one_of(st.integers(-6, 6), st.floats(0, 1)), max_size=8))
@searched(2 / 3)
async def test_wherever_it_goes_it_shows_what_a_fold_shows(events: list[Event], ways: list[float]) -> None:
    """A whole number is a step, a fraction is a place to seek."""
    events = [event for event in events if not isinstance(event, Redacted)]  # here they erase nothing
    async with memory() as store:
        chat = await told(store, events)
        entries = [entry async for entry in chat.entries()]
        replay = Replay(chat)
        assert replay.seq == replay.end == len(entries)
        for way in ways:
            if isinstance(way, int):
                before = replay.seq
                to = min(max(before + way, 0), len(entries))
                assert await replay.step(way) == (to != before)
            else:
                to = round(way * len(entries))
                assert await replay.seek(to) is replay
            assert replay.seq == to
            await assert_as_folded(replay, entries)


async def test_it_steps_through_a_long_chat_in_both_directions(tmp_path: Path) -> None:
    """Over many of the views that it keeps, and forgets."""
    await recorded(tmp_path, "long", long_history(1500, compactions=300, switches=500))
    async with replaying(tmp_path, "long") as replay:
        entries = [entry async for entry in replay.entries()]
        views = [start(STANDARD)]
        for entry in entries:
            views.append(views[-1].then(entry))
        for to in (1500, 3, 1499, 255, 256, 257, 1000, 0, 512, 511):
            await replay.seek(to)
            assert states(replay.view) == states(views[to])
        while await replay.step(7):
            assert states(replay.view) == states(views[replay.seq])
        while await replay.step(-5):
            assert states(replay.view) == states(views[replay.seq])
        assert replay.seq == 0
        seen = await replay.seek(1300)
        assert len(await seen.messages()) == len(await (await replay.chat.at(1300)).messages())


# --- places ----------------------------------------------------------------------------------------------


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    return await scripted(tmp_path / "store")


async def places(store: Path, tmp_path: Path) -> dict[str, Opener]:
    async with Store(store, read_only=True) as place:
        await (await place.chat(CHAT)).export(tmp_path / "out.jsonl")
    outside = shutil.copytree(store / "chats" / CHAT, tmp_path / "copy")
    bare = shutil.copytree(
        store / "chats" / CHAT, tmp_path / "bare", ignore=lambda *_: ("cache", "head", "lock")
    )

    @asynccontextmanager
    async def live() -> AsyncIterator[Replay]:
        async with Store(store) as place, replaying(place, CHAT) as replay:
            yield replay

    return {
        "a store's folder": lambda: replaying(store, CHAT),
        "a chat's folder in its store": lambda: replaying(store / "chats" / CHAT),
        "a chat's folder elsewhere": lambda: replaying(outside),
        "nothing but its segments": lambda: replaying(str(bare)),
        "an export": lambda: replaying(tmp_path / "out.jsonl"),
        "a live store": live,
    }


async def test_it_shows_the_same_wherever_the_chat_is_and_changes_nothing(
    store: Path, tmp_path: Path
) -> None:
    shown = {}
    openers = await places(store, tmp_path)
    before = bytes_of(tmp_path)
    for name, opener in openers.items():
        async with opener() as replay:
            told = []
            for to in ("head", "t1", "c1^", "c1", "s1", "before-tools", "m2", "head-3", 0):
                await replay.seek(to)
                texts = msgspec.json.encode(msgspec.to_builtins(await replay.messages("openai")))
                told.append((replay.seq, replay.view.head, texts, replay[usage].tokens))
            shown[name] = told
    assert all(told == shown["a store's folder"] for told in shown.values())
    assert [seq for seq, *_ in shown["an export"]] == [34, 16, 18, 19, 20, 3, 11, 31, 0]
    assert bytes_of(tmp_path) == before


async def test_it_waits_for_no_lock(store: Path) -> None:
    with (store / "chats" / CHAT / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with replaying(store, CHAT) as replay:
            await replay.seek("t2")
            assert replay.seq == 20


_WRITER = """
import asyncio, sys
from chatfold.agent import Store, user
async def write():
    async with Store(sys.argv[1]) as store:
        chat = await store.chat("talk")
        for number in range(100):
            await chat.record(user(f"question {number}"))
asyncio.run(write())
"""


async def test_it_looks_on_while_another_process_writes(tmp_path: Path) -> None:
    async with Store(tmp_path) as place:
        await (await place.chat("talk")).record(user("begin"))
    async with replaying(tmp_path, "talk") as replay:
        writer = started(_WRITER, tmp_path)
        while replay.end < 101:
            here = replay.seq
            grew = await replay.refresh()
            assert replay.seq == here  # the cursor stays where it is
            assert grew or replay.end >= here
            await replay.seek("head")
            scratch = fold(start(STANDARD), [entry async for entry in replay.entries()])
            assert states(replay.view) == states(scratch)
            assert writer.poll() in (None, 0)
        finished(writer)
        assert await replay.refresh() is False


async def test_what_is_erased_meanwhile_is_no_longer_shown(tmp_path: Path) -> None:
    async with Store(tmp_path) as place:
        chat = await place.chat("talk")
        await chat.record(user("a secret"))
        await chat.record(user("and on"))
        async with replaying(tmp_path, "talk") as replay:
            assert [message["content"] for message in await replay.messages("openai")] == [
                "a secret",
                "and on",
            ]
            await chat.redact(1)
            assert await replay.refresh()
            assert [message["content"] for message in await replay.messages("openai")] == [
                "[redacted]",
                "and on",
            ]
            assert "secret" not in repr(replay.view)


async def test_a_chat_that_is_deleted_meanwhile_is_told(tmp_path: Path) -> None:
    async with Store(tmp_path) as place:
        chat = await place.chat("talk")
        await chat.record(user("begin"), user("and on"))
        async with replaying(place, "talk") as replay:
            await place.delete("talk")
            with pytest.raises(ChatDeleted):
                await replay.refresh()


async def test_what_it_cannot_open_is_told(store: Path, tmp_path: Path) -> None:
    for place, chat, error in (
        (tmp_path / "nowhere", "", NoStore),
        (tmp_path, "", NoStore),
        (store, "nobody", NoSuchChat),
        (store, "lexe", AmbiguousChat),
    ):
        with pytest.raises(error):
            async with replaying(place, chat):
                pass
    (tmp_path / "broken.jsonl").write_text("this is no export\n")
    with pytest.raises(CorruptLog, match=r"broken\.jsonl"):
        async with replaying(tmp_path / "broken.jsonl"):
            pass


async def test_a_place_that_there_is_not_is_told_and_the_cursor_stays() -> None:
    async with memory() as store:
        replay = Replay(await long_talk(store))
        await replay.seek(5)
        for to in (99, -1, "t99", "nowhere"):
            with pytest.raises(NoSuchPoint):
                await replay.seek(to)
        assert replay.seq == 5


class Questions(msgspec.Struct, frozen=True):
    count: int = 0


@projection(Questions, version=1)
def questions(state: Questions, entry: Entry) -> Questions:
    return Questions(state.count + (entry.event == user("again")))


async def test_it_folds_projections_of_ones_own(tmp_path: Path) -> None:
    async with Store(FileStorage(tmp_path, clock=TickingClock())) as place:
        chat: Chat = await place.chat("talk")
        await chat.record(user("begin"), user("again"), user("again"))
    async with replaying(tmp_path, projections=(questions,)) as replay:
        assert replay[questions].count == 2
        await replay.step(-1)
        assert replay[questions].count == 1
        assert isinstance(replay, Moment)
        assert (await replay.history()).turn_at(replay.seq) == 2
