"""Items of the Responses API as events, and back, each exactly: what a session of the OpenAI Agents SDK keeps.

- A message is a message, a call a call, an output a result; what has no word is ``Noted``. An item is one event, but for a call that the
  provider answered itself: its result follows it, and is none.
- The event says the item as far as it can. What is left, ids and states and what nobody here knows, is in its meta under
  ``openai_agents``; it never repeats what the event says. Erasing the event erases both.
- ``item_of`` of the first of ``events_of(item)`` is the item again, whatever JSON it is.
- An event that somebody else recorded is given as the item that says it.
"""

import json
from typing import Any, TypeAlias

import msgspec

from chatfold.eventlog import (
    Data,
    Event,
    File,
    MessageAdded,
    Noted,
    Part,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.values import InvalidValue, check_json
from chatfold.projections.shapes.parse import image
from chatfold.projections.shapes.values import data_url

Item: TypeAlias = dict[str, Any]

OWN = "openai_agents"
_ROLES = ("user", "assistant", "system", "developer")
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_NOTHING = object()


# --- item -> event ---------------------------------------------------------------------------------------


def events_of(item: Item) -> tuple[Event, ...]:
    """The item must be JSON: ``plain`` makes it so."""
    event, kept = _said(item)
    if type(event) is Noted:
        return (event,)
    own = dict(kept)
    base = _base(event, own)
    if more := {name: value for name, value in item.items() if base.get(name, _NOTHING) != value}:
        own["item"] = more
    if without := [name for name in base if name not in item]:
        own["without"] = without
    event = msgspec.structs.replace(event, meta={OWN: own}) if own else event
    if type(event) is ToolCalled and own.get("by") == "id":
        has_failed = item.get("status") == "failed" or bool(item.get("error"))
        return event, ToolReturned(event.call, (), has_failed, {OWN: {"of_call": True}})
    return (event,)


def plain(item: Any) -> Any:
    """A copy of what JSON keeps of it."""
    return json.loads(json.dumps(item))


def _said(item: Item) -> tuple[Any, Item]:
    """The event, without its meta, and how it says the item."""
    match item:
        case {"role": str(role), "content": str(text), "type": "message"} | {
            "role": str(role),
            "content": str(text),
        } if role in _ROLES and item.get("type", "message") == "message":
            return MessageAdded(role, (Text(text),)), {}  # type: ignore[arg-type]
        case {"role": str(role), "content": list(content)} if (
            role in _ROLES and item.get("type", "message") == "message" and _are_parts(content)
        ):
            parts, left = _parts(content)
            return MessageAdded(role, parts), {"parts": left}  # type: ignore[arg-type]
        case {"type": "reasoning", "id": str(id)}:
            summary, signature = item.get("summary"), item.get("encrypted_content")
            said = [str(part.get("text") or "") for part in summary or ()] if _are_parts(summary) else []
            text = "\n\n".join(said)
            thought = Reasoning(
                text, "openai", signature=signature if isinstance(signature, str) else "", id=id
            )
            return MessageAdded("assistant", (thought,)), {}
        case {"type": "function_call", "call_id": str(call), "name": str(name), "arguments": str(arguments)}:
            return ToolCalled(call, name, _decoded(arguments)), {}
        case {"type": "custom_tool_call", "call_id": str(call), "name": str(name), "input": str(text)}:
            return ToolCalled(call, name, text), {"kind": "custom_tool_call"}
        case {"type": str(kind)} if kind.endswith("_call_output") and isinstance(
            item.get("call_id", item.get("id")), str
        ):
            return _returned(item, kind)
        case {"type": str(kind)} if kind.endswith("_call") and isinstance(
            item.get("call_id", item.get("id")), str
        ):
            by = "call_id" if "call_id" in item else "id"
            args = {name: value for name, value in item.items() if name not in ("type", by)}
            return ToolCalled(item[by], kind.removesuffix("_call"), args), {"kind": kind, "by": by}
    return Noted(OWN, item), {}


def _returned(item: Item, kind: str) -> tuple[ToolReturned, Item]:
    by = "call_id" if "call_id" in item else "id"
    own: Item = {} if (kind, by) == ("function_call_output", "call_id") else {"kind": kind, "by": by}
    match item.get("output"):
        case str(text):
            return ToolReturned(item[by], (Text(text),)), own
        case list(content) if _are_parts(content):
            parts, left = _parts(content)
            return ToolReturned(item[by], parts), {**own, "parts": left}
        case None:
            return ToolReturned(item[by]), own
        case output:
            return ToolReturned(item[by], (Data("output", output),)), own


def _are_parts(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(part, dict) for part in content)


def _parts(content: list[Item]) -> tuple[tuple[Part, ...], list[Item]]:
    """The parts, and of each what it does not say."""
    parts: list[Part] = []
    left: list[Item] = []
    for one in content:
        kind, said = one.get("type"), ""
        part: Part | None = None
        if isinstance(kind, str) and isinstance(one.get(_TEXTS.get(kind, "")), str):
            said = _TEXTS[kind]
            part = Text(one[said])
        elif kind == "input_image" and isinstance(url := one.get("image_url"), str):
            file = image(url)
            if _url(file) == url:
                part, said = file, "image_url"
        parts.append(Data("openai_responses", one) if part is None else part)
        left.append({} if part is None else {name: value for name, value in one.items() if name != said})
    return tuple(parts), left


def _decoded(arguments: str) -> Any:
    """The arguments, if they are JSON that an event may hold; else the string itself."""
    try:
        value = json.loads(arguments)
        check_json(value, [])
    except (ValueError, RecursionError, InvalidValue):
        return arguments
    return value


# --- event -> item ---------------------------------------------------------------------------------------


def is_item(event: Event) -> bool:
    match event:
        case MessageAdded(origin=origin):
            return origin != "audit"
        case ToolReturned(meta={"openai_agents": {"of_call": True}}):
            return False
        case Noted(name=name, data=data):
            return name == OWN and data is not None
    return isinstance(event, ToolCalled | ToolReturned)


def item_of(event: Any) -> Item:
    """Of an event that ``is_item``."""
    if type(event) is MessageAdded and not event.meta and len(event.parts) == 1:  # nearly all
        part = event.parts[0]
        if type(part) is Text:
            return {"role": event.role, "content": part.text}
    if type(event) is Noted:
        return dict(_copy(event.data))
    own = event.meta.get(OWN)
    own = own if isinstance(own, dict) else {}
    item = _base(event, own)
    if own:
        item |= _copy(own.get("item") or {})
        for name in own.get("without") or ():
            item.pop(name, None)
    return item


def _base(event: Any, own: Item) -> Item:
    """The item, as far as the event says it."""
    match event:
        case MessageAdded(parts=(Reasoning() as thought,)) if event.role == "assistant":
            summary = [{"type": "summary_text", "text": thought.text}] if thought.text else []
            item: Item = {"type": "reasoning", "id": thought.id, "summary": summary}
            return item | ({"encrypted_content": thought.signature} if thought.signature else {})
        case MessageAdded(role=role, parts=(Text(text=text),)) if "parts" not in own:
            return {"role": role, "content": text}
        case MessageAdded(role=role, parts=parts):
            return {
                "role": role,
                "content": _content(parts, own, "output" if role == "assistant" else "input"),
            }
        case ToolCalled(call=call, name=name, args=args):
            match own.get("kind"):
                case None:
                    return {
                        "type": "function_call",
                        "call_id": call,
                        "name": name,
                        "arguments": _encoded(args),
                    }
                case "custom_tool_call":
                    return {"type": "custom_tool_call", "call_id": call, "name": name, "input": args}
                case kind:
                    return {
                        **(_copy(args) if isinstance(args, dict) else {}),
                        "type": kind,
                        own.get("by", "call_id"): call,
                    }
        case ToolReturned(call=call, parts=parts):
            kind, by = own.get("kind", "function_call_output"), own.get("by", "call_id")
            return {"type": kind, by: call, "output": _output(parts, own)}
    raise TypeError(type(event).__name__)


def _output(parts: tuple[Part, ...], own: Item) -> Any:
    match parts:
        case (Text(text=text),) if "parts" not in own:
            return text
        case (Data(name="output", data=data),):
            return _copy(data)
        case () if "parts" not in own:
            return ""
    if "parts" not in own and all(isinstance(part, Text) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, Text))
    return _content(parts, own, "input")


