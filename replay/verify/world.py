"""Answering from the log: the model, the tools, summaries and chance of a run that is rehearsed.

What a run needs of an agent (``running.Setup``) is the agent's own where it is code that looks at nothing but the chat and
its files, and the recording's where it is the world.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import msgspec

from chatfold.agent import Agent, Chat
from chatfold.agent.messages import ToolCall
from chatfold.agent.models import ModelFailed, ModelReply, Piece
from chatfold.agent.run import Ask, Run
from chatfold.agent.run_context import DRAWN, Draw, Send, call_id
from chatfold.agent.summary import Material
from chatfold.agent.tools import Outcome, Tool
from chatfold.eventlog import (
    Compacted,
    Entry,
    Event,
    Json,
    MessageAdded,
    ModelReturned,
    Noted,
    Part,
    RunFinished,
    ToolCalled,
    ToolReturned,
)
from chatfold.replay.inspect.entries import kind_name
from chatfold.replay.verify.divergence import Divergence
from chatfold.replay.verify.recording import Recording

_LONG = 1 << 40  # seconds, characters: what was recorded was within the limits then
_NO_SUMMARY = "(no summary was recorded here)"


class Rehearsed:
    """An agent whose world is a recording. ``going``: the run that it is the setup of."""

    going: Run

    def __init__(self, agent: Agent, recording: Recording) -> None:
        self._agent = agent
        self._recording = recording
        self._summaries: tuple[int, int] = (0, 0)  # where we were, and how many were asked for there
        self.model = agent.model
        self.tools = {name: self._tool(tool) for name, tool in agent.tools.items()}
        self.name = agent.name
        self.policy = agent.policy
        self.steps = agent.steps
        self.retries = agent.retries
        self.most_injected = agent.most_injected
        self.tool_seconds = float(_LONG)
        self.tool_output = _LONG
        self.send: Send | None = None
        self.summarise: Callable[[Material], str | Awaitable[str]] = self._summary
        self.ask: Ask | None = self._ask
        self.draw: Draw | None = self._draw
        self.pause: Callable[[float], Awaitable[None]] | None = self._pause

    async def system(self, chat: Chat) -> str:
        return await self._agent.system(chat)

    async def what_now(self, _call: ToolCall) -> str:
        return "again"  # which gives what was recorded, whatever somebody decided then

    def is_wanted_elsewhere(self) -> bool:
        """Did the run leave what was still open to the next one?"""
        found = self._recording.next()
        return found is not None and isinstance(found.event, RunFinished)

    async def _pause(self, _seconds: float) -> None:
        pass

    # --- the model ---------------------------------------------------------------------------------------

    async def _ask(self, _payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        recording = self._recording
        match [entry.event for entry in recording.batch()]:
            case []:
                recording.halt("ended")
            case [ModelReturned(error="cancelled", meta={}) as event] if not event.meta:
                await self._cancelled()
            case [ModelReturned(error=str(error), meta=meta)] if error:
                raise _failure(error, meta)
            case [ModelReturned(usage=usage, stop=stop), *said]:
                yield _answer(usage, stop, said)
            case [*_, RunFinished()]:  # a bug of the model's, or its process was told to end
                await recording.end_as_recorded()
            case _:  # it was killed while it waited for the answer
                await recording.differs(_miss(recording, "the model", "asked"))

    async def _cancelled(self) -> None:
        """There was new input, or somebody cancelled the run."""
        recording = self._recording
        mine = [e.event for e in recording.coming() if e.run == recording.run]
        at = next(at for at, event in enumerate(mine) if isinstance(event, ModelReturned))
        match mine[at + 1 :]:
            case [] | [RunFinished(outcome="cancelled")]:
                await recording.end_as_recorded()
            case [RunFinished(), *_]:
                raise ModelFailed("cancelled")
        self.going.interrupted.set()
        await asyncio.Event().wait()

    # --- tools and what else the world does --------------------------------------------------------------

    def _tool(self, tool: Tool) -> Tool:
        async def call(_args: Json) -> Outcome:
            return await self._returned(call_id(), tool.name)

        return msgspec.structs.replace(tool, call=call, timeout=None)

    async def _returned(self, call: str, name: str) -> Outcome:
        recording = self._recording
        while True:
            found, following = _result(recording.coming(), recording.run, call), recording.batch()
            if found is not None and not recording.ends_with(found):
                assert isinstance(found.event, ToolReturned)
                return Outcome(found.event.parts, found.event.failed)
            if found in following:  # the run ended before it came back
                await recording.end_as_recorded()
            match following:
                case []:
                    recording.halt("ended")
                case [Entry(event=ToolReturned(call=other)), *_] if recording.is_in_flight(other):
                    if await recording.moved():
                        continue
            await recording.differs(_miss(recording, f"tool {name}", call))

    def _summary(self, material: Material) -> str:
        found = [e.event.summary for e in self._recording.batch() if isinstance(e.event, Compacted)]
        at, count = self._summaries
        count = count if at == self._recording.at else 0
        self._summaries = self._recording.at, count + 1
        if count < len(found):
            return found[count]
        match self._recording.next():
            case Entry(event=Noted(name="compaction_failed", data=why)):
                raise ValueError(why)
        return _NO_SUMMARY[: material.limit]

    def _draw(self, _run: str, name: str, _make: Callable[[], Json]) -> Json:
        match self._recording.next():
            case Entry(event=Noted(name=drawn, data=value)) if drawn == f"{DRAWN}{name}":
                return value
        return self._recording.missed(_miss(self._recording, f"{DRAWN}{name}", "drawn"))


def _answer(usage: dict[str, int], stop: str, said: Iterable[Event]) -> ModelReply:
    parts: tuple[Part, ...] = ()
    calls: list[ToolCall] = []
    for event in said:
        match event:
            case MessageAdded(parts=words):
                parts = words
            case ToolCalled(call=call, name=name, args=args):
                calls.append(ToolCall(call, name, args))
    return ModelReply(parts, tuple(calls), usage, stop)


def _failure(error: str, meta: dict[str, Json]) -> ModelFailed:
    failure = ModelFailed(error, again="retry" in meta, after=meta.get("wait"))
    if meta.get("retry") == "compacted":  # which may have been told by more than its text
        failure.code = "context_length_exceeded"  # type: ignore[attr-defined]
    return failure


def _result(coming: Iterable[Entry], run: str, call: str) -> Entry | None:
    """The next result of the call."""
    for entry in coming:
        match entry.event:
            case ToolReturned(call=answered) if entry.run == run and answered == call:
                return entry
    return None


def _miss(recording: Recording, what: str, how: str) -> Divergence:
    """Something is asked of the world that was not asked of it then."""
    found = recording.next()
    seq, kind = (found.seq, kind_name(found.event)) if found else (recording.at, "")
    return Divergence(recording.key, seq, kind, what, None, how, call=recording.calls, cause="not recorded")
