"""Runs of an agent with a script for a model: what it is asked to call, and what the log says came of it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from chatfold.agent import Chat, Store, user
from chatfold.agent.agent import Agent
from chatfold.agent.messages import ToolCall
from chatfold.agent.models import Line, ModelReply, ScriptedModel
from chatfold.agent.progress import Step
from chatfold.agent.tools import Tool
from chatfold.agent.tools.skills import SkillFiles
from chatfold.eventlog import Data, Event, Json, Part, RunStarted, Text, ToolCalled, ToolReturned
from chatfold.projections.text import text_of

Sent = tuple[str, str, str]


def step(*calls: tuple[str, Json], ids: Iterable[str] = ()) -> ModelReply:
    """An answer that is nothing but calls: (name, args) each, by the ids c1, c2, … unless others are given."""
    names = [*ids] or [f"c{number}" for number in range(1, len(calls) + 1)]
    made = [ToolCall(call, name, args) for call, (name, args) in zip(names, calls, strict=True)]
    return ModelReply(calls=tuple(made), stop="tool_calls")


def agent(
    store: Store,
    script: Iterable[Line],
    tools: Iterable[Tool | SkillFiles],
    *,
    send: Callable[[str, str, tuple[Part, ...]], Awaitable[None]] | None = None,
    **more: Any,
) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(script)
    return Agent(model=model, tools=tools, store=store, send=send, **more), model


async def ran(
    store: Store,
    tools: Iterable[Tool | SkillFiles],
    *steps: ModelReply,
    key: str = "chat",
    question: str = "now this",
    **more: Any,
) -> tuple[Chat, ScriptedModel]:
    """A question, these steps, and ``done``. What the model was asked is in its ``payloads``."""
    made, model = agent(store, [*steps, "done"], tools, **more)
    result = await made.run(question, chat=key)
    assert (result.outcome, result.error) == ("done", "")
    return await store.chat(key), model


async def events(chat: Chat, *kinds: type) -> list[Any]:
    return [entry.event async for entry in chat.entries() if not kinds or isinstance(entry.event, kinds)]


async def returned(chat: Chat) -> list[Any]:
    """What the calls gave, in the order they came back: the object, or the text."""
    return [_value(event.parts) for event in await events(chat, ToolReturned)]


def _value(parts: tuple[Part, ...]) -> Any:
    return parts[0].data if parts and isinstance(parts[0], Data) else text_of(parts)


async def interrupted(chat: Chat, name: str, args: Json, *later: Event, call: str = "c1") -> None:
    """The chat as a process that was killed left it: asked, called, and ``later``, as far as it came."""
    await chat.record(user("now this"))
    await chat.record(RunStarted(), run="r1")
    await chat.record(ToolCalled(call, name, args), run="r1")
    for event in later:
        await chat.record(event, run="r1")


def seen(payload: dict[str, Any]) -> list[tuple[str, str]]:
    """(role, text) of the messages that the model was sent, without those of nothing but calls and results."""
    told = [m for m in payload["messages"] if m["kind"] != "runtime"]
    texts = [(m["role"], "\n".join(p.get("text", "") for p in m["parts"])) for m in told]
    return [(role, text) for role, text in texts if text]


class Outbox:
    """A ``send`` that keeps what it is given; ``fails`` is raised instead."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.sent: list[Sent] = []
        self.fails = fails

    async def __call__(self, key: str, send: str, parts: tuple[Part, ...]) -> None:
        if self.fails is not None:
            raise self.fails
        assert all(isinstance(part, Text) for part in parts)
        self.sent.append((key, send, text_of(parts)))


class Steps:
    """What ``on_step`` was told."""

    def __init__(self) -> None:
        self.told: list[Step] = []

    def __call__(self, step: Step) -> None:
        self.told.append(step)

    def of(self, kind: str) -> list[str]:
        return [step.text for step in self.told if step.type == kind]
