"""What a program does with a log on the simulated disk: each verb says what is under way, and returns when it was acknowledged.

Time stands still: what the engine does by itself after a moment is done by the verb ``later``.
"""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from chatfold.agent.views import keep_view, open_view
from chatfold.eventlog import ChatDeleted, ChatExists, FileStorage, Log, Redacted, check
from chatfold.eventlog.events import Forked
from chatfold.eventlog.files.chat_dir import chat_path
from chatfold.eventlog.storage import Durability
from chatfold.projections import STANDARD, fold, start
from chatfold.projections.snapshot import dump
from tests.support.disk.simulated_disk import SimulatedDisk
from tests.support.disk.threadless import without_threads
from tests.support.simulation.simulated_programs import CHATS, Program, Step, durability, secret, words
from tests.support.simulation.simulated_world import ROOT, Expected, Known, UnderWay, World

_NEVER = 3600.0


def still(storage: FileStorage, *, threads: bool = True) -> FileStorage:
    """Nothing happens by itself."""
    storage._queue._later_s = _NEVER
    return storage if threads else without_threads(storage)


async def abandon(storage: FileStorage) -> None:
    """What a kill does: threads and descriptors are gone, nothing is synced or kept."""
    storage._closed = True
    await asyncio.to_thread(storage._queue.stop)
    storage.close_files()


class Process:
    """One that has the store open."""

    def __init__(self, storage: FileStorage) -> None:
        self.storage = storage
        self.log = Log(storage)
        self.hurt = False  # did it meet an error?
        self.fresh = True  # has it been told of nothing yet?
        self.appended: dict[str, int] = {}  # the last seq, by chat: what its flush is about


