"""Run: from a question to its answer, each step in the log before the next begins.

    run_started      with when it is, for the model, and the first model_called: one append
    model_called     with the fingerprint of exactly what is sent
    model_returned   with what it cost; its words and its calls: one append
    tool_returned    as each comes back
    run_finished     how it ended

A run can be killed between any two appends and be gone on with by another process: it reads from the log how far it came.
Calls that were answered are not made again, those that were not are treated as their tool says. What is not in the log
it asks of its ``World``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from chatfold.agent.chat import Chat
from chatfold.agent.compaction import DEFAULT, due
from chatfold.agent.errors import PromptTooLarge, SummaryFailed
from chatfold.agent.masking import mask
from chatfold.agent.messages import ToolCall, make_injection
from chatfold.agent.models import ModelFailed, ModelReply, Piece
from chatfold.agent.models.errors import is_too_long
from chatfold.agent.moment import Moment
from chatfold.agent.pieces import pass_piece
from chatfold.agent.progress import Step, answer_step, tool_step
from chatfold.agent.request import Recorded, make_request
from chatfold.agent.result import Result, result_of
from chatfold.agent.run_context import RunContext, enter, within
from chatfold.agent.system_prompt import system_text
from chatfold.agent.telemetry import Span, measure
from chatfold.agent.tools import Outcome, Tool, fail
from chatfold.agent.tools.history import chat_tool_output
from chatfold.agent.world import World
from chatfold.eventlog import (
    ChatfoldError,
    Conflict,
    Entry,
    Event,
    Json,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections import Message, contexts, executions
from chatfold.projections.activity import turn
from chatfold.projections.labels import INTERRUPTED, RUNTIME, SHOWN, is_longer
from chatfold.projections.usage import read_counts

if TYPE_CHECKING:
    from chatfold.agent.agent import Agent

OnStep = Callable[[Step], Awaitable[None] | None]
Kind: TypeAlias = Literal["run", "model_call", "tool_call"]


class Run:
    """``run``: its id; if the log has a run of this id that did not end, ``go`` goes on with it."""

    def __init__(
        self, agent: "Agent", chat: Chat, run: str, world: World, on_step: Sequence[OnStep] = ()
    ) -> None:
        self.agent = agent
        self.chat = chat
        self.run = run
        self.world = world
        self.interrupted = asyncio.Event()  # set when there is new input and the model shall be asked anew
        self.is_left_open = False  # set before a cancellation that is not to end the run in the log
        self._on_step = list(on_step)
        self._entries: list[Entry] = []  # the run's, as far as they are known
        self._context = RunContext(chat, run)
        self.tasks: set[asyncio.Task[Any]] = set()  # in which the model and tools are at work, or were
        self._told_in = ""  # the context in which the model was told of the moment
        self._said = ""  # what callbacks were told last
        self._is_begun = False

    async def record(self, *events: Event, id: str | None = None) -> list[Entry]:
        return self._keep(await self.chat.record(*self._opening(), *events, id=id, run=self.run))

    def _opening(self) -> tuple[Event, ...]:
        if self._is_begun or self.run in self.chat[executions].running:
            return ()
        return (RunStarted(self.agent.name),)

    def _keep(self, entries: list[Entry]) -> list[Entry]:
        self._is_begun = self._is_begun or bool(entries)
        self._entries += entries
        return entries

    # --- from beginning to end ---------------------------------------------------------------------------

    async def go(self, moment: str) -> Result:
        """Begins, or goes on with, the run; gives what came of it. ``moment``: what the model is told of it."""
        with self._measure("run", self.agent.name) as span:
            try:
                outcome, error = await self._steps(moment)
            except asyncio.CancelledError:
                if not self.is_left_open:
                    await self._end("cancelled", "cancelled")
                raise
            except ChatfoldError as refused:
                outcome, error = "failed", str(refused)
            except Exception as bug:
                await self._end("failed", f"{type(bug).__name__}: {bug}")
                raise
            await self._end(outcome, error)
            result = result_of(self.run, self._entries)
            span.usage, span.error = result.usage, result.error
        return result

    def _measure(self, kind: Kind, name: str, call: str = "") -> AbstractContextManager[Span]:
        return measure(self.agent.observers, Span(kind, name, self.chat.key, self.run, call))

    async def _end(self, outcome: Any, error: str) -> None:
        """A cancellation from here on is too late: it waits until the end is recorded."""
        ending = asyncio.ensure_future(self._finish(outcome, mask(error)))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait((ending,))
            raise

    async def _finish(self, outcome: Any, error: str) -> None:
        """Answers the calls that nobody will answer any more, and ends the run."""
        if outcome == "cancelled":  # a result that was being recorded is recorded all the same: wait for it
            await self.chat.log.flush()
        open_calls = [
            ToolReturned(call.call, (Text(f"{outcome}: {INTERRUPTED}"),), failed=True)
            for call in await self.chat.open_calls()
        ]
        await self.record(*open_calls, RunFinished(outcome, error))

    async def _steps(self, moment: str) -> tuple[str, str]:
        await self._take_up()
        own = [entry.event for entry in self._entries]
        done = sum(isinstance(event, ModelReturned) and not event.error for event in own)
        if calls := await self.chat.open_calls():
            await self._recover(calls)
        if _is_answered(own) and not (await self.chat.now())[turn].is_waiting:
            return "done", ""
        while done < self.agent.limits.steps:
            done += 1
            reply = await self._reply(moment)
            if reply.calls:
                await self._use(await self.chat.open_calls())
            elif not (await self.chat.now())[turn].is_waiting or self.world.must_yield():
                return "done", ""  # what came meanwhile is answered now, or when it is this chat's turn again
        return "limit", f"no answer within {self.agent.limits.steps} steps"

    async def _take_up(self) -> None:
        """What the log has of the run, if it was begun before."""
        so_far: list[Entry] = []
        began = (await self.chat.now())[executions].running.get(self.run)
        if began is not None:
            so_far = [entry async for entry in self.chat.entries(began)]
            self._keep([entry for entry in so_far if entry.run == self.run])
        self._context = RunContext(
            self.chat,
            self.run,
            record=self.record,
            send=self.world.send,
            draw=self.world.draw,
            most=self.agent.limits.injections,
            output=self.agent.limits.tool_output,
            so_far=so_far,
        )

    # --- the model ---------------------------------------------------------------------------------------

    async def _reply(self, moment: str) -> ModelReply:
        """The model's reply, recorded. A prompt that is too long is compacted; what may pass is tried again."""
        waited = tightened = 0
        most = self.agent.limits.retries
        while True:
            await self._make_room(moment)
            payload = (await self._request(moment)).payload
            try:
                reply = await self._stream(payload)
            except Exception as error:
                failure = error if isinstance(error, ModelFailed) else None
                is_long = is_too_long(error)
                if failure is None and not is_long:  # a bug of the model's
                    raise
                text = mask(str(error))
                if is_long and tightened < most:
                    tightened += 1
                    await self.record(ModelReturned(error=text, meta={"retry": "compacted"}))
                    await self.chat.compact_after(error, self.agent.policy, summarise=self.world.summarise)
                elif failure and failure.again and waited < most:
                    seconds = failure.after if failure.after is not None else 0.5 * 2**waited
                    waited += 1
                    await self.record(ModelReturned(error=text, meta={"retry": waited, "wait": seconds}))
                    await self.world.pause(seconds)
                else:
                    await self.record(ModelReturned(error=text))
                    raise ModelFailed(text) from error
            else:
                if reply is not None:
                    return reply
            finally:
                await self.chat.log.storage.end_deltas(self.chat.key)  # the answer stands, or will never come

    async def _make_room(self, moment: str) -> None:
        """Compacts if it is due. If the summary fails, the prompt stays: the provider may say that it is too long."""
        policy, now = self.agent.policy, await self.chat.now()
        if due(now.view, await now.messages(), policy) is None:
            return
        await self._begin(moment)
        summarise = self.world.summarise
        try:
            await self.chat.compact_if_due(policy, summarise=summarise)
        except SummaryFailed as error:
            await self.record(Noted("compaction_failed", mask(error.args[0])))
        except PromptTooLarge as least:
            if policy != DEFAULT:
                raise
            # The default budget is a guess: as much as can be hidden is, and the provider decides about the rest.
            with suppress(PromptTooLarge, SummaryFailed):
                await self.chat.compact(
                    replace(policy, budget=least.tokens), summarise=summarise, trigger="tokens"
                )

    async def _request(self, moment: str) -> Recorded:
        """What is sent, recorded; made anew, with what has come, until nothing came while it was written down."""
        if self.agent.about is not None:  # it may record something, which stands after the beginning
            await self._begin(moment)
        with within(self._context):
            system = await system_text(self.agent, self.chat)
        while True:
            now = await self.chat.now()
            opening = await self._before_request(now, moment)
            tools = [tool.spec for tool in self._tools(await now.messages())]
            request = await make_request(now, self.agent.model, system, tools, opening, self.run)
            try:
                self._keep(
                    await self.chat.record(*request.events, keys=request.keys, after=now.seq, run=self.run)
                )
            except Conflict:  # what came would be taken for seen, and was not in the request
                continue
            self._told_in = now[contexts].active.id
            return request

    def _tools(self, shown: Sequence[Message]) -> list[Tool]:
        """The agent's; and the one that shows the rest, once a result is not shown whole."""
        tools = {**self.agent.tools}
        if any(SHOWN in (result.meta or ()) for message in shown for result in message.results):
            tools.setdefault(chat_tool_output.name, chat_tool_output)
        return [*tools.values()]

    def _tool(self, name: str) -> Tool | None:
        tool = self.agent.tools.get(name)
        return chat_tool_output if tool is None and name == chat_tool_output.name else tool

    async def _begin(self, moment: str) -> None:
        """Records what comes before a request, without the request."""

        async def opening(now: Moment) -> tuple[Event, ...]:
            return await self._before_request(now, moment)

        self._keep(await self.chat.append_if(opening, run=self.run))

    async def _before_request(self, now: Moment, moment: str) -> tuple[Event, ...]:
        """That the run begins, and the moment, once in every context that the run comes to."""
        opening: list[Event] = [*self._opening()]
        mark = f"runtime:{self.run}"
        if moment and now[contexts].active.id != self._told_in:
            prompt = await now._whole_prompt()  # noqa: SLF001 (a chat is a moment)
            if mark not in prompt.injected:
                opening.append(make_injection("system", (moment,), mark, RUNTIME))
        return tuple(opening)

    async def _stream(self, payload: dict[str, Any]) -> ModelReply | None:
        """The reply, recorded; None if there was new input meanwhile and the model is to be asked anew."""
        self.interrupted.clear()
        asking = asyncio.create_task(self._listen(payload))
        self.tasks.add(asking)
        stopped = asyncio.create_task(self.interrupted.wait())
        try:
            await asyncio.wait((asking, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if asking.done():
                asking.cancelled() or asking.exception()  # looked at, even if nobody waits for it any more
            else:
                asking.cancel()
                await asyncio.wait((asking,))
                if not self.is_left_open:
                    await asyncio.shield(self.record(ModelReturned(error="cancelled")))
        if asking.cancelled():
            if self.interrupted.is_set():
                return None
            raise ModelFailed("the request was cancelled from within", again=True)
        return await self._record_reply(asking.result())

    async def _listen(self, payload: dict[str, Any]) -> ModelReply:
        reply = None
        with self._measure("model_call", self.agent.model.name) as span:
            async for one in self.world.ask(payload):
                if isinstance(one, Piece):
                    await pass_piece(self.chat.log.storage, self.chat.key, self.chat[turn].called, one)
                    await self._tell(Step("piece", one.text, run=self.run, kind=one.kind))
                else:
                    reply = one
            if reply is None:
                raise ModelFailed("the model's answer ended before it was complete", again=True)
            span.usage = read_counts(reply.usage, failed=False)
        return reply

    async def _record_reply(self, reply: ModelReply) -> ModelReply:
        """Records the words and the calls together, before any tool runs."""
        events: list[Event] = [ModelReturned(reply.usage, reply.stop)]
        if reply.parts or not reply.calls:
            events.append(MessageAdded("assistant", reply.parts))
        events += [ToolCalled(call.call, call.name, call.args) for call in reply.calls]
        await self.record(*events)
        if step := answer_step(reply.parts, self.run, self._said):
            self._said = step.text
            await self._tell(step)
        return reply

    # --- tools -------------------------------------------------------------------------------------------

    async def _recover(self, calls: list[ToolCall]) -> None:
        """Treats the calls that a crash left without a result, each as its tool says."""
        again = [call for call in calls if await self._is_wanted_again(call)]
        for call in calls:
            if call not in again:
                await self._record_result(call, fail(INTERRUPTED))
        await self._use(again)

    async def _is_wanted_again(self, call: ToolCall) -> bool:
        tool = self._tool(call.name)
        return tool is not None and await self.world.after_crash(tool, call) == "again"

    async def _use(self, calls: list[ToolCall]) -> None:
        """Makes the calls side by side; each result is recorded as it comes."""
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    self.tasks.add(group.create_task(self._use_one(call)))
        except ExceptionGroup as several:  # a result could not be recorded: that error is the run's
            raise several.exceptions[0] from None

    async def _use_one(self, call: ToolCall) -> None:
        enter(self._context, call.call)
        tool = self._tool(call.name)
        if tool is None:
            known = ", ".join(self.agent.tools) or "none"
            await self._record_result(call, fail(f"there is no tool {call.name!r}; there are: {known}"))
        else:
            with self._measure("tool_call", call.name, call.call) as span:
                outcome = await self.world.use_tool(tool, call)
                span.error = "failed" if outcome.failed else ""
            await self._record_result(call, outcome)

    async def _record_result(self, call: ToolCall, outcome: Outcome) -> None:
        most = self.agent.limits.tool_output
        meta: dict[str, Json] = {SHOWN: most} if is_longer(outcome.parts, most) else {}
        await self.record(ToolReturned(call.call, outcome.parts, outcome.failed, meta))
        await self._tell(tool_step(call, outcome, self.run))

    async def _tell(self, step: Step) -> None:
        """Tells the callbacks. One that raises is dropped and noted as ``callback_failed``; the run goes on."""
        for callback in list(self._on_step):
            try:
                waiting = callback(step)
                if waiting is not None:
                    await waiting
            except Exception as error:  # noqa: BLE001 (any bug of the callback's)
                if callback in self._on_step:  # tools are told of side by side
                    self._on_step.remove(callback)
                await self.record(Noted("callback_failed", mask(f"{type(error).__name__}: {error}")))


def _is_answered(own: Sequence[Event]) -> bool:
    """Did the model say its last word, without a call? Then only the end of the run is missing."""
    answered = False
    for event in own:
        match event:
            case ModelReturned(error=""):
                answered = True
            case ModelCalled() | ToolCalled():
                answered = False
    return answered
