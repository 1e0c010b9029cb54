"""Runs in which the test says what happens when: a model that waits for its answer, a storage that waits before it writes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from chatfold.agent import Agent, Chat, Store
from chatfold.agent.models import ModelReply, Piece, Request, ScriptedModel, ToolSpec, fingerprint
from chatfold.agent.tools import Tool, tool
from chatfold.eventlog import Entry, Event, MemoryStorage, MessageAdded, ModelCalled, Noted, RunFinished, Text
from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.storage import Durability
from chatfold.projections import to_openai
from chatfold.projections.prompt import Message
from chatfold.projections.text import text_of
from tests.support.clock import TickingClock

PATIENCE = 120.0
"""Seconds after which something that should have happened never will: only a test that fails waits for so long."""


class Question(msgspec.Struct):
    """What a model was asked; it waits until it is told what to say."""

    payload: dict[str, Any]
    _answer: "asyncio.Future[ModelReply | str | Exception]"

    def answer(self, said: ModelReply | str | Exception) -> None:
        self._answer.set_result(said)

    @property
    def was_given_up(self) -> bool:
        return self._answer.cancelled()


class Paused(ScriptedModel):
    """Answers when the test says so: ``(await model.asked()).answer("…")``. ``most``: how many it was asked at once."""

    def __init__(self) -> None:
        super().__init__([])
        self._questions: asyncio.Queue[Question] = asyncio.Queue()
        self.now: Counter[str] = Counter()  # questions without an answer, by the chat
        self.most = 0  # in all chats
        self.most_in_one = 0

    async def asked(self) -> Question:
        async with asyncio.timeout(PATIENCE):
            return await self._questions.get()

    @property
    def is_asked(self) -> bool:
        return not self._questions.empty()

    async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        self.payloads.append(payload)
        future: asyncio.Future[ModelReply | str | Exception] = asyncio.get_running_loop().create_future()
        key = key_of(payload)
        self.now[key] += 1
        self.most, self.most_in_one = max(self.most, self.now.total()), max(self.most_in_one, self.now[key])
        self._questions.put_nowait(Question(payload, future))
        try:
            said = await future
        finally:
            self.now[key] -= 1
        if isinstance(said, Exception):
            raise said
        yield ModelReply((Text(said),), stop="stop") if isinstance(said, str) else said


class OpenAIScript(ScriptedModel):
    """A script that is asked in OpenAI's shape."""

    def payload(self, request: Request) -> dict[str, Any]:
        system = Message("system", (), (Text(request.system),))
        return {
            "messages": to_openai((system, *request.messages)),
            "tools": [t.name for t in request.tools],
        }


class Meddled(MemoryStorage):
    """Something else happens right before the append of this number, the first being 1, or before the first of a kind."""

    def __init__(self) -> None:
        super().__init__(clock=TickingClock())
        self.appended = 0
        self.at: int | type[Event] | None = None
        self.do: Callable[[], Awaitable[object]] | None = None

    def before(self, at: int | type[Event], do: Callable[[], Awaitable[object]]) -> None:
        self.at, self.do = at, do

    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:
        self.appended += 1
        kinds = {type(draft.event) for draft in request.events}
        if self.do is not None and (self.at == self.appended or self.at in kinds):
            do, self.do = self.do, None
            await do()
        return await super().append(request, durability)


# --- what was sent ---------------------------------------------------------------------------------------


def key_of(payload: dict[str, Any]) -> str:
    return str(payload["system"]).splitlines()[0].removeprefix("chatKey: ")


def users(payload: dict[str, Any]) -> list[str]:
    """What the user said, as the model was sent it; not what was injected."""
    return [text for role, text in words(payload) if role == "user"]


def words(payload: dict[str, Any]) -> list[tuple[str, str]]:
    """(role, text) of what was said by anybody, in order."""
    told = [(m["role"], m) for m in payload["messages"] if m["kind"] == "said" and m["parts"]]
    return [(role, "\n".join(part.get("text", "") for part in m["parts"])) for role, m in told]


def unlabelled(text: str) -> str:
    """What was injected, without the line that says so."""
    label, _, said = text.partition("\n")
    assert label.startswith("[Added by ")
    assert label.endswith(", not the user's words]")
    return said


def is_whole(payload: dict[str, Any]) -> bool:
    """Is every message with calls followed by one that answers exactly these, and is there no other answer?"""
    messages = payload["messages"]
    pairs = list(zip(messages, [*messages[1:], {"results": (), "role": ""}], strict=True))
    return all(
        [call["seq"] for call in one["calls"]] == [result["call"] for result in after["results"]]
        for one, after in pairs
    ) and not (messages and messages[0]["results"])


async def remade(chat: Chat, model: ScriptedModel) -> list[tuple[str, str]]:
    """Of each request: the fingerprint that was recorded, and that of the request made again from the log alone."""
    entries = [entry async for entry in chat.entries()]
    noted = {entry.key: entry.event.data for entry in entries if isinstance(entry.event, Noted)}
    made = []
    for entry in entries:
        if isinstance(entry.event, ModelCalled):
            params = entry.event.params
            tools = msgspec.convert(noted[f"tools:{params['tools']}"], tuple[ToolSpec, ...])
            then = await chat.at(entry.seq - 1)
            request = Request(noted[f"system:{params['system']}"], await then.messages(), tools)
            made.append((entry.event.request, fingerprint(model.payload(request))))
    return made


async def are_proved(chat: Chat, model: ScriptedModel) -> bool:
    """Can all requests be made again, as many as there were?"""
    made = await remade(chat, model)
    sent = [fingerprint(payload) for payload in model.payloads]
    return bool(made) and [one for one, _ in made] == [other for _, other in made] == sent


# --- what was recorded -----------------------------------------------------------------------------------


async def said(chat: Chat, role: str = "user") -> list[str]:
    return [
        text_of(entry.event.parts)
        async for entry in chat.entries()
        if isinstance(entry.event, MessageAdded) and entry.event.role == role
    ]


async def outcomes(chat: Chat) -> list[str]:
    return [entry.event.outcome async for entry in chat.entries() if isinstance(entry.event, RunFinished)]


def is_empty(made: Agent) -> bool:
    """Is nothing left of what an agent was at?"""
    return not (made._runs or made._later or made.lanes._locks or made.lanes._waiting)


async def until(store: Store, key: str, *kinds: type, times: int = 1) -> Entry:
    """Waits until there are so many entries of these kinds in the log; gives the last of them."""
    async with asyncio.timeout(PATIENCE):
        async for entry in store.log.follow(key):
            times -= isinstance(entry.event, kinds)
            if not times:
                return entry
    raise AssertionError("a log that is followed does not end")


async def until_said(store: Store, key: str, text: str) -> Entry:
    async with asyncio.timeout(PATIENCE):
        async for entry in store.log.follow(key):
            if isinstance(entry.event, MessageAdded) and text_of(entry.event.parts) == text:
                return entry
    raise AssertionError("a log that is followed does not end")


# --- what is done ----------------------------------------------------------------------------------------


def counted(name: str = "act") -> tuple[Tool, list[str]]:
    """A tool that does something, and what it has done."""
    done: list[str] = []

    @tool(name=name)
    async def act(what: str = "") -> str:
        """Acts."""
        done.append(what)
        return f"did {what}"

    return act, done
