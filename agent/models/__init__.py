"""Models: what is asked of one, what it answers, and one that follows a script.

A model is two functions: ``payload``, pure, says exactly what is sent, so that any request can be made again from the log
and proved by its fingerprint; ``ask`` sends it and gives the answer as it comes. Anything with these is a model.

What ``payload`` looks at besides the request, a model may tell as ``payload_settings``, JSON without secrets: they are kept in
the log, once. For the models that are here a request can then be made again without the model: see ``payload_of``.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Literal, Protocol

import msgspec
from xxhash import xxh3_128_hexdigest

from chatfold.agent.masking import mask
from chatfold.agent.messages import ToolCall
from chatfold.eventlog import ChatfoldError, Part, Text
from chatfold.projections import Message


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model is told of it. ``schema``: a JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


class Piece(msgspec.Struct, frozen=True):
    """Some of an answer, as it comes."""

    text: str
    kind: Literal["text", "reasoning"] = "text"


class ModelReply(msgspec.Struct, frozen=True):
    """All of an answer: the last thing that a model's ``ask`` yields.

    ``parts``: what it said and thought. ``calls``: the tools it wants. ``usage``: counts as the provider names them. ``stop``: why
    it stopped, in the provider's word.
    """

    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    usage: dict[str, int] = {}
    stop: str = ""


class Model(Protocol):
    name: str
    provider: str

    def payload(self, request: Request) -> dict[str, Any]:
        """What is sent, as JSON. Looks at nothing but the request and how the model was set up."""

    def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        """Raises ``ModelFailed``; any other exception is a bug."""


class ModelFailed(ChatfoldError):
    """A provider refused a request, or did not answer it whole.

    ``again``: it may work the next time. ``after``: so many seconds later, if the provider said how many.
    """

    def __init__(self, message: str, *, again: bool = False, after: float | None = None) -> None:
        self.again = again
        self.after = after
        super().__init__(message)


def fingerprint(payload: dict[str, Any]) -> str:
    """Of a request. Equal payloads have equal ones, in whatever order their keys are."""
    try:
        written = msgspec.json.encode(payload, order="deterministic")
    except UnicodeEncodeError:  # half a character somewhere
        written = json.dumps(payload, sort_keys=True).encode()
    return xxh3_128_hexdigest(written)


HIDDEN = "(hidden)"
"""In the settings, in the place of what may be secret: then only the model itself can make the request again."""

_SECRET = ("extra_headers", "extra_query")


def settings_of(model: Model) -> dict[str, Any]:
    """As they are kept: what a model tells of itself, without what may hold a key or looks like one."""
    told: dict[str, Any] = getattr(model, "payload_settings", {})
    return {
        name: HIDDEN if name in _SECRET or _looks_secret(value) else value for name, value in told.items()
    }


def _looks_secret(value: Any) -> bool:
    written = json.dumps(value, default=repr, ensure_ascii=False)
    return mask(written) != written


def payload_of(model: Model) -> str:
    """Which code makes the payload: the name of the function, so that it is never taken for another's."""
    made = type(model).payload
    return f"{made.__module__}.{made.__qualname__}"


Line = ModelReply | str | Exception | Callable[[dict[str, Any]], "ModelReply | str | Exception"]


def scripted_payload(request: Request) -> dict[str, Any]:
    """The request as it is, but for what only a provider's shape looks at."""
    payload: dict[str, Any] = msgspec.to_builtins(request)
    for message in payload["messages"]:
        for value in (message, *message["calls"], *message["results"]):
            value.pop("meta", None)
    return payload


class ScriptedModel:
    """Says what the script says, line by line: for tests, documents, and work without a network.

    A line is an answer, a text, an exception to raise, or a function from the payload to one of these. It is over
    when there is no line left; ``payloads`` has what was asked.
    """

    provider = "scripted"
    can_summarise = False

    def __init__(self, script: Iterable[Line], *, name: str = "scripted", delay: float = 0.0) -> None:
        self.name = name
        self.payloads: list[dict[str, Any]] = []
        self._script = iter(script)
        self._delay = delay

    def __repr__(self) -> str:
        return f"ScriptedModel({self.name!r}, asked {len(self.payloads)} times)"

    def payload(self, request: Request) -> dict[str, Any]:
        """The request as it is."""
        return scripted_payload(request)

    async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        """The next line of the script, its texts as pieces first. Raises it if it is an exception."""
        self.payloads.append(payload)
        line = next(self._script, ModelFailed("the script is over"))
        said = line(payload) if callable(line) else line
        await asyncio.sleep(self._delay)
        if isinstance(said, Exception):
            raise said
        answer = ModelReply((Text(said),), stop="stop") if isinstance(said, str) else said
        for part in answer.parts:
            if isinstance(part, Text):
                yield Piece(part.text)
        yield answer
