"""A run: from a question to its answer, step by step, each in the log before the next one begins.

    run_started      and when it is, for the model
    model_called     with the fingerprint of exactly what is sent
    model_returned   with what it cost; its words and its calls, all at once
    tool_called …    before any tool runs; tool_returned … as each comes back
    run_finished     how it ended

The run itself keeps nothing: whatever it needs to know is read from the chat. So it can be killed after any of these and
gone on with by anybody: calls that were answered are not made again, those that were not are treated as their tool says.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from chatfold.agent.chat import Chat
from chatfold.agent.compaction import Policy, Summarise
from chatfold.agent.errors import SummaryFailed
from chatfold.agent.messages import ToolCall
from chatfold.agent.models import (
    Model,
    ModelFailed,
    ModelReply,
    Piece,
    Request,
    fingerprint,
    payload_of,
    settings_of,
)
from chatfold.agent.models.errors import is_too_long
from chatfold.agent.moment import Moment
from chatfold.agent.progress import Step, answer_step, tool_step
from chatfold.agent.run_context import RUNTIME, Draw, RunContext, Send, enter, within
from chatfold.agent.tools import Outcome, Tool, failed, used
from chatfold.eventlog import (
    ChatfoldError,
    Compacted,
    ContextRecalled,
    Event,
    Injected,
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
from chatfold.eventlog.search_text import OURS
from chatfold.projections import contexts, executions
from chatfold.projections.activity import turn
from chatfold.projections.prompt import INTERRUPTED
from chatfold.projections.shapes import PROMPT_RULES

SHOWN = (MessageAdded, ToolCalled, ToolReturned, Injected, ContextRecalled, Compacted)
"""What a request is made of."""
PAYLOADS = frozenset(
    {
        "chatfold.agent.models.ScriptedModel.payload",
        "chatfold.agent.models.openai.OpenAIModel.payload",
        "chatfold.agent.models.anthropic.AnthropicModel.payload",
    }
)
"""Of these the provider's name is enough to know which code made a request."""
_MOST_NEW, _NEAR = 64, 512  # entries

Ask = Callable[[dict[str, Any]], AsyncIterator[Piece | ModelReply]]
OnStep = Callable[[Step], Awaitable[None] | None]


class Setup(Protocol):
    """What of an agent a run needs."""

    model: Model
    tools: dict[str, Tool]
    name: str
    policy: Policy
    summarise: Summarise
    steps: int
    tool_seconds: float
    tool_output: int
    retries: int
    most_injected: int
    send: Send | None
    ask: Ask | None
    draw: Draw | None
    pause: Callable[[float], Awaitable[None]] | None

    async def system(self, chat: Chat) -> str: ...

    async def what_now(self, call: ToolCall) -> str: ...

    def is_wanted_elsewhere(self) -> bool: ...