def _content(parts: tuple[Part, ...], own: Item, side: str) -> list[Item]:
    left = own.get("parts")
    known = left if isinstance(left, list) and len(left) == len(parts) else [None] * len(parts)
    return [_part(part, more, side) for part, more in zip(parts, known, strict=True)]


def _part(part: Part, more: Item | None, side: str) -> Item:
    match part:
        case Text(text=text):
            kept = _copy(more) if more is not None else {"type": f"{side}_text"}
            return {**kept, _TEXTS.get(kept.get("type", ""), "text"): text}
        case File() if part.media_type.startswith("image/"):
            kept = _copy(more) if more is not None else {"type": "input_image", "detail": "auto"}
            return {**kept, "image_url": _url(part)}
        case Data(name="openai_responses", data=data):
            return dict(_copy(data))
        case Reasoning(text=text):
            return {"type": f"{side}_text", "text": text}
        case File():
            return {"type": f"{side}_text", "text": f"[{part.name or part.media_type}]"}
        case Data():
            return {"type": f"{side}_text", "text": _encoded(part.data)}


def _url(file: File) -> str:
    return data_url(file) if file.data else file.url


def _encoded(args: Any) -> str:
    if isinstance(args, str):
        return args
    return json.dumps(args, ensure_ascii=False, separators=(",", ":"), default=str)


def _copy(value: Any) -> Any:
    """Callers change what they are given."""
    if type(value) is dict:
        return {name: _copy(one) for name, one in value.items()}
    return [_copy(one) for one in value] if type(value) is list else value
