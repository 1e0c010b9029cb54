"""The suite finds what it is there for: each of these storages has one bug, and the suite fails on it."""

import shutil
import tempfile
import unittest
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from chatfold.eventlog import Durability, Entry, FileStorage, Storage
from chatfold.eventlog.batch import AppendRequest, Batch, id_fingerprint, key_fingerprint
from chatfold.eventlog.codec import EncodedEvent
from chatfold.eventlog.erasure import plan_erasure
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.known import Known, Needs
from chatfold.eventlog.memory import _Chat
from chatfold.eventlog.search import Query, Spans
from chatfold.eventlog.search_text import text_of
from chatfold.eventlog.storage import ChatPage
from chatfold.testing.conformance import Backend, agreement, stories
from tests.eventlog.optimistic import Optimistic, place_of
from tests.support.profile import searched


class DeleteRemovesWhatForksShare(Optimistic):
    async def delete(self, chat: str) -> None:
        lines = self._chats[chat].lines if chat in self._chats else []
        await super().delete(chat)
        for other in self._chats.values():
            other.lines = [line for line in other.lines if line not in lines]


class RedactLeavesForksAlone(Optimistic):
    async def redact(self, chat: str, seqs: Collection[int]) -> dict[str, list[int]]:
        erased = plan_erasure(chat, seqs, {chat: self._find_chat(chat).view()})
        for same in erased.values():
            self._chats[chat].erase(same)
        return erased


class ExpectedHeadIsNotCompared(Optimistic):
    def state(self, key: str) -> object:
        chat = self._chats.get(key)
        return chat.erasures if chat else None


class ErasureIsNotCompared(Optimistic):
    def state(self, key: str) -> object:
        return self._chats[key].head if key in self._chats else None


class ErasedTextIsUsedAgain(Optimistic):
    """Its client keeps the lines it once fetched, and the fingerprints with them."""

    def __init__(self, **how: object) -> None:
        super().__init__(**how)  # type: ignore[arg-type]
        self.fetched: dict[str, Known] = {}

    def _number(self, request: AppendRequest, chat: _Chat) -> Batch:
        cached, tell = self.fetched.setdefault(request.chat, Known()), chat.tell

        def tell_from_cache(wanted: Needs, known: Known) -> None:
            tell(wanted, known)
            known.seqs = {one: [*cached.seqs.get(one, ()), *seqs] for one, seqs in known.seqs.items()}
            known.lines |= cached.lines
            cached.seqs |= known.seqs
            cached.lines |= known.lines

        chat.tell = tell_from_cache  # type: ignore[method-assign]
        try:
            return super()._number(request, chat)
        finally:
            del chat.tell


class AByteIsChanged(Optimistic):
    """A column of text that cannot hold a NUL."""

    def _write(self, request: AppendRequest, batch: Batch, chat: _Chat) -> None:
        lines = [line.replace(b"\\u0000", b"\\u0001") for line in batch.lines]
        super()._write(request, replace(batch, lines=lines), chat)


class AnIdIsNotLookedUp(Optimistic):
    def _number(self, request: AppendRequest, chat: _Chat) -> Batch:
        if request.id is not None:
            chat.seqs.pop(id_fingerprint(request.id), None)
        return super()._number(request, chat)


class AKeyIsNotLookedUp(Optimistic):
    def _number(self, request: AppendRequest, chat: _Chat) -> Batch:
        for event in request.events:
            chat.seqs.pop(key_fingerprint(event.key or ""), None)
        return super()._number(request, chat)


class ALeaseIsNotCompared(Optimistic):
    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:
        return await super().append(replace(request, lease=""), durability)


class AForkGoesPastItsPoint(Optimistic):
    async def fork(self, chat: str, new: str, at: int, first: EncodedEvent) -> Entry:
        past = at + 1 if 0 < at < (await self.head(chat)).seq else at
        return await super().fork(chat, new, past, first)


class ABlobIsNotWritten(Optimistic):
    def _write(self, request: AppendRequest, batch: Batch, chat: _Chat) -> None:
        super()._write(request, batch, chat)
        chat.blobs.clear()


class AnImportIsNotWhole(Optimistic):
    """A client that appends line by line, and is interrupted by the end of the file."""

    async def import_chat(self, chat: str, chunks: AsyncIterator[bytes]) -> None:
        try:
            await super().import_chat(chat, chunks)
        except Exception:
            self._chats.setdefault(chat, _Chat())
            raise


