"""What a tool knows of the run it is called by: the chat, the run, and a way to show the model more.

A run sets it for its tools; a task or a thread that a tool starts has it, too. What is injected is an event of the log: shown
before the question that is being answered, never inside a tool block, and again whenever the prompt is made again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, TypeAlias

from chatfold.agent.chat import Chat
from chatfold.agent.limits import Limits
from chatfold.eventlog import (
    ChatfoldError,
    ContextCleared,
    ContextOpened,
    ContextSwitched,
    Entry,
    Injected,
    Json,
    Noted,
    Part,
    Role,
)
from chatfold.projections.labels import RUNTIME

Send: TypeAlias = Callable[[str, str, tuple[Part, ...]], Awaitable[None]]
"""Brings parts to the user of a chat: (chat key, an id that is the same when it is tried again, parts)."""

Draw: TypeAlias = Callable[[str, str, Callable[[], Json]], Json]
"""Gives a value that comes from nowhere in the log: (run, name, what makes it). A rehearsal has it from the recording."""
Record: TypeAlias = Callable[..., Awaitable[list[Entry]]]
"""Appends events as one, as the run's."""
DRAWN = "drawn:"
"""What such a value is noted as, before its name."""

Refusal: TypeAlias = Literal["missing_fingerprint", "empty_content", "duplicate", "limit_reached"]


class NotRunning(ChatfoldError):
    next_step = "This works inside a tool that an agent's run has called"


class RunContext:
    """What a tool knows of the run it is called by: ``current_run()``.

    ``chat``: where it runs. ``run``: its id. ``record(*events)``: appends events as the run's, all or none. ``send``: the agent's way
    to the user, None if it has none.
    """

    def __init__(
        self,
        chat: Chat,
        run: str,
        *,
        record: Record | None = None,
        send: Send | None = None,
        draw: Draw | None = None,
        most: int = Limits().injections,
        output: int = Limits().tool_output,
        so_far: Iterable[Entry] = (),
    ) -> None:
        self.chat = chat
        self.run = run
        self.record: Record = record or partial(chat.record, run=run)
        self.send = send
        self.output = output  # the characters of a result that the model is shown
        self._draw = draw
        self._most = most
        self._known: set[str] = set()
        self._count = 0
        self._one_at_a_time = asyncio.Lock()
        for entry in so_far:
            match entry.event:
                case Injected(fingerprint=fingerprint, source=source) if (
                    entry.run == run and source != RUNTIME
                ):
                    self._known.add(fingerprint)
                    self._count += 1
                case ContextOpened() | ContextSwitched() | ContextCleared():
                    self.begin_anew()

    def __repr__(self) -> str:
        return f"RunContext({self.chat.key!r}, {self.run!r})"

    async def inject_once(
        self, text: str, *, fingerprint: str, role: Role = "assistant", source: str = ""
    ) -> Refusal | None:
        """Shows the model a text, once in this run and context; returns None, or why it does not.

        ``fingerprint``: what says that two texts are the same. ``source``: what added it. A text is labelled, and never in a
        system role for the provider: what a tool says is no instruction.
        """
        if not fingerprint.strip():
            return "missing_fingerprint"
        if not text.strip():
            return "empty_content"
        async with self._one_at_a_time:  # tools run side by side
            if fingerprint in self._known:
                return "duplicate"
            if self._count >= self._most:
                return "limit_reached"
            done = await self.chat.inject(
                text, role=role, fingerprint=fingerprint, source=source, run=self.run
            )
            self._known.add(fingerprint)
            self._count += len(done)
            return None if done else "duplicate"

    async def draw(self, name: str, make: Callable[[], Json]) -> Json:
        """A time, an id, a number by chance, whatever ``make`` gives: recorded, so that a replay is given the same."""
        value = self._draw(self.run, name, make) if self._draw else make()
        await self.record(Noted(f"{DRAWN}{name}", value))
        return value

    def begin_anew(self) -> None:
        """In another context the model does not see what was injected: it may be injected again."""
        self._known.clear()


_current: ContextVar[RunContext | None] = ContextVar("chatfold_run", default=None)
_task: ContextVar[asyncio.Task[Any] | None] = ContextVar("chatfold_task", default=None)
_call: ContextVar[str] = ContextVar("chatfold_call", default="")


@contextmanager
def within(context: RunContext) -> Iterator[None]:
    """For what a run asks of the agent itself."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def current_run() -> RunContext:
    """What this tool knows of its run. Raises ``NotRunning`` outside of a run.

    @tool
    async def roll() -> int:
        return await current_run().draw("roll", lambda: random.randint(1, 6))
    """
    context = _current.get()
    if context is None:
        raise NotRunning("there is no run here")
    return context


def running_chat() -> Chat | None:
    """The chat of the run this is called by; None outside of a run."""
    context = _current.get()
    return context.chat if context is not None else None


@contextmanager
def leave_run() -> Iterator[None]:
    """Tasks that are begun here are not the run's."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def call_id() -> str:
    """Of the call that this tool answers."""
    return _call.get()


def enter(context: RunContext, call: str) -> None:
    """From here on, in this task and those that it starts."""
    _current.set(context)
    _call.set(call)
    _task.set(asyncio.current_task())


def is_tool_itself() -> bool:
    """Is the task that we are in the tool's, and not one that it started?"""
    return _task.get() is asyncio.current_task()


async def inject_system_once(text: str, *, fingerprint: str, source: str = "") -> Refusal | None:
    """For rules, constraints, summaries of work. Labelled, and not in a system role: a tool's text is no instruction."""
    return await current_run().inject_once(text, fingerprint=fingerprint, role="system", source=source)


async def inject_assistant_once(text: str, *, fingerprint: str, source: str = "") -> Refusal | None:
    """For what was said in a conversation."""
    return await current_run().inject_once(text, fingerprint=fingerprint, role="assistant", source=source)
