"""A model of one async function, for any library or server that answers a list of messages."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from msgspec.structs import replace

from chatfold.agent.checks import check
from chatfold.agent.messages import Given, ToolCall, events_of
from chatfold.agent.models import ModelReply, Piece, Request
from chatfold.agent.models.common import real_names
from chatfold.agent.models.openai import openai_payload
from chatfold.eventlog import InvalidEvent, MessageAdded, Part, Text, ToolCalled

Reply: TypeAlias = str | ModelReply | Given


def model_from(function: Callable[..., Awaitable[Reply]], *, name: str = "") -> "FunctionModel":
    """Makes a model of a function from OpenAI-shaped messages, and the tools if it takes two arguments, to a reply.

        async def answer(messages, tools):
            return (await client.chat.completions.create(model=m, messages=messages, tools=tools)).choices[0].message

        Agent(model_from(answer))

    The reply is a text, a provider's message, as a dict or as its SDK's object, or a ``ModelReply``. What the function raises ends
    the run, but a refusal of a prompt that is too long, in whatever words, makes the run compact and ask again.
    """
    check("model_from", function, callable, expected="an async function")
    return FunctionModel(function, name or getattr(function, "__name__", "function"))


class FunctionModel:
    provider = "function"

    def __init__(self, function: Callable[..., Awaitable[Reply]], name: str) -> None:
        self.name = name
        self._function = function
        self._takes_tools = len(inspect.signature(function).parameters) > 1

    def __repr__(self) -> str:
        return f"model_from({self.name})"

    def payload(self, request: Request) -> dict[str, Any]:
        shape = openai_payload(request, self.name, {})
        return {name: shape[name] for name in ("messages", "tools") if name in shape}

    async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        messages = payload["messages"]
        given = (messages, payload.get("tools", [])) if self._takes_tools else (messages,)
        answer = self._function(*given)
        check("model_from", answer, Awaitable, expected="an async function, which gives something to await")
        names = real_names((tool["function"] for tool in payload.get("tools", ())), "parameters")
        reply = _reply(await answer)
        calls = tuple(replace(call, name=names.get(call.name, call.name)) for call in reply.calls)
        yield replace(reply, calls=calls)


def _reply(said: Reply) -> ModelReply:
    if isinstance(said, ModelReply):
        return said
    if isinstance(said, str):
        return ModelReply((Text(said),), stop="stop")
    parts: tuple[Part, ...] = ()
    calls: list[ToolCall] = []
    for event in events_of([said]):
        match event:
            case MessageAdded(role="assistant", parts=words):
                parts += words
            case ToolCalled(call=call, name=name, args=args):
                calls.append(ToolCall(call, name, args))
            case _:
                raise InvalidEvent(f"a model's reply is an assistant's message, not {type(event).__name__}")
    return ModelReply(parts, tuple(calls), stop="tool_calls" if calls else "stop")
