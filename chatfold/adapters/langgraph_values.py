"""Values of LangGraph as what the log holds, and back, each exactly.

- A *value* is what the saver's serialiser makes: a type and bytes. ``cell_of`` gives JSON that says it, and ``value_of`` the same bytes
  again. Where the JSON would not give them back, the cell holds the bytes.
- A *message* of LangChain becomes the events that say it: ``events_of``, and ``message_of`` gives its bytes again. What events have no
  word for is in the meta of the first, under ``langgraph``, and never repeats what they say. Erasing an event erases both.
- In a cell, ``{"said": [first, last, id]}`` stands for a message that these entries say. Messages get their id later than they are first
  seen: ``id`` is in the place of the one they had then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import ormsgpack

from chatfold.eventlog import (
    Data,
    Event,
    File,
    InvalidEvent,
    Json,
    MessageAdded,
    Part,
    Role,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.values import InvalidValue, check_json
from chatfold.projections.shapes.parse import image
from chatfold.projections.shapes.values import data_url

OWN = "langgraph"

Value: TypeAlias = tuple[str, bytes]
"""A type and bytes, as ``dumps_typed`` of a serialiser gives them."""


class Said(NamedTuple):
    """The entries that say a message, and the id that it got later, if it had none then."""

    first: int
    last: int
    id: str | None = None


Say: TypeAlias = Callable[[bytes], Said | None]
"""Records a message as events; None if it is none that events can say."""

_PACKED = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
_MODEL = 5  # the extension type that LangGraph gives to pydantic models
_CODE, _OF, _SAID = "$", "of", "said"


# --- values ----------------------------------------------------------------------------------------------


class _Ext(dict[str, Any]):
    """An extension value: ``{"$": its type, "of": what it holds}``."""


class _Verbatim(dict[str, Any]):
    """Bytes of MessagePack, to be put where they stand."""


def cell_of(value: Value, say: Say | None = None) -> Json:
    """``say``: for values whose messages are recorded as events."""
    kind, data = value
    if kind == "msgpack":
        known: dict[Said, bytes] = {}
        try:
            tree = _readable(unpacked(data), say, known)
            check_json(tree, [])
            if _packed(tree, known) == data:
                return {"is": tree}
        except (ValueError, TypeError, RecursionError, InvalidValue):
            pass
    return {"type": kind, "data": data}


def value_of(cell: Json, messages: Mapping[Said, bytes | None]) -> Value:
    """``messages``: those of ``said_in`` the cell; None for one that was erased."""
    if "is" not in cell:
        return cell["type"], cell["data"]
    return "msgpack", _packed(cell["is"], messages)


def said_in(tree: Json) -> Iterator[Said]:
    """The messages that a cell leaves to events."""
    if type(tree) is dict:
        if (said := _said(tree)) is not None:
            yield said
        else:
            for one in tree.values():
                yield from said_in(one)
    elif type(tree) is list:
        for one in tree:
            yield from said_in(one)


def unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_ext, option=ormsgpack.OPT_NON_STR_KEYS)


def _ext(code: int, data: bytes) -> _Ext:
    return _Ext({_CODE: code, _OF: unpacked(data)})


def pack(tree: Any) -> bytes:
    return ormsgpack.packb(tree, default=_default, option=_PACKED)


def _default(value: Any) -> Any:
    if type(value) is _Ext:
        return ormsgpack.Ext(value[_CODE], pack(value[_OF]))
    if type(value) is _Verbatim:
        code, data = value["code"], value["data"]
        return ormsgpack.Ext(code, data)
    raise TypeError(type(value).__name__)


def _readable(tree: Any, say: Say | None, known: dict[Said, bytes]) -> Json:
    """The same as plain JSON."""
    if type(tree) is _Ext:
        if say is not None and tree[_CODE] == _MODEL:
            message = pack(tree)
            if (said := say(message)) is not None:
                known[said] = message
                return {_SAID: list(said)}
        return {_CODE: tree[_CODE], _OF: _readable(tree[_OF], say, known)}
    if type(tree) is dict:
        return {name: _readable(one, say, known) for name, one in tree.items()}
    return [_readable(one, say, known) for one in tree] if type(tree) is list else tree


def _packed(tree: Json, messages: Mapping[Said, bytes | None]) -> bytes:
    return pack(_revived(tree, messages))


def _revived(tree: Json, messages: Mapping[Said, bytes | None]) -> Any:
    if type(tree) is dict:
        if (said := _said(tree)) is not None:
            message = messages[said]
            return None if message is None else unpacked(message)
        new = {name: _revived(one, messages) for name, one in tree.items()}
        return _Ext(new) if tree.keys() == {_CODE, _OF} and type(tree[_CODE]) is int else new
    return [_revived(one, messages) for one in tree] if type(tree) is list else tree


def _said(tree: dict[str, Json]) -> Said | None:
    match tree:
        case {"said": [int(first), int(last), str() | None as id]} if len(tree) == 1:
            return Said(first, last, id)
    return None


# --- lists -----------------------------------------------------------------------------------------------


def header(count: int) -> bytes:
    """What a list of so many begins with."""
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2) if count < 1 << 16 else b"\xdd" + count.to_bytes(4)


def body_of(value: Value) -> tuple[int, bytes] | None:
    """How many items a list has, and their bytes one after the other; None if it is no list."""
    kind, data = value
    if kind != "msgpack" or not data:
        return None
    if data[0] & 0xF0 == 0x90:
        return data[0] & 0x0F, data[1:]
    if data[0] == 0xDC:
        return int.from_bytes(data[1:3]), data[3:]
    return (int.from_bytes(data[1:5]), data[5:]) if data[0] == 0xDD else None


def items_of(count: int, body: bytes) -> list[bytes] | None:
    """The bytes of each item; None if they cannot be told apart."""

    def verbatim(code: int, data: bytes) -> _Verbatim:
        return _Verbatim({"code": code, "data": data})

    try:
        found = ormsgpack.unpackb(header(count) + body, ext_hook=verbatim, option=ormsgpack.OPT_NON_STR_KEYS)
        items = [pack(one) for one in found]
    except (ValueError, TypeError):
        return None
    return items if b"".join(items) == body else None


# --- messages --------------------------------------------------------------------------------------------


class _Class(NamedTuple):
    """A class of messages: its module, its word, who speaks, and the fields it has after the common ones, with their defaults."""

    module: str
    word: str
    role: Role | None
    own: dict[str, Any]


_COMMON: dict[str, Any] = {
    "additional_kwargs": {},
    "response_metadata": {},
    "type": None,
    "name": None,
    "id": None,
}
_CLASSES = {
    "HumanMessage": _Class("langchain_core.messages.human", "human", "user", {}),
    "SystemMessage": _Class("langchain_core.messages.system", "system", "system", {}),
    "AIMessage": _Class(
        "langchain_core.messages.ai",
        "ai",
        "assistant",
        {"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None},
    ),
    "ToolMessage": _Class(
        "langchain_core.messages.tool",
        "tool",
        None,
        {"tool_call_id": None, "artifact": None, "status": "success"},
    ),
}  # fmt: skip


def events_of(message: bytes) -> tuple[Event, ...] | None:
    """None if events cannot say it: then it is a value like others."""
    tree = unpacked(message)
    match tree[_OF]:
        case [
            str(module),
            str(name),
            {"content": content, "id": str() | None} as fields,
            "model_validate_json",
        ]:
            known = _CLASSES.get(name)
        case _:
            return None
    if known is None or module != known.module or not isinstance(fields.get("tool_call_id", ""), str):
        return None
    parts, blocks = _parts(content)
    calls = _calls(fields)
    defaults = {**_COMMON, **known.own, "type": known.word}
    said = {"content", *(["tool_calls"] if calls else []), *(["tool_call_id"] if known.role is None else [])}
    own: dict[str, Json] = {"class": name}
    if blocks is not None:
        own["blocks"] = blocks
    if calls:
        own["calls"] = len(calls)
    if more := {
        one: value for one, value in fields.items() if one not in said and value != defaults.get(one, _Ext)
    }:
        own["fields"] = more
    try:
        events = _with_meta(known, fields, parts, calls, own)
        check_json(own, [])
        if message_of(events) == message:
            return events
        exact: dict[str, Json] = {"class": name, "exact": message}
        return _with_meta(known, fields, parts, calls, exact | ({"calls": len(calls)} if calls else {}))
    except (InvalidValue, InvalidEvent, TypeError, ValueError, RecursionError):
        return None


def _with_meta(
    known: _Class,
    fields: dict[str, Any],
    parts: tuple[Part, ...],
    calls: list[ToolCalled],
    own: dict[str, Json],
) -> tuple[Event, ...]:
    """The events, of which the first has what they do not say."""
    meta = {OWN: own}
    if known.role is None:
        return (ToolReturned(fields["tool_call_id"], parts, fields.get("status") == "error", meta),)
    if calls and not parts:
        return (ToolCalled(calls[0].call, calls[0].name, calls[0].args, meta), *calls[1:])
    return (MessageAdded(known.role, parts, meta=meta), *calls)


def length_of(event: Event) -> int:
    """How many entries say the message that begins with this event; 0 if it begins none."""
    own = event.meta.get(OWN) if isinstance(event, MessageAdded | ToolCalled | ToolReturned) else None
    if not isinstance(own, dict):
        return 0
    calls = int(own.get("calls", 0))
    return max(1, calls if isinstance(event, ToolCalled) else 1 + calls)


def message_of(events: Sequence[Any], id: str | None = None) -> bytes:
    """The bytes of the message that ``events_of`` made these of. ``id``: in the place of its own."""
    own = events[0].meta[OWN]
    if "exact" in own:
        return own["exact"] if id is None else with_id(own["exact"], id)
    known = _CLASSES[own["class"]]
    calls = [one for one in events if type(one) is ToolCalled]
    parts = () if type(events[0]) is ToolCalled else events[0].parts
    more = own.get("fields", {})
    fields = {"content": _content(parts, own.get("blocks")), **_COMMON, **known.own, "type": known.word}
    if calls:
        fields["tool_calls"] = [
            {"name": one.name, "args": one.args, "id": one.call, "type": "tool_call"} for one in calls
        ]
    if known.role is None:
        fields["tool_call_id"] = events[0].call
    fields |= {name: more[name] for name in more}
    if id is not None:
        fields["id"] = id
    return pack(_Ext({_CODE: _MODEL, _OF: [known.module, own["class"], fields, "model_validate_json"]}))


def with_id(message: bytes, id: str | None) -> bytes:
    """The same message with another id."""
    tree = unpacked(message)
    tree[_OF][2]["id"] = id
    return pack(tree)


def id_of(message: bytes) -> str | None:
    return unpacked(message)[_OF][2]["id"]  # type: ignore[no-any-return]


def is_message(item: bytes) -> bool:
    """Is it one that ``events_of`` looks at?"""
    match unpacked(item):
        case {"$": 5, "of": [str(module), str(), {"id": str() | None}, "model_validate_json"]}:
            return module.startswith("langchain_core.messages.")
    return False


def _calls(fields: dict[str, Any]) -> list[ToolCalled]:
    """The calls of the message; none if one of them is not as it should be, then they stay among its fields."""
    calls = []
    for call in fields.get("tool_calls") or ():
        match call:
            case {"name": str(name), "args": dict(args), "id": str(id), "type": "tool_call"} if (
                len(call) == 4
            ):
                calls.append(ToolCalled(id, name, args))
            case _:
                return []
    return calls


def _parts(content: Any) -> tuple[tuple[Part, ...], list[Json] | None]:
    """The parts, and of each what it does not say; None if the content is a text."""
    if isinstance(content, str):
        return ((Text(content),) if content else ()), None
    parts: list[Part] = []
    blocks: list[Json] = []
    for block in content:
        match block:
            case str(text):
                parts.append(Text(text))
                blocks.append("text")
            case {"type": "text", "text": str(text)}:
                parts.append(Text(text))
                blocks.append({name: value for name, value in block.items() if name != "text"})
            case {"type": "image_url", "image_url": {"url": str(url), **rest}} if (
                not rest and len(block) == 2 and _url(image(url)) == url
            ):
                parts.append(image(url))
                blocks.append("image_url")
            case _:
                parts.append(Data("langchain", block))
                blocks.append(None)
    return tuple(parts), blocks


def _content(parts: tuple[Part, ...], blocks: list[Json] | None) -> Any:
    if blocks is None:
        return "".join(part.text for part in parts if isinstance(part, Text))
    return [_block(part, block) for part, block in zip(parts, blocks, strict=True)]


def _block(part: Any, block: Json) -> Any:
    match block:
        case None:
            return part.data
        case "text":
            return part.text
        case "image_url":
            return {"type": "image_url", "image_url": {"url": _url(part)}}
    rest = dict(block)
    return {"type": rest.pop("type"), "text": part.text, **rest}


def _url(file: File) -> str:
    return data_url(file) if file.data else file.url
