"""Live == opened == rebuilt from nothing == opened earlier and folded on: whatever is done to the caches."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chatfold.agent import Store
from chatfold.agent.views import KEEP, MOST, Opened, keep_view, open_view, window_entries
from chatfold.eventlog import (
    Compacted,
    Entry,
    Event,
    FileStorage,
    Head,
    Log,
    MemoryStorage,
    NoSuchPoint,
    ToolCalled,
)
from chatfold.projections import STANDARD, Projection, View, contexts, fold, messages, projection, start
from chatfold.projections.contexts import window
from chatfold.projections.snapshot import dump
from chatfold.testing.strategies import batches
from tests.support.clock import TickingClock
from tests.support.histories import assistant, talks, user


class Tools(msgspec.Struct, frozen=True):
    used: dict[str, int] = {}


@projection(Tools, version=3)
def tools(state: Tools, entry: Entry) -> Tools:
    match entry.event:
        case ToolCalled(name=name):
            return Tools({**state.used, name: state.used.get(name, 0) + 1})
    return state


OURS: tuple[Projection[Any], ...] = (*STANDARD, tools)
OLDER = tuple(Projection(p.step, p.start, p.version - 1) for p in OURS)
seqs = st.integers(0, 60)


class Opening(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp())
        self.clock = TickingClock()
        self.chat, self.forks = "chat", 0
        self.live = start(OURS)
        self.open()

    def open(self) -> None:
        self.log = Log(FileStorage(self.root, clock=self.clock, segment_bytes=2000, durability="off"))

    def teardown(self) -> None:
        self.run(self.log.storage.close())
        self.runner.close()
        shutil.rmtree(self.root)

    def run(self, work: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await work

        return self.runner.run(wait())

    def entries(self) -> list[Entry]:
        async def read() -> list[Entry]:
            return [entry async for entry in self.log.read(self.chat)]

        found: list[Entry] = self.run(read())
        return found

    def opened(self, at: int | None = None) -> View:
        found: Opened = self.run(open_view(self.log, self.chat, at=at, projections=OURS))
        return found.view

    def cache_files(self) -> list[Path]:
        return sorted(self.root.glob("chats/*/cache/*.*"))

    # --- what happens ------------------------------------------------------------------------------------

    @rule(events=talks() | batches())
    def append(self, events: list[Event]) -> None:
        for event in events:
            self.live = fold(self.live, self.run(self.log.append(self.chat, event)))

    @rule()
    def keep(self) -> None:
        self.run(keep_view(self.log, self.chat, self.live))

    @rule()
    def reopen(self) -> None:
        self.run(self.log.storage.close())
        self.open()

    @precondition(lambda self: self.live.seq)
    @rule(at=seqs)
    def fork(self, at: int) -> None:
        at = 1 + at % self.live.seq
        self.forks += 1
        before = self.entries()[:at]
        new = self.run(self.log.fork(self.chat, f"fork-{self.forks}", at))
        self.chat = f"fork-{self.forks}"
        self.live = fold(start(OURS), [*before, new])

    @precondition(lambda self: self.live.seq)
    @rule(some=st.lists(seqs, min_size=1, max_size=3))
    def redact(self, some: list[int]) -> None:
        self.run(self.log.redact(self.chat, *{1 + seq % self.live.seq for seq in some}))
        self.live = (
            self.opened()
        )  # the history is another one: what was folded before may hold what was erased

    # --- what happens to the caches ----------------------------------------------------------------------

    @rule()
    def delete_caches(self) -> None:
        for cache in self.root.glob("chats/*/cache"):
            shutil.rmtree(cache)

    @precondition(lambda self: self.cache_files())
    @rule(which=seqs, part=st.floats(0, 1))
    def truncate_a_cache(self, which: int, part: float) -> None:
        path = self.cache_files()[which % len(self.cache_files())]
        content = path.read_bytes()
        path.write_bytes(content[: round(part * len(content))])

    @precondition(lambda self: self.cache_files())
    @rule(which=seqs, part=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
    def flip_a_bit_in_a_cache(self, which: int, part: float, bit: int) -> None:
        path = self.cache_files()[which % len(self.cache_files())]
        content = bytearray(path.read_bytes())
        if content:
            content[int(part * len(content))] ^= 1 << bit
            path.unlink()  # a fork may share it
            path.write_bytes(content)

    @rule()
    def keep_a_snapshot_of_older_code(self) -> None:
        older = View(OLDER, tuple(p.start() for p in OLDER), self.live.head)
        self.run(keep_view(self.log, self.chat, older))

    @rule(back=st.integers(0, 3))
    def keep_a_snapshot_of_another_history(self, back: int) -> None:
        other = Head(max(0, self.live.seq - back), "feedfeedfeedfeed")
        self.run(self.log.storage.store_snapshot(self.chat, other, dump(start(OURS))))

    # --- what must be true -------------------------------------------------------------------------------

    @invariant()
    def live_opened_and_rebuilt_are_the_same(self) -> None:
        rebuilt = fold(start(OURS), self.entries())
        opened = self.opened()
        assert opened.head == rebuilt.head == self.live.head
        assert opened.states == rebuilt.states == self.live.states
        assert opened.fingerprint == rebuilt.fingerprint == self.live.fingerprint

    @rule(at=seqs)
    def an_earlier_view_is_the_same_fold_stopped_and_goes_on_to_the_end(self, at: int) -> None:
        at %= self.live.seq + 1
        entries = self.entries()
        past = self.opened(at)
        assert past.states == fold(start(OURS), entries[:at]).states
        assert fold(past, entries[at:]).states == self.live.states

    @rule()
    def the_window_is_read_whole(self) -> None:
        opened: Opened = self.run(open_view(self.log, self.chat, projections=OURS))
        wanted = window(opened.view[contexts], opened.view.seq).entries
        found = self.run(window_entries(self.log, self.chat, opened))
        assert [entry.seq for entry in found] == [
            seq for first, last in wanted for seq in range(first, last + 1)
        ]
        assert messages(opened.view, found) == messages(opened.view, self.entries())


TestOpening = Opening.TestCase


# --- how much is read ------------------------------------------------------------------------------------


class Counting(FileStorage):
    """Says how many entries were read."""

    read_lines = 0

    async def read_entries(self, chat: str, first: int = 1, last: int | None = None) -> Any:
        async for page in super().read_entries(chat, first, last):
            self.read_lines += len(page)
            yield page

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Entry]:
        entries = await super().last(chat, count, upto)
        self.read_lines += len(entries)
        return entries


async def long_chat(storage: FileStorage | MemoryStorage, count: int) -> Log:
    log = Log(storage)
    for number in range(0, count, 50):
        await log.append("chat", *(user(f"question {number + more}") for more in range(50)))
    return log


async def test_opening_folds_at_most_a_few_hundred_entries_whatever_the_length(root: Path) -> None:
    log = await long_chat(FileStorage(root, durability="off", segment_bytes=100_000), 5_000)
    await open_view(log, "chat")
    for number in range(3 * KEEP):
        await log.append("chat", assistant(f"answer {number}"))
        opened = await open_view(log, "chat")
        newest = await anext(log.storage.load_snapshots("chat"))
        assert opened.view.seq - newest[0].seq <= KEEP
    await log.storage.close()


@pytest.mark.parametrize(("pause", "most"), [(0.0, KEEP), (1e9, MOST)])
async def test_a_chat_keeps_up_also_when_entries_come_quickly(
    root: Path, monkeypatch: pytest.MonkeyPatch, pause: float, most: int
) -> None:
    monkeypatch.setattr("chatfold.agent.live.PAUSE_S", pause)
    async with Store(root, durability="off") as store:
        chat = await store.chat("chat")
        furthest = 0
        for number in range(0, 3 * MOST, 32):
            await chat.record(*(user(f"question {number + more}") for more in range(32)))
            await asyncio.gather(*chat._later)
            kept = [head.seq async for head, _ in store.log.storage.load_snapshots("chat")]
            furthest = max(furthest, chat.seq - max(kept, default=0))
        assert furthest == most - 32  # and not more often than that


async def test_any_seq_is_at_most_a_segment_away_from_a_snapshot(root: Path) -> None:
    log = await long_chat(FileStorage(root, durability="off", segment_bytes=20_000), 3_000)
    await open_view(log, "chat")
    borders = [0, *await log.storage.segment_boundaries("chat")]
    assert len(borders) > 10
    for at in range(1, 3_001, 97):
        nearest = [head.seq async for head, _ in log.storage.load_snapshots("chat", at)] or [0]
        assert nearest[0] >= max(border for border in borders if border <= at)
    await log.storage.close()


async def test_opening_reads_the_window_and_not_the_history(root: Path) -> None:
    log = await long_chat(FileStorage(root, durability="off"), 20_000)
    await log.append("chat", Compacted(1, 19_950, 19_950, "in short"))
    await open_view(log, "chat")
    await log.storage.close()
    counting = Counting(root, read_only=True)
    opened = await open_view(Log(counting), "chat")
    assert len(messages(opened.view, await window_entries(Log(counting), "chat", opened))) == 51
    assert counting.read_lines < 1_000


async def test_a_read_only_store_keeps_nothing(root: Path) -> None:
    await (await long_chat(FileStorage(root, durability="off"), 1_000)).storage.close()
    files = sorted(root.rglob("*"))  # noqa: ASYNC240
    view = (await open_view(Log(FileStorage(root, read_only=True)), "chat")).view
    assert view.seq == 1_000
    assert sorted(root.rglob("*")) == files  # noqa: ASYNC240


async def test_an_empty_chat_opens_where_everything_begins(log: Log) -> None:
    assert (await open_view(log, "nobody")).view == start(STANDARD)


async def test_a_seq_that_is_not_there_is_refused_with_both_numbers(log: Log) -> None:
    await log.append("chat", user())
    for nowhere in (2, -1):
        with pytest.raises(NoSuchPoint, match=f"there is no entry {nowhere}, the chat ends at 1"):
            await open_view(log, "chat", at=nowhere)


async def test_memory_and_files_give_the_same_view(root: Path) -> None:
    views = []
    for storage in (
        FileStorage(root, clock=TickingClock(), durability="off"),
        MemoryStorage(clock=TickingClock()),
    ):
        log = await long_chat(storage, 9_000)
        views += [(await open_view(log, "chat", at=at)).view.fingerprint for at in (None, 4_096, 8_500)]
        await log.storage.close()
    assert views[:3] == views[3:]


async def test_a_fork_takes_the_snapshots_along(log: Log) -> None:
    for number in range(600):
        await log.append("chat", user(f"question {number}"))
    await open_view(log, "chat")
    await log.fork("chat", "what-if", 500)
    nearest, _ = await anext(log.storage.load_snapshots("what-if"))
    assert 480 < nearest.seq <= 500
