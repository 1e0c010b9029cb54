"""Rerun: one turn for real, into a fork. The only thing in ``replay`` that asks a model.

    fork, result = await rerun(chat, 118, build)            # the turn of entry 118; the original stays as it is

The fork has everything up to the answer; then the agent answers anew. Tools do not run: a call of the original turn, by name and
arguments, is given the result it had then. A call that was not made then cannot be answered: the run fails and says so. Tools
that look at nothing but the chat, or change nothing but it, do run, in the fork; what is sent is taken for sent.
"""

from collections.abc import AsyncIterator, Collection
from copy import copy
from typing import Any, Literal

import msgspec

from chatfold.agent import CHAT_TOOLS, Agent, Chat, Result, Store
from chatfold.agent.messages import ToolCall
from chatfold.agent.models import ModelFailed, ModelReply, Piece, fingerprint
from chatfold.agent.tools import Outcome, Tool, fail
from chatfold.agent.world import LiveWorld
from chatfold.eventlog import (
    ChatExists,
    Data,
    Json,
    MessageAdded,
    ModelCalled,
    NoSuchPoint,
    RunFinished,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from chatfold.replay.verify.rehearsal import Factory, build_agent

_SEND = "chat_send"
_WITHIN = tuple(tool for tool in CHAT_TOOLS if tool.name != _SEND)


async def rerun(
    chat: Chat,
    seq: int,
    factory: Factory,
    *,
    tools: Literal["recorded", "live"] | Collection[str] = "recorded",
    model: str = "",
    key: str | None = None,
) -> tuple[Chat, Result]:
    """Answers the question of the turn that entry ``seq`` is in. ``tools``: the names of those that run for real, or all.

    ``model``: the name of another model of the same provider.
    """
    before = await _before_answer(chat, seq)
    agent = await build_agent(factory, Store(chat.log.storage))
    if model:
        agent.model = copy(agent.model)
        agent.model.name = model
    live = set(agent.tools) if tools == "live" else set() if tools == "recorded" else set(tools)
    if unknown := live - set(agent.tools):
        raise ValueError(
            f"there is no tool {', '.join(sorted(unknown))}; there are: {', '.join(agent.tools)}"
        )
    agent.world = _Recorded(await _results(chat, before), agent, live)
    fork = await _fork(chat, before, key)
    return fork, await agent.regenerate(fork)


async def _before_answer(chat: Chat, seq: int) -> int:
    """The seq of what came last before the question of this turn was answered."""
    asked = 0
    async for entry in chat.entries(1, seq):
        match entry.event:
            case MessageAdded(role="user", origin="exec"):
                asked = entry.seq
    if not asked:
        raise NoSuchPoint("no question was asked up to here", chat=chat.key, seq=seq)
    async for entry in chat.entries(asked + 1):
        if isinstance(entry.event, RunStarted | ModelCalled):
            return entry.seq - 1
    return chat.seq


async def _results(chat: Chat, before: int) -> dict[str, list[Outcome]]:
    """What the calls of the original turn gave, by name and arguments."""
    calls: dict[str, list[ToolCalled]] = {}
    found: dict[str, list[Outcome]] = {}
    async for entry in chat.entries(before + 1):
        match entry.event:
            case ToolCalled(call=call) as event:
                calls.setdefault(call, []).append(event)
            case ToolReturned(call=call, parts=parts, failed=failed) if calls.get(call):
                made = calls[call].pop(0)
                found.setdefault(_mark(made.name, made.args), []).append(Outcome(parts, failed))
            case RunFinished():
                break
    return found


async def _fork(chat: Chat, before: int, key: str | None) -> Chat:
    if key is not None:
        return await chat.fork(key, before)
    number = 1
    while True:
        try:
            return await chat.fork(f"{chat.key}-rerun-{number}", before)
        except ChatExists:
            number += 1


class _Recorded(LiveWorld):
    """The tools of the original turn, and the model, which is not asked any more once something was not there."""

    def __init__(self, results: dict[str, list[Outcome]], agent: Agent, live: set[str]) -> None:
        super().__init__(agent)
        self._results = results
        self._skills = {tool.name for files in agent.skills for tool in files.tools}
        self._live = live
        self._missed = ""

    async def use_tool(self, tool: Tool, call: ToolCall) -> Outcome:
        if tool.name in self._live or tool.name in self._skills or any(tool is one for one in _WITHIN):
            return await super().use_tool(tool, call)
        if tool.name == _SEND:
            return Outcome((Data("json", {"success": True}),))
        return self._result(tool.name, call.args)

    def _result(self, name: str, args: Json) -> Outcome:
        """Called again with the same arguments, it gives the last result again."""
        found = self._results.get(_mark(name, args), [])
        if not found:
            self._missed = f"{name} was not called with these arguments in the original turn: {_text(args)}"
            return fail(f"NotRecorded: {self._missed}")
        return found.pop(0) if len(found) > 1 else found[0]

    async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        if self._missed:
            raise ModelFailed(f"{self._missed}; name the tool to have it run for real")
        async for piece in super().ask(payload):
            yield piece


def _mark(name: str, args: Json) -> str:
    return fingerprint({"name": name, "args": args or {}})


def _text(args: Json) -> str:
    return msgspec.json.encode(args, enc_hook=repr).decode()[:200]