class AFollowerIsLeftBehind(Optimistic):
    async def wait_for_news(self, chat: str, after: int) -> None:
        if chat in self._chats:
            await super().wait_for_news(chat, after)
        else:
            await super().wait_for_news(chat, 0)


class ATokenIsTheHead(Optimistic):
    """Which an erasure does not move."""

    async def chats(self, prefix: str = "", changed_since: str = "") -> AsyncGenerator[ChatPage]:
        async for page in super().chats(prefix, changed_since):
            rows = [replace(row, token=f"{row.key} {(await self.head(row.key)).link}") for row in page.rows]
            yield ChatPage(rows, page.mark)


class ARowCountsForEver(Optimistic):
    async def chats(self, prefix: str = "", changed_since: str = "") -> AsyncGenerator[ChatPage]:
        async for page in super().chats(prefix, changed_since):
            rows = [replace(row, row_token=row.token if row.row else "") for row in page.rows]
            yield ChatPage(rows, page.mark)


class WhatHasChangedIsLeftOut(Optimistic):
    """Only what was appended to is in."""

    async def chats(self, prefix: str = "", changed_since: str = "") -> AsyncGenerator[ChatPage]:
        async for page in super().chats(prefix, changed_since):
            rows = [row for row in page.rows if not changed_since or not self._chats[row.key].erasures]
            yield ChatPage(rows, page.mark)


class SearchComparesTextsAsTheyAre(Optimistic):
    """Its database looks for the words, and does not know that case is nothing."""

    async def search(self, chat: str, query: Query, without: Spans = ()) -> AsyncGenerator[Entry]:
        async for entry in super().search(chat, query, without):
            if query.is_exact or all(literal in text_of(entry) for literal in query.literals):
                yield entry


class SearchGivesWhatIsLeftOut(Optimistic):
    async def search(self, chat: str, query: Query, without: Spans = ()) -> AsyncGenerator[Entry]:
        async for entry in super().search(chat, query):
            yield entry


BUGS: list[type[Optimistic]] = [
    DeleteRemovesWhatForksShare,
    RedactLeavesForksAlone,
    ExpectedHeadIsNotCompared,
    ErasureIsNotCompared,
    ErasedTextIsUsedAgain,
    AByteIsChanged,
    AnIdIsNotLookedUp,
    AKeyIsNotLookedUp,
    ALeaseIsNotCompared,
    AForkGoesPastItsPoint,
    ABlobIsNotWritten,
    AnImportIsNotWhole,
    AFollowerIsLeftBehind,
    ATokenIsTheHead,
    ARowCountsForEver,
    WhatHasChangedIsLeftOut,
    SearchComparesTextsAsTheyAre,
    SearchGivesWhatIsLeftOut,
]


class Unlocked(Disk):
    def lock(self, fd: int) -> None:
        pass

    def try_lock(self, fd: int) -> bool:
        return True


class AFileStorageWithoutALock(Backend):
    races = ("threads",)

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp())

    def open(self, clock: Callable[[], int]) -> Storage:
        return FileStorage(self.root, clock=clock, disk=Unlocked())

    def remove(self) -> None:
        shutil.rmtree(self.root)


def suite_of(kind: type[Optimistic]) -> Iterator[unittest.TestCase]:
    for case in (stories(place_of(kind), patience=2), agreement(place_of(kind), search=searched(1 / 3))):
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(case):
            assert isinstance(test, unittest.TestCase)
            yield test


def fails(test: unittest.TestCase) -> bool:
    found = unittest.TestResult()
    test.run(found)
    return not found.wasSuccessful()


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_the_suite_finds_a_bug_that_was_planted(kind: type[Optimistic]) -> None:
    assert any(map(fails, suite_of(kind)))


def test_the_suite_finds_a_lock_that_does_not_lock() -> None:
    case = stories(AFileStorageWithoutALock)
    assert fails(case("test_racers_neither_lose_nor_repeat_anything"))


def test_the_suite_has_nothing_to_say_about_the_same_storage_without_a_bug() -> None:
    assert [test.id() for test in suite_of(Optimistic) if fails(test)] == []
