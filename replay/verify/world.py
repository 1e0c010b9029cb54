"""Answering from the log: the model, the tools, summaries and chance of a run that is rehearsed.

What an agent is, and what it tells a model, is the agent's own; what a run asks of its ``World`` is the recording's.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Literal

from chatfold.agent.messages import ToolCall
from chatfold.agent.models import ModelFailed, ModelReply, Piece
from chatfold.agent.run import Run
from chatfold.agent.run_context import DRAWN
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

_NO_SUMMARY = "(no summary was recorded here)"


class Rehearsed:
    """The world of a run that is rehearsed. ``going``: the run."""

    going: Run
    send = None  # tools are not called

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._summaries: tuple[int, int] = (0, 0)  # where we were, and how many were asked for there

    async def after_crash(self, _tool: Tool, _call: ToolCall) -> Literal["again", "interrupted"]:
        return "again"  # which gives what was recorded, whatever was decided then

    def must_yield(self) -> bool:
        """Did the run leave what was still open to the next one?"""
        found = self._recording.next()
        return found is not None and isinstance(found.event, RunFinished)

    async def pause(self, _seconds: float) -> None:
        pass

    # --- the model ---------------------------------------------------------------------------------------

    async def ask(self, _payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        recording = self._recording
        match [entry.event for entry in recording.batch()]:
            case []:
                recording.halt("ended")
            case [ModelReturned(error="cancelled", meta={}) as event] if not event.meta:
                await self._wait_for_cancellation()
            case [ModelReturned(error=str(error), meta=meta)] if error:
                raise _failure(error, meta)
            case [ModelReturned(usage=usage, stop=stop), *said]:
                yield _answer(usage, stop, said)
            case [*_, RunFinished()]:  # a bug of the model's, or its process was told to end
                await recording.end_as_recorded()
            case _:  # it was killed while it waited for the answer
                await recording.differs(_miss(recording, "the model", "asked"))

    async def _wait_for_cancellation(self) -> None:
        """There was new input, or the run was cancelled."""
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

    async def use_tool(self, tool: Tool, call: ToolCall) -> Outcome:
        recording = self._recording
        while True:
            found, following = _result(recording.coming(), recording.run, call.call), recording.batch()
            if found is not None and not recording.ends_with(found):
                assert isinstance(found.event, ToolReturned)
                return Outcome(found.event.parts, found.event.failed)
            if found in following:  # the run ended before it came back
                await recording.end_as_recorded()
            match following:
                case []:
                    recording.halt("ended")
                case [Entry(event=ToolReturned(call=other)), *_] if recording.is_in_flight(other):
                    if await recording.wait_for_append():
                        continue
            await recording.differs(_miss(recording, f"tool {tool.name}", call.call))

    def summarise(self, material: Material) -> str:
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

    def draw(self, _run: str, name: str, _make: Callable[[], Json]) -> Json:
        match self._recording.next():
            case Entry(event=Noted(name=drawn, data=value)) if drawn == f"{DRAWN}{name}":
                return value
        return self._recording.miss(_miss(self._recording, f"{DRAWN}{name}", "drawn"))


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
