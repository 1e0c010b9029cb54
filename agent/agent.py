"""Agent: a model and its tools, at work in any number of chats.

    async with Agent(OpenAIModel("gpt-5"), store="./chats", tools=[read_file]) as agent:
        result = await agent.run("Why does the lexer drop newlines?", chat="telegram-42")

The log is the only state. A message is recorded when it arrives, before anything is done about it; every step of a run is
recorded before the next begins. Kill the process anywhere: ``resume`` goes on, and nothing that was done is done again.

Leaving the block waits for the answers that are under way. If it is left by an exception, by Ctrl-C or because its task
was cancelled, it takes at most ``Limits.grace`` seconds: runs are stopped where they are and stay open in the log.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, Self

from chatfold.agent.chat import Chat
from chatfold.agent.checks import check
from chatfold.agent.compaction import DEFAULT, Policy, Summarise
from chatfold.agent.conversations import Conversations
from chatfold.agent.lanes import Lanes, WaitsForItself
from chatfold.agent.limits import Limits
from chatfold.agent.messages import Content, new_id, user
from chatfold.agent.models import Model
from chatfold.agent.progress import Step
from chatfold.agent.result import Result, find_result
from chatfold.agent.run import OnStep, Run
from chatfold.agent.run_context import Send, is_tool_itself, leave_run, running_chat
from chatfold.agent.store import Store
from chatfold.agent.telemetry import Observer
from chatfold.agent.threads import leave_behind, left_behind
from chatfold.agent.tools import Tool, by_name
from chatfold.agent.tools.skills import SkillFiles
from chatfold.agent.world import LiveWorld, World
from chatfold.eventlog import Entry, Json, NoSuchPoint, Storage
from chatfold.eventlog.logger import logger
from chatfold.projections import turn

_NOT_OURS = frozenset({"imported", "adapter"})  # words of chats that another program answers

About = Callable[[str], Mapping[str, Json] | Awaitable[Mapping[str, Json]]]


class Agent(Conversations):
    """Answers the messages of its chats with a model and tools.

    ``model``: an ``OpenAIModel``, an ``AnthropicModel``, ``model_from(function)``, or anything with the methods of ``Model``.
    ``store``: where its chats are: a ``Store``, which stays yours to close, or the place of one; memory without it.
    ``tools``: what the model may call: functions, ``Tool``, ``SkillFiles``.
    ``instructions``: the text that the model is told before a conversation.
    ``name``: who the log says has run; agents with several names can share a chat.
    ``folder``: profile and memory files, told before the instructions; see ``system_prompt``.
    ``about``: a function from a chat's key to what the model is told of the chat, a line a name; it may be async.
    ``policy``: when older messages are put behind a summary. ``summarise``: who writes it;
    the model without it, see ``model_summary``.
    ``send``: brings what ``chat_send`` sends to the user: (chat key, an id that stays the same when it is tried again, parts).
    ``on_step``: is told what happens in every run, as it happens.
    ``limits``: steps, retries, seconds; see ``Limits``.
    """

    def __init__(
        self,
        model: Model,
        *,
        store: Store | Storage | Path | str | None = None,
        tools: Iterable[Tool | SkillFiles | Callable[..., Any]] = (),
        instructions: str = "",
        name: str = "",
        folder: Path | str | None = None,
        about: About | None = None,
        policy: Policy = DEFAULT,
        summarise: Summarise | None = None,
        send: Send | None = None,
        on_step: OnStep | None = None,
        limits: Limits = Limits(),  # noqa: B008 (nobody can change it)
    ) -> None:
        if not (callable(getattr(model, "payload", None)) and callable(getattr(model, "ask", None))):
            raise TypeError(
                f"model: expected OpenAIModel(…), AnthropicModel(…) or model_from(function), got {model!r}"
            )
        check("store", store, Store, Storage, Path, str, NoneType, expected="a Store or the place of one")
        check("tools", tools, Iterable, expected="a list of functions or Tools")
        check("policy", policy, Policy, expected="a Policy")
        check("limits", limits, Limits, expected="Limits(…)")
        texts, functions = (
            {"instructions": instructions, "name": name},
            {"about": about, "summarise": summarise},
        )
        for given, text in texts.items():
            check(given, text, str, expected="a text")
        for given, function in (functions | {"send": send, "on_step": on_step}).items():
            check(given, function, callable, NoneType, expected="a function")
        super().__init__(
            store if isinstance(store, Store) else Store.memory() if store is None else Store(store)
        )
        self._owns_store = not isinstance(store, Store)
        tools = list(tools)
        self.skills = [one for one in tools if isinstance(one, SkillFiles)]
        plain = [one for one in tools if not isinstance(one, SkillFiles)]
        self.tools = by_name([*plain, *(tool for files in self.skills for tool in files.tools)])
        self.model = model
        self.name = name
        self.instructions = instructions
        self.folder = Path(folder) if folder is not None else None
        self.about = about
        self.policy = policy
        self.summarise = summarise
        self.send = send
        self.on_step = on_step
        self.limits = limits
        self.observers: list[Observer] = []
        self.world: World = LiveWorld(self)  # what is not in the log; a rehearsal has one of its own
        self.lanes = Lanes(limits.chats)  # whose turn it is
        self._runs: dict[tuple[int, str], Run] = {}  # by the chat
        self._tasks: set[asyncio.Task[Result | None]] = set()  # answers that are under way
        self._later: set[asyncio.Task[Result | None]] = set()  # those of them that nobody waits for
        self._failed: list[Exception] = []  # by what was done in the background
        self._owner: asyncio.Task[Any] | None = None  # the task that entered the block

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | Path | str, model: Model, **options: Any) -> Self:
        """The agent with the policy that a ``ship.json``, or words of one, say; see ``Policy.from_config``."""
        return cls(model, policy=Policy.from_config(config), **options)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"Agent({name}{self.model!r}, {self.store!r}, tools: {', '.join(self.tools) or 'none'})"

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                await self.wait_idle()
        finally:
            await self._shut_down()

    async def _shut_down(self) -> None:
        """Stops what is under way, which stays open in the log; closes what the agent opened."""
        self._owner = None
        for run in self._runs.values():
            run.is_left_open = True
        tasks = {task for task in self._tasks if not task.done()}
        for task in tasks:
            task.cancel()
        leave_behind([*tasks, *(task for run in self._runs.values() for task in run.tasks)])
        try:
            if tasks:
                _, tasks = await asyncio.wait(tasks, timeout=self.limits.grace)
        finally:
            if stuck := [*left_behind(), *(task.get_name() for task in tasks)]:
                logger.warning("left behind at shutdown, still running: %s", ", ".join(stuck))
            for store in (*([self.store] if self._owns_store else ()), *self._stores.values()):
                await store.close()

    # --- what arrives ------------------------------------------------------------------------------------

    async def run(
        self,
        *content: Content,
        chat: str | Chat | None = None,
        id: str | None = None,
        meta: Mapping[str, Json] | None = None,
        on_step: OnStep | None = None,
        interrupt: bool = False,
    ) -> Result:
        """Records the message, then answers it, with all that arrived before; gives what came of it.

            result = await agent.run("and the docs?", chat="telegram-42", id="telegram-991")
            result.text, result.outcome

        ``chat``: its key, or the chat; the current conversation without it. ``id``: the platform's; a message that is delivered
        twice is recorded and answered once. ``interrupt``: a model that is being asked in this chat is asked anew, with it.

        While a run is under way in this chat, it sees the message in its next step; the result is then that run's. Raises
        what a bug in the model or a callback raises; what a provider refuses is ``result.error``. If the caller is cancelled,
        so is the run; if that is the task which entered the agent's block, the run is stopped when the block is left.
        """
        chat = await self._chat(chat)
        entry = await self._record(chat, content, id, meta, interrupt=interrupt)
        return await self._wait_for(self._answer(chat, entry.seq, on_step), chat)

    async def stream(
        self,
        *content: Content,
        chat: str | Chat | None = None,
        id: str | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> AsyncIterator[Step]:
        """Like ``run``, and yields what happens as it happens; the last step, of type ``result``, has the result.

        async for step in agent.stream("go on", chat="telegram-42"):
            print(step.text)
        """
        steps: asyncio.Queue[Step] = asyncio.Queue()
        asking = asyncio.ensure_future(
            self.run(*content, chat=chat, id=id, meta=meta, on_step=steps.put_nowait)
        )
        asking.add_done_callback(lambda _: steps.put_nowait(Step("result", "")))
        try:
            while (step := await steps.get()).type != "result":
                yield step
            result = await asking
            yield Step("result", result.text, result.run, failed=result.outcome != "done", result=result)
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait((asking,))

    async def submit(
        self,
        *content: Content,
        chat: str | Chat | None = None,
        id: str | None = None,
        meta: Mapping[str, Json] | None = None,
        interrupt: bool = False,
    ) -> Entry:
        """Records the message and returns its entry, durable; it is answered in the background.

        What goes wrong there is raised by ``wait_idle``, and when the agent's block is left. A restart forgets no message that was
        submitted: see ``resume_all``.
        """
        chat = await self._chat(chat)
        entry = await self._record(chat, content, id, meta, interrupt=interrupt)
        self._in_background(chat, entry.seq)
        return entry

    async def resume(self, chat: str | Chat, *, on_step: OnStep | None = None) -> Result | None:
        """Goes on with a run that was killed, or answers what was not answered yet; None if there is nothing to do.

        Calls that were answered are not made again. Those that were not are treated as their tool's ``after_crash`` says.
        """
        chat = await self._chat(chat)
        if not chat[turn].is_open:
            return None
        return await self._wait_for(self._answer(chat, chat[turn].said, on_step), chat)

    async def resume_all(self) -> list[str]:
        """The same in the background for all chats that need it; gives their keys. Chats that
        were imported, or that another framework answers, are left alone."""
        found = [
            one
            async for one in self.store.chats()
            if one.is_open and not _NOT_OURS & one.outline.words.keys()
        ]
        for one in found:
            chat = await self.store.chat(one.key)
            if chat[turn].is_open:
                self._in_background(chat, chat[turn].said)
        return [one.key for one in found]

    async def regenerate(self, chat: str | Chat | None = None, *, on_step: OnStep | None = None) -> Result:
        """Asks the model again; returns what came of it. An answer that stands is taken back first, and stays in the log.

        Raises ``NoSuchPoint`` if nothing was asked.
        """
        chat = await self._chat(chat)
        return await self._wait_for(self._regenerate(chat, on_step), chat)

    def observe(self, observer: Observer) -> None:
        """Calls ``observer`` with a ``Span`` at the end of each run, model call and tool call, from now on.

        agent.observe(lambda span: print(span.kind, span.name, f"{span.seconds:.1f} s"))
        """
        self.observers.append(observer)

    async def wait_idle(self) -> None:
        """Returns when everything that was submitted is answered; raises what went wrong in the background, if anything did."""
        while self._later:
            await asyncio.wait(self._later)
        if self._failed:
            failed, self._failed = self._failed, []
            raise ExceptionGroup("in the background", failed)

    async def _record(
        self,
        chat: Chat,
        content: Sequence[Content],
        id: str | None,
        meta: Mapping[str, Json] | None,
        *,
        interrupt: bool,
    ) -> Entry:
        message = user(*content, meta=meta)
        if not any(getattr(part, "text", part) for part in message.parts):
            raise ValueError("the message is empty: agent.run('text', chat='key')")
        before = (await chat.now()).seq
        [entry] = await chat.record(message, id=id)
        if interrupt and entry.seq > before and _lane(chat) in self._runs:
            self._runs[_lane(chat)].interrupted.set()
        return entry

    # --- answers under way -------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, Result], chat: Chat) -> asyncio.Task[Result | None]:
        task: asyncio.Task[Result | None] = asyncio.create_task(work, name=f"a run in the chat {chat.key!r}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wait_for(self, work: Coroutine[Any, Any, Result], chat: Chat) -> Result:
        outer = self._outer_lane()
        if outer is not None and is_tool_itself():
            try:
                self.lanes.check(_lane(chat), outer)
            except WaitsForItself:
                work.close()
                raise
        task = self._start(work, chat)
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done() and asyncio.current_task() is not self._owner:
                task.cancel()
                await asyncio.wait((task,))
            raise
        assert result is not None
        return result

    def _in_background(self, chat: Chat, seq: int) -> None:
        with leave_run():  # a tool that begins it does not wait for it
            task = self._start(self._answer(chat, seq, None), chat)
        self._later.add(task)
        task.add_done_callback(self._collect)

    def _collect(self, task: asyncio.Task[Result | None]) -> None:
        self._later.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._failed.append(error)

    async def _answer(self, chat: Chat, seq: int, on_step: OnStep | None) -> Result:
        # In this process first come, first served; among processes one at a time, so that a run without an end is a dead one.
        async with self.lanes.of(_lane(chat), self._outer_lane()), chat.log.storage.lease(chat.key):
            result = await self._find_answer(chat, seq)
            if result is None:
                if self.limits.debounce:
                    await self._settle(chat)
                dead = chat[turn].run
                result = await self._run_once(chat, dead, on_step)
                if dead and chat[turn].called < seq:  # it was at its end, and did not get to see the message
                    result = await self._run_once(chat, "", on_step)
            tail = (await chat.now())[turn]
        if tail.is_waiting and result.outcome == "done" and not self.lanes.is_awaited(_lane(chat)):
            self._in_background(chat, tail.said)  # of a caller who does not wait for it
        return result

    def _outer_lane(self) -> tuple[int, str] | None:
        """The lane of the run whose tool we are called by."""
        outer = running_chat()
        return _lane(outer) if outer is not None and _lane(outer) in self._runs else None

    async def _find_answer(self, chat: Chat, seq: int) -> Result | None:
        """The result, if nothing is left to do about this message. A caller that was cancelled ends no other caller's answer."""
        state = (await chat.now())[turn]
        if state.run or state.called < seq:
            return None
        result = await find_result(chat, seq)
        return result if result.outcome != "cancelled" else None

    async def _regenerate(self, chat: Chat, on_step: OnStep | None) -> Result:
        async with self.lanes.of(_lane(chat), self._outer_lane()), chat.log.storage.lease(chat.key):
            now = await chat.now()
            if not now[turn].said:
                raise NoSuchPoint("nothing was asked yet", chat=chat.key, seq=now.seq)
            if (await now.messages())[-1].role != "user":
                await chat.rewind(now[turn].said, "regenerate")
            return await self._run_once(chat, "", on_step)

    async def _settle(self, chat: Chat) -> None:
        """Waits until nothing has arrived for a while, so that a burst is answered as one."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.limits.debounce_most
        said = -1
        while said != (await chat.now())[turn].said and loop.time() < end:
            said = chat[turn].said
            await asyncio.sleep(self.limits.debounce)

    async def _run_once(self, chat: Chat, run: str, on_step: OnStep | None) -> Result:
        """``run``: the one to go on with, if there is one."""
        run = run or new_id("run")
        callbacks = [callback for callback in (self.on_step, on_step) if callback is not None]
        going = self._runs[_lane(chat)] = Run(self, chat, run, self.world, callbacks)
        moment = f"Now: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\nrequestId: {run}"
        try:
            return await going.go(moment if self.limits.tell_time else "")
        finally:
            with suppress(KeyError):
                del self._runs[_lane(chat)]


def _lane(chat: Chat) -> tuple[int, str]:
    return id(chat.log), chat.key
