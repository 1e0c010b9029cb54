"""A state machine: every storage does what MemoryStorage does, over any history of operations, reopenings and crashes."""

import asyncio
import unittest
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chatfold.eventlog import (
    ChatDeleted,
    ChatfoldError,
    Conflict,
    Durability,
    Entry,
    Event,
    Head,
    IdConflict,
    Log,
    MemoryStorage,
    MessageAdded,
    Noted,
    Text,
)
from chatfold.eventlog.search import parse_exact, parse_words
from chatfold.eventlog.search_text import strings
from chatfold.testing.backend import Backend
from chatfold.testing.strategies import LARGE_TEXT, LONG_TEXTS, batches, events, names, same, same_entries

KEYS = ("a", "A/\ud800", "too long for a folder " * 10)
keys = st.sampled_from(KEYS)
seqs = st.integers(0, 12)

Work = Callable[[Log, str], Awaitable[Any]]
WORKS: tuple[Work, ...] = (
    lambda log, chat: log.append(chat, Noted("meanwhile")),
    lambda log, chat: log.append(chat, MessageAdded("user", (Text(LONG_TEXTS[0]),)), id="meanwhile"),
    lambda log, chat: log.storage.redact(chat, [1]),
    lambda log, chat: log.delete(chat),
    lambda log, chat: log.fork(chat, KEYS[0]),
)
works = st.sampled_from(WORKS)


