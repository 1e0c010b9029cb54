"""Agent: a model and its tools, at work in any number of chats.

    agent = Agent(model=model, tools=[read_file], store=Store("./chats"))
    result = await agent.run("Why does the lexer drop newlines?", chat="telegram-chat-42")

The log is the only state. A message is recorded when it arrives, before anything is done about it; every step of a run is
recorded before the next begins. Kill the process anywhere: ``resume`` goes on, and nothing that was done is done again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from chatfold.agent.chat import Chat, Point
from chatfold.agent.compaction import DEFAULT, Policy, Summarise
from chatfold.agent.lanes import Lanes
from chatfold.agent.messages import Content, ToolCall, new_id, user
from chatfold.agent.models import Model
from chatfold.agent.result import Result, result_of
from chatfold.agent.run import OnStep, Run
from chatfold.agent.run_context import MOST_INJECTED, Send
from chatfold.agent.store import Store
from chatfold.agent.summary import by_looking
from chatfold.agent.system_prompt import system_text
from chatfold.agent.tools import Tool, by_name
from chatfold.agent.tools.skills import SkillFiles, skill_tools
from chatfold.agent.world import LiveWorld, World
from chatfold.eventlog import (
    ChatExists,
    Entry,
    Json,
    MessageAdded,
    ModelCalled,
    NoSuchChat,
    RunFinished,
    RunStarted,
)
from chatfold.projections import executions, turn
from chatfold.projections.text import text_of


class Agent:
    def __init__(
        self,
        *,
        model: Model,
        tools: Iterable[Tool] = (),
        store: Store | None = None,
        name: str = "",
        instructions: str = "",
        folder: Path | str | None = None,
        skills: Path | str | None = None,
        about: Callable[[str], Mapping[str, Json] | Awaitable[Mapping[str, Json]]] | None = None,
        policy: Policy = DEFAULT,
        summarise: Summarise = by_looking,
        send: Send | None = None,
        on_step: OnStep | None = None,
        on_open_call: Callable[[ToolCall], Awaitable[Literal["again", "interrupted"]]] | None = None,
        side_by_side: int = 8,
        steps: int = 30,
        retries: int = 3,
        tool_seconds: float = 120.0,
        tool_output: int = 50_000,
        most_injected: int = MOST_INJECTED,
        debounce: float = 0.0,
        at_most: float = 2.0,
        cancel_on_new_input: bool = False,
    ) -> None:
        self.model = model
        self.skills = SkillFiles(skills) if skills is not None else None
        self.tools = by_name([*tools, *(skill_tools(self.skills) if self.skills else ())])
        self.store = store if store is not None else Store.memory()
        self.name = name
        self.instructions = instructions
        self.folder = Path(folder) if folder is not None else None
        self.about = about
        self.policy = policy
        self.summarise = summarise
        self.send = send
        self.on_step = on_step
        self.on_open_call = on_open_call
        self.steps = steps
        self.retries = retries
        self.tool_seconds = tool_seconds
        self.tool_output = tool_output
        self.most_injected = most_injected
        self.debounce = debounce
        self.at_most = at_most
        self.cancel_on_new_input = cancel_on_new_input
        self.world: World = LiveWorld(
            self
        )  # what comes from outside of the log; a rehearsal has one of its own
        self.conversation: Chat | None = None  # the one that was made, loaded or forked last
        self._lanes = Lanes(side_by_side)
        self._runs: dict[tuple[int, str], Run] = {}  # by the chat
        self._stores: dict[Path, Store] = {}  # of conversations that were given as paths
        self._later: set[asyncio.Future[Result | None]] = set()
        self._failed: list[Exception] = []  # by what was done in the background

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.wait_idle()
        for store in (self.store, *self._stores.values()):
            await store.close()

    # --- what arrives ------------------------------------------------------------------------------------

    async def run(
        self,
        *content: Content,
        chat: str | Chat | None = None,
        id: str | None = None,
        meta: Mapping[str, Json] | None = None,
        on_step: OnStep | None = None,
    ) -> Result:
        """Records the message, then answers it, with all that arrived before; gives what came of it.

        While a run is under way in this chat, it sees the message in its next step; the result is then that run's, and so are
        the steps that callbacks are told of. Not from within a tool of this agent: it would wait for its own run.
        """
        chat = await self._chat(chat)
        entry = await self._record(chat, content, id, meta)
        return await self._answer(chat, entry.seq, on_step)

    async def submit(
        self,
        *content: Content,
        chat: str | Chat | None = None,
        id: str | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> Entry:
        """Records the message and returns; it is answered in the background. See ``wait_idle``."""
        chat = await self._chat(chat)
        entry = await self._record(chat, content, id, meta)
        self._in_background(self._answer(chat, entry.seq, None))
        return entry

    async def resume(self, chat: str | Chat, *, on_step: OnStep | None = None) -> Result | None:
        """Goes on with a run that was killed, or answers what was not answered yet; None if there is nothing to do."""
        chat = await self._chat(chat)
        return await self._answer(chat, chat[turn].said, on_step) if chat[turn].is_open else None

    async def regenerate(self, chat: str | Chat, *, on_step: OnStep | None = None) -> Result:
        """Asks the model about the chat as it is, whoever's turn it is: in a fork, to have another answer."""
        chat = await self._chat(chat)
        async with self._lanes.of(_lane(chat)), chat.log.storage.lease(chat.key):
            return await self._work(chat, "", on_step)

    async def resume_all(self) -> list[str]:
        """The same in the background for all chats that need it; says which."""
        keys = [listed.key async for listed in self.store.chats() if listed.is_open]
        for key in keys:
            self._in_background(self.resume(key))
        return keys

    async def wait_idle(self) -> None:
        """Returns when everything that was accepted is answered; raises what went wrong in the background, if anything did."""
        while self._later:
            await asyncio.wait(self._later)
        if self._failed:
            failed, self._failed = self._failed, []
            raise ExceptionGroup("in the background", failed)

    def _in_background(self, work: Awaitable[Result | None]) -> None:
        task = asyncio.ensure_future(work)
        self._later.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[Result | None]) -> None:
        self._later.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._failed.append(error)

    async def _record(
        self, chat: Chat, content: Sequence[Content], id: str | None, meta: Mapping[str, Json] | None
    ) -> Entry:
        before = (await chat.now()).seq
        [entry] = await chat.record(user(*content, meta=meta), id=id)
        if self.cancel_on_new_input and entry.seq > before and _lane(chat) in self._runs:
            self._runs[_lane(chat)].interrupted.set()
        return entry

    async def _chat(self, chat: str | Chat | None) -> Chat:
        """None: the current conversation, a new one if there is none."""
        if chat is None:
            return self.conversation or await self.new_conversation(new_id("chat"))
        return await self.store.chat(chat) if isinstance(chat, str) else chat

    # --- answering ---------------------------------------------------------------------------------------

    async def _answer(self, chat: Chat, seq: int, on_step: OnStep | None) -> Result:
        # In this process whoever came first; among processes one at a time, so that a run without an end is a dead one.
        async with self._lanes.of(_lane(chat)), chat.log.storage.lease(chat.key):
            result = await self._answered(chat, seq) or await self._attempt(chat, seq, on_step)
            tail = (await chat.now())[turn]
        if tail.is_waiting and result.outcome == "done" and not self._lanes.is_awaited(_lane(chat)):
            self._in_background(
                self._answer(chat, tail.said, on_step)
            )  # of somebody who does not wait for it
        return result

    async def _answered(self, chat: Chat, seq: int) -> Result | None:
        """If there is nothing left to do about this message. Whoever was cancelled took nobody else's answer along."""
        state = (await chat.now())[turn]
        if state.run or state.called < seq:
            return None
        result = await self._result(chat, seq)
        return result if result.outcome != "cancelled" else None

    async def _attempt(self, chat: Chat, seq: int, on_step: OnStep | None) -> Result:
        await self._settle(chat)
        dead = chat[turn].run
        result = await self._work(chat, dead, on_step)
        if dead and chat[turn].called < seq:  # it was at its end, and did not get to see the message
            result = await self._work(chat, "", on_step)
        return result

    async def _settle(self, chat: Chat) -> None:
        """Waits until nothing has arrived for a while, so that a burst is answered as one."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.at_most
        said = -1
        while self.debounce and said != (await chat.now())[turn].said and loop.time() < end:
            said = chat[turn].said
            await asyncio.sleep(self.debounce)

    async def _work(self, chat: Chat, run: str, on_step: OnStep | None) -> Result:
        """``run``: the one to go on with, if there is one."""
        run = run or new_id("run")
        callbacks = [callback for callback in (self.on_step, on_step) if callback is not None]
        going = self._runs[_lane(chat)] = Run(self, chat, run, self.world, callbacks)
        try:
            return await going.go(f"Now: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\nrequestId: {run}")
        finally:
            del self._runs[_lane(chat)]

    async def _result(self, chat: Chat, seq: int) -> Result:
        """Of the first run that asked a model after this entry and was not cancelled; if there is none, of the last one."""
        found: Entry | None = None
        asked = False
        async for entry in chat.entries(seq):
            match entry.event:
                case _ if entry.run is None:
                    continue
                case ModelCalled():
                    found, asked = entry, True
                case RunFinished(outcome=outcome) if asked:
                    if outcome != "cancelled":
                        break
                    asked = False
                case _ if found is None or isinstance(entry.event, RunStarted):
                    found = entry
        if found is None or found.run is None:  # somebody answered it without an agent
            said = [one.event async for one in chat.entries(seq) if isinstance(one.event, MessageAdded)]
            return Result(
                "", next(text_of(one.parts) for one in said if one.role == "assistant"), outcome="done"
            )
        started = chat[executions].started
        began = started[started.upto(found.seq) - 1]
        return result_of(found.run, [one async for one in chat.entries(began)])

    async def system(self, chat: Chat) -> str:
        about = self.about(chat.key) if self.about else {}
        return await system_text(
            chat,
            about=await about if isinstance(about, Awaitable) else about,
            folder=self.folder,
            instructions=self.instructions,
            skills_told=self.skills.told() if self.skills else "",
        )

    def is_wanted_elsewhere(self) -> bool:
        return self._lanes.is_crowded

    # --- conversations -----------------------------------------------------------------------------------

    async def new_conversation(self, where: Path | str) -> Chat:
        """``where``: a key in the agent's store, or a path, ``chats/task-001``, in a store of its own in ``chats``."""
        store, key = self._place(where)
        chat = await store.chat(key)
        if chat.seq:
            raise ChatExists("there is a conversation of this key already", chat=key)
        self.conversation = chat
        return chat

    async def load_conversation(self, where: Path | str) -> Chat:
        store, key = self._place(where)
        chat = await store.chat(key)
        if not chat.seq:
            raise NoSuchChat("there is no such conversation", chat=key)
        self.conversation = chat
        return chat

    async def fork_conversation(self, where: Path | str, *, at: Point | None = None) -> Chat:
        """The current conversation, gone on with elsewhere; the original stays as it is."""
        current = self.conversation
        if current is None:
            raise NoSuchChat("there is no conversation to fork: make or load one first")
        store, key = self._place(where)
        if store.log is current.log:
            self.conversation = await current.fork(key, at)
        else:  # a fork shares its parent's files; between two stores there are none to share
            if at is not None:
                raise ValueError("a conversation is forked at an earlier point within its own store")
            self.conversation = await store.import_chat(current, key)
        return self.conversation

    def _place(self, where: Path | str) -> tuple[Store, str]:
        if isinstance(where, str):
            return self.store, where
        folder = where.parent.absolute()
        return self._stores.setdefault(folder, Store(folder)), where.name.removesuffix(".jsonl")


def _lane(chat: Chat) -> tuple[int, str]:
    return id(chat.log), chat.key
