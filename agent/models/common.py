"""What the adapters of providers' packages share: the client, streaming, tools by names that are accepted, and arguments.

- A tool is offered under the name that its calls have in the history, see ``tool_name``. If that is not its own, the
  ``title`` of its schema is, and no schema has any other title: so ``real_names`` can be told from a payload alone.
- Arguments are decoded. If they are not JSON that a log can hold, they stay the string that they are.
"""

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from chatfold.agent.messages import ToolCall, new_id
from chatfold.agent.models import ModelReply, Piece, ToolSpec
from chatfold.agent.models.errors import cut_short, translate_errors
from chatfold.eventlog import Json, Part
from chatfold.projections.shapes.parse import arguments_of
from chatfold.projections.shapes.values import replace_surrogates, to_json_value, tool_name

GO_ON = "(Go on with what is still open.)"
"""What the user says where a provider wants them to speak last, and they did not."""

_OURS = frozenset({"model", "messages", "system", "tools", "stream"})
_OF_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})


def package(name: str) -> Any:
    """The provider's package, which is an extra of the same name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(f"the package {name!r} is missing: pip install 'chatfold[{name}]'") from error


class Heard(Protocol):
    """An answer, as far as it has come."""

    usage: dict[str, int]
    stop: str

    def take(self, event: Any) -> Iterator[Piece]:
        """What this event of the stream adds."""

    def parts(self, provider: str, model: str) -> tuple[Part, ...]:
        """All that was said and thought."""

    def calls(self, names: Mapping[str, str]) -> tuple[ToolCall, ...]:
        """All calls, each with an id of its own. ``names``: what the tools are really called."""


class SdkModel:
    """A model that a provider's package asks. The package's own retries are off, since those of a run are events."""

    provider: str
    payload_settings: dict[str, Any]

    def __init__(
        self,
        name: str,
        client_class: str,
        *,
        client: Any,
        base_url: str | None,
        api_key: str | None,
        timeout: float | None,
    ) -> None:
        sdk = package(self.provider)
        options: dict[str, Any] = {"max_retries": 0} | ({} if timeout is None else {"timeout": timeout})
        self.name = name
        self._is_ours = client is None
        if client is None:
            self._client = getattr(sdk, client_class)(base_url=base_url, api_key=api_key, **options)
        else:
            self._client = client.with_options(**options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def aclose(self) -> None:
        """Closes the client, unless it is yours."""
        if self._is_ours:
            await self._client.close()

    async def _stream(
        self,
        create: Callable[..., Awaitable[Any]],
        payload: dict[str, Any],
        heard: Heard,
        names: Mapping[str, str],
    ) -> AsyncIterator[Piece | ModelReply]:
        """A stream that ends without a reason to stop has failed."""
        with translate_errors(TypeError):  # of a parameter that ``create`` does not know, or of a missing key
            stream = await create(**payload)
        with translate_errors():
            async with stream:
                async for event in stream:
                    for piece in heard.take(event):
                        yield piece
        if not heard.stop:
            raise cut_short()
        parts = heard.parts(self.provider, self.name)
        yield ModelReply(parts, heard.calls(names), heard.usage, heard.stop)


def params_of(given: dict[str, Any]) -> dict[str, Any]:
    """What an embedder wants sent with every request; TypeError if that cannot be."""
    if taken := _OURS & given.keys():
        raise TypeError(f"{', '.join(sorted(taken))}: told by the request, not by the model's parameters")
    msgspec.json.encode(given)
    return given


def add_params(payload: dict[str, Any], params: dict[str, Any], *, tools: bool) -> dict[str, Any]:
    """The payload with the parameters, which win; None leaves one out. How to use tools is said if there are any."""
    given = {name: to_json_value(value) for name, value in params.items() if tools or name not in _OF_TOOLS}
    return {name: value for name, value in (payload | given).items() if value is not None}


def first_text(given: Any, *names: str) -> str:
    """The first of these attributes that has a text. Servers leave out what they like, and write null."""
    found = (getattr(given, name, None) for name in names)
    return next((text for text in found if isinstance(text, str) and text), "")


# --- tools -----------------------------------------------------------------------------------------------


def offer_tools(tools: Iterable[ToolSpec], schema: str) -> Iterator[dict[str, Any]]:
    """Each tool with a name that is accepted and that no other has. ``schema``: what the provider calls that."""
    taken: set[str] = set()
    for tool in tools:
        name, others = tool_name(tool.name), 1
        while name in taken:
            others += 1
            name = tool_name(f"{tool.name} {others}")
        taken.add(name)
        told = {"description": replace_surrogates(tool.description)} if tool.description.strip() else {}
        yield {"name": name, **told, schema: _schema(tool, name)}


def _schema(tool: ToolSpec, name: str) -> dict[str, Any]:
    """Of an object, as providers want it, even if there is nothing in it."""
    given: dict[str, Any] = to_json_value(tool.schema)
    given.pop("title", None)
    properties = given.get("properties")
    given |= {"type": "object", "properties": properties if isinstance(properties, dict) else {}}
    return given if name == tool.name else {"title": replace_surrogates(tool.name), **given}


def real_names(offered: Iterable[Mapping[str, Any]], schema: str) -> dict[str, str]:
    """By the names under which the tools were offered."""
    return {tool["name"]: tool[schema].get("title", tool["name"]) for tool in offered}


# --- calls -----------------------------------------------------------------------------------------------


def decode_args(written: str) -> Json:
    """A call's arguments."""
    return arguments_of(written) if written.strip() else {}


def claim_id(id: str, taken: set[str]) -> str:
    """The id of a call, or a new one if there is none or another call of the answer has it; it is taken then."""
    if not id or id in taken:
        id = new_id("call")  # noqa: A001
    taken.add(id)
    return id


def keep_counts(given: Mapping[str, object]) -> dict[str, int]:
    """The non-negative ints of them: providers send null for what they do not know."""
    return {name: value for name, value in given.items() if type(value) is int and value >= 0}
