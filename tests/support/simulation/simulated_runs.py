"""Runs a program on the simulated disk, under the real engine, one thing at a time.

After every step the engine's threads are waited for, so that the same program always makes the same calls.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from chatfold.eventlog import ChatfoldError, DurabilityUnknown
from chatfold.eventlog.files.disk import has_path
from chatfold.eventlog.files.held_log import POISON_FILE
from tests.support.disk.faulty_disk import CHANGING, KINDS
from tests.support.disk.simulated_disk import Fault
from tests.support.disk.threadless import Here
from tests.support.figures import Figures
from tests.support.simulation.simulated_programs import CODES, Program, Step
from tests.support.simulation.simulated_verbs import Process, Verbs, abandon
from tests.support.simulation.simulated_world import UnderWay, folders_of


class Run(Verbs):
    def __init__(self, program: Program, figures: Figures) -> None:
        super().__init__(program)
        self.figures = figures

    async def all(self) -> None:
        executor = ThreadPoolExecutor(4) if self.program.threads else Here(1)
        asyncio.get_running_loop().set_default_executor(executor)
        try:
            for step in self.program.steps:
                await self.step(step)
            await self.end()
        finally:
            self.figures.count("disk operations", self.disk.calls)
            self.figures.count("disk changes", self.disk.changes)
            for process in self.processes:
                await abandon(process.storage)
            executor.shutdown()

    # --- one step ----------------------------------------------------------------------------------------

    async def step(self, step: Step) -> None:
        self.figures.count("steps")
        self.disk.chance.seed(step.name)  # not what the steps before it left
        self.now = self.processes[step.by]
        under_way = UnderWay()
        fault = None
        if step.fault:
            kinds = KINDS if step.fault == "EIO" and step.chance.random() < 0.4 else CHANGING
            fault = self.disk.fault = Fault(step.nth, CODES[step.fault], frozenset(kinds), step.forever)
        try:
            await getattr(self, step.verb)(step, under_way)
            self.now.fresh = False
            under_way = UnderWay()
        except (ChatfoldError, OSError) as error:
            if not (fault and fault.struck):
                # Then it says to open it again: also if it was another process's write or sync that failed, on a file of both.
                told = self.now.hurt or self.lossy or self.marked
                if not (told and isinstance(error, DurabilityUnknown)):
                    raise AssertionError(f"{step} raised {type(error).__name__}: {error}") from error
                self.disk.fault = None
                await self.reopen_after_error(under_way)
                return
        await self.quiet()
        if fault is not None:
            await self.struck(step, fault, under_way)

    async def struck(self, step: Step, fault: Fault, under_way: UnderWay) -> None:
        if fault.code and not fault.struck:
            self.disk.fault = None
            return
        if fault.code:
            self.figures.count(f"{step.fault} errors")
            self.disk.fault = None
            self.now.hurt = True
            self.lossy |= fault.struck == "sync" or fault.forever
            self.marked |= any(has_path(self.disk, path / POISON_FILE) for _, path in folders_of(self.disk))
            self.world.look(self.disk, under_way, lossy=self.lossy)
            self.forget_deleted()
            under_way = UnderWay()
        if not fault.code or step.then or self.now.storage._closed:
            await self.stop(
                step.then or (step.fault if not fault.code else "kill"), under_way, during=fault.struck
            )

    async def stop(self, how: str, under_way: UnderWay, during: str) -> None:
        """A kill of the process that is at work, or a power cut."""
        self.figures.count("power cuts" if how == "cut" else "kills")
        self.figures.count("recoveries interrupted", int(self.now.fresh and bool(during)))
        await abandon(self.now.storage)
        self.disk.fault = None
        if how == "cut":
            await abandon(self.other.storage)
            self.disk.revive()
            self.disk = self.disk.crash()
        self.world.look(self.disk, under_way, lossy=self.lossy or how == "cut")
        self.forget_deleted()
        self.figures.tried += 1
        if how == "cut":
            self.lossy = self.marked = False
            self.world.survived()
            self.processes = [self.process(), self.process()]
        else:
            self.restart()

    @property
    def other(self) -> Process:
        return self.processes[1 - self.processes.index(self.now)]

    async def reopen_after_error(self, under_way: UnderWay) -> None:
        with suppress(ChatfoldError, OSError):
            await self.now.storage.close()
        await abandon(self.now.storage)
        self.world.look(self.disk, under_way, lossy=self.lossy)
        self.restart()

    async def end(self) -> None:
        """A healthy writer comes along; what it leaves survives a last power cut."""
        for process in [*self.processes]:
            self.now = process
            await self.reopen_after_error(UnderWay())
        for chat in [*self.world.chats, "z"]:  # there may be no other
            await self._append(chat, f"end of {chat[:1]}", "full", UnderWay())
        await self.now.storage.close()
        self.disk.revive()
        self.world.look(self.disk, UnderWay(), lossy=False)
        self.world.judge_healed(self.disk)
        self.world.nothing_left_over(self.disk)
        self.disk = self.disk.crash()
        self.world.look(self.disk, UnderWay(), lossy=False)
        self.world.judge_healed(self.disk)
