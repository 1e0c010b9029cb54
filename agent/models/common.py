"""What the adapters of providers' packages share: tools by names that are accepted, arguments, failures.

- A tool is offered under the name that its calls have in the history, see ``tool_name``. If that is not its own, the
  ``title`` of its schema is, and no schema has any other title: so ``real_names`` can be told from a payload alone.
- Arguments are decoded. If they are not JSON that a log can hold, they stay the string that they are.
- What a package raises is told as ``ModelFailed``, raised from it: ``again`` if trying once more may help, ``after``
  so many seconds as the provider asked for. What nobody foresaw is not a failure of the model but a bug, and passes.
"""

import importlib
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from chatfold.agent.messages import new_id
from chatfold.agent.models import ModelFailed, ToolSpec
from chatfold.eventlog import Json
from chatfold.projections.shapes.parse import arguments_of
from chatfold.projections.shapes.values import clean, plain, tool_name
from chatfold.projections.text import clipped

GO_ON = "(Go on with what is still open.)"
"""What the user says where a provider wants them to speak last, and they did not."""

_OURS = frozenset({"model", "messages", "system", "tools", "stream"})
_OF_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})
_PACKAGES = frozenset({"openai", "anthropic"})
_TRANSPORTS = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "anyio"})
_FINAL = frozenset(  # what an error that came in the middle of an answer calls itself, if it would come again
    {
        *("invalid_request_error", "authentication_error", "permission_error", "not_found_error"),
        *("billing_error", "request_too_large", "insufficient_quota", "context_length_exceeded"),
        *("invalid_api_key", "content_policy_violation", "content_filter"),
    }
)
_MOST = 2_000  # characters of an error: a proxy's may be a page of HTML


def package(name: str) -> Any:
    """The provider's package, which is an extra of the same name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(f"the package {name!r} is missing: pip install 'chatfold[{name}]'") from error


def params_of(given: dict[str, Any]) -> dict[str, Any]:
    """What an embedder wants sent with every request; TypeError if that cannot be."""
    if taken := _OURS & given.keys():
        raise TypeError(f"{', '.join(sorted(taken))}: told by the request, not by the model's parameters")
    msgspec.json.encode(given)
    return given


def sent(payload: dict[str, Any], params: dict[str, Any], *, tools: bool) -> dict[str, Any]:
    """The payload with the parameters, which win; None leaves one out. How to use tools is said if there are any."""
    given = {name: plain(value) for name, value in params.items() if tools or name not in _OF_TOOLS}
    return {name: value for name, value in (payload | given).items() if value is not None}


def said(given: Any, *names: str) -> str:
    """The first of these attributes that has a text. Servers leave out what they like, and write null."""
    found = (getattr(given, name, None) for name in names)
    return next((text for text in found if isinstance(text, str) and text), "")


# --- tools -----------------------------------------------------------------------------------------------


def offers(tools: Iterable[ToolSpec], schema: str) -> Iterator[dict[str, Any]]:
    """Each tool with a name that is accepted and that no other has. ``schema``: what the provider calls that."""
    taken: set[str] = set()
    for tool in tools:
        name, others = tool_name(tool.name), 1
        while name in taken:
            others += 1
            name = tool_name(f"{tool.name} {others}")
        taken.add(name)
        told = {"description": clean(tool.description)} if tool.description.strip() else {}
        yield {"name": name, **told, schema: _schema(tool, name)}


def _schema(tool: ToolSpec, name: str) -> dict[str, Any]:
    """Of an object, as providers want it, even if there is nothing in it."""
    given: dict[str, Any] = plain(tool.schema)
    given.pop("title", None)
    properties = given.get("properties")
    given |= {"type": "object", "properties": properties if isinstance(properties, dict) else {}}
    return given if name == tool.name else {"title": clean(tool.name), **given}


def real_names(offered: Iterable[Mapping[str, Any]], schema: str) -> dict[str, str]:
    """By the names under which the tools were offered."""
    return {tool["name"]: tool[schema].get("title", tool["name"]) for tool in offered}


# --- calls -----------------------------------------------------------------------------------------------


def decoded(written: str) -> Json:
    """A call's arguments."""
    return arguments_of(written) if written.strip() else {}


def unused(id: str, taken: set[str]) -> str:
    """The id of a call, or a new one if there is none or another call of the answer has it; it is taken then."""
    if not id or id in taken:
        id = new_id("call")  # noqa: A001
    taken.add(id)
    return id


def counts(given: Mapping[str, object]) -> dict[str, int]:
    """Those of the counts that are."""
    return {name: value for name, value in given.items() if type(value) is int and value >= 0}


# --- failures --------------------------------------------------------------------------------------------


@contextmanager
def failures(*more: type[Exception]) -> Iterator[None]:
    """Tells what is raised inside. ``more``: what else is not a bug here, but would be the same again."""
    try:
        yield
    except ModelFailed:
        raise
    except more as error:
        raise ModelFailed(_text(error)) from error
    except Exception as error:
        where = type(error).__module__.partition(".")[0]
        if where in _PACKAGES:
            raise _refused(error) from error
        if where in _TRANSPORTS or isinstance(error, OSError | ValueError):  # cut off, or garbled
            raise ModelFailed(_text(error), again=True) from error
        raise


def cut_short() -> ModelFailed:
    return ModelFailed("the model's answer ended before it was complete", again=True)


def _refused(error: Exception) -> ModelFailed:
    """What a package made of an error: with a status, without one if it came in the middle of an answer or by no answer."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    status, kinds = getattr(error, "status_code", 0), _kinds(getattr(error, "body", None))
    if status < 400:
        status = next((int(kind) for kind in kinds if kind.isdecimal()), 0)
    if not hasattr(error, "body"):  # about how the package was set up
        again = False
    elif status < 400:
        again = not kinds & _FINAL
    elif "insufficient_quota" in kinds:
        again = False
    elif (told := headers.get("x-should-retry")) in ("true", "false"):
        again = told == "true"
    else:
        again = status in (408, 409, 429) or status >= 500
    text = f"the request is too large: {_text(error)}" if status == 413 else _text(error)
    return ModelFailed(text, again=again, after=_after(headers) if again else None)


def _text(error: Exception) -> str:
    """What it says, and what it came from, which for a lost connection is all there is to know."""
    cause = str(error.__cause__ or "")
    more = f" ({cause})" if cause and cause not in str(error) else ""
    return clipped(f"{type(error).__name__}: {error}{more}", _MOST)


def _kinds(body: object) -> set[str]:
    """What an error calls itself: its type and its code."""
    match body:
        case {"error": {**inner}} | {**inner}:
            return {str(inner[name]) for name in ("type", "code") if inner.get(name) is not None}
    return set()


def _after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait, as the provider says: milliseconds, seconds or a date."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, then.timestamp() - time.time())