class Agreement(RuleBasedStateMachine):
    backend: ClassVar[type[Backend]]
    durabilities: ClassVar[tuple[Durability, ...]] = ("full", "off")
    storages: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.time = 0
        self.place = self.backend()
        self.model = MemoryStorage(clock=self.clock)
        self.expected = Log(self.model)
        self.logs = [Log(self.place.open(self.clock)) for _ in range(self.storages)]
        self.actual = self.logs[0]
        self.commits: dict[str, list[int]] = {}  # the seqs at which a chat may end after a crash
        self.durable: dict[str, int] = {}
        self.appended: set[str] = set()  # since the storage was opened: what its flush is about
        self.retries: list[tuple[str, str, tuple[Event, ...], list[Entry]]] = []

    def clock(self) -> int:
        return self.time

    def teardown(self) -> None:
        for log in self.logs:
            self.run(log.storage.close())
        self.runner.close()
        self.place.remove()

    def run(self, work: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await work

        return self.runner.run(wait())

    def both(self, work: Callable[[Log], Awaitable[Any]]) -> Any:
        """The outcome of the same work on both, which must be the same: a value, or an error."""
        self.time += 1
        expected, actual = (self.run(_outcome(work(log))) for log in (self.expected, self.actual))
        assert self.agree(expected, actual), f"{expected!s:.2000} is not {actual!s:.2000}"
        return actual

    def agree(self, expected: Any, actual: Any) -> bool:
        if isinstance(expected, Entry):
            expected, actual = [expected], [actual]
        if type(expected) is not type(actual):
            return False
        if isinstance(expected, list) and expected and isinstance(expected[0], Entry):
            return same_entries(expected, actual, sums=self.exact)
        if isinstance(expected, Head) and not self.exact:
            return bool(expected.seq == actual.seq)
        if isinstance(expected, dict):
            return bool(expected == actual)  # what was erased, by chat: in any order
        return same(expected, actual)

    @property
    def exact(self) -> bool:
        """With everything synced at once, and by one storage, which knows it, every storage writes the same bytes."""
        return self.durabilities == ("full",) and self.storages == 1

    def committed(self, chat: str, last: int, durability: Durability = "full") -> None:
        self.commits.setdefault(chat, []).append(last)
        self.appended.add(chat)
        if durability == "full":
            self.durable[chat] = last

    def length(self, chat: str) -> int:
        return (self.commits.get(chat) or [0])[-1]

    # --- two storages of one place -------------------------------------------------------------------------

    @precondition(lambda self: self.storages > 1)
    @rule()
    def go_on_with_the_other_storage(self) -> None:
        self.logs.reverse()
        self.actual = self.logs[0]

    @precondition(lambda self: self.storages > 1 and self.backend.can_interrupt)
    @rule(chat=keys, batch=batches(), name=st.none() | names(), work=works, data=st.data())
    def meanwhile(
        self, chat: str, batch: tuple[Event, ...], name: str | None, work: Work, data: st.DataObject
    ) -> None:
        """The other storage does something between an append's numbering and its writing: as if it had come before."""
        after = data.draw(st.none() | st.just(self.length(chat)))
        outcomes: list[Any] = []
        is_over = False

        async def meanwhile() -> None:
            if not is_over:
                outcomes.append(await _outcome(work(self.logs[1], chat)))

        self.time += 1
        self.place.interrupt(self.actual.storage, meanwhile)
        actual = self.run(_outcome(self.actual.append(chat, *batch, id=name, after=after)))
        is_over = True  # one that is refused before it is numbered waits for nothing, and nothing is done
        expected = [
            *(self.run(_outcome(work(self.expected, chat))) for _ in outcomes),
            self.run(_outcome(self.expected.append(chat, *batch, id=name, after=after))),
        ]
        assert all(map(self.agree, expected, [*outcomes, actual])), f"{expected} is not {outcomes}, {actual}"
        for key in KEYS:
            self.both(lambda log, key=key: _all(log.read(key)))  # type: ignore[misc]
            self.commits.pop(key, None)
            self.durable.pop(key, None)
            if length := self.run(self.expected.head(key)).seq:
                self.committed(key, length)
        self.retries = []

    # --- appending -------------------------------------------------------------------------------------

    @rule(chat=keys, batch=batches(), run=st.none() | names(), data=st.data())
    def append(self, chat: str, batch: tuple[Event, ...], run: str | None, data: st.DataObject) -> None:
        durability = data.draw(st.sampled_from(self.durabilities))
        entries = self.both(lambda log: log.append(chat, *batch, run=run, durability=durability))
        assert same([entry.event for entry in entries], list(batch))
        assert [entry.seq for entry in entries] == [self.length(chat) + 1 + i for i in range(len(batch))]
        # The first append makes the chat, which is durable from the moment it exists.
        self.committed(chat, entries[-1].seq, durability if self.length(chat) else "full")

    @rule(chat=keys, event=events(), after=seqs, right=st.booleans())
    def append_after(self, chat: str, event: Event, after: int, right: bool) -> None:
        head = self.length(chat)
        after = head if right else after
        outcome = self.both(lambda log: log.append(chat, event, after=after))
        if after == head:
            self.committed(chat, head + 1)
        else:
            assert outcome == (Conflict, after, head)

    @rule(chat=keys, batch=batches(), name=names(), data=st.data())
    def append_with_id(self, chat: str, batch: tuple[Event, ...], name: str, data: st.DataObject) -> None:
        self.try_id(chat, name, batch, data.draw(st.sampled_from(self.durabilities)))

    @precondition(lambda self: self.retries)
    @rule(chat=keys, data=st.data())
    def append_with_an_id_of_another_chat(self, chat: str, data: st.DataObject) -> None:
        """Known there only if it is a fork of this one, perhaps one that begins inside that very batch."""
        _, name, batch, _ = data.draw(st.sampled_from(self.retries))
        self.try_id(chat, name, batch, "full")

    def try_id(self, chat: str, name: str, batch: tuple[Event, ...], durability: Durability) -> None:
        outcome = self.both(lambda log: log.append(chat, *batch, id=name, durability=durability))
        assert isinstance(outcome, list) or outcome == (IdConflict,)
        if isinstance(outcome, list) and outcome[0].seq > self.length(chat):
            self.retries.append((chat, name, batch, outcome))
            self.committed(chat, outcome[-1].seq, durability if self.length(chat) else "full")
        elif isinstance(outcome, list) and durability == "full":
            self.durable[chat] = max(self.durable[chat], outcome[-1].seq)

    @precondition(lambda self: self.retries)
    @rule(data=st.data(), after=st.none() | seqs)
    def retry_by_id(self, data: st.DataObject, after: int | None) -> None:
        """The entries of the first time, wherever the log is now; erased ones as what is left of them."""
        chat, name, batch, first = data.draw(st.sampled_from(self.retries))
        again = self.both(lambda log: log.append(chat, *batch, id=name, after=after))
        assert [entry.seq for entry in again] == [entry.seq for entry in first]
        assert all(entry.was or same(entry.event, e) for entry, e in zip(again, batch, strict=True))
        self.durable[chat] = max(self.durable[chat], first[-1].seq)

    @precondition(lambda self: self.retries)
    @rule(data=st.data())
    def other_content_by_the_same_id(self, data: st.DataObject) -> None:
        chat, name, batch, _ = data.draw(st.sampled_from(self.retries))
        outcome = self.both(lambda log: log.append(chat, *batch, Noted("one more"), id=name))
        assert isinstance(outcome, list) or outcome == (IdConflict,)

    @rule(chat=keys)
    def append_what_is_larger_than_a_line(self, chat: str) -> None:
        self.both(lambda log: log.append(chat, MessageAdded("user", (Text(LARGE_TEXT),))))
        self.committed(chat, self.length(chat) + 1)

    @rule()
    def flush(self) -> None:
        self.both(lambda log: log.flush())
        for log in self.logs:  # each is asked for what it appended itself
            self.run(log.flush())
        self.durable |= {chat: self.length(chat) for chat in self.appended}

    # --- reading ---------------------------------------------------------------------------------------

    @rule(chat=keys, first=seqs, last=st.none() | seqs)
    def read(self, chat: str, first: int, last: int | None) -> None:
        entries = self.both(lambda log: _all(log.read(chat, first, last)))
        end = self.length(chat) if last is None else min(last, self.length(chat))
        assert [entry.seq for entry in entries] == list(range(max(1, first), end + 1))

    @rule(chat=keys, last=st.none() | seqs)
    def read_back(self, chat: str, last: int | None) -> None:
        entries = self.both(lambda log: _all(log.read_back(chat, last)))
        end = self.length(chat) if last is None else min(last, self.length(chat))
        assert [entry.seq for entry in entries] == list(range(end, 0, -1))

    @rule(chat=keys, count=seqs)
    def read_the_last(self, chat: str, count: int) -> None:
        self.both(lambda log: log.last(chat, count))

    @rule(chat=keys, spans=st.lists(st.tuples(seqs, seqs), max_size=3))
    def read_spans(self, chat: str, spans: list[tuple[int, int]]) -> None:
        self.both(lambda log: _all(log.spans(chat, spans)))

    @rule(chat=keys, spans=st.lists(st.tuples(seqs, seqs), max_size=1), data=st.data())
    def search(self, chat: str, spans: list[tuple[int, int]], data: st.DataObject) -> None:
        """For a piece of what was said there, word by word and letter by letter."""
        entries = self.run(_all(self.expected.read(chat)))
        texts = [text for entry in entries for text in strings(entry.event) if text]
        text = data.draw(st.sampled_from(texts) if texts else st.just("nothing"))
        start = data.draw(st.integers(0, len(text) - 1))
        piece = text[start : start + data.draw(st.integers(1, 40))]
        for parse in (parse_exact, parse_words):
            with suppress(ValueError):  # a piece without a word
                query = parse(piece)
                self.both(lambda log, query=query: _all(log.storage.search(chat, query, spans)))  # type: ignore[misc]

    # --- forking, erasing, deleting ----------------------------------------------------------------------

    @rule(chat=keys, new=keys, at=st.none() | seqs)
    def fork(self, chat: str, new: str, at: int | None) -> None:
        outcome = self.both(lambda log: log.fork(chat, new, at))
        if isinstance(outcome, Entry):
            self.commits[new] = [outcome.seq]
            self.durable[new] = outcome.seq

    @rule(chat=keys, wanted=st.lists(seqs, max_size=3))
    def redact(self, chat: str, wanted: list[int]) -> None:
        outcome = self.both(lambda log: log.redact(chat, *wanted))
        for key in outcome if isinstance(outcome, dict) else ():
            self.committed(key, self.length(key) + 1)

    @rule(chat=keys)
    def delete(self, chat: str) -> None:
        if self.both(lambda log: log.delete(chat)) is None:
            self.forget(chat)

    def forget(self, chat: str) -> None:
        self.commits.pop(chat, None)  # deleting what is not there is quiet
        self.durable.pop(chat, None)
        self.appended.discard(chat)
        self.retries = [retry for retry in self.retries if retry[0] != chat]

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def delete_under_a_follower(self, data: st.DataObject) -> None:
        chat = data.draw(st.sampled_from(sorted(self.commits)))
        assert self.both(lambda log: _followed_and_deleted(log, chat, self.length(chat))) == (ChatDeleted,)
        self.forget(chat)

    # --- reopening and crashing --------------------------------------------------------------------------

    @rule(caches=st.booleans())
    def reopen(self, caches: bool) -> None:
        for log in self.logs:
            self.run(log.storage.close())
        self.durable |= {chat: self.length(chat) for chat in self.appended}
        self.open_again(caches)

    @precondition(lambda self: self.commits and self.backend.can_crash)
    @rule(data=st.data(), keep=st.floats(0, 1), caches=st.booleans())
    def crash_and_reopen(self, data: st.DataObject, keep: float, caches: bool) -> None:
        chat = data.draw(st.sampled_from(sorted(self.commits)))
        self.place.crash(self.actual.storage, chat, keep)
        for log in self.logs:
            if log is not self.actual:
                self.place.abandon(log.storage)
        self.open_again(caches)
        self.is_a_prefix(chat)
        # Any append, this one in vain, makes the storage mend what the crash left.
        self.run(_outcome(self.actual.append(chat, Noted("in vain"), after=99)))
        self.cut_model(chat, self.is_a_prefix(chat))

    def open_again(self, caches: bool) -> None:
        if not caches:
            self.place.forget_caches()
        self.logs = [Log(self.place.open(self.clock)) for _ in self.logs]
        self.actual = self.logs[0]
        self.appended.clear()

    def is_a_prefix(self, chat: str) -> int:
        """What is left ends with a whole batch, has everything durable, and is otherwise what was there."""
        left = self.run(_all(self.actual.read(chat)))
        assert len(left) in self.commits[chat]
        assert len(left) >= self.durable[chat]
        before = self.run(_all(self.expected.read(chat)))
        assert same_entries(before[: len(left)], left, sums=self.exact)
        return len(left)

    def cut_model(self, chat: str, last: int) -> None:
        model = self.model._chats[chat]  # noqa: SLF001 (a power cut, which memory does not know)
        del model.lines[last:]
        model.seqs = {key: [seq for seq in found if seq <= last] for key, found in model.seqs.items()}
        self.commits[chat] = [seq for seq in self.commits[chat] if seq <= last]
        self.retries = [retry for retry in self.retries if retry[0] != chat or retry[3][-1].seq <= last]

    # --- always ------------------------------------------------------------------------------------------

    @invariant()
    def heads_agree(self) -> None:
        for chat in KEYS:
            assert self.head(chat).seq == self.length(chat)

    def head(self, chat: str) -> Any:
        return self.both(lambda log: log.head(chat))

    @invariant()
    def chats_agree(self) -> None:
        listed = self.both(lambda log: _sorted(log.chats()))
        assert listed == sorted(self.commits)


async def _outcome(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Conflict as error:
        return Conflict, error.expected, error.actual
    except ChatfoldError as error:
        return (type(error),)


async def _followed_and_deleted(log: Log, chat: str, end: int) -> None:
    async with asyncio.timeout(20), aclosing(log.follow(chat)) as follower:
        async for entry in follower:
            if entry.seq == end:
                await log.delete(chat)


async def _all(entries: Any) -> list[Any]:
    return [entry async for entry in entries]


async def _sorted(found: Any) -> list[Any]:
    return sorted(await _all(found))


def agreement(
    backend: type[Backend],
    *durabilities: Durability,
    storages: int = 2,
    search: settings | None = None,
) -> type[unittest.TestCase]:
    """A test case that searches for a history after which the storage and MemoryStorage differ.

    ``durabilities``: those that the storage offers. ``storages``: open at once, on one
    place. One, and "full" alone: it must write the very bytes of MemoryStorage.
    """
    machine: Any = type(
        "Agreement",
        (Agreement,),
        {"backend": backend, "durabilities": durabilities or ("full",), "storages": storages},
    )
    machine.TestCase.settings = search or settings(deadline=None, suppress_health_check=list(HealthCheck))
    case: type[unittest.TestCase] = machine.TestCase
    return case
