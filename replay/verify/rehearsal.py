"""Rehearsal: an agent's code run again, offline, against a recording of it.

    found = await rehearse(chat, build)         # def build(store) -> Agent, as it is set up today
    found.ok, found.divergence

Every run of the recording is run again by the agent's own code: its instructions, files, tools' schemas, policy, model settings
and ``payload``. All else answers from the log: the model, the tools and what they did to the chat, summaries, the time, ids,
waiting, ``current_run().draw``. Tools, callbacks and ``send`` are not called. Other people's entries stand where they stood.
The first difference of a run ends it, since what follows answers another question: the rehearsal ends there, or takes the
rest of that run as it was recorded and goes on with the next one. A miss is a difference, never a live call; see ``offline``.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence

from chatfold.agent import Agent, Moment, Store
from chatfold.agent.models import fingerprint
from chatfold.agent.run import Run
from chatfold.eventlog import (
    ChatfoldError,
    Entry,
    Event,
    Forked,
    Injected,
    ModelCalled,
    Noted,
    RunStarted,
    ToolCalled,
)
from chatfold.projections import outline
from chatfold.projections.labels import RUNTIME
from chatfold.projections.shapes import PROMPT_RULES
from chatfold.projections.text import one_line, text_of
from chatfold.replay.verify.divergence import Divergence, Verdict
from chatfold.replay.verify.explanation import Explaining
from chatfold.replay.verify.offline import LiveCall, offline
from chatfold.replay.verify.recording import Recording
from chatfold.replay.verify.requests import Notes, note
from chatfold.replay.verify.verdict import Progress, redacted_spans
from chatfold.replay.verify.world import Rehearsed

Factory = Callable[..., Agent | Awaitable[Agent]]
"""``def build(store) -> Agent``, with or without the parameter, sync or async."""


class RedactedRecording(ChatfoldError):
    next_step = "It is there to be read; replay the original"


async def rehearse(
    chat: Moment, factory: Factory, *, goes_on: bool = False, progress: Progress | None = None
) -> Verdict:
    """Runs the agent that the factory makes against the recording. Nothing is written, but in memory.

    ``goes_on``: to the next run after a divergence, to name the first of every run.
    """
    if await redacted_spans(chat):
        raise RedactedRecording(
            "something was left out of this recording when it was exported", chat=chat.key
        )
    entries = [entry async for entry in chat.entries()]
    with offline() as tried:
        return await _Rehearsal(chat.key, entries, tried).through(factory, progress, goes_on=goes_on)


async def build_agent(factory: Factory, store: Store) -> Agent:
    """The agent, made by the user's factory."""
    wanted = inspect.signature(factory).parameters.values()
    takes = any(p.name == "store" or p.default is p.empty for p in wanted if p.kind != p.VAR_KEYWORD)
    named = any(p.name == "store" and p.kind is not p.POSITIONAL_ONLY for p in wanted)
    made = (factory(store=store) if named else factory(store)) if takes else factory()
    agent = await made if isinstance(made, Awaitable) else made
    if not isinstance(agent, Agent):
        raise TypeError(f"the factory gave {type(agent).__name__}, not an Agent")
    return agent


