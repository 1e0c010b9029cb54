"""from_anthropic_messages: ``messages`` and ``system`` of Anthropic's Messages API as the events to append.

    await log.append("chat-42", *from_anthropic_messages(request["messages"], request.get("system"), model=request["model"]))

- ``anthropic`` of the events, for the same model, gives the same request again, if it was ``anthropic`` that made it.
  Of others it gives what it would have written.
- Nothing is lost: a block of a type that events have no word for, or that is not in its place, is kept as
  ``Data("anthropic")``, which is not sent but in a result. Fields they have no place for (``cache_control``, …) are
  under ``anthropic`` in their meta: those of the ``message`` at its first event, those of its ``parts`` by index,
  those of a ``call`` and of a ``result``.
- Every block of ``system`` is a message, and comes first. Thoughts are those of ``model``.
- Of a turn of the assistant all that was said comes before all calls: so it is sent. In a turn of the user, results
  and words keep their order.
- Results are paired with calls by ``prompt``, in order; one without a call is kept and not shown.
- What is not a list of messages is refused with a ``ValueError`` that says where and why; nothing is half converted.

What this shape does not tell is lost. What ``anthropic`` had the user say ("[system] …", "(The conversation begins
here.)") was said by the user; a call that was answered as interrupted has that answer as its result; a summary, or
what was injected, was said. An address tells the type of an image by its ending; without one it is taken for a PNG.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from chatfold.eventlog import Event, File, MessageAdded, Reasoning, Role, Text, ToolCalled, ToolReturned
from chatfold.projections.reading import (
    Given,
    Read,
    Said,
    content,
    decoded,
    each,
    headed,
    image,
    meta_of,
    parts_of,
    rest,
    stepped,
    string,
    unknown,
    wrong,
)


def from_anthropic_messages(
    messages: Iterable[Mapping[str, Any]],
    system: str | Iterable[Mapping[str, Any]] | None = None,
    *,
    model: str = "",
    provider: str = "anthropic",
) -> list[Event]:
    """``model`` and ``provider``: whose thoughts these are, as in ``anthropic``."""
    first = [] if system is None else content(system, "system", _block)
    events: list[Event] = [_said("system", [read]) for read in first]
    whose = Reasoning("", provider, model)
    turns = each(messages, "messages", lambda message: _message(message, whose), "a list of messages")
    return [*events, *stepped(turns)]


def _message(message: Given, whose: Reasoning) -> list[Event]:
    match message.get("role"):
        case "assistant":
            events = _assistant(message, whose)
        case "user":
            events = _user(message)
        case "system":  # which newer models take
            events = [_said("system", content(message.get("content"), ".content", _block))]
        case role:
            raise wrong(".role", "'user', 'assistant' or 'system'", role)
    return headed(events, "anthropic", rest(message, "role", "content"))


def _assistant(message: Given, whose: Reasoning) -> list[Said]:
    blocks = content(message.get("content"), ".content", lambda block: _spoken(block, whose))
    calls = [block for block in blocks if isinstance(block, ToolCalled)]
    read = [block for block in blocks if not isinstance(block, ToolCalled)]
    return [_said("assistant", read), *calls] if read or not calls else [*calls]


def _user(message: Given) -> list[Said]:
    events: list[Said] = []
    words: list[Read] = []
    for block in content(message.get("content"), ".content", _given):
        if not isinstance(block, ToolReturned):
            words.append(block)
            continue
        if words:
            events.append(_said("user", words))
            words = []
        events.append(block)
    if words or not events:
        events.append(_said("user", words))
    return events


def _said(role: Role, read: list[Read]) -> MessageAdded:
    parts, more = parts_of(read)
    return MessageAdded(role, parts, meta=meta_of("anthropic", parts=more))


# --- blocks ----------------------------------------------------------------------------------------------


def _spoken(block: Given, whose: Reasoning) -> Read | ToolCalled:
    """A block of the assistant."""
    match block.get("type"):
        case "thinking":
            signature = string(block, "signature") if block.get("signature") is not None else ""
            thought = replace(whose, text=string(block, "thinking"), signature=signature)
            return thought, rest(block, "type", "thinking", "signature")
        case "redacted_thinking":
            hidden = replace(whose, signature=string(block, "data"), redacted=True)
            return hidden, rest(block, "type", "data")
        case "tool_use":
            more = rest(block, "type", "id", "name", "input")
            name, meta = string(block, "name"), meta_of("anthropic", call=more)
            return ToolCalled(string(block, "id"), name, block.get("input"), meta)
    return _block(block)


def _given(block: Given) -> Read | ToolReturned:
    """A block of the user."""
    if block.get("type") != "tool_result":
        return _block(block)
    told, failed = block.get("content"), block.get("is_error")
    if not isinstance(failed, bool | None):
        raise wrong(".is_error", "true or false", failed)
    parts, more = parts_of(content(told, ".content", _block) if told is not None else [])
    meta = meta_of("anthropic", result=rest(block, "type", "tool_use_id", "content", "is_error"), parts=more)
    return ToolReturned(string(block, "tool_use_id"), parts, failed is True, meta)


def _block(block: Given) -> Read:
    match string(block, "type"):
        case "text":
            return Text(string(block, "text")), rest(block, "type", "text")
        case "image" | "document" as kind:
            if file := _file(block, kind):
                return file, rest(block, "type", "title", source=("type", "media_type", "data", "url"))
    return unknown("anthropic", block)


def _file(block: Given, kind: str) -> File | None:
    """None: it is named by an id, made of blocks, or its bytes cannot be read."""
    name = string(block, "title") if block.get("title") is not None else ""
    match string(block, "source", "type"):
        case "base64":
            data = decoded(string(block, "source", "data"))
            return File(string(block, "source", "media_type"), data, name) if data else None
        case "url":
            url = string(block, "source", "url")
            return replace(image(url) if kind == "image" else File("application/pdf", url=url), name=name)
        case "text":
            data = string(block, "source", "data").encode("utf-8", "surrogatepass")
            return File(string(block, "source", "media_type"), data, name)
    return None