class Verbs:
    """``now``: which process does what is done next. One thing happens at a time."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.disk = SimulatedDisk(random.Random(program.seed), short=program.short)
        self.disk.make_folder(ROOT.parent)
        self.disk.sync_folder(ROOT.parent.parent)
        self.world = World()
        self.time = 0
        self.failed: dict[str, str] = {}  # appends of which nobody knows whether they happened
        self.lossy = False  # did a sync fail since the last power cut?
        self.marked = False  # did anybody leave word since then that a write or a sync failed?
        self.processes = [self.process(), self.process()]
        self.now = self.processes[0]

    def process(self) -> Process:
        size = self.program.segment_bytes
        storage = FileStorage(ROOT, disk=self.disk, segment_bytes=size, clock=self.clock)
        return Process(still(storage, threads=self.program.threads))

    def restart(self) -> None:
        """The process that was last at work is another one."""
        self.processes[self.processes.index(self.now)] = self.now = self.process()

    def clock(self) -> int:
        self.time += 1
        return self.time

    async def quiet(self) -> None:
        """They have no event to wait for, and it is a matter of microseconds."""
        while not self.now.storage._queue._threads.is_idle:  # noqa: ASYNC110
            await asyncio.sleep(0)

    # --- the verbs: each says what is under way, and returns when it was acknowledged ---------------------

    async def append(self, step: Step, under_way: UnderWay) -> None:
        chance, chat, name = step.chance, step.chat, step.name
        expected = self.world.chats.get(chat, Expected())
        said = [known for known in expected.entries if known.id is not None and not known.erased]
        if chat in self.failed and chance.random() < 0.5:
            again = self.failed.pop(chat)
            if not any(secret(again, index) in self.world.secrets for index in range(len(words(again)))):
                name = again  # what was erased, in another chat of this key, is not said again
        elif said and chance.random() < 0.1:  # again
            name = chance.choice(said).id or name
            if [known.event for known in said if known.id == name] != [*words(name)]:
                return  # a part of it was erased, or left behind by a fork
        await self._append(chat, name, durability(chance), under_way)

    async def _append(self, chat: str, name: str, how: Durability, under_way: UnderWay) -> None:
        asked = [Known(event, name if index == 0 else None) for index, event in enumerate(words(name))]
        under_way.verb, under_way.chat = "append", chat
        self.failed[chat] = name
        if chat not in self.world.chats or all(known.id != name for known in self.world.chats[chat].entries):
            under_way.added = asked
        try:
            answer = await self.now.log.append(chat, *words(name), id=name, durability=how)
        except ChatDeleted:  # by the other process: appending again starts a new one
            answer = await self.now.log.append(chat, *words(name), id=name, durability=how)
        self.world.appended(chat, asked, answer, durable=how == "full", lossy=self.lossy)
        self.now.appended[chat] = answer[-1].seq
        self.failed.pop(chat, None)

    async def later(self, step: Step, under_way: UnderWay) -> None:
        for chat in self.now.storage._queue.chats.all():
            is_sync_due = chat.is_sync_due
            self.now.storage._queue.follow_up(chat)
            if is_sync_due:
                await self.quiet()
                if not chat.writer._is_poisoned:
                    self._durable(chat.key)

    async def flush(self, step: Step, under_way: UnderWay) -> None:
        await self.now.log.flush()
        self._durable(*self.now.appended)

    async def reopen(self, step: Step, under_way: UnderWay) -> None:
        await self.now.storage.close()
        self._durable(*self.now.appended)
        self.restart()

    def _durable(self, *chats: str) -> None:
        """What this process appended to them."""
        for chat in self.world.chats.keys() & chats:
            expected = self.world.chats[chat]
            own = min(self.now.appended.get(chat, 0), len(expected.entries))
            expected.durable = max(expected.durable, own)

    async def snapshot(self, step: Step, under_way: UnderWay) -> None:
        if step.chat in self.world.chats:
            view = (await open_view(self.now.log, step.chat)).view
            entries = [entry async for entry in self.now.log.read(step.chat)]
            assert dump(view) == dump(fold(start(STANDARD), entries)), "a snapshot led to another view"
            await keep_view(self.now.log, step.chat, view)

    async def read(self, step: Step, under_way: UnderWay) -> None:
        first = step.chance.randint(1, 40)
        entries = [entry async for entry in self.now.log.read(step.chat, first)]
        back = [entry async for entry in self.now.log.read_back(step.chat)]
        known = len(self.world.chats.get(step.chat, Expected()).entries)
        assert [entry.seq for entry in entries] == list(range(first, known + 1))
        assert entries == [entry for entry in reversed(back) if entry.seq >= first]

    async def search(self, step: Step, under_way: UnderWay) -> None:
        for hit in await self.now.log.search(step.chat, "long result of a tool", limit=100):
            known = self.world.chats[step.chat].entries[hit.seq - 1]
            assert not known.erased, "what was erased is found"

    async def check(self, step: Step, under_way: UnderWay) -> None:
        for chat in self.world.chats:
            found = check(chat_path(ROOT, chat), disk=self.disk)
            failed = (
                self.disk.fault is not None and self.disk.fault.struck
            )  # what cannot be read is damaged, too
            assert found.ok or failed, [problem for problem in found.problems if problem.kind == "damaged"]

    async def fork(self, step: Step, under_way: UnderWay) -> None:
        parent, at = self.world.chats.get(step.chat, Expected()).entries, step.chance.random()
        point = round(at * len(parent))
        if point:
            added = [*map(replace, parent[:point]), Known(Forked(step.chat, point))]
            await self._new(step, under_way, added, self.now.log.fork(step.chat, self._other(step), point))

    async def copy(self, step: Step, under_way: UnderWay) -> None:
        parent = self.world.chats.get(step.chat, Expected()).entries
        if parent:
            work = self.now.storage.import_chat(self._other(step), self.now.storage.export(step.chat))
            await self._new(step, under_way, [*map(replace, parent)], work)

    def _other(self, step: Step) -> str:
        return step.chance.choice([chat for chat in CHATS if chat != step.chat])

    async def _new(
        self, step: Step, under_way: UnderWay, added: list[Known], work: Coroutine[Any, Any, Any]
    ) -> None:
        other = self._other(step)
        under_way.verb, under_way.chat = step.verb, other
        under_way.added = [] if other in self.world.chats else added
        try:
            await work
        except ChatExists:
            assert other in self.world.chats
        else:
            assert other not in self.world.chats
            self.world.chats[other] = Expected(added, len(added))

    async def redact(self, step: Step, under_way: UnderWay) -> None:
        expected = self.world.chats.get(step.chat, Expected())
        seqs = [seq for seq, known in enumerate(expected.entries, 1) if known.id and not known.erased]
        if seqs:
            under_way.verb, under_way.chat = "redact", step.chat
            under_way.seqs = tuple(step.chance.sample(seqs, min(len(seqs), step.chance.randint(1, 3))))
            erased = await self.now.log.redact(step.chat, *under_way.seqs)
            assert set(under_way.seqs) <= set(erased[step.chat])
            self.world.redacted(erased)
            for chat, where in erased.items():
                answer = await self.now.log.last(chat, 1)
                self.world.appended(
                    chat, [Known(Redacted(tuple(where)))], answer, durable=True, lossy=self.lossy
                )
            self.world.judge_secrets(self.disk)

    async def delete(self, step: Step, under_way: UnderWay) -> None:
        under_way.verb, under_way.chat = "delete", step.chat
        await self.now.log.delete(step.chat)  # quiet if there is none
        if self.world.chats.pop(step.chat, None) is not None:
            self.world.gone.pop(step.chat, None)
            self.forget_deleted()

    def forget_deleted(self) -> None:
        for process in self.processes:
            for chat in process.appended.keys() - self.world.chats.keys():
                del process.appended[chat]