class Run:
    def __init__(self, setup: Setup, chat: Chat, run: str, on_step: Sequence[OnStep] = ()) -> None:
        self.setup = setup
        self.chat = chat
        self.run = run
        self._on_step = list(on_step)
        self._context_of_tools: RunContext | None = None
        self._context = ""  # the one in which the model was told of the moment
        self._said = ""  # what callbacks were told last
        self.interrupted = asyncio.Event()  # set when there is new input and the model shall be asked anew

    async def record(self, *events: Event) -> None:
        await self.chat.record(*events, run=self.run)

    # --- from beginning to end ---------------------------------------------------------------------------

    async def go(self, now: str) -> None:
        """Begins, or goes on with, the run. ``now``: what the model is told of the moment."""
        try:
            if self.run not in self.chat[executions].running:
                await self.record(RunStarted(self.setup.name))
            outcome, error = await self._steps(now)
        except asyncio.CancelledError:
            await self._end("cancelled", "cancelled")
            raise
        except ChatfoldError as refused:
            outcome, error = "failed", str(refused)
        except Exception as bug:
            await self._end("failed", f"{type(bug).__name__}: {bug}")
            raise
        await self._end(outcome, error)

    async def _end(self, outcome: Any, error: str) -> None:
        """Whoever cancels now is too late: that the run has ended is recorded before anything else is."""
        ending = asyncio.ensure_future(self._finish(outcome, error))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait((ending,))
            raise

    async def _finish(self, outcome: Any, error: str) -> None:
        """Calls that will not be answered any more are said to be; then the end."""
        if outcome == "cancelled":  # a result that was being recorded is recorded all the same: wait for it
            await self.chat.log.flush()
        open_calls = [
            ToolReturned(call.call, (Text(f"{outcome}: {INTERRUPTED}"),), failed=True)
            for call in await self.chat.open_calls()
        ]
        await self.record(*open_calls, RunFinished(outcome, error))

    async def _steps(self, now: str) -> tuple[str, str]:
        began = self.chat[executions].running[self.run]
        so_far = [entry async for entry in self.chat.entries(began)]
        self._context_of_tools = RunContext(
            self.chat,
            self.run,
            send=self.setup.send,
            draw=self.setup.draw,
            most=self.setup.most_injected,
            so_far=so_far,
        )
        own = [entry.event for entry in so_far if entry.run == self.run]
        done = sum(isinstance(event, ModelReturned) and not event.error for event in own)
        await self._recover(await self.chat.open_calls())
        if _is_answered(own) and not (await self.chat.now())[turn].is_waiting:
            return "done", ""
        while done < self.setup.steps:
            done += 1
            await self._tell_the_time(now)
            answer = await self._asked()
            if answer.calls:
                await self._use(await self.chat.open_calls())
            elif not (await self.chat.now())[turn].is_waiting or self.setup.is_wanted_elsewhere():
                return (
                    "done",
                    "",
                )  # what came meanwhile is answered, too: now, or when it is this chat's turn again
        return "limit", f"no answer within {self.setup.steps} steps"

    async def _tell_the_time(self, now: str) -> None:
        """Once in every context that the run comes to."""
        active = (await self.chat.now())[contexts].active.id
        if active != self._context:
            self._context = active
            mark = f"runtime:{self.run}"
            await self.chat.inject(now, role="system", fingerprint=mark, source=RUNTIME, run=self.run)

    # --- the model ---------------------------------------------------------------------------------------

    async def _asked(self) -> ModelReply:
        """The model's answer, recorded. A prompt that is too long is compacted, what may pass is tried again."""
        waited = tightened = 0
        while True:
            await self._make_room()
            payload = await self._called()
            try:
                answer = await self._streamed(payload)
            except ModelFailed as error:
                if is_too_long(error) and tightened < self.setup.retries:
                    tightened += 1
                    await self.record(ModelReturned(error=str(error), meta={"retry": "compacted"}))
                    policy, summarise = self.setup.policy, self.setup.summarise
                    await self.chat.compact_after(error, policy, summarise=summarise)
                elif error.again and waited < self.setup.retries:
                    seconds = error.after if error.after is not None else 0.5 * 2**waited
                    waited += 1
                    await self.record(
                        ModelReturned(error=str(error), meta={"retry": waited, "wait": seconds})
                    )
                    await (self.setup.pause or asyncio.sleep)(seconds)
                else:
                    await self.record(ModelReturned(error=str(error)))
                    raise
            else:
                if answer is not None:
                    return answer

    async def _make_room(self) -> None:
        """If a summary fails, the prompt is what it was: then the provider may say that it is too long."""
        try:
            await self.chat.compact_if_due(self.setup.policy, summarise=self.setup.summarise)
        except SummaryFailed as error:
            await self.record(Noted("compaction_failed", error.args[0]))

    async def _called(self) -> dict[str, Any]:
        """What is sent, and that it is."""
        assert self._context_of_tools is not None
        model, tools = self.setup.model, tuple(tool.offered for tool in self.setup.tools.values())
        with within(self._context_of_tools):
            system = await self.setup.system(self.chat)
        sent: dict[str, Json] = {"system": system, "tools": list(tools)}
        if settings := settings_of(model):
            sent["settings"] = settings
        notes = {name: await self._noted(name, value) for name, value in sent.items()}
        params: dict[str, Json] = {name: mark for name, (mark, _) in notes.items()}
        params["noted"] = {name: seq for name, (_, seq) in notes.items()}
        if (code := payload_of(model)) not in PAYLOADS:
            params["payload"] = code
        payload: dict[str, Any] = {}

        async def called(now: Moment) -> tuple[Event]:
            """What arrives while this is written down would be taken for seen: then it is made anew, with it."""
            nonlocal payload
            payload = model.payload(Request(system, await now.messages(), tools))
            mark = fingerprint(payload)
            seen = {"seen": new} if (new := await _new(now)) else {}
            names = tuple(self.setup.tools)
            return (ModelCalled(model.name, mark, params | seen, names, model.provider, PROMPT_RULES),)

        await self.chat.append_if(called, run=self.run)
        return payload

    async def _noted(self, name: str, value: Json) -> tuple[str, int]:
        """The fingerprint of what is not history but was sent, and where it is kept, once: so that the request can be made again."""
        data = msgspec.to_builtins(value)
        mark = fingerprint({name: data})
        [entry] = await self.chat.record(Noted(f"{OURS}{name}", data), id=f"{name}:{mark}")
        return mark, entry.seq

    async def _streamed(self, payload: dict[str, Any]) -> ModelReply | None:
        """None: there was new input meanwhile, and the model is to be asked anew."""
        self.interrupted.clear()
        asking = asyncio.create_task(self._listen(payload))
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
                await asyncio.shield(self.record(ModelReturned(error="cancelled")))
        if asking.cancelled():
            if self.interrupted.is_set():
                return None
            raise ModelFailed("the request was cancelled from within", again=True)
        return await self._answered(asking.result())

    async def _listen(self, payload: dict[str, Any]) -> ModelReply:
        answer = None
        async for one in (self.setup.ask or self.setup.model.ask)(payload):
            if isinstance(one, Piece):
                await self._tell(Step("piece", one.text, run=self.run, kind=one.kind))
            else:
                answer = one
        if answer is None:
            raise ModelFailed("the model's answer ended before it was complete", again=True)
        return answer

    async def _answered(self, answer: ModelReply) -> ModelReply:
        """The words and the calls are recorded together, before any tool runs."""
        events: list[Event] = [ModelReturned(answer.usage, answer.stop)]
        if answer.parts or not answer.calls:
            events.append(MessageAdded("assistant", answer.parts))
        events += [ToolCalled(asked.call, asked.name, asked.args) for asked in answer.calls]
        await self.record(*events)
        if step := answer_step(answer.parts, self.run, self._said):
            self._said = step.text
            await self._tell(step)
        return answer

    # --- tools -------------------------------------------------------------------------------------------

    async def _recover(self, calls: list[ToolCall]) -> None:
        """Calls that a crash left without a result, each as its tool says."""
        again = [call for call in calls if await self._is_wanted_again(call)]
        for call in calls:
            if call not in again:
                await self._returned(call, failed(INTERRUPTED))
        await self._use(again)

    async def _is_wanted_again(self, call: ToolCall) -> bool:
        tool = self.setup.tools.get(call.name)
        policy = tool.after_crash if tool else "interrupted"
        return (await self.setup.what_now(call) if policy == "ask" else policy) == "again"

    async def _use(self, calls: list[ToolCall]) -> None:
        """Makes the calls side by side; each result is recorded as it comes."""
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(self._made(call))

    async def _made(self, call: ToolCall) -> None:
        assert self._context_of_tools is not None
        enter(self._context_of_tools, call.call)
        tool = self.setup.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.setup.tools) or "none"
            outcome = failed(f"there is no tool {call.name!r}; there are: {known}")
        else:
            seconds, most = self.setup.tool_seconds, self.setup.tool_output
            outcome = await used(tool, call.args, seconds=seconds, most=most)
        await self._returned(call, outcome)

    async def _returned(self, call: ToolCall, outcome: Outcome) -> None:
        await self.record(ToolReturned(call.call, outcome.parts, outcome.failed))
        await self._tell(tool_step(call, outcome, self.run))

    async def _tell(self, step: Step) -> None:
        """A callback that fails is told of in the log, and nothing any more; the run goes on."""
        for callback in list(self._on_step):
            try:
                waiting = callback(step)
                if waiting is not None:
                    await waiting
            except Exception as error:  # noqa: BLE001 (the callback's, whatever it is)
                if callback in self._on_step:  # tools are told of side by side
                    self._on_step.remove(callback)
                await self.record(Noted("callback_failed", f"{type(error).__name__}: {error}"))


async def _new(now: Moment) -> dict[str, Json]:
    """The fingerprints of what came since the last request, by seq: so an entry that is another one later can be named."""
    since = max(now[turn].called + 1, now.seq - _NEAR)
    entries = await now.read(((since, now.seq),))
    shown = [entry for entry in entries if isinstance(entry.event, SHOWN)]
    return {str(entry.seq): event_mark(entry.event) for entry in shown[-_MOST_NEW:]}


def event_mark(event: Event) -> str:
    return fingerprint(msgspec.to_builtins(event))[:16]


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
