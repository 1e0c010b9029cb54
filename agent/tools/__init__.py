"""Tools: functions that a model may call. The schema of the arguments is made from the signature.

    @tool
    async def read_file(path: str, most: int = 10_000) -> str:
        \"\"\"The beginning of a file.\"\"\"

What a tool returns is its result: a text, parts, or anything JSON. What it raises is a result that failed; so are
arguments that do not fit, a time-out, and an object that says ``success: false``. Nothing a tool does ends the run.
"""

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload

import msgspec

from chatfold.agent.checks import check
from chatfold.agent.messages import ToolCall, result_parts
from chatfold.agent.models import ToolSpec
from chatfold.agent.threads import in_thread
from chatfold.eventlog import InvalidEvent, Json, Part, Text, ToolReturned
from chatfold.eventlog.codec import encode_event
from chatfold.eventlog.values import make_converter

AfterCrash: TypeAlias = (
    Literal["again", "interrupted"] | Callable[[ToolCall], Awaitable[Literal["again", "interrupted"]]]
)
"""What becomes of a call whose result a crash has taken: run again, answered as interrupted, or as a function decides."""

P = ParamSpec("P")
R = TypeVar("R")


class BadArguments(ValueError):
    """The model gave arguments that the tool does not take."""


class Outcome(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]
    failed: bool = False


@dataclass(frozen=True)
class Tool:
    """What a model may call. ``tool`` makes one of a function.

    ``schema``: a JSON schema of the arguments. ``call``: from the arguments, as the model gave them, to what the tool returns, or an ``Outcome``.

    ``timeout``: in seconds; None: the agent's.
    """

    name: str
    description: str
    schema: dict[str, Any] = field(repr=False)
    call: Callable[[Any], Awaitable[Any]] = field(repr=False)
    after_crash: AfterCrash = "interrupted"
    timeout: float | None = None

    @property
    def spec(self) -> ToolSpec:
        """What the model is told of it."""
        return ToolSpec(self.name, self.description, self.schema)


@dataclass(frozen=True)
class FunctionTool(Tool, Generic[P, R]):
    """A tool that was made of a function, and can be called as the function can."""

    function: Callable[P, R] = field(kw_only=True, repr=False)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    after_crash: AfterCrash = "interrupted",
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    after_crash: AfterCrash = "interrupted",
    timeout: float | None = None,
) -> Any:
    """Makes a tool of a function, sync or async; it stays callable. A sync one runs on a thread of its own.

        @tool(after_crash="again", timeout=10)
        def read_file(path: str, most: int = 10_000) -> str:
            \"\"\"The beginning of a file.\"\"\"

    ``name``, ``description``: what the model is told; the function's without them. ``after_crash``: what becomes of a call that
    was made when the process ended. ``timeout``: seconds. TypeError if a parameter has no schema.
    """

    def make(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        check("tool", function, callable, expected="a function")
        given = name or function.__name__
        arguments = _arguments(given, function)
        convert = make_converter(arguments, strict=False)
        told = description if description is not None else inspect.getdoc(function) or ""

        async def call(args: Json) -> Any:
            try:
                values = convert({} if args is None else args)
            except msgspec.ValidationError as error:
                raise BadArguments(str(error)) from None
            fields = {field: getattr(values, field) for field in arguments.__struct_fields__}
            if inspect.iscoroutinefunction(function):
                return await function(**fields)
            return await in_thread(given, function, **fields)

        schema = _schema(arguments)
        return FunctionTool(given, told, schema, call, after_crash, timeout, function=function)

    return make(function) if function is not None else make


def _arguments(name: str, function: Callable[..., Any]) -> type[msgspec.Struct]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"tool {name}: *{parameter.name} has no schema; name the parameters")
        hint = hints.get(parameter.name, str)
        default = () if parameter.default is parameter.empty else (parameter.default,)
        fields.append((parameter.name, hint, *default))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


def _schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Of the object itself; types it refers to are under ``$defs``."""
    [reference], components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema = dict(components.pop(reference["$ref"].rpartition("/")[2]))
    schema.pop("title", None)
    return {**schema, "$defs": components} if components else schema


async def use_tool(tool: Tool, args: Json, *, seconds: float) -> Outcome:
    """What came of a call, within so many seconds."""
    seconds = tool.timeout or seconds
    try:
        async with asyncio.timeout(seconds) as limit:
            value = await tool.call(args)
        return _keep(value)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return fail("CancelledError: the tool was cancelled from within")
    except Exception as error:  # noqa: BLE001 (a tool's, whatever it is, and told as its result)
        if limit.expired():
            return fail(f"TimeoutError: no result within {seconds:g} s")
        return fail(f"{type(error).__name__}: {error}")


def _keep(value: Any) -> Outcome:
    """What a tool returned, as a log can hold it; raises if none can."""
    if isinstance(value, Outcome):
        outcome = value
    else:
        try:
            parts = result_parts(value)
        except InvalidEvent:
            parts = (Text(repr(value)),)
        outcome = Outcome(parts, failed=isinstance(value, dict) and value.get("success") is False)
    encode_event(ToolReturned("", outcome.parts))
    return outcome


def fail(text: str) -> Outcome:
    return Outcome((Text(text),), failed=True)


def by_name(tools: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    """Tools by their names; a plain function becomes one."""
    found: dict[str, Tool] = {}
    for given in tools:
        if not isinstance(given, Tool) and not callable(given):
            raise TypeError(f"tools: expected a function or a Tool, got {given!r}")
        one = given if isinstance(given, Tool) else tool(given)
        if one.name in found:
            raise ValueError(f"two tools are called {one.name!r}")
        found[one.name] = one
    return found
