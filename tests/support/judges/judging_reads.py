"""Whatever was done to a chat's files: is every value that is read the one that was written, and is the rest told?

Each way of reading either gives entries that stand in the log at that place, or raises ``CorruptLog`` with the place;
entries may be missing without an error only at the end, whole batches of them, and only if nothing left on disk calls
them durable. ``Wrong`` is raised where that is not so.
"""

import random
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from chatfold.agent import Store
from chatfold.eventlog import CorruptLog, Entry, FileStorage, Log, Noted, check, scan
from tests.support.damage.broken import segments
from tests.support.damage.intact import Intact
from tests.support.judges.talk import digest_of

_SHOWN = 160


class Wrong(AssertionError):
    """A value was read that was not written there, or something is missing without a word."""


class Judge:
    """Of one damage. ``told`` says whether anybody was.

    ``foreign``: there are lines of another chat that verify by themselves. That they are in the wrong place tells the
    line after them at the latest, so that what was read before the error is excused.
    """

    def __init__(self, intact: Intact, *, foreign: bool = False) -> None:
        self.intact = intact
        self._foreign = foreign
        self.durable = intact.durable()
        self.told: list[CorruptLog] = []

    def _tell(self, error: CorruptLog) -> None:
        if error.path is None or (error.seq is None and error.offset is None):
            raise Wrong(f"an error that does not say where: {error}")
        self.told.append(error)

    # --- the ways of reading ---------------------------------------------------------------------------------

    async def quickly(self) -> None:
        """By ``scan``, and by a storage that was just opened: all, backwards, the last ones, the head."""
        self._whole("scan", *_taken(scan(self.intact.folder)))
        key = self.intact.folder.name
        async with Log(FileStorage(self.intact.root, read_only=True)) as log:
            self._whole("read", *await _gathered(log.read(key)))
            found, error = await _gathered(log.read_back(key))
            self._from_the_end("read_back", found[::-1], error)
            await self._last(log, key)

    async def _last(self, log: Log, key: str) -> None:
        with self._telling():
            self._from_the_end("last", await log.last(key, 5))
        with self._telling():
            head = await log.head(key)
            if head != self.intact.heads().get(head.seq) or not self._may_end(head.seq):
                raise Wrong(f"head: {head}")

    async def thoroughly(self) -> None:
        """Parts of it, and what an embedder sees: a chat, its messages, what is found in it; and ``check``."""
        end = len(self.intact.entries)
        await self._parts(sorted({1, *range(max(1, end - 30), end + 1), *range(1, end, max(1, end // 20))}))
        await self._as_embedders()
        report = check(self.intact.folder)
        if self.told and report.ok:
            raise Wrong(f"check says nothing of {self.told[0]}")

    async def by_caches(self, chance: random.Random) -> None:
        """In the ways that use one: parts of the log, a chat, what is found in it, the list of chats."""
        await self._parts(chance.sample(range(1, len(self.intact.entries) + 1), 3))
        await self._as_embedders()
        async with Store(self.intact.root, read_only=True) as store:
            for one in [listed async for listed in store.chats()]:
                if one != self.intact.listed:
                    raise Wrong(f"listed: {one}")
        if self.told:
            raise Wrong(f"a cache that is damaged is made anew, not told: {self.told[0]}")

    async def _as_embedders(self) -> None:
        key = self.intact.folder.name
        async with Store(self.intact.root, read_only=True) as store:
            with self._telling():
                chat = await store.chat(key)
                messages = await chat.messages("openai")
                if not self._may_end(chat.seq) or messages != self.intact.messages.get(chat.seq, messages):
                    raise Wrong(f"messages at {chat.seq}: {str(messages)[:_SHOWN]}")
            with self._telling():
                for hit in await store.log.search(key, "answer"):
                    if "answer" not in self.intact.reprs[hit.seq - 1]:
                        raise Wrong(f"search: {hit}")

    async def _parts(self, seqs: list[int]) -> None:
        """Each entry alone, those from it on, and those up to it."""
        key = self.intact.folder.name
        async with Log(FileStorage(self.intact.root, read_only=True)) as log:
            for seq in seqs:
                for first, last in ((seq, seq), (seq, seq + 3)):
                    found, error = await _gathered(log.read(key, first, last))
                    self._are_at(first, f"read {first} to {last}", found, error)
                with self._telling():
                    self._from_the_end(f"last up to {seq}", await log.last(key, 2, seq), upto=seq)

    # --- judging ---------------------------------------------------------------------------------------------

    def _telling(self) -> "_Telling":
        return _Telling(self)

    def _may_end(self, seq: int) -> bool:
        return seq == len(self.intact.entries) or (seq in self.intact.commits and seq >= self.durable)

    def _whole(self, how: str, found: list[Entry], error: CorruptLog | None = None) -> None:
        self._are_at(1, how, found, error)
        if error is None and not self._may_end(len(found)):
            raise Wrong(f"{how}: ends at {len(found)}, but {self.durable} was durable")

    def _from_the_end(
        self, how: str, found: list[Entry], error: CorruptLog | None = None, *, upto: int = 0
    ) -> None:
        end = found[-1].seq if found else 0
        if error is not None and self._foreign:
            self._tell(error)
            return
        if (found or error is None) and not self._may_end(end) and end != upto:
            raise Wrong(f"{how}: ends at {end}, but {self.durable} was durable")
        self._are_at(end - len(found) + 1, how, found, error)

    def _are_at(self, first: int, how: str, found: list[Entry], error: CorruptLog | None = None) -> None:
        """What was read before an error must be right, too."""
        if error is not None and self._foreign:
            found = []
        right = self.intact.reprs[first - 1 : first - 1 + len(found)]
        for entry, expected in zip(map(repr, found), right, strict=False):
            if entry != expected:
                raise Wrong(f"{how}: {entry[:_SHOWN]} instead of {expected[:_SHOWN]}")
        if len(found) > len(right):
            raise Wrong(f"{how}: {found[len(right)]!r} was never written"[: 2 * _SHOWN])
        if error is not None:
            self._tell(error)


class _Telling:
    """A ``CorruptLog`` inside is an answer, too."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, CorruptLog):
            self._judge._tell(error)
            return True
        return False


def _taken(entries: Iterable[Entry]) -> tuple[list[Entry], CorruptLog | None]:
    found: list[Entry] = []
    try:
        found.extend(entries)
    except CorruptLog as error:
        return found, error
    return found, None


async def _gathered(entries: AsyncIterator[Entry]) -> tuple[list[Entry], CorruptLog | None]:
    found: list[Entry] = []
    try:
        async for entry in entries:
            found.append(entry)  # noqa: PERF401 (what comes before an error counts)
    except CorruptLog as error:
        return found, error
    return found, None


# --- then a writer comes -------------------------------------------------------------------------------------


async def judge_writer(intact: Intact, scratch: Path) -> bool:
    """It refuses, and changes nothing; or it goes on, and nothing that verified is lost. Was it the second?"""
    root = scratch / "written"
    shutil.copytree(intact.root, root)
    try:
        folder = root / "chats" / intact.folder.name
        return await _judge_writer(intact, root, folder)
    finally:
        shutil.rmtree(root)


async def _judge_writer(intact: Intact, root: Path, folder: Path) -> bool:
    before, read = digest_of(folder, times=False), _taken(scan(folder))[0]
    kept = {path.name: path.read_bytes() for path in segments(folder)}
    async with Log(FileStorage(root)) as log:
        try:
            [entry] = await log.append(folder.name, Noted("after"))
        except CorruptLog:
            if digest_of(folder, times=False) != before:
                raise Wrong("a writer refused, but changed something") from None
            return False
        await _asked_again(intact, log, folder.name)
    now, _ = _taken(scan(folder))
    if list(map(repr, now[: len(read)])) != list(map(repr, read)):
        raise Wrong("a writer lost or changed what verified")
    if entry.prev != intact.heads()[entry.seq - 1].link:
        raise Wrong(f"a writer went on after something else than entry {entry.seq - 1}")
    for name, content in kept.items():
        _is_still_there(folder, name, content)
    return True


async def _asked_again(intact: Intact, log: Log, key: str) -> None:
    """By an id that was used: it is found, whatever became of the lookups, or the log is called damaged."""
    first = intact.first_by_id()
    with suppress(CorruptLog):
        again = await log.append(key, *(entry.event for entry in first), id=first[0].id)
        if [entry.sum for entry in again] != [entry.sum for entry in first]:
            raise Wrong(f"id {first[0].id!r} was recorded a second time")


def _is_still_there(folder: Path, name: str, content: bytes) -> None:
    """All bytes that were there are, in their place or set aside; but for padding, which is written over."""
    left = (folder / name).read_bytes()
    if not left.startswith(content.rstrip(b"\n") + b"\n" * content.endswith(b"\n")):
        aside: list[Any] = []
        with suppress(FileNotFoundError):
            aside = [path.read_bytes() for path in (folder / "aside").iterdir()]
        if not any(
            content.endswith(torn) and left.startswith(content[: len(content) - len(torn)]) for torn in aside
        ):
            raise Wrong(f"a writer took bytes of {name} away")