class _Rehearsal:
    def __init__(self, key: str, entries: Sequence[Entry], tried: list[str]) -> None:
        self._key = key
        self._entries = entries
        self._tried = tried
        self._notes: Notes = {}
        self._asked: dict[str, ModelCalled] = {}  # the first request of every run
        for entry in entries:
            note(self._notes, entry)
            if isinstance(entry.event, ModelCalled) and entry.run is not None:
                self._asked.setdefault(entry.run, entry.event)
        self._parents = [entry.event.parent for entry in entries if isinstance(entry.event, Forked)]
        self._recording = Recording(key, entries, self._compare)
        self._store = Store(self._recording)
        self._runs = self._skipped = self._proved = self._passed_over = 0

    async def through(self, factory: Factory, progress: Progress | None, *, goes_on: bool) -> Verdict:
        agent = await build_agent(factory, self._store)
        if self._tried:  # and swallowed
            raise LiveCall(f"the factory tried to reach the world: {'; '.join(self._tried)}")
        self._explaining = Explaining(self._key, self._entries, self._notes, agent.model)
        names = {entry.event.agent for entry in self._entries if isinstance(entry.event, RunStarted)}
        recording = self._recording
        found: list[Divergence] = []
        while recording.at < len(self._entries):
            entry = self._entries[recording.at]
            if not isinstance(entry.event, RunStarted) or entry.run is None:
                await recording.others()
            elif entry.event.agent != agent.name and agent.name in names:
                self._skipped += 1
                await recording.others()
            else:
                self._runs += 1
                if divergence := await self._again(agent, entry.run):
                    found.append(divergence)
                    if not goes_on:
                        break
                    self._passed_over += await recording.pass_over()
            if progress is not None:
                progress(recording.at, len(self._entries))
        return await self._came_to(found)

    async def _again(self, agent: Agent, run: str) -> Divergence | None:
        """One run, begun again as often as its process was killed; gives the first difference."""
        recording, before = self._recording, len(self._tried)
        recording.begin(run, self._key_of(run))
        while True:
            recording.go_on()
            chat = await self._store.chat(recording.key)
            world = Rehearsed(recording)
            world.going = Run(agent, chat, run, world)
            attempt = asyncio.ensure_future(world.going.go(self._moment_text(run)))
            try:
                await asyncio.wait((attempt,))
            finally:
                attempt.cancel()
            error = None if attempt.cancelled() else attempt.exception()
            if len(self._tried) > before:
                return self._live(self._tried[before])
            if recording.halted in ("ended", "diverged") or recording.finished:
                return recording.divergence if recording.halted == "diverged" else None
            if recording.halted != "again":
                raise error or AssertionError("a run that ended without saying so")

    def _key_of(self, run: str) -> str:
        """What the chat was called then: a fork, or an import, may have another key now."""
        asked = self._asked.get(run)
        system = self._notes.get(f"system:{asked.params.get('system')}") if asked else ""
        label, _, told = str(system).partition("\n")[0].partition(": ")
        if label != "chatKey" or not told:
            return self._key
        return next((key for key in (self._key, *self._parents) if one_line(key, 1000) == told), told)

    def _moment_text(self, run: str) -> str:
        """What the model was told of the moment."""
        for entry in self._recording.coming():
            if isinstance(entry.event, Injected) and entry.run == run and entry.event.source == RUNTIME:
                return text_of(entry.event.parts)
        return "Now: nobody knows"

    async def _compare(self, recorded: Sequence[Entry], new: Sequence[Event]) -> Divergence | None:
        for event in new:
            if isinstance(event, Noted):
                self._note(event)
        same = zip(recorded, new, strict=False)
        if len(recorded) == len(new) and all(self._explaining.is_same(*pair) for pair in same):
            match recorded[-1].event, new[-1]:
                case ModelCalled(request=then), ModelCalled(request=now) if then == now:
                    self._proved += 1
            return None
        before = await self._store.chat(self._recording.key)
        return await self._explaining.difference(recorded, new, before, self._recording.calls)

    def _note(self, event: Noted) -> None:
        """What is sent now: a call names it by its fingerprint."""
        name = event.name.rpartition(".")[2]
        self._notes.setdefault(f"{name}:{fingerprint({name: event.data})}", event.data)

    def _live(self, attempt: str) -> Divergence:
        cause = "the agent's code tried to reach the world, which is neither the model nor a tool"
        return Divergence(
            self._key, self._recording.at, "live", attempt.partition(" ")[0], None, attempt, cause=cause
        )

    async def _came_to(self, found: Sequence[Divergence]) -> Verdict:
        done = self._entries[: self._recording.at]
        now = await self._store.chat(self._recording.key)
        calls = [entry for entry in done if isinstance(entry.event, ModelCalled)]
        return Verdict(
            chat=self._key,
            entries=len(done),
            turns=now[outline].turns,
            model_calls=len(calls),
            tool_calls=sum(isinstance(entry.event, ToolCalled) for entry in done),
            proved=self._proved,
            unprovable=len(calls) - self._proved - self._passed_over,
            other_rules=_other_rules(done),
            runs=self._runs,
            skipped=self._skipped,
            attempts=tuple(self._tried),
            divergence=found[0] if found else None,
            more=tuple(found[1:]),
        )


def _other_rules(entries: Iterable[Entry]) -> tuple[int, ...]:
    """The numbers of prompt rules that are not today's and made some of the requests."""
    numbers = {entry.event.rules for entry in entries if isinstance(entry.event, ModelCalled)}
    return tuple(sorted(numbers - {PROMPT_RULES}))
